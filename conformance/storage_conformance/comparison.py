"""Expected against actual: the first element that differs, said so that a person can read it."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.batch import tensor_code
from storage_conformance.model import OPEN, Cell
from storage_conformance.recorder import Violation
from storage_conformance.structure import Content, Leaf, Node, Text, access, leaves

__all__ = ["Difference", "difference", "told"]


class Difference(Violation):
    """An element holds something else; `position` counts the elements compared, `number` the leaves."""

    def __init__(self, message: str, position: int, number: int, leaf: Leaf | Text) -> None:
        super().__init__(message, aspect="value", where=((), leaf))
        self.position = position
        self.number = number
        self.leaf = leaf


def told(
    found: Difference, expression: str, node: Node, expected: Content, lead: tuple[int, ...]
) -> Difference:
    """The same difference, with the claim that a leaf of `expression` holds `expected`, of leading shape `lead`."""
    path, leaf = leaves(node)[found.number]
    at = f"{expression}{access(node, path)}"
    if isinstance(leaf, Text):
        found.claim = f"{at} == {expected[0]!r}" if not lead else ""
        return found
    assert isinstance(expected, bytes)
    shape = lead + leaf.feature
    if not expected or len(expected) > 4096:
        return found
    tensor = torch.frombuffer(bytearray(expected), dtype=torch.uint8).view(leaf.dtype).reshape(shape)
    bits = (
        not torch.equal(tensor, tensor)
        or "bits" in str(found)
        or (leaf.dtype.itemsize == 1 and leaf.dtype.is_floating_point)
    )
    found.claim = f"same({at}, {tensor_code(tensor, bits=bits)})"
    return found


def difference(
    node: Node, cells: tuple[int, ...], width: int, expected: list[Cell], contents: list[Content]
) -> Difference | None:
    """The first difference between what the elements `cells` should hold and what was read of them."""
    for number, (path, leaf) in enumerate(leaves(node)):
        content = contents[number]
        wanted = [cell[number] for cell in expected]
        if isinstance(leaf, Leaf) and content == b"".join(wanted):  # type: ignore[arg-type]
            continue
        for position, want in enumerate(wanted):
            got = _element(content, position, leaf)
            if want not in (got, OPEN):
                row, inner = divmod(cells[position], width)
                element = f"row {row}" if width == 1 else f"row {row}, element {inner}"
                at = f", leaf {path!r}" if path else ""
                return Difference(
                    f"{element}{at}: expected {_shown(want, got, leaf)}, got {_shown(got, want, leaf)}",
                    position,
                    number,
                    leaf,
                )
    return None


def _element(content: Content, position: int, leaf: Leaf | Text) -> Any:
    if isinstance(leaf, Leaf):
        assert isinstance(content, bytes)
        return content[position * leaf.cell_bytes : (position + 1) * leaf.cell_bytes]
    return content[position]


def _shown(value: Any, other: Any, leaf: Leaf | Text) -> str:
    if isinstance(leaf, Text):
        return repr(value)
    text = _decoded(value, leaf)
    return f"{text} (bits {value.hex()})" if text == _decoded(other, leaf) else text


def _decoded(value: bytes, leaf: Leaf) -> str:
    if not value:
        return "[]"
    tensor = torch.frombuffer(bytearray(value), dtype=torch.uint8).view(leaf.dtype).reshape(leaf.feature)
    text = str(
        tensor.to(torch.float32).tolist()
        if leaf.dtype.itemsize == 1 and leaf.dtype.is_floating_point
        else tensor.tolist()
    )
    return text if len(text) < 120 else text[:117] + "..."
