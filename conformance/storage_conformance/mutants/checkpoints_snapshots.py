"""Chapter CKPT: faults about when a dump can be written, and what it follows."""

from __future__ import annotations

import pathlib
from typing import Any

import torch

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import ROOM, Path, every_row, leaf_tensors, rows_of
from storage_conformance.mutants.checkpoints_damage import RawDumps
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


@mutant("CKPT-18", may="CKPT-5 CKPT-6 CKPT-8 CKPT-9 CKPT-10 CKPT-19 CKPT-23")
class DumpsStayOpen(Delegate):
    """A dump is a file that the storage keeps mapped and writes on to."""

    mapped: Path | None = None

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        self.mapped = path

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self._write_on()

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = data
        self._write_on()

    def _write_on(self) -> None:
        if self.mapped is not None and pathlib.Path(self.mapped).exists():
            self.inner.dumps(self.mapped)


@mutant("CKPT-18", may="CKPT-5 CKPT-6 CKPT-9 CKPT-23")
class AssignmentsReachTheDump(Delegate):
    """Assignments, and not other writes, go on to the file of the last dump, with several dimensions."""

    mapped: Path | None = None

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        self.mapped = path if self.ndim > 1 else None

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = data
        if self.mapped is not None and pathlib.Path(self.mapped).exists():
            self.inner.dumps(self.mapped)


@mutant("CKPT-18", may="CKPT-19")
class LoadsMapTheDump(Delegate):
    """What was loaded stays in the file until something is written, and changes with it."""

    mapped: Path | None = None

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.mapped = path

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mapped = None
        self.inner.load_state_dict(state)

    def clear(self) -> None:
        self.inner.clear()
        self.mapped = None

    def set(self, index: Any, data: Any) -> None:
        self.mapped = None
        self.inner.set(index, data)

    def __setitem__(self, index: Any, data: Any) -> None:
        self.mapped = None
        self.inner[index] = data

    def get(self, index: Any) -> Any:
        if self.mapped is not None:
            aside = LazyTensorStorage(ROOM, ndim=self.ndim)
            try:
                aside.loads(self.mapped)
            except OSError:
                pass  # deleted files can still be read by those who have them open
            except ValueError:
                raise RuntimeError("bus error") from None
            else:
                return aside.get(index)
        return self.inner.get(index)


@mutant("CKPT-19", may="CKPT-1 CKPT-20")
class OlderDumpsStay(Delegate):
    """A dump to a path at which something is does nothing."""

    def dumps(self, path: Path) -> None:
        if self.shape is None or not pathlib.Path(path).exists():
            self.inner.dumps(path)


@mutant("CKPT-19")
class OlderDumpsOfAnotherStructureStay(Delegate):
    """A dump over an older one fits its rows into that: another structure is refused."""

    def dumps(self, path: Path) -> None:
        if self.shape is not None and pathlib.Path(path).exists():
            older = LazyTensorStorage(ROOM, ndim=self.ndim)
            older.loads(path)
            older.load_state_dict(self.inner.state_dict())
        self.inner.dumps(path)


@mutant("CKPT-19", may="CKPT-18")
class OlderRowsStay(Delegate):
    """A dump over a longer one of the same structure leaves the rows beyond."""

    def dumps(self, path: Path) -> None:
        rows = rows_of(self.inner)
        if not rows or not pathlib.Path(path).exists():
            return self.inner.dumps(path)
        merged = LazyTensorStorage(ROOM, ndim=self.ndim)
        try:
            merged.loads(path)
            merged.set(range(rows), every_row(self.inner))
        except (TypeError, ValueError, LookupError):
            return self.inner.dumps(path)
        last = self.inner.last_row
        merged.set(last or 0, merged.get(last or 0))
        return merged.dumps(path)


class _Picky(Delegate):
    """Remembers what came last, and is picky about it when it dumps."""

    last: Any = None

    def picky(self) -> bool:
        raise NotImplementedError

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.last = index

    def dumps(self, path: Path) -> None:
        if self.picky():
            raise TypeError(f"object of type {type(self.last).__name__} is not JSON serializable")
        self.inner.dumps(path)


@mutant("CKPT-20")
class ListsAreNoCursors(_Picky):
    """A dump fails after a `set` with a list."""

    def picky(self) -> bool:
        return isinstance(self.last, list)


@mutant("CKPT-20")
class ElementsAreNoCursors(_Picky):
    """A dump fails after a `set` of single elements."""

    def picky(self) -> bool:
        return isinstance(self.last, tuple)


@mutant("CKPT-20")
class MasksAreNoCursors(_Picky):
    """A dump fails after a `set` with a mask."""

    def picky(self) -> bool:
        return isinstance(self.last, torch.Tensor) and self.last.dtype == torch.bool


@mutant("CKPT-20")
class NumPyIsNoJSON(_Picky):
    """A dump fails after a `set` with a NumPy integer."""

    def picky(self) -> bool:
        return type(self.last).__module__ == "numpy"


@mutant("CKPT-20", may="CKPT-7 CKPT-5 CKPT-19 CKPT-22")
class LoadedStoragesDoNotDump(_Picky):
    """A dump fails after a load, until something is written."""

    def picky(self) -> bool:
        return self.last == "load"

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.last = "load"


@mutant("CKPT-20")
class EmptiedStoragesDoNotDump(Delegate):
    """A dump of a cleared storage fails as if nothing had ever been written."""

    def dumps(self, path: Path) -> None:
        if len(self) == 0:
            raise RuntimeError("nothing to dump")
        self.inner.dumps(path)


@mutant("CKPT-21", may="CKPT-1 CKPT-2 CKPT-18 CKPT-19 CKPT-20 CKPT-23 COPY-4")
class DumpsEndTheRing(Delegate):
    """After a dump the last-written row is gone until the next write."""

    dumped = False

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        self.dumped = True

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.dumped = False

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.dumped = False

    @property
    def last_row(self) -> int | None:
        return None if self.dumped else self.inner.last_row


@mutant("CKPT-21", may="CKPT-18 CKPT-19 CKPT-20 SET-1 SET-15")
class DumpsLock(Delegate):
    """After a dump the storage is mapped and cannot be written."""

    dumped = False

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        self.dumped = True

    def set(self, index: Any, data: Any) -> None:
        if self.dumped:
            raise RuntimeError("the storage is locked")
        self.inner.set(index, data)


@mutant("CKPT-21", may="CKPT-19")
class DumpsSortZerosAway(Delegate):
    """A dump of a full storage with several dimensions tidies the memory, and the first element with it."""

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        if self.ndim > 1 and len(self) == self.max_size:
            for leaf in leaf_tensors(self.inner):
                leaf[0].zero_()


@mutant("CKPT-22")
class DumpsHoldTheCapacity(Delegate):
    """A dump holds all rows of the capacity."""

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        (pathlib.Path(path) / "rows").write_bytes(bytes(8 * self.max_size))


@mutant("CKPT-22")
class DumpsAfterLoadsHoldTheCapacity(Delegate):
    """A dump holds all rows of the capacity once something was loaded."""

    loaded = False

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.loaded = True

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        if self.loaded:
            (pathlib.Path(path) / "rows").write_bytes(bytes(8 * self.max_size))


@mutant("CKPT-21")
class FailedDumpsEndTheRing(Delegate):
    """After a dump that raised, the last-written row is gone until the next write."""

    failed = False

    def dumps(self, path: Path) -> None:
        try:
            self.inner.dumps(path)
        except OSError:
            self.failed = True
            raise

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.failed = False

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.failed = False

    @property
    def last_row(self) -> int | None:
        return None if self.failed else self.inner.last_row


@mutant("CKPT-22", may="CKPT-33")
class OlderFilesStay(RawDumps):
    """The files of older dumps stay where they are, though nothing refers to them any more."""

    def remove(self, file: pathlib.Path) -> None:
        return None
