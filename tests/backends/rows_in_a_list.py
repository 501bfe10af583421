"""An honest storage that shares nothing with the reference: rows in a Python list, stacked when they are read."""

from __future__ import annotations

import hashlib
import io
import operator
import os
import sys
from collections.abc import Callable, Iterator
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
    is_tensorclass,
)

FEATURES = frozenset({"last_row", "clear", "detach", "pickle", "non_tensor", "fork"})


class RowsInAList:
    """Keeps each row as an item of its own, or None where nothing was written."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1):
        if isinstance(max_size, bool) or isinstance(ndim, bool):
            raise TypeError("sizes are integers")
        self._size, self.ndim = operator.index(max_size), operator.index(ndim)
        if self._size < 1 or self.ndim < 1:
            raise ValueError("sizes are at least 1")
        if device is None:
            raise TypeError("a device is needed")
        self.device = "auto" if device == "auto" else torch.empty(0, device=device).device
        self._rows: dict[int, Any] = {}
        self._readable, self._example, self.last_row = 0, None, None
        self._entities: list[Any] = []

    # --- sizes

    @property
    def _trailing(self) -> tuple[int, ...]:
        return _batch(self._example)[: self.ndim - 1]

    @property
    def _capacity(self) -> int:
        return -(-self._size // prod(self._trailing))

    @property
    def max_size(self) -> int:
        return self._size if self._example is None else self._capacity * prod(self._trailing)

    @property
    def shape(self) -> torch.Size | None:
        return None if self._example is None else torch.Size([self._readable, *self._trailing])

    def __len__(self) -> int:
        return 0 if self._example is None else self._readable * prod(self._trailing)

    # --- writing

    def set(self, index: Any, data: Any) -> None:
        self._write(index, data, assigning=False)

    def __setitem__(self, index: Any, data: Any) -> None:
        if self._example is None:
            raise RuntimeError("nothing was ever written")
        self._write(index, data, assigning=True)

    def _write(self, index: Any, data: Any, *, assigning: bool) -> None:
        index = _checked(index, self.ndim)
        if isinstance(data, list):
            if _single(index) or not data:
                raise ValueError("a list is a batch of items")
            data = _stack([_copied(item) for item in data])
        data = _copied(data)
        example = self._example
        if example is None:
            if isinstance(index, tuple) and len(index) > 1:
                raise IndexError("the first write covers whole rows")
            lead = (
                0
                if _single(index)
                else numpy.asarray(index).ndim
                if isinstance(index, list | numpy.ndarray)
                else 1
            )
            if isinstance(index, numpy.ndarray) and index.dtype == bool:
                lead = 1
            if 0 in _batch(data)[:lead]:
                self._refuse_rows(index, _batch(data)[lead:])
                return
            example = data
            for _ in range(lead):
                example = _rows(example)[0]
            example = _zero(example)
        batch = _batch(example)
        if len(batch) < self.ndim - 1:
            raise ValueError("an item has fewer dimensions than ndim - 1")
        trailing = batch[: self.ndim - 1]
        if 0 in trailing:
            raise ValueError("an item has no elements")
        width = prod(trailing)
        rows = self._readable if assigning else -(-self._size // width)
        numbers = _picked(numpy.arange(rows * width).reshape(rows, *trailing), index)
        _same_structure(example, data, numbers.shape, batch[self.ndim - 1 :])
        values = [data] if numbers.ndim == 0 else _flattened(data, numbers.ndim)
        device = data_device(data) if self.device == "auto" else self.device
        changed = dict(self._rows)
        flat = numbers.reshape(-1).tolist()
        for cell, value in zip(flat, values, strict=True):
            row, inner = divmod(cell, width)
            cells = list(changed.get(row) or [_cell(example, self.ndim - 1)] * width)
            cells[inner] = _cast(value, example)
            changed[row] = cells
        if not flat:
            return
        self.device, self._example, self._rows = device, example, changed
        if not assigning:
            self._readable = max(self._readable, 1 + max(flat) // width)
            self.last_row = flat[-1] // width
        self._tell(numbers.reshape(-1))

    def _refuse_rows(self, index: Any, batch: tuple[int, ...]) -> None:
        """Data of no rows are for an index of no rows, whatever the shape of a row."""
        trailing = batch[: self.ndim - 1]
        trailing = (1,) * (self.ndim - 1) if 0 in trailing or len(trailing) < self.ndim - 1 else trailing
        rows = -(-self._size // prod(trailing))
        if _picked(numpy.arange(rows * prod(trailing)).reshape(rows, *trailing), index).size:
            raise ValueError("the index addresses rows, the data have none")

    def _tell(self, cells: Any) -> None:
        trailing = self._trailing
        index = torch.from_numpy(
            numpy.stack(numpy.unravel_index(cells, (self._capacity, *trailing)), -1).astype(numpy.int64)
        )
        errors = []
        for entity in list(self._entities):
            try:
                entity.mark_update(index[:, 0].clone() if self.ndim == 1 else index.clone())
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    # --- reading

    def get(self, index: Any) -> Any:
        index = _checked(index, self.ndim)
        if self._example is None:
            raise RuntimeError("nothing was ever written")
        trailing, width = self._trailing, prod(self._trailing)
        numbers = _picked(numpy.arange(self._readable * width).reshape(self._readable, *trailing), index)
        zero = _cell(self._example, self.ndim - 1)
        cells = [
            (self._rows.get(n // width) or [zero] * width)[n % width]
            for n in numpy.asarray(numbers).reshape(-1).tolist()
        ]
        return _shaped(cells, numpy.asarray(numbers).shape, zero)

    __getitem__ = get

    def __iter__(self) -> Iterator[Any]:
        return (self.get(row) for row in range(self._readable))

    def __contains__(self, row: Any) -> bool:
        return -self._readable <= operator.index(row) < self._readable

    # --- entities, clear

    def attach(self, entity: Any) -> None:
        if not callable(getattr(entity, "mark_update", None)):
            raise TypeError("an entity has a mark_update")
        if not any(known is entity for known in self._entities):
            self._entities.append(entity)

    def detach(self, entity: Any) -> None:
        self._entities = [known for known in self._entities if known is not entity]

    def clear(self) -> None:
        self._rows, self._readable, self.last_row = {}, 0, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_entities": []}

    # --- dumps: plain values only, read back without running code

    def dumps(self, path: str | os.PathLike[str]) -> None:
        if self._example is None:
            raise RuntimeError("nothing to dump")
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        rows = {
            row: [_plain(cell) for cell in cells] for row, cells in self._rows.items() if row < self._readable
        }
        state = {
            "ndim": self.ndim,
            "readable": self._readable,
            "last": self.last_row,
            "example": _plain(self._example),
            "rows": rows,
        }
        aside = target.with_name(target.name + ".part")
        content = io.BytesIO()
        torch.save(state, content)
        aside.write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
        aside.replace(target)

    def loads(self, path: str | os.PathLike[str]) -> None:
        if not Path(path).exists():
            raise FileNotFoundError(path)
        try:
            digest, content = (dump := Path(path).read_bytes())[:32], dump[32:]
            if hashlib.sha256(content).digest() != digest:
                raise ValueError("the check sum does not match")
            state = torch.load(io.BytesIO(content), weights_only=True)
            example = _lively(state["example"])
            rows = {row: [_lively(cell) for cell in cells] for row, cells in state["rows"].items()}
        except Exception as error:
            raise ValueError("the dump is damaged") from error
        trailing = _batch(example)[: self.ndim - 1]
        if state["ndim"] != self.ndim or state["readable"] > -(-self._size // prod(trailing)):
            raise ValueError("the dump does not fit")
        if self._example is not None:
            if trailing != self._trailing:
                raise ValueError(f"rows of shape {trailing} for rows of shape {self._trailing}")
            _same_structure(
                self._example, example, trailing, _batch(self._example)[self.ndim - 1 :], exact=True
            )
        self._example, self._rows, self._readable, self.last_row = (
            example,
            rows,
            state["readable"],
            state["last"],
        )
        self.device = torch.device("cpu") if self.device == "auto" else self.device
        if self._readable:
            self._tell(numpy.arange(self._readable * prod(trailing)))

    dump = save = dumps
    load = loads


def _checked(index: Any, ndim: int) -> Any:
    if isinstance(index, tuple):
        if len(index) > ndim:
            raise IndexError("more entries than dimensions")
        return tuple(_checked(entry, 1) for entry in index)
    if isinstance(index, bool | numpy.bool_ | str | float) or index is None:
        raise TypeError(f"{index!r} is no index")
    if isinstance(index, slice):
        if (index.step or 1) < 0:
            raise ValueError("negative step")
        return index
    if index is Ellipsis:
        return slice(None)
    if isinstance(index, range):
        return numpy.array(list(index), dtype=numpy.int64)
    if isinstance(index, torch.Tensor | numpy.ndarray | list):
        array = numpy.array(index.cpu()) if isinstance(index, torch.Tensor) else numpy.array(index)
        if array.size == 0 and array.ndim == 1 and array.dtype != bool:
            array = array.astype(numpy.int64)
        if array.dtype.kind not in "iub" or (array.dtype == bool and array.ndim == 0):
            raise IndexError(f"{array.dtype} is no index")
        return int(array) if array.ndim == 0 else array if array.dtype == bool else array.astype(numpy.int64)
    return operator.index(index)


def _picked(numbers: Any, index: Any) -> Any:
    """`numbers[index]` by torch's rule: integers select first, and a mask has the shape of what it masks."""
    entries = index if isinstance(index, tuple) else (index,)
    integers: list[Any] = []
    for entry in entries:
        mask = isinstance(entry, numpy.ndarray) and entry.dtype == bool
        span = entry.ndim if mask else 1
        if mask and entry.shape != numbers.shape[len(integers) : len(integers) + span]:
            raise IndexError(f"a mask of shape {entry.shape} is none for {numbers.shape}")
        integers += [entry] if isinstance(entry, int) else [slice(None)] * span
    return numbers[tuple(integers)][tuple(entry for entry in entries if not isinstance(entry, int))]


def _single(index: Any) -> bool:
    return isinstance(index, int) or (
        isinstance(index, tuple) and all(isinstance(entry, int) for entry in index)
    )


def _is_td(value: Any) -> bool:
    return isinstance(value, TensorDictBase) or is_tensorclass(value)


def _batch(value: Any) -> tuple[int, ...]:
    return tuple(value.batch_size) if _is_td(value) else tuple(value.shape)


def _copied(value: Any) -> Any:
    """A dense detached copy."""
    if isinstance(value, torch.Tensor) and not _is_td(value):
        if value.layout != torch.strided or value.is_nested or value.is_meta:
            raise TypeError("a dense tensor with values is needed")
        with torch.inference_mode(False):
            return torch.empty_like(value, memory_format=torch.contiguous_format, requires_grad=False).copy_(
                value.detach()
            )
    if not _is_td(value):
        raise TypeError(f"{type(value).__name__} is no tensor and no TensorDict")
    if isinstance(value, LazyStackedTensorDict) or (
        is_tensorclass(value) and isinstance(value._tensordict, LazyStackedTensorDict)
    ):
        return _stack([_copied(item) for item in value.unbind(0)])
    return _map(value, _copied)


def _fields(value: Any) -> dict[str, Any]:
    if is_tensorclass(value):
        return {name: value._tensordict.get(name, None) for name in type(value).__dataclass_fields__}
    return {key: value.get(key) for key in value.keys()}  # noqa: SIM118  iterating goes over the rows


def _map(value: Any, function: Callable[[Any], Any], batch: tuple[int, ...] | None = None) -> Any:
    """The same container with `function` applied to its tensors and containers; texts and None stay."""
    fields = {
        k: function(v) if isinstance(v, torch.Tensor) or (_is_td(v) and not _texts(v)) else v
        for k, v in _fields(value).items()
    }
    return _made(type(value), fields, _batch(value) if batch is None else batch)


def _made(kind: type, fields: dict[str, Any], batch: tuple[int, ...]) -> Any:
    if is_tensorclass(kind):
        return kind(**fields, batch_size=batch, device="cpu")
    return TensorDict(fields, batch_size=batch, device="cpu")


def _texts(value: Any) -> bool:
    return type(value).__name__ in ("NonTensorData", "NonTensorStack")


def _text_rows(value: Any, count: int) -> list[Any]:
    if type(value) is NonTensorStack:
        return list(value.unbind(0))
    return [NonTensorData(value.data, batch_size=value.batch_size[1:])] * count


def _rows(value: Any) -> list[Any]:
    """The items of a batch."""
    if not _is_td(value):
        return list(value.unbind(0))
    count, rest = _batch(value)[0], _batch(value)[1:]
    columns = {
        k: [None] * count if v is None else _text_rows(v, count) if _texts(v) else _rows(v)
        for k, v in _fields(value).items()
    }
    return [_made(type(value), {k: column[n] for k, column in columns.items()}, rest) for n in range(count)]


def _flattened(value: Any, depth: int) -> list[Any]:
    values = [value]
    for _ in range(depth):
        values = [item for part in values for item in _rows(part)]
    return values


def _stack(items: list[Any]) -> Any:
    first = items[0]
    if not _is_td(first):
        if any(
            not isinstance(item, torch.Tensor)
            or _is_td(item)
            or item.shape != first.shape
            or item.dtype != first.dtype
            for item in items
        ):
            raise ValueError("the items differ")
        return torch.stack(items)
    for item in items:
        _same_structure(first, item, (), None, exact=True)
    fields = [_fields(item) for item in items]
    columns = {}
    for key, value in fields[0].items():
        column = [row[key] for row in fields]
        if value is None:
            columns[key] = None
        elif _texts(value):
            columns[key] = NonTensorStack(*column, stack_dim=0)
        else:
            columns[key] = _stack(column)
    return _made(type(first), columns, (len(items), *_batch(first)))


def _shaped(cells: list[Any], shape: tuple[int, ...], zero: Any) -> Any:
    if not shape:
        return _copied(cells[0])
    if 0 in shape:
        return _resized(zero, shape)
    for size in reversed(shape[1:]):
        cells = [_stack(cells[n : n + size]) for n in range(0, len(cells), size)]
    return _stack(cells)


def _resized(zero: Any, shape: tuple[int, ...]) -> Any:
    if not _is_td(zero):
        return zero.new_empty((*shape, *zero.shape))
    fields = {
        k: v if v is None else NonTensorData(None, batch_size=shape) if _texts(v) else _resized(v, shape)
        for k, v in _fields(zero).items()
    }
    return _made(type(zero), fields, (*shape, *_batch(zero)))


def _zero(item: Any) -> Any:
    return torch.zeros_like(item) if not _is_td(item) else _map(item, _zero)


def _cell(example: Any, depth: int) -> Any:
    for _ in range(depth):
        example = _rows(example)[0]
    return example


def _same_structure(
    example: Any, data: Any, lead: tuple[int, ...], extra: tuple[int, ...] | None, *, exact: bool = False
) -> None:
    if _is_td(example) != _is_td(data) or (
        (is_tensorclass(example) or is_tensorclass(data)) and type(example) is not type(data)
    ):
        raise TypeError("another container")
    if not _is_td(example):
        feature = example.shape if extra is None else example.shape[len(example.shape) - len(extra) :]
        if tuple(data.shape) != (*lead, *feature):
            raise ValueError(f"shape {tuple(data.shape)} is not {(*lead, *feature)}")
        if data.dtype != example.dtype:
            raise TypeError(f"{data.dtype} is not {example.dtype}")
        return
    rest = _batch(example) if extra is None else extra
    if _batch(data) != (*lead, *rest):
        raise ValueError(f"batch size {_batch(data)} is not {(*lead, *rest)}")
    ours, theirs = _fields(example), _fields(data)
    if set(ours) != set(theirs):
        raise KeyError("other keys")
    depth = len(_batch(example)) - len(rest)
    for key, value in ours.items():
        if (value is None) != (theirs[key] is None) or _texts(value) != _texts(theirs[key]):
            raise ValueError(f"{key} is of another kind")
        if value is not None and not _texts(value):
            _same_structure(value, theirs[key], lead, _batch(value)[depth:], exact=exact)


def _cast(value: Any, example: Any) -> Any:
    return value


def data_device(data: Any) -> torch.device:
    return torch.device("cpu")


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, str | torch.Tensor) and not _is_td(value)):
        return value
    if _texts(value):
        values = [_plain(part) for part in value.unbind(0)] if type(value) is NonTensorStack else value.data
        return type(value).__name__, list(value.batch_size), values
    kind = f"{type(value).__module__}:{type(value).__qualname__}" if is_tensorclass(value) else ""
    return {
        "kind": kind,
        "batch": list(_batch(value)),
        "fields": {k: _plain(v) for k, v in _fields(value).items()},
    }


def _lively(value: Any) -> Any:
    if isinstance(value, tuple):
        name, batch, values = value
        return (
            NonTensorStack(*map(_lively, values))
            if name == "NonTensorStack"
            else NonTensorData(values, batch)
        )
    if not isinstance(value, dict):
        return value
    kind: Any = TensorDict
    if value["kind"]:
        module, _, name = value["kind"].partition(":")
        kind = getattr(sys.modules[module], name)
    return _made(kind, {k: _lively(v) for k, v in value["fields"].items()}, tuple(value["batch"]))
