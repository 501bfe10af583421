"""A storage with rows in it, beside its model, of which only rows that were written are compared.

Lengths, shapes, devices and never-written memory have chapters of their own; a check of an index must not stumble over
them. Rows are read back one by one, by plain integers, whatever the index under test. Rows that a write leaves out are
written as well before any row is read: whether they count at once is another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from storage_conformance.attribution import GENERAL, play
from storage_conformance.batch import Batch
from storage_conformance.concern import index_requirement
from storage_conformance.index import Index, Span, at
from storage_conformance.lab import Lab
from storage_conformance.model import Cell, Model
from storage_conformance.recorder import Found, Raised, Violation
from storage_conformance.structure import Node, observe
from storage_conformance.subject import Given
from storage_conformance.suite.grounds import Ground
from storage_conformance.trial import Step
from storage_conformance.verification import Verification

__all__ = ["ANY_REFUSAL", "Bench"]

ANY_REFUSAL: tuple[type[Exception], ...] = (TypeError, ValueError, LookupError, RuntimeError)

ABOUT_ROWS = ("DATA", "DTYPE", "GET", "IDX", "LAZY", "SET")
"""The chapters that answer for what rows hold."""


class Bench:
    """One storage and its model.

    Args:
        lab: where it is made.
        ground: what it holds at the beginning.
        node: the structure of an item.
        fresh: whether the rows of the ground are left unwritten.
    """

    def __init__(self, lab: Lab, ground: Ground, node: Node, *, fresh: bool = False, seed: int = 0) -> None:
        self.lab, self.node, self.setup = lab, node, ground.setup(node)
        self.model = Model(self.setup.size, self.setup.ndim, self.setup.trailing, node)
        options: dict[str, Any] = {} if self.setup.ndim == 1 else {"ndim": self.setup.ndim}
        self._ground, self._node = ground, node
        self._steps: list[Step] = []
        self._literal = False
        self._compared: int | None = None
        self._batches = 0
        self._completed: set[int] = set()
        self._verification = Verification(lab, self.setup)
        self._names: list[str] = []
        self._found: dict[int, tuple[str, Any]] = {}
        with lab.checking("NEW-1"):
            # A check may have several benches, and go back to an earlier one.
            others = sum(" = make(" in line for line, _ in lab.program.lines)
            self.storage = lab.make(self.setup.size, name=f"storage{others or ''}", **options)
        if not fresh:
            self.set(
                "SET-1", Index("range", (0, ground.rows)), self._items(Index("range", (0, ground.rows)), seed)
            )

    def batch(self, span: Span, seed: int | None = None, **aspects: Any) -> Batch:
        """New items for what an index addresses, other ones each time: a write that is lost has to show."""
        self._batches += 1
        seed = 20 + self._batches if seed is None else seed
        return Batch(self.node, span.lead, seed=seed, **aspects)

    # --- calls that have to succeed -------------------------------------------------------------------------

    def set(
        self,
        requirement: str,
        index: Index,
        batch: Batch | None = None,
        *,
        given: Any = None,
        data: Any = None,
        mode: str = "grad",
        addressed_only: bool = False,
    ) -> None:
        """A `set` after which each row is what it should be.

        Args:
            requirement: answers for the call and for all rows.
            index: what is addressed.
            batch: the items; new ones by default.
            given: the index as the storage gets it, if not `index` itself.
            data: the data as the storage gets them, if not the batch itself.
            mode: the autograd mode of the call.
            addressed_only: whether the other rows are left to the caller.
        """
        span = self.model.for_writing(index)
        batch = batch or self.batch(span)
        with self._blaming(requirement, "write", index, batch, mode, plain=given is None):
            self.storage.set(given or index, batch if data is None else data, mode)
            self.model.set(span, batch)
            self._complete()
            self._compare_rows(sorted(set(span.rows)) if addressed_only else None)

    def assign(
        self,
        requirement: str,
        index: Index,
        batch: Batch | None = None,
        *,
        given: Any = None,
        data: Any = None,
        mode: str = "grad",
        addressed_only: bool = False,
    ) -> None:
        """An assignment after which each row is what it should be; arguments as those of `set`."""
        span = self.model.for_reading(index)
        batch = batch or self.batch(span)
        with self._blaming(requirement, "assign", index, batch, mode, plain=given is None):
            self.storage.assign(given or index, batch if data is None else data, mode)
            self.model.assign(span, batch)
            self._compare_rows(sorted(set(span.rows)) if addressed_only else None)

    def get(
        self, requirement: str, index: Index, *, given: Any = None, spelling: str = "get", mode: str = "grad"
    ) -> Any:
        """A read that gives the rows addressed, in their order."""
        span = self.model.for_reading(index)
        with self._blaming(requirement, "read", index, mode, spelling, plain=given is None):
            value = (
                self.storage.get(given or index, mode, self._found_name())
                if spelling == "get"
                else self.storage.item(given or index, self._found_name())
            )
            self._found[id(value)] = self._names[-1], value
            self._compare(value, span, span.lead, self._names[-1])
        return value

    def prepared(self, act: Callable[[], object]) -> bool:
        """Whether an act did what the model says; for what a check needs and other requirements promise."""
        try:
            act()
        except Found:
            return False
        return True

    def fill_up(self) -> None:
        """Writes the rows up to the capacity."""
        if self.model.readable < self.model.capacity:
            self.set("SET-1", Index("range", (self.model.readable, self.model.capacity)))

    # --- calls that have to be refused ----------------------------------------------------------------------

    def refuse_set(
        self, requirement: str, index: Any, data: Any, *, only: type[Exception] = Exception
    ) -> None:
        self._refuse(requirement, lambda: self.storage.set(index, data), "the write", "ERR-1", only)

    def refuse_assign(
        self, requirement: str, index: Any, data: Any, *, only: type[Exception] = Exception
    ) -> None:
        self._refuse(requirement, lambda: self.storage.assign(index, data), "the assignment", "ERR-2", only)

    def refuse_get(self, requirement: str, index: Any) -> None:
        self._refuse(requirement, lambda: self.storage.get(index), "the read", "QRY-1")

    def _refuse(
        self, requirement: str, act: Callable[[], Any], what: str, law: str, only: type[Exception] = Exception
    ) -> None:
        errors: list[Exception] = []

        def noting() -> None:
            try:
                act()
            except Raised as raised:
                errors.append(raised.error)
                raise

        before = self.size()
        self.lab.refused(requirement, noting, what=what)
        with self.lab.checking(requirement):
            if not isinstance(errors[0], only):
                template, arguments = self.lab.program.lines[-1]
                call = template.split("): ", 1)[-1]
                self.lab.program.lines[-1] = f"with refused({only.__name__}): {call}", arguments
                raise Violation(
                    f"expected {only.__name__}, got {type(errors[0]).__name__}: {str(errors[0])[:200]}"
                )
        self.unchanged(law, before)

    # --- calls that may be refused --------------------------------------------------------------------------

    def may_set(
        self,
        requirement: str,
        index: Index,
        refusals: tuple[type[Exception], ...],
        *,
        given: Any = None,
        data: Any = None,
    ) -> bool:
        """A `set` that does what it says or is refused; gives whether it was accepted."""
        span = self.model.for_writing(index)
        batch = data.batch if isinstance(data, Given) else self.batch(span)
        before = self.size()
        with self._blaming(requirement, "write", index, batch, plain=given is None):
            accepted = self._accepted(lambda: self.storage.set(given or index, data or batch), refusals)
            if accepted:
                self.model.set(span, batch)
                self._complete()
                self._compare_rows()
        if not accepted:
            self._steps.pop()
            self.unchanged("ERR-1", before)
        return accepted

    def may_assign(
        self, requirement: str, index: Index, refusals: tuple[type[Exception], ...], *, given: Any = None
    ) -> bool:
        """An assignment that does what it says or is refused; gives whether it was accepted."""
        span = self.model.for_reading(index)
        batch = self.batch(span)
        before = self.size()
        with self._blaming(requirement, "assign", index, batch, plain=given is None):
            accepted = self._accepted(lambda: self.storage.assign(given or index, batch), refusals)
            if accepted:
                self.model.assign(span, batch)
                self._compare_rows()
        if not accepted:
            self._steps.pop()
            self.unchanged("ERR-2", before)
        return accepted

    def may_get(
        self, requirement: str, index: Index, refusals: tuple[type[Exception], ...], *, given: Any = None
    ) -> bool:
        """A read that gives the rows addressed or is refused; gives whether it was accepted."""
        span = self.model.for_reading(index)
        with self.lab.checking(requirement):
            try:
                value = self.storage.get(given or index, name=self._found_name())
            except Raised as raised:
                if not isinstance(raised.error, refusals):
                    raise
                self.lab.program.precede("with contextlib.suppress(Exception): ")
                return False
            self._compare(value, span, span.lead, self._names[-1])
        return True

    # --- comparing ------------------------------------------------------------------------------------------

    def rows(self, requirement: str, *, except_for: Container[int] = ()) -> None:
        """Each readable row is what it should be."""
        with self.lab.checking(requirement):
            self._compare_rows(row for row in range(self.model.readable) if row not in except_for)

    def contents(self, row: int) -> list[Cell]:
        """What a row holds, element by element."""
        return self.model.split(
            observe(self.storage.peek(row), self.node, self.model.trailing), self.model.width
        )

    def value(self, requirement: str, value: Any, index: Index) -> None:
        """`value`, read before, holds what the rows addressed by `index` hold now in the model."""
        span = self.model.for_reading(index)
        name, _ = self._found.get(id(value), ("", value))
        with self.lab.checking(requirement):
            self._compare(value, span, span.lead, name)

    def size(self) -> tuple[Any, Any]:
        """Shape and length, to be compared with themselves."""
        return self.storage.attribute("shape"), self.storage.length()

    def unchanged(self, law: str, before: tuple[Any, Any]) -> None:
        """Length, shape and rows are what they were."""
        with self.lab.checking(law):
            shape, length = self.size()
            if length != before[1]:
                raise Violation(
                    f"the length was {before[1]}, now it is {length}",
                    claim=f"len({self.storage.name}) == {before[1]}",
                    actual=str(length),
                )
            if shape != before[0]:
                raise Violation(
                    f"the shape was {before[0]}, now it is {shape}",
                    claim=f"{self.storage.name}.shape == {before[0]}",
                    actual=str(shape),
                )
            self._compare_rows()

    def _complete(self) -> None:
        """Writes the rows below the highest one that were left out."""
        width = self.model.width
        for row in range(self.model.readable):
            if row * width not in self.model.cells:
                batch = Batch(self.node, self.model.trailing, seed=row)
                self.storage.set(at(row), batch)
                self.model.set(self.model.for_writing(at(row)), batch)
                self._completed.add(row)

    def _compare_rows(self, rows: Iterable[int] | None = None) -> None:
        for row in range(self.model.readable) if rows is None else rows:
            self._compared = row
            name = f"{self.storage.name}.get({row})"
            self._compare(self.storage.peek(row), self.model.for_reading(at(row)), self.model.trailing, name)

    def _compare(self, value: Any, span: Span, lead: tuple[int, ...], expression: str) -> None:
        self._verification.compare(self.model, value, span, lead, expression)

    @property
    def last_found(self) -> str:
        """The variable that the program calls what was read last."""
        return self._names[-1]

    def _found_name(self) -> str:
        """A variable name for what is read next, another one each time."""
        self._names.append(f"found{len(self._names) or ''}")
        return self._names[-1]

    def _accepted(self, act: Callable[[], Any], refusals: tuple[type[Exception], ...]) -> bool:
        try:
            act()
        except Raised as raised:
            if not isinstance(raised.error, refusals):
                raise
            self.lab.program.precede("with contextlib.suppress(Exception): ")
            return False
        return True

    def _items(self, index: Index, seed: int) -> Batch:
        return self.batch(self.model.for_writing(index), seed)

    # --- who answers ----------------------------------------------------------------------------------------

    @contextmanager
    def _blaming(self, requirement: str, verb: str, *arguments: Any, plain: bool) -> Iterator[None]:
        """Attributes to `requirement` what goes wrong, unless it is the fault of something else.

        Under a general requirement (SET-1) a more specific one may answer; under a specific one (IDX-7) a general one
        does, if the same goes wrong with a plain index, plain data and in the plain mode.
        """
        self._steps.append(Step(verb, arguments))
        self._literal, self._compared = self._literal or not plain, None
        self._completed = set()
        try:
            with self.lab.checking(requirement):
                yield
        except Found as found:
            raise Found(self._answering(found, requirement), found.cause) from found

    def _answering(self, found: Found, requirement: str) -> str:
        if requirement in GENERAL - {"IDX-20"}:
            return requirement if self._literal else self._specific(found, self._steps)
        if requirement == "IDX-20":
            return requirement
        steps = [*map(_plain, self._steps[:-1]), self._with_plain_index(_plain(self._steps[-1]))]
        return self._specific(found, steps) if self._goes_wrong(steps) else requirement

    def _specific(self, found: Found, steps: list[Step]) -> str:
        """Who answers for what went wrong in the last step, under a general requirement."""
        last = steps[-1]
        general = {"write": "SET-1", "assign": "SET-16", "read": "GET-2"}[last.verb]
        written = {*self._addressed(last).rows, *self._completed}
        if self._compared is not None and self._compared not in written:
            general = "SET-2"
        if last.verb == "assign" and last.arguments[0].form == "cells":
            return general  # IDX-13 speaks of reading only
        if not self._goes_wrong([*steps[:-1], self._with_plain_index(_plain(last))]):
            return index_requirement(last.arguments[0])
        trial = self.lab.control()
        try:
            play(trial, self.setup, *steps)
        except Found as traced:
            return traced.requirement if traced.requirement.startswith(ABOUT_ROWS) else general
        # A trial reads all rows at once: where that is right, what is wrong is the reading of single ones.
        alone = general == "SET-1" and len(steps) == 1 and not self._completed
        return "IDX-1" if alone else general

    def _goes_wrong(self, steps: list[Step]) -> bool:
        lab = self.lab.control()
        bench = Bench(lab, self._ground, self._node, fresh=True)
        try:
            for step in steps:
                verbs: dict[str, Any] = {"write": bench.set, "assign": bench.assign, "read": bench.get}
                data = [argument for argument in step.arguments[1:] if isinstance(argument, Batch)]
                verbs[step.verb]("IDX-20", step.arguments[0], *data)  # which is not traced any further
        except Found:
            return True
        return False

    def _with_plain_index(self, step: Step) -> Step:
        (index, data), span = step.arguments, self._addressed(step)
        if index.form in ("tuple", "cells"):  # whole rows in place of elements
            rows = sorted(set(span.rows))
            plain, lead = Index("tensor", tuple(rows)), (len(rows), *span.trailing)
        else:
            plain, lead = index.plain(span)
        return Step(step.verb, (plain, data.reshaped(lead) if isinstance(data, Batch) else data))

    def _addressed(self, step: Step) -> Span:
        index = step.arguments[0]
        return self.model.for_writing(index) if step.verb == "write" else self.model.for_reading(index)


def _plain(step: Step) -> Step:
    """The step with dense data in new memory, in the plain mode and spelling."""
    index, second = step.arguments[:2]
    plain = replace(second, layout="plain", form="dense") if isinstance(second, Batch) else "grad"
    return Step(step.verb, (index, plain))
