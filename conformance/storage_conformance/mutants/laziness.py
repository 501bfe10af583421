"""Chapter LAZY: faults of lazy allocation."""

from __future__ import annotations

import array
from typing import Any

import numpy
import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils._pytree import tree_map

from storage_conformance.mutants.capacity import Measured
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant
from storage_conformance.structure import tensors

__all__: list[str] = []


def _cloned(data: Any) -> Any:
    return data.clone() if hasattr(data, "clone") else tree_map(torch.clone, data)


def _spoil(tensor: torch.Tensor) -> None:
    """Fills memory as if it had never been written."""
    tensor.fill_(True) if tensor.dtype == torch.bool else tensor.fill_(77)


class Gappy(Measured):
    """Not a mutant itself: knows which rows come below the length without having been written."""

    def set(self, index: Any, data: Any) -> None:
        before = 0 if self.inner.shape is None else self.inner.shape[0]
        super().set(index, data)
        after = 0 if self.inner.shape is None else self.inner.shape[0]
        if after > before:
            named = _rows(index, self.rows, self.trailing)
            for row in range(before, after):
                if row not in named:
                    self.skipped(row)

    def skipped(self, row: int) -> None:
        """A row came below the length, and was not written."""


def _rows(index: Any, rows: int, trailing: torch.Size) -> set[int]:
    """The rows that an index names."""
    numbers = torch.arange(rows).reshape(rows, *[1] * len(trailing)).expand(rows, *trailing)
    if isinstance(index, range):
        index = list(index)
    return set(numbers[index].reshape(-1).tolist())


@mutant("LAZY-1", may="LAZY-4 LAZY-5 LEN-4 SET-2 CKPT-5 DTYPE-4 IDX-5 OBS-5")
class ShowsWhatMemoryHeld(Gappy):
    """A row that was skipped holds whatever was in memory."""

    def skipped(self, row: int) -> None:
        item = self.inner.get(row)
        for tensor in tensors(item):
            _spoil(tensor)
        self.inner[row] = item


@mutant("LAZY-1", may="LAZY-4 LAZY-5")
class ClearsTheFirstLeafOnly(Gappy):
    """Of a row that was skipped, leaves after the first one hold whatever was in memory."""

    def skipped(self, row: int) -> None:
        item = self.inner.get(row)
        for tensor in tensors(item)[1:]:
            _spoil(tensor)
        self.inner[row] = item


@mutant("LAZY-1", may="LAZY-4")
class RepeatsTheItem(Gappy):
    """A row skipped by the first write holds the item written, as if memory had been made by `expand`."""

    def set(self, index: Any, data: Any) -> None:
        self._first = self.fresh
        super().set(index, data)

    def skipped(self, row: int) -> None:
        if self._first:
            self.inner[row] = _cloned(self.inner.get(-1))


@mutant("LAZY-1", may="LAZY-4 LEN-6")
class LeavesElementsAsTheyAre(Gappy):
    """Of a row written in part, the other elements hold whatever was in memory."""

    def set(self, index: Any, data: Any) -> None:
        partial = (
            type(index) is tuple
            and len(index) == self.ndim > 1
            and all(type(entry) is int for entry in index)
        )
        before = len(self.inner)
        super().set(index, data)
        if partial and len(self.inner) > before:
            kept = _cloned(self.inner.get(index))
            row = self.inner.get(index[0])
            for tensor in tensors(row):
                _spoil(tensor)
            self.inner[index[0]] = row
            self.inner[index] = kept


@mutant("LAZY-2", may="ERR-5")
class ReservesAByteForEachElement(Delegate):
    """A table of flags is made at construction."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._written = array.array("b", [0]) * self.inner.max_size


@mutant("LAZY-2")
class ReservesATensor(Delegate):
    """A tensor of priorities is made at construction."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._priorities = torch.ones(self.inner.max_size) if self.inner.ndim > 1 else None


@mutant("LAZY-2")
class CountsInThirtyTwoBits(Delegate):
    """A size that does not fit into 32 bits is refused."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        if self.inner.max_size >= 2**31:
            raise ValueError("max_size is too large")


@mutant("LAZY-3", may="ERR-1 SET-12 CAP-1")
class RemembersTheTypeOfRejectedData(Measured):
    """Rejected data fix the container type."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._type: type | None = None

    def set(self, index: Any, data: Any) -> None:
        structured = isinstance(data, torch.Tensor | TensorDictBase) or is_tensorclass(data)
        if self.fresh and structured and self._type not in (None, type(data)):
            raise TypeError(f"expected {self._type}, got {type(data)}")
        try:
            super().set(index, data)
        except Exception:
            if self.fresh and structured:
                self._type = type(data)
            raise


@mutant("LAZY-3", may="ERR-1 SET-8 SET-9")
class RemembersTheTrailingShapeOfRejectedData(Measured):
    """With `ndim > 1` the trailing shape of a rejected TensorDict is kept."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._rejected: torch.Size | None = None

    def set(self, index: Any, data: Any) -> None:
        known = isinstance(data, TensorDictBase) or is_tensorclass(data)
        trailing = torch.Size(data.batch_size[-(self.ndim - 1) :]) if known and self.ndim > 1 else None
        if self.fresh and trailing is not None and self._rejected not in (None, trailing):
            raise ValueError(f"expected {self._rejected}, got {trailing}")
        try:
            super().set(index, data)
        except Exception:
            if self.fresh and trailing is not None and type(index) is int:
                self._rejected = trailing
            raise


@mutant("LAZY-3", may="ERR-1 LEN-1")
class HasAShapeAfterRejectedData(Measured):
    """A storage whose first write was refused for its rows has a shape."""

    _refused = False

    def set(self, index: Any, data: Any) -> None:
        try:
            super().set(index, data)
        except IndexError:
            self._refused = True
            raise

    @property
    def shape(self) -> torch.Size | None:
        if self.inner.shape is None and self._refused:
            return torch.Size([0] * self.ndim)
        return self.inner.shape


class Remembering(Gappy):
    """Not a mutant itself: shows `kept` items in rows that were skipped."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.kept: list[Any] = []

    def items(self) -> list[Any]:
        rows = len(self.inner) // self.trailing.numel()
        return [_cloned(self.inner.get(row)) for row in range(rows)]

    def skipped(self, row: int) -> None:
        if row < len(self.kept):
            self.inner[row] = self.kept[row]


@mutant("LAZY-4", may="LAZY-1 COPY-2")
class KeepsRowsBehindALoad(Remembering):
    """A load sets the length; what stood behind it comes back with the next gap."""

    def loads(self, path: Any) -> None:
        before = self.items()
        super().loads(path)
        self.kept = before


@mutant("LAZY-4", may="LAZY-1 QRY-9 COPY-2")
class KeepsRowsBehindAClear(Remembering):
    """`clear` sets the length; what stood there comes back with the next gap."""

    def clear(self) -> None:
        self.kept = self.items()
        super().clear()


@mutant("LAZY-4", may="LAZY-1 COPY-2")
class KeepsOneLeafBehindAClear(Remembering):
    """`clear` forgets the first leaf of a row; the others come back with the next gap."""

    def clear(self) -> None:
        self.kept = self.items()
        for item in self.kept:
            for tensor in tensors(item)[:1]:
                tensor.zero_()
        super().clear()


@mutant("LAZY-4", may="LAZY-1 COPY-2 COPY-5 COPY-6")
class KeepsRowsBehindAStateDict(Remembering):
    """`load_state_dict` sets the length; what stood behind it comes back with the next gap."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        before = self.items()
        super().load_state_dict(state)
        self.kept = before


LARGE = 2**24
"""Bytes; below that nobody notices."""


@mutant("LAZY-5")
class TouchesItsMemory(Measured):
    """The first write fills all memory of the capacity."""

    def set(self, index: Any, data: Any) -> None:
        fresh = self.fresh
        super().set(index, data)
        if fresh and not self.fresh:
            self._block = self.allocated(tensors(self.inner.get(slice(0, 1))))

    def allocated(self, leaves: list[torch.Tensor]) -> list[Any]:
        sizes = [leaf.numel() * leaf.itemsize * self.rows for leaf in leaves]
        return [numpy.ones(size, numpy.uint8) for size in sizes if size > LARGE]


@mutant("LAZY-5")
class TouchesTheMemoryOfLaterLeaves(TouchesItsMemory):
    """The first write fills all memory of the leaves after the first one."""

    def allocated(self, leaves: list[torch.Tensor]) -> list[Any]:
        return super().allocated(leaves[1:])


@mutant("LAZY-5")
class GrowsToTheHighestRow(Measured):
    """Memory reaches, and is filled, up to the highest row written."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        if self.inner.shape is not None and self.inner.shape[0]:
            size = (
                sum(leaf.numel() * leaf.itemsize for leaf in tensors(self.inner.get(0))) * self.inner.shape[0]
            )
            self._block = numpy.ones(size, numpy.uint8) if size > LARGE else None


@mutant("LAZY-6")
class LearnsFromAnEmptyWrite(Measured):
    """A first write of zero rows fixes the container type."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._type: type | None = None

    def set(self, index: Any, data: Any) -> None:
        if self.fresh and self._type is not None and type(data) is not self._type:
            raise TypeError(f"expected {self._type}, got {type(data)}")
        super().set(index, data)
        if self.fresh:
            self._type = type(data)


@mutant("LAZY-6", may="LEN-1 SET-15 ERR-1")
class HasAShapeAfterAnEmptyWrite(Measured):
    """After a first write of zero rows by a slice there is a shape."""

    _touched = False

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        self._touched = self._touched or isinstance(index, slice)

    @property
    def shape(self) -> torch.Size | None:
        if self.inner.shape is None and self._touched:
            return torch.Size([0] * self.ndim)
        return self.inner.shape


@mutant("LAZY-6", may="DEV-4 CAP-1 ERR-1")
class KnowsItsDeviceAfterAnEmptyWrite(Measured):
    """A first write of zero rows decides on the device."""

    _decided = False

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        self._decided = True

    @property
    def device(self) -> Any:
        return torch.device("cpu") if self.fresh and self._decided else self.inner.device
