"""Chapter SET: faults of assignments and of the first write."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, kept, put
from storage_conformance.mutants.rewriting import leafwise

__all__: list[str] = []


@mutant("SET-16", may="SET-15 IDX-13")
class AssignsNoElements(Reindexing):
    """A mask of elements can be read and not be assigned."""

    def in_assign(self, index: Any) -> Any:
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool and index.dim() > 1:
            raise IndexError("too many dimensions")
        return index


@mutant("SET-16")
class AssignsNothingWhenFull(Reindexing):
    """An assignment to rows of a full storage with `ndim == 1` changes a copy of them."""

    def __setitem__(self, index: Any, data: Any) -> None:
        full = not self.fresh and self.ndim == 1 and self.readable == self.rows
        before = kept(self, slice(None)) if full else None
        super().__setitem__(index, data)
        if before is not None:
            put(self, slice(None), before)


@mutant("SET-16")
class AssignsNothingDownwards(Reindexing):
    """A slice with a negative step can be read and not be assigned."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step or 1) < 0:
            return range(*index.indices(self.readable))
        return index


@mutant("SET-17")
class WritesUnseen(Reindexing):
    """An assignment between the length and the capacity is accepted, and nobody reads it."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if type(index) is int and not self.fresh and self.readable <= index < self.rows:
            return
        super().__setitem__(index, data)


@mutant("SET-17", may="LEN-9")
class AssignsLikeSet(Reindexing):
    """An assignment with an index tensor adds rows."""

    def __setitem__(self, index: Any, data: Any) -> None:
        beyond = (
            isinstance(index, torch.Tensor) and index.dim() == 1 and index.dtype == torch.int64 and len(index)
        )
        if beyond and not self.fresh and self.readable <= int(index.max()) < self.rows:
            self.inner.set(index, data)
        else:
            super().__setitem__(index, data)


@mutant("SET-17")
class BeginsWithAnAssignment(Reindexing):
    """An assignment to a fresh storage is its first write."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if self.fresh and type(index) is int and index >= 0:
            self.inner.set(index, data)
        else:
            super().__setitem__(index, data)


@mutant("SET-17")
class RefusesAssignmentsAtRuntime(Reindexing):
    """With `ndim > 1` an assignment above the length is refused with `RuntimeError`."""

    def __setitem__(self, index: Any, data: Any) -> None:
        try:
            super().__setitem__(index, data)
        except IndexError as error:
            if self.ndim > 1 and isinstance(index, list):
                raise RuntimeError(str(error)) from None
            raise


@mutant("SET-19")
class GuessesTheTrailingShape(Reindexing):
    """A first write of the element `(row, column)` makes rows of `column + 1` elements."""

    def set(self, index: Any, data: Any) -> None:
        if (
            self.fresh
            and isinstance(index, tuple)
            and len(index) == self.ndim == 2
            and all(type(entry) is int for entry in index)
            and isinstance(data, torch.Tensor)
        ):
            row, column = index
            self.inner.set(
                row, torch.cat([torch.zeros_like(data)[None].expand(column, *data.shape), data[None]])
            )
        else:
            super().set(index, data)


@mutant("SET-19")
class IgnoresTheFirstElements(Reindexing):
    """A first write of some elements does nothing."""

    def set(self, index: Any, data: Any) -> None:
        columns = isinstance(index, tuple) and len(index) == self.ndim > 1
        if not (
            self.fresh
            and columns
            and isinstance(index[0], slice)
            and index[0] == slice(None)
            and type(index[1]) is int
        ):
            super().set(index, data)


@mutant("SET-19")
class WritesWholeRowsAtFirst(Reindexing):
    """A mask in the first write names rows, even if it is one of elements."""

    def set(self, index: Any, data: Any) -> None:
        if self.fresh and isinstance(index, torch.Tensor) and index.dtype == torch.bool and index.dim() == 2:
            one = torch.zeros(index.shape[1])
            self.inner.set(
                0,
                one
                if isinstance(data, torch.Tensor)
                else leafwise(data, lambda leaf: leaf[: index.shape[1]]),
            )
        else:
            super().set(index, data)
