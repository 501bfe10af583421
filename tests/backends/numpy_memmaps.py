"""An honest storage that shares nothing with the reference: a NumPy memory map on disk for each leaf.

Every index becomes an array of cell numbers; a leaf is a matrix of bytes with a line for each cell.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import operator
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor, is_tensorclass

FEATURES = frozenset({"pytree", "last_row", "clear", "detach", "fork"})

LOGGER = logging.getLogger(__name__)
HEAD = "head.json"


class NumpyMemmaps:
    """Keeps the bytes of each leaf in a sparse file, in a temporary folder that goes with the storage."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1):
        self._given_size, self.ndim = _count(max_size, "max_size"), _count(ndim, "ndim")
        self._given_device = _cpu(device)
        self.last_row: int | None = None
        self._entities: list[Any] = []
        self._forget()

    def _forget(self) -> None:
        self._structure: Structure | None = None
        self._trailing: tuple[int, ...] = ()
        self._readable = 0
        self._files: dict[Path_, np.ndarray] = {}
        self._folder: Folder | None = None

    # --- sizes

    @property
    def device(self) -> torch.device | str:
        return "auto" if self._given_device is None and self._structure is None else torch.device("cpu")

    def _capacity(self, trailing: tuple[int, ...]) -> int:
        return -(-self._given_size // prod(trailing))

    @property
    def max_size(self) -> int:
        if self._structure is None:
            return self._given_size
        return self._capacity(self._trailing) * prod(self._trailing)

    @property
    def shape(self) -> torch.Size | None:
        return None if self._structure is None else torch.Size((self._readable, *self._trailing))

    def __len__(self) -> int:
        return self._readable * prod(self._trailing) if self._structure is not None else 0

    def __repr__(self) -> str:
        return f"NumpyMemmaps({len(self)} of {self.max_size}, shape {self.shape}, device {self.device})"

    # --- writing

    def set(self, index: Any, data: Any) -> None:
        entries = _entries(index, self.ndim)
        if isinstance(data, list) and not data:
            trailing = self._trailing if self._structure is not None else (1,) * (self.ndim - 1)
            if prod(Cells(entries, (self._capacity(trailing), *trailing)).shape) or _is_single(entries):
                raise ValueError("an empty list is a batch of zero rows")
            return
        node = _converted(data, entries)
        if self._structure is not None:
            trailing, structure = self._trailing, self._structure
            cells = Cells(entries, (self._capacity(trailing), *trailing))
            _compare(structure, _structure(node, cells.shape))
            self._write(node, cells, structure, trailing)
            return
        lead = _leading_dimensions(entries)
        trailing = _dimensions(node)[lead : lead + self.ndim - 1]
        if len(trailing) < self.ndim - 1:
            raise ValueError(f"an item needs {self.ndim - 1} dimensions, {len(trailing)} are there")
        if 0 in trailing:
            if prod(_dimensions(node)[:lead]) or Cells(entries, (self._given_size,)).count:
                raise ValueError(f"rows of shape {trailing} have no elements")
            return
        cells = Cells(entries, (self._capacity(trailing), *trailing))
        self._write(node, cells, _structure(node, cells.shape), trailing)

    def _write(self, node: Node, cells: Cells, structure: Structure, trailing: tuple[int, ...]) -> None:
        """Everything is valid by now."""
        if not cells.count:
            return
        if self._structure is None:
            self._allocate(structure, trailing)
        numbers = self._fill(node, cells)
        rows = numbers // prod(trailing)
        self._readable = max(self._readable, int(rows.max()) + 1)
        self.last_row = int(rows[-1])
        self._tell(numbers)

    def __setitem__(self, index: Any, data: Any) -> None:
        if self._structure is None:
            raise RuntimeError("nothing was ever written")
        entries = _entries(index, self.ndim)
        cells = Cells(entries, (self._readable, *self._trailing))
        if isinstance(data, list) and not data and not cells.count:
            return
        node = _converted(data, entries)
        _compare(self._structure, _structure(node, cells.shape))
        if cells.count:
            self._tell(self._fill(node, cells))

    def _fill(self, node: Node, cells: Cells) -> np.ndarray:
        numbers = cells.numbers()
        for path, leaf in _leaves(node):
            if self._files[path].size:
                self._files[path][numbers] = leaf.reshape(len(numbers), self._files[path].shape[1])
        return numbers

    def _allocate(self, structure: Structure, trailing: tuple[int, ...]) -> None:
        cells, folder, files = self._capacity(trailing) * prod(trailing), Folder(), {}
        for number, (path, width) in enumerate(_widths(structure)):
            if width:
                files[path] = np.memmap(folder.path / f"{number}.bytes", np.uint8, "w+", shape=(cells, width))
            else:
                files[path] = np.empty((0, 0), np.uint8)
        self._structure, self._trailing, self._folder, self._files = structure, trailing, folder, files

    # --- reading

    def get(self, index: Any) -> Any:
        if self._structure is None:
            raise RuntimeError("nothing was ever written")
        cells = Cells(_entries(index, self.ndim), (self._readable, *self._trailing))
        numbers = cells.numbers()

        def leaf(path: Path_, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
            if 0 in shape:
                return torch.zeros(shape, dtype=dtype)
            return torch.from_numpy(self._files[path][numbers].reshape(-1)).view(dtype).reshape(shape)

        return _built(self._structure, cells.shape, leaf)

    __getitem__ = get

    def __iter__(self) -> Iterator[Any]:
        row = 0
        while row < self._readable:
            yield self.get(row)
            row += 1

    def __contains__(self, row: Any) -> bool:
        try:
            return not isinstance(row, bool) and -self._readable <= operator.index(row) < self._readable
        except TypeError:
            return False

    # --- entities

    def attach(self, entity: Any) -> None:
        if not callable(getattr(entity, "mark_update", None)):
            raise TypeError(f"{entity!r} has no mark_update to call")
        if all(known is not entity for known in self._entities):
            self._entities.append(entity)

    def detach(self, entity: Any) -> None:
        self._entities = [known for known in self._entities if known is not entity]

    def _tell(self, numbers: np.ndarray) -> None:
        coordinates = np.unravel_index(np.unique(numbers), (self._capacity(self._trailing), *self._trailing))
        index = torch.from_numpy(np.stack(coordinates, axis=-1).astype(np.int64))
        for entity in tuple(self._entities):
            try:
                entity.mark_update(index.clone() if self.ndim > 1 else index[:, 0].clone())
            except Exception:
                LOGGER.exception("%r failed when it was told of a change", entity)

    # --- clear and copy

    def clear(self) -> None:
        if self._structure is not None:
            self._allocate(self._structure, self._trailing)
        self._readable, self.last_row = 0, None

    def __deepcopy__(self, memo: dict[int, Any]) -> NumpyMemmaps:
        twin = NumpyMemmaps(
            self._given_size, device="auto" if self._given_device is None else "cpu", ndim=self.ndim
        )
        if self._structure is not None:
            twin._allocate(self._structure, self._trailing)
            twin._take(self._files, self._readable)
        twin.last_row = self.last_row
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a storage of memory maps cannot be pickled")

    def _take(self, files: dict[Path_, np.ndarray], rows: int) -> None:
        for path, file in self._files.items():
            if file.size:
                cells = rows * prod(self._trailing)
                file[:cells] = files[path][:cells]
        self._readable = rows

    # --- dumps: a folder with the bytes of each leaf, and a head that names their check sums

    def dumps(self, path: str | os.PathLike[str]) -> None:
        if self._structure is None:
            raise RuntimeError("nothing was ever written, so there is nothing to dump")
        target = Path(path)
        if target.exists() and not _may_go(target):
            raise FileExistsError(f"{target} holds something else than a dump")
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{target.name}.new-{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        try:
            aside.mkdir()
            self._dump_into(aside)
            _swap(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    dump = save = dumps

    def _dump_into(self, folder: Path) -> None:
        sums, cells = [], self._readable * prod(self._trailing)
        for number, (path, width) in enumerate(_widths(self._structure)):
            content = self._files[path][:cells].tobytes() if width else b""
            (folder / f"{number}.bytes").write_bytes(content)
            sums.append(hashlib.sha256(content).hexdigest())
        head = json.dumps(
            {
                "ndim": self.ndim,
                "trailing": self._trailing,
                "rows": self._readable,
                "last_row": self.last_row,
                "structure": _plain(self._structure),
                "sums": sums,
            }
        )
        (folder / HEAD).write_text(hashlib.sha256(head.encode()).hexdigest() + head, encoding="utf-8")

    def loads(self, path: str | os.PathLike[str]) -> None:
        source = Path(path)
        if not source.exists():
            raise FileNotFoundError(f"there is no dump at {source}")
        head = _head(source)
        rows, trailing = head["rows"], tuple(head["trailing"])
        if head["ndim"] != self.ndim or rows > self._capacity(trailing):
            raise ValueError(f"{rows} rows with ndim {head['ndim']} do not fit")
        structure = _lively(head["structure"])
        if self._structure is not None:
            if trailing != self._trailing:
                raise ValueError(f"rows of shape {trailing} are no rows of shape {self._trailing}")
            _compare(self._structure, structure)
            structure = self._structure
        files = _contents(source, head, structure, rows * prod(trailing))
        self._allocate(structure, trailing)
        self._take(files, rows)
        self.last_row = head["last_row"]
        if rows:
            self._tell(np.arange(rows * prod(trailing)))

    load = loads


Path_ = tuple[Any, ...]


class Folder:
    """A temporary folder that is removed with the last reference to it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="numpy-memmaps-"))
        weakref.finalize(self, shutil.rmtree, str(self.path), ignore_errors=True)


# --- arguments of the constructor


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is an integer, not a truth value")
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} is {number}, at least 1 is needed")
    return number


def _cpu(device: Any) -> str | None:
    """None stands for 'auto'."""
    if isinstance(device, str) and device == "auto":
        return None
    if not isinstance(device, str | torch.device):
        raise TypeError(f"{device!r} is no device")
    if torch.device(device).type != "cpu":
        raise ValueError(f"memory maps are on the CPU, not on {device}")
    return "cpu"


# --- indices


def _entries(index: Any, ndim: int) -> list[Any]:
    """Integers, slices, int64 arrays and masks, one for each dimension or, a mask, for several."""
    parts = list(index) if isinstance(index, tuple) else [index]
    entries = [_entry(part) for part in parts if part is not Ellipsis]
    if len(parts) - len(entries) > 1 or any(part is Ellipsis for part in parts[:-1]):
        raise IndexError("'...' stands at the end or alone")
    if sum(entry.ndim if _is_mask(entry) else 1 for entry in entries) > ndim:
        raise IndexError(f"{index!r} has more than {ndim} entries")
    return entries


def _entry(part: Any) -> Any:
    if isinstance(part, bool | np.bool_ | str | bytes | float) or part is None:
        raise TypeError(f"{part!r} names no row")
    if isinstance(part, slice):
        if part.step is not None and operator.index(part.step) < 0:
            raise ValueError("a slice goes forwards")
        return part
    if isinstance(part, range):
        if part and max(abs(part[0]), abs(part[-1])) >= 2**62:
            raise IndexError(f"{part} is out of range")
        return np.asarray(part, dtype=np.int64)
    if isinstance(part, list):
        return _array(np.array(part)) if part else np.empty(0, np.int64)
    if isinstance(part, torch.Tensor):
        if part.layout != torch.strided or part.is_meta:
            raise TypeError("an index tensor is dense and has values")
        return _array(part.detach().cpu().numpy())
    if isinstance(part, np.ndarray):
        return _array(part)
    return operator.index(part)


def _array(array: np.ndarray) -> Any:
    if array.ndim == 0 and array.dtype.kind in "iu":
        return int(array)
    if array.dtype == bool and array.ndim:
        return array
    if array.dtype.kind in "iu" and not (array.dtype == np.uint64 and array.size and array.max() >= 2**63):
        return array.astype(np.int64)
    raise IndexError(f"an array of {array.dtype} names no rows")


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype == bool


def _is_single(entries: list[Any]) -> bool:
    return bool(entries) and all(isinstance(entry, int) for entry in entries)


def _leading_dimensions(entries: list[Any]) -> int:
    if len(entries) > 1 or (entries and _is_mask(entries[0]) and entries[0].ndim > 1):
        raise IndexError("the first write covers whole rows")
    if not entries or isinstance(entries[0], slice) or _is_mask(entries[0]):
        return 1
    return 0 if isinstance(entries[0], int) else entries[0].ndim


class Cells:
    """The cells that an index addresses in `dimensions`, numbered in row-major order."""

    def __init__(self, entries: list[Any], dimensions: tuple[int, ...]):
        self.strides = [prod(dimensions[axis + 1 :]) for axis in range(len(dimensions))]
        self.axes: list[Any] = []
        for entry in entries:
            here = dimensions[len(self.axes) :]
            self.axes += _mask_axes(entry, here) if _is_mask(entry) else [_axis(entry, here[0])]
        self.axes += [range(size) for size in dimensions[len(self.axes) :]]
        try:
            joint = np.broadcast_shapes(*[axis.shape for axis in self.axes if isinstance(axis, np.ndarray)])
        except ValueError as error:
            raise IndexError("the index arrays do not broadcast") from error
        self._place(joint)
        self.count = prod(self.shape)

    def _place(self, joint: tuple[int, ...]) -> None:
        """Index arrays go where they stand if they are neighbours, else to the front; integers vanish first."""
        kept = [axis for axis in range(len(self.axes)) if not isinstance(self.axes[axis], int)]
        arrays = [place for place, axis in enumerate(kept) if isinstance(self.axes[axis], np.ndarray)]
        together = bool(arrays) and arrays[-1] - arrays[0] + 1 == len(arrays)
        before = kept[: arrays[0]] if together else []
        after = [axis for axis in kept if axis not in before and not isinstance(self.axes[axis], np.ndarray)]
        sizes = [len(self.axes[axis]) for axis in before], [len(self.axes[axis]) for axis in after]
        self.shape = (*sizes[0], *joint, *sizes[1])
        self.position = {axis: place for place, axis in enumerate(before)}
        self.position |= {axis: len(before) + len(joint) + place for place, axis in enumerate(after)}
        self.joint_end = len(before) + len(joint)

    def numbers(self) -> np.ndarray:
        total = np.zeros(self.shape, np.int64)
        for number, (axis, stride) in enumerate(zip(self.axes, self.strides, strict=True)):
            if isinstance(axis, int):
                total += axis * stride
                continue
            place = self.position.get(number)
            values = np.asarray(axis, dtype=np.int64)
            behind = len(self.shape) - (self.joint_end if place is None else place + 1)
            total += values.reshape(*values.shape, *[1] * behind) * stride
        return total.reshape(-1)


def _mask_axes(mask: np.ndarray, dimensions: tuple[int, ...]) -> list[np.ndarray]:
    if mask.shape != dimensions[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} is none for {dimensions[: mask.ndim]}")
    return list(np.nonzero(mask))


def _axis(entry: Any, size: int) -> Any:
    if isinstance(entry, slice):
        return range(*entry.indices(size))
    if isinstance(entry, int):
        if not -size <= entry < size:
            raise IndexError(f"{entry} is not one of {size} rows")
        return entry % size
    if entry.size and not (-size <= entry.min() and entry.max() < size):
        raise IndexError(f"the index reaches beyond {size} rows")
    return np.where(entry < 0, entry + size, entry)


# --- data as trees of bytes


class Node(NamedTuple):
    """`kind` is a word, or a word with the dtype or the class; `value` holds children or bytes."""

    kind: tuple[Any, ...]
    dimensions: tuple[int, ...] | None
    children: dict[Any, Node]
    content: np.ndarray | None


class Structure(NamedTuple):
    kind: tuple[Any, ...]
    features: tuple[int, ...] | None
    children: dict[Any, Structure]


ABSENT = Node(("none",), None, {}, None)


def _converted(data: Any, entries: list[Any]) -> Node:
    if not isinstance(data, list):
        return _node(data)
    if _is_single(entries):
        raise ValueError("a list is a batch, the index names one item")
    return _stacked([_node(item) for item in data], 0)


def _node(value: Any) -> Node:
    if is_non_tensor(value):
        raise TypeError("values that are not tensors are not supported")
    if is_tensorclass(value):
        inner = value._tensordict
        if isinstance(inner, LazyStackedTensorDict):
            return _stacked(
                [_node(type(value)._from_tensordict(item)) for item in inner.tensordicts], inner.stack_dim
            )
        fields = {name: inner.get(name, None) for name in type(value).__dataclass_fields__}
        children = {name: ABSENT if field is None else _node(field) for name, field in fields.items()}
        return Node(("tensorclass", type(value)), tuple(value.batch_size), children, None)
    if isinstance(value, LazyStackedTensorDict):
        return _stacked([_node(item) for item in value.tensordicts], value.stack_dim)
    if isinstance(value, TensorDictBase):
        children = {key: _node(value.get(key)) for key in value.keys()}  # noqa: SIM118  iterating goes over the rows
        return Node(("tensordict",), tuple(value.batch_size), children, None)
    if isinstance(value, torch.Tensor):
        return Node(("tensor", value.dtype), tuple(value.shape), {}, _bytes(value))
    if type(value) is dict:
        if any(type(key) not in (str, int) for key in value):
            raise TypeError("keys of a dict are strings or integers")
        return Node(("dict",), None, {key: _node(child) for key, child in value.items()}, None)
    if type(value) in (list, tuple):
        return Node((type(value).__name__,), None, dict(enumerate(map(_node, value))), None)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Node(("namedtuple", type(value)), None, dict(enumerate(map(_node, value))), None)
    raise TypeError(f"{type(value).__name__} is no tensor, TensorDict, tensorclass or pytree of these")


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    """Bytes of shape `[*tensor.shape, itemsize]`, not shared with the caller."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise TypeError("only dense tensors are supported")
    if tensor.is_meta:
        raise TypeError("tensors on the meta device have no values")
    # A dimension of one element counts as contiguous whatever its stride, but cannot be viewed as bytes: a copy can.
    plain = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
    return plain.view(torch.uint8).numpy().reshape(*tensor.shape, tensor.element_size())


def _stacked(nodes: list[Node], axis: int) -> Node:
    if not nodes:
        raise ValueError("nothing to stack")
    first = nodes[0]
    for node in nodes[1:]:
        if (
            node.kind != first.kind
            or node.dimensions != first.dimensions
            or set(node.children) != set(first.children)
        ):
            raise ValueError("the items of a batch differ in structure")
    dimensions = first.dimensions
    if dimensions is not None:
        dimensions = (*dimensions[:axis], len(nodes), *dimensions[axis:])
    children = {key: _stacked([node.children[key] for node in nodes], axis) for key in first.children}
    content = None if first.content is None else np.stack([node.content for node in nodes], axis)
    return Node(first.kind, dimensions, children, content)


def _dimensions(node: Node) -> tuple[int, ...]:
    if node.dimensions is not None:
        return node.dimensions
    for child in node.children.values():
        if child.kind != ("none",):
            return _dimensions(child)
    raise TypeError("the data hold no tensor")


def _structure(node: Node, lead: tuple[int, ...]) -> Structure:
    """What is the same in every write."""
    features = node.dimensions
    if features is not None:
        if features[: len(lead)] != lead:
            raise ValueError(f"data of shape {features} do not begin with {lead}, which the index addresses")
        features = features[len(lead) :]
    return Structure(
        node.kind, features, {key: _structure(child, lead) for key, child in node.children.items()}
    )


def _compare(expected: Structure, got: Structure) -> None:
    if expected.kind != got.kind:
        raise TypeError(f"{got.kind} where the storage holds {expected.kind}")
    if expected.features != got.features:
        raise ValueError(f"shape {got.features} where the storage holds {expected.features}")
    if set(expected.children) != set(got.children):
        raise ValueError(
            f"keys {sorted(map(str, got.children))}, expected {sorted(map(str, expected.children))}"
        )
    for key, child in expected.children.items():
        _compare(child, got.children[key])


def _leaves(node: Node, path: Path_ = ()) -> Iterator[tuple[Path_, np.ndarray]]:
    if node.content is not None:
        yield path, node.content
    for key, child in node.children.items():
        yield from _leaves(child, (*path, key))


def _widths(structure: Structure, path: Path_ = ()) -> Iterator[tuple[Path_, int]]:
    if structure.kind[0] == "tensor":
        yield path, prod(structure.features) * structure.kind[1].itemsize
    for key, child in structure.children.items():
        yield from _widths(child, (*path, key))


def _built(
    structure: Structure, lead: tuple[int, ...], leaf: Callable[..., torch.Tensor], path: Path_ = ()
) -> Any:
    word, *rest = structure.kind
    if word == "none":
        return None
    shape = (*lead, *(structure.features or ()))
    if word == "tensor":
        return leaf(path, rest[0], shape)
    children = {key: _built(child, lead, leaf, (*path, key)) for key, child in structure.children.items()}
    if word == "tensordict":
        return TensorDict(children, batch_size=shape)
    if word == "tensorclass":
        present = {name: value for name, value in children.items() if value is not None}
        absent = {name: None for name, value in children.items() if value is None}
        return rest[0].from_tensordict(TensorDict(present, batch_size=shape), absent)
    if word == "dict":
        return children
    if word == "namedtuple":
        return rest[0](*children.values())
    return {"list": list, "tuple": tuple}[word](children.values())


# --- the head of a dump


def _plain(structure: Structure) -> Any:
    word, *rest = structure.kind
    if word == "tensor":
        rest = [str(rest[0]).removeprefix("torch.")]
    elif rest:
        rest = [rest[0].__module__, rest[0].__qualname__]
    children = [[key, _plain(child)] for key, child in structure.children.items()]
    return [[word, *rest], structure.features, children]


def _lively(plain: Any) -> Structure:
    (word, *rest), features, children = plain
    if word == "tensor":
        rest = [getattr(torch, rest[0])]
    elif rest:
        rest = [_class(word, *rest)]
    return Structure(
        (word, *rest),
        None if features is None else tuple(features),
        {key: _lively(child) for key, child in children},
    )


def _class(word: str, module: str, name: str) -> type:
    """A class that is installed here: the dump only names it."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no class {name} in {module}") from error
    if not (is_tensorclass(found) if word == "tensorclass" else issubclass(found, tuple)):
        raise ValueError(f"{name} in {module} is no {word}")
    return found


def _head(source: Path) -> dict[str, Any]:
    try:
        text = (source / HEAD).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{source} is no complete dump") from error
    if hashlib.sha256(text[64:].encode()).hexdigest() != text[:64]:
        raise ValueError(f"the head of {source} is damaged")
    return json.loads(text[64:])


def _contents(source: Path, head: Any, structure: Structure, cells: int) -> dict[Path_, np.ndarray]:
    """The bytes of each leaf in the order of the dump, which need not be that of the storage's own structure."""
    files = {}
    for number, (path, width) in enumerate(_widths(_lively(head["structure"]))):
        try:
            content = (source / f"{number}.bytes").read_bytes()
        except OSError as error:
            raise ValueError(f"{source} lacks the bytes of {path}") from error
        if hashlib.sha256(content).hexdigest() != head["sums"][number] or len(content) != cells * width:
            raise ValueError(f"the bytes of {path} in {source} are damaged")
        files[path] = np.frombuffer(content, np.uint8).reshape(cells, width)
    return files


def _may_go(target: Path) -> bool:
    return target.is_dir() and ((target / HEAD).exists() or not any(target.iterdir()))


def _swap(new: Path, target: Path) -> None:
    """A folder that is not empty cannot be renamed over: the older dump steps aside for a moment.

    Who is killed in that moment loses it, which only a SHOULD forbids (CKPT-28).
    """
    if not target.exists():
        new.rename(target)
        return
    old = target.with_name(f"{target.name}.old-{os.getpid()}")
    shutil.rmtree(old, ignore_errors=True)
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
