"""Many cases on benches, of which each is shown alone where it fails alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.recorder import Found
from storage_conformance.suite.bench import Bench

__all__ = ["SPOILED", "assigning", "every", "in_turn", "reading", "reads_and_writes"]

Case = TypeVar("Case")
SPOILED = object()
"""What an act returns that leaves its storage in a state that the others do not expect."""


def every(lab: Lab, requirement: str, cases: Iterable[Case], act: Callable[[Case], None]) -> None:
    """Tries all cases, each in a program of its own.

    What goes wrong for another requirement (a refused write that moves the length) must not hide the cases behind it:
    it is raised only if no case violates `requirement`.
    """
    other: tuple[Found, Any] | None = None
    for case in cases:
        lab.start()
        try:
            act(case)
        except Found as found:
            if found.requirement == requirement:
                raise
            other = other or (found, lab.program)
    if other is not None:
        lab.program = other[1]
        raise other[0]


def in_turn(make: Callable[[], Bench], acts: Iterable[Callable[[Bench], object]]) -> None:
    """Tries acts one after the other on one storage; what goes wrong is shown on a storage of its own if it can be.

    An act that returns `SPOILED` leaves the storage in a state that the others do not expect.
    """
    bench = make()
    lab = bench.lab
    for act in acts:
        try:
            if act(bench) is SPOILED:
                lab.start()
                bench = make()
        except Found as found:
            long = lab.program
            lab.start()
            try:
                act(make())
            except Found as again:
                if again.requirement == found.requirement:
                    raise
            lab.program = long
            raise


def reads_and_writes(
    make: Callable[[], Bench], requirement: str, readable: Iterable[Index], writable: Iterable[Index]
) -> None:
    """Each index in `get` and `[]=` against the readable rows, then in `set` against the capacity."""

    def write(bench: Bench, index: Index) -> None:
        bench.fill_up()
        bench.set(requirement, index)

    acts = [act(requirement, index) for index in readable for act in (reading, assigning)]
    in_turn(make, [*acts, *(partial(write, index=index) for index in writable)])


def reading(requirement: str, index: Index) -> Callable[[Bench], object]:
    """A `get` for `in_turn`."""
    return lambda bench: bench.get(requirement, index)


def assigning(requirement: str, index: Index) -> Callable[[Bench], object]:
    """A `[]=` for `in_turn`."""
    return lambda bench: bench.assign(requirement, index)
