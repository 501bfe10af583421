"""Which requirement speaks about an index, a layout, a dtype or a container."""

from __future__ import annotations

import torch

from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.structure import Absent, Fields, Leaf, Node, Record, Text, Tree, leaves

__all__ = [
    "FORM_REQUIREMENTS", "INDEX_REQUIREMENTS", "LAYOUT_REQUIREMENTS", "axis_requirements", "container_requirement",
    "dtype_requirement", "index_requirement", "structure_requirements",
]  # fmt: skip

INDEX_REQUIREMENTS = {
    "int": "IDX-1", "negative": "IDX-2", "numpy": "IDX-4", "scalar": "IDX-4", "slice": "IDX-5", "range": "IDX-6",
    "list": "IDX-7", "tensor": "IDX-8", "int32": "IDX-8", "grid": "IDX-9", "mask": "IDX-10", "ellipsis": "IDX-11",
    "tuple": "IDX-12", "cells": "IDX-13",
}  # fmt: skip
LAYOUT_REQUIREMENTS = {"requires_grad": "SET-4", "inference": "SET-5"}
FORM_REQUIREMENTS = {"lazy": "DATA-10", "list": "DATA-12"}


def index_requirement(index: Index) -> str:
    """The requirement that speaks about this kind of index."""
    if index.form == "int" and index.args[0] < 0:
        return INDEX_REQUIREMENTS["negative"]
    return INDEX_REQUIREMENTS[index.form]


def axis_requirements(index: Index, batch: Batch, mode: str) -> list[str]:
    """The requirements that a write speaks to by its index, layout, form, values and mode."""
    found = [index_requirement(index)]
    if batch.layout != "plain":
        found.append(LAYOUT_REQUIREMENTS.get(batch.layout, "SET-6"))
    if batch.form != "dense":
        found.append(FORM_REQUIREMENTS[batch.form])
    if batch.bits:
        found.append("DTYPE-4")
    if mode != "grad":
        found.append("SET-5")
    return found


def structure_requirements(node: Node) -> tuple[str, ...]:
    """The requirements that a structure speaks to when it is written and read back."""
    found: set[str] = (
        {"DTYPE-5"} if any(0 in leaf.feature for _, leaf in leaves(node) if isinstance(leaf, Leaf)) else set()
    )
    found.update(dtype_requirement(leaf.dtype) for _, leaf in leaves(node) if isinstance(leaf, Leaf))

    def visit(part: Node, nested: bool) -> None:
        if isinstance(part, Text):
            found.add("DATA-17" if isinstance(node, Record) else "DATA-16")
        elif not (isinstance(part, Leaf) and nested):
            found.add(container_requirement(part, nested=nested))
        if isinstance(part, Fields | Record) and part.extra:
            found.add("DATA-3" if nested else "DATA-4")
        for _, child in getattr(part, "children", ()):
            visit(child, True)

    visit(node, False)
    return tuple(sorted(found))


def container_requirement(node: Node, *, nested: bool) -> str:
    if isinstance(node, Record):
        return "DATA-7" if nested else "DATA-6"
    if isinstance(node, Tree):
        return "DATA-14"
    if isinstance(node, Absent):
        return "DATA-8"
    return "DATA-2" if isinstance(node, Fields) else "DATA-1"


def dtype_requirement(dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return "DTYPE-2"
    if dtype.is_floating_point:
        return "DTYPE-9" if dtype.itemsize == 1 else "DTYPE-1"
    return "DTYPE-3"
