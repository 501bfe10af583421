"""Counts what was evaluated, and turns what goes wrong under `checking("LEN-3")` into a finding about LEN-3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

__all__ = ["Found", "Raised", "Recorder", "Violation", "error_of"]


class Violation(Exception):
    """A storage did not do what a requirement says.

    Attributes:
        claim: a Python expression that should hold, for the last line of the program shown.
        actual: what was there instead.
        aspect: what kind of difference it is, for the attribution.
        where: path and node of the part that differs, for the attribution.
    """

    def __init__(
        self, message: str, *, claim: str = "", actual: str = "", aspect: str = "", where: Any = None
    ) -> None:
        super().__init__(message)
        self.claim = claim
        self.actual = actual
        self.aspect = aspect
        self.where = where


class Raised(Exception):
    """A call of the backend raised `error`; `code` is its Python text where the program does not show it."""

    def __init__(self, error: Exception, call: str, code: str = "") -> None:
        super().__init__(f"{call} raised {type(error).__name__}: {_first_line(error)}")
        self.error = error
        self.code = code


class Found(BaseException):
    """A requirement is violated. No `Exception`, so that no handler on the way takes it for the backend's."""

    def __init__(self, requirement: str, cause: Violation | Raised) -> None:
        super().__init__(requirement, cause)
        self.requirement = requirement
        self.cause = cause

    @property
    def message(self) -> str:
        return str(self.cause)

    @property
    def exception(self) -> str:
        return type(self.cause.error).__name__ if isinstance(self.cause, Raised) else ""


class Recorder:
    """Evaluations by requirement."""

    def __init__(self) -> None:
        self.evaluations: Counter[str] = Counter()

    def checking(self, requirement: str) -> _Checking:
        """Counts one evaluation of `requirement`, and attributes to it what goes wrong inside the `with` block."""
        return _Checking(self, requirement)


class _Checking:
    __slots__ = ("_recorder", "_requirement")

    def __init__(self, recorder: Recorder, requirement: str) -> None:
        self._recorder = recorder
        self._requirement = requirement

    def __enter__(self) -> None:
        self._recorder.evaluations[self._requirement] += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Violation | Raised):
            raise Found(self._requirement, error) from error


def error_of(act: Callable[[], Any]) -> Exception | None:
    """What a call of the backend raises, or None."""
    try:
        act()
    except Raised as raised:
        return raised.error
    return None


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else ""
