"""A storage that hands every call to the reference; a mutant overrides the one place where it errs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

from lazy_tensor_storage import LazyTensorStorage

__all__ = ["Delegate"]


class Delegate:
    """Behaves like the reference. `self.inner` is the reference storage; `_make_inner` makes another one.

    A dump, a copy and a pickle go through the overridden methods or the inner storage as the mutant likes.
    """

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        self.inner = LazyTensorStorage(max_size, device=device, ndim=ndim)

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)

    def get(self, index: Any) -> Any:
        return self.inner.get(index)

    def __getitem__(self, index: Any) -> Any:
        return self.get(index)

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = data

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)

    def __contains__(self, row: Any) -> bool:
        return row in self.inner

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def shape(self) -> torch.Size | None:
        return self.inner.shape

    @property
    def max_size(self) -> int:
        return self.inner.max_size

    @property
    def ndim(self) -> int:
        return self.inner.ndim

    @property
    def device(self) -> Any:
        return self.inner.device

    @property
    def last_row(self) -> int | None:
        return self.inner.last_row

    def attach(self, entity: Any) -> None:
        self.inner.attach(entity)

    def detach(self, entity: Any) -> None:
        self.inner.detach(entity)

    def clear(self) -> None:
        self.inner.clear()

    def dumps(self, path: str | os.PathLike[str]) -> None:
        self.inner.dumps(path)

    def dump(self, path: str | os.PathLike[str]) -> None:
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        self.dumps(path)

    def loads(self, path: str | os.PathLike[str]) -> None:
        self.inner.loads(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        self.loads(path)

    def state_dict(self) -> dict[str, Any]:
        return self.inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state)
