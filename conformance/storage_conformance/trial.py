"""One storage and its model, side by side: each method is the story of one call.

Act on the storage, act on the model, compare; every comparison stands under the requirement that it checks. Machines
draw the arguments, and failures are explained by replaying these methods with simpler ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass

from storage_conformance.batch import Batch
from storage_conformance.comparison import difference, told
from storage_conformance.index import Index, Span, at
from storage_conformance.lab import Lab
from storage_conformance.listener import Journal, Listener
from storage_conformance.model import Model
from storage_conformance.recorder import Raised, Violation
from storage_conformance.structure import Absent, Content, Fields, Leaf, Node, Record, Text, Tree, leaves, observe, tensors
from storage_conformance.subject import Given, Literal, Subject

__all__ = ["INDEX_REQUIREMENTS", "Blame", "Setup", "Step", "Trial", "change", "dtype_requirement", "law", "structure_requirements"]

INDEX_REQUIREMENTS = {
    "int": "IDX-1", "negative": "IDX-2", "numpy": "IDX-4", "scalar": "IDX-4", "slice": "IDX-5", "range": "IDX-6",
    "list": "IDX-7", "tensor": "IDX-8", "int32": "IDX-8", "grid": "IDX-9", "mask": "IDX-10", "ellipsis": "IDX-11",
    "tuple": "IDX-12", "cells": "IDX-13",
}  # fmt: skip
LAYOUT_REQUIREMENTS = {"requires_grad": "SET-4", "inference": "SET-5"}
FORM_REQUIREMENTS = {"lazy": "DATA-10", "list": "DATA-12"}


@dataclass(frozen=True)
class Setup:
    """How the storage of a program is made, and what it is to hold."""

    size: int
    ndim: int = 1
    trailing: tuple[int, ...] = ()
    node: Node = field(default_factory=Leaf)
    device: str = "cpu"
    listeners: int = 0


@dataclass(frozen=True)
class Blame:
    """Which requirement answers for which part of the state after a step."""

    length: str
    touched: str
    max_size: str = "CAP-2"
    shape: str = "LEN-7"
    device: str = ""
    others: str = "SET-2"
    zero: str = "LAZY-1"
    last_row: str = "QRY-7"
    structure: str = ""
    text: str = ""


def law(requirement: str) -> Blame:
    """One requirement answers for all."""
    return Blame(*[requirement] * 10)


class Trial:
    """A storage under test beside its model.

    Attributes:
        storage: the storage that the program goes on with; a load or a copy may replace it.
        model: what it should hold.
        dumps: paths of dumps written by the program, with the model of that moment.
        twin: the storage that a copy was made of, which must not follow.
    """

    def __init__(self, lab: Lab, setup: Setup):
        self.lab = lab
        self.setup = setup
        lab.start()
        self.model = Model(setup.size, setup.ndim, setup.trailing, setup.node)
        self.storage = self._make(setup.size, "storage")
        self.dumps: dict[int, tuple[Path, Model]] = {}
        self.twin: tuple[Subject, Model, str] | None = None
        self.journal = Journal()
        self.listeners: list[Listener] = []
        self._names = 0
        for _ in range(setup.listeners):
            self.attach()
        self._claims = structure_requirements(setup.node)
        self.verify(Blame("LEN-1", "LEN-1", max_size="CAP-1", shape="LEN-1"))

    # --- writing ---------------------------------------------------------------------------------------------------

    def write(self, index: Index, batch: Batch, mode: str = "grad", scribble: bool = True) -> None:
        """A `set` that has to succeed."""
        span = self.model.for_writing(index)
        blame = Blame(self._length_requirement(span), "SET-1")
        given = self._given(batch, scribble)
        with self.lab.checking("SET-1"):
            returned = self.storage.set(index, given, mode)
        with self.lab.checking("SET-7"):
            if returned is not None:
                raise Violation(f"set returned {type(returned).__name__}", claim="storage.set(...) is None")
        self.model.set(span, batch)
        self._settle(span, batch)
        self._scribble(given)
        self._written(index, batch, mode, span, blame)
        self._told("OBS-1", span)

    def assign(self, index: Index, batch: Batch, mode: str = "grad", scribble: bool = True) -> None:
        """An assignment `storage[index] = data` that has to succeed."""
        span = self.model.for_reading(index)
        given = self._given(batch, scribble)
        with self.lab.checking("SET-16"):
            self.storage.assign(index, given, mode)
        self.model.assign(span, batch)
        self._settle(span, batch)
        self._scribble(given)
        self._written(index, batch, mode, span, Blame("LEN-9", "SET-16", last_row="QRY-8"))
        self._told("OBS-2", span)

    def _written(self, index: Index, batch: Batch, mode: str, span: Span, blame: Blame) -> None:
        self.verify(blame, touched=set(span.cells))
        self._verify_twin()
        self._count(*self._claims, *axis_requirements(index, batch, mode))

    def write_nothing(self, index: Index, batch: Batch) -> None:
        """A `set` of zero rows."""
        with self.lab.checking("SET-15"):
            self.storage.set(index, batch)
        self.verify(law("LAZY-6" if self.model.fresh else "SET-15"))
        self._told("OBS-11", None)

    def refuse_write(self, index: Index, batch: Batch, requirement: str) -> None:
        """A `set` that has to be refused, and to leave everything as it was."""
        self.lab.refused(requirement, lambda: self.storage.set(index, batch), what="the write")
        self.verify(law("ERR-1"))
        self._told("OBS-11", None)

    def refuse_assign(self, index: Index, batch: Batch, requirement: str) -> None:
        """An assignment that has to be refused, and to leave everything as it was."""
        self.lab.refused(requirement, lambda: self.storage.assign(index, batch), what="the assignment")
        self.verify(law("ERR-2"))
        self._told("OBS-11", None)

    def _length_requirement(self, span: Span) -> str:
        rows, readable = span.rows, self.model.readable
        whole = rows[:: self.model.width]
        if not span.whole_rows:
            return "LEN-6"
        if max(rows, default=-1) < readable:
            return "LEN-3"
        if whole == list(range(readable, readable + len(whole))):
            return "LEN-8" if readable + len(whole) == self.model.capacity else "LEN-2"
        if whole != sorted(set(whole)):
            return "LEN-5"
        return "LEN-4" if min(rows) > readable else "LEN-2"

    def _settle(self, span: Span, batch: Batch) -> None:
        """Where an index names a row several times, the model takes the item that the storage chose (SET-13)."""
        if len(set(span.cells)) == len(span.cells):
            return
        candidates: dict[int, list[Any]] = {}
        for cell, value in zip(span.cells, self.model.split(batch.contents, len(span.cells)), strict=True):
            candidates.setdefault(cell, []).append(value)
        for row in sorted({cell // self.model.width for cell, values in candidates.items() if len(values) > 1}):
            first = row * self.model.width
            cells = range(first, first + self.model.width)
            found = self.model.split(self._peek(at(row), self.model.trailing), self.model.width)
            with self.lab.checking("SET-13"):
                for cell, value in zip(cells, found, strict=True):
                    if value not in candidates.get(cell, [value]):
                        raise Violation(f"row {row} holds none of the items given for it", aspect="value")
            with self.lab.checking("SET-14"):
                for cell, value in zip(cells, found, strict=True):
                    if value != candidates.get(cell, [value])[-1]:
                        raise Violation(f"row {row} does not hold the last of the items given for it")

    def _given(self, batch: Batch, scribble: bool) -> Given:
        """The data of a batch, with a name if the caller is to change them after the write."""
        changing = scribble and batch.layout not in ("expanded", "inference", "requires_grad")
        return Given(batch, batch.data(), "data" if changing else "")

    def _scribble(self, given: Given) -> None:
        """Changes the caller's data after the write, as a collector does that reuses its buffers."""
        if given.name:
            change(given.value)
            self.storage.program.add(f"change({given.name})")
            self._count("SET-3")

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, index: Index, mode: str = "grad", spelling: str = "get", scribble: bool = True) -> None:
        """A read that has to succeed, and to change nothing."""
        span = self.model.for_reading(index)
        requirement = "GET-2" if span.cells else "IDX-20"
        with self.lab.checking(requirement):
            value = self.storage.get(index, mode, "found") if spelling == "get" else self.storage.item(index, "found")
            self._compare(value, span, span.lead, "found")
        if spelling != "get":
            self._count("GET-3")
        with self.lab.checking("SET-4"):
            if any(tensor.requires_grad for tensor in tensors(value)):
                raise Violation("a tensor that was read requires grad")
        self._count(index_requirement(index), *(("SET-5",) if mode != "grad" else ()))
        if scribble and index.advanced and mode != "inference":
            change(value)
            self.storage.program.add("change(found)")
            self.verify(law("GET-5"))
        self._told("OBS-11", None)

    def refuse_read(self, index: Index, requirement: str) -> None:
        """A read that has to be refused."""
        self.lab.refused(requirement, lambda: self.storage.get(index), what="the read")
        self.verify(law("QRY-1"))

    def look(self) -> None:
        """Everything that only looks, and changes nothing (QRY-1)."""
        name, readable, row = self.storage.name, self.model.readable, self.model.readable // 2
        for attribute in ("shape", "max_size", "ndim", "device"):
            self.storage.attribute(attribute)
        with self.lab.checking("QRY-5"):
            text = self.storage.evaluate("repr({})", repr, shown=False)
            if not isinstance(text, str):
                raise Violation(f"repr gave {type(text).__name__}", claim=f"isinstance(repr({name}), str)")
        with self.lab.checking("QRY-3"):
            for candidate, inside in ((row, row < readable), (readable, False), (-readable, readable > 0), (-readable - 1, False)):
                found = self.storage.evaluate(f"{candidate} in {{}}", lambda s, c=candidate: c in s, shown=False)
                if found is not inside:
                    raise Violation(
                        f"{candidate} in storage is {found} with {readable} readable rows",
                        claim=f"({candidate} in {name}) is {inside}", actual=str(found),
                    )  # fmt: skip
        with self.lab.checking("QRY-2"):
            items = self.storage.evaluate("list({})", lambda s: _few(s, readable + 2), shown=False)
            if len(items) != readable:
                raise Violation(f"iteration gave {len(items)} items", claim=f"len(list({name})) == {readable}", actual=str(len(items)))
            for number, item in enumerate(items):
                self._compare(item, self.model.for_reading(at(number)), self.model.trailing, f"list({name})[{number}]")
        self.storage.program.add(f"{name}.shape, {name}.device, repr({name}), {row} in {name}, list({name})")
        self.verify(law("QRY-1"))
        self._told("OBS-11", None)

    # --- dumps, copies, clear --------------------------------------------------------------------------------------

    def dump(self, slot: int, verb: str = "dumps") -> None:
        """A dump, over the older one of that slot if there is one."""
        path = self.dumps[slot][0] if slot in self.dumps else self.lab.path()
        with self.lab.checking("CKPT-20"):
            self.storage.call(verb, Literal(path, f'folder / "{slot}"'))
        self.verify(law("CKPT-21"))
        if slot in self.dumps:
            self._count("CKPT-19")
        if verb != "dumps":
            self._count("CKPT-1")
        self.dumps[slot] = path, self.model.copy()

    def load(self, slot: int, verb: str = "loads") -> None:
        """A load into the storage of the program."""
        path, dumped = self.dumps[slot]
        fresh = self.model.fresh
        with self.lab.checking("CKPT-5" if fresh else "CKPT-9"):
            self.storage.call(verb, Literal(path, f'folder / "{slot}"'))
        self._count("CKPT-10", "CKPT-18")
        self._loaded(dumped, "CKPT-5" if fresh else "CKPT-9")

    def load_elsewhere(self, slot: int, size: int) -> None:
        """A load into a fresh storage of another size, with which the program goes on."""
        path, dumped = self.dumps[slot]
        self._replace(self._make(size, self._name()), Model(size, self.model.ndim, self.model.trailing, self.model.node))
        with self.lab.checking("CKPT-5"):
            self.storage.call("loads", Literal(path, f'folder / "{slot}"'))
        self._count("CKPT-10", "CKPT-18")
        self._loaded(dumped, "CKPT-5")

    def refuse_load(self, slot: int, size: int) -> None:
        """A load of more rows than fit, into a fresh storage."""
        path, dumped = self.dumps[slot]
        small = self._make(size, self._name())
        self.lab.refused("CKPT-11", lambda: small.call("loads", Literal(path, f'folder / "{slot}"')), what="the load")
        model = Model(size, self.model.ndim, self.model.trailing, self.model.node)
        self._verify_one(small, model, law("ERR-3"), set())

    def _loaded(self, dumped: Model, rows: str) -> None:
        fresh = self.model.fresh
        self.model.take(dumped)
        self.verify(
            Blame(
                "CKPT-6", rows, max_size="CKPT-10", shape="CKPT-6", device="DEV-8" if self.setup.device == "auto" else "",
                others=rows, last_row="CKPT-23", structure="CKPT-7" if fresh else "", text="CKPT-8",
            )
        )  # fmt: skip
        self._count("CKPT-7" if fresh else rows, *(("CKPT-8",) if "DATA-16" in self._claims or "DATA-17" in self._claims else ()))
        self._told("OBS-3", self._all_rows())

    def deepcopy(self) -> None:
        """The program goes on with a deep copy; the original must not follow."""
        original, model = self.storage, self.model
        with self.lab.checking("COPY-1"):
            try:
                copied = original.deepcopy(self._name())
            except Raised as raised:
                if isinstance(raised.error, TypeError):
                    return
                raise
        self._replace(copied, model.copy())
        self.verify(law("COPY-1"))
        self.twin = original, model, "COPY-2"

    def pickle(self) -> None:
        """The program goes on with the unpickled storage; the original must not follow."""
        original, model = self.storage, self.model
        with self.lab.checking("COPY-3"):
            copied = original.repickled(self._name())
        self._replace(copied, model.copy())
        self.verify(law("COPY-3"))
        self.twin = original, model, "COPY-2"

    def transfer(self, size: int | None) -> None:
        """The program goes on with another storage that loaded the state dict; the original must not follow.

        With `size` None the state goes back into the same storage.
        """
        original, model = self.storage, self.model
        state = self._state_dict(original)
        if size is not None:
            self._replace(self._make(size, self._name()), Model(size, model.ndim, model.trailing, model.node))
        rows = "COPY-6" if size is None else "COPY-5"
        with self.lab.checking(rows):
            self.storage.call("load_state_dict", state)
        if self.model is not model:
            self.model.take(model)
        self.verify(
            Blame(rows, rows, max_size="COPY-8", shape=rows, others=rows, last_row="COPY-10", structure=rows, text=rows)
        )
        self._count("COPY-8")
        if size is not None:
            self.twin = original, model, "COPY-7"
        self._told("OBS-3", self._all_rows())

    def rewind(self, batch: Batch) -> None:
        """A state dict that is taken, followed by a write, and loaded again into the same storage."""
        before = self.model.copy()
        with self.lab.checking("COPY-5"):
            state = self.storage.call("state_dict")
        self.storage.program.precede("state = copy.deepcopy(")
        self.storage.program.follow(")")
        frozen = Literal(_cloned(state), "state")
        self.write(Index("int", (0,)), batch)
        with self.lab.checking("COPY-6"):
            self.storage.call("load_state_dict", frozen)
        self.model.take(before)
        self.verify(Blame("COPY-6", "COPY-6", max_size="COPY-8", shape="COPY-6", others="COPY-6", last_row="COPY-10", text="COPY-6"))
        self._told("OBS-3", self._all_rows())

    def _state_dict(self, storage: Subject) -> Literal:
        with self.lab.checking("COPY-5"):
            state = storage.call("state_dict")
        storage.program.precede("state = ")
        return Literal(state, "state")

    def clear(self) -> None:
        with self.lab.checking("QRY-9"):
            self.storage.call("clear")
        self.model.clear()
        self.journal.clear()  # whether a clear is told is left open
        self.verify(Blame("QRY-9", "QRY-9", max_size="QRY-10", device="QRY-10", shape="QRY-9", last_row="QRY-9"))

    # --- entities --------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """One more entity; the first one looks at the storage whenever it is told."""
        name = f"entity{len(self.listeners)}"
        listener = Listener(name, self.journal, None if self.listeners else self.storage)
        with self.lab.checking("OBS-1"):
            self.storage.call("attach", Literal(listener, name))
        self.listeners.append(listener)

    def detach(self) -> None:
        listener = self.listeners.pop()
        with self.lab.checking("OBS-13"):
            self.storage.call("detach", Literal(listener, listener.name))

    def _told(self, requirement: str, span: Span | None) -> None:
        """Checks who was told what since the last step; nobody, if `span` is None or empty."""
        calls, names = list(self.journal), [listener.name for listener in self.listeners]
        self.journal.clear()
        if span is None or not span.cells:
            if self.listeners:
                with self.lab.checking("OBS-11"):
                    if calls:
                        raise Violation(f"{calls[0].name} was told although nothing changed")
            return
        if not (names or calls):
            return
        with self.lab.checking(requirement):
            counts = {name: sum(call.name == name for call in calls) for name in names}
            for name, times in counts.items():
                if times != 1:
                    raise Violation(
                        f"{name}.mark_update was called {times} times", claim=f"told({name}) == 1", actual=str(times)
                    )
        if strangers := {call.name for call in calls} - set(names):
            with self.lab.checking("OBS-13"):
                raise Violation(f"{sorted(strangers)[0]} was told although it is not attached")
        with self.lab.checking("OBS-4"):
            if [call.name for call in calls] != names:
                raise Violation(f"told in the order {[call.name for call in calls]}, attached in the order {names}")
        for call in calls:
            self._check_told_index(call.index, span)
        with self.lab.checking("OBS-5"):
            self._check_seen(calls[0])

    def _check_told_index(self, index: Any, span: Span) -> None:
        flat = self.model.ndim == 1
        with self.lab.checking("OBS-9" if flat else "OBS-10"):
            if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or index.device.type != "cpu":
                raise Violation(f"mark_update got {type(index).__name__} {index!r:.80}, expected an int64 tensor on the CPU")
            if index.dim() != (1 if flat else 2) or (not flat and index.shape[1] != self.model.ndim):
                raise Violation(f"mark_update got shape {list(index.shape)}, expected {'[n]' if flat else f'[n, {self.model.ndim}]'}")
            rows = set(span.rows)
            if flat:
                if set(index.tolist()) != rows:
                    raise Violation(f"mark_update got rows {sorted(set(index.tolist()))}, changed were {sorted(rows)}")
                return
            told = {tuple(coordinates) for coordinates in index.tolist()}
            if missing := span.coordinates() - told:
                raise Violation(f"mark_update was not told of element {min(missing)}")
            if strangers := {coordinates for coordinates in told if coordinates[0] not in rows}:
                raise Violation(f"mark_update was told of element {min(strangers)}, which did not change")

    def _check_seen(self, call: Any) -> None:
        if isinstance(call.length, Exception):
            raise Violation(f"reading the storage inside mark_update raised {call.length}")
        if call.length is None:
            return
        if call.length != len(self.model):
            raise Violation(f"the length inside mark_update was {call.length}, afterwards it is {len(self.model)}")
        self._compare(call.rows, self._all_rows(), (self.model.readable, *self.model.trailing))

    # --- comparing -------------------------------------------------------------------------------------------------

    def verify(self, blame: Blame, touched: set[int] | None = None) -> None:
        """Compares everything that can be observed of the storage with the model."""
        self._verify_one(self.storage, self.model, blame, touched or set())

    def _verify_twin(self) -> None:
        if self.twin:
            storage, model, requirement = self.twin
            self._verify_one(storage, model, law(requirement), set())

    def _verify_one(self, storage: Subject, model: Model, blame: Blame, touched: set[int]) -> None:
        checking = self.lab.checking
        with checking(blame.length):
            _equal(storage.length(), len(model), f"len({storage.name})")
        with checking(blame.shape):
            shape = storage.attribute("shape")
            _equal(None if shape is None else tuple(shape), model.shape, f"{storage.name}.shape")
        with checking(blame.max_size if blame.max_size != "CAP-2" or not model.fresh else "CAP-1"):
            _equal(storage.attribute("max_size"), model.max_size, f"{storage.name}.max_size")
        self._verify_device(storage, model, blame)
        if self.lab.claims("last_row"):
            with checking(blame.last_row):
                _equal(storage.attribute("last_row"), model.last_row, f"{storage.name}.last_row")
        if model.readable:
            self._verify_rows(storage, model, blame, touched)

    def _verify_device(self, storage: Subject, model: Model, blame: Blame) -> None:
        auto = self.setup.device == "auto"
        device = storage.attribute("device")
        if model.fresh and auto:
            with self.lab.checking(blame.device or "DEV-4"):
                _equal(device, "auto", f"{storage.name}.device")
        elif not model.fresh:
            with self.lab.checking(blame.device or ("DEV-5" if auto else "DEV-2")):
                _equal(device, torch.device(self.lab.device), f"{storage.name}.device")

    def _verify_rows(self, storage: Subject, model: Model, blame: Blame, touched: set[int]) -> None:
        cells = tuple(range(len(model)))
        lead = (model.readable, *model.trailing)
        try:
            value = storage.peek(slice(0, model.readable))
            contents = observe(value, model.node, lead, f"{storage.name}.get(slice(0, {model.readable}))")
        except (Raised, Violation) as cause:
            requirement = self._structure_requirement(cause, blame)
            if self._reads_row_by_row(storage, model):
                requirement = "IDX-5" if isinstance(cause, Raised) else requirement
            with self.lab.checking(requirement):
                raise
        found = difference(model.node, cells, model.width, model.expected(cells), contents)
        zeros = [cell for cell in cells if cell not in model.cells]
        if found is not None:
            cell = cells[found.position]
            requirement = self._row_requirement(cell, found.leaf, model, blame, touched)
            whole = self._reads_row_by_row(storage, model)
            with self.lab.checking("IDX-5" if whole else requirement):
                if not whole:
                    row = cell // model.width
                    self._compare_with(
                        model, storage.peek(row), model.for_reading(at(row)), model.trailing, f"{storage.name}.get({row})"
                    )
                raise found
        self._count(*([blame.touched] if touched else []), *([blame.others] if len(touched) < len(cells) else []))
        if zeros:
            self._count(blame.zero, *(["LAZY-4"] if model.taken.intersection(zeros) else []))
        self._verify_leaves(storage, value, blame)

    def _verify_leaves(self, storage: Subject, value: Any, blame: Blame) -> None:
        device = torch.device(self.lab.device)
        with self.lab.checking(blame.device or "DEV-7"):
            if isinstance(value, TensorDictBase) or is_tensorclass(value):
                _equal(value.device, device, f"{storage.name}.get(0).device")
            for tensor in tensors(value):
                _equal(tensor.device, device, "the device of a leaf")
        with self.lab.checking("SET-4"):
            if any(tensor.requires_grad for tensor in tensors(value)):
                raise Violation("a tensor that was read requires grad")

    def _row_requirement(self, cell: int, leaf: Any, model: Model, blame: Blame, touched: set[int]) -> str:
        if isinstance(leaf, Text) and blame.text:
            return blame.text
        if cell not in model.cells:
            return "LAZY-4" if cell in model.taken and blame.zero == "LAZY-1" else blame.zero
        return blame.touched if cell in touched else blame.others

    def _structure_requirement(self, cause: Raised | Violation, blame: Blame) -> str:
        if isinstance(cause, Raised):
            return blame.touched if blame.touched != "SET-1" else "GET-2"
        path, node = cause.where  # type: ignore[misc]
        if isinstance(node, Text):
            return blame.text or ("DATA-17" if isinstance(self.setup.node, Record) else "DATA-16")
        if blame.structure:
            return blame.structure
        if cause.aspect == "dtype":
            return dtype_requirement(node.dtype)
        if cause.aspect == "batch_size":
            return "DATA-3" if path else ("DATA-4" if node.extra else "GET-2")
        if cause.aspect == "container":
            return container_requirement(node, nested=bool(path))
        return "GET-2"

    def _reads_row_by_row(self, storage: Subject, model: Model) -> bool:
        """Whether single rows read right: then the reading of all of them at once is at fault, not what is stored."""
        try:
            for row in range(model.readable):
                span = model.for_reading(at(row))
                contents = observe(storage.peek(row), model.node, model.trailing)
                if difference(model.node, span.cells, model.width, model.expected(span.cells), contents):
                    return False
        except (Raised, Violation):
            return False
        return True

    def _compare(self, value: Any, span: Span, lead: tuple[int, ...], expression: str = "") -> None:
        self._compare_with(self.model, value, span, lead, expression)

    def _compare_with(self, model: Model, value: Any, span: Span, lead: tuple[int, ...], expression: str) -> None:
        """Compares what was read with what the model holds; `expression` is the Python text that gives it."""
        contents = observe(value, model.node, lead, expression)
        expected = model.expected(span.cells)
        found = difference(model.node, span.cells, model.width, expected, contents)
        if found is None:
            return
        wanted = [cell[found.number] for cell in expected]
        content: Content = b"".join(wanted) if isinstance(found.leaf, Leaf) else list(wanted)  # type: ignore[arg-type]
        raise told(found, expression, model.node, content, lead) if expression else found

    def _peek(self, index: Index, lead: tuple[int, ...]) -> list[Content]:
        with self.lab.checking("GET-2"):
            return observe(self.storage.peek(index), self.model.node, lead)

    def _all_rows(self) -> Span:
        return Span(tuple(range(len(self.model))), (self.model.readable, *self.model.trailing), self.model.trailing)

    def _make(self, size: int, name: str) -> Subject:
        options: dict[str, Any] = {}
        if self.setup.ndim != 1:
            options["ndim"] = self.setup.ndim
        if self.setup.device != "cpu":
            options["device"] = self.setup.device
        with self.lab.checking("NEW-1"):
            return self.lab.make(size, name=name, **options)

    def _replace(self, storage: Subject, model: Model) -> None:
        """The program goes on with another storage, to which nobody is attached."""
        self.storage, self.model, self.twin = storage, model, None
        self.journal = Journal()
        self.listeners = []

    def _name(self) -> str:
        self._names += 1
        return f"storage{self._names}"

    def _count(self, *requirements: str) -> None:
        self.lab.recorder.evaluations.update(requirements)


def index_requirement(index: Index) -> str:
    """The requirement that speaks about this kind of index."""
    if index.form == "int" and index.args[0] < 0:
        return INDEX_REQUIREMENTS["negative"]
    return INDEX_REQUIREMENTS[index.form]


def axis_requirements(index: Index, batch: Batch, mode: str) -> list[str]:
    """The requirements that a write speaks to by its index, layout, form, values and mode."""
    found = [index_requirement(index)]
    if batch.layout != "plain":
        found.append(LAYOUT_REQUIREMENTS.get(batch.layout, "SET-6"))
    if batch.form != "dense":
        found.append(FORM_REQUIREMENTS[batch.form])
    if batch.bits:
        found.append("DTYPE-4")
    if mode != "grad":
        found.append("SET-5")
    return found


def structure_requirements(node: Node) -> tuple[str, ...]:
    """The requirements that a structure speaks to when it is written and read back."""
    found: set[str] = {"DTYPE-5"} if any(0 in leaf.feature for _, leaf in leaves(node) if isinstance(leaf, Leaf)) else set()
    found.update(dtype_requirement(leaf.dtype) for _, leaf in leaves(node) if isinstance(leaf, Leaf))

    def visit(part: Node, nested: bool) -> None:
        if isinstance(part, Text):
            found.add("DATA-17" if isinstance(node, Record) else "DATA-16")
        elif not (isinstance(part, Leaf) and nested):
            found.add(container_requirement(part, nested=nested))
        if isinstance(part, Fields | Record) and part.extra:
            found.add("DATA-3" if nested else "DATA-4")
        for _, child in getattr(part, "children", ()):
            visit(child, True)

    visit(node, False)
    return tuple(sorted(found))


def container_requirement(node: Node, *, nested: bool) -> str:
    if isinstance(node, Record):
        return "DATA-7" if nested else "DATA-6"
    if isinstance(node, Tree):
        return "DATA-14"
    if isinstance(node, Absent):
        return "DATA-8"
    return "DATA-2" if isinstance(node, Fields) else "DATA-1"


def dtype_requirement(dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return "DTYPE-2"
    if dtype.is_floating_point:
        return "DTYPE-9" if dtype.itemsize == 1 else "DTYPE-1"
    return "DTYPE-3"


def _equal(actual: Any, expected: Any, expression: str) -> None:
    if type(actual) is bool or actual != expected or (isinstance(expected, int) and not isinstance(actual, int)):
        raise Violation(
            f"{expression} is {actual!r}, expected {expected!r}", claim=f"{expression} {_is(expected)}", actual=repr(actual)
        )


def _is(expected: Any) -> str:
    if expected is None:
        return "is None"
    return f"== torch.device({str(expected)!r})" if isinstance(expected, torch.device) else f"== {expected!r}"


def change(data: Any) -> None:
    """Changes every tensor of a container, or of a list of them, in place."""
    for tensor in tensors(data):
        if tensor.dtype == torch.bool:
            tensor.logical_not_()
        elif tensor.dtype.itemsize > 1 or not tensor.dtype.is_floating_point:
            tensor.add_(1)


def _cloned(value: Any) -> Any:
    """A deep copy that clones tensors of every kind."""
    if isinstance(value, torch.Tensor) or isinstance(value, TensorDictBase) or is_tensorclass(value):
        return value.clone()
    if isinstance(value, dict):
        copied = copy.copy(value)  # of the same type: an OrderedDict with attributes of its own stays one
        copied.update({key: _cloned(entry) for key, entry in value.items()})
        return copied
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_cloned(entry) for entry in value)
    return value


def _few(storage: Any, most: int) -> list[Any]:
    found: list[Any] = []
    iterator: Iterator[Any] = iter(storage)
    while len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
    return found


@dataclass(frozen=True)
class Step:
    """One method of `Trial` with its arguments."""

    verb: str
    arguments: tuple[Any, ...]

    def perform(self, trial: Trial) -> None:
        getattr(trial, self.verb)(*self.arguments)
