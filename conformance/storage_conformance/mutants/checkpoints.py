"""Chapter CKPT: faults about paths, names, and what a load brings back."""

from __future__ import annotations

import pathlib
from typing import Any

import torch

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import Altering, Path, leaf_tensors, rows_of
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


@mutant("CKPT-1", may="CKPT-5 CKPT-6 CKPT-9 CKPT-14 CKPT-20 CKPT-23")
class SaveIsACheaperDump(Delegate):
    """`save` leaves the last row out."""

    def save(self, path: Path) -> None:
        if rows_of(self.inner) < 2:
            return self.inner.dumps(path)
        few = LazyTensorStorage(1 << 16, ndim=self.ndim)
        few.set(range(rows_of(self.inner) - 1), self.inner.get(slice(0, -1)))
        return few.dumps(path)


@mutant("CKPT-1", may="CKPT-5 CKPT-6 CKPT-9 CKPT-14 CKPT-20 CKPT-23")
class LoadReadsNothing(Delegate):
    """`load` is an empty hook that was never filled in."""

    def load(self, path: Path) -> None:
        return None


@mutant("CKPT-1", may="CKPT-5 CKPT-6 CKPT-9 CKPT-14 CKPT-20 CKPT-23")
class DumpHasAnotherFormat(Delegate):
    """`dump` nests the dump in a folder of its own, where `loads` does not look."""

    def dump(self, path: Path) -> None:
        self.inner.dumps(pathlib.Path(path) / "storage")


@mutant("CKPT-2")
class LoadsJoinsPathsByHand(Delegate):
    """`loads` wants a `Path`."""

    def loads(self, path: Path) -> None:
        if not isinstance(path, pathlib.Path):
            raise TypeError(f"unsupported operand type(s) for /: {type(path).__name__!r} and 'str'")
        self.inner.loads(path)


@mutant("CKPT-2")
class DumpsKnowsTwoKindsOfPaths(Delegate):
    """`dumps` takes strings and `Path`s, and no other `os.PathLike`."""

    def dumps(self, path: Path) -> None:
        if not isinstance(path, str | pathlib.Path):
            raise TypeError("path must be str or Path")
        self.inner.dumps(path)


@mutant("CKPT-3")
class ParentsMustExist(Delegate):
    """A dump needs the parent of its path to exist."""

    def dumps(self, path: Path) -> None:
        if not pathlib.Path(path).parent.is_dir():
            raise FileNotFoundError(str(path))
        self.inner.dumps(path)


@mutant("CKPT-3")
class OneParentIsCreated(Delegate):
    """A dump creates the parent of its path, and not the parent of that."""

    def dumps(self, path: Path) -> None:
        if not pathlib.Path(path).parent.parent.is_dir():
            raise FileNotFoundError(str(path))
        self.inner.dumps(path)


@mutant("CKPT-4")
class DumpsNothingGladly(Delegate):
    """A dump of a fresh storage is an empty folder."""

    def dumps(self, path: Path) -> None:
        if self.shape is None:
            pathlib.Path(path).mkdir(parents=True)
        else:
            self.inner.dumps(path)


@mutant("CKPT-4")
class FreshDumpIsAValueError(Delegate):
    """A dump of a fresh storage of several dimensions raises something else."""

    def dumps(self, path: Path) -> None:
        if self.shape is None and self.ndim > 1:
            raise ValueError("nothing to dump")
        self.inner.dumps(path)


@mutant("CKPT-5", may="CKPT-6 CKPT-7 CKPT-8")
class FreshLoadRefusesTensors(Altering):
    """Only rows in TensorDicts and tensorclasses can be loaded into a fresh storage."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if self.shape is None and isinstance(aside.get(slice(0, 0)), torch.Tensor | dict | tuple):
            raise RuntimeError("cannot fill a storage that is not initialised")
        return aside


@mutant("CKPT-5", may="CKPT-9")
class FreshLoadLosesTheLastLeafOfTheLastRow(Altering):
    """An off-by-one leaves the last row of the last leaf zero, if the storage is fresh."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        for leaf in leaf_tensors(aside)[-1:]:
            if not rows_of(self):
                leaf[-1].zero_()
        return aside


@mutant("CKPT-5", may="CKPT-9")
class LoadRewritesNaNs(Altering):
    """Floating-point values pass through Python, which knows one NaN."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        for leaf in leaf_tensors(aside):
            if leaf.dtype in (torch.float32, torch.float64):
                leaf[leaf.isnan()] = float("nan")
        return aside


@mutant("CKPT-5")
class FreshLoadSwapsEqualLeaves(Altering):
    """Leaves of the same shape are put back in the reverse order, with several dimensions."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        leaves = leaf_tensors(aside)
        if self.shape is None and self.ndim > 1 and len(leaves) > 1 and leaves[0].shape == leaves[1].shape:
            first = leaves[0].clone()
            leaves[0].copy_(leaves[1])
            leaves[1].copy_(first)
        return aside


@mutant("CKPT-6", may="CKPT-9 CKPT-10 CKPT-18 CKPT-23 COPY-4")
class LoadNeverShortens(Altering):
    """After the load of fewer rows than there were, the old ones beyond them can still be read."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        loaded, before, last = rows_of(aside), rows_of(self.inner), aside.last_row
        if loaded < before:
            try:
                aside.set(range(loaded, before), self.inner.get(range(loaded, before)))
            except (TypeError, ValueError):
                return aside
            if last is not None:
                aside.set(last, aside.get(last))
        return aside


@mutant("CKPT-6", may="CKPT-9 CKPT-10 CKPT-15 CKPT-18 CKPT-20 CKPT-23 CKPT-24 LEN-7")
class ShapeIsCachedAcrossLoads(Delegate):
    """`shape` is computed when something is written, and not when a used storage loads."""

    cached: torch.Size | None = None

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.cached = None

    def loads(self, path: Path) -> None:
        before = self.inner.shape
        self.inner.loads(path)
        self.cached = before

    @property
    def shape(self) -> torch.Size | None:
        return self.cached or self.inner.shape


@mutant("CKPT-9", may="CKPT-6 CKPT-8 CKPT-10 CKPT-18 CKPT-20 CKPT-23 COPY-4 ERR-3")
class UsedStoragesDoNotLoad(Delegate):
    """A load into a storage that holds rows is refused."""

    def loads(self, path: Path) -> None:
        if self.inner.shape is not None and pathlib.Path(path).exists():
            raise RuntimeError("this storage is not empty")
        self.inner.loads(path)


@mutant("CKPT-9", may="CKPT-10 CKPT-18 CKPT-20 COPY-4 ERR-3")
class OnlyAsManyRowsAsThere(Delegate):
    """A used storage loads dumps of at most as many rows as it holds."""

    def loads(self, path: Path) -> None:
        aside = LazyTensorStorage(1 << 16, ndim=self.ndim)
        aside.loads(path)
        if self.inner.shape is not None and rows_of(aside) > rows_of(self.inner):
            raise ValueError("more rows than there are")
        self.inner.loads(path)


@mutant("CKPT-9", may="CKPT-10 CKPT-15 CKPT-18 CKPT-20")
class RowsThereKeepTheirLastLeaf(Altering):
    """Of the rows that a used storage holds, a load replaces all leaves but the last."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if rows_of(self.inner) and len(new := leaf_tensors(aside)) > 1:
            old = leaf_tensors(self.inner)[-1]
            count = min(len(old), len(new[-1]))
            if old.shape[1:] == new[-1].shape[1:] and old.dtype == new[-1].dtype:
                new[-1][:count] = old[:count]
        return aside


@mutant("CKPT-14")
class NothingThereIsNothingLoaded(Delegate):
    """A load from a path that does not exist does nothing."""

    def loads(self, path: Path) -> None:
        if pathlib.Path(path).exists():
            self.inner.loads(path)


@mutant("CKPT-14")
class MissingPathsAreRuntimeErrors(Delegate):
    """A load from a path that does not exist raises `RuntimeError`, in a storage that holds rows."""

    def loads(self, path: Path) -> None:
        if self.inner.shape is not None and not pathlib.Path(path).exists():
            raise RuntimeError("cannot open the dump")
        self.inner.loads(path)


@mutant("CKPT-23", may="CKPT-21")
class LoadForgetsTheSeam(Delegate):
    """After a load there is no last-written row."""

    forgotten = False

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.forgotten = False

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.forgotten = True

    @property
    def last_row(self) -> int | None:
        return None if self.forgotten else self.inner.last_row


@mutant("CKPT-23")
class LoadEndsAtTheEnd(Altering):
    """After a load the last-written row is the highest one."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if rows_of(aside):
            aside.set(rows_of(aside) - 1, aside.get(rows_of(aside) - 1))
        return aside


@mutant("CKPT-23")
class UsedStoragesKeepTheirSeam(Altering):
    """A load into a storage that holds rows keeps its last-written row, if that is still there."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        last = self.inner.last_row
        if last is not None and last < rows_of(aside):
            aside.set(last, aside.get(last))
        return aside
