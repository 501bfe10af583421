"""Chapter OBS: who is told of a change, how often and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.data import SCALAR, VECTOR
from storage_conformance.suite.stories import SHAPES, all_of, elements, places
from storage_conformance.trial import Setup, Trial

NODE = Fields((("a", SCALAR), ("b", VECTOR)))

Journal = list[tuple[str, Any]]
"""Who was told, with which index, in order."""


class Plain:
    """An entity that writes down what it is told."""

    def __init__(self, name: str, journal: Journal) -> None:
        self.name = name
        self.journal = journal

    def mark_update(self, index: Any) -> None:
        self.journal.append((self.name, index.clone() if hasattr(index, "clone") else index))


class Slotted:
    """Has no `__dict__`, and no weak reference can be made to it."""

    __slots__ = ("journal", "name")

    def __init__(self, name: str, journal: Journal) -> None:
        self.name = name
        self.journal = journal

    def mark_update(self, index: Any) -> None:
        self.journal.append((self.name, index))


class Hollow(Plain):
    """Is false in a condition, as an empty buffer is."""

    def __len__(self) -> int:
        return 0


@dataclass
class Twin:
    """Equal to every other one, and not hashable, as dataclasses are."""

    name: str = field(compare=False)
    journal: Journal = field(compare=False)

    def mark_update(self, index: Any) -> None:
        self.journal.append((self.name, index))


@dataclass(frozen=True)
class FrozenTwin:
    """Equal to every other one, with the same hash."""

    name: str = field(compare=False)
    journal: Journal = field(compare=False)

    def mark_update(self, index: Any) -> None:
        self.journal.append((self.name, index))


class Agreeable(Plain):
    """Equal to anything."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Stubborn(Plain):
    """Cannot be compared, as an array of several elements."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value is ambiguous")


def _namespace(name: str, journal: Journal) -> Any:
    return SimpleNamespace(mark_update=lambda index: journal.append((name, index)))


def _class(name: str, journal: Journal) -> Any:
    return type("Entity", (), {"mark_update": classmethod(lambda cls, index: journal.append((name, index)))})


KINDS: dict[str, Callable[[str, Journal], Any]] = {
    "plain": Plain, "slotted": Slotted, "hollow": Hollow, "twin": Twin, "stubborn": Stubborn, "namespace": _namespace,
    "class_": _class,
}  # fmt: skip


SCRIPTED: dict[Any, str] = {
    Slotted: "Slotted", Hollow: "Hollow", Twin: "Twin_", FrozenTwin: "FrozenTwin", Agreeable: "Agreeable",
    Stubborn: "Stubborn", _namespace: "Namespace", _class: "Class",
}  # fmt: skip
"""How a program names those that are nothing plain."""


class Audience:
    """A storage and the entities attached to it."""

    def __init__(self, lab: Lab, shape: tuple[int, tuple[int, ...]], *, rows: int = 0) -> None:
        size, trailing = shape
        self.lab = lab
        self.trial = Trial(lab, Setup(size, 1 + len(trailing), trailing, NODE))
        self.trailing = trailing
        self.capacity = self.trial.model.capacity
        self.journal: Journal = []
        self.names: list[str] = []
        if rows:
            self.write(Index("range", (0, rows)), seed=5)

    def attach(
        self, name: str, make: Callable[[str, Journal], Any] = Plain, requirement: str = "OBS-1"
    ) -> Any:
        entity = make(name, self.journal)
        self.names.append(name)
        self.attach_again(entity, name, requirement, f"{name} := {SCRIPTED.get(make, 'Entity')}()")
        return entity

    def attach_again(self, entity: Any, name: str, requirement: str, text: str = "") -> None:
        with self.lab.checking(requirement):
            self.trial.storage.call("attach", Literal(entity, text or name))

    def write(self, index: Index, seed: int = 1) -> None:
        self.trial.write(index, Batch(NODE, self.trial.model.for_writing(index).lead, seed=seed))

    def assign(self, index: Index, seed: int = 2) -> None:
        self.trial.assign(index, Batch(NODE, self.trial.model.for_reading(index).lead, seed=seed))

    def dump(self, rows: int, size: int | None = None) -> tuple[Literal, Model]:
        """A dump of another storage, with this many rows, and what it holds."""
        setup, path = self.trial.setup, Literal(self.lab.path(), 'folder / "dump"')
        model = Model(size or setup.size, setup.ndim, setup.trailing, NODE)
        index, batch = Index("range", (0, rows)), Batch(NODE, (rows, *self.trailing), seed=9)
        with self.lab.checking("NEW-1"):
            source = self.lab.make(
                model.size, name="source", **({"ndim": setup.ndim} if self.trailing else {})
            )
        with self.lab.checking("SET-1"):
            source.set(index, batch)
        with self.lab.checking("CKPT-20"):
            source.call("dumps", path)
        model.set(model.for_writing(index), batch)
        return path, model

    def load(self, path: Literal, verb: str = "loads") -> None:
        with self.lab.checking("CKPT-5" if self.trial.model.fresh else "CKPT-9"):
            self.trial.storage.call(verb, path)

    def expect(self, requirement: str, *names: str, witness: str = "", general: str = "OBS-1") -> None:
        """Checks that each of `names` was told exactly once since the last call, and forgets what was told.

        Args:
            requirement: what promises it.
            names: of entities.
            witness: an entity with nothing special; whether it was told is checked first, under `general`.
            general: what promises that the change is told at all.
        """
        told = Counter(name for name, _ in self.journal)
        self.journal.clear()
        for promise, name in [(general, witness)] * bool(witness) + [(requirement, name) for name in names]:
            with self.lab.checking(promise):
                if told[name] != 1:
                    self.lab.program.before_last("forget()")
                    raise Violation(
                        f"{name} was told {told[name]} times of one change",
                        claim=f"told({name}) == 1",
                        actual=str(told[name]),
                    )


def assignable(rows: int, trailing: tuple[int, ...]) -> Iterator[Index]:
    """Indices of every kind for an assignment."""
    yield from places(rows)
    yield from (
        at(-1),
        Index("tensor", (-1, 0)),
        Index("int32", (rows - 1,)),
        Index("grid", ((1, 2), (0, rows - 1))),
    )
    yield from elements(trailing)


@check("OBS-1")
def every_write_is_told_to_entities_of_every_kind(lab: Lab) -> None:
    def first_and_second(shape: tuple[int, tuple[int, ...]], first: Index) -> None:
        audience = Audience(lab, shape)
        for name, make in KINDS.items():
            audience.attach(name, make)
        audience.write(first)
        audience.expect("OBS-1", *KINDS)
        for index in (at(0), Index("range", (0, audience.capacity)), *elements(shape[1])):
            audience.write(index, seed=7)
            audience.expect("OBS-1", *KINDS)

    capacities = [(shape, Audience(lab, shape).capacity) for shape in SHAPES]
    all_of(
        lab,
        "OBS-1",
        [partial(first_and_second, shape, first) for shape, n in capacities for first in places(n)],
    )


@check("OBS-2")
def every_assignment_is_told(lab: Lab) -> None:
    def each_kind(shape: tuple[int, tuple[int, ...]]) -> None:
        rows = Audience(lab, shape).capacity
        audience = Audience(lab, shape, rows=rows)
        for name in ("first", "second"):
            audience.attach(name)
        for index in assignable(rows, shape[1]):
            audience.assign(index)
            audience.expect("OBS-2", "first", "second")

    all_of(lab, "OBS-2", [partial(each_kind, shape) for shape in SHAPES])


@check("OBS-4", examples=8, order=st.permutations(range(7)), shape=st.sampled_from(SHAPES))
def entities_are_told_in_the_order_of_attachment(
    lab: Lab, order: list[int], shape: tuple[int, tuple[int, ...]]
) -> None:
    audience = Audience(lab, shape)
    entities = [Plain(f"entity{n}", audience.journal) for n in range(7)]
    names = [f"entity{n}" for n in order]
    for n in order:
        audience.attach_again(entities[n], f"entity{n}", "OBS-1", f"entity{n} := Entity()")
    for requirement, act in (
        ("OBS-1", audience.write),
        ("OBS-1", audience.write),
        ("OBS-2", audience.assign),
    ):
        act(at(0))
        told = [name for name, _ in audience.journal]
        audience.expect(requirement, *names)
        with lab.checking("OBS-4"):
            if told != names:
                lab.program.before_last("forget()")
                raise Violation(
                    f"told in the order {told}, attached in the order {names}",
                    claim=f"told_in_order({', '.join(names)})",
                )


@check("OBS-6", examples=7, kind=st.sampled_from(sorted(KINDS)), shape=st.sampled_from(SHAPES))
def an_entity_attached_again_is_told_once(lab: Lab, kind: str, shape: tuple[int, tuple[int, ...]]) -> None:
    once = Audience(lab, shape)
    once.attach("once", KINDS[kind])
    once.write(at(0))
    once.expect("OBS-1", "once")

    audience = Audience(lab, shape)
    entity = audience.attach("again", KINDS[kind])
    audience.attach("once")
    other = audience.attach("other", KINDS[kind])
    audience.attach_again(entity, "again", "OBS-6")
    audience.attach_again(entity, "again", "OBS-6")
    audience.write(at(0))
    audience.expect("OBS-6", "again", "other", witness="once")
    audience.attach_again(other, "other", "OBS-6")
    audience.attach_again(entity, "again", "OBS-6")
    audience.write(Index("range", (0, audience.capacity)))
    audience.expect("OBS-6", "again", "other", witness="once")
    audience.assign(at(-1))
    audience.expect("OBS-6", "again", "other", witness="once", general="OBS-2")


EQUALS: dict[str, Callable[[str, Journal], Any]] = {
    "twin": Twin,
    "frozen": FrozenTwin,
    "agreeable": Agreeable,
}


@check("OBS-7")
def equal_entities_are_both_told(lab: Lab) -> None:
    def pair(shape: tuple[int, tuple[int, ...]], make: Callable[[str, Journal], Any]) -> None:
        plain = Audience(lab, shape)
        plain.attach("first")
        plain.attach("second")
        plain.write(at(0))
        plain.expect("OBS-1", "first", "second")

        audience = Audience(lab, shape)
        audience.attach("first", make, "OBS-7")
        audience.attach("between")
        audience.attach("second", make, "OBS-7")
        audience.write(at(0))
        audience.expect("OBS-7", "first", "second", witness="between")
        audience.assign(at(0))
        audience.expect("OBS-7", "first", "second", witness="between", general="OBS-2")

    all_of(lab, "OBS-7", [partial(pair, shape, make) for shape in SHAPES for make in EQUALS.values()])


UNABLE: tuple[Literal, ...] = (
    Literal(object(), "object()"), Literal(None, "None"), Literal(3, "3"), Literal("text", "'text'"), Literal([], "[]"),
    Literal(SimpleNamespace(), "SimpleNamespace()"),
    Literal(SimpleNamespace(mark_update=5), "SimpleNamespace(mark_update=5)"),
    Literal(SimpleNamespace(mark_update=None), "SimpleNamespace(mark_update=None)"), Literal(print, "print"),
    Literal({"mark_update": print}, "{'mark_update': print}"),
)  # fmt: skip


@check("OBS-8")
def what_cannot_be_told_is_not_attached(lab: Lab) -> None:
    for shape in SHAPES[::2]:
        for unable in UNABLE:
            for rows in (0, 1):
                audience = Audience(lab, shape, rows=rows)
                lab.refused(
                    "OBS-8",
                    partial(audience.trial.storage.call, "attach", unable),
                    what=f"attach({unable.text})",
                )
                audience.write(at(0))


@check("OBS-13")
def a_detached_entity_is_told_no_more(lab: Lab) -> None:
    def story(shape: tuple[int, tuple[int, ...]], make: Callable[[str, Journal], Any]) -> None:
        audience = Audience(lab, shape)
        names = ("first", "second", "third")
        entities = [audience.attach(name, make) for name in names]
        audience.attach_again(entities[1], "second", "OBS-6")
        audience.write(at(0))
        audience.expect("OBS-1", *names)
        with lab.checking("OBS-13"):
            audience.trial.storage.call("detach", Literal(entities[1], "second"))
        for act, general in ((audience.write, "OBS-1"), (audience.assign, "OBS-2")):
            act(at(0))
            with lab.checking("OBS-13"):
                if any(name == "second" for name, _ in audience.journal):
                    lab.program.before_last("forget()")
                    raise Violation("the entity was told although it is detached", claim="told(second) == 0")
            audience.expect(general, "first", "third")
        audience.attach_again(entities[1], "second", "OBS-1")
        audience.write(at(0))
        audience.expect("OBS-1", *names)

    kinds = (Plain, Slotted, Hollow, Twin, FrozenTwin)
    all_of(lab, "OBS-13", [partial(story, shape, make) for shape in SHAPES for make in kinds])
