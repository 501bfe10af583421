"""The rows of a storage apart from it, and their plain form: the tree of containers as JSON-like data."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import is_tensorclass
from torch import Tensor

from . import dtypes, values
from .memory import tight
from .nodes import (
    Column,
    MappingNode,
    Node,
    SequenceNode,
    TensorClassNode,
    TensorDictNode,
    TensorNode,
    ValueNode,
    class_name,
)
from .places import Path
from .schema import Schema, known_classes

STATE_VERSION = 1


@dataclass(frozen=True)
class Snapshot:
    """The rows that could be read at one time.

    Attributes:
        schema: their structure.
        ndim: that of the storage.
        readable: how many rows.
        last_row: the last-written row.
        leaves: ``[readable, *T, *feature_shape]`` each.
        values: for each value that is not a tensor a list of ``readable * P``.
    """

    schema: Schema
    ndim: int
    readable: int
    last_row: int | None
    leaves: list[Tensor]
    values: list[Column]

    def copy(self) -> Snapshot:
        """One that shares no memory with the storage."""
        return replace(
            self,
            leaves=[leaf.detach().clone(memory_format=torch.contiguous_format) for leaf in self.leaves],
            values=[each(values.own, column) for column in self.values],
        )


# A tree of containers as plain data ----------------------------------------------------------------------------------


def plain_tree(node: Node) -> dict[str, Any]:
    """The tree as dicts, lists, strings and numbers. Raises: ``TypeError`` for a dict key that is no plain scalar."""
    if isinstance(node, TensorNode):
        return {
            "is": "tensor",
            "at": node.position,
            "shape": list(node.feature_shape),
            "dtype": dtypes.name_of(node.dtype),
        }
    if isinstance(node, ValueNode):
        shape = list(node.feature_shape)
        return {"is": "value", "at": node.position, "shape": shape, "optional": node.optional}
    if isinstance(node, TensorDictNode):
        fields = [[key, plain_tree(child)] for key, child in node.fields.items()]
        return {"is": "tensordict", "batch": list(node.tail), "fields": fields}
    if isinstance(node, TensorClassNode):
        return {"is": "tensorclass", "class": class_name(node.cls), "body": plain_tree(node.body)}
    if isinstance(node, MappingNode):
        if any(type(key) not in (str, int, float, bool, type(None)) for key in node.fields):
            raise TypeError(f"the keys of the dict at {node.path!r} have no plain form: {list(node.fields)}.")
        kind = "ordereddict" if node.cls is OrderedDict else "dict"
        return {"is": kind, "fields": [[key, plain_tree(child)] for key, child in node.fields.items()]}
    assert isinstance(node, SequenceNode)
    entries = [plain_tree(child) for child in node.entries]
    if node.cls in (tuple, list):
        return {"is": node.cls.__name__, "entries": entries}
    return {"is": "namedtuple", "class": class_name(node.cls), "entries": entries}


def tree_of(plain: Any, path: Path, classes: dict[str, type]) -> Node:
    """The inverse of `plain_tree`.

    Args:
        plain: what `plain_tree` returned, or anything else.
        path: where in the item this is.
        classes: tensorclasses and named tuples by name, before those that this process has loaded.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: ``plain`` is no such tree.
        UnknownClass: it names a class that this process does not have.
    """
    kind = plain["is"]
    if kind == "tensor":
        return TensorNode(
            path, _number(plain["at"]), checked_size(plain["shape"]), dtypes.dtype_of(plain["dtype"])
        )
    if kind == "value":
        return ValueNode(path, _number(plain["at"]), checked_size(plain["shape"]), plain["optional"] is True)
    if kind in ("tensordict", "dict", "ordereddict"):
        fields: dict[Any, Node] = {
            key: tree_of(child, (*path, key), classes) for key, child in plain["fields"]
        }
        if len(fields) != len(plain["fields"]):
            raise ValueError("a key stands twice")
        if kind != "tensordict":
            return MappingNode(path, dict if kind == "dict" else OrderedDict, fields)
        if any(type(key) is not str for key in fields):
            raise ValueError("a key of a TensorDict is no string")
        tail = checked_size(plain["batch"])
        children = list(fields.values())
        if any(_leading(child)[: len(tail)] != tail for child in children):
            raise ValueError(f"the batch size {list(tail)} is not that of what it contains")
        return TensorDictNode(path, tail, fields)
    if kind == "tensorclass":
        cls = _find_class(plain["class"], classes)
        body = tree_of(plain["body"], path, classes)
        if not is_tensorclass(cls) or not isinstance(body, TensorDictNode):
            raise UnknownClass(f"{plain['class']} is no tensorclass here")
        if not body.fields.keys() <= set(cls.__expected_keys__):  # type: ignore[attr-defined]
            raise UnknownClass(f"{plain['class']} has not the fields {list(body.fields)} here")
        return TensorClassNode(path, cls, body)
    entries = [tree_of(child, (*path, place), classes) for place, child in enumerate(plain["entries"])]
    if kind in ("tuple", "list"):
        return SequenceNode(path, tuple if kind == "tuple" else list, entries)
    if kind != "namedtuple":
        raise ValueError(f"unknown container {kind!r}")
    cls = _find_class(plain["class"], classes)
    if not issubclass(cls, tuple) or len(getattr(cls, "_fields", ())) != len(entries):
        raise UnknownClass(f"{plain['class']} is no named tuple of {len(entries)} fields here")
    return SequenceNode(path, cls, entries)


def _leading(child: Node) -> torch.Size:
    """The dimensions of what a TensorDict contains, behind those that count."""
    if isinstance(child, (TensorNode, ValueNode)):
        return child.feature_shape
    node = child.body if isinstance(child, TensorClassNode) else child
    if not isinstance(node, TensorDictNode):
        raise ValueError(f"a TensorDict contains {node.kind}")
    return node.tail


class UnknownClass(ValueError):
    """A dump names a class that this process does not have."""


def classes_of(schema: Schema | None) -> dict[str, type]:
    """The tensorclasses and named tuples of a schema, by name."""
    found: dict[str, type] = {}
    pending = [] if schema is None else [schema.root]
    while pending:
        node = pending.pop()
        if isinstance(node, (TensorClassNode, SequenceNode)):
            found[class_name(node.cls)] = node.cls
        pending.extend(node.children())
    return found


def _find_class(name: str, classes: dict[str, type]) -> type:
    """The class of that name, if the process has it already: nothing is imported and no attribute hook runs.

    Implements: CKPT-17.
    """
    if name in classes:
        return classes[name]
    found: Any = known_classes.get(name)
    if found is None:
        module, _, qualified = name.partition(":")
        found = sys.modules.get(module)
        for part in qualified.split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if not isinstance(found, type):
        raise UnknownClass(
            f"the rows are of class {name}, which this process has not imported: import it first"
        )
    return found


def each(change: Callable[[Any], Any], column: Column) -> Column:
    """The column with each value changed; ``None`` stays."""
    return None if column is None else [change(value) for value in column]


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number of a leaf")
    return value


def checked_count(value: Any) -> int:
    """``value`` if it is a number of rows, bytes or dimensions. Raises: ``ValueError``."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no count")
    return value


def checked_size(value: Any) -> torch.Size:
    """``value`` as a shape. Raises: ``ValueError``, ``TypeError``, ``OverflowError``."""
    if any(type(size) is not int or size < 0 for size in value):
        raise ValueError(f"{value!r} is no shape")
    return torch.Size(value)


# State dicts ---------------------------------------------------------------------------------------------------------


def encode(snapshot: Snapshot | None) -> dict[str, Any]:
    """A state dict; that of a fresh storage for ``None``."""
    if snapshot is None:
        return {"version": STATE_VERSION, "fresh": True}
    return {
        "version": STATE_VERSION,
        "fresh": False,
        "ndim": snapshot.ndim,
        "trailing": list(snapshot.schema.trailing),
        "rows": snapshot.readable,
        "last_row": snapshot.last_row,
        "tree": plain_tree(snapshot.schema.root),
        "leaves": [tight(leaf) for leaf in snapshot.leaves],
        "values": [each(_plain_value, column) for column in snapshot.values],
    }


def _plain_value(value: Any) -> Any:
    # Several is ours; a reader that takes plain types only does not know it.
    return (
        {"several": [_plain_value(entry) for entry in value]}
        if type(value) is values.Several
        else {"one": values.own(value)}
    )


def _kept_value(plain: Any) -> Any:
    if "several" in plain:
        return values.Several(_kept_value(entry) for entry in plain["several"])
    return values.own(plain["one"])


def decode(state: Any, known: Schema | None) -> Snapshot | None:
    """The snapshot in a state dict, ``None`` if it is that of a fresh storage.

    Raises:
        TypeError: ``state`` is no dict.
        ValueError: it is no state dict of a storage.

    Implements: ERR-4.
    """
    if not isinstance(state, dict):
        raise TypeError(f"a state dict is a dict, not a {type(state).__name__}; nothing was changed.")
    try:
        if state["version"] != STATE_VERSION:
            raise ValueError(f"version {state['version']!r} is not known")
        if state["fresh"]:
            return None
        schema = Schema(tree_of(state["tree"], (), classes_of(known)), checked_size(state["trailing"]))
        return checked(
            Snapshot(
                schema=schema,
                ndim=_number(state["ndim"]),
                readable=_number(state["rows"]),
                last_row=state["last_row"],
                leaves=list(state["leaves"]),
                values=[each(_kept_value, column) for column in state["values"]],
            )
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"this is no state dict of a LazyTensorStorage ({error}); nothing was changed."
        ) from error


def checked(snapshot: Snapshot) -> Snapshot:
    """``snapshot`` if its parts agree with each other. Raises: ``ValueError``."""
    schema = snapshot.schema
    shape = torch.Size((snapshot.readable, *schema.trailing))
    if len(schema.trailing) != snapshot.ndim - 1 or not schema.trailing.numel():
        raise ValueError(f"a trailing shape of {list(schema.trailing)} does not go with ndim={snapshot.ndim}")
    if [node.position for node in schema.leaves] != list(range(len(snapshot.leaves))):
        raise ValueError("the leaves are not those of the tree")
    if [node.position for node in schema.values] != list(range(len(snapshot.values))):
        raise ValueError("the values are not those of the tree")
    for node, leaf in zip(schema.leaves, snapshot.leaves, strict=True):
        if (
            not isinstance(leaf, Tensor)
            or leaf.shape != shape + node.feature_shape
            or leaf.dtype is not node.dtype
        ):
            raise ValueError(
                f"the tensor at {node.path!r} is not of shape {[*shape, *node.feature_shape]} and {node.dtype}"
            )
    if any(column is not None and len(column) != shape.numel() for column in snapshot.values):
        raise ValueError("there is not one value for each element")
    last = snapshot.last_row
    if last is not None and (type(last) is not int or not 0 <= last < snapshot.readable):
        raise ValueError(f"the last-written row {last!r} is none of the {snapshot.readable} rows")
    return snapshot
