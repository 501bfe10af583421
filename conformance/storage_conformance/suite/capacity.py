"""Chapter CAP: capacity.

Also the small stock of structures and geometries that the neighbouring chapters share: those that people get wrong are
tried every time, not only when Hypothesis happens to draw them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree, observe
from storage_conformance.subject import Subject
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup, Trial

__all__ = [
    "GEOMETRIES",
    "Trailing",
    "cases",
    "fresh_storage",
    "kinds",
    "must_equal",
    "rows_for",
    "same_contents",
    "span",
]

Trailing = tuple[int, ...]

GEOMETRIES: tuple[tuple[int, Trailing], ...] = (
    (5, ()), (1, ()), (3, (1,)), (7, (3,)), (2, (3,)), (9, (2, 2)), (6, (3, 2)), (5, (2, 1, 2)),
)  # fmt: skip
"""`max_size` and `T`: `P` divides some sizes and not others, exceeds one, and there are one to four dimensions."""


def kinds(features: frozenset[str]) -> tuple[Node, ...]:
    """Structures of every kind; the later leaf is never like the first one."""
    step = Record("Step", (("obs", Leaf(feature=(2,))), ("reward", Leaf())))
    inner = Fields((("a", Leaf(torch.uint8)), ("b", Leaf(feature=(2, 2)))))
    found: list[Node] = [
        Leaf(),
        Leaf(torch.int64, (2, 3)),
        Fields((("a", Leaf()), ("b", Leaf(torch.bool, (3,))))),
        Fields((("a", Leaf(torch.float64, (2,))), ("next", inner))),
        Fields((("a", Leaf(torch.int32)), ("b", Leaf(feature=(4,)))), extra=(2,)),
        Fields((("a", Leaf(feature=(0,))), ("b", Leaf()))),
        Record("Step", (("obs", Leaf(feature=(3,))), ("reward", Leaf(torch.float64)))),
        Record("Transition", (("step", step), ("value", Leaf()))),
    ]
    if "pytree" in features:
        pair = Tree("tuple", (("0", Leaf(torch.int16)), ("1", Leaf(feature=(2,)))))
        found += [
            Tree("dict", (("a", Leaf()), ("b", Leaf(torch.int64, (3,))))),
            Tree("dict", (("a", Leaf(feature=(2,))), ("b", pair))),
        ]
    return tuple(found)


def cases(lab: Lab, seed: int) -> Iterator[tuple[Node, int, Trailing]]:
    """Plain structures in every geometry; every structure in the two commonest and in one that `seed` picks."""
    tensor, *others = kinds(lab.backend.features)
    for node in (tensor, others[1]):
        for size, trailing in GEOMETRIES:
            yield node, size, trailing
    for number, node in enumerate(others):
        for size, trailing in {GEOMETRIES[0], GEOMETRIES[3], GEOMETRIES[(seed + number) % len(GEOMETRIES)]}:
            yield node, size, trailing


def must_equal(actual: Any, expected: Any, expression: str) -> None:
    """Raises a violation unless `actual`, which the program would write as `expression`, is `expected`."""
    if actual != expected:
        wanted = f"torch.device({str(expected)!r})" if isinstance(expected, torch.device) else repr(expected)
        claim = f"{expression} == {wanted}"
        raise Violation(f"{expression} is {actual!r}, expected {wanted}", claim=claim, actual=repr(actual))


def attempt(storage: Subject, index: Any, data: Any) -> bool:
    """A `set` of which others say whether it has to be taken; says whether it was."""
    try:
        storage.set(index, data)
    except Raised:
        storage.program.precede("with contextlib.suppress(Exception): ")
        return False
    return True


def fresh_storage(lab: Lab, size: Any, trailing: Trailing, **options: Any) -> Subject:
    """Begins a program with a storage whose items have trailing shape `trailing`."""
    lab.start()
    if trailing:
        options["ndim"] = 1 + len(trailing)
    with lab.checking("NEW-1"):
        return lab.make(size, **options)


def rows_for(size: int, trailing: Trailing) -> int:
    """`R`."""
    return -(-size // prod(trailing))


def span(start: int, stop: int) -> Index:
    """The plain index of several rows."""
    return Index("range", (start, stop))


def same_contents(value: Any, batch: Batch) -> bool:
    """Whether `value` holds what `batch` does; a container of another kind is the matter of chapter DATA."""
    try:
        return observe(value, batch.node, batch.lead) == batch.contents
    except Violation:
        return True


@check("CAP-1", examples=12, size=st.integers(1, 20))
def max_size_is_the_argument_until_a_write_succeeds(lab: Lab, size: int) -> None:
    for ndim in (1, 2, 3):
        storage = fresh_storage(lab, size, (3,) * (ndim - 1))
        with lab.checking("CAP-1"):
            must_equal(storage.attribute("max_size"), size, "storage.max_size")
        if not attempt(storage, at(size), Batch(Leaf(), (3,) * (ndim - 1))):
            with lab.checking("CAP-1"):
                must_equal(storage.attribute("max_size"), size, "storage.max_size")


@check("CAP-2", examples=2, seed=st.integers(0, 99))
def max_size_counts_whole_rows_from_the_first_write_on(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        rows, width = rows_for(size, trailing), prod(trailing)
        for first in (at(0), at(rows - 1), span(0, rows)):
            storage = fresh_storage(lab, size, trailing)
            lead = trailing if first.form == "int" else (rows, *trailing)
            for index, data in ((first, Batch(node, lead, seed=seed)), (at(0), Batch(node, trailing))):
                with lab.checking("SET-1"):
                    storage.set(index, data)
                with lab.checking("CAP-2"):
                    must_equal(storage.attribute("max_size"), rows * width, "storage.max_size")


@check("CAP-3", examples=2, seed=st.integers(0, 99))
def every_row_of_the_capacity_can_be_written(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        rows = rows_for(size, trailing)
        every = list(range(rows))
        items = {row: Batch(node, trailing, seed=seed + row) for row in every}
        for order in (every, every[::-1], every[1::2] + every[::2]):
            storage = fresh_storage(lab, size, trailing)
            _write_and_read(lab, storage, [(at(row), items[row]) for row in order], items)
        storage = fresh_storage(lab, size, trailing)
        batch = Batch(node, (rows, *trailing), seed=seed)
        with lab.checking("CAP-3"):
            storage.set(span(0, rows), batch)
            if not same_contents(storage.get(span(0, rows)), batch):
                raise Violation(f"the {rows} rows written do not read back")


def _write_and_read(
    lab: Lab, storage: Subject, writes: list[tuple[Index, Batch]], items: dict[int, Batch]
) -> None:
    with lab.checking("CAP-3"):
        for index, data in writes:
            storage.set(index, data)
        for row, item in sorted(items.items()):
            if not same_contents(storage.get(at(row)), item):
                raise Violation(f"row {row} of {len(items)} does not read back as written")


@check(
    "CAP-4",
    examples=4,
    node=st.sampled_from((Leaf(), Fields((("a", Leaf()), ("b", Leaf(torch.bool, (3,))))))),
)
def rows_beyond_the_capacity_are_refused(lab: Lab, node: Node) -> None:
    for size, trailing in GEOMETRIES:
        rows = rows_for(size, trailing)
        for readable in sorted({0, 1, rows}):
            trial = Trial(lab, Setup(size, 1 + len(trailing), trailing, node))
            if readable:
                trial.write(span(0, readable), Batch(node, (readable, *trailing)))
            for index, lead in _beyond(rows, size, trailing, fresh=not readable):
                trial.refuse_write(index, Batch(node, lead, seed=1), "CAP-4")


def _beyond(rows: int, size: int, trailing: Trailing, *, fresh: bool) -> Iterator[tuple[Index, Trailing]]:
    """Indices that address a row at or above `R`, behind a sound one where there are several; and the shape of data."""
    for row in sorted({rows, rows + 1, size + 1, 10**6}):
        yield at(row), trailing
        yield Index("list", (0, row)), (2, *trailing)
        yield Index("tensor", (row, 0)), (2, *trailing)
    yield Index("int32", (rows,)), (1, *trailing)
    yield Index("grid", ((2, 1), (0, rows))), (2, 1, *trailing)
    yield span(0, rows + 1), (rows + 1, *trailing)
    yield span(rows, rows + 2), (2, *trailing)
    if not fresh:  # how a fresh storage takes these kinds at all is the matter of chapter IDX
        yield Index("numpy", (rows,)), trailing
        yield Index("scalar", (rows,)), trailing
        if trailing:
            yield Index("tuple", (at(rows), *(at(0) for _ in trailing))), ()
            yield (
                Index("tuple", tuple(Index("tensor", (0, top)) for top in (rows, *(0 for _ in trailing)))),
                (2,),
            )


@check("CAP-5", examples=4, later=st.booleans(), form=st.sampled_from(("dense", "list")))
def items_of_too_few_dimensions_are_refused(lab: Lab, later: bool, form: str) -> None:
    for trailing in ((2,), (3, 2)):
        wide = trailing[::-1]  # features that could be taken for the missing dimensions
        for node in (
            Leaf(),
            Fields((("a", Leaf(feature=wide)),)),
            Fields((("a", Leaf(feature=wide)), ("next", Fields((("b", Leaf(feature=(2, 3))),))))),
            Record("Step", (("obs", Leaf(feature=wide)), ("reward", Leaf(feature=wide)))),
        ):
            trial = Trial(lab, Setup(8, 1 + len(trailing), trailing, node))
            if later:
                trial.write(span(0, 2), Batch(node, (2, *trailing)))
            for short in range(len(trailing)):
                several = Batch(node, (2, *trailing[:short]), seed=1, form=form)
                trial.refuse_write(span(0, 2), several, "CAP-5")
                trial.refuse_write(Index("tensor", (1, 0)), several, "CAP-5")
                trial.refuse_write(at(0), Batch(node, trailing[:short], seed=1), "CAP-5")


@check("CAP-6", examples=2, size=st.integers(1, 9))
def items_without_elements_are_refused(lab: Lab, size: int) -> None:
    for node, trailing in product(kinds(lab.backend.features), ((0,), (2, 0), (0, 3))):
        trial = Trial(lab, Setup(size, 1 + len(trailing), trailing, node))
        trial.refuse_write(at(0), Batch(node, trailing), "CAP-6")
        trial.refuse_write(span(0, 2), Batch(node, (2, *trailing)), "CAP-6")
        trial.refuse_write(Index("list", (1, 0)), Batch(node, (2, *trailing)), "CAP-6")


_SHORT, _LONG = Leaf(feature=(2,)), Leaf(feature=(3,))
_UNEVEN = (
    (1, Tree("dict", (("a", _SHORT), ("b", _LONG)))),
    (1, Tree("tuple", (("0", _LONG), ("1", _SHORT)))),
    (1, Tree("namedtuple", (("x", _SHORT), ("y", Leaf(torch.int64, (4,)))))),
    (1, Tree("tuple", (("0", _SHORT), ("1", _SHORT), ("2", _LONG)))),
    (1, Tree("dict", (("a", _SHORT), ("b", Tree("list", (("0", _SHORT), ("1", Leaf(feature=(1,))))))))),
    (2, Tree("dict", (("a", Leaf(feature=(2, 3))), ("b", Leaf(feature=(2, 4)))))),
    (2, Tree("dict", (("a", Leaf(feature=(2, 3))), ("b", Leaf(feature=(3, 2)))))),  # as many elements in both
    (1, Tree("tuple", (("0", Leaf(feature=(2, 3))), ("1", Leaf(feature=(3, 2)))))),
)
"""Dimensions of `T`, and a tree whose leaves differ in them."""


@check("CAP-7", examples=3, size=st.integers(2, 24))
def leaves_of_different_trailing_shapes_are_refused(lab: Lab, size: int) -> None:
    for dimensions, node in _UNEVEN:
        trial = Trial(lab, Setup(size, 1 + dimensions, (2,) * dimensions, node))
        trial.refuse_write(at(0), Batch(node, ()), "CAP-7")
        trial.refuse_write(span(0, 1), Batch(node, (1,)), "CAP-7")
        trial.refuse_write(Index("list", (0,)), Batch(node, (1,)), "CAP-7")
