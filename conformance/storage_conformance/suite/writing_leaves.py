"""Chapter SET: data with other leaves or containers than the first write."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree, leaves
from storage_conformance.suite.bench import ANY_REFUSAL, Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import PARTLY, STEP, Ground
from storage_conformance.suite.turns import every
from storage_conformance.suite.writing_structure import grounds, places, refuse, verbs

# --- leaves -------------------------------------------------------------------------------------------------

FULL = Fields(
    (("a", Leaf(feature=(2,))), ("b", Leaf()), ("next", Fields((("c", Leaf()), ("d", Leaf(feature=(3,)))))))
)


def _next(*names: str) -> Fields:
    inner = dict(FULL.children)["next"]
    assert isinstance(inner, Fields)
    return Fields(tuple((name, child) for name, child in inner.children if name in names))


def _with(*names: str, inner: Fields | None = None) -> Fields:
    children = dict(FULL.children)
    if inner is not None:
        children["next"] = inner
    return Fields(tuple((name, children[name]) for name in names))


SHORTER: tuple[Node, ...] = (
    _with("a", "next"),
    _with("b", "next"),
    _with("a", "b"),
    _with("a", "b", "next", inner=_next("c")),
    _with("a", "b", "next", inner=_next("d")),
    _with("a", "b", "next", inner=_next()),
    Fields(()),
    _with("a"),
)


@check("SET-10", examples=3, turn=st.integers(0, 3))
def data_without_a_leaf_are_refused(lab: Lab, turn: int) -> None:
    def attempt(case: tuple[int, Node, Ground, str, Index]) -> None:
        number, node, ground, verb, index = case
        form = ("dense", "list", "lazy")[(number + turn) % 3]
        refuse("SET-10", Bench(lab, ground, FULL), verb, index, node, form=form)

    cases = [
        (n, node, ground, verb, index)
        for n, node in enumerate(SHORTER)
        for ground in PARTLY
        for verb in ("set", "assign")
        for index in (at(0), *places(verb, ground)[1 + (n + turn) % 4 :: 4])
    ]
    every(lab, "SET-10", cases, attempt)


@check("SET-10", examples=8, ground=grounds, verb=verbs)
def data_without_a_nested_leaf_of_a_field_are_refused(lab: Lab, ground: Ground, verb: str) -> None:
    stored, given = (
        Fields((("step", STEP), ("more", Fields(children))))
        for children in ((("x", Leaf()), ("y", Leaf())), (("x", Leaf()),))
    )
    every(
        lab,
        "SET-10",
        places(verb, ground),
        lambda index: refuse("SET-10", Bench(lab, ground, stored), verb, index, given),
    )


SMALL = _with("a", "next", inner=_next("c"))
LONGER: tuple[Fields, ...] = (
    Fields((*SMALL.children, ("z", Leaf(torch.int64)))),
    Fields((*SMALL.children, ("z", Leaf(feature=(2,))), ("flag", Leaf(torch.bool)))),
    Fields((SMALL.children[0], ("next", Fields((("c", Leaf()), ("z", Leaf())))))),
    Fields((*SMALL.children, ("more", Fields((("z", Leaf()),))))),
)


@check("SET-11", examples=5, ground=grounds)
def a_new_leaf_is_refused_or_added(lab: Lab, ground: Ground) -> None:
    for node in LONGER:
        _new_leaf(lab, ground, node)


def _new_leaf(lab: Lab, ground: Ground, node: Fields) -> None:
    def attempt(case: tuple[str, str, str, Index]) -> None:
        verb, layout, form, index = case
        bench = Bench(lab, ground, SMALL)
        if verb == "set":
            bench.fill_up()
        span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
        several = len(span.lead) > len(ground.trailing) and layout == "plain"
        data = Batch(node, span.lead, seed=20, layout=layout, form=form if several else "dense")
        before = bench.size()
        accepted = True
        with lab.checking("SET-11"):
            try:
                bench.storage.assign(index, data) if verb == "assign" else bench.storage.set(index, data)
            except Raised as raised:
                if not isinstance(raised.error, ANY_REFUSAL):
                    raise
                accepted = False
        if not accepted:
            bench.unchanged("ERR-2" if verb == "assign" else "ERR-1", before)
            return
        _widen(bench, node)
        bench.model.assign(span, data)
        bench.rows("SET-11")
        readable = bench.model.readable
        for reading in (
            Index("slice", (None, None, None)),
            Index("list", tuple(range(readable))[::-1]),
            at(-1),
        ):
            bench.get("SET-11", reading)

    kinds = (("plain", "dense"), ("locked", "dense"), ("plain", "list"), ("plain", "lazy"))
    every(
        lab,
        "SET-11",
        [
            (verb, *kind, index)
            for verb in ("set", "assign")
            for kind in kinds
            for index in places(verb, ground)[0:7:2]
        ],
        attempt,
    )


def _widen(bench: Bench, node: Node) -> None:
    """The storage holds `node`s from now on: what is new is zero in all rows."""
    known = [path for path, _ in leaves(bench.node)]
    zero = replace(bench.model, node=node).zero()
    bench.model.cells = {
        number: tuple(
            cell[known.index(path)] if path in known else zero[place]
            for place, (path, _) in enumerate(leaves(node))
        )
        for number, cell in bench.model.cells.items()
    }
    bench.node = bench.model.node = node


# --- containers ---------------------------------------------------------------------------------------------

X, Y = Leaf(feature=(3,)), Leaf()
TWIN, LONG = Record("Twin", STEP.children), Record("LongStep", (*STEP.children, ("done", Y)))
TRANSITION = Record("Transition", (("step", STEP), ("value", Y)))
CONTAINERS: tuple[tuple[Node, Node], ...] = (
    (Fields((("a", X),)), X),
    (Fields((("a", Y), ("b", Y))), Y),
    (X, Fields((("a", X),))),
    (X, STEP),
    (STEP, X),
    (STEP, Y),
    (STEP, TWIN),
    (STEP, LONG),
    (LONG, STEP),
    (Fields(STEP.children), STEP),
    (TRANSITION, replace(TRANSITION, children=(("step", TWIN), ("value", Y)))),
    (Fields((("a", X), ("next", Y))), Fields((("a", X), ("next", Fields((("b", Y),)))))),
    (Fields((("a", X), ("next", Fields((("b", Y),))))), Fields((("a", X), ("next", Y)))),
    (Fields((("s", STEP),)), Fields((("s", TWIN),))),
    (Fields((("s", STEP),)), Fields((("s", Y),))),
    (Fields((("s", Fields(STEP.children)),)), Fields((("s", STEP),))),
    (Fields((("a", X),)), Tree("dict", (("a", X),))),
    (X, Tree("tuple", (("0", X),))),
    (X, Fields(())),
    (Fields(()), X),
)


@check("SET-12", examples=2, turn=st.integers(0, 1))
def another_container_is_refused(lab: Lab, turn: int) -> None:
    def attempt(case: tuple[tuple[Node, Node], Ground, str, Index]) -> None:
        (stored, given), ground, verb, index = case
        refuse("SET-12", Bench(lab, ground, stored), verb, index, given)

    cases = [
        (pair, ground, verb, index)
        for pair in CONTAINERS
        for ground in PARTLY
        for verb in ("set", "assign")
        for index in [at(0), *places(verb, ground)[2 + turn :: 4]]
    ]
    every(lab, "SET-12", cases, attempt)
