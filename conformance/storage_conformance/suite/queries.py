"""Chapter QRY: looking at a storage changes nothing; a text for every state; equality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from math import prod
from operator import methodcaller
from typing import Any

import torch

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation
from storage_conformance.structure import Fields, Node, Text
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.check import check
from storage_conformance.suite.data import SCALAR, VECTOR, step
from storage_conformance.suite.data_optional import TREES
from storage_conformance.suite.entities import Journal, Plain
from storage_conformance.suite.picture import Picture, picture
from storage_conformance.suite.states import FLAT, Shape, capacity_of, holds, make, states, written
from storage_conformance.suite.stories import SHAPES, all_of, elements, places

Look = tuple[str, Callable[[Subject], object]]


def _looks(rows: int, trailing: tuple[int, ...]) -> Iterator[Look]:
    """Every way to look, at what is there and at what is not."""
    reads = [
        at(0),
        Index("list"),
        Index("slice", (None, None, None)),
        Index("ellipsis"),
        at(rows),
        at(-rows - 1),
    ]
    if rows:
        reads += [
            *places(rows),
            at(-1),
            Index("tensor", (-1, 0)),
            Index("grid", ((2, 1), (0, rows - 1))),
            *elements(trailing),
        ]
        if trailing:
            bits = tuple(number % 2 == 0 for number in range(rows * prod(trailing)))
            reads.append(Index("cells", ((rows, *trailing), bits)))
    yield from ((f"get({index!r})", methodcaller("get", index)) for index in reads)
    yield from ((f"[{index!r}]", methodcaller("item", index)) for index in reads[:4])
    yield "len", methodcaller("length")
    yield from ((name, methodcaller("attribute", name)) for name in ("shape", "max_size", "ndim", "device"))
    yield from (("in", partial(holds, row=Literal(row, str(row)))) for row in (0, rows, -rows, -1))
    yield "iteration", lambda s: s.evaluate("list({})", lambda raw: list(islice(iter(raw), rows + 2)))
    yield "next", lambda s: s.evaluate("next(iter({}))", lambda raw: next(iter(raw), None))
    yield "repr", lambda s: s.evaluate("repr({})", repr)


def _compare(what: str, before: Picture, after: Picture) -> None:
    for (name, then), (_, now) in zip(before, after, strict=False):
        if then != now:
            raise Violation(f"after {what}: {name} is {str(now)[:100]}, without it is {str(then)[:100]}")
    if len(before) != len(after):
        raise Violation(f"after {what}: another number of rows can be read")


@check("QRY-1")
def a_look_changes_nothing(lab: Lab) -> None:
    """Each look at a storage that nobody has looked at, beside a storage of the same history without that look."""

    def look(
        shape: Shape, prepare: Callable[[], Subject], name: str, act: Callable[[Subject], object]
    ) -> None:
        lab.start()
        unseen = picture(lab, prepare())
        lab.start()
        storage = prepare()
        journal: Journal = []
        with lab.checking("OBS-1"):
            storage.call("attach", Literal(Plain("entity", journal), "entity := Entity()"))
        with lab.checking("QRY-1"):
            _tolerant(partial(act, storage))
            _compare(name, unseen, picture(lab, storage))
            _tolerant(partial(act, storage))
            _compare(f"{name}, twice,", unseen, picture(lab, storage))
        with lab.checking("OBS-11"):
            if journal:
                raise Violation(f"{name} told an attached entity", claim="told(entity) == 0")

    acts = []
    for shape in SHAPES:
        for prepare in states(lab, shape):
            lab.start()
            rows = prepare().attribute("shape")
            acts += [
                partial(look, shape, prepare, *found) for found in _looks(rows[0] if rows else 0, shape[1])
            ]
    all_of(lab, "QRY-1", acts)


def _tolerant(act: Callable[[], object]) -> None:
    """Performs a look that may be refused."""
    try:
        act()
    except Raised:
        return


@check("QRY-1")
def a_fresh_storage_stays_fresh_when_it_is_looked_at(lab: Lab) -> None:
    for shape in SHAPES:
        for name, act in _looks(0, shape[1]):
            storage = make(lab, shape)
            _tolerant(partial(act, storage))
            for node in (VECTOR, FLAT):
                other = make(lab, shape, "other")
                _tolerant(partial(act, other))
                with lab.checking("QRY-1"):
                    other.set(at(0), Batch(node, shape[1]))
                    if other.length() != prod(shape[1]):
                        raise Violation(
                            f"after {name} on a fresh storage the length counts {other.length()} for one row"
                        )


@check("QRY-1")
def an_index_is_not_changed_by_a_look(lab: Lab) -> None:
    for shape in SHAPES:
        rows = capacity_of(shape)
        storage = written(lab, shape, rows, FLAT)
        indices = [
            Index("list", (-1, 0)),
            Index("tensor", (-1, 0)),
            Index("int32", (-1, 0)),
            Index("mask", (True,) * rows),
        ]
        for index in [*indices, Index("grid", ((1, 2), (-1, 0))), Index("scalar", (-1,))]:
            given, before = index.value(), index.value()
            with lab.checking("QRY-1"):
                storage.program.add("index = {}", index)
                storage.get(Literal(given, "index"))
                same = given == before if isinstance(given, list) else torch.equal(given, before)
                if not same:
                    raise Violation(
                        f"get changed the index {before!r} that it was given into {given!r}",
                        claim=f"index == {before!r}"
                        if isinstance(before, list)
                        else f"torch.equal(index, {index.code()})",
                    )


@check("QRY-5")
def there_is_a_text_for_every_state(lab: Lab) -> None:
    nodes: list[Node] = [SCALAR, step(), Fields(()), Fields((("a", SCALAR), ("step", step())))]
    nodes += TREES[::3] if lab.claims("pytree") else ()
    acts: list[Callable[[], None]] = [
        partial(_check_text, lab, prepare) for shape in SHAPES for prepare in states(lab, shape)
    ]
    acts += [
        partial(_check_text, lab, partial(written, lab, shape, 1, node)) for shape in SHAPES for node in nodes
    ]
    if lab.claims("non_tensor"):
        texts = Fields((("a", SCALAR), ("text", Text())))
        acts += [
            partial(_check_text, lab, partial(written, lab, shape, shape[0], texts)) for shape in SHAPES[:2]
        ]
    acts += [partial(_check_text, lab, partial(_refused, lab, shape)) for shape in SHAPES]
    acts += [partial(_check_text, lab, partial(_automatic, lab, shape)) for shape in SHAPES]
    all_of(lab, "QRY-5", acts)


def _refused(lab: Lab, shape: Shape) -> Subject:
    """A storage whose first write was refused."""
    storage = make(lab, shape)
    _tolerant(partial(storage.set, at(10**6), Batch(FLAT, shape[1])))
    return storage


def _automatic(lab: Lab, shape: Shape) -> Subject:
    with lab.checking("NEW-1"):
        return lab.make(shape[0], ndim=1 + len(shape[1]), device="auto")


def _check_text(lab: Lab, prepare: Callable[[], Subject]) -> None:
    lab.start()
    storage = prepare()
    with lab.checking("QRY-5"):
        text: Any = storage.evaluate("repr({})", repr)
        if not isinstance(text, str):
            raise Violation(f"repr gave {type(text).__name__}")


@check("QRY-6")
def storages_are_equal_only_to_themselves(lab: Lab) -> None:
    def compare(shape: Shape, rows: int) -> None:
        lab.start()
        one, other = written(lab, shape, rows, FLAT), make(lab, shape, "other")
        if rows:
            with lab.checking("SET-1"):
                other.set(Index("range", (0, rows)), Batch(FLAT, (rows, *shape[1]), seed=2))
        with lab.checking("QRY-6"):
            if one.evaluate("{} == other", lambda raw: raw == other.raw) is not False:
                raise Violation(
                    "two storages of the same rows are equal", claim="(storage == other) is False"
                )
            if one.evaluate("{} != other", lambda raw: raw != other.raw) is not True:
                raise Violation(
                    "two storages of the same rows are not unequal", claim="(storage != other) is True"
                )
            if one.evaluate("{} == {}", lambda raw: raw == raw) is not True:
                raise Violation("a storage is not equal to itself", claim="(storage == storage) is True")
            before = one.evaluate("hash({})", hash)
            one.program.precede("before = ")
            one.set(at(0), Batch(FLAT, shape[1], seed=11))
            if one.evaluate("hash({})", hash) != before:
                raise Violation("a write changed the hash of the storage", claim="hash(storage) == before")
            if one.evaluate("len(set([{}, other]))", lambda raw: len({raw, other.raw})) != 2:
                raise Violation("two storages are one in a set", claim="len({storage, other}) == 2")

    all_of(
        lab,
        "QRY-6",
        [partial(compare, shape, rows) for shape in SHAPES for rows in {0, 1, capacity_of(shape)}],
    )
