"""Chapter SET: data of another shape or number than the storage or the index asks for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import Arguments, check
from storage_conformance.suite.grounds import PARTLY, Ground
from storage_conformance.suite.turns import every

GROUNDS = (Ground(5, (), 3), Ground(5, (), 5), Ground(1, (), 1), Ground(10, (3,), 3), Ground(7, (2, 1), 2))
grounds = st.sampled_from(GROUNDS)
verbs = st.sampled_from(("set", "assign"))

Make = Callable[[Leaf], Node]

LEAF_AT: dict[str, Make] = {
    "alone": lambda leaf: leaf,
    "first": lambda leaf: Fields((("a", leaf), ("b", Leaf()))),
    "last": lambda leaf: Fields((("a", Leaf()), ("b", leaf))),
    "nested": lambda leaf: Fields((("a", Leaf()), ("next", Fields((("b", Leaf()), ("c", leaf)))))),
    "field": lambda leaf: Record("Step", (("obs", Leaf()), ("reward", leaf))),
    "field of a field": lambda leaf: Record(
        "Transition", (("step", Record("Step", (("obs", Leaf()), ("reward", leaf)))), ("value", Leaf()))
    ),
    "field below": lambda leaf: Fields((("step", Record("Step", (("obs", Leaf()), ("reward", leaf)))),)),
}
TREE_AT: dict[str, Make] = {
    "in a dict": lambda leaf: Tree("dict", (("a", Leaf()), ("b", leaf))),
    "in a tuple": lambda leaf: Tree("tuple", (("0", Leaf()), ("1", Tree("list", (("0", leaf),))))),
}


def anywhere(features: frozenset[str]) -> Arguments:
    """A leaf at every place of an item."""
    places = {**LEAF_AT, **TREE_AT} if "pytree" in features else LEAF_AT
    return {"place": st.sampled_from(tuple(places))}


def node_with(place: str, leaf: Leaf) -> Node:
    return {**LEAF_AT, **TREE_AT}[place](leaf)


def places(verb: str, ground: Ground) -> list[Index]:
    """Indices of one row and of many, below the length and, in a `set`, above it."""
    rows = ground.rows if verb == "assign" else ground.capacity
    ordered = tuple(range(rows))
    return [
        at(0),
        at(rows - 1),
        Index("scalar", (rows - 1,)),
        Index("range", (0, rows)),
        Index("list", ordered[::-1]),
        Index("tensor", (rows - 1,)),
        Index("slice", (None, None, None)),
        Index("mask", (True,) * rows),
        Index("list", ordered[:2]),
    ]


def refuse(
    requirement: str,
    bench: Bench,
    verb: str,
    index: Index,
    node: Node,
    *,
    form: str = "dense",
    lead: tuple[int, ...] | None = None,
) -> None:
    """A write of items of another structure, or with another leading shape than the index asks for."""
    span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
    lead = span.lead if lead is None else lead
    several = len(lead) > len(bench.setup.trailing)
    stackable = (
        several
        and not (form == "lazy" and not isinstance(node, Fields | Record))
        and not isinstance(node, Tree)
    )
    data = Batch(node, lead, seed=20, form=form if stackable else "dense")
    bench.refuse_assign(requirement, index, data) if verb == "assign" else bench.refuse_set(
        requirement, index, data
    )


forms = st.sampled_from(("dense", "dense", "list", "lazy"))


# --- shapes -------------------------------------------------------------------------------------------------

SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (3,)),
    ((2, 3), (1, 3)),
    ((2, 3), (2, 1)),
    ((2, 3), ()),
    ((2, 3), (6,)),
    ((2, 3), (3, 2)),
    ((2, 3), (1, 2, 3)),
    ((2, 3), (2, 3, 1)),
    ((2, 3), (2, 4)),
    ((2, 3), (1, 1)),
    ((), (1,)),
    ((), (2,)),
    ((1,), ()),
    ((1,), (2,)),
    ((3,), (1,)),
    ((3,), (2,)),
    ((3,), (4,)),
    ((0,), (1,)),
    ((0,), (2,)),
    ((0,), ()),
    ((2,), (0,)),
    ((1,), (1, 1)),
)


@check("SET-8", examples=3, given=anywhere, turn=st.integers(0, 8), form=forms)
def another_feature_shape_is_refused(lab: Lab, place: str, turn: int, form: str) -> None:
    def attempt(case: tuple[Ground, str, str, tuple[tuple[int, ...], tuple[int, ...]], int]) -> None:
        ground, verb, where, shapes, number = case
        stored, given = (node_with(where, Leaf(feature=shape)) for shape in shapes)
        for index in places(verb, ground)[number % 6 :: 6]:
            lab.start()
            refuse("SET-8", Bench(lab, ground, stored), verb, index, given, form=form)

    names = list(LEAF_AT)
    cases = [
        (ground, verb, place if (n + m) % 9 == 8 else names[(n + m + turn) % len(names)], shapes, n + turn)
        for n, shapes in enumerate(SHAPES)
        for m, (ground, verb) in enumerate(product(PARTLY, ("set", "assign")))
    ]
    every(lab, "SET-8", cases, attempt)


@check("SET-8", examples=20, ground=grounds, verb=verbs, place=st.sampled_from(tuple(LEAF_AT)))
def a_batch_of_one_is_no_item(lab: Lab, ground: Ground, verb: str, place: str) -> None:
    stored, given = (node_with(place, Leaf(feature=shape)) for shape in ((2,), (1, 2)))
    refuse("SET-8", Bench(lab, ground, stored), verb, at(0), given)
    if not ground.trailing:
        lab.start()
        bench = Bench(lab, ground, stored)
        refuse("SET-8", bench, verb, at(0), stored, lead=(1,))


# --- numbers of rows ----------------------------------------------------------------------------------------


@check(
    "SET-9",
    examples=4,
    given=anywhere,
    turn=st.integers(0, 8),
    form=forms,
    feature=st.sampled_from(((), (2,))),
)
def another_number_of_rows_is_refused(
    lab: Lab, place: str, turn: int, form: str, feature: tuple[int, ...]
) -> None:
    def attempt(case: tuple[Ground, str, str, Index, int]) -> None:
        ground, verb, where, index, count = case
        node, lead = node_with(where, Leaf(feature=feature)), (count, *ground.trailing)
        bench = Bench(lab, ground, node, fresh=verb == "first")
        refuse("SET-9", bench, verb, index, node, form=form if count else "dense", lead=lead)

    names = [*LEAF_AT, place]
    cases: list[tuple[Ground, str, str, Index, int]] = []
    for ground, verb in product(PARTLY, ("set", "first", "assign")):
        rows = ground.rows if verb == "assign" else ground.capacity
        for index in sequences(rows):
            named = index.resolve(rows, ()).lead[0]
            for count in sorted({1, named - 1, named + 1, 2 * named, ground.rows} - {named}):
                where = "alone" if len(cases) % 2 else names[(len(cases) // 2 + turn) % len(names)]
                cases.append((ground, verb, where, index, count))
    every(lab, "SET-9", cases[turn % 2 :: 2], attempt)


def sequences(rows: int) -> list[Index]:
    """Indices of several rows, or of one that could be several."""
    ordered = tuple(range(rows))
    return [
        Index("range", (0, rows)),
        Index("list", ordered[::-1]),
        Index("tensor", ordered),
        Index("slice", (None, None, None)),
        Index("mask", (True,) * rows),
        Index("range", (rows - 1, -1, -1)),
        Index("list", (rows - 1,)),
        Index("int32", (0,)),
        Index("slice", (0, 2, None)),
        Index("slice", (None, None, 2)),
    ]


@check(
    "SET-9",
    examples=12,
    ground=st.sampled_from((Ground(12, (3,), 4), Ground(10, (3,), 3), Ground(12, (2, 2), 3))),
    place=st.sampled_from(tuple(LEAF_AT)),
    verb=verbs,
)
def another_number_of_elements_is_refused(lab: Lab, ground: Ground, place: str, verb: str) -> None:
    node = node_with(place, Leaf())
    zeros = tuple(at(0) for _ in ground.trailing)
    column = Index("tuple", (Index("slice", (None, None, None)), *zeros))
    points = Index("tuple", tuple(Index("tensor", (0, 1)) for _ in (0, *ground.trailing)))

    def attempt(case: tuple[Index, int]) -> None:
        index, count = case
        bench = Bench(lab, ground, node)
        bench.fill_up()
        data = Batch(node, (count,), seed=20)
        bench.refuse_assign("SET-9", index, data) if verb == "assign" else bench.refuse_set(
            "SET-9", index, data
        )

    every(
        lab,
        "SET-9",
        [(column, 1), (column, ground.capacity + 1), (column, 2), (points, 1), (points, 3)],
        attempt,
    )
