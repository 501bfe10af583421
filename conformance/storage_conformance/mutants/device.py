"""Chapter DEV: faults of the device."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils._pytree import tree_leaves, tree_map

from storage_conformance.mutants.capacity import Measured
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []

CPU = torch.device("cpu")


@mutant("DEV-1", may="DEV-7")
class IsAutoByDefault(Delegate):
    """The device is taken from the first data unless one was given."""

    def __init__(self, max_size: int, *, device: Any = "auto", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)


@mutant("DEV-1", may="NEW-7 COPY-1 ERR-1 ERR-3")
class HasNoDeviceWhileFresh(Measured):
    """Before the first write there is no device."""

    @property
    def device(self) -> Any:
        return None if self.fresh and self.inner.device == CPU else self.inner.device


@mutant("DEV-2", may="DEV-1 DEV-7 COPY-1 COPY-3 ERR-1 ERR-2 ERR-3 ERR-4 QRY-1 QRY-10")
class KeepsTheSpelling(Delegate):
    """A device that was given as a string stays a string."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._spelled = device

    @property
    def device(self) -> Any:
        plain = isinstance(self._spelled, str) and self._spelled not in ("auto", "cpu:0")
        return self._spelled if plain and self.inner.shape is not None else self.inner.device


@mutant("DEV-2")
class WantsAString(Delegate):
    """A `torch.device` is refused."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        if not isinstance(device, str):
            raise TypeError(f"device has to be a string, got {device!r}")
        super().__init__(max_size, device=device, ndim=ndim)


@mutant("DEV-3")
class TakesNoneForTheCpu(Delegate):
    """A device of None means the CPU."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device="cpu" if device is None else device, ndim=ndim)


@mutant("DEV-3", may="ERR-5")
class LooksAtItsDeviceLater(Delegate):
    """A device that torch does not know is noticed at the first write."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        try:
            super().__init__(max_size, device=device, ndim=ndim)
        except RuntimeError:
            super().__init__(max_size, ndim=ndim)


@mutant("DEV-3")
class LowersTheCaseOfItsDevice(Delegate):
    """`"AUTO"` is taken for `"auto"`."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device.lower() if isinstance(device, str) else device, ndim=ndim)


@mutant("DEV-4", may="DEV-6 LAZY-6 ERR-1 ERR-3 ERR-4")
class DecidesAtOnce(Delegate):
    """`"auto"` means the best device there is, decided at construction."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device="cpu" if device == "auto" else device, ndim=ndim)


@mutant("DEV-4", may="ERR-1 ERR-3 ERR-4 LAZY-6 DEV-6 LEN-1 QRY-1")
class IsADeviceNamedMeta(Measured):
    """While it is not known, the device of a storage with `ndim > 1` is the meta device."""

    @property
    def device(self) -> Any:
        unknown = self.inner.device == "auto" and self.ndim > 1
        return torch.device("meta") if unknown else self.inner.device


@mutant("DEV-4", may="ERR-1 DEV-5 DEV-6 LAZY-3")
class LearnsItsDeviceFromRejectedData(Measured):
    """Data that are rejected decide on the device."""

    _decided = False

    def set(self, index: Any, data: Any) -> None:
        try:
            super().set(index, data)
        except Exception:
            self._decided = True
            raise

    @property
    def device(self) -> Any:
        return CPU if self.inner.device == "auto" and self._decided else self.inner.device


AUTO = (
    "DEV-4 DEV-7 DEV-8 COPY-1 COPY-2 COPY-3 COPY-5 COPY-6 COPY-7 CKPT-5 CKPT-9 CKPT-21 ERR-1 ERR-2 ERR-3 ERR-4 QRY-1 "
    "QRY-9 QRY-10"
)


class Auto(Measured):
    """Not a mutant itself: knows whether it was asked to find out its device, and the type of its items."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.automatic = device == "auto"
        self.data: Any = None
        self.loaded = False

    def set(self, index: Any, data: Any) -> None:
        fresh = self.fresh
        super().set(index, data)
        if fresh and not self.fresh:
            self.data = data

    def loads(self, path: Any) -> None:
        fresh = self.fresh
        super().loads(path)
        self.loaded = self.loaded or fresh


@mutant("DEV-5", may=AUTO)
class AsksTheContainer(Auto):
    """The device found out is the one that the first TensorDict names, which may be none."""

    @property
    def device(self) -> Any:
        asked = self.automatic and isinstance(self.data, TensorDictBase) and not self.fresh
        return self.data.device if asked else self.inner.device


@mutant("DEV-5", may=AUTO)
class AsksTensorsOnly(Auto):
    """The device of a storage of dicts is never found out."""

    @property
    def device(self) -> Any:
        return "auto" if self.automatic and type(self.data) is dict else self.inner.device


@mutant("DEV-5", may=AUTO)
class StaysAutoForTensorclasses(Auto):
    """The device of a storage of tensorclasses is never found out."""

    @property
    def device(self) -> Any:
        return "auto" if self.automatic and is_tensorclass(self.data) else self.inner.device


@mutant("DEV-5", may=AUTO)
class StaysAutoForLists(Auto):
    """The device is not found out where the first data are a list of items."""

    @property
    def device(self) -> Any:
        return "auto" if self.automatic and type(self.data) is list else self.inner.device


def _is_meta(value: Any) -> list[bool]:
    return [leaf.is_meta for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _with_values(tensor: Any) -> Any:
    return (
        torch.zeros_like(tensor, device="cpu")
        if isinstance(tensor, torch.Tensor) and tensor.is_meta
        else tensor
    )


def _materialized(value: Any) -> Any:
    """The data with zeros for leaves without values."""
    if isinstance(value, TensorDictBase) and value.device is not None:
        value = value.copy().clear_device_()
    return tree_map(_with_values, value)


@mutant("DEV-6", may="ERR-1 DEV-9")
class TakesTheDeviceOfTheFirstLeaf(Measured):
    """Leaves on other devices than the first one are moved to that, on the first write."""

    def set(self, index: Any, data: Any) -> None:
        meta = _is_meta(data) if self.inner.device == "auto" else []
        super().set(index, _materialized(data) if meta and not meta[0] and any(meta) else data)


@mutant("DEV-6", may="ERR-1 DEV-9")
class MovesLeavesOfTrees(Measured):
    """The leaves of a tree with a first leaf elsewhere are brought together."""

    def set(self, index: Any, data: Any) -> None:
        meta = _is_meta(data) if self.inner.device == "auto" and type(data) is dict else []
        super().set(index, _materialized(data) if meta and meta[0] and not all(meta) else data)


@mutant("DEV-7", may="DEV-2 COPY-1 COPY-3")
class KeepsTheOrdinal(Delegate):
    """`"cpu:0"` is read back with its ordinal, which the leaves do not have."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._given = device

    @property
    def device(self) -> Any:
        return torch.device("cpu", 0) if str(self._given) == "cpu:0" else self.inner.device


@mutant("DEV-7", may="DEV-8 SET-1 DATA-2")
class NamesAnotherDeviceInContainers(Delegate):
    """The TensorDict of a row names the device with an ordinal."""

    def get(self, index: Any) -> Any:
        found = super().get(index)
        if isinstance(found, TensorDictBase) and type(index) is int:
            found._device = torch.device("cpu", 0)
        return found


@mutant("DEV-8", may="CKPT-5 CKPT-9 CKPT-10 COPY-1 COPY-2 COPY-3 COPY-7 QRY-1 DEV-5 ERR-1 ERR-2 CKPT-21")
class StaysAutoAfterALoad(Auto):
    """A load into a fresh storage does not tell its device."""

    @property
    def device(self) -> Any:
        return "auto" if self.automatic and self.loaded and not self.fresh else self.inner.device


@mutant("DEV-8", may="CKPT-5 CKPT-9 CKPT-10 COPY-1 COPY-2 COPY-3 COPY-7 QRY-1 DEV-5 ERR-1 ERR-2 CKPT-21")
class HasNoDeviceAfterALoad(Auto):
    """After a load of tensors the device found out is None, since no container names it."""

    @property
    def device(self) -> Any:
        if self.automatic and self.loaded and len(self.inner) and isinstance(self.inner.get(0), torch.Tensor):
            return None
        return self.inner.device


@mutant("DEV-9", may="DEV-6 ERR-1")
class StoresZerosForMeta(Measured):
    """Leaves without values are stored as zeros."""

    def set(self, index: Any, data: Any) -> None:
        super().set(
            index, _materialized(data) if self.inner.device != "auto" and any(_is_meta(data)) else data
        )


@mutant("DEV-9", may="DEV-6 ERR-1 SET-1")
class LooksAtTheFirstLeaf(Measured):
    """Only the first leaf is asked whether it has values, once the storage is allocated."""

    def set(self, index: Any, data: Any) -> None:
        meta = _is_meta(data) if not self.fresh else []
        super().set(index, _materialized(data) if any(meta) and not meta[0] else data)


@mutant("DEV-9", may="ERR-2 SET-16")
class AssignsWithoutALook(Measured):
    """An assignment of data without values is taken."""

    def __setitem__(self, index: Any, data: Any) -> None:
        super().__setitem__(index, _materialized(data) if any(_is_meta(data)) else data)


@mutant("DEV-9", may="LAZY-3 ERR-1")
class IgnoresMetaData(Measured):
    """A write of tensors without values is ignored."""

    def set(self, index: Any, data: Any) -> None:
        if self.inner.device == "auto" or not (isinstance(data, torch.Tensor) and data.is_meta):
            super().set(index, data)
