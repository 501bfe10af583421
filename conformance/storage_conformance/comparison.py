"""Expected against actual: the first element that differs, said so that a person can read it."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from storage_conformance.batch import tensor_code
from storage_conformance.model import OPEN, Cell
from storage_conformance.recorder import Violation
from storage_conformance.structure import Content, Leaf, Node, Text, access, leaves, tensor_bytes

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
    bits = leaf.dtype != torch.bool and not _spelled_exactly(tensor)
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
                at = f"row {row}" if width == 1 else f"row {row}, element {inner}"
                told_of = f"leaf {path!r} {at}" if path else at
                return Difference(f"{told_of}{_shown(got, want, leaf)}", position, number, leaf)
    return None


def _element(content: Content, position: int, leaf: Leaf | Text) -> Any:
    if isinstance(leaf, Leaf):
        assert isinstance(content, bytes)
        return content[position * leaf.cell_bytes : (position + 1) * leaf.cell_bytes]
    return content[position]


def _spelled_exactly(tensor: torch.Tensor) -> bool:
    """Whether the numbers of a tensor, written in Python, give the same bits."""
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1:
        return False
    finite = tensor.numel() == 0 or bool(torch.isfinite(tensor).all())
    return finite and tensor_bytes(torch.tensor(tensor.tolist(), dtype=tensor.dtype)) == tensor_bytes(tensor)


def _shown(got: Any, want: Any, leaf: Leaf | Text) -> str:
    """Actual and expected, of a tensor leaf the first value in it that differs, with its bits."""
    if isinstance(leaf, Text):
        return f": {got!r}, expected {want!r}"
    size = leaf.dtype.itemsize
    first = next((k for k in range(0, len(want), size) if want[k : k + size] != got[k : k + size]), 0)
    place = [int(n) for n in numpy.unravel_index(first // size, leaf.feature)] if leaf.feature else []
    actual, expected = (_valued(value[first : first + size], leaf) for value in (got, want))
    return f"{f', value {place}' if place else ''}: {actual}, expected {expected}"


def _valued(value: bytes, leaf: Leaf) -> str:
    """The bits of one value, and what they mean: `0x7fc00000 (nan)`."""
    if not value:
        return "nothing"
    number = torch.frombuffer(bytearray(value), dtype=torch.uint8).view(leaf.dtype)
    if leaf.dtype.itemsize == 1 and leaf.dtype.is_floating_point:
        number = number.to(torch.float32)
    return f"0x{value[::-1].hex()} ({number.tolist()[0]})"
