"""Writes and reads of a storage, and of bare tensors, to be timed in turns."""

from __future__ import annotations

from typing import Any

import torch

from .cursors import CONTIGUOUS, WRAPPING, cursors
from .floor import Floor
from .records import Record, leaves
from .rounds import Operation

BATCHES = 4
"""Different batches that are written in turn."""


def filled(factory: Any, record: Record) -> Any:
    """A storage of ``record.capacity`` rows, all of them written."""
    storage = factory(record.capacity)
    for start in range(0, record.capacity, 512):
        stop = min(record.capacity, start + 512)
        storage.set(torch.arange(start, stop), record.make(stop - start))
    return storage


def storage_operations(name: str, factory: Any, record: Record, batch: int) -> dict[str, Operation]:
    """Writes by each kind of cursor, of one row, and a read, each on a storage of its own.

    On one storage for all, an operation would find in the cache what another one has just written there.
    """
    batches = [record.make(batch) for _ in range(BATCHES)]
    items = [made[0].clone() for made in batches]

    def indices(kind: str) -> list[Any]:
        return cursors(kind, record.capacity, batch, seed=f"{name} {kind}")

    operations: dict[str, Operation] = {}
    for kind in (*CONTIGUOUS, *WRAPPING, "scattered"):
        operations[f"{name} {kind}"] = _write(filled(factory, record), indices(kind), batches)
    operations[f"{name} row"] = _write(filled(factory, record), indices("row"), items)
    operations[f"{name} read"] = _read(filled(factory, record), indices("scattered"))
    return operations


def _write(storage: Any, indices: list[Any], batches: list[Any]) -> Operation:
    return lambda turn: storage.set(indices[turn % len(indices)], batches[turn % len(batches)])


def _read(storage: Any, indices: list[Any]) -> Operation:
    return lambda turn: storage.get(indices[turn % len(indices)])


def floor_operations(record: Record, batch: int) -> dict[str, Operation]:
    """The same with bare tensors, by all ways that torch and NumPy have."""
    batches = [leaves(record.make(batch)) for _ in range(BATCHES)]

    def floor() -> Floor:
        return Floor(record, record.capacity)

    def writing(write: Any, kind: str, seed: str) -> Operation:
        indices = cursors(kind, record.capacity, batch, seed=seed)
        return lambda turn: write(indices[turn % len(indices)], batches[turn % BATCHES])

    def reading(gather: Any, seed: str) -> Operation:
        indices = cursors("scattered", record.capacity, batch, seed=seed)
        return lambda turn: gather(indices[turn % len(indices)])

    operations = {
        "bare copy": writing(floor().copy, "slice", "bare copy"),
        "bare two copies": writing(floor().copy_twice, "wrapping tensor", "bare two copies"),
    }
    for name in floor().scatters():
        operations[f"bare scatter {name}"] = writing(floor().scatters()[name], "scattered", name)
    for name in floor().gathers():
        operations[f"bare gather {name}"] = reading(floor().gathers()[name], name)
    return operations
