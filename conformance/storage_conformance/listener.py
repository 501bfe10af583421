"""An attached entity that writes down what it is told, and what it can see at that moment."""

from __future__ import annotations

from typing import Any

from storage_conformance.subject import Subject

__all__ = ["Call", "Journal", "Listener"]


class Call:
    """One call of `mark_update`: who was told, with which index, and the length and rows seen."""

    def __init__(self, name: str, index: Any, length: Any, rows: Any):
        self.name = name
        self.index = index
        self.length = length
        self.rows = rows


class Journal(list[Call]):
    """The calls of all listeners of one storage, in order."""


class Listener:
    """Never raises: what goes wrong when it looks is seen by whoever reads the journal."""

    def __init__(self, name: str, journal: Journal, watched: Subject | None = None):
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
                rows = self._watched.peek(range(0, self._watched.attribute("shape")[0]))
            except Exception as error:
                length = rows = error
        copied = index.clone() if hasattr(index, "clone") else index
        self._journal.append(Call(self.name, copied, length, rows))
