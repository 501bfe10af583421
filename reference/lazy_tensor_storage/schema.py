"""The structure that the first write fixes: containers, leaves, dtypes, shapes.

An item of any kind is a tree of containers, a flat list of tensors and a flat list of values that are not tensors.
A `Schema` takes such a tree apart (`Schema.collect`), refusing whatever differs from the first write before anything
is written, and puts it together again (`Schema.build`), in new containers each time.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, UnbatchedTensor, is_tensorclass
from tensordict.utils import is_non_tensor
from torch import Tensor

from . import dtypes
from .nodes import (
    Collected,
    Column,
    MappingNode,
    Node,
    Reading,
    SequenceNode,
    TensorClassNode,
    TensorDictNode,
    TensorNode,
    ValueNode,
    class_name,
)
from .places import Path, describe, kind_of, wrong_shape
from .stacking import dense, fields_of

Item: TypeAlias = Any
"""A tensor, a TensorDict, a tensorclass, or a dict, tuple or named tuple of these (with lists inside)."""

known_classes: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
"""The tensorclasses and named tuples stored in this process, by `class_name`: a dump may name one that is local."""


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
        self, data: Item, shape: torch.Size, index_dimensions: int
    ) -> tuple[list[Tensor], list[Column]]:
        """Take ``data`` apart and check every leaf of it: all that can be wrong with data is found here.

        Args:
            data: an item or a batch, for rows or elements of shape ``shape``.
            shape: the dimensions addressed by the index.
            index_dimensions: how many of these are the index's own, so that a list can stand for them.

        Returns:
            The leaves, ``[*shape, *feature_shape]`` each, detached and in the dtype of the storage, on whatever
            device they were; and the values, a list of ``shape.numel()`` for each of them.

        Raises:
            TypeError: another container or leaf type, or a dtype that would change values.
            ValueError: another structure, feature shape or number of rows.

        Implements: SET-8 to SET-12, DATA-9 to DATA-13, DATA-15, DATA-18, DATA-19, DTYPE-6.
        """
        leaves, values = self.take(data, shape, index_dimensions)
        return self.check(leaves, shape), values

    def take(self, data: Item, shape: torch.Size, index_dimensions: int) -> tuple[list[Tensor], list[Column]]:
        """The first half of `collect`: the leaves still have to be checked one by one (`check`)."""
        if type(data) is list:
            return self._collect_list(data, shape, index_dimensions)
        collected = Collected(shape, [], [])
        self.root.take(data, collected)
        return collected.leaves, collected.values

    def _collect_list(
        self, items: list[Any], shape: torch.Size, index_dimensions: int
    ) -> tuple[list[Tensor], list[Column]]:
        if not index_dimensions:
            raise ValueError(
                "a list is a batch of items, the index addresses a single item; nothing was written."
            )
        if len(items) != shape[0]:
            raise ValueError(
                f"a list of {len(items)} items for an index of {shape[0]} rows; nothing was written."
            )
        parts = [self.collect(item, shape[1:], index_dimensions - 1) for item in items]
        if not parts:
            # No rows, no structure to look at: an empty batch of the right kind.
            empty = [
                torch.empty(shape + node.feature_shape, dtype=node.dtype, device="cpu")
                for node in self.leaves
            ]
            return empty, [None for _ in self.values]
        # Items may lie on different devices; the first one's is as good as any.
        leaves = [
            torch.stack(
                [leaf if leaf.device == column[0].device else leaf.to(column[0].device) for leaf in column]
            )
            for column in zip(*(leaves for leaves, _ in parts), strict=True)
        ]
        columns = zip(*(kept for _, kept in parts), strict=True)
        return leaves, [_joined(column, shape[1:].numel()) for column in columns]

    def check(self, leaves: list[Tensor], shape: torch.Size) -> list[Tensor]:
        """The leaves detached and in the dtypes of the storage. Raises: ``TypeError``, ``ValueError``."""
        if shape != self._plan_for:
            # Batches come in few sizes; the expected shapes of the last one are kept.
            self._plan = [(node, shape + node.feature_shape, node.dtype) for node in self.leaves]
            self._plan_for = shape
        for place, (leaf, (node, expected, dtype)) in enumerate(zip(leaves, self._plan, strict=True)):
            if type(leaf) is not Tensor or leaf.is_nested or leaf.layout is not torch.strided:
                _refuse_rowless(leaf, node.path)
            if leaf.shape != expected:
                raise wrong_shape(node.path, "shape", leaf.shape, shape, node.feature_shape)
            if leaf.requires_grad:
                leaves[place] = leaf = leaf.detach()
            if leaf.dtype is not dtype:
                leaves[place] = leaf = dtypes.convert(leaf, dtype, describe(node.path))
        return leaves

    def build(
        self,
        leaves: list[Tensor],
        kept: list[Column],
        shape: torch.Size,
        device: torch.device,
        *,
        uniform_from: int = 0,
    ) -> Item:
        """An item or a batch, in new containers, of leaves ``[*shape, *feature_shape]``.

        Implements: GET-6, DATA-1 to DATA-8, DATA-14, DATA-16, DATA-17.
        """
        return self.root.build(Reading(shape, leaves, kept, device, uniform_from))

    def match(self, other: Schema) -> tuple[list[TensorNode], list[ValueNode]]:
        """The leaves and the values of ``other`` that stand where this schema's do, in this schema's order.

        Raises:
            ValueError: the structures differ.

        Implements: CKPT-12, CKPT-13.
        """
        if self.trailing != other.trailing:
            raise ValueError(
                f"the trailing shape is {list(self.trailing)} here and {list(other.trailing)} there; nothing was "
                "changed."
            )
        pairs: list[tuple[Node, Node]] = []
        self.root.match(other.root, pairs)
        theirs = {id(mine): other for mine, other in pairs}
        leaves = [theirs[id(node)] for node in self.leaves]
        kept = [theirs[id(node)] for node in self.values]
        return [n for n in leaves if isinstance(n, TensorNode)], [n for n in kept if isinstance(n, ValueNode)]


def _joined(columns: tuple[Column, ...], size: int) -> Column:
    if all(column is None for column in columns):
        return None
    return [value for column in columns for value in ([None] * size if column is None else column)]


def _refuse_rowless(leaf: Tensor, path: Path) -> None:
    if isinstance(leaf, UnbatchedTensor):
        raise TypeError(f"{describe(path)} is an UnbatchedTensor, it has no rows; nothing was written.")
    if leaf.is_nested or leaf.layout is not torch.strided or leaf.is_quantized:
        raise TypeError(
            f"{describe(path)} is a sparse, nested or quantized tensor, it has no rows; nothing was written."
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

    def next_leaf(self) -> int:
        self.leaves += 1
        return self.leaves - 1

    def next_value(self) -> int:
        self.values += 1
        return self.values - 1

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


def infer(data: Item, index_dimensions: int, ndim: int) -> Schema:
    """The schema that ``data`` would fix as a first write.

    Args:
        data: an item, or a batch with ``index_dimensions`` dimensions for the rows.
        index_dimensions: 0 for an item.
        ndim: that of the storage.

    Raises:
        TypeError: no data, or of a dtype or layout that is not supported.
        ValueError: too few dimensions, or no leaf at all.

    Implements: CAP-5, DTYPE-8, DATA-13, DATA-18, DATA-19.
    """
    while type(data) is list:
        if not index_dimensions:
            raise ValueError(
                "a list is a batch of items, the index addresses a single item; nothing was written."
            )
        if not data:
            raise ValueError("an empty list has no structure; nothing was written.")
        data, index_dimensions = data[0], index_dimensions - 1
    numbering = _Numbering(index_dimensions + ndim - 1)
    root = _infer(data, (), numbering)
    if numbering.prefix is None:
        raise TypeError("a container without a tensor has no rows; nothing was written.")
    return Schema(root, numbering.prefix[index_dimensions:])


def _infer(data: Any, path: Path, numbering: _Numbering) -> Node:
    cls: type[Any] = type(data)
    if isinstance(data, Tensor):
        return _infer_tensor(data, path, numbering)
    if is_non_tensor(data):
        if not path:
            raise TypeError("a value that is not a tensor has no rows; nothing was written.")
        feature_shape = numbering.cut(data.batch_size, path, "batch size")
        return ValueNode(path, numbering.next_value(), feature_shape, optional=False)
    if is_tensorclass(cls):
        inner, fields = fields_of(data, path)
        known_classes[class_name(cls)] = cls
        return TensorClassNode(path, cls, _infer_tensordict(inner, fields, path, numbering))
    if isinstance(data, TensorDictBase):
        data = dense(data, path) if isinstance(data, LazyStackedTensorDict) else data
        return _infer_tensordict(data, dict(data.items()), path, numbering)
    if cls in (dict, OrderedDict):
        children = {key: _infer(value, (*path, key), numbering) for key, value in data.items()}
        return MappingNode(path, cls, children)
    if cls in (tuple, list) or _is_namedtuple(cls):
        if cls not in (tuple, list):
            known_classes[class_name(cls)] = cls
        return SequenceNode(path, cls, [_infer(value, (*path, n), numbering) for n, value in enumerate(data)])
    raise TypeError(
        f"{describe(path)} is {kind_of(data)}; a storage holds tensors, TensorDicts, tensorclasses, and dicts, tuples "
        "and lists of these; nothing was written."
    )


def _infer_tensor(data: Tensor, path: Path, numbering: _Numbering) -> TensorNode:
    _refuse_rowless(data, path)
    if data.dtype not in dtypes.SUPPORTED:
        raise TypeError(
            f"{describe(path)} has dtype {dtypes.name_of(data.dtype)}, which does not work with every index; supported "
            f"are {', '.join(sorted(map(dtypes.name_of, dtypes.SUPPORTED)))}; nothing was written."
        )
    feature_shape = numbering.cut(data.shape, path, "shape")
    return TensorNode(path, numbering.next_leaf(), feature_shape, data.dtype)


def _infer_tensordict(data: Any, fields: dict[str, Any], path: Path, numbering: _Numbering) -> TensorDictNode:
    tail = numbering.cut(data.batch_size, path, "batch size")
    nodes: dict[str, Node] = {}
    for key, value in fields.items():
        if value is None:
            nodes[key] = ValueNode((*path, key), numbering.next_value(), tail, optional=True)
        else:
            nodes[key] = _infer(value, (*path, key), numbering)
    return TensorDictNode(path, tail, nodes)


def _is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and cls is not tuple and hasattr(cls, "_fields") and hasattr(cls, "_make")
