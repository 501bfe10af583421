"""Chapter CAP: faults of the capacity."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils._pytree import tree_leaves, tree_map

from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []


class Measured(Delegate):
    """Not a mutant itself: knows its capacity."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.size = int(max_size)

    @property
    def fresh(self) -> bool:
        return self.inner.shape is None

    @property
    def trailing(self) -> torch.Size:
        """`T`; empty while fresh."""
        return torch.Size(()) if self.inner.shape is None else self.inner.shape[1:]

    @property
    def rows(self) -> int:
        """`R`; the size while fresh."""
        return -(-self.size // self.trailing.numel())


@mutant("CAP-1")
class RoundsItsSizeUpAtOnce(Measured):
    """The size is rounded up to an even one before the trailing shape is known."""

    @property
    def max_size(self) -> int:
        return self.size + self.size % 2 if self.fresh and self.ndim > 1 else self.inner.max_size


@mutant("CAP-1")
class HasNoSizeWhileFresh(Measured):
    """`max_size` is 0 before the first write."""

    @property
    def max_size(self) -> int:
        return 0 if self.fresh else self.inner.max_size


@mutant("CAP-1", may="ERR-1")
class FixesItsSizeWithRejectedData(Measured):
    """`max_size` follows from the trailing shape of the first data, accepted or not."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._rejected = 1

    def set(self, index: Any, data: Any) -> None:
        try:
            self.inner.set(index, data)
        except Exception:
            if type(index) is int and isinstance(data, torch.Tensor) and self.fresh:
                self._rejected = max(1, data.shape[: self.ndim - 1].numel())
            raise

    @property
    def max_size(self) -> int:
        return -(-self.size // self._rejected) * self._rejected if self.fresh else self.inner.max_size


@mutant("CAP-2", may="LEN-8 CKPT-10 COPY-8 QRY-10 ERR-3 ERR-4")
class KeepsTheArgument(Measured):
    """`max_size` stays the argument where `P` does not divide it."""

    @property
    def max_size(self) -> int:
        return self.size


@mutant("CAP-2", may="LEN-8 CKPT-10 COPY-8 QRY-10 ERR-3 ERR-4")
class CountsRows(Measured):
    """With `ndim > 2` `max_size` counts rows."""

    @property
    def max_size(self) -> int:
        return self.inner.max_size if self.fresh or self.ndim < 3 else self.rows


@mutant("CAP-2", may="LEN-8 CKPT-10 COPY-8 QRY-10 ERR-3 ERR-4")
class CountsFeatures(Measured):
    """The features of a tensor are multiplied into `max_size`."""

    @property
    def max_size(self) -> int:
        item = self.inner.get(0) if len(self.inner) else None
        if not isinstance(item, torch.Tensor):
            return self.inner.max_size
        return self.rows * max(1, item.numel())


@mutant("CAP-2", may="LEN-8 CKPT-10 COPY-8 QRY-10 ERR-3 ERR-4")
class CountsEachLeaf(Measured):
    """Each leaf of a dict is multiplied into `max_size`."""

    @property
    def max_size(self) -> int:
        item = self.inner.get(0) if len(self.inner) else None
        return self.inner.max_size * (len(item) if type(item) is dict else 1)


@mutant("CAP-3", may="SET-1 SET-6 IDX-1 LAZY-3 LEN-2 LEN-4 LEN-5 LEN-7 LEN-8")
class RoundsDown(Measured):
    """Where `P` does not divide the size, the last row cannot be written."""

    def set(self, index: Any, data: Any) -> None:
        if self.ndim > 1 and type(index) is int:
            trailing = _trailing(data, self.ndim)
            width = trailing.numel()
            if width and self.size % width and index == self.size // width:
                raise IndexError(f"row {index} is out of range")
        self.inner.set(index, data)


@mutant("CAP-3", may="SET-1 SET-4 SET-15 SET-16 LEN-4 LEN-8 LAZY-1 CAP-6 IDX-1 ERR-3")
class CannotHoldASingleRow(Measured):
    """A storage of one row refuses it: a sentinel takes a place."""

    def set(self, index: Any, data: Any) -> None:
        if self.size == 1:
            raise IndexError("index is out of range")
        self.inner.set(index, data)


@mutant("CAP-3", may="SET-1 SET-6 LEN-8 LEN-2 LEN-4")
class DropsTheLastRow(Measured):
    """What is written to the last row, while others are there, gets lost."""

    def set(self, index: Any, data: Any) -> None:
        if type(index) is int and not self.fresh and self.rows > 2 and index == self.rows - 1:
            kept = _cloned(data)
            self.inner.set(index, _zeroed(kept))
            return
        self.inner.set(index, data)


def _cloned(data: Any) -> Any:
    return data.clone() if hasattr(data, "clone") else tree_map(torch.clone, data)


def _zeroed(data: Any) -> Any:
    return tree_map(torch.zeros_like, data)


def _trailing(data: Any, ndim: int) -> torch.Size:
    """`T` of an item."""
    if isinstance(data, TensorDictBase) or is_tensorclass(data):
        return torch.Size(data.batch_size[: ndim - 1])
    found = [leaf for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor)]
    return torch.Size(found[0].shape[: ndim - 1]) if found else torch.Size(())


@mutant("CAP-4", may="ERR-1 ERR-5 OBS-11")
class Wraps(Measured):
    """A row at or above the capacity is taken modulo the capacity, once there is one."""

    def set(self, index: Any, data: Any) -> None:
        wraps = type(index) is int and not self.fresh and index >= self.rows
        self.inner.set(index % self.rows if wraps else index, data)


@mutant("CAP-4", may="ERR-1 ERR-5 OBS-11")
class DropsRowsBeyond(Measured):
    """Rows of a list that are at or above the capacity are left out without a word."""

    def set(self, index: Any, data: Any) -> None:
        if (
            type(index) is list
            and not self.fresh
            and any(row >= self.rows for row in index if type(row) is int)
        ):
            keep = [place for place, row in enumerate(index) if row < self.rows]
            self.inner.set([index[place] for place in keep], data[keep])
            return
        self.inner.set(index, data)


@mutant("CAP-4", may="ERR-1 ERR-5 OBS-11")
class ClampsTensors(Measured):
    """Rows of an index tensor that are at or above the capacity are clamped to the last one."""

    def set(self, index: Any, data: Any) -> None:
        known = (
            isinstance(index, torch.Tensor)
            and index.dtype == torch.int64
            and index.dim() == 1
            and not self.fresh
        )
        self.inner.set(index.clamp(max=self.rows - 1) if known else index, data)


@mutant("CAP-4", may="ERR-1 ERR-5 OBS-11")
class CountsElementsForRows(Measured):
    """With `ndim > 1` rows are compared with `max_size`, and those between are written nowhere."""

    def set(self, index: Any, data: Any) -> None:
        if type(index) is int and not self.fresh and self.rows <= index < self.inner.max_size:
            return
        self.inner.set(index, data)


@mutant("CAP-4", may="ERR-1 ERR-5")
class CutsRangesOnAFreshStorage(Measured):
    """A first write of more rows than there are is cut."""

    def set(self, index: Any, data: Any) -> None:
        cut = (
            isinstance(index, range)
            and self.fresh
            and self.ndim == 1
            and index.start < self.size < index.stop
        )
        if cut and isinstance(data, torch.Tensor | TensorDictBase) and data.shape[:1] == (len(index),):
            index, data = range(index.start, self.size), data[: self.size - index.start]
        self.inner.set(index, data)


@mutant("CAP-5", may="ERR-1 LAZY-3 SET-8")
class AddsDimensions(Measured):
    """A tensor with too few dimensions gets more of size one, if it comes first."""

    def set(self, index: Any, data: Any) -> None:
        if (
            self.fresh
            and isinstance(data, torch.Tensor)
            and type(index) is int
            and data.dim() < self.ndim - 1
        ):
            data = data.reshape(*data.shape, *[1] * (self.ndim - 1 - data.dim()))
        self.inner.set(index, data)


@mutant("CAP-5", may="ERR-1 LAZY-3 SET-8")
class ReadsTheBatchSizeOffTheLeaves(Measured):
    """A batch size that is too short is made longer, where all leaves share the next dimension."""

    def set(self, index: Any, data: Any) -> None:
        if isinstance(data, TensorDictBase) and isinstance(index, range) and data.batch_dims < self.ndim:
            data = data.copy()
            data.auto_batch_size_(self.ndim)
        self.inner.set(index, data)


@mutant("CAP-5", may="ERR-1 SET-8 SET-9")
class BroadcastsOverTheTrailingShape(Measured):
    """Once the trailing shape is known, an item without it fills all elements."""

    def set(self, index: Any, data: Any) -> None:
        single = type(index) is int and isinstance(data, torch.Tensor) and data.dim() == 0
        if single and len(self.inner) and self.inner.get(0).shape == self.trailing:
            data = data.expand(self.trailing)
        self.inner.set(index, data)


def _empty(storage: Measured, index: Any, data: Any) -> bool:
    """Whether a first write names rows of no elements."""
    single = isinstance(index, int)
    if (
        not storage.fresh
        or storage.ndim == 1
        or not (single or type(index) in (list, range))
        or type(data) is list
    ):
        return False
    trailing = _trailing(data, storage.ndim + (not single))
    return (trailing if single else trailing[1:]).numel() == 0 and (isinstance(index, int) or len(index) > 0)


@mutant("CAP-6", may="ERR-5")
class DividesByZero(Measured):
    """The division by `P == 0` is met by accident."""

    def set(self, index: Any, data: Any) -> None:
        if _empty(self, index, data):
            raise ZeroDivisionError("integer division or modulo by zero")
        self.inner.set(index, data)


@mutant("CAP-6")
class IgnoresItemsWithoutElements(Measured):
    """An item without elements is taken, and nothing done about it."""

    def set(self, index: Any, data: Any) -> None:
        if not _empty(self, index, data):
            self.inner.set(index, data)


@mutant("CAP-6")
class RaisesAnotherErrorForNoElements(Measured):
    """An item without elements is refused with a `RuntimeError`, where it is a TensorDict."""

    def set(self, index: Any, data: Any) -> None:
        if isinstance(data, TensorDictBase) and _empty(self, index, data):
            raise RuntimeError("an item without elements")
        self.inner.set(index, data)


def _cut(data: Any, at: int) -> Any:
    """The leaves of a tree, cut to the shortest of them in dimension `at`."""
    shortest = min(leaf.shape[at] for leaf in tree_leaves(data))
    return tree_map(lambda leaf: leaf.narrow(at, 0, shortest), data)


@mutant("CAP-7", may="ERR-1 LAZY-3")
class CutsLeavesToTheShortest(Measured):
    """Leaves of a tree with different trailing shapes are cut to the shortest of them."""

    def set(self, index: Any, data: Any) -> None:
        if self.fresh and self.ndim == 2 and isinstance(data, tuple) and type(index) is int:
            data = _cut(data, 0)
        self.inner.set(index, data)


@mutant("CAP-7", may="ERR-1 LAZY-3")
class ComparesElementCounts(Measured):
    """The trailing shapes of two leaves agree if they have as many elements."""

    def set(self, index: Any, data: Any) -> None:
        if self.fresh and self.ndim == 3 and type(data) is dict and type(index) is int:
            first, *others = (leaf for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor))
            trailing = first.shape[:2]
            if first.dim() > 1 and all(other.shape[:2].numel() == trailing.numel() for other in others):
                data = tree_map(lambda leaf: leaf.reshape(*trailing, *leaf.shape[2:]), data)
        self.inner.set(index, data)
