"""Chapter CKPT: faults about dumps that were damaged, or made to do harm.

They need a dump format of their own: a folder with the bytes of each leaf in a file, and a manifest in JSON.
"""

from __future__ import annotations

import base64
import json
import pathlib
import pickle
import shutil
import zlib
from itertools import count
from math import prod
from typing import Any

import torch

from storage_conformance.mutants.altering import Path
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant
from storage_conformance.structure import tensor_bytes


class RawDumps(Delegate):
    """A folder with the bytes of each leaf in a file, and a manifest in JSON; every byte has its check sum.

    A dump goes to files of its own names; the older one is there until the manifest is replaced, in one step.
    """

    def check_sum(self, content: bytes) -> int:
        return zlib.crc32(content)

    def dumps(self, path: Path) -> None:
        if self.inner.shape is None:
            raise RuntimeError("nothing was ever written")
        folder = pathlib.Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        older = [file for file in folder.iterdir() if file.name != "manifest"]
        state = self.inner.state_dict()
        leaves = []
        for number, leaf in enumerate(state.pop("leaves")):
            content = tensor_bytes(leaf)
            file = self.unused(folder, number)
            file.write_bytes(content)
            entry = {"file": file.name, "dtype": str(leaf.dtype)[6:], "shape": list(leaf.shape)}
            leaves.append(entry | {"sum": self.check_sum(content)})
        manifest = self.encode({"state": state, "leaves": leaves})
        (folder / "new").write_bytes(str(zlib.crc32(manifest)).encode() + b"\n" + manifest)
        (folder / "new").replace(folder / "manifest")
        for file in older:
            if file.name != "new":
                self.remove(file)

    def unused(self, folder: pathlib.Path, number: int) -> pathlib.Path:
        """The file for a leaf, which the older dump does not use."""
        return next(
            file
            for n in count()
            if not (file := folder / f"leaf.{number}.{n}").is_symlink() and not file.exists()
        )

    def remove(self, file: pathlib.Path) -> None:
        """Removes what the older dump was made of."""
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()

    def loads(self, path: Path) -> None:
        folder = pathlib.Path(path)
        folder.stat()
        if not folder.is_dir():
            raise NotADirectoryError(str(folder))
        try:
            check_sum, _, manifest = (folder / "manifest").read_bytes().partition(b"\n")
            self.check_manifest(check_sum, manifest)
            document = self.decode(manifest)
            leaves = [
                self.leaf(folder / entry["file"], n, entry) for n, entry in enumerate(document["leaves"])
            ]
            state = {**document["state"], "leaves": leaves}
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"cannot load {str(folder)!r}: {error}") from error
        self.inner.load_state_dict(state)

    def encode(self, document: Any) -> bytes:
        return json.dumps(document).encode()

    def decode(self, manifest: bytes) -> Any:
        return json.loads(manifest)

    def check_manifest(self, check_sum: bytes, manifest: bytes) -> None:
        if check_sum != str(zlib.crc32(manifest)).encode():
            raise ValueError("the manifest was damaged")

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        """The bytes of a leaf, verified."""
        content = file.read_bytes()
        if self.check_sum(content) != entry["sum"]:
            raise ValueError(f"{file.name} was damaged")
        return content

    def leaf(self, file: pathlib.Path, number: int, entry: Any) -> torch.Tensor:
        dtype, shape = getattr(torch, entry["dtype"]), entry["shape"]
        size = prod(shape) * dtype.itemsize
        content = self.content(file, number, entry)
        if len(content) != size:
            raise ValueError(f"{file.name} has {len(content)} bytes")
        if not size:
            return torch.empty(shape, dtype=dtype)
        return torch.tensor(list(content), dtype=torch.uint8).view(dtype).reshape(shape)


def _size(entry: Any) -> int:
    return int(prod(entry["shape"]) * getattr(torch, entry["dtype"]).itemsize)


@mutant("CKPT-15")
class ShortFilesReadAsZeros(RawDumps):
    """Bytes missing at the end of a leaf read as zero."""

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        if file.stat().st_size < _size(entry):
            return file.read_bytes().ljust(_size(entry), b"\0")
        return super().content(file, number, entry)


@mutant("CKPT-15")
class MissingLastLeavesReadAsZeros(RawDumps):
    """A missing file of a leaf that is not the first reads as zeros."""

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        if number and not file.exists():
            return bytes(_size(entry))
        return super().content(file, number, entry)


@mutant("CKPT-15")
class NoLeavesAreNoRows(RawDumps):
    """A dump without any file of a leaf is one of rows that were never written."""

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        if not any(file.parent.glob("leaf.*")):
            return bytes(_size(entry))
        return super().content(file, number, entry)


@mutant("CKPT-15")
class NoManifestIsNoDump(RawDumps):
    """A folder without a manifest is taken for an empty dump: nothing is loaded, and nothing said."""

    def loads(self, path: Path) -> None:
        if not pathlib.Path(path).is_dir() or (pathlib.Path(path) / "manifest").exists():
            super().loads(path)


@mutant("CKPT-16", may="CKPT-33")
class LeavesHaveNoCheckSums(RawDumps):
    """The bytes of leaves are not verified."""

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        return file.read_bytes()


@mutant("CKPT-16", may="CKPT-33")
class TheFirstLeafHasACheckSum(RawDumps):
    """The bytes of the first leaf are verified, and no others."""

    def content(self, file: pathlib.Path, number: int, entry: Any) -> bytes:
        return file.read_bytes() if number else super().content(file, number, entry)


@mutant("CKPT-16")
class CheckSumsAreSums(RawDumps):
    """The check sum is a sum, which does not see bytes that change places."""

    def check_sum(self, content: bytes) -> int:
        return sum(content)


@mutant("CKPT-16", may="CKPT-17 CKPT-33")
class ManifestsHaveNoCheckSum(RawDumps):
    """The manifest is not verified."""

    def check_manifest(self, check_sum: bytes, manifest: bytes) -> None:
        return None


@mutant("CKPT-17", may="CKPT-16 CKPT-33")
class ManifestsArePickles(RawDumps):
    """The manifest is a pickle, loaded before it is verified."""

    def dumps(self, path: Path) -> None:
        super().dumps(path)
        file = pathlib.Path(path) / "manifest"
        file.write_bytes(file.read_bytes().partition(b"\n")[2])

    def loads(self, path: Path) -> None:
        file = pathlib.Path(path) / "manifest"
        if file.is_file():
            try:
                pickle.loads(file.read_bytes())
            except Exception as error:
                raise ValueError(f"cannot load {str(path)!r}: {error}") from error
            self._unverified(path)
        else:
            super().loads(path)

    def _unverified(self, path: Path) -> None:
        folder = pathlib.Path(path)
        try:
            document = pickle.loads((folder / "manifest").read_bytes())
            leaves = [
                self.leaf(folder / entry["file"], n, entry) for n, entry in enumerate(document["leaves"])
            ]
            state = {**document["state"], "leaves": leaves}
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"cannot load {str(path)!r}: {error}") from error
        self.inner.load_state_dict(state)

    def encode(self, document: Any) -> bytes:
        return pickle.dumps(document, protocol=0)


@mutant("CKPT-17", may="CKPT-16 CKPT-33")
class TextsArePickles(RawDumps):
    """Values that are not tensors stand in the manifest as pickles in base64; the manifest is not verified."""

    def encode(self, document: Any) -> bytes:
        state = document["state"]
        values = base64.b64encode(pickle.dumps(state["values"])).decode()
        return json.dumps({**document, "state": {**state, "values": values}}).encode()

    def check_manifest(self, check_sum: bytes, manifest: bytes) -> None:
        return None

    def decode(self, manifest: bytes) -> Any:
        document = json.loads(manifest)
        document["state"]["values"] = pickle.loads(base64.b64decode(document["state"]["values"]))
        return document


@mutant("CKPT-17", may="CKPT-15 CKPT-16 CKPT-26 CKPT-28")
class DumpsAreTorchSaves(Delegate):
    """A dump is a file of `torch.save`, loaded with all that pickle can do."""

    def dumps(self, path: Path) -> None:
        if self.inner.shape is None:
            raise RuntimeError("nothing was ever written")
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        torch.save(self.inner.state_dict(), path)

    def loads(self, path: Path) -> None:
        try:
            state = torch.load(path, weights_only=False)
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"cannot load {str(path)!r}: {error}") from error
        self.inner.load_state_dict(state)
