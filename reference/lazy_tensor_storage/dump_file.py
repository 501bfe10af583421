"""The layout of a dump, version 1: a file for any reader of safetensors, of which every byte can be verified.

Eight bytes give the length of the header, a JSON document padded with blanks to a multiple of eight; then come the
tensors, one after the other:

* ``leaf.0``, ``leaf.1``, ...: the readable rows of each leaf, ``[W, *T, *feature_shape]``, those of the widest dtypes
  first; complex128, which safetensors does not know, as pairs of float64;
* ``values``, if there are leaves that are not tensors: the lines of `dump_values`, as bytes.

``__metadata__`` has the ``manifest``, a JSON document, and ``manifest.crc32``. The manifest names the format, its
version and that of the specification; it holds ``ndim``, the trailing shape, the number of rows, the last-written row,
the tree of containers (with dtypes and feature shapes, see `snapshot`), and a CRC-32 for each tensor, in hexadecimal.
Classes stand in it by name, and are only looked up among those that the process has loaded.

The rest of the header follows from the manifest, byte for byte, and so does the length of the file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import dump_values
from .nodes import Column, TensorNode
from .schema import Schema
from .snapshot import Snapshot, UnknownClass, checked_size, classes_of, plain_tree, tree_of

FORMAT = "lazy-tensor-storage"
VERSION = 1
SPECIFICATION = "1.0"

PIECE = 2**22
"""Bytes that are read or written at once: more are no quicker, and this is all the memory that it takes."""
LARGEST_HEADER = 10**8
"""Bytes; other readers of safetensors refuse longer ones too."""

_NAMES = {
    torch.complex128: "F64",
    torch.complex64: "C64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

Done = Callable[[int], object]
"""Told the number of bytes that were just read or written."""


class Damaged(ValueError):
    """A dump is not what was written, or of another format or version."""


class _Outline(NamedTuple):
    """What a dump is about; all but the sums is known before the first byte is written."""

    schema: Schema
    ndim: int
    readable: int
    last_row: int | None
    values: int

    def sizes(self) -> dict[str, int]:
        """The bytes of each tensor, in the order of the file."""
        found = {_name(node): self.size(node) for node in in_file_order(self.schema)}
        return found | ({"values": self.values} if self.schema.values else {})

    def size(self, node: TensorNode) -> int:
        return self.readable * prod(self.schema.trailing) * prod(node.feature_shape) * node.dtype.itemsize

    def header(self, sums: dict[str, int]) -> bytes:
        """The file up to the first tensor; as long whatever the sums are."""
        manifest = _text(
            {
                "format": FORMAT,
                "version": VERSION,
                "specification": SPECIFICATION,
                "ndim": self.ndim,
                "trailing": list(self.schema.trailing),
                "rows": self.readable,
                "last_row": self.last_row,
                "values": self.values,
                "tree": plain_tree(self.schema.root),
                "crc32": {name: f"{sums[name]:08x}" for name in self.sizes()},
            }
        )
        metadata = {"manifest": manifest, "manifest.crc32": f"{zlib.crc32(manifest.encode('ascii')):08x}"}
        head = _text({"__metadata__": metadata, **self._entries()}).encode("ascii")
        head += b" " * (-len(head) % 8)
        return len(head).to_bytes(8, "little") + head

    def _entries(self) -> dict[str, Any]:
        """What safetensors says of each tensor."""
        found: dict[str, Any] = {}
        offset = 0
        nodes = {_name(node): node for node in self.schema.leaves}
        for name, size in self.sizes().items():
            dtype, shape = "U8", [size]
            if name in nodes:
                node = nodes[name]
                dtype = _NAMES[node.dtype]
                shape = [self.readable, *self.schema.trailing, *node.feature_shape]
                shape += [2] if node.dtype is torch.complex128 else []
            found[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
        return found


def in_file_order(schema: Schema) -> list[TensorNode]:
    """The leaves as they follow each other in the file: each at an address that its dtype can be read from."""
    return sorted(schema.leaves, key=lambda node: -node.dtype.itemsize)


def _name(node: TensorNode) -> str:
    return f"leaf.{node.position}"


def _text(plain: Any) -> str:
    try:
        return json.dumps(plain, separators=(",", ":"))
    except RecursionError:
        raise TypeError("the structure is nested too deeply for a dump; nothing was written.") from None


# Writing -------------------------------------------------------------------------------------------------------------


class Writing:
    """A dump that is about to be written.

    Attributes:
        size: the bytes of its tensors.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Raises: ``TypeError``, a value or a key has no exact JSON form."""
        self._snapshot = snapshot
        lines = dump_values.lines_of(snapshot.values) if snapshot.schema.values else iter(())
        self._outline = _Outline(
            snapshot.schema, snapshot.ndim, snapshot.readable, snapshot.last_row, sum(map(len, lines))
        )
        self._room = len(self._outline.header(dict.fromkeys(self._outline.sizes(), 0)))
        self.size = sum(self._outline.sizes().values())

    def to(self, descriptor: int, done: Done) -> None:
        """Write it to an empty file; the header last, since it has the sums. Raises: ``OSError``."""
        os.lseek(descriptor, self._room, os.SEEK_SET)
        sums = dict.fromkeys(self._outline.sizes(), 0)
        for node in in_file_order(self._outline.schema):
            for piece in _pieces(self._snapshot.leaves[node.position]):
                self._put(descriptor, _name(node), bytes_of(piece.cpu()), sums, done)
        if self._outline.schema.values:
            for line in dump_values.lines_of(self._snapshot.values):
                self._put(descriptor, "values", memoryview(line), sums, done)
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write_all(descriptor, memoryview(self._outline.header(sums)))

    @staticmethod
    def _put(descriptor: int, name: str, content: memoryview, sums: dict[str, int], done: Done) -> None:
        sums[name] = zlib.crc32(content, sums[name])
        _write_all(descriptor, content)
        done(len(content))


def _pieces(leaf: Tensor) -> Iterator[Tensor]:
    flat = leaf.reshape(-1)
    step = PIECE // leaf.element_size()
    return (flat[start : start + step] for start in range(0, flat.numel(), step))


def bytes_of(dense: Tensor) -> memoryview:
    """The memory of a dense tensor on the CPU."""
    if not dense.numel():
        return memoryview(b"")
    flat = dense.reshape(-1)
    if flat.numel() == 1:  # then any stride counts as dense
        flat = flat.as_strided((1,), (1,))
    block: Any = flat.view(torch.uint8).numpy()
    return memoryview(block)


def _write_all(descriptor: int, rest: memoryview) -> None:
    while rest:
        rest = rest[os.write(descriptor, rest) :]


# Reading -------------------------------------------------------------------------------------------------------------


@dataclass
class Reading:
    """A dump whose header has been read and verified; its rows have not.

    Attributes:
        schema: the structure of the rows.
        ndim: that of the storage that wrote it.
        readable: how many rows.
        last_row: the last-written row.
        size: the bytes of its tensors.
    """

    schema: Schema
    ndim: int
    readable: int
    last_row: int | None
    size: int
    _descriptor: int
    _places: dict[str, tuple[int, int, int]]
    """Where each tensor begins, its bytes, and its sum."""

    def snapshot(self, done: Done) -> Snapshot:
        """The rows in memory of their own, verified. Raises: ``Damaged``, ``OSError``."""
        leaves = []
        for node in self.schema.leaves:
            shape = (self.readable, *self.schema.trailing, *node.feature_shape)
            leaves.append(torch.empty(shape, dtype=node.dtype, device="cpu"))
        values = self.pour(leaves, done)
        return Snapshot(self.schema, self.ndim, self.readable, self.last_row, leaves, values)

    def verify(self, done: Done) -> list[Column]:
        """Read all rows without keeping them; the values that are not tensors. Raises: ``Damaged``, ``OSError``."""
        for node in in_file_order(self.schema):
            self._fill(node, None, done)
        return self._values(done)

    def pour(self, leaves: list[Tensor], done: Done) -> list[Column]:
        """Read the rows into ``leaves``, in the order of the schema, ``[readable, *T, *feature_shape]`` on any device.

        What has come is certain when this returns.

        Returns:
            The values that are not tensors.

        Raises:
            Damaged: a byte is not what was written.
            OSError: the file system refuses.
        """
        for node in in_file_order(self.schema):
            self._fill(node, leaves[node.position], done)
        return self._values(done)

    def _fill(self, node: TensorNode, leaf: Tensor | None, done: Done) -> None:
        start, size, expected = self._places[_name(node)]
        if not size:
            return
        found = 0
        direct = leaf is not None and leaf.device.type == "cpu"
        target = bytes_of(leaf) if leaf is not None and direct else memoryview(b"")
        count = PIECE // node.dtype.itemsize
        buffer = torch.empty(0 if direct else min(count, size // node.dtype.itemsize), dtype=node.dtype)
        flat = None if leaf is None or direct else leaf.reshape(-1)
        for offset in range(0, size, PIECE):
            length = min(PIECE, size - offset)
            piece = target[offset : offset + length] if direct else bytes_of(buffer)[:length]
            self._read(piece, start + offset)
            found = zlib.crc32(piece, found)
            if node.dtype is torch.bool and torch.frombuffer(piece, dtype=torch.uint8).max() > 1:
                raise Damaged(f"{_name(node)} has a truth value that is neither 0 nor 1")
            if flat is not None:
                first = offset // node.dtype.itemsize
                flat[first : first + length // node.dtype.itemsize].copy_(
                    buffer[: length // node.dtype.itemsize]
                )
            done(length)
        if found != expected:
            raise Damaged(f"{_name(node)} does not match its checksum")

    def _values(self, done: Done) -> list[Column]:
        if not self.schema.values:
            return []
        lines = _Lines(self, done)
        elements = self.readable * prod(self.schema.trailing)
        try:
            found = dump_values.values_of(lines.next, len(self.schema.values), elements)
        except Damaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise Damaged(f"the values that are not tensors cannot be read ({error})") from error
        lines.finish()
        return found

    def _read(self, target: memoryview, offset: int) -> None:
        while target:
            count = os.preadv(self._descriptor, [target], offset)
            if not count:
                raise Damaged("it was cut short while it was read")
            target, offset = target[count:], offset + count


class _Lines:
    """The values of a dump, line by line, verified at the end."""

    def __init__(self, reading: Reading, done: Done) -> None:
        self._reading, self._done = reading, done
        self._offset, self._left, self._expected = reading._places["values"]
        self._sum = 0
        self._held = bytearray()

    def next(self) -> bytes:
        scanned = 0
        while (end := self._held.find(b"\n", scanned)) < 0:
            scanned = len(self._held)
            piece = bytearray(min(2**16, self._left))
            if not piece:
                raise Damaged("there are fewer values than elements")
            self._reading._read(memoryview(piece), self._offset)
            self._offset, self._left = self._offset + len(piece), self._left - len(piece)
            self._sum = zlib.crc32(piece, self._sum)
            self._held += piece
            self._done(len(piece))
        line = bytes(self._held[: end + 1])
        del self._held[: end + 1]
        return line

    def finish(self) -> None:
        if self._left or self._held:
            raise Damaged("there are more values than elements")
        if self._sum != self._expected:
            raise Damaged("the values do not match their checksum")


def opened(descriptor: int, known: Schema | None) -> Reading:
    """The dump in a file.

    Args:
        descriptor: of the file.
        known: the schema of the storage that the rows are for; its classes need not be looked up.

    Raises:
        Damaged: the header is damaged, or of another format or version.
        UnknownClass: it names a class that this process has not loaded.
        OSError: the file system refuses.
    """
    try:
        return _opened(descriptor, known)
    except (Damaged, UnknownClass):
        raise
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        RecursionError,
        OverflowError,
        RuntimeError,
    ) as error:
        raise Damaged(f"its header makes no sense ({error})") from error


def _opened(descriptor: int, known: Schema | None) -> Reading:
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    if size < 8 or not 0 < length <= min(size - 8, LARGEST_HEADER):
        raise Damaged("its length is that of no dump")
    head = os.pread(descriptor, 8 + length, 0)
    metadata = _object(head[8:])["__metadata__"]
    text = metadata["manifest"]
    if metadata["manifest.crc32"] != f"{zlib.crc32(text.encode()):08x}":
        raise Damaged("the manifest does not match its checksum")
    manifest = _object(text)
    if manifest["format"] != FORMAT:
        raise Damaged(f"its format is {str(manifest['format'])[:99]!r}, not {FORMAT!r}")
    if manifest["version"] != VERSION:
        raise Damaged(
            f"it has version {str(manifest['version'])[:99]} of the format, version {VERSION} is the newest known "
            "here: load it with a newer lazy-tensor-storage"
        )
    outline = _outline(manifest, known)
    sums = {name: int(manifest["crc32"][name], 16) for name in outline.sizes()}
    if outline.header(sums) != head:
        raise Damaged("the header is not that of its manifest")
    places: dict[str, tuple[int, int, int]] = {}
    offset = len(head)
    for name, bytes_ in outline.sizes().items():
        places[name] = offset, bytes_, sums[name]
        offset += bytes_
    if offset != size:
        raise Damaged(f"it has {size} bytes in place of {offset}")
    return Reading(
        outline.schema,
        outline.ndim,
        outline.readable,
        outline.last_row,
        offset - len(head),
        descriptor,
        places,
    )


def _outline(manifest: dict[str, Any], known: Schema | None) -> _Outline:
    ndim, rows, values = (checked_count(manifest[name]) for name in ("ndim", "rows", "values"))
    schema = Schema(tree_of(manifest["tree"], (), classes_of(known)), checked_size(manifest["trailing"]))
    if len(schema.trailing) != ndim - 1 or not prod(schema.trailing):
        raise ValueError(f"a trailing shape of {list(schema.trailing)} does not go with ndim={ndim}")
    for nodes in (schema.leaves, schema.values):
        if [node.position for node in nodes] != list(range(len(nodes))):
            raise ValueError("the leaves are not those of the tree")
    last = manifest["last_row"]
    if last is not None and (type(last) is not int or not 0 <= last < rows):
        raise ValueError(f"the last-written row {last!r} is none of the {rows} rows")
    return _Outline(schema, ndim, rows, last, values)


def checked_count(value: Any) -> int:
    """``value`` if it is a number of rows, bytes or dimensions. Raises: ``ValueError``."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no count")
    return value


def _object(text: bytes | str) -> dict[str, Any]:
    """Raises: ``ValueError``, ``RecursionError``."""
    found = json.loads(text)
    if type(found) is not dict:
        raise ValueError("it is no JSON object")
    return found
