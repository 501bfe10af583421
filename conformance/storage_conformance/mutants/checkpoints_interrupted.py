"""Chapter CKPT: faults about dumps that fail midway, and what they leave."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil

from storage_conformance.mutants.altering import Path
from storage_conformance.mutants.checkpoints_damage import RawDumps
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant
from storage_conformance.structure import tensor_bytes


@mutant("CKPT-25", "CKPT-27", may="CKPT-16 CKPT-26 CKPT-28 CKPT-31 CKPT-33")
class LeavesAreWrittenOver(RawDumps):
    """Leaves are written over those of the older dump, and the length at last, as if nothing could come between."""

    def dumps(self, path: Path) -> None:
        if self.inner.shape is None:
            raise RuntimeError("nothing was ever written")
        folder = pathlib.Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        state = self.inner.state_dict()
        leaves = []
        for number, leaf in enumerate(state.pop("leaves")):
            (folder / f"leaf.{number}").write_bytes(tensor_bytes(leaf))
            leaves.append({"file": f"leaf.{number}", "dtype": str(leaf.dtype)[6:], "shape": list(leaf.shape)})
        (folder / "manifest").write_bytes(b"\n" + json.dumps({"state": state, "leaves": leaves}).encode())

    def check_manifest(self, check_sum: bytes, manifest: bytes) -> None:
        return None

    def content(self, file: pathlib.Path, number: int, entry: dict[str, object]) -> bytes:
        return file.read_bytes()


@mutant("CKPT-25", "CKPT-27", may="CKPT-15 CKPT-31")
class PartsAreSkipped(Delegate):
    """The rows stand in two dumps, of which the second is optional: without it the rest is loaded."""

    def dumps(self, path: Path) -> None:
        folder, rows = pathlib.Path(path), len(self) // 2 if self.ndim == 1 else 0
        if not rows:
            shutil.rmtree(folder / "rest", ignore_errors=True)
            self.inner.dumps(folder)
            return
        first = type(self)(self.max_size)
        first.inner.set(range(rows), self.inner.get(slice(0, rows)))
        first.inner.dumps(folder)
        self.inner.dumps(folder / "rest")

    def loads(self, path: Path) -> None:
        rest = pathlib.Path(path) / "rest"
        self.inner.loads(rest if rest.exists() else path)


@mutant("CKPT-26", "CKPT-28")
class OlderDumpGoesFirst(Delegate):
    """The older dump is deleted to make room for the newer one."""

    def dumps(self, path: Path) -> None:
        if self.shape is not None:
            shutil.rmtree(path, ignore_errors=True)
        self.inner.dumps(path)


@mutant("CKPT-26", "CKPT-28", may="CKPT-29")
class OlderDumpStepsAside(Delegate):
    """The older dump is renamed, and put back where the newer one meets an error, though not an interrupt."""

    def dumps(self, path: Path) -> None:
        target = pathlib.Path(path)
        if self.shape is None or not target.exists():
            return self.inner.dumps(path)
        aside = target.with_name(f"{target.name}.aside")
        target.rename(aside)
        try:
            self.inner.dumps(path)
        except Exception:
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
            raise
        return shutil.rmtree(aside)


@mutant("CKPT-26")
class FailuresAreSweptUp(Delegate):
    """A dump that raises removes what is at its path, as if it had all been its own."""

    def dumps(self, path: Path) -> None:
        try:
            self.inner.dumps(path)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise


@mutant("CKPT-27", may="CKPT-16 CKPT-26 CKPT-28 CKPT-31 CKPT-33")
class OlderLeavesArePutBack(LeavesAreWrittenOver):
    """Leaves are written over those of the older dump, which are put back where an exception comes between."""

    def dumps(self, path: Path) -> None:
        folder = pathlib.Path(path)
        older = {file: file.read_bytes() for file in folder.iterdir()} if folder.is_dir() else {}
        try:
            super().dumps(path)
        except BaseException:
            for file in folder.iterdir() if folder.is_dir() else ():
                if file not in older:
                    file.unlink()
            for file, content in older.items():
                with contextlib.suppress(OSError):
                    if not file.exists() or file.read_bytes() != content:
                        file.write_bytes(content)
            raise


@mutant("CKPT-28")
class OlderDumpIsPutBack(Delegate):
    """The older dump is renamed, and put back by the process that renamed it, if that is still there."""

    def dumps(self, path: Path) -> None:
        target = pathlib.Path(path)
        if self.shape is None or not target.exists():
            return self.inner.dumps(path)
        aside = target.with_name(f"{target.name}.aside")
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
        try:
            self.inner.dumps(path)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
            raise
        return shutil.rmtree(aside, ignore_errors=True)


@mutant("CKPT-29")
class LocksStay(Delegate):
    """A lock file beside the dump is removed at the end, and where an error is met, though not an interrupt."""

    def dumps(self, path: Path) -> None:
        target = pathlib.Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f"{target.name}.lock")
        lock.open("x").close()
        try:
            self.inner.dumps(path)
        except Exception:
            lock.unlink()
            raise
        lock.unlink()


@mutant("CKPT-29")
class OneDumpAtATime(Delegate):
    """A lock file in the dump says that somebody is at work there, whoever that was."""

    def dumps(self, path: Path) -> None:
        if self.shape is None:
            return self.inner.dumps(path)
        lock = pathlib.Path(path) / "lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.open("x").close()
        try:
            self.inner.dumps(path)
        finally:
            lock.unlink()


@mutant("CKPT-29")
class DumpsGoOnWhereTheyEnded(RawDumps):
    """A manifest that was not finished is written on."""

    def dumps(self, path: Path) -> None:
        unfinished = pathlib.Path(path) / "new"
        begun = unfinished.read_bytes() if unfinished.exists() else None
        super().dumps(path)
        if begun is not None:
            manifest = pathlib.Path(path) / "manifest"
            manifest.write_bytes(begun + manifest.read_bytes())


@mutant("CKPT-30")
class FullDisksAreLogged(Delegate):
    """What the file system says against a dump goes to the log only."""

    def dumps(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            self.inner.dumps(path)


@mutant("CKPT-30")
class EndsAreNotWritten(RawDumps):
    """What could not be written of the manifest is noticed by nobody."""

    def dumps(self, path: Path) -> None:
        try:
            super().dumps(path)
        except OSError:
            unfinished = pathlib.Path(path) / "new"
            if not unfinished.exists():
                raise
            unfinished.replace(pathlib.Path(path) / "manifest")


@mutant("CKPT-30", may="ERR-5")
class SystemErrorsEscape(Delegate):
    """A dump that the file system refuses raises an exception that nobody expects."""

    def dumps(self, path: Path) -> None:
        try:
            self.inner.dumps(path)
        except OSError as error:
            raise BufferError("cannot write") from error


@mutant("CKPT-30")
class FilesGiveWay(Delegate):
    """A file in the place of a parent folder is removed."""

    def dumps(self, path: Path) -> None:
        parent = pathlib.Path(path).parent
        if self.shape is not None and parent.is_file():
            parent.unlink()
        self.inner.dumps(path)
