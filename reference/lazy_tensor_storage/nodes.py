"""The containers and leaves of an item: each kind takes data apart, builds it again, and compares itself.

`Node.take` and `Node.build` run for each write and read; what is wrong with a container is found in ``take``, before
anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from tensordict.utils import is_non_tensor
from torch import Tensor

from . import dtypes, values
from .places import Path, describe, kind_of, wrong_shape
from .stacking import dense, fields_of

Column: TypeAlias = list[Any] | None
"""The values of one leaf that is not a tensor, one for each element; ``None`` if they are all ``None``."""


def class_name(cls: type) -> str:
    """``"module:qualified.name"``."""
    return f"{cls.__module__}:{cls.__qualname__}"


@dataclass(slots=True, eq=False)
class Collected:
    """What `Node.take` gathers. ``shape`` is that of the rows or elements addressed."""

    shape: torch.Size
    leaves: list[Tensor]
    values: list[Column]


@dataclass(slots=True, eq=False)
class Reading:
    """What `Node.build` puts together: leaves of ``[*shape, *feature_shape]`` on ``device``."""

    shape: torch.Size
    leaves: list[Tensor]
    values: list[Column]
    device: torch.device
    uniform_from: int


def _unchecked(source: dict[str, Any], batch_size: torch.Size, device: torch.device) -> TensorDict:
    """A TensorDict without the checks that a schema has made already.

    0.6 us for three leaves, of which TensorDict(...) takes 3.9 and `_new_unsafe` with the device 1.2; a read of 256
    small rows takes 27, in a loop with other work.
    """
    made = TensorDict._new_unsafe(source, batch_size=batch_size)
    made._device = device
    return made


def _works_unchecked() -> bool:
    # Neither name is public: where they do not do this, the constructor does.
    shape, device = torch.Size([2]), torch.device("cpu")
    try:
        made = _unchecked({"leaf": torch.zeros(2)}, shape, device)
        return (made.batch_size, made.device, list(made.keys())) == (shape, device, ["leaf"])
    except Exception:
        return False


def _checked(source: dict[str, Any], batch_size: torch.Size, device: torch.device) -> TensorDict:
    return TensorDict(source, batch_size=batch_size, device=device)


_tensordict = _unchecked if _works_unchecked() else _checked


class Node:
    """A container or a leaf of an item."""

    kind: ClassVar[str]
    path: Path

    def take(self, data: Any, into: Collected) -> None:
        """Append the leaves and values of ``data`` to ``into``. Raises: ``TypeError``, ``ValueError``."""
        raise NotImplementedError

    def build(self, reading: Reading) -> Any:
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


def _expected(node: Node, data: Any) -> TypeError:
    return TypeError(
        f"{describe(node.path)} is {node.kind} in the storage, not {kind_of(data)}; nothing was written."
    )


@dataclass(slots=True, eq=False)
class TensorNode(Node):
    """A tensor; in memory ``[rows, *T, *feature_shape]``."""

    kind: ClassVar[str] = "a tensor"
    path: Path
    position: int
    feature_shape: torch.Size
    dtype: torch.dtype

    def take(self, data: Any, into: Collected) -> None:
        if not isinstance(data, Tensor):
            raise _expected(self, data)
        into.leaves.append(data)

    def build(self, reading: Reading) -> Tensor:
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
    """A value that is not a tensor, with ``feature_shape`` dimensions of a batch size behind those that count.

    ``optional`` marks a field of a tensorclass that was ``None`` in the first write: where all that is read is
    ``None`` the field is, too.
    """

    kind: ClassVar[str] = "None or a value that is not a tensor"
    path: Path
    position: int
    feature_shape: torch.Size
    optional: bool

    def take(self, data: Any, into: Collected) -> None:
        if data is None:
            into.values.append(None)
            return
        if not is_non_tensor(data):
            raise _expected(self, data)
        if data.batch_size != into.shape + self.feature_shape:
            raise wrong_shape(self.path, "batch size", data.batch_size, into.shape, self.feature_shape)
        into.values.append(values.unwrap(data, len(into.shape)))

    def build(self, reading: Reading) -> Any:
        column = reading.values[self.position]
        if column is None:
            if self.optional:
                return None
            column = [None] * reading.shape.numel()
        return values.wrap(column, reading.shape, self.feature_shape, reading.device, reading.uniform_from)

    def summary(self) -> str:
        return "optional" if self.optional else "value"

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

    def take(self, data: Any, into: Collected) -> None:
        if type(data) is not TensorDict:
            data = _plain(self, data)
        if data.batch_size != (into.shape + self.tail if self.tail else into.shape):
            raise wrong_shape(self.path, "batch size", data.batch_size, into.shape, self.tail)
        self.take_fields(dict(data.items()), into)

    def take_fields(self, given: Mapping[str, Any], into: Collected) -> None:
        if given.keys() != self.fields.keys():
            raise _different_keys(self.path, given, self.fields)
        leaves = into.leaves
        for key, child in self.fields.items():
            value = given[key]
            if type(value) is Tensor and type(child) is TensorNode:
                leaves.append(value)
            else:
                child.take(value, into)

    def build(self, reading: Reading) -> TensorDict:
        source: dict[str, Any] = {}
        leaves = reading.leaves
        for key, child in self.fields.items():
            if type(child) is TensorNode:  # a call for each leaf would double the time
                source[key] = leaves[child.position]
            elif (built := child.build(reading)) is not None:
                source[key] = built
        batch_size = reading.shape + self.tail if self.tail else reading.shape
        return _tensordict(source, batch_size, reading.device)

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
class TensorClassNode(Node):
    """A tensorclass; ``body`` is the TensorDict inside, with an optional value for each field that was ``None``."""

    kind: ClassVar[str] = "a tensorclass"
    path: Path
    cls: type[Any]
    body: TensorDictNode

    def take(self, data: Any, into: Collected) -> None:
        if type(data) is not self.cls:
            raise TypeError(
                f"{describe(self.path)} is a {class_name(self.cls)} in the storage, not {kind_of(data)}; nothing was "
                "written."
            )
        inner, given = fields_of(data, self.path)
        if inner.batch_size != into.shape + self.body.tail:
            raise wrong_shape(self.path, "batch size", inner.batch_size, into.shape, self.body.tail)
        self.body.take_fields(given, into)

    def build(self, reading: Reading) -> Any:
        return self.cls._from_tensordict(self.body.build(reading))

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
    cls: type[dict[Any, Any]]
    fields: dict[Any, Node]

    def take(self, data: Any, into: Collected) -> None:
        if type(data) is not self.cls:
            raise _expected(self, data)
        if data.keys() != self.fields.keys():
            raise _different_keys(self.path, data, self.fields)
        for key, child in self.fields.items():
            child.take(data[key], into)

    def build(self, reading: Reading) -> Any:
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
    cls: type[Any]
    entries: list[Node]

    def take(self, data: Any, into: Collected) -> None:
        if type(data) is not self.cls:
            raise TypeError(
                f"{describe(self.path)} is a {self.cls.__qualname__} in the storage, not {kind_of(data)}; nothing was "
                "written."
            )
        if len(data) != len(self.entries):
            raise ValueError(
                f"{describe(self.path)} has {len(data)} entries, the storage holds {len(self.entries)}; nothing was "
                "written."
            )
        for child, entry in zip(self.entries, data, strict=True):
            child.take(entry, into)

    def build(self, reading: Reading) -> Any:
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


def _plain(node: Node, data: Any) -> TensorDictBase:
    """``data`` if it is some TensorDict, lazy stacks made dense. Raises: ``TypeError``, ``ValueError``."""
    if not isinstance(data, TensorDictBase) or is_non_tensor(data):
        raise _expected(node, data)
    return dense(data, node.path) if isinstance(data, LazyStackedTensorDict) else data
