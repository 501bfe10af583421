"""Chapter CKPT: dumps that fail midway, over an older dump and where there is none.

Each dump is made to fail at every moment that can be told from the others: at each call of Python to the file system,
and where a file has reached a size at which it would be torn.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from storage_conformance.attribution import play
from storage_conformance.damage import files_of
from storage_conformance.interrupted import Place, dump_again, dump_killed, dump_midway, holds
from storage_conformance.interruption import Moment, calls_of, can_kill, can_limit
from storage_conformance.lab import Lab
from storage_conformance.recorder import Found, Raised, Violation, error_of
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    NESTED,
    SHAPES,
    TRANSITION,
    filled,
    label,
    load_aside,
    rows,
    sequel,
    setup_in,
    shelved,
)
from storage_conformance.trial import Setup, Step, Trial, law

MOST_CALLS = 30
"""Calls at which a dump is made to fail; of a longer dump, those at its beginning, at its end, and some between."""

Story = tuple[Setup, list[Step]]


def _stories() -> list[tuple[Story | None, Story]]:
    """What the older dump holds, if there is one, and the newer one."""
    pair, wide = setup_in(SHAPES[0]), setup_in(SHAPES[2], TRANSITION)
    full, few = filled(pair, "full", 3), [rows(pair, 0, 2, 9)]
    return [
        ((pair, full), (pair, filled(pair, "full", 9))),
        ((pair, few), (pair, full)),
        ((setup_in(SHAPES[0], NESTED), filled(setup_in(SHAPES[0], NESTED), "full", 5)), (pair, few)),
        ((wide, filled(wide, "full", 3)), (wide, filled(wide, "partial", 9))),
        (None, (pair, full)),
    ]


def _numbers(calls: int) -> list[int]:
    if calls <= MOST_CALLS:
        return list(range(1, calls + 1))
    third = MOST_CALLS // 3
    between = range(third + 1, calls - third, -(-calls // third))
    return [*range(1, third + 1), *between, *range(calls - third + 1, calls + 1)]


class _Scene:
    """A storage that holds the newer rows, and an older dump to be put where it dumps, again and again."""

    def __init__(self, lab: Lab, older: Story | None, newer: Story) -> None:
        self.lab = lab
        self.first: Trial | None = None
        self.sound = True
        if older is not None:
            self.first = shelved(lab, older[0], *older[1])
            path, dumped = self.first.dumps[0]
            loaded = load_aside(self.first, path, dumped, "CKPT-5")
            self.sound = holds(self.first, loaded, dumped.size, (older[0], dumped), "CKPT-5")
            del lab.program.lines[-2:]  # the storage that loaded it
            lab.program.add("older = storage")
        begun = partial(play, lab) if self.first is None else partial(sequel, lab, self.first)
        self.trial = begun(newer[0], *newer[1])
        self._control()
        self._lines = list(lab.program.lines)

    def _control(self) -> None:
        """The newer dump and a load of it succeed where nothing goes wrong."""
        path, lines = self.lab.path(), list(self.lab.program.lines)
        with self.lab.checking("CKPT-20"):
            self.trial.storage.call("dumps", path)
        model = self.trial.model
        loaded = load_aside(self.trial, path, model, "CKPT-5")
        self.sound &= holds(self.trial, loaded, model.size, (self.trial.setup, model), "CKPT-5")
        self.sizes = sorted({(path / name).stat().st_size for name in files_of(path)})
        self.lab.program.lines[:] = lines

    def moments(self) -> Iterator[Moment]:
        """When the dump can fail; never, where a load is not exact even if none does."""
        if not self.sound:
            return
        with self.place() as place:
            calls = calls_of(partial(self.trial.storage.raw.dumps, place.path))
        yield from (Moment(call=number) for number in _numbers(calls))
        if can_limit():
            chosen = {0, 1, *(size // 2 for size in self.sizes[-3:]), *(size - 1 for size in self.sizes[-3:])}
            yield from (Moment(size=size) for size in sorted(chosen) if size >= 0)

    @contextmanager
    def place(self) -> Iterator[Place]:
        """A path with the older dump; what is left there and beside it is removed afterwards."""
        self.lab.program.lines[:] = self._lines
        base = self.lab.path()
        base.mkdir()
        path, older = base / "dump", None
        if self.first is not None:
            older = self.first.setup, self.first.model
            try:
                self.first.storage.raw.dumps(path)
            except Exception as error:
                with self.lab.checking("CKPT-20"):
                    raise Raised(error, "dumps") from error
        yield Place(path, label(0), self.trial.model.size, older)
        shutil.rmtree(base, ignore_errors=True)

    def again(self, place: Place) -> None:
        """The next dump; without it, the program goes on elsewhere."""
        try:
            dump_again(self.trial, place)
        except Found as found:
            if not self.lab.note(found):
                raise


@check("CKPT-21", "CKPT-25", "CKPT-26", "CKPT-29", "CKPT-30")
def dumps_that_raise_cost_nothing(lab: Lab) -> None:
    for older, newer in _stories():
        scene = _Scene(lab, older, newer)
        for moment in scene.moments():
            for error in (OSError, KeyboardInterrupt) if moment.size is None else (OSError,):
                with scene.place() as place:
                    dump_midway(scene.trial, place, moment, error)
                    scene.again(place)
        scene.trial.write(*rows(newer[0], 0, 1, 20).arguments)


@check("CKPT-27", "CKPT-28", "CKPT-29")
def dumps_that_are_killed_cost_nothing(lab: Lab) -> None:
    if not (lab.claims("fork") and lab.device == "cpu" and can_kill()):
        return
    for older, newer in _stories():
        scene = _Scene(lab, older, newer)
        for moment in scene.moments():
            with scene.place() as place:
                dump_killed(scene.trial, place, moment)
                scene.again(place)


@check("CKPT-30")
def dumps_below_a_file_raise(lab: Lab) -> None:
    """Where a parent of the path is a file, nothing can be written."""
    for shape in (SHAPES[0], SHAPES[2]):
        setup = setup_in(shape)
        trial = play(lab, setup, *filled(setup, "full", 3))
        for place in ("file/dump", "file/in/dump"):
            file = lab.path()
            file.write_text("a file")
            path = file / place.partition("/")[2]
            lab.program.add("({}).write_text('a file')", Literal(file, label("file")))
            with lab.checking("CKPT-30"):
                error = error_of(partial(trial.storage.call, "dumps", Literal(path, label(place))))
                if not isinstance(error, OSError | RuntimeError):
                    raise Violation(
                        f"expected OSError or RuntimeError, got {type(error).__name__ if error else 'nothing'}"
                    )
            lab.program.precede("with refused(OSError, RuntimeError): ")
            trial.verify(law("CKPT-21"))
            with lab.checking("CKPT-30"):
                if not file.is_file() or file.read_text() != "a file":
                    raise Violation("the file above the path was changed")
