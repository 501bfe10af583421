"""Chapter SET: faults of what a write changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, kept, put
from storage_conformance.structure import tensors

__all__: list[str] = []


@mutant("SET-1", may="SET-13 SET-14")
class ForgetsTheThirdWrite(Reindexing):
    """The third write is lost where it overwrites rows."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._writes = 0

    def set(self, index: Any, data: Any) -> None:
        readable = self.readable
        before = kept(self, slice(0, readable)) if readable else []
        super().set(index, data)
        self._writes += 1
        if self._writes == 3 and readable == self.readable:
            put(self, slice(0, readable), before)


@mutant("SET-1", may="SET-13 SET-14")
class OverwritesTheFirstLeaf(Reindexing):
    """Overwriting rows changes the first leaf only."""

    def set(self, index: Any, data: Any) -> None:
        rows = slice(0, self.readable)
        before = kept(self, rows) if self.readable else []
        super().set(index, data)
        if before:
            put(self, rows, [*kept(self, rows)[:1], *before[1:]])


@mutant("SET-1")
class WritesSixtyFourRowsAtOnce(Reindexing):
    """Of more than 64 rows the rest is not overwritten."""

    def set(self, index: Any, data: Any) -> None:
        rest = slice(64, self.readable)
        several = isinstance(index, list | range) or (isinstance(index, torch.Tensor) and index.dim() == 1)
        before = (
            kept(self, rest)
            if self.readable > 64 and (isinstance(index, slice) or (several and len(index) > 64))
            else None
        )
        super().set(index, data)
        if before is not None:
            put(self, rest, before)


@mutant("SET-2", may="SET-1")
class TouchesTheNextRow(Reindexing):
    """A write to a single row of a full storage zeroes the next one."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        rows = [index] if type(index) is int else index
        one = isinstance(rows, list | range) or (isinstance(rows, torch.Tensor) and rows.dim() == 1)
        if one and len(rows) == 1 and self.readable == self.rows > 1:
            row = (int(rows[0]) + 1) % self.rows
            put(self, row, [torch.zeros_like(leaf) for leaf in kept(self, row)])


@mutant("SET-2", may="IDX-12 SET-16")
class AssignsTheColumnOfRowZero(Reindexing):
    """With `ndim > 1` an assignment to one element assigns that column of row 0 too."""

    def __setitem__(self, index: Any, data: Any) -> None:
        super().__setitem__(index, data)
        one = isinstance(index, tuple) and len(index) == self.ndim > 1
        if one and all(type(entry) is int for entry in index):
            put(self, (0, *index[1:]), tensors(data))


@mutant("SET-7")
class GivesItself(Reindexing):
    """`set` gives the storage."""

    def set(self, index: Any, data: Any) -> Any:
        super().set(index, data)
        return self


@mutant("SET-7")
class GivesTheNumberOfRows(Reindexing):
    """`set` of an index tensor gives how many rows it wrote."""

    def set(self, index: Any, data: Any) -> Any:
        super().set(index, data)
        return len(index) if isinstance(index, torch.Tensor) and index.dim() == 1 else None


def named_twice(storage: Reindexing, index: Any) -> Iterator[tuple[int, list[int]]]:
    """The rows that an index names several times, each with the places where it does."""
    if isinstance(index, torch.Tensor) and (index.dtype == torch.bool or index.dim() != 1):
        return
    if not isinstance(index, list | torch.Tensor):
        return
    places: dict[int, list[int]] = {}
    for place, row in enumerate(index):
        places.setdefault(int(row) % storage.readable, []).append(place)
    yield from ((row, found) for row, found in places.items() if len(found) > 1)


@mutant("SET-13", may="SET-14")
class TakesLeavesApart(Reindexing):
    """Where a row is named several times, one leaf holds the first item and the others the last."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        if isinstance(data, list) or not tensors(data):
            return
        for row, places in named_twice(self, index):
            leaves = tensors(self.inner.get(row))
            put(self, row, [tensors(data)[0][places[0]], *leaves[1:]])


@mutant("SET-13", may="SET-14")
class AddsItemsUp(Reindexing):
    """A row of integers that a list assigns several times holds the sum of the items."""

    def __setitem__(self, index: Any, data: Any) -> None:
        super().__setitem__(index, data)
        if isinstance(index, list) and isinstance(data, torch.Tensor) and data.dtype == torch.int64:
            for row, places in named_twice(self, index):
                put(self, row, [data[places].sum(0)])


@mutant("SET-14")
class KeepsTheFirst(Reindexing):
    """A row that is named several times holds the first of the items."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        if not isinstance(data, list):
            for row, places in named_twice(self, index):
                put(self, row, [leaf[places[0]] for leaf in tensors(data)])


@mutant("SET-15")
class RefusesToWriteNothing(Reindexing):
    """A write with an empty list is refused."""

    def set(self, index: Any, data: Any) -> None:
        if isinstance(index, list) and not index:
            raise IndexError("list index out of range")
        super().set(index, data)


@mutant("SET-15", may="IDX-10 SET-16")
class RefusesMasksOfNothing(Reindexing):
    """An assignment with a mask of no row is refused."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool and not index.any():
            raise ValueError("nothing to assign")
        super().__setitem__(index, data)


@mutant("SET-15")
class ZeroesARowForNothing(Reindexing):
    """With `ndim > 1` a write of no rows zeroes row 0."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        if isinstance(index, range) and not index and self.ndim > 1 and self.readable:
            put(self, 0, [torch.zeros_like(leaf) for leaf in kept(self, 0)])
