"""Storages that take an index for another one: where the faults of chapter IDX are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from storage_conformance.mutants.capacity import Measured
from storage_conformance.structure import tensors

__all__ = ["Reindexing", "is_tensor_of", "kept", "put"]


class Reindexing(Measured):
    """Not a mutant itself: says what it takes an index for in `get`, `[]=` and `set`."""

    @property
    def readable(self) -> int:
        """`W`."""
        return self.inner.shape[0] if self.inner.shape else 0

    def in_get(self, index: Any) -> Any:
        return index

    def in_assign(self, index: Any) -> Any:
        return index

    def in_set(self, index: Any) -> Any:
        return index

    def get(self, index: Any) -> Any:
        return self.inner.get(self.in_get(index))

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(self.in_set(index), data)

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[self.in_assign(index)] = data

    def __iter__(self) -> Iterator[Any]:
        return (self.get(row) for row in range(self.readable))


def is_tensor_of(index: Any, *dtypes: torch.dtype, dimensions: int = 1) -> bool:
    """Whether an index is a tensor of one of these dtypes and of that many dimensions."""
    return isinstance(index, torch.Tensor) and index.dtype in dtypes and index.dim() == dimensions


def kept(storage: Reindexing, index: Any) -> list[torch.Tensor]:
    """Copies of the leaves of some rows, for a fault that loses what is written there."""
    return [leaf.clone() for leaf in tensors(storage.inner.get(index))]


def put(storage: Reindexing, index: Any, leaves: Sequence[torch.Tensor]) -> None:
    """Writes to rows without a word to anybody: through the views that the reference gives for a basic index."""
    with torch.no_grad():
        for mine, new in zip(tensors(storage.inner.get(index)), leaves, strict=True):
            mine.copy_(new)
