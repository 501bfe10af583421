"""Chapter COPY: state dicts."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.structure import Leaf, Node
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    MAPPING,
    NESTED,
    PAIR,
    SHAPES,
    STEP,
    TENSOR,
    TEXTS,
    TRANSITION,
    capacity,
    filled,
    loaded,
    row,
    rows,
    setup_in,
    setups_of,
    swap,
)
from storage_conformance.trial import Setup, Step, Trial, law


def state_of(trial: Trial) -> Literal:
    """The state dict of the storage of a program."""
    with trial.lab.checking("COPY-5"):
        return Literal(trial.storage.call("state_dict"), f"{trial.storage.name}.state_dict()")


def beside(trial: Trial, setup: Setup, *steps: Step) -> Trial:
    """Another storage under the name "other", with a program of its own that is shown after that of `trial`."""
    lab, lines = trial.lab, list(trial.storage.program.lines)
    other = play(lab, setup, *steps)
    other.storage.name = "other"
    shown = [
        (template.replace("storage", "other", 1) if template.startswith("storage") else template, arguments)
        for template, arguments in lab.program.lines
    ]
    trial.storage.program = lab.program
    lab.program.lines[:] = [*lines, *shown]
    return other


def restored(other: Trial, state: Literal, taken: Model, requirement: str) -> None:
    """Loads a state into `other`; one requirement answers for what is there then."""
    with other.lab.checking(requirement):
        other.storage.call("load_state_dict", state)
    other.model.take(taken)
    other.verify(replace(loaded(requirement, last_row="COPY-10"), text=requirement, max_size="COPY-8"))


@check("COPY-5", examples=100, given=setups_of())
def a_fresh_storage_gets_the_rows_of_a_state(lab: Lab, setup: Setup) -> None:
    for state in ("partial", "gap", "full"):
        play(
            lab,
            setup,
            *filled(setup, state, 3, bits=True),
            Step("transfer", (setup.size,)),
            row(setup, capacity(setup) - 1, 9),
        )


@check("COPY-6", examples=100, given=setups_of())
def a_state_replaces_the_rows_of_a_used_storage(lab: Lab, setup: Setup) -> None:
    for state, before in (("partial", "full"), ("full", "partial"), ("full", "full")):
        source = play(lab, setup, *filled(setup, state, 3))
        other = beside(source, setup, *filled(setup, before, 9))
        restored(other, state_of(source), source.model, "COPY-6")
        other.write(*row(setup, 0, 20).arguments)


@check(
    "COPY-6",
    examples=15,
    setup=st.sampled_from([setup_in(shape, node) for shape in SHAPES for node in (PAIR, STEP)]),
)
def a_storage_goes_back_to_its_own_state(lab: Lab, setup: Setup) -> None:
    one = Batch(setup.node, setup.trailing, seed=9)
    play(
        lab,
        setup,
        *filled(setup, "full", 3),
        Step("rewind", (one,)),
        Step("transfer", (None,)),
        Step("rewind", (one,)),
    )


@check("COPY-7", examples=100, given=setups_of())
def storages_of_one_state_share_no_memory(lab: Lab, setup: Setup) -> None:
    """In both directions, for a fresh and a used destination, of the same capacity and another."""
    count, lead = capacity(setup), setup.trailing
    ways = [(0, False, False), (0, True, True)]
    if setup.node in (PAIR, STEP):
        ways += [(1, False, True), (1, True, False)]
    for size, used, swapped in ways:
        setup_of_other = replace(setup, size=setup.size + size * prod(lead))
        source = play(lab, setup, *filled(setup, "full", 3))
        other = beside(source, setup_of_other, *(filled(setup_of_other, "full", 9) if used else []))
        restored(other, state_of(source), source.model, "COPY-6" if used else "COPY-5")
        other.twin = source.storage, source.model, "COPY-7"
        if swapped:
            swap(other)
        for step in (
            row(setup, 0, 11),
            rows(setup, 0, count, 15),
            Step("assign", (Index("slice", (None, None, None)), Batch(setup.node, (count, *lead), seed=19))),
            Step("assign", (at(0), Batch(setup.node, lead, seed=23))),
        ):
            step.perform(other)
        swap(other)
        other.write(*row(setup, 0, 27).arguments)


@check(
    "COPY-8",
    examples=40,
    shape=st.sampled_from(SHAPES),
    node=st.sampled_from((PAIR, STEP)),
    state=st.sampled_from(("partial", "full")),
    used=st.booleans(),
)
def a_state_is_taken_wherever_its_rows_fit(lab: Lab, shape: Any, node: Node, state: str, used: bool) -> None:
    setup = setup_in(shape, node)
    width = prod(setup.trailing)
    elements = len(play(lab, setup, *filled(setup, state, 3)).model)
    for size in sorted({elements, elements - width + 1, setup.size, setup.size + 2 * width + 1}):
        source = play(lab, setup, *filled(setup, state, 3))
        other = beside(source, replace(setup, size=size))
        if used:
            other.write(*rows(other.setup, 0, 1, 8).arguments)
        restored(other, state_of(source), source.model, "COPY-8")
        with lab.checking("COPY-8"):
            other.storage.set(*row(other.setup, capacity(other.setup) - 1).arguments)


def _refuse_state(other: Trial, state: Literal) -> None:
    other.lab.refused("COPY-8", lambda: other.storage.call("load_state_dict", state), what="the state dict")
    other.verify(law("ERR-4"))


@check(
    "COPY-8",
    examples=40,
    shape=st.sampled_from([shape for shape in SHAPES if shape[0] > 1]),
    node=st.sampled_from((PAIR, STEP)),
    held=st.sampled_from(("fresh", "full")),
)
def a_state_of_more_rows_than_fit_is_refused(lab: Lab, shape: Any, node: Node, held: str) -> None:
    setup = setup_in(shape, node)
    for count in (capacity(setup) - 1, 1):
        source = play(lab, setup, *filled(setup, "full", 3))
        small = replace(setup, size=count * prod(setup.trailing))
        other = beside(source, small, *filled(small, held, 8))
        _refuse_state(other, state_of(source))
        other.write(*row(small, count - 1, 9).arguments)


_OTHER_T = [
    (Setup(8, 2, (2,), PAIR), Setup(12, 2, (3,), PAIR)),
    (Setup(12, 2, (3,), PAIR), Setup(8, 2, (2,), PAIR)),
    (Setup(24, 3, (2, 3), PAIR), Setup(24, 3, (3, 2), PAIR)),
    (Setup(24, 3, (2, 3), STEP), Setup(24, 3, (6, 1), STEP)),
    (Setup(8, 2, (2,), Leaf()), Setup(4, 1, (), Leaf(feature=(2,)))),
    (Setup(4, 1, (), Leaf(feature=(2,))), Setup(8, 2, (2,), Leaf())),
    (Setup(8, 2, (2,), PAIR), Setup(4, 1, (), replace(PAIR, extra=(2,)))),
    (Setup(4, 1, (), replace(PAIR, extra=(2,))), Setup(8, 2, (2,), PAIR)),
]


@check("COPY-8", examples=25, case=st.sampled_from(_OTHER_T))
def a_state_of_another_trailing_shape_is_refused(lab: Lab, case: tuple[Setup, Setup]) -> None:
    """A fresh storage knows the number of dimensions of its `T` only."""
    held, written = case
    for before in ([rows(held, 0, 2, 8)], *([[]] if held.ndim != written.ndim else [])):
        source = play(lab, written, rows(written, 0, 2, 3))
        _refuse_state(beside(source, held, *before), state_of(source))


@check(
    "COPY-9",
    examples=40,
    given=lambda features: {
        "shape": st.sampled_from(SHAPES),
        "node": st.sampled_from((PAIR, TRANSITION, TENSOR, *((MAPPING,) if "pytree" in features else ()))),
        "device": st.sampled_from(("cpu", "auto")),
    },
)
def the_state_of_a_fresh_storage_makes_fresh(lab: Lab, shape: Any, node: Node, device: str) -> None:
    """Nothing is left of the rows, the structure, the trailing shape and a device found out."""
    setup = replace(setup_in(shape, node), device="cpu" if node == MAPPING else device)
    for held in ("partial", "full", "fresh"):
        fresh = play(lab, setup)
        other = beside(fresh, setup, *filled(setup, held, 3))
        state = state_of(fresh)
        with lab.checking("COPY-9"):
            other.storage.call("load_state_dict", state)
        after = NESTED if setup.ndim == 1 else PAIR
        other.model = Model(setup.size, setup.ndim, (3,) * (setup.ndim - 1), after)
        other.verify(law("COPY-9"))
        index, batch = rows(replace(setup, node=after, trailing=other.model.trailing), 0, 1, 7).arguments
        with lab.checking("COPY-9"):
            other.storage.set(index, batch)
        other.model.set(other.model.for_writing(index), batch)
        other.verify(law("COPY-9"))


@check(
    "COPY-10",
    examples=60,
    setup=st.sampled_from([setup_in(shape, node) for shape in SHAPES for node in (PAIR, STEP)]),
    last=st.integers(0, 4),
    used=st.booleans(),
)
def the_last_written_row_is_part_of_a_state(lab: Lab, setup: Setup, last: int, used: bool) -> None:
    count = capacity(setup)
    source = play(lab, setup, rows(setup, 0, count), row(setup, last % count, 1))
    other = beside(source, setup, *([rows(setup, 0, 1, 3)] if used else []))
    restored(other, state_of(source), source.model, "COPY-6" if used else "COPY-5")


@check("COPY-5", "COPY-6", examples=3, given=lambda features: {"claims": st.just("non_tensor" in features)})
def texts_are_part_of_a_state(lab: Lab, claims: bool) -> None:
    if not claims:
        return
    setup = Setup(5, node=TEXTS)
    for used in (False, True):
        source = play(lab, setup, *filled(setup, "full", 3))
        other = beside(source, setup, *(filled(setup, "full", 9) if used else []))
        restored(other, state_of(source), source.model, "COPY-6" if used else "COPY-5")
