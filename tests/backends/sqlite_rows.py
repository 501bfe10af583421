"""An honest storage that shares nothing with the reference: each row is a blob in a SQLite table.

A row that was never written is not in the table; it is read as zeros. Indices are resolved by torch itself, on the
numbers of the cells in the rows that are addressed.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import sqlite3
import struct
import sys
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy
import torch
from tensordict import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    TensorDictBase,
    is_non_tensor,
    is_tensorclass,
)

FEATURES = frozenset({"non_tensor", "state_dict", "last_row", "clear"})
REFUSED = frozenset({"pytree", "detach"})

MAGIC = b"rows of sqlite 1\n"
CPU = torch.device("cpu")
Shape = tuple[int, ...]


class SqliteRows:
    """Keeps each row as bytes in an in-memory database of its own."""

    def __init__(self, max_size: int, *, device: Any = CPU, ndim: int = 1):
        for number in (max_size, ndim):
            if isinstance(number, bool | numpy.bool_) or not hasattr(number, "__index__"):
                raise TypeError(f"{number!r} is no integer")
            if operator.index(number) < 1:
                raise ValueError(f"{number} is below 1")
        if not isinstance(device, str | torch.device):
            raise TypeError(f"{device!r} is no device")
        if device != "auto" and torch.device(device).type != "cpu":
            raise ValueError(f"rows are kept on the CPU, not on {device}")
        self._asked_for, self._ndim = operator.index(max_size), operator.index(ndim)
        self._auto = device == "auto"
        self._schema: dict[str, Any] | None = None
        self._classes: dict[str, type] = {}
        self._trailing: Shape = ()
        self._readable = 0
        self._last_row: int | None = None
        self._listeners: list[Any] = []
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, content BLOB NOT NULL)")
        weakref.finalize(self, self._database.close)

    # --- what can be asked

    @property
    def ndim(self) -> int:
        return self._ndim

    @property
    def last_row(self) -> int | None:
        return self._last_row

    @property
    def device(self) -> Any:
        return "auto" if self._auto and self._schema is None else CPU

    @property
    def max_size(self) -> int:
        if self._schema is None:
            return self._asked_for
        return _rows_for(self._asked_for, self._trailing) * prod(self._trailing)

    @property
    def shape(self) -> torch.Size | None:
        if self._schema is None:
            return None
        return torch.Size([self._readable, *self._trailing])

    def __len__(self) -> int:
        return self._readable * prod(self._trailing)

    def __contains__(self, row: object) -> bool:
        if isinstance(row, bool) or not hasattr(row, "__index__"):
            return False
        try:
            number = operator.index(row)
        except TypeError:
            return False
        return -self._readable <= number < self._readable

    def __iter__(self) -> Iterator[Any]:
        for row in range(self._readable):
            yield self.get(row)

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a database connection cannot be copied")

    __reduce__ = None

    # --- writing

    def set(self, index: Any, data: Any) -> None:
        parts = _parts(index, self._ndim)
        value = _taken(data, parts)
        if self._schema is None:
            self._first(parts, value)
            return
        rows = _rows_for(self._asked_for, self._trailing)
        numbers = _numbers(parts, rows, self._trailing, wrap=False, limit=_widest(value))
        self._check(value, numbers)
        if numbers.numel():
            self._put(numbers, value)
            self._grow(numbers)

    def _first(self, parts: tuple[Any, ...], value: Any) -> None:
        lead = _lead_of_first(parts)
        dimensions = _dimensions(value)
        trailing = dimensions[lead : lead + self._ndim - 1]
        if len(dimensions) < lead + self._ndim - 1:
            raise ValueError(f"data of shape {dimensions} are too flat for ndim {self._ndim}")
        if 0 in trailing and 0 not in dimensions[:lead]:
            raise ValueError("rows without elements cannot be counted")
        capacity = self._asked_for if 0 in trailing else _rows_for(self._asked_for, trailing)
        numbers = _numbers(parts, capacity, trailing, wrap=False, limit=_widest(value))
        schema = _schema(value, tuple(numbers.shape))
        if self._ndim > 1 and _value_count(schema):
            raise TypeError("values that are not tensors need ndim 1")
        if not numbers.numel():
            return
        classes = _classes(value)
        cells = _cells(value, len(numbers.shape))
        self._schema, self._trailing, self._classes = schema, trailing, classes
        self._put(numbers, value, cells)
        self._grow(numbers)

    def _check(self, value: Any, numbers: torch.Tensor) -> None:
        _compare(self._schema, _schema(value, tuple(numbers.shape)))
        for name, kind in _classes(value).items():
            if self._classes[name] is not kind:
                raise TypeError(f"another class is called {name}")

    def _put(self, numbers: torch.Tensor, value: Any, cells: list[bytes] | None = None) -> None:
        cells = _cells(value, numbers.ndim) if cells is None else cells
        width = prod(self._trailing)
        changed: dict[int, dict[int, bytes]] = {}
        for number, cell in zip(numbers.reshape(-1).tolist(), cells, strict=True):
            changed.setdefault(number // width, {})[number % width] = cell
        rows = []
        for row, parts in changed.items():
            if len(parts) < width:
                parts = dict(enumerate(self._row(row))) | parts
            rows.append((row, b"".join(parts[place] for place in range(width))))
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def _grow(self, numbers: torch.Tensor) -> None:
        width = prod(self._trailing)
        rows = numbers.reshape(-1) // width
        self._readable = max(self._readable, int(rows.max()) + 1)
        self._last_row = int(rows[-1])
        self._announce(numbers.reshape(-1))

    def __setitem__(self, index: Any, data: Any) -> None:
        parts = _parts(index, self._ndim)
        if self._schema is None:
            raise IndexError("no row was ever written, so none can be assigned")
        value = _taken(data, parts)
        numbers = _numbers(parts, self._readable, self._trailing, wrap=True)
        self._check(value, numbers)
        if numbers.numel():
            self._put(numbers, value)
            self._announce(numbers.reshape(-1))

    # --- reading

    def get(self, index: Any) -> Any:
        parts = _parts(index, self._ndim)
        if self._schema is None:
            raise RuntimeError("no row was ever written")
        numbers = _numbers(parts, self._readable, self._trailing, wrap=True)
        width = prod(self._trailing)
        flat = numbers.reshape(-1).tolist()
        rows = {row: self._row(row) for row in {number // width for number in flat}}
        cells = [rows[number // width][number % width] for number in flat]
        return _Reader(self._schema, self._classes, cells).read(tuple(numbers.shape))

    __getitem__ = get

    def _row(self, row: int) -> list[bytes]:
        width = prod(self._trailing)
        found = self._database.execute("SELECT content FROM rows WHERE number = ?", (row,)).fetchone()
        if found is None:
            return [_empty_cell(self._schema)] * width
        if width == 1:
            return [found[0]]
        size = len(found[0]) // width
        return [found[0][place * size : (place + 1) * size] for place in range(width)]

    # --- listeners

    def attach(self, entity: Any) -> None:
        if not callable(getattr(entity, "mark_update", None)):
            raise TypeError("an entity needs a method mark_update")
        if id(entity) not in map(id, self._listeners):
            self._listeners.append(entity)

    def _announce(self, numbers: torch.Tensor) -> None:
        """Tells everybody, then raises what the first of them raised."""
        columns = []
        for size in reversed(self._trailing):
            columns.append(numbers % size)
            numbers = numbers // size
        columns.append(numbers)
        index = torch.stack(columns[::-1], -1) if self._ndim > 1 else numbers
        failures: list[Exception] = []
        for listener in list(self._listeners):
            try:
                listener.mark_update(index.clone())
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    # --- clear

    def clear(self) -> None:
        self._database.execute("DELETE FROM rows")
        self._readable, self._last_row = 0, None

    # --- state dicts and dumps: a head and the rows

    def _state(self) -> dict[str, Any]:
        return {
            "ndim": self._ndim,
            "trailing": list(self._trailing),
            "readable": self._readable,
            "last_row": self._last_row,
            "schema": None if self._schema is None else json.dumps(self._schema),
        }

    def state_dict(self) -> dict[str, Any]:
        return {**self._state(), "rows": dict(self._stored())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or set(state) != {*self._state(), "rows"}:
            raise ValueError("this is no state of a storage")
        if not isinstance(state["rows"], dict):
            raise TypeError("the rows of a state are a dict")
        if state["schema"] is not None:
            self._restore(state, list(state["rows"].items()))
        elif (
            state["readable"] != 0
            or state["last_row"] is not None
            or state["rows"]
            or state["trailing"] != []
        ):
            raise ValueError("a state without a schema has no rows")
        else:
            self.clear()
            self._schema, self._trailing, self._classes = None, (), {}

    def _stored(self) -> Iterable[tuple[int, bytes]]:
        return self._database.execute("SELECT number, content FROM rows ORDER BY number").fetchall()

    def _restore(self, state: dict[str, Any], rows: list[tuple[int, bytes]]) -> None:
        if state["ndim"] != self._ndim:
            raise ValueError(
                f"the rows were written with ndim {state['ndim']}, this storage has {self._ndim}"
            )
        schema, trailing = _checked_state(state, rows)
        capacity = _rows_for(self._asked_for, trailing)
        if state["readable"] > capacity:
            raise ValueError(f"{state['readable']} rows do not fit into {capacity}")
        if self._schema is None:
            classes = {name: _class_called(name) for name in _class_names(schema)}
        else:
            if trailing != self._trailing:
                raise ValueError(f"rows have shape {trailing}, those of this storage {self._trailing}")
            _compare(self._schema, schema)
            classes = self._classes
        self._database.execute("BEGIN")
        try:
            self._database.execute("DELETE FROM rows")
            self._database.executemany("INSERT INTO rows VALUES (?, ?)", rows)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        # Cells are laid out in the order of the schema that they were written with.
        self._schema, self._trailing, self._classes = schema, trailing, classes
        self._readable, self._last_row = state["readable"], state["last_row"]
        if self._readable:
            self._announce(torch.arange(self._readable * prod(trailing)))

    def dumps(self, path: str | os.PathLike[str]) -> None:
        if self._schema is None:
            raise RuntimeError("no row was ever written: there is nothing to dump")
        target = Path(path)
        head = json.dumps(self._state()).encode()
        pieces = [struct.pack("<Q", len(head)), head]
        pieces += [struct.pack("<QQ", row, len(content)) + content for row, content in self._stored()]
        body = b"".join(pieces)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
        try:
            aside.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)

    def loads(self, path: str | os.PathLike[str]) -> None:
        content = Path(path).read_bytes()
        start = len(MAGIC) + 32
        body = content[start:]
        if content[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != content[len(MAGIC) : start]:
            raise ValueError(f"{path} is no dump, or is damaged")
        end = 8 + struct.unpack_from("<Q", body)[0]
        state, rows = json.loads(body[8:end]), []
        while end < len(body):
            row, size = struct.unpack_from("<QQ", body, end)
            rows.append((row, body[end + 16 : end + 16 + size]))
            end += 16 + size
        self._restore(state, rows)

    def dump(self, path: str | os.PathLike[str]) -> None:
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        self.loads(path)


def _rows_for(size: int, trailing: Shape) -> int:
    return -(-size // prod(trailing))


# --- indices


def _parts(index: Any, ndim: int) -> tuple[Any, ...]:
    """The entries of an index, without `...`: integers, slices, ranges and tensors of int64 or bool."""
    given = index if isinstance(index, tuple) else (index,)
    parts = [_part(entry) for entry in given if entry is not Ellipsis]
    used = sum(
        entry.ndim if isinstance(entry, torch.Tensor) and entry.dtype == torch.bool else 1 for entry in parts
    )
    if used > ndim:
        raise IndexError(f"an index of {used} dimensions, ndim is {ndim}")
    gaps = [place for place, entry in enumerate(given) if entry is Ellipsis]
    if len(gaps) > 1:
        raise IndexError("an index has one '...' at most")
    if gaps or not parts:
        place = gaps[0] if gaps else 0
        parts[place:place] = [slice(None)] * (ndim - used)
    while len(parts) > 1 and isinstance(parts[-1], slice) and parts[-1] == slice(None):
        parts.pop()  # so that whole rows are known as such
    return tuple(parts)


def _part(entry: Any) -> Any:
    if entry is None or isinstance(entry, bool | numpy.bool_ | float | complex | str | bytes | numpy.ndarray):
        raise TypeError(f"{entry!r} is no index of rows")
    if isinstance(entry, slice):
        entry.indices(1)
        return entry
    if isinstance(entry, range):
        return entry
    if isinstance(entry, list):
        return _list_index(entry)
    if not isinstance(entry, torch.Tensor):
        return operator.index(entry)
    if entry.is_meta or entry.layout != torch.strided or entry.is_floating_point() or entry.is_complex():
        raise TypeError(f"a tensor of {entry.dtype} is no index of rows")
    if entry.ndim == 0:
        if entry.dtype == torch.bool:
            raise TypeError("a truth value is no index of rows")
        return int(entry)
    return entry.detach().cpu() if entry.dtype == torch.bool else entry.detach().cpu().long()


def _list_index(entry: list[Any]) -> torch.Tensor:
    for number in entry:
        if isinstance(number, bool | numpy.bool_) or not hasattr(number, "__index__"):
            raise TypeError(f"{number!r} in a list names no row")
    numbers = [operator.index(number) for number in entry]
    if any(not -(2**62) < number < 2**62 for number in numbers):
        raise IndexError("no storage has that many rows")
    return torch.tensor(numbers, dtype=torch.int64)


def _is_item(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(entry, int) for entry in parts)


def _lead_of_first(parts: tuple[Any, ...]) -> int:
    """How many dimensions the rows have in the data of a first write."""
    first = parts[0]
    if len(parts) > 1 or (isinstance(first, torch.Tensor) and first.dtype == torch.bool and first.ndim > 1):
        raise IndexError("the first write has to cover whole rows")
    if isinstance(first, int):
        return 0
    return first.ndim if isinstance(first, torch.Tensor) and first.dtype != torch.bool else 1


def _numbers(
    parts: tuple[Any, ...], rows: int, trailing: Shape, *, wrap: bool, limit: int | None = None
) -> torch.Tensor:
    """The numbers of the cells addressed, in the shape of the result."""
    first, *others = parts
    if isinstance(first, torch.Tensor) and first.dtype == torch.bool:
        if tuple(first.shape) != (rows, *trailing)[: first.ndim]:
            raise IndexError(f"a mask of shape {tuple(first.shape)} for {(rows, *trailing)}")
        first, *inner = first.nonzero(as_tuple=True)
        others = [*inner, *others]
    if isinstance(first, slice):
        chosen, first = range(*first.indices(rows)), slice(None)
        if limit is not None and len(chosen) > limit:
            raise ValueError(f"{len(chosen)} rows are addressed, the data have {limit}")
        addressed = torch.tensor(chosen, dtype=torch.int64)
    elif isinstance(first, int):
        addressed = torch.tensor([_inside(first, rows, wrap)])
        first = 0
    else:
        if isinstance(first, range):
            if first:
                _inside(first[0], rows, wrap)
                _inside(first[-1], rows, wrap)
            first = torch.tensor(list(first), dtype=torch.int64)
        if first.numel():
            _inside(int(first.min()), rows, wrap)
            _inside(int(first.max()), rows, wrap)
        addressed, first = torch.where(first < 0, first + rows, first).unique(return_inverse=True)
    width = prod(trailing)
    cells = addressed.reshape(-1, *[1] * len(trailing)) * width + torch.arange(width).reshape(trailing)
    entries = tuple(
        torch.tensor(list(entry), dtype=torch.int64) if isinstance(entry, range) else entry
        for entry in others
    )
    return cells[(first, *entries)]


def _inside(row: int, rows: int, wrap: bool) -> int:
    if not (-rows if wrap else 0) <= row < rows:
        raise IndexError(f"row {row}, of {rows}")
    return row % rows


# --- data: tensors, values and fields with one leading shape


@dataclass
class Values:
    """Encoded values that are not tensors, in row-major order of `dimensions`."""

    dimensions: Shape
    encoded: list[bytes]


@dataclass
class Fields:
    """A TensorDict, or a tensorclass if `kind` is one."""

    kind: type | None
    dimensions: Shape
    members: dict[str, Any]


def _taken(data: Any, parts: tuple[Any, ...]) -> Any:
    if not isinstance(data, list):
        return _dense(data)
    if _is_item(parts):
        raise ValueError("a list is a batch of items, one item is addressed")
    return _stack([_dense(item) for item in data], 0)


def _dense(value: Any) -> Any:
    """A copy in which nothing is lazy."""
    if is_non_tensor(value):
        return Values(tuple(value.batch_size), [_encoded(item) for item in _flat_values(value)])
    if is_tensorclass(value):
        inner = value._tensordict
        if isinstance(inner, LazyStackedTensorDict):
            items = [
                _fields(type(value), item, type(value).__dataclass_fields__) for item in inner.tensordicts
            ]
            return _stack(items, inner.stack_dim)
        return _fields(type(value), inner, type(value).__dataclass_fields__)
    if isinstance(value, LazyStackedTensorDict):
        return _stack([_dense(item) for item in value.tensordicts], value.stack_dim)
    if isinstance(value, TensorDictBase):
        return _fields(None, value, value.keys())
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{type(value).__name__} is no tensor, TensorDict or tensorclass")
    if value.layout != torch.strided or value.is_nested or value.is_quantized or value.is_meta:
        raise TypeError("a tensor has to be dense, and to have values")
    with torch.inference_mode(False):
        return torch.empty(value.shape, dtype=value.dtype).copy_(value.detach())


def _fields(kind: type | None, inner: TensorDictBase, names: Iterable[str]) -> Fields:
    members = {name: inner.get(name, None) for name in names}
    return Fields(
        kind,
        tuple(inner.batch_size),
        {name: None if member is None else _dense(member) for name, member in members.items()},
    )


def _flat_values(value: Any) -> list[Any]:
    if isinstance(value, NonTensorStack):
        return [item for part in value.unbind(0) for item in _flat_values(part)]
    return [value.data] * prod(value.batch_size)


def _stack(values: list[Any], axis: int) -> Any:
    if not values:
        raise ValueError("no items to stack")
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        raise ValueError("the items of a batch are of different kinds")
    if first is None:
        return None
    if isinstance(first, torch.Tensor):
        if any(value.shape != first.shape for value in values):
            raise ValueError("the items of a batch have different shapes")
        if any(value.dtype != first.dtype for value in values):
            raise TypeError("the items of a batch have different dtypes")
        return torch.stack(values, axis)
    if any(value.dimensions != first.dimensions for value in values):
        raise ValueError("the items of a batch have different batch sizes")
    dimensions = (*first.dimensions[:axis], len(values), *first.dimensions[axis:])
    if isinstance(first, Values):
        count = prod(first.dimensions)
        places = [
            torch.arange(k * count, (k + 1) * count).reshape(first.dimensions) for k in range(len(values))
        ]
        joint = [item for value in values for item in value.encoded]
        return Values(dimensions, [joint[place] for place in torch.stack(places, axis).reshape(-1).tolist()])
    if any(value.kind is not first.kind or set(value.members) != set(first.members) for value in values):
        raise ValueError("the items of a batch have different fields")
    members = {name: _stack([value.members[name] for value in values], axis) for name in first.members}
    return Fields(first.kind, dimensions, members)


def _dimensions(value: Any) -> Shape:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else value.dimensions


def _widest(value: Any) -> int:
    return max(_dimensions(value), default=0)


# --- schemas: what all rows have in common, as JSON


def _schema(value: Any, lead: Shape) -> dict[str, Any]:
    if value is None:
        return {"kind": "none"}
    dimensions = _dimensions(value)
    if dimensions[: len(lead)] != lead:
        raise ValueError(f"data of shape {dimensions} for an index of shape {lead}")
    shape = list(dimensions[len(lead) :])
    if isinstance(value, torch.Tensor):
        return {"kind": "tensor", "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}
    if isinstance(value, Values):
        return {"kind": "value", "shape": shape}
    fields = {name: _schema(member, lead) for name, member in value.members.items()}
    return {"kind": _class_name(value.kind) if value.kind else "fields", "shape": shape, "fields": fields}


def _compare(expected: Any, got: Any) -> None:
    if expected["kind"] != got["kind"] or expected.get("dtype") != got.get("dtype"):
        raise TypeError(f"{got} where the storage holds {expected}")
    if expected.get("shape") != got.get("shape"):
        raise ValueError(f"shape {got['shape']} where the storage holds {expected['shape']}")
    ours, theirs = expected.get("fields", {}), got.get("fields", {})
    if set(ours) != set(theirs):
        raise KeyError(f"fields {list(theirs)} where the storage holds {list(ours)}")
    for name, schema in ours.items():
        _compare(schema, theirs[name])


def _leaf_schemas(schema: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    if schema["kind"] == kind:
        yield schema
    for inner in schema.get("fields", {}).values():
        yield from _leaf_schemas(inner, kind)


def _value_count(schema: Any) -> int:
    return sum(prod(leaf["shape"]) for leaf in _leaf_schemas(schema, "value"))


def _size(leaf: dict[str, Any]) -> int:
    return prod(leaf["shape"]) * getattr(torch, leaf["dtype"]).itemsize


def _empty_cell(schema: Any) -> bytes:
    values = struct.pack("<I", 1) + _encoded(None)
    return bytes(sum(map(_size, _leaf_schemas(schema, "tensor")))) + values * _value_count(schema)


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _classes(value: Any) -> dict[str, type]:
    if not isinstance(value, Fields):
        return {}
    found = {_class_name(value.kind): value.kind} if value.kind else {}
    for member in value.members.values():
        found |= _classes(member)
    return found


def _class_names(schema: dict[str, Any]) -> set[str]:
    names = {schema["kind"]} if ":" in schema["kind"] else set()
    return names.union(*map(_class_names, schema.get("fields", {}).values()))


def _class_called(name: str) -> type:
    """Only classes that the program has imported already: a dump imports nothing."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not is_tensorclass(found):
        raise ValueError(f"no tensorclass {name} is known here")
    return found


# --- states


def _checked_state(state: dict[str, Any], rows: list[Any]) -> tuple[dict[str, Any], Shape]:
    """The schema and the trailing shape of a state; anybody may have written it."""
    readable, last_row, trailing = state["readable"], state["last_row"], state["trailing"]
    if (
        type(trailing) is not list
        or len(trailing) != state["ndim"] - 1
        or not all(_natural(n, 1) for n in trailing)
    ):
        raise ValueError(f"{trailing!r} is no trailing shape")
    if not _natural(readable) or not (last_row is None or (_natural(last_row) and last_row < readable)):
        raise ValueError(f"{readable!r} rows with the last one {last_row!r} make no sense")
    schema = json.loads(state["schema"]) if isinstance(state["schema"], str) else None
    if not _is_schema(schema):
        raise ValueError("the schema makes no sense")
    for row, content in rows:
        if not _natural(row) or row >= readable or type(content) is not bytes:
            raise ValueError(f"row {row!r} makes no sense")
        if not _is_row(content, schema, prod(trailing)):
            raise ValueError(f"row {row} has not the bytes that the schema asks for")
    return schema, tuple(trailing)


def _natural(number: Any, least: int = 0) -> bool:
    return type(number) is int and number >= least


def _is_schema(schema: Any) -> bool:
    if not isinstance(schema, dict) or not isinstance(schema.get("kind"), str):
        return False
    kind, fields = schema["kind"], schema.get("fields", {})
    if kind == "tensor" and not isinstance(getattr(torch, str(schema.get("dtype")), None), torch.dtype):
        return False
    shape = schema.get("shape", () if kind == "none" else None)
    if not isinstance(shape, list | tuple) or not all(map(_natural, shape)) or not isinstance(fields, dict):
        return False
    return all(map(_is_schema, fields.values()))


def _is_row(content: bytes, schema: dict[str, Any], width: int) -> bool:
    tensors, values = sum(map(_size, _leaf_schemas(schema, "tensor"))), _value_count(schema)
    if not values:
        return len(content) == tensors * width
    try:
        found = [_decoded(item) for item in _split(content, tensors)]
    except (ValueError, struct.error):
        return False
    return len(found) == values


# --- cells: the bytes of the tensors, then those of the values, each with its length


def _cells(value: Any, depth: int) -> list[bytes]:
    """The cells in the order of the index; `depth` dimensions belong to it."""
    count = prod(_dimensions(value)[:depth])
    tensors, values = _columns(value)
    pieces = [_bytes_of_each(tensor, count) for tensor in tensors]
    for column in values:
        share = len(column.encoded) // count if count else 0
        packed = [struct.pack("<I", len(item)) + item for item in column.encoded]
        pieces.append([b"".join(packed[number * share : (number + 1) * share]) for number in range(count)])
    return [b"".join(parts) for parts in zip(*pieces, strict=True)] if pieces else [b""] * count


def _columns(value: Any) -> tuple[list[torch.Tensor], list[Values]]:
    if isinstance(value, torch.Tensor):
        return [value], []
    if isinstance(value, Values):
        return [], [value]
    tensors, values = [], []
    for member in value.members.values() if value is not None else ():
        more = _columns(member) if member is not None else ([], [])
        tensors += more[0]
        values += more[1]
    return tensors, values


def _bytes_of_each(tensor: torch.Tensor, count: int) -> list[bytes]:
    size = tensor.numel() // count * tensor.element_size() if count else 0
    content = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    return [content[number * size : (number + 1) * size] for number in range(count)]


class _Reader:
    """Builds what `get` returns from the cells that it found."""

    def __init__(self, schema: dict[str, Any], classes: dict[str, type], cells: list[bytes]):
        self.schema, self.classes, self.cells = schema, classes, cells
        self.position = 0
        tensors = sum(map(_size, _leaf_schemas(schema, "tensor")))
        self.values = [_split(cell, tensors) for cell in cells] if _value_count(schema) else []
        self.value_position = 0

    def read(self, lead: Shape) -> Any:
        return self._build(self.schema, lead)

    def _build(self, schema: dict[str, Any], lead: Shape) -> Any:
        if schema["kind"] == "none":
            return None
        shape = (*lead, *schema["shape"])
        if schema["kind"] == "tensor":
            return self._tensor(schema, shape)
        if schema["kind"] == "value":
            return self._value(schema, shape)
        members = {name: self._build(inner, lead) for name, inner in schema["fields"].items()}
        if schema["kind"] == "fields":
            return TensorDict(members, batch_size=shape, device=CPU)
        return self.classes[schema["kind"]](**members, batch_size=shape, device=CPU)

    def _tensor(self, schema: dict[str, Any], shape: Shape) -> torch.Tensor:
        start, size = self.position, _size(schema)
        self.position += size
        dtype = getattr(torch, schema["dtype"])
        if 0 in shape:
            return torch.zeros(shape, dtype=dtype)
        content = bytearray().join(cell[start : start + size] for cell in self.cells)
        return torch.frombuffer(content, dtype=torch.uint8).view(dtype).reshape(shape)

    def _value(self, schema: dict[str, Any], shape: Shape) -> Any:
        start, count = self.value_position, prod(schema["shape"])
        self.value_position += count
        return _wrapped([_decoded(item) for row in self.values for item in row[start : start + count]], shape)


def _split(cell: bytes, position: int) -> list[bytes]:
    values = []
    while position < len(cell):
        end = position + 4 + struct.unpack_from("<I", cell, position)[0]
        values.append(cell[position + 4 : end])
        position = end
    return values


def _wrapped(values: list[Any], shape: Shape) -> Any:
    if not shape:
        return NonTensorData(values[0])
    if 0 in shape:
        return NonTensorData(None, batch_size=shape)
    step = prod(shape[1:])
    parts = [_wrapped(values[n * step : (n + 1) * step], shape[1:]) for n in range(shape[0])]
    return NonTensorStack(*parts, stack_dim=0)


# --- values that are not tensors, as a letter and text


def _encoded(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"n", False: b"F", True: b"T"}[value]
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, int):
        return b"i" + b"%d" % value
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if type(value) in (list, tuple, dict):
        items = [item for pair in value.items() for item in pair] if isinstance(value, dict) else value
        letter = {list: b"l", tuple: b"t", dict: b"d"}[type(value)]
        return letter + b"".join(struct.pack("<I", len(item)) + item for item in map(_encoded, items))
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored")


def _decoded(content: bytes) -> Any:
    letter, rest = content[:1], content[1:]
    if letter in b"nFT":
        return {b"n": None, b"F": False, b"T": True}[letter]
    if letter == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if letter == b"b":
        return rest
    if letter == b"i":
        return int(rest)
    if letter == b"f":
        return struct.unpack("<d", rest)[0]
    items = [_decoded(item) for item in _split(rest, 0)]
    if letter == b"d":
        return dict(zip(items[::2], items[1::2], strict=True))
    return items if letter == b"l" else tuple(items)
