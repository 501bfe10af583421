"""The storage machine: programs of writes, reads, refusals, dumps, loads and copies, step by step beside the model.

Each rule draws the arguments of one step, given what the model says about the state, and hands them to the trial.
Arguments are small facts, so that a program can be replayed, simplified and written down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from storage_conformance.batch import Batch
from storage_conformance.index import Index, Span
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Found
from storage_conformance.strategies.faults import bad_indices, spoiled
from storage_conformance.strategies.indices import read_indices, set_indices
from storage_conformance.strategies.structures import structures
from storage_conformance.structure import Leaf, Text, leaves
from storage_conformance.trial import Setup, Step, Trial

__all__ = ["StorageMachine", "batches", "setups"]

MODES = ("grad", "grad", "grad", "no_grad", "inference")


def setups(features: frozenset[str]) -> st.SearchStrategy[Setup]:
    """Storages of small capacity, so that full, wrapped and overwritten states are common."""
    trailing = st.sampled_from(((), (), (), (2,), (3,), (1,), (2, 2), (3, 1)))
    return trailing.flatmap(
        lambda t: st.builds(
            Setup,
            size=st.integers(1, 8) if not t else st.integers(1, 8 * (t[0] if len(t) == 1 else 2)),
            ndim=st.just(1 + len(t)),
            trailing=st.just(t),
            node=structures(features, one_dimension=not t),
            device=st.sampled_from(("cpu", "cpu", "auto")),
            listeners=st.sampled_from((0, 0, 1, 2)),
        )
    )


def batches(setup: Setup, lead: tuple[int, ...], *, stackable: bool) -> st.SearchStrategy[Batch]:
    """Valid data of a leading shape, in every layout and form."""
    plain = all(isinstance(leaf, Leaf) for _, leaf in leaves(setup.node))
    seeds, bits = st.integers(0, 40), st.sampled_from((False, False, False, True))
    named = st.booleans()
    dense = st.builds(
        Batch, st.just(setup.node), st.just(lead), seed=seeds, bits=bits, device_named=named,
        layout=st.sampled_from(("plain", "plain", "plain", "plain", "transposed", "strided", "expanded", "requires_grad", "inference", "locked") if plain else ("plain",)),
    )  # fmt: skip
    if not (stackable and lead and lead[0]):
        return dense
    forms = ("list", "lazy") if hasattr(setup.node, "extra") else ("list",)
    stacked = st.builds(
        Batch, st.just(setup.node), st.just(lead), seed=seeds, bits=bits, form=st.sampled_from(forms), device_named=named
    )
    return st.one_of(dense, dense, dense, stacked)


class StorageMachine(RuleBasedStateMachine):
    """Runs programs on one backend; `lab` and `on_found` are set by the class that a campaign makes of it."""

    lab: Lab
    on_found: Callable[[Found], None]

    def __init__(self) -> None:
        super().__init__()
        self.trial: Trial | None = None
        self.setup: Setup | None = None
        self.steps: list[Step] = []

    # --- running ---------------------------------------------------------------------------------------------------

    @initialize(setup=st.runner().flatmap(lambda machine: setups(machine.lab.backend.features)))
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

    # --- strategies that depend on the state ------------------------------------------------------------------------

    def _data_for(self, span: Span, index: Index) -> st.SearchStrategy[Batch]:
        assert self.setup is not None
        single = index.form in ("int", "numpy", "scalar", "tuple", "cells", "grid")
        return batches(self.setup, span.lead, stackable=not single and not self._has_text())

    def _has_text(self) -> bool:
        return any(isinstance(leaf, Text) for _, leaf in leaves(self.model.node))

    def _writes(self) -> st.SearchStrategy[tuple[Index, Batch]]:
        model = self.model
        indices = set_indices(model.capacity, model.readable, model.trailing, fresh=model.fresh)
        return indices.flatmap(lambda index: st.tuples(st.just(index), self._data_for(model.for_writing(index), index)))

    def _assignments(self) -> st.SearchStrategy[tuple[Index, Batch]]:
        model = self.model
        indices = read_indices(model.readable, model.trailing)
        return indices.flatmap(lambda index: st.tuples(st.just(index), self._data_for(model.for_reading(index), index)))

    def _refused_writes(self) -> st.SearchStrategy[tuple[Index, Batch, str]]:
        model = self.model
        one = Batch(model.node, model.trailing)
        bad = bad_indices(model.capacity, model.ndim, beyond="CAP-4").map(lambda b: (b[0], _data_beside(b[0], model), b[1]))
        row = st.integers(0, model.capacity - 1)
        single = row.flatmap(lambda r: self._choice(Index("int", (r,)), spoiled(one, model.trailing, fresh=model.fresh, rows_named=False)))
        count = min(2, model.capacity)
        several = st.sampled_from(("range", "list", "tensor", "slice")).flatmap(
            lambda form: self._choice(
                Index(form, (0, count, 1) if form in ("range", "slice") else tuple(range(count))),
                spoiled(Batch(model.node, (count, *model.trailing)), model.trailing, fresh=model.fresh, rows_named=True),
            )
        )
        return st.one_of(bad, single, several)

    def _refused_assignments(self) -> st.SearchStrategy[tuple[Index, Batch, str]]:
        model = self.model
        rows = model.readable
        one = Batch(model.node, model.trailing)
        bad = bad_indices(rows, model.ndim, beyond="SET-17").map(lambda b: (b[0], _data_beside(b[0], model), b[1]))
        single = st.integers(0, rows - 1).flatmap(
            lambda r: self._choice(Index("int", (r,)), spoiled(one, model.trailing, fresh=False, rows_named=False))
        )
        return st.one_of(bad, single)

    def _choice(self, index: Index, variants: list[tuple[Batch, str]]) -> st.SearchStrategy[tuple[Index, Batch, str]]:
        known = [(index, batch, rule_) for batch, rule_ in variants if rule_ != "DATA-15" or self.lab.claims("pytree")]
        return st.sampled_from(known) if known else st.just((Index("raw", (True, "True")), Batch(self.model.node, self.model.trailing), "IDX-15"))

    # --- rules ------------------------------------------------------------------------------------------------------

    @rule(write=st.runner().flatmap(lambda machine: machine._writes()), mode=st.sampled_from(MODES))
    def write(self, write: tuple[Index, Batch], mode: str) -> None:
        self.perform("write", *write, mode)

    @rule(write=st.runner().flatmap(lambda machine: machine._writes()), mode=st.sampled_from(MODES))
    def write_again(self, write: tuple[Index, Batch], mode: str) -> None:
        self.perform("write", *write, mode)

    @precondition(readable)
    @rule(write=st.runner().flatmap(lambda machine: machine._assignments()), mode=st.sampled_from(MODES))
    def assign(self, write: tuple[Index, Batch], mode: str) -> None:
        self.perform("assign", *write, mode)

    @precondition(readable)
    @rule(
        index=st.runner().flatmap(lambda machine: read_indices(machine.model.readable, machine.model.trailing, empty=True)),
        mode=st.sampled_from(MODES),
        spelling=st.sampled_from(("get", "item")),
    )
    def read(self, index: Index, mode: str, spelling: str) -> None:
        self.perform("read", index, mode, spelling)

    @rule(index=st.sampled_from((Index("list"), Index("range", (0, 0)), Index("slice", (0, 0, None)), Index("tensor"))))
    def write_nothing(self, index: Index) -> None:
        self.perform("write_nothing", index, Batch(self.model.node, (0, *self.model.trailing)))

    @rule(fault=st.runner().flatmap(lambda machine: machine._refused_writes()))
    def refuse_write(self, fault: tuple[Index, Batch, str]) -> None:
        self.perform("refuse_write", *fault)

    @precondition(readable)
    @rule(fault=st.runner().flatmap(lambda machine: machine._refused_assignments()))
    def refuse_assign(self, fault: tuple[Index, Batch, str]) -> None:
        self.perform("refuse_assign", *fault)

    @precondition(readable)
    @rule(fault=st.runner().flatmap(lambda machine: bad_indices(machine.model.readable, machine.model.ndim, beyond="GET-1")))
    def refuse_read(self, fault: tuple[Index, str]) -> None:
        self.perform("refuse_read", *fault)

    @rule()
    def look(self) -> None:
        self.perform("look")

    @precondition(written)
    @rule(slot=st.integers(0, 1), verb=st.sampled_from(("dumps", "dumps", "dump", "save")))
    def dump(self, slot: int, verb: str) -> None:
        self.perform("dump", slot, verb)

    @precondition(lambda self: self.trial is not None and self.trial.dumps)
    @rule(data=st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.trial.dumps))), verb=st.sampled_from(("loads", "loads", "load")))
    def load(self, data: int, verb: str) -> None:
        if self.trial is not None and self.trial.dumps[data][1].readable <= self.model.capacity:
            self.perform("load", data, verb)

    @precondition(lambda self: self.trial is not None and self.trial.dumps)
    @rule(data=st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.trial.dumps))), more=st.integers(-2, 8))
    def load_elsewhere(self, data: int, more: int) -> None:
        if self.trial is None:
            return
        rows, width = self.trial.dumps[data][1].readable, self.model.width
        size = max(1, rows * width + more)
        if -(-size // width) >= rows:
            self.perform("load_elsewhere", data, size)
        else:
            self.perform("refuse_load", data, size)

    @precondition(written)
    @rule()
    def deepcopy(self) -> None:
        self.perform("deepcopy")

    @precondition(lambda self: self.readable() and self.lab.claims("pickle"))
    @rule()
    def pickle(self) -> None:
        self.perform("pickle")

    @precondition(lambda self: self.readable() and self.lab.claims("state_dict"))
    @rule(more=st.one_of(st.none(), st.integers(0, 8)))
    def transfer(self, more: int | None) -> None:
        self.perform("transfer", None if more is None else len(self.model) + more)

    @precondition(lambda self: self.readable() and self.lab.claims("state_dict"))
    @rule(seed=st.integers(0, 40))
    def rewind(self, seed: int) -> None:
        self.perform("rewind", Batch(self.model.node, self.model.trailing, seed=seed))

    @precondition(lambda self: self.readable() and self.lab.claims("clear"))
    @rule()
    def clear(self) -> None:
        self.perform("clear")

    @precondition(lambda self: self.trial is not None and len(self.trial.listeners) < 3)
    @rule()
    def attach(self) -> None:
        self.perform("attach")

    @precondition(lambda self: self.trial is not None and len(self.trial.listeners) > 1 and self.lab.claims("detach"))
    @rule()
    def detach(self) -> None:
        self.perform("detach")


def _data_beside(index: Index, model: Model) -> Batch:
    """Data that would fit a bad index, if it were a good one."""
    several = {"list": len(index.args), "tensor": len(index.args), "range": len(range(*index.args)) if index.form == "range" else 0}
    if index.form in several:
        return Batch(model.node, (several[index.form], *model.trailing))
    if index.form == "mask":
        return Batch(model.node, (sum(index.args), *model.trailing))
    return Batch(model.node, model.trailing)
