"""Storages that do something to the rows of a dump or of a state dict on their way in.

What is loaded passes through another storage of the reference, where a fault can change it through the public
interface; the storage itself takes it over in one step, so that everything else about the load is right.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.structure import tensors

__all__ = ["Altering", "Path", "PlainStates", "every_row", "leaf_tensors", "refill", "rows_of"]

Path = str | os.PathLike[str]
ROOM = 1 << 16
"""Elements of the storage aside: more than any dump of the suite holds, and no memory until they are written."""


def rows_of(storage: Any) -> int:
    """`W`."""
    return storage.shape[0] if storage.shape is not None else 0


def every_row(storage: Any) -> Any:
    """All rows in one batch."""
    return storage.get(slice(0, rows_of(storage)))


def leaf_tensors(storage: Any) -> list[torch.Tensor]:
    """Views of the readable rows of each leaf: what is written there is written to the storage."""
    return tensors(every_row(storage)) if rows_of(storage) else []


def refill(storage: Any, rows: Any, count: int) -> LazyTensorStorage:
    """A storage like `storage`, with other rows in it, and the same last-written row if there is such a row."""
    fresh = LazyTensorStorage(ROOM, ndim=storage.ndim)
    fresh.set(range(count), rows)
    if storage.last_row is not None and storage.last_row < count:
        fresh.set(storage.last_row, fresh.get(storage.last_row))
    return fresh


class Altering(Delegate):
    """Changes what a dump holds before it takes it over."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        """What is taken over in place of the storage that holds the dump."""
        return aside

    def aside(self, path: Path) -> LazyTensorStorage:
        """A storage that holds what a dump holds."""
        aside = LazyTensorStorage(ROOM, ndim=self.ndim)
        aside.loads(path)
        return aside

    def loads(self, path: Path) -> None:
        self.inner.load_state_dict(self.alter(self.aside(path)).state_dict())


class PlainStates(Delegate):
    """Changes what a state dict holds before it takes it over."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        """What is taken over in place of the storage that holds the state."""
        return aside

    def load_state_dict(self, state: dict[str, Any]) -> None:
        aside = LazyTensorStorage(ROOM, ndim=self.ndim)
        aside.load_state_dict(state)
        if aside.shape is None:
            self.inner.load_state_dict(state)
        else:
            copied = refill(aside, every_row(aside), rows_of(aside)) if rows_of(aside) else aside
            self.inner.load_state_dict(self.alter(copied).state_dict())
