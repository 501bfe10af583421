"""Writes and reads that have to be refused, each with the requirement that says so.

The fault sits in the last leaf wherever there is a choice, so that a storage which checks while it writes has
already written the first one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.structure import Absent, Fields, Leaf, Node, Record, Tree, leaves

__all__ = ["bad_indices", "spoiled"]


@cache
def bad_indices(rows: int, ndim: int, *, beyond: str) -> st.SearchStrategy[tuple[Index, str]]:
    """Indices that must be refused where `rows` rows can be addressed; `beyond` speaks about higher rows."""
    far = st.integers(rows, rows + 2)
    outside = st.one_of(
        far.map(lambda r: Index("int", (r,))),
        far.map(lambda r: Index("list", (0, r))),
        far.map(lambda r: Index("tensor", (0, r))),
        far.map(lambda r: Index("range", (0, r + 1))),
        far.map(lambda r: Index("scalar", (r,))),
    ).map(lambda index: (index, beyond))
    raw = [
        ("True", True, "IDX-15"), ("False", False, "IDX-15"), ("None", None, "IDX-16"), ("'a'", "a", "IDX-16"),
        ("0.0", 0.0, "IDX-16"), ("torch.tensor([0.0])", torch.tensor([0.0]), "IDX-16"),
    ]  # fmt: skip
    kinds: list[Any] = [(Index("raw", (value, text)), requirement) for text, value, requirement in raw]
    kinds.append((Index("tuple", tuple(Index("int", (0,)) for _ in range(ndim + 1))), "IDX-14"))
    kinds.append((Index("mask", (True,) * (rows + 1)), "IDX-18"))
    if rows > 1:
        kinds.append((Index("mask", (True,) * (rows - 1)), "IDX-18"))
    return st.one_of(outside, st.sampled_from(kinds))


def spoiled(
    batch: Batch, trailing: tuple[int, ...], *, fresh: bool, rows_named: bool, auto: bool = False
) -> list[tuple[Batch, str]]:
    """Variants of a valid batch that must be refused.

    Args:
        batch: what a valid write would carry.
        trailing: `T`.
        fresh: whether nothing was written yet, so that any structure would be taken.
        rows_named: whether the index names several rows, so that the number of rows is a choice of the data.
        auto: whether the storage takes its device from the first write.
    """
    found: list[tuple[Batch, str]] = []
    if rows_named:
        rows = batch.lead[0]
        found.append((batch.reshaped((rows + 1, *batch.lead[1:])), "SET-9"))
        if rows > 1:
            found.append((batch.reshaped((1, *batch.lead[1:])), "SET-9"))
    if rows_named and _item_dimensions(batch.node) < len(trailing):
        found.append((batch.reshaped(batch.lead[:1]), "CAP-5"))
    tensors = sum(isinstance(leaf, Leaf) for _, leaf in leaves(batch.node))
    if tensors and not (auto and fresh):
        found.append((replace(batch, layout="meta", bits=False), "DEV-9"))
    elif (
        tensors > 1
    ):  # one leaf on the meta device beside others; alone it would make a storage on that device
        found.append((replace(batch, layout="meta", bits=False), "DEV-6"))
    if not fresh:
        for node, rule, values in _other_structures(batch.node):
            found.append((replace(batch, node=node, bits=values == "bits", halves=values == "halves"), rule))
    return found


def _other_structures(node: Node) -> list[tuple[Node, str, str]]:
    found: list[tuple[Node, str, str]] = []
    leaf = _last_leaf(node)
    if leaf is not None:
        for feature in (
            (*leaf.feature, 1),
            (1, *leaf.feature),
            (*leaf.feature[:-1], 3) if leaf.feature else (3,),
        ):
            if feature != leaf.feature:
                found.append((_with_last_leaf(node, Leaf(leaf.dtype, feature)), "SET-8", ""))
        if leaf.feature and leaf.feature != (1,) and leaf.feature[-1] > 1:
            found.append((_with_last_leaf(node, Leaf(leaf.dtype, (*leaf.feature[:-1], 1))), "SET-8", ""))
        if leaf.cell_bytes:
            if not leaf.dtype.is_complex and leaf.dtype != torch.bool:
                found.append((_with_last_leaf(node, Leaf(torch.complex64, leaf.feature)), "DTYPE-6", ""))
            if not leaf.dtype.is_floating_point and not leaf.dtype.is_complex:
                found.append((_with_last_leaf(node, Leaf(torch.float32, leaf.feature)), "DTYPE-6", "halves"))
            if leaf.dtype in (torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32):
                found.append((_with_last_leaf(node, Leaf(torch.int64, leaf.feature)), "DTYPE-6", "bits"))
    grows = isinstance(node, Fields) or (isinstance(node, Tree) and node.type != "namedtuple")
    if isinstance(node, Fields | Tree) and grows and len(node.children) > 1:
        requirement = "DATA-15" if isinstance(node, Tree) else "SET-10"
        found.append((replace(node, children=node.children[:-1]), requirement, ""))
    if isinstance(node, Fields):
        nested = [
            n for n, (_, child) in enumerate(node.children) if isinstance(child, Fields) and child.children
        ]
        for n in nested:
            name, child = node.children[n]
            assert isinstance(child, Fields)
            shorter = replace(child, children=child.children[:-1])
            found.append(
                (
                    replace(node, children=(*node.children[:n], (name, shorter), *node.children[n + 1 :])),
                    "SET-10",
                    "",
                )
            )
    if isinstance(node, Leaf):
        found.append((Fields((("a", node),)), "SET-12", ""))
    else:
        found.append((Leaf(), "SET-12", ""))
    if isinstance(node, Record):
        if node.type == "Step":
            found.append((replace(node, type="Twin"), "SET-12", ""))
        if node.type == "LongStep":
            found.append((Record("Step", node.children[:2], node.extra), "SET-12", ""))
        if node.type == "Masked":
            absent = isinstance(dict(node.children)["mask"], Absent)
            mask: Node = Leaf(torch.bool, ()) if absent else Absent()
            found.append((replace(node, children=(*node.children[:1], ("mask", mask))), "DATA-9", ""))
    return found


def _last_leaf(node: Node) -> Leaf | None:
    if isinstance(node, Leaf):
        return node
    if isinstance(node, Fields | Record | Tree):
        for _, child in reversed(node.children):
            if (leaf := _last_leaf(child)) is not None:
                return leaf
    return None


def _with_last_leaf(node: Node, leaf: Leaf) -> Node:
    if isinstance(node, Leaf):
        return leaf
    assert isinstance(node, Fields | Record | Tree)
    for n in reversed(range(len(node.children))):
        name, child = node.children[n]
        if _last_leaf(child) is not None:
            return replace(
                node,
                children=(*node.children[:n], (name, _with_last_leaf(child, leaf)), *node.children[n + 1 :]),
            )
    raise AssertionError("the node has no leaf")


def _item_dimensions(node: Node) -> int:
    """How many dimensions an item has that could be taken for trailing ones."""
    if isinstance(node, Fields | Record):
        return len(node.extra)
    return max((len(leaf.feature) for _, leaf in leaves(node) if isinstance(leaf, Leaf)), default=0)
