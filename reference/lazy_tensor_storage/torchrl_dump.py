"""Dumps that TorchRL has written, so that people can move: read only, and as safely as our own.

TorchRL writes a folder with a ``.memmap`` file for each leaf, of the whole capacity, and JSON beside them:

* ``storage_metadata.json``: the length, as TorchRL counts it, and for tensors and pytrees the dtype and shape of
  each leaf by its path;
* ``meta.json``, one for each TensorDict, in a folder of its own: its batch size, and each entry's dtype and shape, or
  that it is in a folder itself. That of a tensorclass names its class and the fields that are ``None``, its other
  entries are in the folder ``_tensordict``.
  Values that are not tensors are lists in it, unless TorchRL could only pickle them: then the dump is refused.

There are no checksums: of damage only a wrong length shows. Nor is the structure of a pytree there, which must be known
from a row in the storage that loads it, nor the last-written row.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from math import prod
from typing import Any

import torch

from . import dtypes, values
from .dump_file import LARGEST_HEADER, Damaged, leaf_name
from .dump_reading import Place, Reading, read_exactly
from .durable import NotPlain, plain_file, plain_folder
from .nodes import Column, MappingNode, SequenceNode, TensorNode
from .schema import Schema, known_classes
from .snapshot import UnknownClass, checked_count, classes_of, tree_of

FILE = "storage_metadata.json"
_SINGLE = "_-single-tensor-_"
_OWN = {"shape", "device", "_type"}
"""Entries of ``meta.json`` that are none of the TensorDict: TorchRL forgets leaves of these names."""


def opened(stack: ExitStack, folder: int, known: Schema | None, ndim: int) -> Reading:
    """The dump in a folder.

    Args:
        stack: closes the files.
        folder: a descriptor.
        known: the schema of the storage that the rows are for.
        ndim: of that storage; the dump does not say.

    Raises:
        Damaged: it is no such dump, or a file has not the length that it should have.
        NotPlain: something in it is a symbolic link or no file.
        UnknownClass: it names a class that this process does not have.
        OSError: the file system refuses.
    """
    try:
        return _Dump(stack, ndim, known).reading(folder)
    except (Damaged, NotPlain, UnknownClass):
        raise
    except FileNotFoundError as error:
        raise Damaged(f"{error.filename} is missing") from error
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError, OverflowError) as error:
        raise Damaged(f"its metadata make no sense ({error})") from error


class _Dump:
    def __init__(self, stack: ExitStack, ndim: int, known: Schema | None) -> None:
        self._stack, self._ndim, self._known = stack, ndim, known
        self._files: list[tuple[int, list[int], torch.dtype]] = []
        self._columns: list[Column] = []
        self._shape: list[int] | None = None

    def reading(self, folder: int) -> Reading:
        metadata = _json(folder, FILE)
        root = self._pytree(folder, metadata["metadata"]) if metadata["is_pytree"] else self._folder(folder)
        shape = self._shape or []
        trailing = torch.Size(shape[1:])
        if len(shape) != self._ndim or not prod(trailing):
            raise Damaged(f"its batch size {shape} does not go with ndim={self._ndim}")
        # TorchRL counts elements, and some of them twice.
        readable = min(-(-checked_count(metadata["len"]) // prod(trailing)), shape[0])
        schema = Schema(tree_of(root, (), classes_of(self._known)), trailing)
        places = {leaf_name(node): self._place(node, readable, shape[0]) for node in schema.leaves}
        elements = readable * prod(trailing)
        columns: list[Column] = [None if column is None else column[:elements] for column in self._columns]
        return Reading(
            schema, self._ndim, readable, None, sum(place.size for place in places.values()), places, columns
        )

    def _place(self, node: TensorNode, readable: int, rows: int) -> Place:
        descriptor, shape, dtype = self._files[node.position]
        size = prod(shape) * dtype.itemsize
        found = os.fstat(descriptor).st_size if descriptor >= 0 else 0
        if found != size:
            raise Damaged(f"the leaf {node.path!r} has {found} bytes in place of {size}")
        return Place(descriptor, 0, size // rows * readable if rows else 0, None)

    # TensorDicts and tensorclasses ---------------------------------------------------------------------------------

    def _folder(self, folder: int) -> dict[str, Any]:
        """What is in a folder, in the manner of `plain_tree`."""
        meta = _json(folder, "meta.json")
        kind = meta["_type"]
        if kind.endswith((".NonTensorStack'>", ".NonTensorData'>")):
            return self._value(folder, meta)
        if kind == "<class 'tensordict._td.TensorDict'>":
            return self._tensordict(folder, meta)
        inner = self._open(folder, "_tensordict", inside=True)
        body = self._tensordict(inner, _json(inner, "meta.json"))
        body["fields"] += self._empty_fields(folder, meta, body["batch"])
        return {"is": "tensorclass", "class": self._class(kind), "body": body}

    def _empty_fields(self, folder: int, meta: dict[str, Any], batch: list[int]) -> list[Any]:
        """The fields of a tensorclass that are ``None`` in all rows."""
        if any(name.endswith((".pickle", ".pkl")) for name in os.listdir(folder)):
            raise Damaged("a value that is not a tensor is pickled, which nobody should load")
        fields: list[Any] = []
        for key, value in meta.items():
            if key == "_type":
                continue
            if value is not None:
                raise ValueError(f"the field {key!r} is kept beside the rows")
            self._columns.append(None)
            node = {"is": "value", "at": len(self._columns) - 1, "shape": batch, "optional": True}
            fields.append([key, node])
        return fields

    def _tensordict(self, folder: int, meta: dict[str, Any]) -> dict[str, Any]:
        shape = self._leading(meta["shape"])
        fields = []
        for key, entry in meta.items():
            if key in _OWN:
                continue
            name = _file_name(key)
            inside = "dtype" not in entry
            node = (
                self._folder(self._open(folder, name, inside=True))
                if inside
                else self._tensor(folder, f"{name}.memmap", entry)
            )
            fields.append([key, node])
        lost = {f"{key}.memmap" for key in _OWN} & set(os.listdir(folder))
        if lost:
            raise Damaged(f"TorchRL's metadata do not say what {min(lost)} holds")
        return {"is": "tensordict", "batch": shape[self._ndim :], "fields": fields}

    def _value(self, folder: int, meta: dict[str, Any]) -> dict[str, Any]:
        if "data" not in meta or "pickle.pkl" in os.listdir(folder):
            raise Damaged("a value that is not a tensor is pickled, which nobody should load")
        shape = self._shape or []
        if meta["_type"].endswith(".NonTensorData'>"):
            column = [values.own(meta["data"]) for _ in range(prod(shape))]
        else:
            if meta["stack_dim"] != 0:
                raise ValueError(
                    "values that are not tensors are stacked along another dimension than the first"
                )
            column = meta["data"]
            for size in shape[1:]:
                if any(type(part) is not list or len(part) != size for part in column):
                    raise ValueError("there is not one value for each element")
                column = [value for part in column for value in part]
        if type(column) is not list or len(column) != prod(shape):
            raise ValueError("there is not one value for each element")
        self._columns.append(column)
        return {"is": "value", "at": len(self._columns) - 1, "shape": [], "optional": False}

    def _class(self, text: str) -> str:
        """The name of the class that is printed like this, of those that this process has loaded."""
        for name, cls in {**dict(known_classes), **classes_of(self._known)}.items():
            if str(cls) == text:
                return name
        parts = text.removeprefix("<class '").removesuffix("'>").split(".")
        for split in range(len(parts) - 1, 0, -1):
            if ".".join(parts[:split]) in sys.modules:
                return f"{'.'.join(parts[:split])}:{'.'.join(parts[split:])}"
        raise UnknownClass(f"the rows are of {text}, which this process has not imported: import it first")

    # Tensors and pytrees -------------------------------------------------------------------------------------------

    def _pytree(self, folder: int, entries: dict[str, Any]) -> dict[str, Any]:
        if list(entries) == [_SINGLE]:
            return self._tensor(folder, f"{_SINGLE}.memmap", entries[_SINGLE])
        if self._known is None:
            raise Damaged(
                "TorchRL has not written down the structure of this pytree: write a row of it to the storage, then load"
            )
        left = dict(entries)
        tree = self._like(self._known.root, folder, (), left)
        if left:
            raise ValueError(f"the leaves {list(left)[:9]} are none of the storage")
        return tree

    def _like(self, node: Any, folder: int, path: tuple[str, ...], left: dict[str, Any]) -> dict[str, Any]:
        if isinstance(node, TensorNode):
            entry = left.pop(".".join(path))
            for name in path[:-1]:
                folder = self._open(folder, name, inside=True)
            return self._tensor(folder, f"{path[-1]}.memmap", entry)
        if isinstance(node, MappingNode):
            kind = "dict" if node.cls is dict else "ordereddict"
            fields = [
                [key, self._like(child, folder, (*path, str(key)), left)]
                for key, child in node.fields.items()
            ]
            return {"is": kind, "fields": fields}
        if isinstance(node, SequenceNode) and node.cls in (tuple, list):
            entries = [
                self._like(child, folder, (*path, str(n)), left) for n, child in enumerate(node.entries)
            ]
            return {"is": node.cls.__name__, "entries": entries}
        raise ValueError(f"a pytree of TorchRL has no {node.kind} inside")

    def _tensor(self, folder: int, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        dtype = dtypes.dtype_of(entry["dtype"].removeprefix("torch."))
        shape = self._leading(entry["shape"])
        if entry.get("is_nested"):
            raise ValueError("a leaf is a nested tensor")
        descriptor = -1
        if prod(shape):  # TorchRL writes no file for a leaf without bytes
            descriptor = self._open(folder, name)
        self._files.append((descriptor, shape, dtype))
        at = len(self._files) - 1
        return {"is": "tensor", "at": at, "shape": shape[self._ndim :], "dtype": dtypes.name_of(dtype)}

    def _leading(self, shape: Any) -> list[int]:
        """``shape`` if it begins as the first one that was met."""
        found = [checked_count(size) for size in shape]
        if self._shape is None:
            self._shape = found[: self._ndim]
        if found[: self._ndim] != self._shape:
            raise ValueError(f"the shapes {self._shape} and {found} are of different rows")
        return found

    def _open(self, folder: int, name: str, *, inside: bool = False) -> int:
        _check_name(name)
        return self._stack.enter_context(plain_folder(folder, name) if inside else plain_file(folder, name))


def _json(folder: int, name: str) -> dict[str, Any]:
    with plain_file(folder, name) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > LARGEST_HEADER:
            raise Damaged(f"{name} has {size} bytes, more than {LARGEST_HEADER}")
        text = bytearray(size)
        read_exactly(descriptor, memoryview(text), 0)
    found = json.loads(text)
    if type(found) is not dict:
        raise ValueError(f"{name} holds no JSON object")
    return found


def _file_name(key: str) -> str:
    """What tensordict calls the file of a key: no key leads out of the folder."""
    if key in ("", ".", ".."):
        return "%2E" * len(key) or "%"
    odd = '/<>:"|?*\\ %\x7f'
    return "".join(f"%{ord(one):02X}" if one in odd or ord(one) < 32 else one for one in key)


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise Damaged(f"the name {name[:99]!r} leads out of its folder")
    if len(os.fsencode(name)) > 255:
        raise Damaged(f"the name {name[:99]!r}... is longer than any file's")
