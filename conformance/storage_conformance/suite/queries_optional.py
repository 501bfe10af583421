"""Chapter QRY: the last row, and clearing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields, Leaf, Record
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.data import SCALAR, VECTOR, step
from storage_conformance.suite.entities import NODE, Audience, assignable
from storage_conformance.suite.states import Shape, capacity_of
from storage_conformance.suite.stories import SHAPES, Story, all_of, elements, places, stories, tell
from storage_conformance.trial import Setup, Trial


def _orders(rows: int) -> list[Index]:
    """Indices whose last row is not the highest, and others."""
    last = rows - 1
    return [
        *places(rows),
        Index("range", (last, -1, -1)), Index("slice", (0, None, 2)), Index("slice", (0, rows, 3)),
        Index("list", (last, 0)), Index("tensor", (last, 0, 0)),
        Index("int32", (0, last)), Index("list", (last, 0, last)), Index("grid", ((2, 1), (last, 0))),
        Index("mask", (True, *[False] * last)),
    ]  # fmt: skip


@check("QRY-7")
def the_last_row_is_the_last_of_the_index(lab: Lab) -> None:
    def each(shape: Shape, index: Index) -> None:
        trial = Trial(lab, Setup(shape[0], 1 + len(shape[1]), shape[1], NODE))
        trial.write(index, Batch(NODE, trial.model.for_writing(index).lead))
        middle = at(trial.model.capacity // 2)
        trial.write(middle, Batch(NODE, shape[1], seed=1))
        trial.write(index, Batch(NODE, trial.model.for_writing(index).lead, seed=2))
        trial.write_nothing(Index("list"), Batch(NODE, (0, *shape[1])))
        trial.refuse_write(at(trial.model.capacity), Batch(NODE, shape[1]), "CAP-4")

    def elementwise(shape: Shape) -> None:
        trial = Trial(lab, Setup(shape[0], 1 + len(shape[1]), shape[1], NODE))
        trial.write(Index("range", (0, trial.model.capacity)), Batch(NODE, (trial.model.capacity, *shape[1])))
        for index in elements(shape[1]):
            trial.write(index, Batch(NODE, trial.model.for_writing(index).lead, seed=2))

    rows = {shape: capacity_of(shape) for shape in SHAPES}
    acts = [partial(each, shape, index) for shape in SHAPES for index in _orders(rows[shape])]
    all_of(lab, "QRY-7", [*acts, *(partial(elementwise, shape) for shape in SHAPES[2:])])


@check("QRY-7", examples=6, tales=stories(st.sampled_from((VECTOR, NODE, step()))))
def the_last_row_follows_the_writes(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "QRY-7", tales, lambda node: VECTOR)


@check("QRY-7")
def the_last_row_is_an_int_of_its_own(lab: Lab) -> None:
    for size, trailing in SHAPES:
        rows = capacity_of((size, trailing))
        written: list[tuple[Index, object]] = [(index, index.value()) for index in _orders(rows)]
        for index, given in written:
            lab.start()
            model = Model(size, 1 + len(trailing), trailing, NODE)
            with lab.checking("NEW-1"):
                storage = lab.make(size, ndim=1 + len(trailing))
            with lab.checking("QRY-7"):
                if storage.attribute("last_row") is not None:
                    raise Violation("a fresh storage has a last row", claim="storage.last_row is None")
            span = model.for_writing(index)
            with lab.checking("SET-1"):
                storage.program.add("index = {}", index)
                storage.set(Literal(given, "index"), Batch(NODE, span.lead))
            if isinstance(given, list):
                given[:] = [0] * (len(given) + 1)
                storage.program.add("index[:] = [0] * (len(index) + 1)")
            elif isinstance(given, torch.Tensor):
                given.zero_()
                storage.program.add("index.zero_()")
            with lab.checking("QRY-7"):
                found = storage.attribute("last_row")
                if type(found) is bool or not isinstance(found, int) or found != span.rows[-1]:
                    claim = f"storage.last_row == {span.rows[-1]} and isinstance(storage.last_row, int)"
                    raise Violation(
                        f"last_row is {found!r} after a write by {index!r}", claim=claim, actual=repr(found)
                    )


@check("QRY-8")
def an_assignment_does_not_move_the_last_row(lab: Lab) -> None:
    def each(shape: Shape) -> None:
        rows = capacity_of(shape)
        for last in (at(0), at(rows - 1)):
            trial = Trial(lab, Setup(shape[0], 1 + len(shape[1]), shape[1], NODE))
            trial.write(Index("range", (0, rows)), Batch(NODE, (rows, *shape[1])))
            trial.write(last, Batch(NODE, shape[1]))
            for index in assignable(rows, shape[1]):
                trial.assign(index, Batch(NODE, trial.model.for_reading(index).lead, seed=3))

    all_of(lab, "QRY-8", [partial(each, shape) for shape in SHAPES])


def _held(shape: Shape, rows: int) -> tuple[Setup, Index, Batch]:
    return (
        Setup(shape[0], 1 + len(shape[1]), shape[1], NODE),
        Index("range", (0, rows)),
        Batch(NODE, (rows, *shape[1])),
    )


@check("QRY-9")
def clearing_takes_all_rows_away(lab: Lab) -> None:
    def each(shape: Shape, rows: int) -> None:
        setup, index, batch = _held(shape, rows)
        trial = Trial(lab, setup)
        trial.write(index, batch)
        for _ in range(2):
            trial.clear()
            for gone in (at(0), at(-1), at(rows - 1), Index("list", (0,)), Index("tensor", (0,))):
                lab.refused("QRY-9", partial(trial.storage.get, gone), what=f"get({gone!r}) after clear()")
            with lab.checking("QRY-9"):
                left = trial.storage.evaluate(
                    "list({})", lambda raw: [item for item, _ in zip(raw, range(2), strict=False)]
                )
                if left or trial.storage.evaluate("0 in {}", lambda raw: 0 in raw):
                    raise Violation("a row can still be reached after clear()", claim="list(storage) == []")
        trial.write(at(0), Batch(NODE, shape[1], seed=5))
        trial.clear()

    rows = [(shape, n) for shape in SHAPES for n in sorted({1, capacity_of(shape)})]
    all_of(lab, "QRY-9", [partial(each, *case) for case in rows])


@check("QRY-9")
def clearing_a_fresh_storage_is_no_mistake(lab: Lab) -> None:
    for size, trailing in SHAPES:
        trial = Trial(lab, Setup(size, 1 + len(trailing), trailing, NODE))
        trial.clear()
        trial.write(at(0), Batch(NODE, trailing))


OTHERS = (
    VECTOR,
    Fields((("a", SCALAR),)),
    Fields((("a", SCALAR), ("b", Leaf(feature=(3,))))),
    Record("Step", step().children),
)


def _clear(lab: Lab, trial: Trial) -> None:
    with lab.checking("QRY-9"):
        trial.storage.call("clear")


@check("QRY-10")
def clearing_keeps_structure_size_and_device(lab: Lab) -> None:
    def each(shape: Shape, device: str) -> None:
        setup, index, batch = _held(shape, capacity_of(shape))
        for other in OTHERS:
            trial = Trial(lab, replace(setup, device=device))
            trial.write(index, batch)
            _clear(lab, trial)
            with lab.checking("QRY-10"):
                _expect_frame(trial, (0, *shape[1]), torch.device(lab.device))
            another = partial(trial.storage.set, at(0), Batch(other, shape[1]))
            lab.refused("QRY-10", another, what="another structure after clear()")
            with lab.checking("QRY-10"):
                trial.storage.set(index, batch)
                _expect_frame(trial, (capacity_of(shape), *shape[1]), torch.device(lab.device))

    all_of(lab, "QRY-10", [partial(each, shape, device) for shape in SHAPES for device in ("cpu", "auto")])


def _expect_frame(trial: Trial, shape: tuple[int, ...], device: torch.device) -> None:
    """The shape, `max_size` and the device."""
    found = trial.storage.attribute("shape")
    if found is None or tuple(found) != shape:
        raise Violation(
            f"the shape after clear() is {found}", claim=f"storage.shape == {shape}", actual=str(found)
        )
    for name, expected in (("max_size", trial.model.max_size), ("device", device)):
        value = trial.storage.attribute(name)
        if value != expected:
            claim = f"storage.{name} == {expected!r}"
            raise Violation(
                f"{name} after clear() is {value!r}, before {expected!r}", claim=claim, actual=repr(value)
            )


@check("QRY-10")
def clearing_keeps_the_attached_entities(lab: Lab) -> None:
    for shape in SHAPES:
        audience = Audience(lab, shape)
        audience.attach("first")
        audience.attach("second")
        audience.write(at(0))
        audience.expect("OBS-1", "first", "second")
        _clear(lab, audience.trial)
        audience.trial.model.clear()
        audience.journal.clear()
        audience.write(Index("range", (0, audience.capacity)))
        audience.expect("QRY-10", "first", "second")
