"""The dump format: written aside, verified when read, free of code.

A dump is a folder with one file, ``storage.safetensors``. Its tensors:

* ``leaf.0``, ``leaf.1``, ...: the readable rows of each leaf, ``[W, *T, *feature_shape]``; complex128, which
  safetensors does not know, as pairs of float64;
* ``values``: one JSON document in UTF-8, as bytes: for each value that is not a tensor a list of ``W * P``, or null.

Its metadata have the ``manifest``, a JSON document, and ``manifest.crc32``. The manifest names the format, its version
and that of the specification; it holds ``ndim``, the trailing shape, the number of rows, the last-written row, the tree
of containers (with dtypes and feature shapes), and a CRC-32 for each tensor. Classes stand in it by name, and are only
looked up among those that the process has loaded.

In ``values`` null, booleans, numbers and strings stand for themselves; anything else is a pair of a tag and a content.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from .nodes import TensorNode
from .schema import Schema
from .snapshot import Snapshot, UnknownClass, checked, classes_of, each, plain_tree, tree_of
from .values import Several

FILE = "storage.safetensors"
FORMAT = "lazy-tensor-storage"
VERSION = 1
SPECIFICATION = "1.0"


class CheckpointError(ValueError):
    """A dump is damaged, or is none of this format."""


def write(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write a dump to the folder ``path``, whole or not at all.

    Raises:
        TypeError: a value or a key has no exact JSON form; nothing is written then.
        FileExistsError: ``path`` is a file.
        OSError: the file system refuses; an older dump stays.

    Implements: CKPT-1 to CKPT-3, CKPT-19, CKPT-21, CKPT-22.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"a dump is a folder, and {str(folder)!r} is a file; nothing was written.")
    tensors, metadata = _document(snapshot)

    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _sync(folder.parent)
    # A folder of its own: safetensors has a temporary file beside the one that it was asked to write.
    aside = folder / f".{FILE}.{secrets.token_hex(8)}.tmp"
    aside.mkdir()
    lock = os.open(aside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Held for as long as this process lives: a dump by another process then knows that this is no leftover.
        with suppress(OSError):  # a file system without locks: then nobody removes leftovers either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        save_file(tensors, aside / FILE, metadata=metadata)
        # safetensors leaves the file readable by its owner only; it should be as open as the umask lets new files be.
        (aside / FILE).chmod(aside.stat().st_mode & 0o666)
        _sync(aside / FILE)
        (aside / FILE).replace(folder / FILE)
    except safetensors.SafetensorError as error:
        raise OSError(f"cannot write a dump to {str(folder)!r}: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        os.close(lock)
    for left_behind in folder.glob(f".{FILE}.*.tmp"):
        _remove_if_abandoned(left_behind)
    _sync(folder)


def _remove_if_abandoned(aside: Path) -> None:
    """Remove what a killed process left behind, but nothing that a living one is writing."""
    try:
        lock = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it is gone, or a symbolic link or a file that no dump has made
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


def read(path: str | os.PathLike[str], known: Schema | None) -> Snapshot:
    """The rows of a dump, every byte of them verified; the leaves are views of the file.

    Args:
        path: the folder.
        known: the schema of the storage that they are for; its classes need not be looked up.

    Raises:
        FileNotFoundError: there is no dump.
        CheckpointError: it is damaged, or of another format.
        ValueError: it names a class that this process has not loaded.

    Implements: CKPT-14 to CKPT-18.
    """
    file = Path(path) / FILE
    if not Path(path).exists():
        raise FileNotFoundError(f"there is nothing at {str(path)!r}.")
    if not Path(path).is_dir():
        raise NotADirectoryError(f"a dump is a folder, and {str(path)!r} is a file.")
    if file.is_symlink():
        raise CheckpointError(
            f"cannot load {str(path)!r}: {FILE} is a symbolic link, which may lead out of the folder; nothing was "
            "changed."
        )
    if not file.is_file():
        raise FileNotFoundError(f"there is no dump in {str(path)!r}: {FILE} is missing.")
    try:
        with safetensors.safe_open(file, framework="pt", device="cpu") as opened:
            return _verified(opened.metadata() or {}, set(opened.keys()), opened.get_tensor, known)
    except UnknownClass as error:
        raise ValueError(f"cannot load {str(path)!r}: {error}; nothing was changed.") from error
    except CheckpointError as error:
        raise CheckpointError(f"cannot load {str(path)!r}: {error}; nothing was changed.") from error
    except (
        safetensors.SafetensorError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        RuntimeError,
        OverflowError,
    ) as error:
        raise CheckpointError(
            f"cannot load {str(path)!r}: the dump is damaged ({error}); nothing was changed."
        ) from error


def _document(snapshot: Snapshot) -> tuple[dict[str, Tensor], dict[str, str]]:
    tensors = {f"leaf.{place}": _stored(leaf) for place, leaf in enumerate(snapshot.leaves)}
    if snapshot.values:
        try:
            text = json.dumps([each(_json_of, column) for column in snapshot.values], separators=(",", ":"))
        except RecursionError:
            raise TypeError("a value is nested too deeply for a dump; nothing was written.") from None
        tensors["values"] = torch.frombuffer(bytearray(text, "utf-8"), dtype=torch.uint8)
    manifest = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "specification": SPECIFICATION,
            "ndim": snapshot.ndim,
            "trailing": list(snapshot.schema.trailing),
            "rows": snapshot.readable,
            "last_row": snapshot.last_row,
            "tree": plain_tree(snapshot.schema.root),
            "crc32": {name: _checksum(tensor) for name, tensor in tensors.items()},
        },
        separators=(",", ":"),
    )
    return tensors, {"manifest": manifest, "manifest.crc32": str(zlib.crc32(manifest.encode()))}


def _verified(
    metadata: dict[str, str], names: set[str], tensor_of: Callable[[str], Tensor], known: Schema | None
) -> Snapshot:
    text = metadata["manifest"]
    if str(zlib.crc32(text.encode())) != metadata["manifest.crc32"]:
        raise CheckpointError("the manifest does not match its checksum")
    manifest = json.loads(text)
    if manifest["format"] != FORMAT:
        raise CheckpointError(f"the format is {manifest['format']!r}, not {FORMAT!r}")
    if manifest["version"] != VERSION:
        raise CheckpointError(
            f"this is version {manifest['version']} of the format; version {VERSION} is known here"
        )
    schema = Schema(tree_of(manifest["tree"], (), classes_of(known)), torch.Size(manifest["trailing"]))
    expected = {f"leaf.{node.position}" for node in schema.leaves} | ({"values"} if schema.values else set())
    if not names == expected == set(manifest["crc32"]):
        raise CheckpointError("the tensors are not those of the manifest")
    tensors = {name: tensor_of(name) for name in names}
    for name, tensor in tensors.items():
        if _checksum(tensor) != manifest["crc32"][name]:
            raise CheckpointError(f"{name} does not match its checksum")
    values = json.loads(tensors["values"].numpy().tobytes()) if schema.values else []
    return checked(
        Snapshot(
            schema=schema,
            ndim=manifest["ndim"],
            readable=manifest["rows"],
            last_row=manifest["last_row"],
            leaves=[_loaded(tensors[f"leaf.{node.position}"], node) for node in schema.leaves],
            values=[each(_value_of, column) for column in values],
        )
    )


def _stored(leaf: Tensor) -> Tensor:
    leaf = leaf.cpu().contiguous()
    return torch.view_as_real(leaf).contiguous() if leaf.dtype is torch.complex128 else leaf


def _loaded(stored: Tensor, node: TensorNode) -> Tensor:
    if node.dtype is torch.complex128 and stored.dtype is torch.float64:
        # The format aligns to 8 bytes, and torch crashes on complex128 at an address that is no multiple of 16.
        return torch.view_as_complex(stored.clone())
    return stored


def _checksum(tensor: Tensor) -> int:
    if not tensor.numel():
        return 0
    contents: Any = tensor.reshape(-1).view(torch.uint8).numpy()
    return zlib.crc32(contents)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Values --------------------------------------------------------------------------------------------------------------


def _json_of(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        # Python refuses to write or read very long numbers in decimal.
        return value if -(2**63) <= value < 2**63 else ["int", hex(value)]
    if kind in (list, tuple, Several):
        return [kind.__name__.lower(), [_json_of(entry) for entry in value]]
    if kind is dict:
        return ["dict", [[_json_of(key), _json_of(entry)] for key, entry in value.items()]]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode("ascii")]
    raise TypeError(
        f"a value of type {kind.__module__}.{kind.__qualname__} has no exact JSON form, and a dump holds no pickle; "
        "nothing was written."
    )


def _value_of(plain: Any) -> Any:
    if not isinstance(plain, list):
        return plain
    tag, content = plain
    if tag == "int":
        return int(content, 16)
    if tag == "bytes":
        return base64.b64decode(content, validate=True)
    if tag == "dict":
        return {_value_of(key): _value_of(entry) for key, entry in content}
    return {"list": list, "tuple": tuple, "several": Several}[tag](_value_of(entry) for entry in content)
