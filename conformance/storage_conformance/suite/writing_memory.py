"""Chapter SET: whose memory it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict, TensorDict, is_tensorclass

from storage_conformance.index import Index, Span, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree
from storage_conformance.subject import Given, Literal
from storage_conformance.suite.bench import ANY_REFUSAL, GROUNDS, NODES, PAIR, STEP, Bench, Ground, every
from storage_conformance.suite.check import Arguments, check

grounds = st.sampled_from(GROUNDS)
full_grounds = st.sampled_from([ground for ground in GROUNDS if ground.rows == ground.capacity])

ALL = Index("slice", (None, None, None))
TRANSITION = Record(
    "Transition",
    (("step", Record("Step", (("obs", Leaf(feature=(2,))), ("reward", Leaf())))), ("value", Leaf())),
)
KINDS: tuple[Node, ...] = (
    *NODES,
    STEP,
    TRANSITION,
    Fields((("step", STEP), ("n", Leaf(torch.int64)))),
    Leaf(torch.bool),
)
TREES: tuple[Node, ...] = (
    Tree("dict", (("a", Leaf()), ("b", Tree("list", (("0", Leaf(feature=(2,))), ("1", Leaf())))))),
    Tree("tuple", (("0", Leaf()), ("1", Leaf()))),
)


def kinds(features: frozenset[str]) -> Arguments:
    return {"node": st.sampled_from((*KINDS, *TREES) if "pytree" in features else KINDS)}


def whole_and_part(rows: int) -> list[Index]:
    """Indices of all rows, in every form that might be taken as it stands, and of some."""
    ordered = tuple(range(rows))
    return [
        ALL,
        Index("ellipsis"),
        Index("range", (0, rows)),
        Index("slice", (0, rows, None)),
        Index("list", ordered),
        Index("tensor", ordered),
        Index("mask", (True,) * rows),
        at(0),
        at(rows - 1),
        Index("list", (rows - 1,)),
        Index("range", (rows - 1, rows)),
        Index("grid", ((rows, 1), ordered)),
    ]


def few(rows: int) -> list[Index]:
    """The indices that every storage takes."""
    return [
        Index("range", (0, rows)),
        ALL,
        at(rows - 1),
        Index("list", tuple(range(rows))[::-1]),
        Index("tensor", (0,)),
    ]


# --- the caller's memory ------------------------------------------------------------------------------------


@check(
    "SET-3",
    examples=24,
    given=kinds,
    ground=grounds,
    verb=st.sampled_from(("first", "first", "set", "assign")),
    form=st.sampled_from(("dense", "dense", "lazy", "list")),
)
def later_changes_of_the_data_do_not_matter(
    lab: Lab, node: Node, ground: Ground, verb: str, form: str
) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node, fresh=verb == "first")
        span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
        batch = bench.batch(span, form=_possible(form, node, span, ground))
        given = Given(batch, batch.data())
        lab.program.add("data = {}", given)
        data = Literal(given.value, "data")
        written = partial(bench.assign, "SET-16") if verb == "assign" else partial(bench.set, "SET-1")
        if not bench.prepared(lambda: written(index, batch, data=data)):
            return
        _scribble(given.value)
        lab.program.add("# the caller changes its data")
        bench.rows("SET-3")
        bench.get("SET-3", Index("slice", (0, bench.model.readable, None)))

    every(lab, "SET-3", whole_and_part(ground.rows if verb == "assign" else ground.capacity), attempt)


def _possible(form: str, node: Node, span: Span, ground: Ground) -> str:
    if (
        len(span.lead) != 1 + len(ground.trailing)
        or isinstance(node, Tree)
        or (form == "lazy" and isinstance(node, Leaf))
    ):
        return "dense"
    return form


def _scribble(value: Any) -> None:
    """Changes values and structure, as a collector does that reuses its buffers."""
    held = value._tensordict if is_tensorclass(value) else value
    if isinstance(held, torch.Tensor):
        held.logical_not_() if held.dtype == torch.bool else held.add_(1)
        return
    if isinstance(held, LazyStackedTensorDict):
        parts: list[Any] = held.tensordicts
    else:
        parts = list(held.values()) if isinstance(held, TensorDict | dict) else list(held)
    for part in parts:
        _scribble(part)
    if isinstance(value, list | dict):
        value.clear()
    elif isinstance(value, TensorDict):
        value["new"] = torch.zeros(value.batch_size)
        for key in set(value.keys()) - {"new"}:
            del value[key]


# --- data that lie in the storage ---------------------------------------------------------------------------


def moves(rows: int) -> list[tuple[Index, Index]]:
    """Where rows go and where they come from; many overlap."""
    ordered, last = tuple(range(rows)), rows - 1
    down, up = Index("slice", (1, rows, None)), Index("slice", (0, last, None))
    found = [
        (ALL, ALL),
        (at(0), at(last)),
        (Index("list", ordered[::-1]), ALL),
        (Index("range", (last, -1, -1)), ALL),
    ]
    if rows > 1:
        found += [
            (down, up),
            (up, down),
            (Index("range", (1, rows)), up),
            (Index("list", ordered[1:]), up),
            (Index("tensor", ordered[1:]), up),
            (Index("tensor", ordered[1:] + ordered[:1]), ALL),
            (Index("mask", (False, *(True,) * last)), up),
            (Index("range", (last, 0, -1)), up),
            (Index("grid", ((rows, 1), ordered[::-1])), Index("grid", ((rows, 1), ordered))),
            (Index("list", (last, 0)), Index("slice", (0, 2, None))),
        ]
    return found


@check("SET-18", examples=30, given=kinds, ground=grounds, verb=st.sampled_from(("set", "assign")))
def rows_of_the_storage_are_copied_first_or_refused(lab: Lab, node: Node, ground: Ground, verb: str) -> None:
    def attempt(move: tuple[Index, Index]) -> None:
        bench = Bench(lab, ground, node)
        if verb == "set":
            bench.fill_up()
        _move(bench, verb, *move)

    every(lab, "SET-18", moves(ground.capacity if verb == "set" else ground.rows), attempt)


NODES_OF_ELEMENTS: tuple[Node, ...] = (Leaf(), PAIR, STEP)


@check("SET-18")
def elements_of_the_storage_are_copied_first_or_refused(lab: Lab) -> None:
    def attempt(case: tuple[Ground, Node, str, tuple[Index, Index]]) -> None:
        ground, node, verb, move = case
        bench = Bench(lab, ground, node)
        bench.fill_up()
        _move(bench, verb, *move)

    low, high = Index("slice", (0, -1, None)), Index("slice", (1, None, None))
    cases = [
        (Index("tuple", (first, one)), Index("tuple", (first, other)))
        for first in (at(0), ALL)
        for one, other in ((low, high), (high, low), (at(0), at(1)))
    ]
    grids = (Ground(12, (3,), 4), Ground(12, (2, 2), 3), Ground(9, (3,), 3))
    every(lab, "SET-18", product(grids, NODES_OF_ELEMENTS, ("set", "assign"), cases), attempt)


@check(
    "SET-18",
    examples=4,
    verb=st.sampled_from(("set", "assign")),
    kind=st.sampled_from(("transposed", "of the second row")),
)
def parts_of_what_was_read_are_copied_first_or_refused(lab: Lab, verb: str, kind: str) -> None:
    bench = Bench(lab, Ground(12, (2, 2), 3), Leaf())
    if kind == "transposed":
        _move(bench, verb, at(0), at(0), part=(".mT", lambda value: value.mT, [0, 2, 1, 3]))
    else:
        order = [4, 5, 6, 7, 8, 9, 10, 11]
        _move(bench, verb, Index("slice", (0, 2, None)), ALL, part=("[1:]", lambda value: value[1:], order))


Part = tuple[str, Callable[[Any], Any], list[int]]


def _move(bench: Bench, verb: str, target: Index, source: Index, part: Part | None = None) -> None:
    """Writes what was read of the storage back to it; `part` says which elements of it, in which order."""
    requirement, model = "SET-18", bench.model
    into, out_of = (
        (model.for_reading if verb == "assign" else model.for_writing)(target),
        model.for_reading(source),
    )
    with bench.lab.checking("GET-2"):
        value = bench.storage.peek(source)
    cells, text = list(out_of.cells), f"storage.get({source.code()})"
    if part:
        text, value, cells = text + part[0], part[1](value), [cells[place] for place in part[2]]
    data = Literal(value, text)
    before = bench.size()
    with bench.lab.checking(requirement):
        try:
            bench.storage.assign(target, data) if verb == "assign" else bench.storage.set(target, data)
            accepted = True
        except Raised as raised:
            if not isinstance(raised.error, ANY_REFUSAL):
                raise
            accepted = False
        if accepted:
            copied = [model.cells[cell] for cell in cells]
            model.cells.update(zip(into.cells, copied, strict=True))
    if accepted:
        bench.rows(requirement)
    else:
        bench.unchanged("ERR-2" if verb == "assign" else "ERR-1", before)
