"""Chapter COPY: deep copies and pickles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.listener import Journal, Listener
from storage_conformance.recorder import Raised, Violation
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    PAIR,
    SHAPES,
    TRANSITION,
    capacity,
    filled,
    row,
    rows,
    setup_in,
    setups_of,
    swap,
)
from storage_conformance.trial import Setup, Step, Trial, law

_ARGUMENTS = [
    replace(setup_in(shape, node), device=device)
    for shape in SHAPES
    for node in (PAIR, TRANSITION)
    for device in ("cpu", "auto")
]


def _same_ndim(lab: Lab, storage: Subject, setup: Setup, requirement: str) -> None:
    with lab.checking(requirement):
        ndim = storage.attribute("ndim")
        if ndim != setup.ndim:
            raise Violation(
                f"ndim is {ndim!r}, expected {setup.ndim}",
                claim=f"{storage.name}.ndim == {setup.ndim}",
                actual=repr(ndim),
            )


def _copied(trial: Trial) -> bool:
    """Goes on with a deep copy; False where the storage may not be copied, so that no copy has to keep a promise."""
    original = trial.storage
    trial.deepcopy()
    return trial.storage is not original


@check("COPY-1", examples=100, given=setups_of())
def a_deep_copy_holds_the_same(lab: Lab, setup: Setup) -> None:
    for state in ("gap", "full"):
        trial = play(lab, setup, *filled(setup, state, 3), Step("deepcopy", ()))
        _same_ndim(lab, trial.storage, setup, "COPY-1")


@check("COPY-1", examples=100, setup=st.sampled_from(_ARGUMENTS), state=st.sampled_from(("fresh", "partial")))
def a_deep_copy_has_the_same_arguments(lab: Lab, setup: Setup, state: str) -> None:
    """Also where nothing was written, and after the copy has been filled."""
    trial = play(lab, setup, *filled(setup, state, 3))
    trial.deepcopy()
    _same_ndim(lab, trial.storage, setup, "COPY-1")
    trial.write(*rows(setup, 0, capacity(setup), 7).arguments)


def _changes(setup: Setup) -> list[Step]:
    """Writes of every kind, which touch rows read before and rows not there before."""
    count, lead = capacity(setup), setup.trailing
    return [
        row(setup, 0, 11),
        Step("assign", (Index("slice", (0, 1, None)), Batch(setup.node, (1, *lead), seed=15))),
        rows(setup, 0, count, 19),
        Step(
            "write",
            (
                Index("list", (count - 1, 0)[: min(2, count)]),
                Batch(setup.node, (min(2, count), *lead), seed=23),
            ),
        ),
        Step("assign", (at(-1), Batch(setup.node, lead, seed=27))),
    ]


@check("COPY-2", examples=100, given=setups_of())
def a_deep_copy_and_its_original_go_their_own_ways(lab: Lab, setup: Setup) -> None:
    for state, swapped in (("partial", True), ("full", False)):
        trial = play(lab, setup, *filled(setup, state, 3))
        if not _copied(trial):
            with lab.checking("COPY-2"):
                return
        if swapped:
            swap(trial)
        for step in _changes(setup):
            step.perform(trial)
        if lab.claims("clear"):
            trial.clear()
        swap(trial)
        trial.write(*row(setup, 0, 31).arguments)


@check("COPY-2", examples=15, shape=st.sampled_from(SHAPES), swapped=st.booleans())
def copies_of_a_fresh_storage_take_different_structures(lab: Lab, shape: Any, swapped: bool) -> None:
    setup = setup_in(shape)
    trial = play(lab, setup)
    if not _copied(trial):
        with lab.checking("COPY-2"):
            return
    _same_ndim(lab, trial.storage, setup, "COPY-1")
    if swapped:
        swap(trial)
    trial.write(*rows(setup, 0, 1, 3).arguments)
    swap(trial)
    trial.model.node = TRANSITION
    trial.write(*rows(replace(setup, node=TRANSITION), 0, 1, 3).arguments)


@check("COPY-3", examples=100, given=setups_of())
def a_storage_comes_back_from_a_pickle(lab: Lab, setup: Setup) -> None:
    for state in ("gap", "full"):
        trial = play(lab, setup, *filled(setup, state, 3), Step("pickle", ()))
        _same_ndim(lab, trial.storage, setup, "COPY-3")


@check("COPY-3", examples=100, setup=st.sampled_from(_ARGUMENTS), state=st.sampled_from(("fresh", "partial")))
def an_unpickled_storage_has_the_same_arguments(lab: Lab, setup: Setup, state: str) -> None:
    trial = play(lab, setup, *filled(setup, state, 3))
    trial.pickle()
    _same_ndim(lab, trial.storage, setup, "COPY-3")
    trial.write(*rows(setup, 0, capacity(setup), 7).arguments)


@check(
    "COPY-4",
    examples=40,
    given=lambda features: {
        "shape": st.sampled_from(SHAPES),
        "state": st.sampled_from(("fresh", "full")),
        "way": st.sampled_from(("deepcopy", *(("repickled",) if "pickle" in features else ()))),
    },
)
def a_copy_does_not_tell_the_entities_of_the_original(lab: Lab, shape: Any, state: str, way: str) -> None:
    setup = setup_in(shape)
    trial = play(lab, setup, *filled(setup, state, 3), *([Step("dump", (0,))] if state != "fresh" else []))
    journal = Journal()
    for number in range(2):
        listener = Listener(f"entity{number}", journal)
        trial.storage.call("attach", Literal(listener, f"{listener.name} := Entity()"))
    promise = "COPY-1" if way == "deepcopy" else "COPY-3"
    try:
        copied: Subject = getattr(trial.storage, way)("copied")
    except Raised as raised:
        if way == "deepcopy" and isinstance(raised.error, TypeError):
            with lab.checking("COPY-4"):
                return
        with lab.checking(promise):
            raise
    trial.verify_other(copied, trial.model, law(promise))
    _same_ndim(lab, copied, setup, promise)
    with lab.checking("SET-1"):
        copied.set(*rows(setup, 0, 1, 7).arguments)
        copied.set(*row(setup, capacity(setup) - 1, 9).arguments)
    with lab.checking("SET-16"):
        copied.assign(*row(setup, 0, 11).arguments)
    if trial.dumps:
        with lab.checking("CKPT-9"):
            copied.call("loads", Literal(trial.dumps[0][0], 'folder / "0"'))
    with lab.checking("COPY-4"):
        if journal:
            raise Violation(
                f"{journal[0].name}, attached to the original, was told of a write to the copy",
                claim=f"told({journal[0].name}) == 0",
                actual=str(len(journal)),
            )
