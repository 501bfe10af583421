"""Leaves out of a counterexample each call without which it still shows the same.

The script is run without some of its calls. A call may go if the script still fails alike on the storage under test,
and still passes on a storage that conforms: whatever a check did besides, what is left is a counterexample in itself.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from storage_conformance.claims import claimed
from storage_conformance.script import Counterexample, prelude

__all__ = ["trimmed"]

RUNS = 400
"""Runs that the trimming of one program may take."""

MANY = 10_000
"""Items after which an iteration counts as endless."""


def trimmed(
    program: Counterexample, factory: Callable[..., Any], control: Callable[..., Any]
) -> Counterexample:
    """The smallest program that fails on storages of `factory` as `program` does, and passes on those of `control`.

    A program that has no claim and does not raise by itself gets one. The program itself if that cannot be.
    """
    try:
        names = _names(program)
    except Exception:
        return program
    wanted = _outcome(program, names, factory)
    if wanted is None and not program.claim and not program.call:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as one,
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as two,
        ):
            found = claimed(program, _before(names, factory, Path(one)), _before(names, control, Path(two)))
        if found is None:
            return program
        names = _names(found)
        program, wanted = found, _outcome(found, names, factory)
    if wanted is None or _outcome(program, names, control) is not None:
        return program
    runs, progress = 0, True
    while progress:
        progress = False
        for calls in _fewer(program.calls, keep=not (program.claim or program.call)):
            if runs >= RUNS:
                return program
            runs += 1
            fewer = program.after(calls)
            if _outcome(fewer, names, factory) == wanted and _outcome(fewer, names, control) is None:
                program, progress = fewer, True
                break
    return program


def _fewer(calls: tuple[str, ...], *, keep: bool) -> Iterator[tuple[str, ...]]:
    """Fewer calls, the boldest first; the last one stays where it is the one that goes wrong."""
    last = len(calls) - keep
    size = 1 << max(0, last - 1).bit_length()
    while size:
        for first in range(0, last, size):
            yield calls[:first] + calls[min(first + size, last) :]
        size //= 2


def _names(program: Counterexample) -> dict[str, Any]:
    """What the script defines before its first call."""
    names: dict[str, Any] = {"__name__": __name__}  # tensorclass looks the module of a class up
    exec(compile(prelude(program, ""), "script", "exec"), names)
    return names


def _outcome(
    program: Counterexample, names: dict[str, Any], make: Callable[..., Any]
) -> tuple[str, str] | None:
    """What the script raises, None if it passes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        found = _before(names, make, Path(name))
        if any("list(storage" in line for line in program.code):
            found["list"] = _list
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n".join(program.code), "script", "exec"), found)
        except Exception as error:
            return type(error).__name__, str(error).replace(name, "")
        return None


def _before(names: dict[str, Any], make: Callable[..., Any], folder: Path) -> dict[str, Any]:
    """The names that a program finds before its first call."""
    if "order" in names:
        names["order"].clear()
    return dict(names, make=make, folder=folder)


def _list(items: Any = ()) -> list[Any]:
    """A list, of a storage that iterates for ever as well."""
    return [*itertools.islice(items, MANY)]
