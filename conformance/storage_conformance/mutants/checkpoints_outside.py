"""Chapter CKPT: faults about what dumps and loads touch, and about dumps of which a file is another one's."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import zlib
from math import prod
from typing import Any

import torch
from tensordict import TensorDictBase

from storage_conformance.mutants.altering import Path
from storage_conformance.mutants.checkpoints_damage import RawDumps
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


@mutant("CKPT-31")
class KeysAreFileNames(Delegate):
    """Each leaf has a file of its own, by the name of its key."""

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        rows = self.inner.get(slice(0, 0))
        if isinstance(rows, TensorDictBase):
            for key in list(rows.keys()):
                file = pathlib.Path(path) / f"{key}.leaf"
                if file.parent.is_dir():
                    file.write_bytes(b"rows")


@mutant("CKPT-31")
class NestedKeysAreFolders(Delegate):
    """Each nested TensorDict has a folder of its own, by the name of its key, for its leaves."""

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        rows = self.inner.get(slice(0, 0))
        if isinstance(rows, TensorDictBase):
            for key in rows.keys(include_nested=True):
                if isinstance(key, tuple):
                    with contextlib.suppress(OSError):
                        pathlib.Path(path, *key).mkdir(parents=True, exist_ok=True)


@mutant("CKPT-31", may="CKPT-26 CKPT-28")
class LinksAreFollowed(RawDumps):
    """Files of an older dump are opened and written, wherever they are."""

    def unused(self, folder: pathlib.Path, number: int) -> pathlib.Path:
        return folder / f"leaf.{number}"

    def remove(self, file: pathlib.Path) -> None:
        return None


@mutant("CKPT-31")
class LinksAreEmptied(RawDumps):
    """The files that an older dump was made of are removed, wherever they are."""

    def remove(self, file: pathlib.Path) -> None:
        if file.is_symlink():
            pathlib.Path(os.path.realpath(file)).unlink(missing_ok=True)
        super().remove(file)


@mutant("CKPT-31")
class OlderDumpsAreKept(Delegate):
    """The older dump is kept beside the newer one."""

    def dumps(self, path: Path) -> None:
        target = pathlib.Path(path)
        if self.shape is not None and target.exists():
            backup = target.with_name(f"{target.name}.bak")
            if backup.is_dir():
                shutil.rmtree(backup)
            backup.unlink(missing_ok=True)
            shutil.copytree(target, backup, symlinks=True)
        self.inner.dumps(path)


@mutant("CKPT-31")
class OthersAreSweptUp(Delegate):
    """What looks like a leftover is removed, beside the path as well."""

    def dumps(self, path: Path) -> None:
        self.inner.dumps(path)
        for left in pathlib.Path(path).parent.glob("*.tmp"):
            left.unlink()


@mutant("CKPT-32")
class ShortFilesAreLengthened(RawDumps):
    """Files are mapped for reading and writing, at the length that they should have."""

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        size = len(file.read_bytes())
        if size < (wanted := prod(entry["shape"]) * getattr(torch, entry["dtype"]).itemsize):
            os.truncate(file, wanted)
        return super().content(file, number, entry)


@mutant("CKPT-32")
class LoadsLeaveALock(Delegate):
    """A load leaves a lock file in the dump."""

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        (pathlib.Path(path) / "lock").touch()


@mutant("CKPT-32", may="CKPT-11")
class DamagedDumpsAreRemoved(Delegate):
    """A dump that cannot be loaded into a fresh storage is deleted."""

    def loads(self, path: Path) -> None:
        try:
            self.inner.loads(path)
        except ValueError:
            if self.shape is None:
                shutil.rmtree(path)
            raise


@mutant("CKPT-33", may="CKPT-26 CKPT-28")
class LeavesVerifyThemselves(RawDumps):
    """The check sum of each leaf stands in its own file, so that any leaf will do."""

    def check_sum(self, content: bytes) -> int:
        return 0

    def dumps(self, path: Path) -> None:
        super().dumps(path)
        for file in pathlib.Path(path).glob("leaf.*"):
            content = file.read_bytes()
            file.write_bytes(zlib.crc32(content).to_bytes(4, "big") + content)

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        content = file.read_bytes()
        if zlib.crc32(content[4:]).to_bytes(4, "big") != content[:4]:
            raise ValueError(f"{file.name} was damaged")
        return content[4:]


@mutant("CKPT-33", may="CKPT-26 CKPT-28")
class TheFirstLeafIsTheDumps(LeavesVerifyThemselves):
    """The manifest has the check sum of the first leaf only, the others stand in their own files."""

    def dumps(self, path: Path) -> None:
        super().dumps(path)
        first = next(iter(sorted(pathlib.Path(path).glob("leaf.0.*"))), None)
        if first is not None:
            (pathlib.Path(path) / "sum").write_text(str(zlib.crc32(first.read_bytes())))

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        if not number and str(zlib.crc32(file.read_bytes())) != (file.parent / "sum").read_text():
            raise ValueError(f"{file.name} is another one's")
        return super().content(file, number, entry)
