"""The structure of an item as plain nodes, and how containers are built from it and read back into it.

A node says nothing about rows: the same node builds an item, a batch or a grid of them, given the leading shape
`lead`. Contents are plain Python: for a tensor leaf its bytes, for a leaf that is no tensor a list of values. This is
the suite's own reading of a container, shared with no storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase, is_tensorclass

from storage_conformance.recorder import Violation
from storage_conformance.tensorclasses import TENSORCLASSES, Point

__all__ = [
    "Absent",
    "Content",
    "Fields",
    "Leaf",
    "Node",
    "Record",
    "Text",
    "Tree",
    "access",
    "build",
    "leaves",
    "observe",
    "relabel",
    "tensor_bytes",
    "tensors",
]

Content = bytes | list[Any]


@dataclass(frozen=True)
class Leaf:
    """A tensor of shape `[*lead, *feature]`."""

    dtype: torch.dtype = torch.float32
    feature: tuple[int, ...] = ()

    @property
    def cell_bytes(self) -> int:
        return prod(self.feature) * self.dtype.itemsize


@dataclass(frozen=True)
class Text:
    """A string for each row."""


@dataclass(frozen=True)
class Absent:
    """A field of a tensorclass that is None."""


@dataclass(frozen=True)
class Fields:
    """A TensorDict of batch size `[*lead, *extra]`."""

    children: tuple[tuple[str, Node], ...]
    extra: tuple[int, ...] = ()


@dataclass(frozen=True)
class Record:
    """A tensorclass of batch size `[*lead, *extra]`."""

    type: str
    children: tuple[tuple[str, Node], ...]
    extra: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tree:
    """A dict, list, tuple or named tuple."""

    type: str
    children: tuple[tuple[str, Node], ...]


Node = Leaf | Text | Absent | Fields | Record | Tree


def leaves(
    node: Node, path: tuple[str, ...] = (), extra: tuple[int, ...] = ()
) -> list[tuple[tuple[str, ...], Leaf | Text]]:
    """The leaves in order, each with its path; the batch dimensions of its containers count as feature dimensions."""
    if isinstance(node, Leaf):
        return [(path, replace(node, feature=extra + node.feature))]
    if isinstance(node, Text):
        return [(path, node)]
    if isinstance(node, Absent):
        return []
    extra = extra + getattr(node, "extra", ())
    return [leaf for name, child in node.children for leaf in leaves(child, (*path, name), extra)]


def relabel(node: Node, replacement: dict[Node, Node]) -> Node:
    """The same node with some leaves replaced."""
    if isinstance(node, Fields | Record | Tree):
        return replace(
            node, children=tuple((name, relabel(child, replacement)) for name, child in node.children)
        )
    return replacement.get(node, node)


def build(
    node: Node, lead: tuple[int, ...], contents: Iterator[Any], device: torch.device | None = None
) -> Any:
    """The container whose leaves, in order, are `contents`: tensors, or lists of values."""
    if isinstance(node, Leaf):
        return next(contents)
    if isinstance(node, Text):
        return _text(next(contents), lead)
    if isinstance(node, Absent):
        return None
    if isinstance(node, Tree):
        children = {name: build(child, lead, contents, device) for name, child in node.children}
        return _tree(node.type, children)
    lead = lead + node.extra
    children = {name: build(child, lead, contents, device) for name, child in node.children}
    if isinstance(node, Record):
        return TENSORCLASSES[node.type](**children, batch_size=lead, device=device)
    return TensorDict(children, batch_size=lead, device=device)


def _text(values: list[str], lead: tuple[int, ...]) -> Any:
    if not lead:
        return values[0]
    if 0 in lead:
        return NonTensorData("", batch_size=lead)
    for size in reversed(lead[1:]):
        values = [values[i : i + size] for i in range(0, len(values), size)]  # type: ignore[misc]
    return NonTensorStack.from_list(values)


def _tree(kind: str, children: dict[str, Any]) -> Any:
    if kind == "dict":
        return children
    values = list(children.values())
    if kind == "namedtuple":
        return Point(*values)
    return values if kind == "list" else tuple(values)


def observe(value: Any, node: Node, lead: tuple[int, ...], expression: str = "") -> list[Content]:
    """The contents of `value`, leaf by leaf; `expression` is the Python text that gives it, for the claim of a failure.

    Raises:
        Violation: its containers, dtypes or shapes are not those of `node`; `aspect` says which of the three, and
            `where` holds the path and the node.
    """
    contents: list[Content] = []
    try:
        _observe(value, node, lead, (), contents)
    except Violation as violation:
        path: tuple[str, ...] = violation.where[0]
        violation.claim = violation.claim.replace("{}", expression + access(node, path)) if expression else ""
        raise
    return contents


def _observe(
    value: Any, node: Node, lead: tuple[int, ...], path: tuple[str, ...], contents: list[Content]
) -> None:
    if isinstance(node, Leaf):
        if not isinstance(value, torch.Tensor) or isinstance(value, TensorDictBase) or is_tensorclass(value):
            raise _unlike(
                "container", path, node, "a tensor", type(value).__name__, "isinstance({}, torch.Tensor)"
            )
        if value.dtype != node.dtype:
            raise _unlike(
                "dtype", path, node, str(node.dtype), str(value.dtype), f"{{}}.dtype == {node.dtype}"
            )
        if tuple(value.shape) != lead + node.feature:
            shape = lead + node.feature
            raise _unlike(
                "shape",
                path,
                node,
                f"shape {list(shape)}",
                f"shape {list(value.shape)}",
                f"{{}}.shape == {shape}",
            )
        contents.append(tensor_bytes(value))
    elif isinstance(node, Text):
        contents.append(_text_values(value, node, prod(lead), path))
    elif isinstance(node, Absent):
        if value is not None:
            raise _unlike("container", path, node, "None", type(value).__name__, "{} is None")
    elif isinstance(node, Tree):
        _observe_tree(value, node, lead, path, contents)
    else:
        _observe_fields(value, node, lead + node.extra, path, contents)


def _observe_fields(
    value: Any, node: Fields | Record, lead: tuple[int, ...], path: tuple[str, ...], contents: list[Content]
) -> None:
    if isinstance(node, Record):
        if type(value) is not TENSORCLASSES[node.type]:
            raise _unlike(
                "container", path, node, f"a {node.type}", type(value).__name__, f"type({{}}) is {node.type}"
            )
    elif not isinstance(value, TensorDictBase) or is_tensorclass(value):
        raise _unlike("container", path, node, "a TensorDict", type(value).__name__, "type({}) is TensorDict")
    if tuple(value.batch_size) != lead:
        batch_size = list(value.batch_size)
        claim = f"{{}}.batch_size == torch.Size({list(lead)})"
        raise _unlike("batch_size", path, node, f"batch size {list(lead)}", f"batch size {batch_size}", claim)
    if isinstance(node, Fields):
        expected, actual = [name for name, _ in node.children], [str(key) for key in value.keys()]  # noqa: SIM118
        if set(expected) != set(actual):
            claim = f"sorted({{}}.keys()) == {sorted(expected)}"
            lost = [child for name, child in node.children if name not in actual]
            # Where only values are lost that are no tensors, the TensorDict is not to blame.
            part: Node = lost[0] if lost and all(isinstance(child, Text) for child in lost) else node
            raise _unlike(
                "container", path, part, f"keys {sorted(expected)}", f"keys {sorted(actual)}", claim
            )
    for name, child in node.children:
        field = (
            value.get(name) if isinstance(node, Fields) or isinstance(child, Text) else getattr(value, name)
        )
        _observe(field, child, lead, (*path, name), contents)


def _observe_tree(
    value: Any, node: Tree, lead: tuple[int, ...], path: tuple[str, ...], contents: list[Content]
) -> None:
    kinds: dict[str, type[Any]] = {"dict": dict, "list": list, "tuple": tuple, "namedtuple": Point}
    kind = kinds[node.type]
    if type(value) is not kind:
        raise _unlike(
            "container",
            path,
            node,
            f"a {kind.__name__}",
            type(value).__name__,
            f"type({{}}) is {kind.__name__}",
        )
    names = [name for name, _ in node.children]
    if node.type == "dict" and set(value) != set(names):
        claim = f"sorted({{}}) == {sorted(names)}"
        raise _unlike(
            "container", path, node, f"keys {sorted(names)}", f"keys {sorted(map(str, value))}", claim
        )
    if len(value) != len(names):
        raise _unlike("container", path, node, f"{len(names)} entries", f"{len(value)} entries")
    for position, (name, child) in enumerate(node.children):
        _observe(value[name if node.type == "dict" else position], child, lead, (*path, name), contents)


def _text_values(value: Any, node: Text, count: int, path: tuple[str, ...]) -> list[Any]:
    values = value.tolist() if hasattr(value, "tolist") else value
    flat = list(_flatten(values))
    if count == 0:
        return []
    if len(flat) != count or not all(isinstance(v, str | None) for v in flat):
        raise _unlike("shape", path, node, f"{count} strings", f"{str(flat)[:60]}")
    return flat


def _flatten(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _flatten(value)
    else:
        yield values


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The values of a tensor in row-major order, bit for bit."""
    if tensor.numel() == 0:
        return b""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    flat = plain.reshape(-1)
    if flat.stride(0) != 1:  # one element of an expanded tensor counts as contiguous whatever its stride
        flat = flat.as_strided((1,), (1,))
    return flat.view(torch.uint8).numpy().tobytes()


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in a container, or in a list of them."""
    if isinstance(value, TensorDictBase) or is_tensorclass(value):
        fields = value if isinstance(value, TensorDictBase) else value._tensordict
        return [t for entry in fields.values() for t in tensors(entry)]
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for entry in value.values() for t in tensors(entry)]
    return [t for entry in value for t in tensors(entry)] if isinstance(value, list | tuple) else []


def _unlike(
    aspect: str, path: tuple[str, ...], node: Node, expected: str, actual: str, claim: str = ""
) -> Violation:
    at = f"leaf {path!r}" if path else "the data"
    return Violation(
        f"{at}: expected {expected}, got {actual}",
        claim=claim,
        actual=actual,
        aspect=aspect,
        where=(path, node),
    )


def access(node: Node, path: tuple[str, ...]) -> str:
    """The Python text that leads from a container to the leaf at `path`."""
    text = ""
    for name in path:
        assert isinstance(node, Fields | Record | Tree)
        names = [child for child, _ in node.children]
        if isinstance(node, Record) or (isinstance(node, Tree) and node.type == "namedtuple"):
            text += f".{name}"
        elif isinstance(node, Tree) and node.type in ("list", "tuple"):
            text += f"[{names.index(name)}]"
        else:
            text += f"[{name!r}]"
        node = node.children[names.index(name)][1]
    return text
