"""What the storages of a bench hold at the beginning, and of which structure."""

from __future__ import annotations

from dataclasses import dataclass

from storage_conformance.model import Model
from storage_conformance.structure import Fields, Leaf, Node, Record
from storage_conformance.trial import Setup

__all__ = ["GRIDS", "GROUNDS", "NODES", "PAIR", "PARTLY", "STEP", "Ground"]


@dataclass(frozen=True)
class Ground:
    """A storage of `size` elements with trailing shape `trailing`, of which `rows` rows are written."""

    size: int
    trailing: tuple[int, ...]
    rows: int

    def setup(self, node: Node) -> Setup:
        return Setup(self.size, 1 + len(self.trailing), self.trailing, node)

    @property
    def capacity(self) -> int:
        return Model(self.size, 1 + len(self.trailing), self.trailing, Leaf()).capacity


GROUNDS = (
    Ground(5, (), 3),
    Ground(5, (), 5),
    Ground(1, (), 1),
    Ground(12, (3,), 4),
    Ground(10, (3,), 3),
    Ground(2, (3,), 1),
    Ground(12, (2, 2), 3),
    Ground(7, (2, 1), 2),
)
"""Full, not full and of one row, in one, two and three dimensions, also where P does not divide the size."""
PARTLY = tuple(ground for ground in GROUNDS if ground.rows < ground.capacity)
"""One of each number of dimensions, for checks that try them all each time."""
GRIDS = tuple(ground for ground in GROUNDS if ground.trailing)

PAIR = Fields((("a", Leaf(feature=(2,))), ("next", Fields((("b", Leaf()),)))))
STEP = Record("Step", (("obs", Leaf(feature=(3,))), ("reward", Leaf())))
NODES: tuple[Node, ...] = (
    Leaf(),
    PAIR,
    Leaf(feature=(2, 1)),
    Fields((("a", Leaf()), ("b", Leaf(feature=(0,))), ("c", Leaf()))),
)
"""Plain structures: the others have chapters of their own."""
