"""An attached entity that writes down what it is told, and what it can see at that moment."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.index import Span
from storage_conformance.recorder import Violation
from storage_conformance.subject import Subject

__all__ = ["Call", "Journal", "Listener", "check_index"]


class Call:
    """One call of `mark_update`: who was told, with which index, and the length and rows seen."""

    def __init__(self, name: str, index: Any, length: Any, rows: Any) -> None:
        self.name = name
        self.index = index
        self.length = length
        self.rows = rows


class Journal(list[Call]):
    """The calls of all listeners of one storage, in order."""


class Listener:
    """Never raises: what goes wrong when it looks is seen by whoever reads the journal."""

    def __init__(self, name: str, journal: Journal, watched: Subject | None = None) -> None:
        self.name = name
        self._journal = journal
        self._watched = watched

    def __reduce__(self) -> tuple[Any, ...]:
        """A storage that copies its entities along gets a deaf one: nobody of the program hears the copy."""
        return Listener, (self.name, Journal())

    def mark_update(self, index: Any) -> None:
        length = rows = None
        if self._watched is not None:
            try:
                length = self._watched.length()
                rows = self._watched.peek(range(self._watched.attribute("shape")[0]))
            except Exception as error:
                length = rows = error
        copied = index.clone() if hasattr(index, "clone") else index
        self._journal.append(Call(self.name, copied, length, rows))


def check_index(index: Any, span: Span, ndim: int, expression: str) -> None:
    """Whether an entity was told of the rows of `span`, or of their elements where `ndim` is above 1.

    Args:
        index: what it was told.
        span: what changed.
        ndim: of the storage.
        expression: the Python text that gives `index`.

    Raises:
        Violation: it was not, or not in the form that SPEC.md names.
    """
    flat = ndim == 1
    if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or index.device.type != "cpu":
        raise Violation(
            f"mark_update got {type(index).__name__} {index!r:.80}, expected an int64 tensor on the CPU",
            claim=f"isinstance({expression}, torch.Tensor) and {expression}.dtype == torch.int64",
        )
    if index.dim() != (1 if flat else 2) or (not flat and index.shape[1] != ndim):
        raise Violation(
            f"mark_update got shape {list(index.shape)}, expected {'[n]' if flat else f'[n, {ndim}]'}",
            claim=f"{expression}.dim() == {1 if flat else 2}"
            + ("" if flat else f" and {expression}.shape[1] == {ndim}"),
        )
    rows = set(span.rows)
    if flat:
        if set(index.tolist()) != rows:
            raise Violation(
                f"mark_update got rows {sorted(set(index.tolist()))}, changed were {sorted(rows)}",
                claim=f"sorted(set({expression}.tolist())) == {sorted(rows)}",
                actual=str(sorted(set(index.tolist()))),
            )
        return
    told = {tuple(coordinates) for coordinates in index.tolist()}
    if missing := span.coordinates() - told:
        raise Violation(
            f"mark_update was not told of element {min(missing)}",
            claim=f"{list(min(missing))} in {expression}.tolist()",
        )
    if strangers := {coordinates for coordinates in told if coordinates[0] not in rows}:
        raise Violation(
            f"mark_update was told of element {min(strangers)}, which did not change",
            claim=f"{list(min(strangers))} not in {expression}.tolist()",
        )
