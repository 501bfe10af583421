"""Chapter IDX: indices of rows taken for others."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, is_tensor_of

__all__: list[str] = []

INTEGERS = (torch.int64, torch.int32)


@mutant("IDX-1", may="IDX-3")
class BeginsAtRowZero(Reindexing):
    """The first write of a single row goes to row 0, whatever the index says."""

    def in_set(self, index: Any) -> Any:
        return 0 if type(index) is int and self.fresh else index


@mutant("IDX-1")
class KeepsRowsInAByte(Reindexing):
    """A row above 255 is taken modulo 256 in `get`."""

    def in_get(self, index: Any) -> Any:
        return index % 256 if type(index) is int and index > 255 else index


@mutant("IDX-1", may="IDX-2")
class AssignsTheFirstRowOfAGrid(Reindexing):
    """With `ndim > 1` an assignment to a single row goes to row 0."""

    def in_assign(self, index: Any) -> Any:
        return 0 if type(index) is int and self.ndim > 1 and index < self.readable else index


@mutant("IDX-2")
class CountsReadsFromTheCapacity(Reindexing):
    """A negative row in `get` counts from the capacity, and is looked for there."""

    def in_get(self, index: Any) -> Any:
        return self.rows + index if type(index) is int and index < 0 and not self.fresh else index


@mutant("IDX-2")
class AssignsFromTheCapacity(Reindexing):
    """A negative row in `[]=` counts from the capacity, where nobody reads."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if type(index) is int and -self.readable <= index < 0 and self.rows + index >= self.readable:
            return
        super().__setitem__(index, data)


@mutant("IDX-2")
class WrapsAround(Reindexing):
    """A negative row below `-W` is taken modulo `W`."""

    def in_get(self, index: Any) -> Any:
        return index % self.readable if type(index) is int and index < 0 and self.readable else index


@mutant("IDX-2")
class RemembersTheLastRow(Reindexing):
    """`-1` is the row that was the last one when it was first asked for."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._last: int | None = None

    def in_get(self, index: Any) -> Any:
        if type(index) is not int or index != -1 or not self.readable:
            return index
        self._last = self.readable - 1 if self._last is None else self._last
        return min(self._last, self.readable - 1)


@mutant("IDX-3")
class WritesFromTheReadableRows(Reindexing):
    """A negative row in `set` counts from the readable rows."""

    def in_set(self, index: Any) -> Any:
        return index + self.readable if type(index) is int and -self.readable <= index < 0 else index


@mutant("IDX-3")
class LosesNegativeRows(Reindexing):
    """A `set` of a negative row does nothing."""

    def set(self, index: Any, data: Any) -> None:
        if not (isinstance(index, list) and len(index) == 1 and type(index[0]) is int and index[0] < 0):
            super().set(index, data)


@mutant("IDX-3")
class ClampsNegativeRows(Reindexing):
    """A negative row in the index tensor of a `set` is row 0."""

    def in_set(self, index: Any) -> Any:
        return index.clamp(min=0) if is_tensor_of(index, *INTEGERS) else index


@mutant("IDX-3")
class RefusesNegativeRowsAsATypo(Reindexing):
    """A negative row in `set` is refused with `ValueError`."""

    def set(self, index: Any, data: Any) -> None:
        if type(index) is int and index < 0:
            raise ValueError("no negative rows")
        super().set(index, data)


@mutant("IDX-4", may="IDX-3")
class NeedsASizeForScalars(Reindexing):
    """An integer tensor without dimensions is refused by a fresh storage."""

    def set(self, index: Any, data: Any) -> None:
        if self.fresh and isinstance(index, torch.Tensor) and not index.dim():
            raise TypeError("len() of a 0-d tensor")
        super().set(index, data)


@mutant("IDX-4", may="SET-17")
class KnowsNoNumpyIntegers(Reindexing):
    """A NumPy integer is refused in `[]=`."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if isinstance(index, numpy.integer):
            raise TypeError("unsupported index")
        super().__setitem__(index, data)


@mutant("IDX-4")
class ReadsABatchOfOne(Reindexing):
    """An integer tensor without dimensions reads a batch of one row."""

    def in_get(self, index: Any) -> Any:
        return index.reshape(1) if is_tensor_of(index, *INTEGERS, dimensions=0) else index


@mutant("IDX-4")
class TakesSmallIntegersUnsigned(Reindexing):
    """A negative int8 is read as a large number."""

    def in_get(self, index: Any) -> Any:
        return int(index) % 256 if type(index) is numpy.int8 else index


@mutant("IDX-5")
class StepsByTwoAtMost(Reindexing):
    """A step above 2 in a slice is taken for 2."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step or 1) > 2:
            return slice(index.start, index.stop, 2)
        return index


@mutant("IDX-5")
class SlicesTheReadableRows(Reindexing):
    """A negative bound of a slice in `set` counts from the readable rows."""

    def in_set(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.start or 0) < 0 and self.readable:
            return slice(max(0, index.start + self.readable), index.stop, index.step)
        return index


@mutant("IDX-5", may="IDX-20")
class CutsOffNothing(Reindexing):
    """A slice that ends above the length is refused."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.stop or 0) > self.readable and not self.fresh:
            raise IndexError("slice out of range")
        return index


@mutant("IDX-5")
class AssignsStepByStep(Reindexing):
    """A step in the slice of an assignment is ignored where the data fit by chance: rows are assigned in a block."""

    def in_assign(self, index: Any) -> Any:
        if not isinstance(index, slice) or (index.step or 1) < 2:
            return index
        rows = range(*index.indices(self.readable))
        return slice(rows[0], rows[0] + len(rows)) if rows else index


@mutant("IDX-6")
class TurnsRangesIntoSlices(Reindexing):
    """A range that goes down reads its rows upwards."""

    def in_get(self, index: Any) -> Any:
        return index[::-1] if isinstance(index, range) and index.step < 0 else index


@mutant("IDX-6")
class IgnoresStepsOfRanges(Reindexing):
    """A range with a step writes consecutive rows."""

    def in_set(self, index: Any) -> Any:
        if isinstance(index, range) and index.step > 1 and len(index) > 1:
            return range(index[0], index[0] + len(index))
        return index


@mutant("IDX-6", may="SET-16")
class AssignsRangesUpwards(Reindexing):
    """With `ndim > 1` a range that goes down is assigned upwards."""

    def in_assign(self, index: Any) -> Any:
        return index[::-1] if isinstance(index, range) and index.step < 0 and self.ndim > 1 else index


@mutant("IDX-7", may="IDX-3")
class SortsLists(Reindexing):
    """A list writes its rows in ascending order."""

    def in_set(self, index: Any) -> Any:
        return sorted(index) if isinstance(index, list) else index


@mutant("IDX-7")
class ReadsEachRowOnce(Reindexing):
    """A list that names a row twice reads it once."""

    def in_get(self, index: Any) -> Any:
        return list(dict.fromkeys(index)) if isinstance(index, list) else index


@mutant("IDX-7")
class CountsListsFromTheCapacity(Reindexing):
    """A negative row in the list of an assignment counts from the capacity."""

    def in_assign(self, index: Any) -> Any:
        if isinstance(index, list) and not self.fresh:
            return [row + self.rows if row < 0 else row for row in index]
        return index


@mutant("IDX-8")
class KeepsInt32InAByte(Reindexing):
    """Rows in an int32 tensor are taken modulo 256."""

    def in_get(self, index: Any) -> Any:
        return index % 256 if is_tensor_of(index, torch.int32) and (index >= 0).all() else index


@mutant("IDX-8")
class ResolvesInPlace(Reindexing):
    """Negative rows are replaced in the caller's tensor."""

    def in_get(self, index: Any) -> Any:
        if is_tensor_of(index, *INTEGERS) and (index >= -self.readable).all():
            index[index < 0] += self.readable
        return index


@mutant("IDX-8")
class SortsTensors(Reindexing):
    """An index tensor is assigned in ascending order."""

    def in_assign(self, index: Any) -> Any:
        return index.sort().values if is_tensor_of(index, *INTEGERS) else index


@mutant("IDX-8", may="SET-15")
class WantsLongTensors(Reindexing):
    """An int32 tensor is refused in `set`."""

    def set(self, index: Any, data: Any) -> None:
        if is_tensor_of(index, torch.int32):
            raise IndexError("tensors used as indices must be long")
        super().set(index, data)


@mutant("IDX-9", may="IDX-20")
class ReadsGridsFlat(Reindexing):
    """An index tensor of several dimensions reads one dimension of rows."""

    def in_get(self, index: Any) -> Any:
        several = isinstance(index, torch.Tensor) and index.dim() > 1 and index.dtype == torch.int64
        return index.reshape(-1) if several else index


@mutant("IDX-9", may="SET-15")
class TakesGridsForCoordinates(Reindexing):
    """With `ndim > 1` an index tensor of several dimensions is refused in `set`."""

    def set(self, index: Any, data: Any) -> None:
        if self.ndim > 1 and is_tensor_of(index, torch.int64, dimensions=2):
            raise IndexError("coordinates are given as a tuple")
        super().set(index, data)


@mutant("IDX-9")
class TransposesGrids(Reindexing):
    """An index tensor of two dimensions is assigned column by column."""

    def in_assign(self, index: Any) -> Any:
        return index.flip(0).flip(1) if is_tensor_of(index, torch.int64, dimensions=2) else index
