"""Chapter ERR: writes and assignments that raise leave everything as it was.

Whether something has to be refused is the matter of other requirements. Here a call that raises must leave no trace;
one that does not raise is passed over, and the program begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import error_of
from storage_conformance.strategies.faults import spoiled
from storage_conformance.structure import Leaf, Node, Record, Text
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    CAPTIONED,
    COUPLE,
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
    label,
    row,
    rows,
    setup_in,
)
from storage_conformance.trial import Setup, Trial, law

Call = tuple[Any, Any]
"""The arguments of a write: an index and data."""

SUPPRESSED = "with contextlib.suppress(Exception): "
STATES = ("fresh", "partial", "full")


def setups(features: frozenset[str]) -> st.SearchStrategy[Setup]:
    """Structures with a second leaf for the fault to be in, and a shape for each."""
    nodes: list[Node] = [PAIR, STEP, NESTED, TRANSITION, TENSOR]
    nodes += [MAPPING, COUPLE] if "pytree" in features else []
    found = [setup_in(SHAPES[0], node) for node in nodes]
    found += [
        setup_in(SHAPES[n], node) for n, node in ((1, PAIR), (2, PAIR), (3, PAIR), (2, TRANSITION), (3, STEP))
    ]
    found += [setup_in(SHAPES[0], node) for node in ((TEXTS, CAPTIONED) if "non_tensor" in features else ())]
    found.append(replace(setup_in(SHAPES[0]), device="auto"))
    return st.sampled_from(found)


def misplaced(setup: Setup, count: int, *, fresh: bool) -> Iterator[Call]:
    """Good data for an index that goes beyond `count` rows, late, or is none."""
    node, lead = setup.node, setup.trailing

    def data(*shape: int) -> Batch:
        return Batch(node, (*shape, *lead), seed=40)

    late = tuple(range(min(2, count)))
    for form in ("list", "tensor", "int32"):
        yield Index(form, (*late, count)), data(len(late) + 1)
    yield Index("list", (*late, count, *late)), data(2 * len(late) + 1)
    yield Index("range", (0, count + 1)), data(count + 1)
    yield Index("range", (count, -1, -1)), data(count + 1)
    yield Index("grid", ((len(late) + 1, 1), (*late, count))), data(len(late) + 1, 1)
    for form in ("int", "numpy", "scalar"):
        yield Index(form, (count,)), data()
        yield Index(form, (-count - 1,)), data()
    yield Index("tensor", (*late, -count - 1)), data(len(late) + 1)
    yield Index("mask", (True,) * (count + 1)), data(count + 1)
    if count > 1:
        yield Index("mask", (True,) * (count - 1)), data(count - 1)
    yield Index("tuple", (at(0),) * (setup.ndim + 1)), data()
    for value, text in ((True, "True"), (None, "None"), ("a", "'a'"), (0.0, "0.0"), (object(), "object()")):
        yield Literal(value, text), data()
    if setup.ndim > 1 and not fresh:
        several, zeros = Index("tensor", (*late, count)), Index("tensor", (0,) * (len(late) + 1))
        yield Index("tuple", (several, *(zeros,) * len(lead))), Batch(node, (len(late) + 1,), seed=40)
        wide = Index("tensor", (*(0,) * len(late), lead[-1]))
        yield Index("tuple", (*(zeros,) * len(lead), wide)), Batch(node, (len(late) + 1,), seed=40)


def misfits(setup: Setup, count: int, *, fresh: bool) -> Iterator[Call]:
    """A good index, with data whose fault sits in the last leaf, or in the last item of a list."""
    node, lead = setup.node, setup.trailing
    for batch, _ in spoiled(Batch(node, lead, seed=40), lead, fresh=fresh, rows_named=False):
        if not _takes_text(batch):
            yield at(count - 1), batch
            yield at(0), batch
    wide = min(3, count)
    for batch, _ in spoiled(Batch(node, (wide, *lead), seed=40), lead, fresh=fresh, rows_named=True):
        if not _takes_text(batch):
            for form in ("tensor", "range"):
                yield Index(form, (0, wide) if form == "range" else tuple(range(wide))), batch
    if (count > 1 and isinstance(node, Leaf | Record)) or hasattr(node, "extra"):
        good, bad = Batch(node, lead, seed=40), Batch(Leaf(), (7, *lead), seed=40)
        items = Literal([good.data(), bad.data()], f"[{good.code()}, {bad.code()}]")
        yield Index("range", (0, min(2, count))), items
        yield Index("list", tuple(range(min(2, count)))), items
    for value, text in ((None, "None"), (3, "3"), ("x", "'x'"), (object(), "object()")):
        yield at(0), Literal(value, text)


def _takes_text(batch: Batch) -> bool:
    """Text beside a fault that only tensors can have; nothing is drawn of that."""
    return batch.layout == "meta" and any(
        isinstance(child, Text) for _, child in getattr(batch.node, "children", ())
    )


def leave_no_trace(
    lab: Lab, setup: Setup, state: str, verb: str, faults: Callable[..., Iterator[Call]], requirement: str
) -> None:
    """Makes every faulty call; each that raises must have changed nothing, and writing goes on as ever."""
    fresh = state == "fresh"

    def begin() -> Trial:
        return play(lab, setup, *filled(setup, state, 3))

    trial = begin()
    count = trial.model.readable if verb == "assign" and not fresh else capacity(setup)
    for index, data in faults(setup, count, fresh=fresh):
        if error_of(partial(getattr(trial.storage, verb), index, data)) is None:
            trial = begin()
            continue
        lab.program.precede(SUPPRESSED)
        trial.verify(law(requirement))
        trial.storage.program.lines.pop()  # it left no trace: the next one may be shown without it
    trial.write(*rows(setup, 0, capacity(setup), 50).arguments)
    trial.assign(*row(setup, 0, 60).arguments)


@check(
    "ERR-1",
    examples=120,
    given=lambda features: {"setup": setups(features), "state": st.sampled_from(STATES)},
)
def a_set_with_an_index_out_of_place_leaves_no_trace(lab: Lab, setup: Setup, state: str) -> None:
    leave_no_trace(lab, setup, state, "set", misplaced, "ERR-1")


@check(
    "ERR-1",
    examples=120,
    given=lambda features: {"setup": setups(features), "state": st.sampled_from(STATES)},
)
def a_set_of_data_that_do_not_fit_leaves_no_trace(lab: Lab, setup: Setup, state: str) -> None:
    leave_no_trace(lab, setup, state, "set", misfits, "ERR-1")


@check(
    "ERR-2",
    examples=120,
    given=lambda features: {"setup": setups(features), "state": st.sampled_from(STATES)},
)
def an_assignment_with_an_index_out_of_place_leaves_no_trace(lab: Lab, setup: Setup, state: str) -> None:
    leave_no_trace(lab, setup, state, "assign", misplaced, "ERR-2")


@check(
    "ERR-2",
    examples=120,
    given=lambda features: {"setup": setups(features), "state": st.sampled_from(STATES)},
)
def an_assignment_of_data_that_do_not_fit_leaves_no_trace(lab: Lab, setup: Setup, state: str) -> None:
    leave_no_trace(lab, setup, state, "assign", misfits, "ERR-2")


def raises_a_known_error(lab: Lab, act: Callable[[], Any]) -> None:
    """If a call raises, then an exception that callers can expect."""
    error = error_of(act)
    if error is not None:
        lab.program.precede("with refused(): ")
        lab.allowed(error)


@check(
    "ERR-5",
    examples=120,
    given=lambda features: {"setup": setups(features), "state": st.sampled_from(("fresh", "full"))},
)
def refused_calls_raise_what_callers_expect(lab: Lab, setup: Setup, state: str) -> None:
    for verb in ("set", "assign", "get"):
        trial = play(lab, setup, *filled(setup, state, 3))
        count = capacity(setup) if verb == "set" else trial.model.readable or capacity(setup)
        faults = (
            *misplaced(setup, count, fresh=state == "fresh"),
            *misfits(setup, count, fresh=state == "fresh"),
        )
        for index, data in faults if verb != "get" else faults[:20]:
            call = partial(getattr(trial.storage, verb), index, *(() if verb == "get" else (data,)))
            known = lab.program.lines[:]
            raises_a_known_error(lab, call)
            lab.program.lines[:] = known


@check("ERR-5")
def refused_constructions_raise_what_callers_expect(lab: Lab) -> None:
    for size, options in (
        (0, {}),
        (-1, {}),
        (2.5, {}),
        (None, {}),
        ("3", {}),
        (True, {}),
        (3, {"ndim": 0}),
        (3, {"ndim": "2"}),
        (3, {"ndim": None}),
        (3, {"device": "no device"}),
        (3, {"device": 3.5}),
        (3, {"device": object}),
    ):
        lab.start()
        raises_a_known_error(lab, lambda size=size, options=options: lab.make(size, **options))  # type: ignore[misc]


@check(
    "ERR-5", examples=10, trailing=st.sampled_from(((0,), (2, 0), (0, 3))), node=st.sampled_from((PAIR, STEP))
)
def refused_first_writes_of_no_elements_raise_what_callers_expect(
    lab: Lab, trailing: tuple[int, ...], node: Node
) -> None:
    """No capacity follows from `P == 0`: the division that would give it must not show."""
    for index, rows_ in ((at(0), ()), (Index("range", (0, 2)), (2,)), (Index("list", (0, 1)), (2,))):
        trial = play(lab, Setup(6, 1 + len(trailing), (1,) * len(trailing), node))
        batch = Batch(node, (*rows_, *trailing))
        raises_a_known_error(lab, lambda: trial.storage.set(index, batch))  # noqa: B023  called at once


@check("ERR-5", examples=10, state=st.sampled_from(STATES), shape=st.sampled_from(SHAPES))
def refused_paths_raise_what_callers_expect(lab: Lab, state: str, shape: Any) -> None:
    trial = play(lab, setup_in(shape), *filled(setup_in(shape), state, 3))
    occupied = lab.path()
    occupied.write_text("no dump")
    for path, text in (
        (lab.path(), "missing"),
        (lab.path() / "in" / "none", "in/none"),
        (occupied, "file"),
        (occupied / "a", "file/a"),
    ):
        for verb in ("loads", "load", *(("dumps",) if text == "file/a" or state == "fresh" else ())):
            raises_a_known_error(lab, lambda: trial.storage.call(verb, Literal(path, label(text))))  # noqa: B023  called at once
