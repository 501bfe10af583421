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
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree, observe
from storage_conformance.subject import Given, Literal
from storage_conformance.suite.bench import ANY_REFUSAL, Bench
from storage_conformance.suite.check import Arguments, check
from storage_conformance.suite.grounds import GROUNDS, NODES, PAIR, PARTLY, STEP, Ground
from storage_conformance.suite.turns import every

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


FULL = (Ground(4, (), 4), Ground(12, (3,), 4), Ground(12, (2, 2), 3))
WAYS = (("first", "dense"), ("first", "lazy"), ("first", "list"), ("set", "dense"), ("assign", "dense"))


@check(
    "SET-3",
    examples=2,
    half=st.booleans(),
    given=lambda features: {"tree": st.sampled_from(TREES if "pytree" in features else KINDS)},
)
def later_changes_of_the_data_do_not_matter(lab: Lab, half: bool, tree: Node) -> None:
    nodes: list[Node] = [
        Leaf(),
        PAIR,
        STEP,
        TRANSITION,
        Fields((("step", STEP), ("n", Leaf(torch.int64)))),
        Leaf(torch.bool),
        tree,
    ]

    def attempt(case: tuple[Node, Ground, str, str, Index]) -> None:
        node, ground, verb, form, index = case
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
        lab.program.add("change(data)")
        lab.program.add("remove_fields(data)")
        bench.rows("SET-3")
        with lab.checking("SET-3"):
            observe(
                bench.storage.get(Index("slice", (0, bench.model.readable, None))),
                node,
                (bench.model.readable, *ground.trailing),
            )

    cases = []
    for n, node in enumerate(nodes):
        for m, (verb, form) in enumerate(WAYS):
            ground = PARTLY[(n + m) % 3] if verb == "assign" else FULL[(n + m + half) % 3]
            indices = whole_and_part(ground.rows if verb == "assign" else ground.capacity)[half::2]
            cases += [(node, ground, verb, form, index) for index in indices]
    every(lab, "SET-3", cases, attempt)


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


@check(
    "SET-18",
    examples=2,
    swapped=st.booleans(),
    given=lambda features: {"tree": st.sampled_from(TREES if "pytree" in features else (PAIR,))},
)
def rows_of_the_storage_are_copied_first_or_refused(lab: Lab, swapped: bool, tree: Node) -> None:
    nodes: list[Node] = [Leaf(), PAIR, STEP, tree]
    cases = [
        (ground, node, verb, move)
        for n, ground in enumerate(FULL)
        for node in nodes
        for verb in ("set", "assign")
        for move in moves(ground.capacity)[(n + swapped) % 2 if n else 0 :: 3 if n else 1]
    ]
    every(lab, "SET-18", cases, lambda case: _move(lab, *case))


@check("SET-18")
def elements_of_the_storage_are_copied_first_or_refused(lab: Lab) -> None:
    low, high = Index("slice", (0, -1, None)), Index("slice", (1, None, None))
    pairs = ((low, high), (high, low), (at(0), at(1)))
    cases = [
        (Index("tuple", (first, one)), Index("tuple", (first, other)))
        for first in (at(0), ALL)
        for one, other in pairs
    ]
    nodes: tuple[Node, ...] = (Leaf(), PAIR, STEP)
    every(
        lab,
        "SET-18",
        product((*FULL[1:], Ground(9, (3,), 3)), nodes, ("set", "assign"), cases),
        lambda case: _move(lab, *case),
    )


@check("SET-18")
def parts_of_what_was_read_are_copied_first_or_refused(lab: Lab) -> None:
    transposed: Part = (".mT", lambda value: value.mT, [0, 2, 1, 3])
    later: Part = ("[1:]", lambda value: value[1:], [4, 5, 6, 7, 8, 9, 10, 11])
    for verb in ("set", "assign"):
        _move(lab, FULL[2], Leaf(), verb, (at(0), at(0)), transposed)
        _move(lab, FULL[2], Leaf(), verb, (Index("slice", (0, 2, None)), ALL), later)


Part = tuple[str, Callable[[Any], Any], list[int]]


def _move(
    lab: Lab, ground: Ground, node: Node, verb: str, move: tuple[Index, Index], part: Part | None = None
) -> None:
    """Writes what was read of a storage back to it; `part` says which elements of it, in which order."""
    target, source = move
    lab.start()
    control = Bench(lab, ground, node)
    if not control.prepared(
        lambda: control.assign("SET-16", target) if verb == "assign" else control.set("SET-1", target)
    ):
        return  # data of its own are no matter of whose memory it is
    lab.start()
    bench = Bench(lab, ground, node)
    model, into, out_of = bench.model, bench.model.for_writing(target), bench.model.for_writing(source)
    with lab.checking("GET-2"):
        value = bench.storage.peek(source)
    cells, text = list(out_of.cells), f"storage.get({source.code()})"
    if part:
        text, value, cells = text + part[0], part[1](value), [cells[place] for place in part[2]]
    data = Literal(value, text)
    before = bench.size()
    with lab.checking("SET-18"):
        try:
            bench.storage.assign(target, data) if verb == "assign" else bench.storage.set(target, data)
        except Raised as raised:
            if not isinstance(raised.error, ANY_REFUSAL):
                raise
            refused = True
        else:
            refused = False
            copied = [model.cells[cell] for cell in cells]
            model.cells.update(zip(into.cells, copied, strict=True))
    if refused:
        bench.unchanged("ERR-2" if verb == "assign" else "ERR-1", before)
    else:
        bench.rows("SET-18")
