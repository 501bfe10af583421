"""Chapter IDX: faults of masks, `...` and indices of elements."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, is_tensor_of
from storage_conformance.mutants.rewriting import leafwise

__all__: list[str] = []


def is_mask(index: Any) -> bool:
    return is_tensor_of(index, torch.bool)


def padded(mask: torch.Tensor, size: int) -> torch.Tensor:
    """A mask cut or filled up to another length."""
    return torch.cat([mask, mask.new_zeros(max(0, size - len(mask)))])[:size]


@mutant("IDX-10", may="IDX-18 SET-15")
class MasksTheReadableRows(Reindexing):
    """A mask in `set` has to be as long as the readable rows."""

    def in_set(self, index: Any) -> Any:
        if not is_mask(index) or not self.readable:
            return index
        if len(index) != self.readable:
            raise IndexError("the mask has another length than the storage")
        return padded(index, self.rows)


@mutant("IDX-10")
class ReadsMasksBackwards(Reindexing):
    """A mask reads its rows from the last to the first."""

    def in_get(self, index: Any) -> Any:
        if is_mask(index) and len(index) == self.readable:
            return index.nonzero()[:, 0].flip(0)
        return index


@mutant("IDX-10")
class TakesMasksForNumbers(Reindexing):
    """With `ndim > 1` a mask of a single row assigns row 0."""

    def in_assign(self, index: Any) -> Any:
        single = is_mask(index) and self.ndim > 1 and int(index.sum()) == 1 and len(index) == self.readable
        return [0] if single else index


@mutant("IDX-11")
class WantsRowsInSet(Reindexing):
    """`...` is refused in `set`."""

    def set(self, index: Any, data: Any) -> None:
        if index is Ellipsis:
            raise TypeError("no rows")
        super().set(index, data)


@mutant("IDX-11")
class ReadsNothingForAnEllipsis(Reindexing):
    """`...` reads all rows but the last one."""

    def in_get(self, index: Any) -> Any:
        return slice(0, -1) if index is Ellipsis else index


@mutant("IDX-11")
class AssignsTheCapacity(Reindexing):
    """`...` in `[]=` wants data for the capacity."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if index is Ellipsis and self.readable and self.readable < self.rows:
            raise ValueError("shape mismatch")
        super().__setitem__(index, data)


def is_tuple(index: Any, *kinds: type) -> bool:
    return isinstance(index, tuple) and bool(index) and isinstance(index[0], kinds)


@mutant("IDX-12", may="IDX-14 SET-15")
class WantsNumbersInTuples(Reindexing):
    """A tuple that begins with a slice is refused in `set`."""

    def set(self, index: Any, data: Any) -> None:
        if is_tuple(index, slice) and not self.fresh:
            raise TypeError("int() argument must be a number, not 'slice'")
        super().set(index, data)


@mutant("IDX-12")
class KnowsNoNegativeColumns(Reindexing):
    """A negative column in a tuple is refused in `get`."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, tuple) and any(type(entry) is int and entry < 0 for entry in index[1:]):
            raise IndexError("negative column")
        return index


@mutant("IDX-12")
class ForgetsTheThirdDimension(Reindexing):
    """With `ndim == 3` index tensors for the last dimension are taken in descending order."""

    def in_assign(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 3 and isinstance(index[2], torch.Tensor):
            return (*index[:2], index[2].flip(-1))
        return index


@mutant("IDX-12")
class PutsTensorsInFront(Reindexing):
    """The dimension of an index tensor behind a slice comes first, as NumPy has it."""

    def get(self, index: Any) -> Any:
        value = super().get(index)
        apart = is_tuple(index, int) and len(index) == 3 and isinstance(index[1], slice)
        if apart and isinstance(index[2], torch.Tensor) and isinstance(value, torch.Tensor):
            return value.transpose(0, 1)
        return value


@mutant("IDX-13")
class SelectsColumnByColumn(Reindexing):
    """A mask of elements reads them in reversed order."""

    def get(self, index: Any) -> Any:
        value = super().get(index)
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool and index.dim() > 1:
            return (
                value.flip(0) if isinstance(value, torch.Tensor) else value[torch.arange(len(value)).flip(0)]
            )
        return value


@mutant("IDX-13", may="IDX-20")
class SelectsWholeRows(Reindexing):
    """With `ndim == 3` a mask of elements reads the whole rows in which it has one."""

    def in_get(self, index: Any) -> Any:
        if is_tensor_of(index, torch.bool, dimensions=3) and self.ndim == 3 and len(index) == self.readable:
            return index.flatten(1).any(1)
        return index


@mutant("IDX-14")
class ReachesIntoFeatures(Reindexing):
    """A tuple that is too long reads single features."""

    def get(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) > self.ndim:
            rest = index[self.ndim :]
            return leafwise(self.inner.get(index[: self.ndim]), lambda leaf: leaf[rest])
        return super().get(index)


@mutant("IDX-14")
class CutsTuples(Reindexing):
    """What a tuple has beyond `ndim` entries is ignored in `set`."""

    def in_set(self, index: Any) -> Any:
        return index[: self.ndim] if isinstance(index, tuple) else index


@mutant("IDX-14")
class RefusesLongTuplesOtherwise(Reindexing):
    """A tuple that is too long is refused with `ValueError` in `[]=`."""

    def in_assign(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) > self.ndim and not self.fresh:
            raise ValueError("too many dimensions")
        return index


@mutant("IDX-18")
class CutsMasks(Reindexing):
    """A mask that is too long is cut in `get`."""

    def in_get(self, index: Any) -> Any:
        return index[: self.readable] if is_mask(index) and self.readable else index


@mutant("IDX-18")
class FillsMasksUp(Reindexing):
    """A mask that is too short is filled up in `set`."""

    def in_set(self, index: Any) -> Any:
        return (
            padded(index, self.rows)
            if is_mask(index) and 0 < len(index) < self.rows and not self.fresh
            else index
        )


@mutant("IDX-18")
class AssignsMasksOfTheCapacity(Reindexing):
    """A mask as long as the capacity is taken in `[]=`."""

    def in_assign(self, index: Any) -> Any:
        if is_mask(index) and not self.fresh and len(index) == self.rows and not index[self.readable :].any():
            return index[: self.readable]
        return index


@mutant("IDX-18")
class AcceptsMasksOfNoRows(Reindexing):
    """An empty mask is taken for one of no rows."""

    def in_get(self, index: Any) -> Any:
        return [] if is_mask(index) and not len(index) else index
