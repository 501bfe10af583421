"""The oracle: what a storage holds, as plain rows in a dict.

The simplest thing that could be right, and never fast. It was written from SPEC.md without a look at any storage, and
shares no code with one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from storage_conformance.batch import Batch
from storage_conformance.index import Index, Span
from storage_conformance.structure import Content, Leaf, Node, leaves

__all__ = ["OPEN", "Cell", "Model"]

Cell = tuple[bytes | str, ...]
"""What one element holds, leaf by leaf: the bytes of a tensor leaf, the value of another."""


@dataclass
class Model:
    """A storage of `node`s with trailing shape `trailing`.

    Attributes:
        size: the `max_size` of the constructor.
        cells: the elements written, by number (row * P + position in the row).
        readable: `W`.
        fresh: no write has succeeded yet.
        taken: elements that a load or a `clear` took away, not written since.
    """

    size: int
    ndim: int
    trailing: tuple[int, ...]
    node: Node
    cells: dict[int, Cell] = field(default_factory=dict)
    readable: int = 0
    last_row: int | None = None
    fresh: bool = True
    taken: set[int] = field(default_factory=set)

    @property
    def width(self) -> int:
        """`P`."""
        return prod(self.trailing)

    @property
    def capacity(self) -> int:
        """`R`."""
        return -(-self.size // self.width)

    @property
    def max_size(self) -> int:
        return self.size if self.fresh else self.capacity * self.width

    @property
    def shape(self) -> tuple[int, ...] | None:
        return None if self.fresh else (self.readable, *self.trailing)

    def __len__(self) -> int:
        return self.readable * self.width

    def for_reading(self, index: Index) -> Span:
        return index.resolve(self.readable, self.trailing)

    def for_writing(self, index: Index) -> Span:
        return index.resolve(self.capacity, self.trailing)

    def set(self, span: Span, batch: Batch) -> None:
        """A successful `set`."""
        if not span.cells:
            return
        self.assign(span, batch)
        self.fresh = False
        self.readable = max(self.readable, 1 + max(span.rows))
        self.last_row = span.rows[-1]

    def assign(self, span: Span, batch: Batch) -> None:
        """A successful assignment."""
        self.taken.difference_update(span.cells)
        self.cells.update(zip(span.cells, self.split(batch.contents, len(span.cells)), strict=True))

    def take(self, other: Model) -> None:
        """A successful load of a dump of `other`."""
        self.taken = (self.taken | self.cells.keys()) - other.cells.keys()
        self.cells = dict(other.cells)
        self.readable, self.last_row, self.fresh = other.readable, other.last_row, other.fresh

    def clear(self) -> None:
        self.taken |= self.cells.keys()
        self.cells, self.readable, self.last_row = {}, 0, None

    def copy(self) -> Model:
        return replace(self, cells=dict(self.cells), taken=set(self.taken))

    def split(self, contents: list[Content], count: int) -> list[Cell]:
        """Contents of a batch, element by element."""
        columns: list[list[bytes | str]] = []
        for content in contents:
            if isinstance(content, bytes):
                size = len(content) // count if count else 0
                columns.append([content[k * size : (k + 1) * size] for k in range(count)])
            else:
                columns.append(list(content))
        return list(zip(*columns, strict=True)) if columns else [()] * count

    def zero(self) -> Cell:
        """What an element reads as that was never written; None for a leaf whose value is left open."""
        return tuple(
            bytes(leaf.cell_bytes) if isinstance(leaf, Leaf) else OPEN for _, leaf in leaves(self.node)
        )

    def expected(self, cells: tuple[int, ...]) -> list[Cell]:
        """What elements hold."""
        zero = self.zero()
        return [self.cells.get(cell, zero) for cell in cells]


OPEN = "\x00 any value"
"""Stands for the value, left open by SPEC.md, of a leaf that is not a tensor in a row never written."""
