"""Chapter CKPT: what dumps and loads leave alone, and dumps of which a file is another one's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from storage_conformance.attribution import play
from storage_conformance.damage import (
    altered,
    copied,
    cut,
    files_of,
    missing,
    removed,
    shown_file,
    surroundings,
)
from storage_conformance.interrupted import holds
from storage_conformance.lab import Lab
from storage_conformance.recorder import Found, Violation, error_of
from storage_conformance.structure import Fields, Leaf, Node, Tree
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.checkpoints_damage import damages
from storage_conformance.suite.sequels import (
    NESTED,
    PAIR,
    SHAPES,
    STEP,
    filled,
    label,
    load_aside,
    rows,
    sequel,
    setup_in,
    shelved,
)
from storage_conformance.trial import Trial

BYSTANDERS = ("notes.txt", ".hidden", "dump.tmp", "dump.bak", ".dump.part", "tmp/storage", "other/0")
"""Files beside a dump and above it, which are nobody's business."""

PLACE = Path("in", "here", "dump")
"""Where the dump goes, so deep that `..` leads to bystanders."""

KEYS = (
    "../x",
    "../../x",
    "x/../../y",
    "../dump.tmp",
    "..",
    ".",
    "a/b",
    "a.b",
    "~",
    "*",
    "a\\b",
    "A",
    " ",
    "tmp",
)
"""Keys that mean something to a file system."""


def neighbourhood(lab: Lab, around: Path | None = None) -> Path:
    """A folder with bystanders, among whom a dump is to go; the program shown calls it `around`."""
    around = around or lab.path()
    for folder in (around, (around / PLACE).parent):
        for name in BYSTANDERS:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
    lab.program.add("around = neighbourhood({}, {})", Literal(None, label("around")), BYSTANDERS)
    return around


def _dump_among(lab: Lab, trial: Trial, around: Path, place: Path = PLACE) -> bool:
    """Dumps, if that is not refused, and looks whether anything else has changed."""
    path, shown = around / place, Literal(around / place, f"around / {place.as_posix()!r}")
    before = surroundings(around, apart=path)
    lab.program.add("before = surroundings(around, {})", shown)
    if error_of(partial(trial.storage.call, "dumps", shown)) is not None:
        return False
    after = surroundings(around, apart=path)
    with lab.noting("CKPT-31"):
        for name in sorted(before.keys() | after.keys()):
            if (name in before, before.get(name)) != (name in after, after.get(name)):
                verb = "created" if name not in before else "removed" if name not in after else "changed"
                raise Violation(
                    f"the dump has {verb} {name}, outside its path",
                    claim=f"surroundings(around, around / {place.as_posix()!r}) == before",
                    actual="False",
                )
    return True


def _named(lab: Lab, around: Path) -> Iterator[Node]:
    for key in (*KEYS, str(around / "x"), str(around / "dump.tmp")):
        if lab.claims("pytree"):
            yield Tree("dict", ((key, Leaf()), ("b", Leaf())))
            yield Tree("dict", ((key, Tree("dict", (("c", Leaf()),))), ("b", Leaf())))
        yield Fields(((key, Leaf()), ("b", Leaf())))
        yield Fields((("a", Fields(((key, Leaf()),))), ("b", Leaf())))
    yield Fields((("a.b", Leaf()), ("a", Fields((("b", Leaf()),))), ("a/b", Leaf()), ("A.b", Leaf())))


@check("CKPT-5", "CKPT-31")
def keys_are_no_paths(lab: Lab) -> None:
    """Keys that a storage refuses to take or to dump, are no matter of CKPT-31."""
    around = lab.path()
    for node in _named(lab, around):
        setup = setup_in(SHAPES[0], node)
        trial = play(lab, setup)
        index, batch = rows(setup, 0, 2, 3).arguments
        neighbourhood(lab, around)  # first: a storage of files may make paths of keys when it is written
        accepted = error_of(partial(trial.storage.set, index, batch)) is None
        trial.model.set(trial.model.for_writing(index), batch)
        if accepted and _dump_among(lab, trial, around):
            shown = Literal(around / PLACE, f"around / {PLACE.as_posix()!r}")
            try:
                load_aside(trial, around / PLACE, trial.model, "CKPT-5", shown=shown)
            except Found as found:
                if not lab.note(found):
                    raise
        shutil.rmtree(around)


@check("CKPT-31")
def neighbours_of_a_dump_are_left_alone(lab: Lab) -> None:
    """A first dump, one over an older one, and one whose parent folders are missing."""
    for shape, node in ((SHAPES[0], PAIR), (SHAPES[2], STEP), (SHAPES[3], NESTED)):
        setup = setup_in(shape, node)
        trial = play(lab, setup, *filled(setup, "full", 3))
        around = neighbourhood(lab)
        _dump_among(lab, trial, around)
        trial.write(*rows(setup, 0, 1, 9).arguments)
        _dump_among(lab, trial, around)
        place = Path("missing", "dump")
        (around / place.parent).mkdir()
        lab.program.add("{}", Literal(None, f"(around / {place.parent.as_posix()!r}).mkdir()"))
        _dump_among(lab, trial, around, place)
        shutil.rmtree(around)


@check("CKPT-31")
def links_in_an_older_dump_are_not_followed(lab: Lab) -> None:
    """Each file and each folder of the older dump in turn is elsewhere, and a link leads there."""
    for shape, node in ((SHAPES[0], PAIR), (SHAPES[3], NESTED)):
        setup = setup_in(shape, node)
        number, names = 0, [PLACE]
        while number < len(names):
            trial = play(lab, setup, *filled(setup, "full", 3))
            around = neighbourhood(lab)
            if _dump_among(lab, trial, around):
                names = sorted(path.relative_to(around) for path in (around / PLACE).rglob("*"))
                if number < len(names):
                    _move_out(lab, around, names[number])
                    trial.write(*rows(setup, 0, 1, 9).arguments)
                    _dump_among(lab, trial, around)
            shutil.rmtree(around)
            number += 1


def _move_out(lab: Lab, around: Path, name: Path) -> None:
    """Moves something of a dump elsewhere, and leaves a link to it."""
    dump = f"around / {PLACE.as_posix()!r}"
    inside = (around / name).relative_to(around / PLACE)
    shown = f"{dump} / {inside.as_posix()!r}" if (around / name).is_dir() else shown_file(inside, dump)
    (around / name).rename(around / "elsewhere")
    (around / name).symlink_to(around / "elsewhere")
    there = 'around / "elsewhere"'
    lab.program.add("{}", Literal(None, f"(e := {shown}).rename({there}), e.symlink_to({there})"))


def _leaves_no_trace(lab: Lab, trial: Trial, dump: Path) -> None:
    """Loads, whether it is refused or not, and looks whether the files are as before."""
    before = surroundings(dump)
    lab.program.add("before = surroundings({})", Literal(dump, label(0)))
    error_of(partial(trial.storage.call, "loads", Literal(dump, label(0))))
    lab.program.precede("with contextlib.suppress(Exception): ")
    after = surroundings(dump)
    with lab.noting("CKPT-32"):
        for name in sorted(before.keys() | after.keys()):
            if (name in before, before.get(name)) != (name in after, after.get(name)):
                verb = "created" if name not in before else "removed" if name not in after else "changed"
                raise Violation(
                    f"the load has {verb} {name or 'the dump'}",
                    claim=f"surroundings({label(0)}) == before",
                    actual="False",
                )


@check("CKPT-32")
def loads_only_read(lab: Lab) -> None:
    """Good dumps and damaged ones, into fresh storages and used ones, and dumps that do not fit."""
    for shape, node in ((SHAPES[0], PAIR), (SHAPES[2], STEP), (SHAPES[3], NESTED)):
        setup = setup_in(shape, node)
        source = shelved(lab, setup, *filled(setup, "full", 3))
        good = source.dumps[0][0]
        load_aside(source, good, source.model, "CKPT-5")
        for used in (False, True):
            before = [rows(setup, 0, 1, 9)] if used else []
            _leaves_no_trace(lab, sequel(lab, source, setup, *before), good)
            for kinds, step in ((missing, 1), (cut, 2), (altered, 19)):
                for number, damaged in enumerate(damages(lab, source, kinds)):
                    if number % step == 0:
                        _leaves_no_trace(lab, sequel(lab, source, setup, *before), damaged)
        for other in (setup_in(shape, Fields((("c", Leaf()),))), setup_in(SHAPES[1], node)):
            if len(other.trailing) == len(setup.trailing):
                _leaves_no_trace(lab, sequel(lab, source, other, rows(other, 0, 1, 9)), good)


def _exchanges(one: Path, other: Path) -> Iterator[list[tuple[Path, Path]]]:
    """Files of one dump, and those of the other that come in their places: each, and as many as a copy has got to."""
    mine, theirs = files_of(one), files_of(other)
    pairs = [(name, name if name in theirs else theirs[n]) for n, name in enumerate(mine) if n < len(theirs)]
    yield from ([pair] for pair in pairs)
    yield from (pairs[:n] for n in range(2, len(pairs)))


@check("CKPT-33")
def dumps_with_files_of_another_are_refused(lab: Lab) -> None:
    pair, wide = setup_in(SHAPES[0]), setup_in(SHAPES[3], NESTED)
    stories = (
        (pair, filled(pair, "full", 3), filled(pair, "full", 9)),
        (pair, filled(pair, "full", 3), [rows(pair, 0, 2, 9)]),
        (wide, filled(wide, "partial", 3), filled(wide, "full", 9)),
    )
    for setup, one, other in stories:
        for first, second in ((one, other), (other, one)):
            source = shelved(lab, setup, *first)
            load_aside(source, *source.dumps[0], "CKPT-5")
            del lab.program.lines[-2:]  # the storage that loaded it
            lab.program.add("older = storage")
            target = sequel(lab, source, setup, *second)
            path = lab.path()
            with lab.checking("CKPT-20"):
                target.storage.call("dumps", Literal(path, label(1)))
            lines = list(lab.program.lines)
            for exchange in _exchanges(source.dumps[0][0], path):
                lab.program.lines[:] = lines
                _load_mixed(lab, source, target, path, exchange)


def _load_mixed(
    lab: Lab, source: Trial, target: Trial, path: Path, exchange: list[tuple[Path, Path]]
) -> None:
    dump, dumped = source.dumps[0]
    copy = copied(lab, dump)
    for name, theirs in exchange:
        shutil.copyfile(path / theirs, copy / name)
        lab.program.add(
            "{}", Literal(None, f"shutil.copyfile({shown_file(theirs, label(1))}, {shown_file(name)})")
        )
    storage = target.another(target.model.size)
    error = error_of(partial(storage.call, "loads", Literal(copy, label(0))))
    lab.program.precede("with contextlib.suppress(Exception): ")
    removed(copy)
    if error is not None:
        lab.allowed(error)
    with lab.noting("CKPT-33"):
        exact = any(
            holds(target, storage, target.model.size, (target.setup, model), "CKPT-33")
            for model in (dumped, target.model)
        )
        if error is None and not exact:
            names = " or ".join(f"alike({storage.name}, {name})" for name in ("older", target.storage.name))
            raise Violation(
                "the load gives neither of the two dumps",
                claim=f"{storage.name}.shape is None or {names}",
                actual="False",
            )
