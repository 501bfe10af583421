"""Writes of many rows, of wide rows, of many leaves, and many writes: where counters end and short cuts begin."""

from __future__ import annotations

from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Leaf, Node
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup, Step

WIDE: tuple[Node, ...] = (Leaf(feature=(1_500,)), Leaf(feature=(20_000,)))
"""Rows of more than 2**12 and of more than 2**16 bytes."""

MANY_LEAVES = Fields(tuple((f"leaf{number}", Leaf(feature=(1 + number % 2,))) for number in range(34)))
PRIMES = (7, 11, 13, 17, 23)
POWERS = (8, 16, 32)


def _write(node: Node, first: int, last: int, seed: int = 0) -> Step:
    return Step("write", (Index("range", (first, last)), Batch(node, (last - first,), seed)))


def _one(node: Node, row: int, seed: int) -> Step:
    return Step("write", (Index("int", (row,)), Batch(node, (), seed)))


@check("SET-1", examples=2, seed=st.integers(0, 5))
def hundreds_of_rows_read_back(lab: Lab, seed: int) -> None:
    node = Leaf()
    play(lab, Setup(300, node=node), _write(node, 0, 300, seed), _write(node, 20, 290, seed + 1))
    singles = [_one(node, row, seed + row) for row in (127, 128, 255, 256, 299)]
    play(lab, Setup(300, node=node), _write(node, 0, 40, seed), *singles)


@check("SET-1", examples=2, seed=st.integers(0, 5))
def wide_rows_read_back(lab: Lab, seed: int) -> None:
    for node in WIDE:
        play(
            lab,
            Setup(3, node=node),
            _write(node, 0, 2, seed),
            _one(node, 2, seed + 1),
            _write(node, 1, 3, seed + 2),
        )


@check("SET-1", "SET-2", examples=2, seed=st.integers(0, 5))
def each_of_many_leaves_reads_back(lab: Lab, seed: int) -> None:
    node = MANY_LEAVES
    play(
        lab,
        Setup(4, node=node),
        _write(node, 0, 4, seed),
        _one(node, 3, seed + 1),
        _write(node, 0, 2, seed + 2),
    )


@check("SET-1", "SET-2", examples=2, seed=st.integers(0, 5))
def the_ends_of_a_ring_read_back_in_every_capacity(lab: Lab, seed: int) -> None:
    node = Leaf()
    for size in PRIMES + POWERS:
        ring = Step("write", (Index("list", (size - 2, size - 1, 0, 1)), Batch(node, (4,), seed + 3)))
        steps = [_write(node, 0, size, seed), _one(node, size - 1, seed + 1), _one(node, 0, seed + 2), ring]
        play(lab, Setup(size, node=node), *steps)


@check("SET-1", examples=2, seed=st.integers(0, 5))
def the_fortieth_write_reads_back(lab: Lab, seed: int) -> None:
    node = Leaf()
    play(lab, Setup(4, node=node), *(_one(node, number % 4, seed + number) for number in range(40)))


@check("LEN-4", examples=2, gap=st.integers(21, 90))
def a_wide_gap_is_counted(lab: Lab, gap: int) -> None:
    node = Leaf()
    play(lab, Setup(100, node=node), _write(node, 0, 3), _one(node, 3 + gap, 1))
