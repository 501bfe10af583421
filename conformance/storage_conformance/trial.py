"""One storage and its model, side by side: each method is the story of one call.

Act on the storage, act on the model, compare; every comparison stands under the requirement that it checks. Machines
draw the arguments, and failures are explained by replaying these methods with simpler ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass

from storage_conformance.batch import Batch
from storage_conformance.concern import (
    INDEX_REQUIREMENTS,
    axis_requirements,
    dtype_requirement,
    index_requirement,
    structure_requirements,
)
from storage_conformance.index import Index, Span, at
from storage_conformance.lab import Lab
from storage_conformance.listener import Journal, Listener, check_index
from storage_conformance.model import Model
from storage_conformance.recorder import Raised, Violation
from storage_conformance.steps import Setup, Step
from storage_conformance.structure import observe, tensors
from storage_conformance.subject import Given, Literal, Subject
from storage_conformance.verification import Blame, Verification, law

__all__ = [
    "INDEX_REQUIREMENTS", "Blame", "Setup", "Step", "Trial", "change", "dtype_requirement", "index_requirement", "law",
    "structure_requirements",
]  # fmt: skip


class Trial:
    """A storage under test beside its model.

    Attributes:
        storage: the storage that the program goes on with; a load or a copy may replace it.
        model: what it should hold.
        dumps: paths of dumps written by the program, with the model of that moment.
        twin: the storage that a copy was made of, which must not follow.
    """

    def __init__(self, lab: Lab, setup: Setup) -> None:
        self.lab = lab
        self.setup = setup
        self.verification = Verification(lab, setup)
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
        self._settle(span, batch, blame.length)
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
        self._settle(span, batch, "SET-16")
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

    def _settle(self, span: Span, batch: Batch, readable: str) -> None:
        """Where an index names a row several times, the model takes the item that the storage chose (SET-13).

        `readable` answers for it that these rows can be read now.
        """
        if len(set(span.cells)) == len(span.cells):
            return
        candidates: dict[int, list[Any]] = {}
        for cell, value in zip(span.cells, self.model.split(batch.contents, len(span.cells)), strict=True):
            candidates.setdefault(cell, []).append(value)
        for row in sorted(
            {cell // self.model.width for cell, values in candidates.items() if len(values) > 1}
        ):
            first = row * self.model.width
            cells = range(first, first + self.model.width)
            with self.lab.checking(readable):
                contents = observe(self.storage.peek(at(row)), self.model.node, self.model.trailing)
            found = self.model.split(contents, self.model.width)
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
            value = (
                self.storage.get(index, mode, "found")
                if spelling == "get"
                else self.storage.item(index, "found")
            )
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
            for candidate, inside in (
                (row, row < readable),
                (readable, False),
                (-readable, readable > 0),
                (-readable - 1, False),
            ):
                found = self.storage.evaluate(
                    f"{candidate} in {{}}", partial(_holds, row=candidate), shown=False
                )
                if found is not inside:
                    raise Violation(
                        f"{candidate} in storage is {found} with {readable} readable rows",
                        claim=f"({candidate} in {name}) is {inside}", actual=str(found),
                    )  # fmt: skip
        with self.lab.checking("QRY-2"):
            items = self.storage.evaluate("list({})", lambda s: _few(s, readable + 2), shown=False)
            if len(items) != readable:
                raise Violation(
                    f"iteration gave {len(items)} items",
                    claim=f"len(list({name})) == {readable}",
                    actual=str(len(items)),
                )
            for number, item in enumerate(items):
                self._compare(
                    item, self.model.for_reading(at(number)), self.model.trailing, f"list({name})[{number}]"
                )
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
        self._replace(
            self._make(size, self._name()), Model(size, self.model.ndim, self.model.trailing, self.model.node)
        )
        alike = self.model.capacity == dumped.capacity
        with self.lab.checking("CKPT-5" if alike else "CKPT-10"):
            self.storage.call("loads", Literal(path, f'folder / "{slot}"'))
        self._count("CKPT-10", "CKPT-18")
        self._loaded(dumped, "CKPT-5")

    def refuse_load(self, slot: int, size: int) -> None:
        """A load of more rows than fit, into a fresh storage."""
        path, _ = self.dumps[slot]
        small = self._make(size, self._name())
        self.lab.refused(
            "CKPT-11", lambda: small.call("loads", Literal(path, f'folder / "{slot}"')), what="the load"
        )
        model = Model(size, self.model.ndim, self.model.trailing, self.model.node)
        self.verify_other(small, model, law("ERR-3"))

    def _loaded(self, dumped: Model, rows: str) -> None:
        fresh = self.model.fresh
        self.model.take(dumped)
        self.verify(
            Blame(
                "CKPT-6", rows, max_size="CKPT-10", shape="CKPT-6", others=rows, last_row="CKPT-23", text="CKPT-8",
                structure="CKPT-7" if fresh else "", device="DEV-8" if self.setup.device == "auto" else "",
            )
        )  # fmt: skip
        self._count(
            "CKPT-7" if fresh else rows,
            *(("CKPT-8",) if "DATA-16" in self._claims or "DATA-17" in self._claims else ()),
        )
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
            Blame(
                rows,
                rows,
                max_size="COPY-8",
                shape=rows,
                others=rows,
                last_row="COPY-10",
                structure=rows,
                text=rows,
            )
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
        self.verify(
            Blame(
                "COPY-6",
                "COPY-6",
                max_size="COPY-8",
                shape="COPY-6",
                others="COPY-6",
                last_row="COPY-10",
                text="COPY-6",
            )
        )
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
        self.verify(
            Blame("QRY-9", "QRY-9", max_size="QRY-10", device="QRY-10", shape="QRY-9", last_row="QRY-9")
        )

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
                        f"{name}.mark_update was called {times} times",
                        claim=f"told({name}) == 1",
                        actual=str(times),
                    )
        if strangers := {call.name for call in calls} - set(names):
            with self.lab.checking("OBS-13"):
                raise Violation(f"{min(strangers)} was told although it is not attached")
        with self.lab.checking("OBS-4"):
            if [call.name for call in calls] != names:
                raise Violation(
                    f"told in the order {[call.name for call in calls]}, attached in the order {names}"
                )
        for call in calls:
            with self.lab.checking("OBS-9" if self.model.ndim == 1 else "OBS-10"):
                check_index(call.index, span, self.model.ndim)
        with self.lab.checking("OBS-5"):
            self._check_seen(calls[0])

    def _check_seen(self, call: Any) -> None:
        if isinstance(call.length, Exception):
            raise Violation(f"reading the storage inside mark_update raised {call.length}")
        if call.length is None:
            return
        if call.length != len(self.model):
            raise Violation(
                f"the length inside mark_update was {call.length}, afterwards it is {len(self.model)}"
            )
        self._compare(call.rows, self._all_rows(), (self.model.readable, *self.model.trailing))

    # --- comparing -------------------------------------------------------------------------------------------------

    def verify(self, blame: Blame, touched: set[int] | None = None) -> None:
        """Compares everything that can be observed of the storage with the model."""
        self.verification.verify(self.storage, self.model, blame, touched or set())

    def verify_other(self, storage: Subject, model: Model, blame: Blame) -> None:
        """The same for another storage of the program."""
        self.verification.verify(storage, model, blame, set())

    def _verify_one(self, storage: Subject, model: Model, blame: Blame, touched: set[int]) -> None:
        self.verification.verify(storage, model, blame, touched)

    def _verify_twin(self) -> None:
        if self.twin:
            storage, model, requirement = self.twin
            self.verify_other(storage, model, law(requirement))

    def _compare(self, value: Any, span: Span, lead: tuple[int, ...], expression: str = "") -> None:
        self.verification.compare(self.model, value, span, lead, expression)

    def _all_rows(self) -> Span:
        return Span(
            tuple(range(len(self.model))), (self.model.readable, *self.model.trailing), self.model.trailing
        )

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


def change(data: Any) -> None:
    """Changes every tensor of a container, or of a list of them, in place."""
    for tensor in tensors(data):
        if tensor.dtype == torch.bool:
            tensor.logical_not_()
        elif tensor.dtype.itemsize > 1 or not tensor.dtype.is_floating_point:
            tensor.add_(1)


def _cloned(value: Any) -> Any:
    """A deep copy that clones tensors of every kind."""
    if isinstance(value, torch.Tensor | TensorDictBase) or is_tensorclass(value):
        return value.clone()
    if isinstance(value, dict):
        copied = copy.copy(value)  # of the same type: an OrderedDict with attributes of its own stays one
        copied.update({key: _cloned(entry) for key, entry in value.items()})
        return copied
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_cloned(entry) for entry in value)
    return value


def _holds(storage: Any, row: int) -> Any:
    return row in storage


def _few(storage: Any, most: int) -> list[Any]:
    found: list[Any] = []
    iterator: Iterator[Any] = iter(storage)
    while len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
    return found
