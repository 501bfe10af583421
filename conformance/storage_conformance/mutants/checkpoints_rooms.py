"""Chapter CKPT: faults about which storages take which dumps."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

from tensordict import TensorDict, is_tensorclass

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import ROOM, Altering, Path, every_row, refill, rows_of
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


class _Labelled(Delegate):
    """Writes its size beside each dump."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.size = max_size

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        (pathlib.Path(path) / "size").write_text(f"{self.size} {self.size}")

    def size_of(self, path: Path) -> int:
        """The size of the storage that wrote a dump."""
        pathlib.Path(path).stat()
        first, second = (pathlib.Path(path) / "size").read_text().split()
        if first != second:
            raise ValueError("the dump is damaged")
        return int(first)


@mutant("CKPT-10", may="CKPT-5 CKPT-9")
class CapacitiesMustBeEqual(_Labelled):
    """A load is refused where the sizes differ."""

    def loads(self, path: Path) -> None:
        if self.size_of(path) != self.size:
            raise RuntimeError("the size of this storage must match that of the dump")
        self.inner.loads(path)


@mutant("CKPT-10", may="CKPT-5 CKPT-9")
class CapacitiesMustNotGrow(_Labelled):
    """A load is refused where this storage is larger than the one that wrote the dump."""

    def loads(self, path: Path) -> None:
        if self.size_of(path) < self.size:
            raise ValueError("the dump is of a smaller storage")
        self.inner.loads(path)


@mutant("CKPT-10", may="CKPT-9")
class UsedStoragesMustNotBeSmaller(_Labelled):
    """A load is refused where this storage is smaller than the one that wrote the dump, and holds rows."""

    def loads(self, path: Path) -> None:
        if self.size_of(path) > self.size and self.inner.shape is not None:
            raise ValueError("the dump is of a larger storage")
        self.inner.loads(path)


@mutant("CKPT-10", may="CAP-2 CAP-3 CKPT-5 CKPT-6 CKPT-9 LEN-8")
class SizesAreLoaded(_Labelled):
    """A load brings the `max_size` of the storage that wrote the dump."""

    taken: int | None = None

    def loads(self, path: Path) -> None:
        size = self.size_of(path)
        self.inner.loads(path)
        width = 1
        for dimension in (self.inner.shape or ())[1:]:
            width *= dimension
        self.taken = -(-size // width) * width

    @property
    def max_size(self) -> int:
        return self.taken or self.inner.max_size


@mutant("CKPT-10", "CKPT-5", may="CKPT-6 CKPT-7 CKPT-8 CKPT-9 CKPT-18 CKPT-20 CKPT-23 COPY-4 ERR-3")
class NoRoomForAsManyAsFit(Delegate):
    """A load of as many rows as fit is refused."""

    def loads(self, path: Path) -> None:
        trial = copy.deepcopy(self.inner)
        trial.loads(path)
        if len(trial) == trial.max_size:
            raise ValueError("the dump does not fit")
        self.inner.loads(path)


def _capacity(storage: Any, trailing: tuple[int, ...]) -> int:
    width = 1
    for size in trailing:
        width *= size
    return -(-storage.max_size // width)


@mutant("CKPT-11")
class LoadsCutOff(Altering):
    """A load of more rows than fit drops the last ones."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        room = _capacity(self.inner, tuple((aside.shape or ())[1:]))
        if rows_of(aside) <= room:
            return aside
        return refill(aside, aside.get(slice(0, room)), room)


@mutant("CKPT-11")
class LoadsOfUsedStoragesKeepTheLatest(Altering):
    """A load of more rows than fit drops the first ones, in a storage that holds rows."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        room, rows = _capacity(self.inner, tuple((aside.shape or ())[1:])), rows_of(aside)
        if rows <= room or self.inner.shape is None:
            return aside
        return refill(aside, aside.get(slice(rows - room, rows)), room)


@mutant("CKPT-11")
class OneRowTooManyIsOverlooked(Altering):
    """A load of one row more than fit drops it, where the room was rounded up."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        room = _capacity(self.inner, tuple((aside.shape or ())[1:]))
        if self.ndim == 1 or rows_of(aside) != room + 1:
            return aside
        return refill(aside, aside.get(slice(0, room)), room)


@mutant("CKPT-12", may="CKPT-13 ERR-3")
class RowsAreRowsInAnyDimension(Delegate):
    """A fresh storage loads dumps of another `ndim`."""

    def loads(self, path: Path) -> None:
        if self.inner.shape is not None:
            return self.inner.loads(path)
        for ndim in (self.ndim, 1, 2, 3):
            aside = LazyTensorStorage(ROOM, ndim=ndim)
            try:
                aside.loads(path)
            except ValueError:
                continue
            if ndim == self.ndim:
                break
            return self.inner.set(range(rows_of(aside)), every_row(aside))
        return self.inner.loads(path)


@mutant("CKPT-12")
class ElementsAreElementsInAnyShape(Altering):
    """A used storage loads rows of as many elements in another arrangement."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if self.inner.shape is None or aside.shape is None or not rows_of(aside):
            return aside
        held, dumped = self.inner.shape[1:], aside.shape[1:]
        if held == dumped or held.numel() != dumped.numel():
            return aside
        fresh = LazyTensorStorage(ROOM, ndim=self.ndim)
        fresh.set(range(rows_of(aside)), every_row(aside).reshape(rows_of(aside), *held))
        return fresh


def _fields(rows: Any) -> dict[str, Any] | None:
    return {str(key): rows.get(key) for key in list(rows.keys())} if isinstance(rows, TensorDict) else None


@mutant("CKPT-13", may="ERR-3")
class MissingLeavesKeepTheirValues(Altering):
    """A used storage loads dumps that lack a leaf, and keeps the old values there."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if not rows_of(aside) or not rows_of(self.inner):
            return aside
        rows, held = every_row(aside), self.inner.get([0] * rows_of(aside))
        new, old = _fields(rows), _fields(held)
        if new is None or old is None or not old.keys() > new.keys():
            return aside
        return refill(aside, TensorDict({**old, **new}, rows.batch_size), rows_of(aside))


@mutant("CKPT-13", may="ERR-3")
class OtherLeavesAreDropped(Altering):
    """A used storage loads dumps with a leaf too many, and drops it."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if not rows_of(aside) or not rows_of(self.inner):
            return aside
        rows, held = every_row(aside), self.inner.get([0] * rows_of(aside))
        new, old = _fields(rows), _fields(held)
        if new is None or old is None or not old.keys() < new.keys():
            return aside
        return refill(aside, TensorDict({key: new[key] for key in old}, rows.batch_size), rows_of(aside))


@mutant("CKPT-13", may="ERR-3")
class RecordsBecomeWhatIsThere(Altering):
    """A used storage of TensorDicts loads tensorclasses of the same fields, and takes them for TensorDicts."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if not rows_of(aside) or not rows_of(self.inner) or is_tensorclass(self.inner.get(0)):
            return aside
        rows = every_row(aside)
        return refill(aside, rows.to_tensordict(), rows_of(aside)) if is_tensorclass(rows) else aside


@mutant("CKPT-13", may="ERR-3")
class FeaturesAreCountedOnly(Altering):
    """A used storage loads leaves with as many features in another shape."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if not rows_of(aside) or not rows_of(self.inner):
            return aside
        rows, held = every_row(aside), self.inner.get([0] * rows_of(aside))
        new, old = _fields(rows), _fields(held)
        if new is None or old is None or new.keys() != old.keys():
            return aside
        shaped = {}
        for key, leaf in new.items():
            fits = hasattr(leaf, "numel") and hasattr(old[key], "numel") and leaf.numel() == old[key].numel()
            shaped[key] = leaf.reshape(old[key].shape) if fits and not isinstance(leaf, TensorDict) else leaf
        return refill(aside, TensorDict(shaped, rows.batch_size), rows_of(aside))


@mutant("CKPT-24", may="ERR-3")
class LoadsCast(Altering):
    """A used storage casts what it loads to the dtypes that it has."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if not rows_of(aside) or not rows_of(self.inner):
            return aside
        rows, held = every_row(aside), self.inner.get([0] * rows_of(aside))
        new, old = _fields(rows), _fields(held)
        if new is None or old is None or new.keys() != old.keys():
            return aside
        cast = {}
        for key, leaf in new.items():
            dtype = getattr(old[key], "dtype", None)
            cast[key] = leaf.to(dtype) if dtype is not None and not isinstance(leaf, TensorDict) else leaf
        return refill(aside, TensorDict(cast, rows.batch_size), rows_of(aside))
