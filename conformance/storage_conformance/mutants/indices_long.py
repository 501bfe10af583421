"""Chapter IDX: faults of indices that name many rows."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, is_tensor_of

__all__: list[str] = []


@mutant("IDX-5")
class ReadsLongSlicesFromTheFront(Reindexing):
    """A slice of more than 64 rows reads as many from the first on."""

    def in_get(self, index: Any) -> Any:
        if not isinstance(index, slice) or self.fresh:
            return index
        rows = range(*index.indices(self.readable))
        return slice(0, len(rows)) if rows.step == 1 and len(rows) > 64 else index


@mutant("IDX-6")
class WritesLongRangesForwards(Reindexing):
    """A range of more than 32 rows that counts downwards is written upwards."""

    def in_set(self, index: Any) -> Any:
        return index[::-1] if isinstance(index, range) and index.step < 0 and len(index) > 32 else index


@mutant("IDX-7")
class ReadsEightOfAList(Reindexing):
    """A list of more than eight rows reads the eighth again for all that follow."""

    def in_get(self, index: Any) -> Any:
        long = type(index) is list and len(index) > 8
        return index[:8] + index[7:8] * (len(index) - 8) if long else index


@mutant("IDX-8", may="IDX-20")
class AssignsLongTensorsInOrder(Reindexing):
    """An assignment to more than 128 rows sorts them first."""

    def in_assign(self, index: Any) -> Any:
        long = is_tensor_of(index, torch.int64) and index.numel() > 128
        return index.sort().values if long else index


@mutant("IDX-8")
class ReadsLongTensorsInEights(Reindexing):
    """Of an int64 tensor of 9 to 15 rows the ninth and later ones are read in order."""

    def in_get(self, index: Any) -> Any:
        if is_tensor_of(index, torch.int64) and 8 < index.numel() < 16:
            return torch.cat([index[:8], index[8:].sort().values])
        return index


@mutant("IDX-9")
class ReadsLongGridsInOrder(Reindexing):
    """A grid of more than 16 rows is sorted before it is read."""

    def in_get(self, index: Any) -> Any:
        if is_tensor_of(index, torch.int64, dimensions=2) and index.numel() > 16:
            return index.reshape(-1).sort().values.reshape(index.shape)
        return index


@mutant("IDX-10")
class ReadsFewOfAMask(Reindexing):
    """A mask of more than 64 rows reads the first 64 of them, and the last one again."""

    def in_get(self, index: Any) -> Any:
        if not is_tensor_of(index, torch.bool) or int(index.sum()) <= 64:
            return index
        rows = index.nonzero().reshape(-1)
        return torch.cat([rows[:64], rows[64:65].expand(len(rows) - 64)])
