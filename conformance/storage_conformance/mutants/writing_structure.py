"""Chapter SET: faults with data of another shape or number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing
from storage_conformance.mutants.rewriting import is_lazy, is_plain, leafwise, nested
from storage_conformance.structure import tensors

__all__: list[str] = []

Adapt = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def adapted(data: Any, like: Any, adapt: Adapt) -> Any:
    """Data each leaf of which is adapted to the leaf that is there."""
    if is_lazy(data) or len(tensors(data)) != len(tensors(like)):
        return data
    there = iter(tensors(like))
    return leafwise(data, lambda leaf: adapt(leaf, next(there)))


def expanded(leaf: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if leaf.shape == like.shape or leaf.is_meta:
        return leaf
    try:
        return leaf.expand(like.shape)
    except RuntimeError:
        return leaf


def reshaped(leaf: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    fits = leaf.numel() == like.numel() and leaf.shape != like.shape and leaf.numel() and not leaf.is_meta
    return leaf.reshape(like.shape) if fits and leaf.shape[:1] == like.shape[:1] else leaf


@mutant("SET-8")
class BroadcastsFeatures(Reindexing):
    """A leaf of a single row is broadcast to the shape that is there."""

    def set(self, index: Any, data: Any) -> None:
        known = type(index) is int and 0 <= index < self.readable
        super().set(index, adapted(data, self.inner.get(index), expanded) if known else data)


@mutant("SET-8")
class ReshapesFeatures(Reindexing):
    """A leaf of several rows with as many numbers is assigned in the shape that is there."""

    def __setitem__(self, index: Any, data: Any) -> None:
        known = isinstance(index, range) and not self.fresh and len(index) and max(index) < self.readable
        super().__setitem__(index, adapted(data, self.inner.get(index), reshaped) if known else data)


@mutant("SET-8")
class BroadcastsNestedFeatures(Reindexing):
    """With `ndim > 1` leaves of containers are broadcast in an assignment to a row."""

    def __setitem__(self, index: Any, data: Any) -> None:
        known = type(index) is int and 0 <= index < self.readable and self.ndim > 1 and nested(data)
        super().__setitem__(index, adapted(data, self.inner.get(index), expanded) if known else data)


def rows_named(storage: Reindexing, index: Any, rows: int) -> int | None:
    """How many rows an index names; None where it is no plain sequence of rows."""
    if isinstance(index, slice):
        return len(range(*index.indices(rows)))
    if isinstance(index, torch.Tensor):
        return len(index) if index.dim() == 1 and index.dtype != torch.bool else None
    return len(index) if isinstance(index, list | range) else None


def count_of(data: Any) -> int | None:
    """The rows of a batch."""
    if isinstance(data, list):
        return len(data)
    if is_plain(data):
        return len(data) if data.dim() else None
    return len(data) if nested(data) and data.batch_size else None


@mutant("SET-9")
class RepeatsOneRow(Reindexing):
    """One row is written to all rows that the index names."""

    def set(self, index: Any, data: Any) -> None:
        named = None if self.fresh else rows_named(self, index, self.rows)
        if named and named > 1 and count_of(data) == 1 and not isinstance(data, list) and not is_lazy(data):
            data = torch.cat([data] * named)
        super().set(index, data)


@mutant("SET-9")
class DropsRowsTooMany(Reindexing):
    """What a batch has beyond the rows of the index is not assigned."""

    def __setitem__(self, index: Any, data: Any) -> None:
        named, given = None if self.fresh else rows_named(self, index, self.readable), count_of(data)
        if named and given and given > named:
            data = data[:named]
        super().__setitem__(index, data)


@mutant("SET-9")
class BeginsWithWhatIsThere(Reindexing):
    """A first write of all rows takes fewer."""

    def set(self, index: Any, data: Any) -> None:
        if (
            self.fresh
            and isinstance(index, slice)
            and index == slice(None)
            and self.ndim == 1
            and is_plain(data)
        ):
            index = slice(0, len(data)) if data.dim() and 0 < len(data) < self.rows else index
        super().set(index, data)
