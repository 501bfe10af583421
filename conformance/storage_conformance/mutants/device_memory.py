"""Chapter DEV: faults that only an accelerator shows."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.capacity import Measured
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []

CPU = torch.device("cpu")


def _devices(data: Any) -> set[torch.device]:
    return {leaf.device for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor)}


@mutant("DEV-10")
class TakesItsOwnDeviceOnly(Delegate):
    """Data from another device are refused by a storage on an accelerator once several rows are named."""

    def set(self, index: Any, data: Any) -> None:
        home = self.inner.device
        if not isinstance(index, int) and home not in ("auto", CPU) and _devices(data) - {home}:
            raise RuntimeError("Expected all tensors to be on the same device")
        super().set(index, data)


@mutant("DEV-11")
class WantsItsIndicesAtHome(Delegate):
    """Index tensors on the CPU are refused by a storage on an accelerator."""

    def set(self, index: Any, data: Any) -> None:
        if isinstance(index, torch.Tensor) and self.inner.device != CPU and index.device == CPU:
            raise RuntimeError("the index is on the CPU")
        super().set(index, data)


@mutant("DEV-12")
class CannotReadIndicesElsewhere(Delegate):
    """Index tensors on an accelerator are refused by a storage on the CPU."""

    def get(self, index: Any) -> Any:
        if isinstance(index, torch.Tensor) and self.inner.device == CPU and index.device != CPU:
            raise RuntimeError("indices should be on cpu")
        return super().get(index)


class _Doubling(Measured):
    """Not a mutant itself: takes the memory of its rows once more for the time of the first write."""

    def place(self, data: Any) -> torch.device:
        return torch.device(self.inner.device)

    def set(self, index: Any, data: Any) -> None:
        plain = self.fresh and isinstance(data, torch.Tensor) and type(index) is int and data.numel() > 1000
        aside = torch.empty(self.max_size, *data.shape, device=self.place(data)) if plain else None
        super().set(index, data)
        del aside


@mutant("DEV-13")
class AllocatesTwice(_Doubling):
    """The first write builds the rows aside and copies them."""


@mutant("DEV-14")
class AllocatesWhereTheDataAre(_Doubling):
    """The first write builds the rows on the device of the data, and moves them."""

    def place(self, data: Any) -> torch.device:
        return data.device


@mutant("DEV-15", may="DEV-7")
class LoadsWhereTheDumpIsRead(Delegate):
    """A load into a fresh storage on an accelerator leaves the rows on the CPU."""

    def loads(self, path: Any) -> None:
        if self.inner.shape is None and self.inner.device != "auto":
            self.inner = LazyTensorStorage(self.max_size, ndim=self.ndim)
        super().loads(path)


@mutant("DEV-16")
class FallsBackToTheCpu(Delegate):
    """Where the device has not the memory, the storage becomes one on the CPU, and raises all the same."""

    def set(self, index: Any, data: Any) -> None:
        try:
            super().set(index, data)
        except (MemoryError, RuntimeError):
            if self.inner.shape is None and self.inner.device != CPU:
                self.inner = LazyTensorStorage(self.max_size, ndim=self.ndim)
            raise


@mutant("DEV-17")
class UnpicklesToTheCpu(Delegate):
    """A pickle comes back on the CPU."""

    def __reduce__(self) -> Any:
        aside = LazyTensorStorage(self.max_size, ndim=self.ndim)
        aside.load_state_dict(self.inner.state_dict())
        return _around, (aside,)


def _around(inner: LazyTensorStorage) -> UnpicklesToTheCpu:
    storage = UnpicklesToTheCpu(1)
    storage.inner = inner
    return storage
