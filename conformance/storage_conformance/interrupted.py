"""The story of one dump that fails midway, and of what a load finds at its path afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from storage_conformance.interruption import Moment, killed, midway
from storage_conformance.model import Model
from storage_conformance.pair import Pair
from storage_conformance.recorder import Found, Violation, error_of
from storage_conformance.steps import Setup
from storage_conformance.subject import Literal, Subject
from storage_conformance.verification import Verification, law

__all__ = ["Place", "dump_again", "dump_killed", "dump_midway", "holds"]

REFUSALS = (OSError, RuntimeError)
"""What a dump that cannot be written raises (CKPT-30)."""


@dataclass(frozen=True)
class Place:
    """Where a dump goes.

    Attributes:
        path: the path.
        shown: its Python text in the program shown.
        size: `max_size` of the storages into which the dumps there are loaded.
        older: what the dump that is there holds, and the setup of its storage; None if nothing is there.
    """

    path: Path
    shown: str
    size: int
    older: tuple[Setup, Model] | None = None

    @property
    def literal(self) -> Literal:
        return Literal(self.path, self.shown)


def dump_midway(pair: Pair, place: Place, moment: Moment, error: type[BaseException]) -> None:
    """A dump that raises, and what it leaves; of one that returns all the same, everything has to be there."""
    storage, lab = pair.storage, pair.lab
    call = f"lambda: {storage.name}.dumps({{}}), {moment.code}, error={error.__name__}"
    storage.program.add(f"raised = midway({call})", place.literal)
    raised = midway(partial(storage.raw.dumps, place.path), moment, error)
    _verify_unchanged(pair)
    if isinstance(raised, Exception):
        with lab.noting("CKPT-30"):
            if not isinstance(raised, REFUSALS):
                raise Violation(
                    f"expected OSError or RuntimeError, got {type(raised).__name__}: {str(raised)[:200]}",
                    claim="isinstance(raised, (OSError, RuntimeError))",
                    actual=type(raised).__name__,
                )
    if raised is None:
        _judge_complete(pair, place)
    else:
        _judge(pair, place, mixed="CKPT-25", lost="CKPT-26")


def _verify_unchanged(pair: Pair) -> None:
    try:
        pair.verify(law("CKPT-21"))
    except Found as found:
        if not pair.lab.note(found):
            raise


def dump_killed(pair: Pair, place: Place, moment: Moment) -> None:
    """A dump whose process is killed, and what it leaves."""
    storage = pair.storage
    storage.program.add(f"killed(lambda: {storage.name}.dumps({{}}), {moment.code})", place.literal)
    killed(partial(storage.raw.dumps, place.path), moment, pair.lab.folder)
    _judge(pair, place, mixed="CKPT-27", lost="CKPT-28")


def dump_again(pair: Pair, place: Place) -> None:
    """The next dump to the same path replaces what the one that failed left behind."""
    with pair.lab.checking("CKPT-29"):
        pair.storage.call("dumps", place.literal)
    storage = pair.another(place.size)
    with pair.lab.checking("CKPT-29"):
        storage.call("loads", place.literal)
    model = Model(place.size, pair.model.ndim, pair.model.trailing, pair.model.node)
    model.take(pair.model)
    pair.verify_other(storage, model, law("CKPT-29"))


def _judge_complete(pair: Pair, place: Place) -> None:
    storage, error = _loaded(pair, place)
    with pair.lab.noting("CKPT-30"):
        if error is not None or not holds(pair, storage, place.size, (pair.setup, pair.model), "CKPT-30"):
            raise Violation(
                "the dump raised nothing, and a load does not give what was dumped",
                claim=f"raised or alike({storage.name}, {pair.storage.name})",
                actual="False",
            )


def _judge(pair: Pair, place: Place, *, mixed: str, lost: str) -> None:
    """A load gives one of the two dumps whole, or is refused; that only costs the older one if there was one."""
    storage, error = _loaded(pair, place)
    names = ["older", pair.storage.name] if place.older else [pair.storage.name]
    alike = " or ".join(f"alike({storage.name}, {name})" for name in names)
    with pair.lab.noting(mixed):
        if error is None and not _is_one_of_them(pair, place, storage, mixed):
            raise Violation(
                f"the load gives neither {'the older dump nor ' if place.older else ''}the newer one",
                claim=f"{storage.name}.shape is None or {alike}",
                actual="False",
            )
    if error is not None:
        pair.lab.allowed(error)
    if place.older:
        with pair.lab.noting(lost):
            if error is not None:
                raise Violation(
                    f"neither of the two dumps can be loaded: {type(error).__name__}: {str(error)[:200]}",
                    claim=alike,
                    actual="False",
                )


def _is_one_of_them(pair: Pair, place: Place, storage: Subject, requirement: str) -> bool:
    found = [(pair.setup, pair.model)] + ([place.older] if place.older else [])
    return any(holds(pair, storage, place.size, dumped, requirement) for dumped in found)


def _loaded(pair: Pair, place: Place) -> tuple[Subject, Exception | None]:
    """One more storage, into which the dump was loaded unless that was refused."""
    storage = pair.another(place.size)
    error = error_of(partial(storage.call, "loads", place.literal))
    storage.program.precede("with contextlib.suppress(Exception): ")
    return storage, error


def holds(pair: Pair, storage: Subject, size: int, dumped: tuple[Setup, Model], requirement: str) -> bool:
    """Whether a storage of `max_size` `size` holds exactly what was dumped."""
    setup, rows = dumped
    model = Model(size, setup.ndim, setup.trailing, setup.node)
    model.take(rows)
    try:
        Verification(pair.lab.control(requirement), setup).verify(storage, model, law(requirement), set())
    except Found:
        return False
    return True
