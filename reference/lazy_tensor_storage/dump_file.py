"""The layout of a dump, version 1: a file for any reader of safetensors, of which every byte can be verified.

FORMAT.md has it in full. Eight bytes give the length of the header, a JSON document padded with blanks to a multiple
of eight; then come the tensors, one after the other:

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
import zlib
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .nodes import TensorNode
from .schema import Schema
from .snapshot import plain_tree

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


class Outline(NamedTuple):
    """What a dump is about: all but the sums is known before the first byte is written.

    Attributes:
        schema: the structure of the rows.
        ndim: that of the storage.
        readable: how many rows.
        last_row: the last-written row.
        values: the bytes of the values that are not tensors.
        specification: the version of SPEC.md that the writer knew; a reader lets any pass.
    """

    schema: Schema
    ndim: int
    readable: int
    last_row: int | None
    values: int
    specification: str = SPECIFICATION

    def sizes(self) -> dict[str, int]:
        """The bytes of each tensor, in the order of the file."""
        found = {leaf_name(node): self.size(node) for node in in_file_order(self.schema)}
        return found | ({"values": self.values} if self.schema.values else {})

    def size(self, node: TensorNode) -> int:
        return self.readable * prod(self.schema.trailing) * prod(node.feature_shape) * node.dtype.itemsize

    def header(self, sums: dict[str, int]) -> bytes:
        """The file up to the first tensor; as long whatever the sums are."""
        manifest = _text(
            {
                "format": FORMAT,
                "version": VERSION,
                "specification": self.specification,
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
        nodes = {leaf_name(node): node for node in self.schema.leaves}
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


def leaf_name(node: TensorNode) -> str:
    """What the tensor of a leaf is called."""
    return f"leaf.{node.position}"


def _text(plain: Any) -> str:
    try:
        return json.dumps(plain, separators=(",", ":"))
    except RecursionError:
        raise TypeError("the structure is nested too deeply for a dump; nothing was written.") from None


def bytes_of(dense: Tensor) -> memoryview:
    """The memory of a dense tensor on the CPU."""
    if not dense.numel():
        return memoryview(b"")
    flat = dense.reshape(-1)
    if flat.numel() == 1:  # then any stride counts as dense
        flat = flat.as_strided((1,), (1,))
    block: Any = flat.view(torch.uint8).numpy()
    return memoryview(block)
