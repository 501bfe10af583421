"""Chapters SET and LEN: faults that show in many rows, wide rows, many leaves, or after many writes."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant
from storage_conformance.structure import tensors

__all__: list[str] = []


def _single(index: Any) -> int | None:
    """The row that an index of one row names."""
    if isinstance(index, torch.Tensor) and index.dtype == torch.int64 and index.numel() == 1:
        index = int(index)
    if isinstance(index, list | range) and len(index) == 1:
        index = index[0]
    return index if type(index) is int and index >= 0 else None


class _Losing(Delegate):
    """Not a mutant itself: zeroes the row that `lost` names after a write of a single row."""

    writes = 0

    def lost(self, row: int) -> int | None:
        raise NotImplementedError

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.writes += 1
        single = _single(index)
        row = None if single is None else self.lost(single)
        if row is not None:
            for leaf in tensors(self.inner.get(row)):  # views: the storage follows
                leaf.zero_()


@mutant("SET-1")
class CountsRowsInEightBits(_Losing):
    """Row 255 is lost when it is written alone."""

    def lost(self, row: int) -> int | None:
        return row if row == 255 else None


@mutant("SET-1")
class LosesWideRows(_Losing):
    """A row with a leaf of more than 2**16 bytes is lost when it is written alone."""

    def lost(self, row: int) -> int | None:
        return row if any(leaf.nbytes > 2**16 for leaf in tensors(self.inner.get(row))) else None


@mutant("SET-1")
class ForgetsTheThirtiethWrite(_Losing):
    """The thirtieth write is lost."""

    def lost(self, row: int) -> int | None:
        return row if self.writes == 30 else None


@mutant("SET-2", may="SET-1")
class TouchesTheFirstRowFromTheLast(_Losing):
    """Writing the last of more than sixteen rows zeroes the first."""

    def lost(self, row: int) -> int | None:
        return 0 if row > 16 and row == self.inner.max_size - 1 and self.ndim == 1 else None


@mutant("SET-1", may="SET-2")
class KnowsEightLeaves(_Losing):
    """The ninth leaf of a row written alone is lost."""

    def lost(self, row: int) -> int | None:
        for leaf in tensors(self.inner.get(row))[8:]:
            leaf.zero_()
        return None


@mutant("SET-1", may="SET-2")
class KnowsThirtyTwoLeaves(_Losing):
    """A leaf after the thirty-second of a row written alone is lost."""

    def lost(self, row: int) -> int | None:
        for leaf in tensors(self.inner.get(row))[32:]:
            leaf.zero_()
        return None


@mutant("LEN-4", may="LEN-2 LEN-3 LEN-5 LEN-6 LEN-8 LEN-9")
class BelievesInSmallGaps(Delegate):
    """A write that leaves out more than sixteen rows raises the length by sixteen."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        self.inner.set(index, data)
        self.short = _single(index) is not None and self.ndim == 1 and len(self.inner) - before > 17

    short = False

    def __len__(self) -> int:
        return len(self.inner) - self.short
