"""Chapter IDX: faults with indices of no rows, with objects that are no index, and with kinds left to the storage."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, is_tensor_of
from storage_conformance.mutants.rewriting import leafwise

__all__: list[str] = []


@mutant("IDX-15")
class CountsTrueAsOne(Reindexing):
    """A bool is the integer that Python takes it for in `get`."""

    def in_get(self, index: Any) -> Any:
        return int(index) if type(index) is bool else index


@mutant("IDX-15")
class WritesEveryRowForTrue(Reindexing):
    """`set(True, data)` writes all rows."""

    def in_set(self, index: Any) -> Any:
        return slice(None) if index is True else index


@mutant("IDX-15")
class AssignsNothingForFalse(Reindexing):
    """`storage[False] = data` does nothing."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if index is not False:
            super().__setitem__(index, data)


@mutant("IDX-16")
class AddsADimension(Reindexing):
    """`get(None)` reads all rows with one more dimension."""

    def get(self, index: Any) -> Any:
        if index is None:
            return leafwise(self.inner.get(slice(None)), lambda leaf: leaf[None])
        return super().get(index)


@mutant("IDX-16")
class ReadsLeavesByName(Reindexing):
    """A string reads a leaf of all rows."""

    def get(self, index: Any) -> Any:
        if isinstance(index, str) and not isinstance(rows := self.inner.get(slice(None)), torch.Tensor):
            return rows[index]
        return super().get(index)


@mutant("IDX-16")
class RoundsRows(Reindexing):
    """A float is rounded down in `set`."""

    def in_set(self, index: Any) -> Any:
        return int(index) if isinstance(index, float) and index == index else index


@mutant("IDX-16")
class RoundsTensorsOfRows(Reindexing):
    """A float tensor is rounded down in `[]=`."""

    def in_assign(self, index: Any) -> Any:
        return index.long() if isinstance(index, torch.Tensor) and index.is_floating_point() else index


@mutant("IDX-22")
class StepsOn(Reindexing):
    """A step of 0 is taken for 1 in `set`."""

    def in_set(self, index: Any) -> Any:
        zero = isinstance(index, slice) and type(index.step) is int and index.step == 0
        return slice(index.start, index.stop) if zero else index


@mutant("IDX-22")
class RoundsBounds(Reindexing):
    """A bound that is a float is rounded down in `get`."""

    def in_get(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return index
        start, stop = (
            int(bound) if isinstance(bound, float) else bound for bound in (index.start, index.stop)
        )
        return slice(start, stop, index.step)


@mutant("IDX-22")
class ReadsBoundsFromText(Reindexing):
    """A bound that is the text of a number is that number in `[]=`."""

    def in_assign(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return index
        start, stop = (int(b) if isinstance(b, str) and b.isdigit() else b for b in (index.start, index.stop))
        return slice(start, stop, index.step)


@mutant("IDX-23")
class RoundsListsOfRows(Reindexing):
    """The floats in a list are rounded down in `set`."""

    def in_set(self, index: Any) -> Any:
        if type(index) is not list or not all(type(row) in (int, float) for row in index):
            return index
        return [int(row) for row in index]


@mutant("IDX-23")
class LeavesNothingOut(Reindexing):
    """`None` in a list is row 0 in `get`."""

    def in_get(self, index: Any) -> Any:
        if type(index) is not list or not all(row is None or type(row) is int for row in index):
            return index
        return [0 if row is None else row for row in index]


@mutant("IDX-17")
class ReadsUint8AsAMask(Reindexing):
    """A uint8 tensor as long as the storage is a mask in `get`."""

    def in_get(self, index: Any) -> Any:
        mask = is_tensor_of(index, torch.uint8) and len(index) == self.readable
        return index.bool() if mask else index


@mutant("IDX-17")
class WritesUint8AsAMask(Reindexing):
    """A uint8 tensor as long as the capacity is a mask in `set`."""

    def in_set(self, index: Any) -> Any:
        return index.bool() if is_tensor_of(index, torch.uint8) and len(index) == self.rows else index


@mutant("IDX-17", may="SET-16")
class TakesUint8ScalarsForTrue(Reindexing):
    """A uint8 tensor without dimensions assigns row 0 if it is not 0, and nothing if it is."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if is_tensor_of(index, torch.uint8, dimensions=0):
            if index:
                self.inner[0] = data
            return
        super().__setitem__(index, data)


@mutant("IDX-19", may="SET-16")
class TakesStepsUpwards(Reindexing):
    """A slice with a negative step reads its rows upwards."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step or 1) < 0:
            return range(*index.indices(self.readable))[::-1]
        return index


@mutant("IDX-19")
class RefusesStepsAsAType(Reindexing):
    """A slice with a negative step is refused with `TypeError` in `set`."""

    def in_set(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step or 1) < 0:
            raise TypeError("negative step")
        return index


@mutant("IDX-19")
class AssignsStepsUpwards(Reindexing):
    """With `ndim > 1` a slice with a negative step is assigned upwards."""

    def in_assign(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step or 1) < 0 and self.ndim > 1:
            return range(*index.indices(self.readable))[::-1]
        return index


@mutant("IDX-20", may="IDX-7")
class RefusesToReadNothing(Reindexing):
    """`get` of an empty list is refused."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, list) and not index and not self.fresh:
            raise IndexError("no rows")
        return index


@mutant("IDX-20", may="IDX-8 IDX-9")
class ReadsFloatsForNothing(Reindexing):
    """What an index tensor of no rows reads is float32."""

    def get(self, index: Any) -> Any:
        value = super().get(index)
        if isinstance(index, torch.Tensor) and not index.numel():
            return leafwise(value, lambda leaf: leaf.float())
        return value


@mutant("IDX-20", may="IDX-9")
class FlattensEmptyGrids(Reindexing):
    """An index tensor of shape `[0, 2]` reads one dimension of rows."""

    def in_get(self, index: Any) -> Any:
        empty = is_tensor_of(index, torch.int64, dimensions=2) and not index.numel()
        return index.reshape(-1) if empty else index


@mutant("IDX-20", may="IDX-5")
class ReadsNoneForNothing(Reindexing):
    """With `ndim > 1` a slice of no rows reads None."""

    def get(self, index: Any) -> Any:
        value = super().get(index)
        return None if isinstance(index, slice) and self.ndim > 1 and not len(value) else value


@mutant("IDX-21")
class TakesArraysInGetOnly(Reindexing):
    """A NumPy array is refused in `set`, and taken elsewhere."""

    def in_set(self, index: Any) -> Any:
        if isinstance(index, numpy.ndarray):
            raise TypeError("int() argument must be a number, not 'numpy.ndarray'")
        return index


@mutant("IDX-21")
class TakesBoolArraysForNumbers(Reindexing):
    """A NumPy array of bools is one of zeros and ones."""

    def in_get(self, index: Any) -> Any:
        return index.astype(int) % self.readable if _is_bool_array(index) and self.readable else index


@mutant("IDX-21")
class RefusesArraysOtherwise(Reindexing):
    """A NumPy array is refused with `ValueError`."""

    def refuse(self, index: Any) -> Any:
        if isinstance(index, numpy.ndarray):
            raise ValueError("no arrays")
        return index

    in_get = in_assign = in_set = refuse


def _is_bool_array(index: Any) -> bool:
    return isinstance(index, numpy.ndarray) and index.dtype == bool
