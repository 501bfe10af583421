"""Which rows are written or read: the kinds of index, moving on from round to round as those of a ring do."""

from __future__ import annotations

import zlib
from typing import Any

import torch

CONTIGUOUS = ("slice", "range", "list", "tensor")
SCATTERED = "scattered"
WRAPPING = ("wrapping list", "wrapping tensor")


def cursors(kind: str, capacity: int, batch: int, *, seed: str, count: int = 24) -> list[Any]:
    """Indices of ``batch`` rows out of ``capacity``, each elsewhere.

    Operations that are compared need seeds of their own: one that finds its rows in the cache because another one
    has just used them is measured as something that it is not.
    """
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))

    def starts(low: int, high: int) -> list[int]:
        return torch.randint(low, high, (count,), generator=generator).tolist()

    if kind == "scattered":
        return [torch.randperm(capacity, generator=generator)[:batch] for _ in range(count)]
    if kind in WRAPPING:
        wrapping = [
            torch.arange(start, start + batch) % capacity for start in starts(capacity - batch + 1, capacity)
        ]
        return [rows.tolist() for rows in wrapping] if kind == "wrapping list" else wrapping
    if kind == "row":
        return starts(0, capacity)
    runs = [range(start, start + batch) for start in starts(0, capacity - batch + 1)]
    if kind == "slice":
        return [slice(run.start, run.stop) for run in runs]
    if kind == "list":
        return [list(run) for run in runs]
    return runs if kind == "range" else [torch.arange(run.start, run.stop) for run in runs]
