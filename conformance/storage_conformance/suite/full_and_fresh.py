"""Writes to storages that are fresh or full, where short cuts are most often taken."""

from __future__ import annotations

from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Leaf, Node
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup, Step

NODES: tuple[Node, ...] = (Leaf(), Fields((("a", Leaf()), ("b", Leaf(feature=(2,))))))
SIZES = st.integers(1, 4)
ALL = Index("slice", (None, None, None))


def filled(node: Node, rows: int) -> Step:
    return Step("write", (Index("range", (0, rows)), Batch(node, (rows,))))


def of_all(rows: int) -> tuple[Index, ...]:
    """Indices of all rows, one of each kind."""
    numbers = tuple(range(rows))
    return (
        ALL,
        Index("ellipsis"),
        Index("range", (0, rows)),
        Index("list", numbers),
        Index("tensor", numbers),
        Index("mask", (True,) * rows),
    )


@check("SET-16", examples=6, size=SIZES)
def rows_of_a_full_storage_can_be_assigned(lab: Lab, size: int) -> None:
    for node in NODES:
        assignments = [
            Step("assign", (index, Batch(node, (size,), 3 + n))) for n, index in enumerate(of_all(size))
        ]
        single = Step("assign", (Index("int", (size - 1,)), Batch(node, (), 20)))
        play(lab, Setup(size, node=node), filled(node, size), *assignments, single)


@check("SET-9", examples=6, size=st.integers(2, 4))
def a_first_write_of_fewer_rows_than_named_is_refused(lab: Lab, size: int) -> None:
    for node in NODES:
        for index in of_all(size):
            for rows in {1, size - 1, size + 1}:
                play(
                    lab, Setup(size, node=node), Step("refuse_write", (index, Batch(node, (rows,)), "SET-9"))
                )


@check("SET-6", examples=6, size=st.integers(2, 4))
def expanded_rows_are_assigned_one_by_one(lab: Lab, size: int) -> None:
    for node in NODES:
        for number, index in enumerate(of_all(size)):
            batch = Batch(node, (size,), 3 + number, layout="expanded")
            play(lab, Setup(size, node=node), filled(node, size), Step("assign", (index, batch)))
            play(lab, Setup(size, node=node), Step("write", (index, batch)))


@check("SET-6", examples=4, size=SIZES)
def locked_data_can_be_written_first_and_later(lab: Lab, size: int) -> None:
    node = NODES[1]
    for first, second in (("locked", "plain"), ("plain", "locked"), ("locked", "locked")):
        writes = [
            Step("write", (Index("range", (0, size)), Batch(node, (size,), n, layout=layout)))
            for n, layout in enumerate((first, second))
        ]
        item = Step("write", (Index("int", (0,)), Batch(node, (), 5, layout=second)))
        play(lab, Setup(size, node=node), *writes, item)
        play(
            lab, Setup(size, node=node), Step("write", (Index("int", (0,)), Batch(node, (), 5, layout=first)))
        )
