"""Reading the rows of a dump, piece by piece, and verifying every byte."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import dump_values
from .dump_file import (
    FORMAT,
    LARGEST_HEADER,
    PIECE,
    VERSION,
    Damaged,
    Done,
    Outline,
    bytes_of,
    in_file_order,
    leaf_name,
)
from .nodes import Column, TensorNode
from .schema import Schema
from .snapshot import Snapshot, UnknownClass, checked_count, checked_size, classes_of, tree_of


class Place(NamedTuple):
    """Where the bytes of a tensor are.

    Attributes:
        descriptor: of the file.
        start: the first byte.
        size: how many.
        checksum: their CRC-32; ``None`` if nobody knows it, and nobody knows either whether bools are 0 and 1.
    """

    descriptor: int
    start: int
    size: int
    checksum: int | None


@dataclass
class Reading:
    """A dump whose header has been read and verified; its rows have not.

    Attributes:
        schema: the structure of the rows.
        ndim: that of the storage that wrote it.
        readable: how many rows.
        last_row: the last-written row.
        size: the bytes of its tensors.
        places: where each tensor is, by `leaf_name`, and ``values``.
    """

    schema: Schema
    ndim: int
    readable: int
    last_row: int | None
    size: int
    places: dict[str, Place]
    columns: list[Column] | None = None
    """The values that are not tensors, where they are no tensor of the file."""

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
        place = self.places[leaf_name(node)]
        if not place.size:
            return
        found = 0
        direct = leaf is not None and leaf.device.type == "cpu"
        target = bytes_of(leaf) if leaf is not None and direct else memoryview(b"")
        width = node.dtype.itemsize
        buffer = torch.empty(0 if direct else min(PIECE, place.size) // width, dtype=node.dtype, device="cpu")
        flat = None if leaf is None or direct else leaf.reshape(-1)
        for offset in range(0, place.size, PIECE):
            length = min(PIECE, place.size - offset)
            piece = target[offset : offset + length] if direct else bytes_of(buffer)[:length]
            read_exactly(place.descriptor, piece, place.start + offset)
            found = zlib.crc32(piece, found)
            if node.dtype is torch.bool:
                self._look_at_bools(node, torch.frombuffer(piece, dtype=torch.uint8))
            if flat is not None:
                flat[offset // width : (offset + length) // width].copy_(buffer[: length // width])
            done(length)
        if place.checksum not in (None, found):
            raise Damaged(f"{leaf_name(node)} does not match its checksum")

    def _look_at_bools(self, node: TensorNode, piece: Tensor) -> None:
        if self.places[leaf_name(node)].checksum is None:
            piece.clamp_(max=1)
        elif piece.max() > 1:
            raise Damaged(f"{leaf_name(node)} has a truth value that is neither 0 nor 1")

    def _values(self, done: Done) -> list[Column]:
        if self.columns is not None or not self.schema.values:
            return self.columns or []
        place = self.places["values"]
        lines = _Lines(place)
        elements = self.readable * prod(self.schema.trailing)
        try:
            found = dump_values.values_of(lines.next, len(self.schema.values), elements)
        except Damaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise Damaged(f"the values that are not tensors cannot be read ({error})") from error
        lines.finish()
        done(place.size)  # not within the try: what a callback raises is no damage
        return found


def read_exactly(descriptor: int, target: memoryview, offset: int) -> None:
    """Fills ``target`` with the bytes of a file from ``offset`` on. Raises: ``Damaged``, ``OSError``."""
    while target:
        count = os.preadv(descriptor, [target], offset)
        if not count:
            raise Damaged("it was cut short while it was read")
        target, offset = target[count:], offset + count


class _Lines:
    """The values of a dump, line by line, verified at the end."""

    def __init__(self, place: Place) -> None:
        self._descriptor, self._offset, self._left, self._expected = place
        self._sum = 0
        self._held = bytearray()

    def next(self) -> bytes:
        scanned = 0
        while (end := self._held.find(b"\n", scanned)) < 0:
            scanned = len(self._held)
            piece = bytearray(min(2**16, self._left))
            if not piece:
                raise Damaged("there are fewer values than elements")
            read_exactly(self._descriptor, memoryview(piece), self._offset)
            self._offset, self._left = self._offset + len(piece), self._left - len(piece)
            self._sum = zlib.crc32(piece, self._sum)
            self._held += piece
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
    places: dict[str, Place] = {}
    offset = len(head)
    for name, bytes_ in outline.sizes().items():
        places[name] = Place(descriptor, offset, bytes_, sums[name])
        offset += bytes_
    if offset != size:
        raise Damaged(f"it has {size} bytes in place of {offset}")
    return Reading(
        outline.schema,
        outline.ndim,
        outline.readable,
        outline.last_row,
        offset - len(head),
        places,
    )


def _outline(manifest: dict[str, Any], known: Schema | None) -> Outline:
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
    specification = manifest["specification"]
    if type(specification) is not str:
        raise ValueError(f"{specification!r} is no version of a specification")
    return Outline(schema, ndim, rows, last, values, specification)


def _object(text: bytes | str) -> dict[str, Any]:
    """Raises: ``ValueError``, ``RecursionError``."""
    found = json.loads(text)
    if type(found) is not dict:
        raise ValueError("it is no JSON object")
    return found
