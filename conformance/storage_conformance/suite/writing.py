"""Chapter SET: what a write changes."""

from __future__ import annotations

from functools import partial

import torch
from hypothesis import strategies as st

from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Cell
from storage_conformance.recorder import Raised, Violation
from storage_conformance.strategies.structures import structures
from storage_conformance.structure import Fields, Leaf, Node
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import Arguments, check
from storage_conformance.suite.grounds import GROUNDS, NODES, PAIR, STEP, Ground
from storage_conformance.suite.indices_odd import empty_indices
from storage_conformance.suite.turns import SPOILED, every, in_turn

grounds = st.sampled_from(GROUNDS)
nodes = st.sampled_from((*NODES, STEP))

ALL = Index("slice", (None, None, None))


def any_structure(_: frozenset[str]) -> Arguments:
    """Every kind of data but the optional ones, which have requirements of their own."""
    return {"node": structures(frozenset(), one_dimension=False)}


def row_indices(rows: int, *, negative: bool) -> list[Index]:
    """An index of each kind for `rows` rows, no row named twice."""
    last, ordered = rows - 1, tuple(range(rows))
    found = [
        at(0),
        at(last),
        Index("numpy", (last,)),
        Index("scalar", (0,)),
        Index("slice", (last, None, None)),
        Index("slice", (0, 1, None)),
        Index("slice", (None, None, 2)),
        Index("range", (0, rows)),
        Index("range", (last, -1, -1)),
        Index("range", (last, rows)),
        Index("list", (last,)),
        Index("list", ordered[::-1]),
        Index("tensor", ordered[1:] + ordered[:1]),
        Index("tensor", (0,)),
        Index("int32", (last,)),
        Index("grid", ((rows, 1), ordered)),
        Index("mask", (False,) * last + (True,)),
        Index("mask", (True,) * rows),
        Index("ellipsis"),
        ALL,
    ]
    if negative:
        found += [
            at(-1),
            at(-rows),
            Index("scalar", (-1,)),
            Index("numpy", (-rows,)),
            Index("list", (-1,)),
            Index("tensor", (-rows,)),
            Index("int32", (-1,)),
        ]
    return found


def element_indices(rows: int, trailing: tuple[int, ...]) -> list[Index]:
    """Tuples of every kind, where `ndim > 1`."""
    if not trailing:
        return []
    last = tuple(at(size - 1) for size in trailing)
    return [
        Index("tuple", (at(rows - 1), *last)),
        Index("tuple", (ALL, *last)),
        Index("tuple", (at(0), ALL)),
        Index("tuple", (at(rows - 1),)),
        Index("tuple", (Index("slice", (rows - 1, None, None)), Index("slice", (0, 1, None)))),
        Index("tuple", tuple(Index("tensor", (size - 1,)) for size in (rows, *trailing))),
        Index("tuple", (Index("tensor", tuple(range(rows))[::-1]), *last)),
    ]


@check("SET-1", "SET-2", examples=24, given=any_structure, ground=grounds, seed=st.integers(0, 5))
def what_was_written_reads_back(lab: Lab, node: Node, ground: Ground, seed: int) -> None:
    bench, rows = Bench(lab, ground, node, fresh=True), ground.capacity
    program = [
        Index("range", (0, 1)),
        at(min(1, rows - 1)),
        Index("list", tuple(range(min(2, rows - 1), rows))),
        at(0),
        ALL,
        at(rows - 1),
        Index("list", tuple(range(rows))[::-1]),
        Index("tensor", (0,)),
        Index("range", (rows - 1, -1, -1)),
        Index("slice", (rows - 1, None, None)),
    ]
    for number, index in enumerate(program):
        bench.set(
            "SET-1",
            index,
            bench.batch(bench.model.for_writing(index), seed + 3 * number),
            addressed_only=True,
        )
        bench.rows("SET-2")


@check("SET-1", examples=8, node=nodes)
def many_rows_read_back(lab: Lab, node: Node) -> None:
    bench = Bench(lab, Ground(70, (), 60), node)
    bench.set("SET-1", Index("list", (*range(65, 70), *range(5))))
    bench.set("SET-1", Index("range", (60, 65)))
    bench.set("SET-1", ALL)


@check("SET-2", examples=12, ground=grounds, node=nodes)
def other_rows_stay_as_they_are(lab: Lab, ground: Ground, node: Node) -> None:
    def assign(bench: Bench, index: Index) -> object:
        if not bench.prepared(lambda: bench.assign("SET-16", index, addressed_only=True)):
            return SPOILED
        bench.rows("SET-2")
        return None

    def write(bench: Bench, index: Index) -> object:
        bench.fill_up()
        if not bench.prepared(lambda: bench.set("SET-1", index, addressed_only=True)):
            return SPOILED
        bench.rows("SET-2")
        return None

    reading = [*row_indices(ground.rows, negative=True), *element_indices(ground.rows, ground.trailing)]
    writing = [
        *row_indices(ground.capacity, negative=False),
        *element_indices(ground.capacity, ground.trailing),
    ]
    for act, indices in ((assign, reading), (write, writing)):
        lab.start()
        in_turn(lambda: Bench(lab, ground, node), [partial(act, index=index) for index in indices])


@check("SET-7", examples=30, given=any_structure, ground=grounds)
def set_gives_nothing(lab: Lab, node: Node, ground: Ground) -> None:
    bench = Bench(lab, ground, node, fresh=True)
    indices = [
        ALL,
        *row_indices(ground.capacity, negative=False),
        *element_indices(ground.capacity, ground.trailing),
        Index("list"),
    ]
    for index in indices:
        try:
            returned = bench.storage.set(index, bench.batch(bench.model.for_writing(index)))
        except Raised:  # whether this index is taken has requirements of its own
            continue
        with lab.checking("SET-7"):
            if returned is not None:
                lab.program.precede("returned = ")
                raise Violation(f"set returned {type(returned).__name__}", claim="returned is None")


@check("SET-15", examples=10, given=any_structure, ground=grounds)
def a_write_of_no_rows_changes_nothing(lab: Lab, node: Node, ground: Ground) -> None:
    for verb in ("set", "assign"):
        lab.start()
        _of_no_rows(lab, node, ground, verb)


def _of_no_rows(lab: Lab, node: Node, ground: Ground, verb: str) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node)
        before = bench.size()
        span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
        with lab.checking("SET-15"):
            bench.storage.set(index, bench.batch(span)) if verb == "set" else bench.storage.assign(
                index, bench.batch(span)
            )
        bench.unchanged("SET-15", before)

    every(
        lab,
        "SET-15",
        empty_indices(ground.rows if verb == "assign" else ground.capacity, ground.trailing),
        attempt,
    )


# --- rows named several times -------------------------------------------------------------------------------

REPEATED = (
    (0, 0),
    (1, 0, 1),
    (2, 2, 2, 0),
    (0, 1, 2, 0, 1, 2),
    (2, 1, 0, 0, 1, 2),
    (1, 1, 1, 1, 1, 1, 1, 1),
    (0, 2, 0, 2, 1, 2, 0),
)
DEEP: tuple[Node, ...] = (
    PAIR,
    STEP,
    NODES[3],
    Leaf(torch.int64, (3,)),
    Fields((("n", Leaf()), ("done", Leaf(torch.bool)))),
)


@check(
    "SET-13",
    "SET-14",
    examples=4,
    ground=st.sampled_from((Ground(5, (), 3), Ground(3, (), 3), Ground(10, (3,), 3), Ground(12, (2, 2), 3))),
    order=st.one_of(
        st.sampled_from(REPEATED), st.lists(st.integers(0, 2), min_size=3, max_size=9).map(tuple)
    ),
)
def a_row_named_several_times_holds_one_item(lab: Lab, ground: Ground, order: tuple[int, ...]) -> None:
    for node in DEEP:
        for verb in ("set", "assign", "first"):
            for form in ("list", "tensor", "int32"):
                _named_several_times(lab, ground, node, verb, order, Index(form, order))
        for verb in ("set", "assign"):
            _named_several_times(lab, ground, node, verb, order, Index("grid", ((1, len(order)), order)))
        if ground.rows == ground.capacity:  # -1 and 2 are one row
            mixed = tuple(row - 3 if place % 2 else row for place, row in enumerate(order))
            _named_several_times(lab, ground, node, "assign", order, Index("list", mixed))


def _named_several_times(
    lab: Lab, ground: Ground, node: Node, verb: str, order: tuple[int, ...], index: Index
) -> None:
    def begin() -> Bench:
        lab.start()
        return Bench(lab, ground, node, fresh=verb == "first")

    rows = tuple(dict.fromkeys(order))
    bench, once = (
        begin(),
        Index("grid", ((1, len(rows)), rows)) if index.form == "grid" else Index(index.form, rows),
    )
    if not bench.prepared(
        lambda: bench.assign("SET-16", once) if verb == "assign" else bench.set("SET-1", once)
    ):
        return  # this kind of index is not taken, or taken wrong, anyway
    bench = begin()
    span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
    batch, width = bench.batch(span), bench.model.width
    items = bench.model.split(batch.contents, len(span.cells))
    with lab.checking("SET-13"):
        bench.storage.assign(index, batch) if verb == "assign" else bench.storage.set(index, batch)
        for row, given in _candidates(order, items, width).items():
            if bench.contents(row) not in given:
                raise Violation(
                    f"row {row} holds none of the {len(given)} items given for it, or parts of several"
                )
    with lab.checking("SET-14"):
        for row, given in _candidates(order, items, width).items():
            if bench.contents(row) != given[-1]:
                raise Violation(f"row {row} does not hold the last of the {len(given)} items given for it")
    if verb != "first":
        bench.rows("SET-2", except_for=order)


def _candidates(order: tuple[int, ...], items: list[Cell], width: int) -> dict[int, list[list[Cell]]]:
    """The items given for each row, element by element."""
    found: dict[int, list[list[Cell]]] = {}
    for place, row in enumerate(order):
        found.setdefault(row, []).append(items[place * width : (place + 1) * width])
    return found
