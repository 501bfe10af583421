"""Writes, reads and refusals: each method is the story of one call.

Act on the storage, act on the model, compare; every comparison stands under the requirement that it checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from storage_conformance.batch import Batch
from storage_conformance.concern import axis_requirements, index_requirement
from storage_conformance.index import Index, Span, at
from storage_conformance.pair import Pair
from storage_conformance.recorder import Violation
from storage_conformance.structure import observe, tensors
from storage_conformance.subject import Given
from storage_conformance.verification import Blame, law

__all__ = ["Calls", "change"]


class Calls(Pair):
    """The calls that write a storage, read it, or have to be refused."""

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
                claim = ""
                if mode == "grad":
                    self.storage.program.precede("returned = ")
                    claim = "returned is None"
                raise Violation(f"set returned {type(returned).__name__}", claim=claim)
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
        if self.setup.device == "auto" and self.model.fresh and self.lab.device != "cpu":
            batch = replace(batch, device=self.lab.device)  # where the storages of this run are
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


def change(data: Any) -> None:
    """Changes every tensor of a container, or of a list of them, in place."""
    for tensor in tensors(data):
        if tensor.dtype == torch.bool:
            tensor.logical_not_()
        elif tensor.dtype.itemsize > 1 or not tensor.dtype.is_floating_point:
            tensor.add_(1)


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
