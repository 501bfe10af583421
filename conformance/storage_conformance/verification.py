"""Compares everything that can be observed of a storage with its model, each part under the requirement to blame."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass

from storage_conformance.comparison import difference, told
from storage_conformance.concern import container_requirement, dtype_requirement
from storage_conformance.index import Span, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Found, Raised, Recorder, Violation
from storage_conformance.steps import Setup
from storage_conformance.structure import Content, Leaf, Record, Text, observe, tensors
from storage_conformance.subject import Subject

__all__ = ["Blame", "Verification", "equal", "law"]


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


class Verification:
    """The comparisons of one trial."""

    def __init__(self, lab: Lab, setup: Setup) -> None:
        self.lab = lab
        self.setup = setup
        self._wrong: dict[tuple[str, bool], tuple[Any, str]] = {}

    def verify(self, storage: Subject, model: Model, blame: Blame, touched: set[int]) -> None:
        """Compares everything that can be observed; `touched` are the elements of the last write."""
        checking = self.lab.checking
        with checking(blame.length):
            equal(storage.length(), len(model), f"len({storage.name})")
        self._verify_attribute(storage, model, "shape", model.shape, blame.shape)
        max_size = blame.max_size if blame.max_size != "CAP-2" or not model.fresh else "CAP-1"
        self._verify_attribute(storage, model, "max_size", model.max_size, max_size)
        self._verify_device(storage, model, blame)
        if self.lab.claims("last_row"):
            self._verify_attribute(storage, model, "last_row", model.last_row, blame.last_row)
        if model.readable:
            self._verify_rows(storage, model, blame, touched)

    def _verify_device(self, storage: Subject, model: Model, blame: Blame) -> None:
        auto = self.setup.device == "auto"
        if model.fresh and auto:
            self._verify_attribute(storage, model, "device", "auto", blame.device or "DEV-4")
        elif not model.fresh:
            requirement = blame.device or ("DEV-5" if auto else "DEV-2")
            self._verify_attribute(storage, model, "device", self._home(storage), requirement)
        else:
            storage.attribute("device")

    def _home(self, storage: Subject) -> torch.device:
        """Where the leaves have to be; with `"auto"`, a load may have chosen where (DEV-8)."""
        asked = self.setup.device == "auto" and self.lab.device != "cpu"
        found = storage.attribute("device") if asked else None
        known = isinstance(found, torch.device) and str(found) in self.lab.devices
        return found if known else torch.device(self.lab.device)  # type: ignore[return-value]

    def _verify_attribute(
        self, storage: Subject, model: Model, name: str, expected: Any, requirement: str
    ) -> None:
        """Compares an attribute, wrong values of which leave the model right: they are noted, and the program goes on.

        What is wrong after one step is wrong after the next ones too, for which other requirements would answer: from
        then on it has to stay as it is while it should, and no more is asked of it until the storage is fresh again,
        or is so no more.
        """
        key = name, model.fresh
        wrong = self._wrong.get(key)
        actual: Any = None
        if wrong is not None:
            with suppress(Found), Recorder().checking(requirement):
                actual = storage.attribute(name)
            if wrong == (expected, str(actual)):
                self._count(requirement)
            return
        try:
            with self.lab.checking(requirement):
                actual = storage.attribute(name)
                plain = tuple(actual) if name == "shape" and actual is not None else actual
                equal(plain, expected, f"{storage.name}.{name}")
        except Found as found:
            self._wrong[key] = expected, str(actual)
            if not self.lab.note(found):
                raise

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
                    self.compare(
                        model,
                        storage.peek(row),
                        model.for_reading(at(row)),
                        model.trailing,
                        f"{storage.name}.get({row})",
                    )
                raise found
        self._count(
            *([blame.touched] if touched else []), *([blame.others] if len(touched) < len(cells) else [])
        )
        if zeros:
            self._count(blame.zero, *(["LAZY-4"] if model.taken.intersection(zeros) else []))
        self._verify_leaves(storage, value, blame)

    def _verify_leaves(self, storage: Subject, value: Any, blame: Blame) -> None:
        device = self._home(storage)
        with self.lab.noting(blame.device or "DEV-7"):
            container = isinstance(value, TensorDictBase) or is_tensorclass(value)
            if container and value.device is not None:
                equal(value.device, device, f"{storage.name}.get(0).device")
            for tensor in tensors(value):
                equal(tensor.device, device, "the device of a leaf")
        with self.lab.noting("SET-4"):
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
        path, node = cause.where
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

    def compare(self, model: Model, value: Any, span: Span, lead: tuple[int, ...], expression: str) -> None:
        """Compares what was read with what the model holds; `expression` is the Python text that gives it."""
        contents = observe(value, model.node, lead, expression)
        expected = model.expected(span.cells)
        found = difference(model.node, span.cells, model.width, expected, contents)
        if found is None:
            return
        wanted = [cell[found.number] for cell in expected]
        content: Content = b"".join(wanted) if isinstance(found.leaf, Leaf) else list(wanted)  # type: ignore[arg-type]
        raise told(found, expression, model.node, content, lead) if expression else found

    def _count(self, *requirements: str) -> None:
        self.lab.recorder.evaluations.update(requirements)


def equal(actual: Any, expected: Any, expression: str) -> None:
    """Raises a violation with a claim about `expression` unless the two are equal."""
    if (
        type(actual) is bool
        or actual != expected
        or (isinstance(expected, int) and not isinstance(actual, int))
    ):
        raise Violation(
            f"{expression} is {actual!r}, expected {expected!r}",
            claim=f"{expression} {_is(expected, expression if 'len(' not in expression else '')}",
            actual=repr(actual),
        )


def _is(expected: Any, expression: str) -> str:
    if expected is None:
        return "is None"
    if isinstance(expected, int) and expression:
        return f"== {expected!r} and isinstance({expression}, int)"
    return f"== torch.device({str(expected)!r})" if isinstance(expected, torch.device) else f"== {expected!r}"
