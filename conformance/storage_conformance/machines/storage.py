"""The storage machine: programs of writes, reads, refusals, dumps, loads and copies, step by step beside the model.

Each rule draws the arguments of one step, given what the model says about the state, and hands them to the trial.
Arguments are small facts, so that a program can be replayed, simplified and written down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from storage_conformance.batch import Batch
from storage_conformance.index import Index, Span
from storage_conformance.interruption import Moment, can_kill, can_limit
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Found
from storage_conformance.strategies.faults import bad_indices, spoiled
from storage_conformance.strategies.indices import appends, overwrites, read_indices, set_indices
from storage_conformance.strategies.structures import structures
from storage_conformance.structure import Fields, Leaf, Node, Record, Text, leaves
from storage_conformance.trial import Setup, Step, Trial

__all__ = ["StorageMachine", "setups"]

Draw = Callable[[st.SearchStrategy[Any]], Any]
RUNNER = st.runner()
SEEDS = st.integers(0, 3)
BITS = st.sampled_from((False, False, False, True))
ONE_IN_FOUR = st.sampled_from((False, False, False, True))
STACKED, LISTED = st.sampled_from(("list", "lazy")), st.just("list")
LAYOUTS = st.sampled_from(
    (
        "plain",
        "plain",
        "plain",
        "plain",
        "transposed",
        "strided",
        "expanded",
        "requires_grad",
        "inference",
        "locked",
    )
)
SEVERAL = st.sampled_from(("range", "list", "tensor", "slice"))
UNSTACKABLE = ("int", "numpy", "scalar", "tuple", "cells", "grid")
MODES = st.sampled_from(("grad", "grad", "grad", "no_grad", "inference"))
MOMENTS = st.sampled_from(
    [
        *(Moment(call=call) for call in range(1, 25)),
        *(Moment(size=size) for size in (0, 1, 30, 100, 300, 700, 1500)),
    ]
)
EMPTY_INDICES = (Index("list"), Index("range", (0, 0)), Index("slice", (0, 0, None)), Index("tensor"))


@cache
def setups(features: frozenset[str]) -> st.SearchStrategy[Setup]:
    """Storages of small capacity, so that full, wrapped and overwritten states are common."""
    return st.sampled_from(((), (), (), (2,), (3,), (1,), (2, 2), (3, 1))).flatmap(
        lambda t: _setups(features, t)
    )


@cache
def _setups(features: frozenset[str], trailing: tuple[int, ...]) -> st.SearchStrategy[Setup]:
    most = 8 * (prod(trailing) if len(trailing) < 2 else 2)
    return st.builds(
        Setup,
        size=st.integers(1, most),
        ndim=st.just(1 + len(trailing)),
        trailing=st.just(trailing),
        node=structures(features, one_dimension=not trailing),
        device=st.sampled_from(("cpu", "cpu", "auto")),
        listeners=st.sampled_from((0, 0, 1, 2)),
    )


def draw_batch(draw: Draw, node: Node, lead: tuple[int, ...], *, stackable: bool) -> Batch:
    """Valid data of a leading shape, in every layout and form."""
    found = leaves(node)
    seed, bits, named = draw(SEEDS), draw(BITS), draw(st.booleans())
    if stackable and lead and lead[0] and draw(ONE_IN_FOUR):
        forms = STACKED if isinstance(node, Fields | Record) else LISTED
        return Batch(node, lead, seed, bits, form=draw(forms), device_named=named)
    plain = all(isinstance(leaf, Leaf) for _, leaf in found)
    return Batch(node, lead, seed, bits, layout=draw(LAYOUTS) if plain else "plain", device_named=named)


@cache
def below(stop: int) -> st.SearchStrategy[int]:
    """Integers from 0 to `stop - 1`. Cached, as all strategies here: building one costs more than drawing from it."""
    return st.integers(0, stop - 1)


@st.composite
def writes(draw: Draw, kind: Callable[..., st.SearchStrategy[Index]]) -> tuple[Index, Batch]:
    """An index for a `set` and data for it."""
    machine: StorageMachine = draw(RUNNER)
    model = machine.model
    index = draw(kind(model.capacity, model.readable, model.trailing, fresh=model.fresh))
    return index, machine.batch_for(draw, index, model.for_writing(index))


@st.composite
def assignments(draw: Draw) -> tuple[Index, Batch]:
    """An index for an assignment and data for it."""
    machine: StorageMachine = draw(RUNNER)
    index = draw(read_indices(machine.model.readable, machine.model.trailing))
    return index, machine.batch_for(draw, index, machine.model.for_reading(index))


@st.composite
def reads(draw: Draw) -> Index:
    """An index for a read, sometimes of no rows."""
    model = draw(RUNNER).model
    index: Index = draw(read_indices(model.readable, model.trailing, empty=True))
    return index


@st.composite
def refusals(draw: Draw, verb: str) -> tuple[Index, Batch, str]:
    """A write that has to be refused: for its index, or for its data."""
    machine: StorageMachine = draw(RUNNER)
    model = machine.model
    rows, beyond = (model.capacity, "CAP-4") if verb == "set" else (model.readable, "SET-17")
    if draw(ONE_IN_FOUR):
        index, requirement = draw(bad_indices(rows, model.ndim, beyond=beyond))
        return index, _data_beside(index, model), requirement
    fresh = model.fresh
    if draw(st.booleans()):
        index, lead = Index("int", (draw(below(rows)),)), model.trailing
    else:
        count, form = min(2, rows), draw(SEVERAL)
        index, lead = (
            Index(form, (0, count, 1) if form in ("range", "slice") else tuple(range(count))),
            (count, *model.trailing),
        )
    batch = Batch(model.node, lead, draw(SEEDS))
    variants = [
        (bad, requirement)
        for bad, requirement in spoiled(
            batch, model.trailing, fresh=fresh, rows_named=index.form != "int", auto=machine.auto()
        )
        if requirement != "DATA-15" or machine.lab.claims("pytree")
    ]
    if not variants:
        return Index("raw", (True, "True")), batch, "IDX-15"
    return index, *variants[draw(below(len(variants)))]


@st.composite
def bad_reads(draw: Draw) -> tuple[Index, str]:
    """An index that cannot be read, and the requirement that says so."""
    model = draw(RUNNER).model
    found: tuple[Index, str] = draw(bad_indices(model.readable, model.ndim, beyond="GET-1"))
    return found


@st.composite
def slots(draw: Draw) -> int:
    """The number of a dump."""
    known = sorted(draw(RUNNER).trial.dumps)
    return int(known[draw(below(len(known)))])


@st.composite
def copies(draw: Draw) -> str:
    """A way to get another storage from this one, among those that the backend claims."""
    known = draw(RUNNER).kinds_of_copies()
    return str(known[draw(below(len(known)))])


class StorageMachine(RuleBasedStateMachine):
    """Runs programs on one backend; `lab` and `on_found` are set by the class that a campaign makes of it."""

    lab: Lab
    on_found: Callable[[Found], None]

    def __init__(self) -> None:
        super().__init__()
        self.trial: Trial | None = None
        self.setup: Setup | None = None
        self.steps: list[Step] = []
        self.lab.noted = self._noted

    def _noted(self, found: Found) -> bool:
        self.on_found(found)
        return True

    # --- running ---------------------------------------------------------------------------------------------------

    @initialize(setup=RUNNER.flatmap(lambda machine: setups(machine.lab.backend.features)))
    def make(self, setup: Setup) -> None:
        self.setup = setup
        self.restart()

    def restart(self) -> None:
        """A fresh storage; after a violation the old one and its model have parted."""
        assert self.setup is not None
        self.steps, self.trial = [], None
        try:
            self.trial = Trial(self.lab, self.setup)
        except Found as found:
            self.on_found(found)

    def perform(self, verb: str, *arguments: Any) -> None:
        if self.trial is None:
            return
        step = Step(verb, arguments)
        self.steps.append(step)
        try:
            step.perform(self.trial)
        except Found as found:
            self.on_found(found)
            self.restart()

    @property
    def model(self) -> Model:
        if self.trial is None:
            assert self.setup is not None
            return Model(self.setup.size, self.setup.ndim, self.setup.trailing, self.setup.node)
        return self.trial.model

    def readable(self) -> bool:
        return self.trial is not None and self.model.readable > 0

    def written(self) -> bool:
        return self.trial is not None and not self.model.fresh

    def auto(self) -> bool:
        return self.setup is not None and self.setup.device == "auto"

    def dumped(self) -> bool:
        return self.trial is not None and bool(self.trial.dumps)

    def rarely(self) -> bool:
        """Where what takes long has its turn."""
        return len(self.steps) % 4 == 3

    def forks(self) -> bool:
        return self.lab.claims("fork") and self.lab.device == "cpu" and can_kill()

    def batch_for(self, draw: Draw, index: Index, span: Span) -> Batch:
        """Data of the leading shape of `span`, with values that no earlier step wrote."""
        node = self.model.node
        stackable = index.form not in UNSTACKABLE and not any(
            isinstance(leaf, Text) for _, leaf in leaves(node)
        )
        batch = draw_batch(draw, node, span.lead, stackable=stackable)
        batch = replace(batch, seed=batch.seed + 4 * len(self.steps))
        return (
            batch
            if self.lab.device == "cpu"
            else replace(batch, device=draw(st.sampled_from(self.lab.devices)))
        )

    def kinds_of_copies(self) -> list[str]:
        pickles = ["pickle"] if self.lab.claims("pickle") else []
        return [
            "deepcopy",
            *pickles,
            *(["transfer", "restore", "rewind"] if self.lab.claims("state_dict") else []),
        ]

    # --- rules ------------------------------------------------------------------------------------------------------
    # Hypothesis leaves out a random part of the rules in each program; what matters most has several of them.

    @rule(write=writes(appends), mode=MODES, scribble=st.booleans())
    def append(self, write: tuple[Index, Batch], mode: str, scribble: bool) -> None:
        self.perform("write", *write, mode, scribble)

    @rule(write=writes(overwrites), mode=MODES, scribble=st.booleans())
    def overwrite(self, write: tuple[Index, Batch], mode: str, scribble: bool) -> None:
        self.perform("write", *write, mode, scribble)

    @rule(write=writes(set_indices), mode=MODES, scribble=st.booleans())
    def write(self, write: tuple[Index, Batch], mode: str, scribble: bool) -> None:
        self.perform("write", *write, mode, scribble)

    @precondition(readable)
    @rule(write=assignments(), mode=MODES, scribble=st.booleans())
    def assign(self, write: tuple[Index, Batch], mode: str, scribble: bool) -> None:
        self.perform("assign", *write, mode, scribble)

    @precondition(readable)
    @rule(write=assignments(), mode=MODES, scribble=st.booleans())
    def assign_again(self, write: tuple[Index, Batch], mode: str, scribble: bool) -> None:
        self.perform("assign", *write, mode, scribble)

    @precondition(readable)
    @rule(index=reads(), mode=MODES, scribble=st.booleans())
    def get(self, index: Index, mode: str, scribble: bool) -> None:
        self.perform("read", index, mode, "get", scribble)

    @precondition(readable)
    @rule(index=reads(), scribble=st.booleans())
    def get_item(self, index: Index, scribble: bool) -> None:
        self.perform("read", index, "grad", "item", scribble)

    @rule(fault=refusals("set"))
    def refuse_write(self, fault: tuple[Index, Batch, str]) -> None:
        self.perform("refuse_write", *fault)

    @precondition(readable)
    @rule(fault=refusals("assign"))
    def refuse_assign(self, fault: tuple[Index, Batch, str]) -> None:
        self.perform("refuse_assign", *fault)

    @precondition(readable)
    @rule(fault=bad_reads())
    def refuse_read(self, fault: tuple[Index, str]) -> None:
        self.perform("refuse_read", *fault)

    @rule(index=st.sampled_from((None, None, *EMPTY_INDICES)))
    def change_nothing(self, index: Index | None) -> None:
        if index is None:
            self.perform("look")
        else:
            self.perform("write_nothing", index, Batch(self.model.node, (0, *self.model.trailing)))

    @precondition(written)
    @rule(slot=st.integers(0, 1), verb=st.sampled_from(("dumps", "dumps", "dump", "save")))
    def dump(self, slot: int, verb: str) -> None:
        self.perform("dump", slot, verb)

    @precondition(dumped)
    @rule(
        slot=slots(),
        verb=st.sampled_from(("loads", "loads", "load")),
    )
    def load(self, slot: int, verb: str) -> None:
        if self.trial is not None and self.trial.dumps[slot][1].readable <= self.model.capacity:
            self.perform("load", slot, verb)

    @precondition(dumped)
    @rule(slot=slots(), more=st.integers(-2, 8))
    def load_elsewhere(self, slot: int, more: int) -> None:
        if self.trial is None:
            return
        rows, width = self.trial.dumps[slot][1].readable, self.model.width
        size = max(1, rows * width + more)
        fits = -(-size // width) >= rows
        self.perform("load_elsewhere" if fits else "refuse_load", slot, size)

    @precondition(lambda self: self.written() and self.rarely())
    @rule(slot=st.integers(0, 1), moment=MOMENTS, error=st.sampled_from(("OSError", "KeyboardInterrupt")))
    def dump_midway(self, slot: int, moment: Moment, error: str) -> None:
        if moment.size is None or can_limit():
            self.perform("dump_midway", slot, moment, error)

    @precondition(lambda self: self.written() and self.rarely() and self.forks())
    @rule(slot=st.integers(0, 1), moment=MOMENTS)
    def dump_killed(self, slot: int, moment: Moment) -> None:
        self.perform("dump_killed", slot, moment)

    @precondition(lambda self: self.dumped() and self.rarely())
    @rule(slot=slots(), file=st.integers(0, 3), number=st.integers(0, 199), used=st.booleans())
    def load_damaged(self, slot: int, file: int, number: int, used: bool) -> None:
        self.perform("load_damaged", slot, file, number, used)

    @precondition(readable)
    @rule(kind=copies(), more=st.integers(0, 8))
    def copy(self, kind: str, more: int) -> None:
        if kind in ("deepcopy", "pickle"):
            self.perform(kind)
        elif kind == "rewind":
            self.perform("rewind", Batch(self.model.node, self.model.trailing, seed=more))
        else:
            self.perform("transfer", len(self.model) + more if kind == "transfer" else None)

    @precondition(lambda self: self.readable() and self.lab.claims("clear"))
    @rule()
    def clear(self) -> None:
        self.perform("clear")

    @rule(more=st.booleans())
    def entities(self, more: bool) -> None:
        if self.trial is None:
            return
        count = len(self.trial.listeners)
        if more and count < 3:
            self.perform("attach")
        elif count > 1 and self.lab.claims("detach"):
            self.perform("detach")


def _data_beside(index: Index, model: Model) -> Batch:
    """Data that would fit a bad index, if it were a good one."""
    several = {
        "list": len(index.args),
        "tensor": len(index.args),
        "range": len(range(*index.args)) if index.form == "range" else 0,
    }
    if index.form in several:
        return Batch(model.node, (several[index.form], *model.trailing))
    if index.form == "mask":
        return Batch(model.node, (sum(index.args), *model.trailing))
    return Batch(model.node, model.trailing)
