"""The structure that the first write fixes: containers, leaves, dtypes, shapes.

An item of any kind is a tree of containers, a flat list of tensors and a flat list of values that are not tensors.
A `Schema` takes such a tree apart (`Schema.collect`), refusing whatever differs from the first write before anything
is written, and puts it together again (`Schema.build`), in new containers each time.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_tensorclass
from tensordict.utils import is_non_tensor
from torch import Tensor

from . import dtypes, values

Item: TypeAlias = Any
"""A tensor, a TensorDict, a tensorclass, or a dict, tuple or named tuple of these (with lists inside)."""

Path: TypeAlias = tuple[Any, ...]

known_classes: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
"""The tensorclasses and named tuples stored in this process, by `class_name`: a dump may name one that is local."""


def class_name(cls: type) -> str:
    """``"module:qualified.name"``."""
    return f"{cls.__module__}:{cls.__qualname__}"


@dataclass(slots=True, eq=False)
class _Collected:
    """What `Node.take` gathers. ``shape`` is that of the rows or elements addressed."""

    shape: torch.Size
    leaves: list[Tensor]
    values: list[list[Any]]


@dataclass(slots=True, eq=False)
class _Reading:
    """What `Node.build` puts together: leaves of ``[*shape, *feature_shape]`` on ``device``."""

    shape: torch.Size
    leaves: list[Tensor]
    values: list[list[Any]]
    device: torch.device
    uniform_from: int


# The fast constructor takes 1.2 us for five leaves where TensorDict(...) takes 7.6 us, about as much as the whole
# read of 256 small rows. What it skips is the check of shapes and devices, which a schema has made already.
_fast_tensordict = getattr(TensorDict, "_new_unsafe", None)


def _tensordict(source: dict[str, Any], batch_size: torch.Size, device: torch.device) -> TensorDict:
    if _fast_tensordict is None or not source:
        return TensorDict(source, batch_size=batch_size, device=device)
    return _fast_tensordict(source, batch_size=batch_size, device=device)


class Node:
    """A container or a leaf of an item."""

    kind: ClassVar[str]
    path: Path

    def take(self, data: Any, into: _Collected) -> None:
        """Append the leaves and values of ``data`` to ``into``. Raises: ``TypeError``, ``ValueError``."""
        raise NotImplementedError

    def build(self, reading: _Reading) -> Any:
        """A new container with the leaves read."""
        raise NotImplementedError

    def children(self) -> Iterator[Node]:
        return iter(())

    def summary(self) -> str:
        """The structure below this node, for people."""
        return self.kind

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        """Pair the leaves of this tree with those of another one. Raises: ``ValueError`` if the trees differ."""
        if type(self) is not type(other):
            raise ValueError(
                f"{describe(self.path)} is {self.kind} here and {other.kind} there; nothing was changed."
            )


def describe(path: Path) -> str:
    """Names a place of an item in a message."""
    return f"leaf {path!r}" if path else "the item"


def _expected(node: Node, data: Any) -> TypeError:
    return TypeError(
        f"{describe(node.path)} is {node.kind} in the storage, not {_kind_of(data)}; nothing was written."
    )


def _kind_of(data: Any) -> str:
    kind = type(data)
    return "a plain tensor" if kind is Tensor else f"a {kind.__module__}.{kind.__qualname__}"


@dataclass(slots=True, eq=False)
class TensorNode(Node):
    """A tensor; in memory ``[rows, *T, *feature_shape]``."""

    kind: ClassVar[str] = "a tensor"
    path: Path
    position: int
    feature_shape: torch.Size
    dtype: torch.dtype

    def take(self, data: Any, into: _Collected) -> None:
        if not isinstance(data, Tensor):
            raise _expected(self, data)
        into.leaves.append(data)

    def build(self, reading: _Reading) -> Tensor:
        return reading.leaves[self.position]

    def summary(self) -> str:
        return f"{dtypes.name_of(self.dtype)}{list(self.feature_shape)}"

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        Node.match(self, other, pairs)
        assert isinstance(other, TensorNode)
        if self.feature_shape != other.feature_shape:
            raise ValueError(
                f"{describe(self.path)} has feature shape {list(self.feature_shape)} here and "
                f"{list(other.feature_shape)} there; nothing was changed."
            )
        pairs.append((self, other))


@dataclass(slots=True, eq=False)
class ValueNode(Node):
    """A value that is not a tensor, with ``feature_shape`` dimensions of a batch size behind those that count."""

    kind: ClassVar[str] = "a value that is not a tensor"
    path: Path
    position: int
    feature_shape: torch.Size

    def take(self, data: Any, into: _Collected) -> None:
        if data is None:
            into.values.append([None] * into.shape.numel())
            return
        if isinstance(data, (Tensor, TensorDict)) or (is_tensorclass(data) and not is_non_tensor(data)):
            raise _expected(self, data)
        if not is_non_tensor(data):
            into.values.append([values.own(data)] * into.shape.numel())
            return
        if data.batch_size != into.shape + self.feature_shape:
            raise _mismatch(self.path, data.batch_size, into.shape, self.feature_shape, "batch size")
        into.values.append(values.unwrap(data, len(into.shape)))

    def build(self, reading: _Reading) -> Any:
        return values.wrap(
            reading.values[self.position],
            reading.shape,
            self.feature_shape,
            reading.device,
            reading.uniform_from,
        )

    def summary(self) -> str:
        return "value"

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        Node.match(self, other, pairs)
        assert isinstance(other, ValueNode)
        if self.feature_shape != other.feature_shape:
            raise ValueError(f"{describe(self.path)} has another batch size there; nothing was changed.")
        pairs.append((self, other))


@dataclass(slots=True, eq=False)
class TensorDictNode(Node):
    """A TensorDict with ``tail`` dimensions of its batch size behind those that count."""

    kind: ClassVar[str] = "a TensorDict"
    path: Path
    tail: torch.Size
    fields: dict[str, Node]
    tensors_from: int | None
    """Where the leaves begin, if all fields are tensors: they are then one run of the list."""

    def take(self, data: Any, into: _Collected) -> None:
        if type(data) is not TensorDict:
            data = plain_tensordict(self, data)
        if data.batch_size != into.shape + self.tail:
            raise _mismatch(self.path, data.batch_size, into.shape, self.tail, "batch size")
        given = dict(data.items())
        self.take_fields(given, into)

    def take_fields(self, given: Mapping[str, Any], into: _Collected) -> None:
        if given.keys() != self.fields.keys():
            raise _different_keys(self.path, given, self.fields)
        for key, child in self.fields.items():
            child.take(given[key], into)

    def build(self, reading: _Reading) -> TensorDict:
        if self.tensors_from is not None:
            # zip is twice as fast as one call for each leaf.
            start = self.tensors_from
            source = dict(zip(self.fields, reading.leaves[start : start + len(self.fields)], strict=True))
        else:
            source = {
                key: child.build(reading)
                for key, child in self.fields.items()
                if child.kind is not NoneNode.kind
            }
        return _tensordict(source, reading.shape + self.tail, reading.device)

    def children(self) -> Iterator[Node]:
        return iter(self.fields.values())

    def summary(self) -> str:
        return _summary("TensorDict", self.fields)

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        Node.match(self, other, pairs)
        assert isinstance(other, TensorDictNode)
        if self.tail != other.tail:
            raise ValueError(f"{describe(self.path)} has another batch size there; nothing was changed.")
        _match_fields(self.path, self.fields, other.fields, pairs)


@dataclass(slots=True, eq=False)
class NoneNode(Node):
    """A field of a tensorclass that is ``None``."""

    kind: ClassVar[str] = "None"
    path: Path

    def take(self, data: Any, into: _Collected) -> None:
        if data is not None:
            raise _expected(self, data)

    def build(self, reading: _Reading) -> None:
        return None


@dataclass(slots=True, eq=False)
class TensorClassNode(Node):
    """A tensorclass; ``body`` is the TensorDict inside, with a `NoneNode` for each field that is ``None``."""

    kind: ClassVar[str] = "a tensorclass"
    path: Path
    cls: type
    body: TensorDictNode

    def take(self, data: Any, into: _Collected) -> None:
        if type(data) is not self.cls:
            raise TypeError(
                f"{describe(self.path)} is a {class_name(self.cls)} in the storage, not {_kind_of(data)}; nothing was "
                "written."
            )
        inner, given = _fields_of(data)
        if inner.batch_size != into.shape + self.body.tail:
            raise _mismatch(self.path, inner.batch_size, into.shape, self.body.tail, "batch size")
        self.body.take_fields(given, into)

    def build(self, reading: _Reading) -> Any:
        return self.cls._from_tensordict(self.body.build(reading))  # type: ignore[attr-defined]

    def children(self) -> Iterator[Node]:
        return self.body.children()

    def summary(self) -> str:
        return _summary(self.cls.__name__, self.body.fields)

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        Node.match(self, other, pairs)
        assert isinstance(other, TensorClassNode)
        if self.cls is not other.cls:
            raise ValueError(
                f"{describe(self.path)} is a {class_name(self.cls)} here and a {class_name(other.cls)} there; nothing "
                "was changed."
            )
        self.body.match(other.body, pairs)


@dataclass(slots=True, eq=False)
class MappingNode(Node):
    """A ``dict`` or ``OrderedDict``."""

    kind: ClassVar[str] = "a dict"
    path: Path
    cls: type
    fields: dict[Any, Node]

    def take(self, data: Any, into: _Collected) -> None:
        if type(data) is not self.cls:
            raise _expected(self, data)
        if data.keys() != self.fields.keys():
            raise _different_keys(self.path, data, self.fields)
        for key, child in self.fields.items():
            child.take(data[key], into)

    def build(self, reading: _Reading) -> Any:
        return self.cls((key, child.build(reading)) for key, child in self.fields.items())

    def children(self) -> Iterator[Node]:
        return iter(self.fields.values())

    def summary(self) -> str:
        return _summary(self.cls.__name__, self.fields)

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        Node.match(self, other, pairs)
        assert isinstance(other, MappingNode)
        if self.cls is not other.cls:
            raise ValueError(f"{describe(self.path)} is another kind of dict there; nothing was changed.")
        _match_fields(self.path, self.fields, other.fields, pairs)


@dataclass(slots=True, eq=False)
class SequenceNode(Node):
    """A tuple, a named tuple, or a list inside another container."""

    kind: ClassVar[str] = "a tuple or list"
    path: Path
    cls: type
    entries: list[Node]

    def take(self, data: Any, into: _Collected) -> None:
        if type(data) is not self.cls:
            raise TypeError(
                f"{describe(self.path)} is a {self.cls.__qualname__} in the storage, not {_kind_of(data)}; nothing was "
                "written."
            )
        if len(data) != len(self.entries):
            raise ValueError(
                f"{describe(self.path)} has {len(data)} entries, the storage holds {len(self.entries)}; nothing was "
                "written."
            )
        for child, entry in zip(self.entries, data, strict=True):
            child.take(entry, into)

    def build(self, reading: _Reading) -> Any:
        built = [child.build(reading) for child in self.entries]
        return self.cls._make(built) if hasattr(self.cls, "_make") else self.cls(built)

    def children(self) -> Iterator[Node]:
        return iter(self.entries)

    def summary(self) -> str:
        return f"{self.cls.__name__}({', '.join(child.summary() for child in self.entries)})"

    def match(self, other: Node, pairs: list[tuple[Node, Node]]) -> None:
        Node.match(self, other, pairs)
        assert isinstance(other, SequenceNode)
        if self.cls is not other.cls or len(self.entries) != len(other.entries):
            raise ValueError(f"{describe(self.path)} is another tuple or list there; nothing was changed.")
        for mine, theirs in zip(self.entries, other.entries, strict=True):
            mine.match(theirs, pairs)


def _summary(name: str, fields: Mapping[Any, Node]) -> str:
    return f"{name}({', '.join(f'{key}: {child.summary()}' for key, child in fields.items())})"


def _match_fields(
    path: Path, mine: Mapping[Any, Node], theirs: Mapping[Any, Node], pairs: list[tuple[Node, Node]]
) -> None:
    if mine.keys() != theirs.keys():
        raise _different_keys(path, theirs, mine)
    for key, child in mine.items():
        child.match(theirs[key], pairs)


def _different_keys(path: Path, given: Mapping[Any, Any], held: Mapping[Any, Any]) -> ValueError:
    missing = [key for key in held if key not in given]
    extra = [key for key in given if key not in held]
    return ValueError(
        f"{describe(path)} has not the keys of the storage: missing {missing}, not there before {extra}; nothing was "
        "written."
    )


def _mismatch(
    path: Path, shape: torch.Size, lead: torch.Size, feature_shape: torch.Size, what: str
) -> ValueError:
    if shape[: len(lead)] == lead:
        return ValueError(
            f"{describe(path)} has {what} {list(shape[len(lead) :])} after the dimensions {list(lead)} of the index, "
            f"the storage holds {list(feature_shape)}; nothing was written."
        )
    return ValueError(
        f"{describe(path)} has {what} {list(shape)}, the index needs {[*lead, *feature_shape]}: {list(lead)} for what it "
        f"addresses, {list(feature_shape)} for the rest; nothing was written."
    )


# Taking data apart ---------------------------------------------------------------------------------------------------


def plain_tensordict(node: Node, data: Any) -> TensorDictBase:
    """``data`` if it is some TensorDict, lazy stacks made dense. Raises: ``TypeError``, ``ValueError``."""
    if isinstance(data, LazyStackedTensorDict) and not is_non_tensor(data):
        return dense(data, node.path)
    if not isinstance(data, TensorDictBase) or is_non_tensor(data):
        raise _expected(node, data)
    return data


def dense(stack: LazyStackedTensorDict, path: Path) -> TensorDict:
    """The dense stack of a lazy one.

    Raises:
        ValueError: the parts differ in keys, types or shapes.

    Implements: DATA-10, DATA-11.
    """
    parts = list(stack.tensordicts)
    if not parts:
        return TensorDict({}, batch_size=stack.batch_size)
    return _stack_same(parts, stack.stack_dim, path)


def _stack_same(parts: list[Any], dim: int, path: Path) -> Any:
    first = parts[0]
    if any(isinstance(part, LazyStackedTensorDict) for part in parts) and not is_non_tensor(first):
        parts = [dense(part, path) if isinstance(part, LazyStackedTensorDict) else part for part in parts]
        first = parts[0]
    if all(is_non_tensor(part) for part in parts):
        return torch.stack(parts, dim)
    if any(type(part) is not type(first) for part in parts) and not all(
        type(part) in _TENSORS for part in parts
    ):
        raise ValueError(
            f"{describe(path)}: the items of the lazy stack differ in type; nothing was written."
        )
    if any(part.shape != first.shape for part in parts):
        raise ValueError(
            f"{describe(path)}: the items of the lazy stack differ in shape, "
            f"{sorted({tuple(part.shape) for part in parts})}; nothing was written."
        )
    if isinstance(first, Tensor):
        if any(part.dtype is not first.dtype for part in parts):
            raise ValueError(
                f"{describe(path)}: the items of the lazy stack differ in dtype; nothing was written."
            )
        return torch.stack(parts, dim)
    if is_tensorclass(first):
        fields = [_fields_of(part)[1] for part in parts]
        nones = {key for key, value in fields[0].items() if value is None}
        if any({key for key, value in part.items() if value is None} != nones for part in fields):
            raise ValueError(
                f"{describe(path)}: the items of the lazy stack differ in what is None; nothing was written."
            )
        return type(first)._from_tensordict(_stack_same([part._tensordict for part in parts], dim, path))
    keys = dict(first.items()).keys()
    if any(dict(part.items()).keys() != keys for part in parts):
        raise ValueError(
            f"{describe(path)}: the items of the lazy stack differ in keys; nothing was written."
        )
    shape = list(first.batch_size)
    shape.insert(dim, len(parts))
    stacked = {key: _stack_same([part.get(key) for part in parts], dim, (*path, key)) for key in keys}
    return TensorDict(stacked, batch_size=shape)


_TENSORS = (Tensor, torch.nn.Parameter)


def _fields_of(data: Any) -> tuple[TensorDictBase, dict[str, Any]]:
    """The TensorDict of a tensorclass, and its fields as they are stored, ``None`` included.

    tensordict has no public call that neither unwraps the values that are not tensors nor converts nested
    tensorclasses; these two attributes are what its own functions use.
    """
    inner = data._tensordict
    if isinstance(inner, LazyStackedTensorDict):
        inner = dense(inner, ())
    fields = dict(inner.items())
    for key, value in data._non_tensordict.items():
        fields.setdefault(key, value)
    return inner, fields


class Schema:
    """What the first write fixed.

    Attributes:
        root: the tree of containers.
        leaves: its tensors, in the order of the flat list.
        values: its values that are not tensors, likewise.
        trailing: the trailing shape ``T``.
    """

    def __init__(self, root: Node, trailing: torch.Size) -> None:
        self.root = root
        self.trailing = trailing
        nodes = list(_walk(root))
        self.leaves = [node for node in nodes if isinstance(node, TensorNode)]
        self.values = [node for node in nodes if isinstance(node, ValueNode)]
        self._plan_for: torch.Size | None = None
        self._plan: list[tuple[TensorNode, torch.Size, torch.dtype]] = []

    def collect(
        self, data: Item, shape: torch.Size, row_dimensions: int
    ) -> tuple[list[Tensor], list[list[Any]]]:
        """Take ``data`` apart and check every leaf of it: the whole of what can be wrong with data is found here.

        Args:
            data: an item or a batch, for rows or elements of shape ``shape``.
            shape: the dimensions addressed by the index.
            row_dimensions: how many of these come from the rows, so that a list can stand for them.

        Returns:
            The leaves, ``[*shape, *feature_shape]`` each, detached and in the dtype of the storage, on whatever
            device they were; and the values, a list of ``shape.numel()`` for each of them.

        Raises:
            TypeError: another container or leaf type, or a dtype that would change values.
            ValueError: another structure, feature shape or number of rows.

        Implements: SET-8 to SET-12, DATA-9 to DATA-13, DATA-15, DATA-18, DATA-19, DTYPE-6.
        """
        if type(data) is list:
            return self._collect_list(data, shape, row_dimensions)
        collected = _Collected(shape, [], [])
        self.root.take(data, collected)
        return self.check(collected.leaves, shape), collected.values

    def _collect_list(
        self, items: list[Any], shape: torch.Size, row_dimensions: int
    ) -> tuple[list[Tensor], list[list[Any]]]:
        if not row_dimensions:
            raise ValueError(
                "a list is a batch of items, the index addresses a single item; nothing was written."
            )
        if len(items) != shape[0]:
            raise ValueError(
                f"a list of {len(items)} items for an index of {shape[0]} rows; nothing was written."
            )
        parts = [self.collect(item, shape[1:], row_dimensions - 1) for item in items]
        if not parts:
            # No rows, no structure to look at: an empty batch of the right kind.
            empty = [
                torch.empty(shape + node.feature_shape, dtype=node.dtype, device="cpu")
                for node in self.leaves
            ]
            return empty, [[] for _ in self.values]
        # Items may lie on different devices; the first one's is as good as any.
        leaves = [
            torch.stack(
                [leaf if leaf.device == column[0].device else leaf.to(column[0].device) for leaf in column]
            )
            for column in zip(*(leaves for leaves, _ in parts), strict=True)
        ]
        columns = zip(*(kept for _, kept in parts), strict=True)
        return leaves, [[value for part in column for value in part] for column in columns]

    def check(self, leaves: list[Tensor], shape: torch.Size) -> list[Tensor]:
        """The leaves detached and in the dtypes of the storage. Raises: ``TypeError``, ``ValueError``."""
        if shape != self._plan_for:
            # Batches come in few sizes; the expected shapes of the last one are kept.
            self._plan = [(node, shape + node.feature_shape, node.dtype) for node in self.leaves]
            self._plan_for = shape
        for place, (leaf, (node, expected, dtype)) in enumerate(zip(leaves, self._plan, strict=True)):
            if type(leaf) is not Tensor or leaf.is_nested or leaf.layout is not torch.strided:
                _refuse_layout(leaf, node.path)
            if leaf.shape != expected:
                raise _mismatch(node.path, leaf.shape, shape, node.feature_shape, "shape")
            if leaf.requires_grad:
                leaves[place] = leaf = leaf.detach()
            if leaf.dtype is not dtype:
                leaves[place] = leaf = dtypes.convert(leaf, dtype, describe(node.path))
            if leaf.is_neg() or leaf.is_conj():
                leaves[place] = leaf.resolve_neg().resolve_conj()
        return leaves

    def build(
        self,
        leaves: list[Tensor],
        kept: list[list[Any]],
        shape: torch.Size,
        device: torch.device,
        *,
        uniform_from: int = 0,
    ) -> Item:
        """An item or a batch, in new containers, of leaves ``[*shape, *feature_shape]``.

        Implements: GET-6, DATA-1 to DATA-8, DATA-14, DATA-16, DATA-17.
        """
        return self.root.build(_Reading(shape, leaves, kept, device, uniform_from))

    def match(self, other: Schema) -> tuple[list[TensorNode], list[ValueNode]]:
        """The leaves and the values of ``other`` that stand where this schema's do, in this schema's order.

        Raises:
            ValueError: the structures differ.

        Implements: CKPT-12, CKPT-13.
        """
        if self.trailing != other.trailing:
            raise ValueError(
                f"the trailing shape is {list(self.trailing)} here and {list(other.trailing)} there; nothing was changed."
            )
        pairs: list[tuple[Node, Node]] = []
        self.root.match(other.root, pairs)
        theirs = {id(mine): other for mine, other in pairs}
        leaves = [theirs[id(node)] for node in self.leaves]
        kept = [theirs[id(node)] for node in self.values]
        return [n for n in leaves if isinstance(n, TensorNode)], [n for n in kept if isinstance(n, ValueNode)]


def _refuse_layout(leaf: Tensor, path: Path) -> None:
    if leaf.is_nested or leaf.layout is not torch.strided or leaf.is_quantized:
        raise TypeError(
            f"{describe(path)} is a sparse, nested or quantized tensor: it has no dense rows; nothing was written."
        )


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children():
        yield from _walk(child)


# The first write -----------------------------------------------------------------------------------------------------


class _Numbering:
    """Hands out places in the flat lists while a tree is being inferred."""

    def __init__(self, skip: int) -> None:
        self.skip = skip
        self.leaves = 0
        self.values = 0
        self.prefix: torch.Size | None = None

    def cut(self, shape: torch.Size, path: Path, what: str) -> torch.Size:
        """The dimensions after those of the rows and of ``T``."""
        if len(shape) < self.skip:
            raise ValueError(
                f"{describe(path)} has {what} {list(shape)}; the rows and the trailing shape need {self.skip} "
                "dimensions; nothing was written."
            )
        if self.prefix is None:
            self.prefix = shape[: self.skip]
        return shape[self.skip :]


def infer(data: Item, row_dimensions: int, ndim: int) -> Schema:
    """The schema that ``data`` would fix as a first write.

    Args:
        data: an item, or a batch with ``row_dimensions`` dimensions for the rows.
        row_dimensions: 0 for an item.
        ndim: that of the storage.

    Raises:
        TypeError: no data, or of a dtype or layout that is not supported.
        ValueError: too few dimensions, or no leaf at all.

    Implements: CAP-5, DTYPE-8, DATA-13, DATA-18, DATA-19.
    """
    while type(data) is list:
        if not row_dimensions:
            raise ValueError(
                "a list is a batch of items, the index addresses a single item; nothing was written."
            )
        if not data:
            raise ValueError("an empty list has no structure; nothing was written.")
        data, row_dimensions = data[0], row_dimensions - 1
    numbering = _Numbering(row_dimensions + ndim - 1)
    root = _infer(data, (), numbering)
    if numbering.prefix is None:
        raise TypeError("a container without a tensor has no rows; nothing was written.")
    return Schema(root, numbering.prefix[row_dimensions:])


def _infer(data: Any, path: Path, numbering: _Numbering) -> Node:
    if isinstance(data, Tensor):
        return _infer_tensor(data, path, numbering)
    if is_non_tensor(data):
        if not path:
            raise TypeError("a value that is not a tensor has no rows; nothing was written.")
        feature_shape = numbering.cut(data.batch_size, path, "batch size")
        numbering.values += 1
        return ValueNode(path, numbering.values - 1, feature_shape)
    if is_tensorclass(data) and not isinstance(data, type):
        inner, fields = _fields_of(data)
        known_classes[class_name(type(data))] = type(data)
        return TensorClassNode(path, type(data), _infer_tensordict(inner, fields, path, numbering))
    if isinstance(data, TensorDictBase):
        data = dense(data, path) if isinstance(data, LazyStackedTensorDict) else data
        return _infer_tensordict(data, dict(data.items()), path, numbering)
    if type(data) in (dict, OrderedDict):
        fields = {key: _infer(value, (*path, key), numbering) for key, value in data.items()}
        return MappingNode(path, type(data), fields)
    if type(data) in (tuple, list) or _is_namedtuple(type(data)):
        if _is_namedtuple(type(data)):
            known_classes[class_name(type(data))] = type(data)
        return SequenceNode(
            path, type(data), [_infer(value, (*path, n), numbering) for n, value in enumerate(data)]
        )
    raise TypeError(
        f"{describe(path)} is {_kind_of(data)}; a storage holds tensors, TensorDicts, tensorclasses, and dicts, tuples and "
        "lists of these; nothing was written."
    )


def _infer_tensor(data: Tensor, path: Path, numbering: _Numbering) -> TensorNode:
    _refuse_layout(data, path)
    if data.dtype not in dtypes.SUPPORTED:
        raise TypeError(
            f"{describe(path)} has dtype {dtypes.name_of(data.dtype)}, which does not work with every index; supported are "
            f"{', '.join(sorted(map(dtypes.name_of, dtypes.SUPPORTED)))}; nothing was written."
        )
    feature_shape = numbering.cut(data.shape, path, "shape")
    numbering.leaves += 1
    return TensorNode(path, numbering.leaves - 1, feature_shape, data.dtype)


def _infer_tensordict(data: Any, fields: dict[str, Any], path: Path, numbering: _Numbering) -> TensorDictNode:
    tail = numbering.cut(data.batch_size, path, "batch size")
    start = numbering.leaves
    nodes: dict[str, Node] = {}
    for key, value in fields.items():
        nodes[key] = NoneNode((*path, key)) if value is None else _infer(value, (*path, key), numbering)
    only_tensors = all(isinstance(node, TensorNode) for node in nodes.values())
    return TensorDictNode(path, tail, nodes, start if only_tensors else None)


def _is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and cls is not tuple and hasattr(cls, "_fields") and hasattr(cls, "_make")
