"""Chapter ERR: loads that raise leave everything as it was.

As in `failures`, whether a load has to be refused is not asked here.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.damage import altered, copied, cut, missing, removed
from storage_conformance.index import at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, error_of
from storage_conformance.strategies.faults import spoiled
from storage_conformance.structure import Fields, Node, Record
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.checkpoints_damage import damages
from storage_conformance.suite.failures import STATES, SUPPRESSED, raises_a_known_error
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
    label,
    row,
    rows,
    sequel,
    setup_in,
    shelved,
)
from storage_conformance.trial import Setup, law


def setups(features: frozenset[str]) -> st.SearchStrategy[Setup]:
    nodes: list[Node] = [
        PAIR,
        STEP,
        NESTED,
        TENSOR,
        *([MAPPING] if "pytree" in features else []),
        *([TEXTS] if "non_tensor" in features else []),
    ]
    return st.sampled_from(
        [*(setup_in(SHAPES[0], node) for node in nodes), setup_in(SHAPES[2], TRANSITION), setup_in(SHAPES[3])]
    )


def unlike(setup: Setup) -> Iterator[Setup]:
    """Storages whose rows do not fit one of `setup`: too many, of another shape, with a last leaf of another kind."""
    yield replace(setup, size=setup.size + prod(setup.trailing))
    if setup.trailing:
        yield replace(setup, trailing=(*setup.trailing[:-1], setup.trailing[-1] + 1))
        assert isinstance(setup.node, Fields | Record)
        flat = replace(setup.node, extra=setup.trailing[-1:])
        yield replace(setup, ndim=setup.ndim - 1, trailing=setup.trailing[:-1], node=flat)
    elif setup.node != TEXTS:
        yield replace(setup, ndim=2, trailing=(2,))
    for batch, rule in spoiled(Batch(setup.node, ()), (), fresh=False, rows_named=False):
        if rule not in ("DEV-9", "SET-9", "CAP-5"):
            yield replace(setup, node=batch.node)


@dataclass(frozen=True)
class Attempt:
    """A path that a load may raise for, and the program that put there what is there."""

    path: Path
    lines: tuple[Any, ...] = ()


def _placed(lab: Lab, statement: str, act: Callable[[Path], object]) -> Attempt:
    path = lab.path()
    act(path)
    return Attempt(path, ((statement.replace("{}", label(0)), ()),))


def _attempts(lab: Lab, setup: Setup) -> list[Attempt]:
    """Everything that a load may raise for."""
    found = [Attempt(lab.path()), Attempt(lab.path() / "in" / "none")]
    for other in unlike(setup):
        dump = shelved(lab, other, *filled(other, "full", 30)).dumps[0][0]
        found.append(Attempt(dump, tuple(lab.program.lines)))
    good = shelved(lab, setup, *filled(setup, "full", 30))
    for kinds, step in ((missing, 1), (cut, 2), (altered, 9)):
        for number, spoilt in enumerate(damages(lab, good, kinds)):
            if number % step == 0:
                found.append(Attempt(copied(lab, spoilt), tuple(lab.program.lines)))
    return [
        *found,
        _placed(lab, "({}).write_bytes(b'no dump')", lambda path: path.write_bytes(b"no dump")),
        _placed(lab, "os.mkdir({})", os.mkdir),
    ]


@check("ERR-3", examples=25, given=lambda features: {"setup": setups(features)})
def a_load_that_raises_leaves_no_trace(lab: Lab, setup: Setup) -> None:
    attempts = _attempts(lab, setup)
    good = shelved(lab, setup, *filled(setup, "partial", 20))
    for state in STATES:
        trial = play(lab, setup, *filled(setup, state, 3))
        program = list(lab.program.lines)
        for attempt in attempts:
            lab.program.lines[:] = [*attempt.lines, *program]
            if error_of(lambda: trial.storage.call("loads", Literal(attempt.path, label(0)))) is None:  # noqa: B023
                trial = play(lab, setup, *filled(setup, state, 3))
                continue
            lab.program.precede(SUPPRESSED)
            trial.verify(law("ERR-3"))
        lab.program.lines[:] = [*good.storage.program.lines, *program]
        trial.dumps.update(good.dumps)
        trial.load(0)
        trial.write(*row(setup, capacity(setup) - 1, 9).arguments)
    for attempt in attempts:
        removed(attempt.path)


@check("ERR-3", examples=12, shape=st.sampled_from(SHAPES), other=st.sampled_from((PAIR, STEP, TENSOR)))
def a_fresh_storage_takes_any_structure_after_a_load_that_raised(lab: Lab, shape: Any, other: Node) -> None:
    dumped = replace(setup_in(shape, NESTED), size=40)
    source = shelved(lab, dumped, rows(dumped, 0, capacity(dumped), 3))
    trial = sequel(lab, source, setup_in(shape, other))
    if error_of(lambda: trial.storage.call("loads", Literal(source.dumps[0][0], label(0)))) is None:
        return
    lab.program.precede(SUPPRESSED)
    trial.verify(law("ERR-3"))
    step = row(trial.setup, 0, 7)
    with lab.checking("ERR-3"):
        trial.storage.set(*step.arguments)
    trial.model.set(trial.model.for_writing(at(0)), step.arguments[1])
    trial.verify(law("ERR-3"))


@check("ERR-5", examples=25, given=lambda features: {"setup": setups(features)})
def refused_loads_raise_what_callers_expect(lab: Lab, setup: Setup) -> None:
    attempts = _attempts(lab, setup)
    for state in ("fresh", "full"):
        trial = play(lab, setup, *filled(setup, state, 3))
        program = list(lab.program.lines)
        for attempt in attempts:
            lab.program.lines[:] = [*attempt.lines, *program]
            raises_a_known_error(lab, lambda: trial.storage.call("loads", Literal(attempt.path, label(0))))  # noqa: B023
    for attempt in attempts:
        removed(attempt.path)


def corruptions(state: Any, place: str = "state") -> Iterator[str]:
    """Statements that remove an entry of a state, at any depth, or put something else in its place."""
    if isinstance(state, dict):
        entries = [(f"{place}[{key!r}]", entry) for key, entry in state.items()]
    elif isinstance(state, list):
        entries = [(f"{place}[{number}]", entry) for number, entry in list(enumerate(state))[-2:]]
    else:
        entries = []
    for where, entry in entries:
        yield f"del {where}"
        yield from corruptions(entry, where)
        if isinstance(entry, torch.Tensor):
            yield from (
                f"{where} = {where}.reshape(-1)[:-1]",
                f"{where} = {where}.unsqueeze(-1)",
                f"{where} = 'no tensor'",
            )
        elif not isinstance(entry, dict | list):
            yield from (f"{where} = None", f"{where} = -1", f"{where} = '?'")


def _states(lab: Lab, setup: Setup) -> list[tuple[Any, tuple[Any, ...]]]:
    """States that may be refused, each with the program that makes one and calls it `state`."""
    with lab.checking("COPY-5"):
        try:
            return _spoilt_states(lab, setup)
        except (TypeError, ValueError, LookupError, RuntimeError, OSError) as error:
            raise Raised(error, "state_dict") from error


def _spoilt_states(lab: Lab, setup: Setup) -> list[tuple[Any, tuple[Any, ...]]]:
    found: list[tuple[Any, tuple[Any, ...]]] = []
    strangers: tuple[Any, ...] = (None, 3, {}, [], "state")
    for value in strangers:
        found.append((value, (("state = {}", (value,)),)))
    for other in unlike(setup):
        trial = play(lab, other, *filled(other, "full", 30))
        state = trial.storage.raw.state_dict()
        found.append((state, (*lab.program.lines, ("state = storage.state_dict()", ()))))
    trial = play(lab, setup, *filled(setup, "full", 30))
    lines = (*lab.program.lines, ("state = copy.deepcopy(storage.state_dict())", ()))
    for statement in corruptions(trial.storage.raw.state_dict()):
        names = {"state": copy.deepcopy(trial.storage.raw.state_dict())}
        exec(statement, names)  # our own statement, the one that the program shows
        found.append((names["state"], (*lines, ("{}", (Literal(None, statement),)))))
    return found


@check("ERR-4", examples=25, given=lambda features: {"setup": setups(features)})
def a_load_of_a_state_that_raises_leaves_no_trace(lab: Lab, setup: Setup) -> None:
    states = _states(lab, setup)
    for held in ("fresh", "full"):
        trial = play(lab, setup, *filled(setup, held, 3))
        program = list(lab.program.lines)
        for state, lines in states:
            lab.program.lines[:] = [*lines, *program]
            if error_of(lambda: trial.storage.call("load_state_dict", Literal(state, "state"))) is None:  # noqa: B023
                trial = play(lab, setup, *filled(setup, held, 3))
                continue
            lab.program.precede(SUPPRESSED)
            trial.verify(law("ERR-4"))
        lab.program.lines[:] = program
        trial.write(*rows(setup, 0, capacity(setup), 50).arguments)


@check("ERR-5", examples=12, given=lambda features: {"setup": setups(features)})
def refused_states_raise_what_callers_expect(lab: Lab, setup: Setup) -> None:
    if not lab.claims("state_dict"):
        return  # ERR-5 is about every storage
    states = _states(lab, setup)
    for held in ("fresh", "full"):
        trial = play(lab, setup, *filled(setup, held, 3))
        program = list(lab.program.lines)
        for state, lines in states:
            lab.program.lines[:] = [*lines, *program]
            given = Literal(copy.deepcopy(state), "state")
            raises_a_known_error(lab, lambda: trial.storage.call("load_state_dict", given))  # noqa: B023
