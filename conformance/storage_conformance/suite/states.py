"""Storages in every state, made the same way each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Node
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.data import SCALAR, VECTOR

__all__ = ["FLAT", "Shape", "capacity_of", "holds", "make", "states", "written"]

Shape = tuple[int, tuple[int, ...]]

FLAT = Fields((("a", SCALAR), ("b", VECTOR)))


def capacity_of(shape: Shape) -> int:
    return -(-shape[0] // prod(shape[1]))


def make(lab: Lab, shape: Shape, name: str = "storage") -> Subject:
    with lab.checking("NEW-1"):
        return lab.make(shape[0], name=name, **({"ndim": 1 + len(shape[1])} if shape[1] else {}))


def written(lab: Lab, shape: Shape, rows: int, node: Node, *, gap: bool = False) -> Subject:
    storage = make(lab, shape)
    with lab.checking("SET-1"):
        if rows and gap:
            storage.set(at(rows - 1), Batch(node, shape[1], seed=4))
        elif rows:
            storage.set(Index("range", (0, rows)), Batch(node, (rows, *shape[1]), seed=2))
    return storage


def _cleared(lab: Lab, shape: Shape) -> Subject:
    storage = written(lab, shape, capacity_of(shape), FLAT)
    with lab.checking("QRY-9"):
        storage.call("clear")
    return storage


def states(lab: Lab, shape: Shape) -> Iterator[Callable[[], Subject]]:
    """Storages in every state: fresh, with one row, not quite full, full, with a gap, cleared."""
    rows = capacity_of(shape)
    for count in sorted({0, 1, max(1, rows - 1), rows}):
        yield partial(written, lab, shape, count, VECTOR)
    yield partial(written, lab, shape, rows, FLAT)
    yield partial(written, lab, shape, max(1, rows - 1), FLAT, gap=True)
    if lab.claims("clear"):
        yield partial(_cleared, lab, shape)


def holds(storage: Subject, row: Literal) -> bool:
    return storage.evaluate(f"{row.text} in {{}}", lambda raw: row.value in raw)
