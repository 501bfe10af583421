"""Chapter OBS: what an entity is told, when, and what happens if it raises."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import product
from math import prod
from typing import Any

import torch

from storage_conformance.batch import Batch
from storage_conformance.damage import copied, files_of, removed, shown_file
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation, error_of
from storage_conformance.structure import Fields, Leaf
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.check import check
from storage_conformance.suite.data import SCALAR
from storage_conformance.suite.entities import NODE, Audience, Journal, Plain, assignable
from storage_conformance.suite.picture import Picture, picture
from storage_conformance.suite.states import Shape, capacity_of
from storage_conformance.suite.stories import SHAPES, all_of, elements, places
from storage_conformance.trial import Setup, Trial, law


def _loads(shape: Shape) -> Iterable[tuple[int, int, str]]:
    """Rows of the dump, rows held before, and the spelling."""
    capacity = capacity_of(shape)
    for held, verb in product(sorted({0, 1, capacity}), ("loads", "load")):
        yield capacity, held, verb
    yield 1, capacity, "loads"


@check("OBS-3")
def every_load_is_told_with_all_rows(lab: Lab) -> None:
    def load(shape: Shape, rows: int, held: int, verb: str) -> None:
        audience = Audience(lab, shape, rows=held)
        for name in ("first", "second"):
            audience.attach(name)
        audience.load(audience.dump(rows)[0], verb)
        told = list(audience.journal)
        audience.expect("OBS-3", "first", "second")
        for name, index in told:
            with lab.checking("OBS-10" if shape[1] else "OBS-9"):
                _check_form(name, index, shape[1])
            with lab.checking("OBS-3"):
                _check_all_rows(name, index, rows, shape[1])

    all_of(lab, "OBS-3", [partial(load, shape, *case) for shape in SHAPES for case in _loads(shape)])


def _check_form(name: str, index: Any, trailing: tuple[int, ...]) -> None:
    told, dims = f"{name}.calls[-1]", 2 if trailing else 1
    if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or index.device.type != "cpu":
        raise Violation(
            f"mark_update got {index!r:.80} after a load, expected an int64 tensor on the CPU",
            claim=f"isinstance({told}, torch.Tensor) and {told}.dtype == torch.int64",
        )
    if index.dim() != dims or (trailing and index.shape[1] != 1 + len(trailing)):
        width = f" and {told}.shape[1] == {1 + len(trailing)}" if trailing else ""
        raise Violation(
            f"mark_update got shape {list(index.shape)} after a load", claim=f"{told}.dim() == {dims}{width}"
        )


def _check_all_rows(name: str, index: torch.Tensor, rows: int, trailing: tuple[int, ...]) -> None:
    told = {tuple(entry) for entry in (index if trailing else index[:, None]).tolist()}
    expected = set(product(range(rows), *map(range, trailing)))
    if told != expected:
        different = min(told ^ expected)
        told_of = "not told" if different in expected else "told"
        wanted = sorted(map(list, expected) if trailing else (row for (row,) in expected))
        raise Violation(
            f"{name} was {told_of} of {different} after a load of {rows} rows",
            claim=f"sorted({name}.calls[-1].tolist()) == {wanted}",
        )


class Observer(Plain):
    """Takes a picture of the storage when it is told."""

    def __init__(self, name: str, journal: Journal, lab: Lab, storage: Subject) -> None:
        super().__init__(name, journal)
        self._look = partial(picture, lab, storage)

    def mark_update(self, index: Any) -> None:
        try:
            self.journal.append((self.name, self._look()))
        except Raised as raised:
            self.journal.append((self.name, raised))


@check("OBS-5")
def entities_find_everything_in_place(lab: Lab) -> None:
    def watch(shape: Shape) -> None:
        audience = Audience(lab, shape)
        rows, names, storage = audience.capacity, ("first", "second"), audience.trial.storage
        path, _ = audience.dump(rows)
        for name in names:
            audience.attach(name, lambda name, journal: Observer(name, journal, lab, storage))
        changes: list[tuple[str, Callable[[], object]]] = [
            ("OBS-1", partial(audience.write, at(0))),
            ("OBS-1", partial(audience.write, Index("range", (0, rows)))),
            ("OBS-1", partial(audience.write, Index("tensor", tuple(reversed(range(rows)))), seed=8)),
            ("OBS-2", partial(audience.assign, at(-1))),
            ("OBS-2", partial(audience.assign, Index("slice", (None, None, None)), seed=9)),
            *(("OBS-1", partial(audience.write, index, seed=10)) for index in elements(audience.trailing)),
            ("OBS-3", partial(audience.load, path)),
        ]
        for requirement, change in changes:
            change()
            seen = list(audience.journal)
            audience.expect(requirement, *names)
            with lab.checking("OBS-5"):
                _compare(seen, picture(lab, storage))

    all_of(lab, "OBS-5", [partial(watch, shape) for shape in SHAPES])


def _compare(seen: Journal, afterwards: Picture) -> None:
    for name, view in seen:
        if isinstance(view, Raised):
            raise Violation(f"reading the storage inside {name}.mark_update failed: {view}")
        for (what, then), (_, now) in zip(view, afterwards, strict=False):
            if then != now and what != "last_row":  # only the data and the length are promised
                raise Violation(
                    f"{name} saw {what} as {str(then)[:80]} when it was told, afterwards it is {str(now)[:80]}"
                )
        if len(view) != len(afterwards):
            raise Violation(f"{name} saw another number of rows when it was told than there are afterwards")


@check("OBS-9", "OBS-10")
def the_index_names_what_changed(lab: Lab) -> None:
    def writes(shape: Shape) -> None:
        setup = Setup(shape[0], 1 + len(shape[1]), shape[1], NODE, listeners=2)
        rows = capacity_of(shape)
        for first in places(rows):
            trial = Trial(lab, setup)
            trial.write(first, Batch(NODE, trial.model.for_writing(first).lead))
        trial = Trial(lab, setup)
        trial.write(at(0), Batch(NODE, shape[1]))
        indices = [
            Index("range", (rows - 1, -1, -1)),
            Index("slice", (0, rows, 2)),
            Index("tensor", (0, 0, rows - 1)),
        ]
        indices += [Index("list", (0, rows - 1)) if rows > 1 else at(0), Index("int32", (rows - 1, 0))]
        for index in (*indices, Index("grid", ((2, 1), (0, rows - 1))), *elements(shape[1])):
            trial.write(index, Batch(NODE, trial.model.for_writing(index).lead, seed=3))

    def assignments(shape: Shape) -> None:
        rows = capacity_of(shape)
        trial = Trial(lab, Setup(shape[0], 1 + len(shape[1]), shape[1], NODE, listeners=2))
        trial.write(Index("range", (0, rows)), Batch(NODE, (rows, *shape[1])))
        bits = tuple(number % 5 == 0 for number in range(rows * prod(shape[1])))
        cells = [Index("cells", ((rows, *shape[1]), bits))] if shape[1] else []
        for index in (*assignable(rows, shape[1]), *cells):
            trial.assign(index, Batch(NODE, trial.model.for_reading(index).lead, seed=4))

    for requirement, shapes in (("OBS-9", SHAPES[:2]), ("OBS-10", SHAPES[2:])):
        all_of(lab, requirement, [partial(act, shape) for shape in shapes for act in (writes, assignments)])


@check("OBS-9", "OBS-10")
def the_index_after_a_load_has_the_same_form(lab: Lab) -> None:
    for shape in SHAPES:
        audience = Audience(lab, shape)
        audience.attach("entity")
        audience.load(audience.dump(audience.capacity)[0])
        told = list(audience.journal)
        audience.expect("OBS-3", "entity")
        with lab.checking("OBS-10" if shape[1] else "OBS-9"):
            _check_form("entity", told[0][1], shape[1])


@check("OBS-11")
def nobody_is_told_when_nothing_changes(lab: Lab) -> None:
    def silent(shape: Shape, held: int) -> None:
        rows = capacity_of(shape)
        trial = Trial(lab, Setup(shape[0], 1 + len(shape[1]), shape[1], NODE, listeners=2))
        one, few = Batch(NODE, shape[1]), Batch(NODE, (2, *shape[1]))
        if held:
            trial.write(Index("range", (0, rows)), Batch(NODE, (rows, *shape[1])))
        for empty in (Index("list"), Index("range", (0, 0)), Index("slice", (0, 0, None)), Index("tensor")):
            trial.write_nothing(empty, Batch(NODE, (0, *shape[1])))
            if held:
                with lab.checking("SET-16"):
                    trial.storage.assign(empty, Batch(NODE, (0, *shape[1])))
                _nobody(lab, trial, "an assignment of no rows")
        trial.refuse_write(at(rows), one, "CAP-4")
        trial.refuse_write(Index("list", (0, rows)), few, "CAP-4")
        trial.refuse_write(Index("raw", (True, "True")), one, "IDX-15")
        trial.refuse_write(Index("range", (0, 1)), few, "SET-9")
        if held:
            other = Fields((("a", SCALAR), ("b", Leaf(feature=(3,)))))
            trial.refuse_write(at(0), Batch(other, shape[1]), "SET-8")
            trial.refuse_assign(at(0), Batch(other, shape[1]), "SET-8")
            trial.refuse_assign(at(rows), one, "SET-17")
            for index in (
                at(0),
                at(-1),
                Index("list", (0,)),
                Index("slice", (None, None, None)),
                Index("mask", (True,) * rows),
            ):
                trial.read(index, "grad", "get")
        trial.look()

    all_of(lab, "OBS-11", [partial(silent, shape, held) for shape in SHAPES for held in (0, 1)])


@check("OBS-11")
def nobody_is_told_of_a_load_that_failed(lab: Lab) -> None:
    for shape in SHAPES:
        for held in (0, capacity_of(shape)):
            for requirement in ("CKPT-14", "CKPT-11", "CKPT-15"):
                audience = Audience(lab, shape, rows=held)
                audience.attach("entity")
                path = Literal(lab.path(), 'folder / "nothing"')
                if requirement == "CKPT-15":
                    _nobody_is_told_of_damage(lab, audience)
                    continue
                if requirement == "CKPT-11":
                    path, _ = audience.dump(
                        2 * audience.capacity, size=2 * audience.capacity * prod(shape[1])
                    )
                lab.refused(requirement, partial(audience.trial.storage.call, "loads", path), what="the load")
                with lab.checking("OBS-11"):
                    if audience.journal:
                        lab.program.before_last("forget()")
                        raise Violation(
                            "the entity was told of a load that failed", claim="told(entity) == 0"
                        )


def _nobody_is_told_of_damage(lab: Lab, audience: Audience) -> None:
    path, _ = audience.dump(audience.capacity)
    for name in files_of(path.value):
        copy = copied(lab, path.value)
        os.truncate(copy / name, (copy / name).stat().st_size // 2)
        lab.program.add("{}", Literal(None, f"os.truncate({shown_file(name, path.text)}, 8)"))
        if error_of(partial(audience.trial.storage.call, "loads", Literal(copy, path.text))) is None:
            return  # whether that may be, is a matter of CKPT-15
        lab.program.precede("with refused(): ")
        removed(copy)
        with lab.checking("OBS-11"):
            if audience.journal:
                lab.program.before_last("forget()")
                raise Violation("the entity was told of a load of a damaged dump", claim="told(entity) == 0")


def _nobody(lab: Lab, trial: Trial, what: str) -> None:
    told = [call.name for call in trial.journal]
    trial.journal.clear()
    with lab.checking("OBS-11"):
        if told:
            lab.program.before_last("forget()")
            raise Violation(f"{told[0]} was told of {what}", claim=f"told({told[0]}) == 0")


class Own(Exception):
    """An exception that no storage knows."""


class Broken:
    """An entity that raises."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def mark_update(self, index: Any) -> None:
        raise self._error("a broken listener")


ERRORS: tuple[type[Exception], ...] = (RuntimeError, KeyError, StopIteration, IndexError, TypeError, Own)


@check("OBS-12")
def a_broken_entity_stands_in_nobodys_way(lab: Lab) -> None:
    def one(shape: Shape, place: int, error: type[Exception], verb: str) -> None:
        _change(lab, shape, None, error, verb)
        _change(lab, shape, place, error, verb)

    cases = product(SHAPES, range(3), ("first", "set", "assign", "loads"))
    acts = [
        partial(one, shape, place, ERRORS[n % len(ERRORS)], verb)
        for n, (shape, place, verb) in enumerate(cases)
    ]
    all_of(lab, "OBS-12", acts)


def _change(lab: Lab, shape: Shape, place: int | None, error: type[Exception], verb: str) -> None:
    """One change while a broken entity stands among sound ones; without it where `place` is None."""
    audience = Audience(lab, shape, rows=0 if verb == "first" else capacity_of(shape))
    trial, dumped = audience.trial, audience.dump(capacity_of(shape)) if verb == "loads" else None
    for number in range(3):
        if number == place:
            text = f"Broken({error.__name__})"
            audience.attach_again(Broken(error), "broken", "OBS-1", text)
        audience.attach(f"sound{number}")
    rows = at(0) if verb == "first" else Index("range", (0, capacity_of(shape)))
    if place is None:
        audience.load(dumped[0]) if dumped else (audience.assign if verb == "assign" else audience.write)(
            rows
        )
        audience.expect({"assign": "OBS-2", "loads": "OBS-3"}.get(verb, "OBS-1"), *audience.names)
        return
    span = trial.model.for_writing(rows)
    batch = Batch(NODE, span.lead, seed=6)
    # Whether the exception reaches the writer is left open.
    with suppress(Raised):
        if dumped:
            trial.storage.call("loads", dumped[0])
        else:
            (trial.storage.assign if verb == "assign" else trial.storage.set)(rows, batch)
    lab.program.precede("with contextlib.suppress(Exception): ")
    if dumped:
        trial.model.take(dumped[1])
    else:
        (trial.model.assign if verb == "assign" else trial.model.set)(span, batch)
    trial.verify(law("OBS-12"))
    audience.expect("OBS-12", *audience.names)
