"""Short programs about a structure: a few writes of every kind, an assignment, reads of every kind.

What a chapter promises about its data has to hold for one row and for many, for every trailing shape, in a storage of a
single row and in one that is filled to the brim. A story draws the calls, the model says what must come of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from math import prod
from typing import Any

from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Found
from storage_conformance.strategies.indices import appends, overwrites, read_indices, set_indices
from storage_conformance.structure import Node
from storage_conformance.subject import Program
from storage_conformance.trial import INDEX_REQUIREMENTS, Setup, Step

__all__ = [
    "ROWS_ONLY",
    "SHAPES",
    "Story",
    "all_of",
    "elements",
    "places",
    "refused_everywhere",
    "stories",
    "tell",
    "tour",
]

SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = ((5, ()), (1, ()), (10, (3,)), (9, (2, 2)))
"""`max_size` and trailing shape: capacities of 5, 1, 4 and 3 rows, the last two rounded up."""

ROWS_ONLY = SHAPES[:2]
"""Those with `ndim == 1`."""

_ABOUT_ANY_DATA = frozenset(
    {
        "SET-1",
        "SET-2",
        "SET-3",
        "SET-16",
        "GET-2",
        "GET-5",
        "IDX-20",
        "LAZY-1",
        "LEN-2",
        "LEN-4",
        *INDEX_REQUIREMENTS.values(),
    }
)

PlainNode = Callable[[Node], Node]
PlainBatch = Callable[[Batch], Batch]
Make = Callable[[Node, tuple[int, ...], int], Batch]


@dataclass(frozen=True)
class Story:
    """A storage and what is done with it."""

    setup: Setup
    steps: tuple[Step, ...] = field(repr=False)

    def play(self, lab: Lab, requirement: str, plain: PlainNode, ordinary: PlainBatch) -> None:
        """Runs it beside the model, see `tell`."""
        try:
            play(lab, self.setup, *self.steps)
        except Found as found:
            neighbour = requirement.startswith("DTYPE-") and found.requirement.startswith("DTYPE-")
            about_data = found.requirement in _ABOUT_ANY_DATA or neighbour
            if about_data and self._with(plain, ordinary).does_well(lab):
                raise Found(requirement, found.cause) from found
            raise
        lab.recorder.evaluations[requirement] += 1

    def does_well(self, lab: Lab) -> bool:
        """Whether it meets no violation; nothing is recorded."""
        try:
            play(lab.control(), self.setup, *self.steps)
        except Found:
            return False
        return True

    def _with(self, plain: PlainNode, ordinary: PlainBatch) -> Story:
        node = plain(self.setup.node)

        def changed(argument: Any) -> Any:
            return ordinary(replace(argument, node=node)) if isinstance(argument, Batch) else argument

        steps = [Step(step.verb, tuple(map(changed, step.arguments))) for step in self.steps]
        return Story(replace(self.setup, node=node), tuple(steps))


def dense(batch: Batch) -> Batch:
    """The same items in dense tensors."""
    return replace(batch, form="dense")


def stories(
    nodes: st.SearchStrategy[Node],
    *,
    make: Make = Batch,
    shapes: tuple[tuple[int, tuple[int, ...]], ...] = SHAPES,
    listeners: int = 0,
    stacked: bool = False,
    reads: int = 4,
) -> st.SearchStrategy[tuple[Story, ...]]:
    """One story for each shape, so that none of them depends on luck.

    Args:
        nodes: structures of an item.
        make: the data for a structure, a leading shape and a seed.
        shapes: `max_size` and trailing shape of each story.
        listeners: how many entities are attached.
        stacked: whether the data are lists or lazy stacks, which only an index of several rows can take.
        reads: fewest reads.
    """
    return st.tuples(*(_story(nodes, make, shape, listeners, stacked, reads) for shape in shapes))


def tell(
    lab: Lab, requirement: str, tales: Iterable[Story], plain: PlainNode, ordinary: PlainBatch = dense
) -> None:
    """Runs stories beside the model, all of them.

    A violation of what holds for any data goes to `requirement` if the same calls do well with plain data: what sets
    the two apart is then to blame, also where it shows under one kind of index only.

    Args:
        lab: the lab.
        requirement: what the stories are about.
        tales: the stories.
        plain: a structure without what the requirement speaks of.
        ordinary: data without what the requirement speaks of.
    """
    all_of(lab, requirement, [partial(tale.play, lab, requirement, plain, ordinary) for tale in tales])


def all_of(lab: Lab, requirement: str, acts: Iterable[Callable[[], object]]) -> None:
    """Performs all acts; a violation of another requirement does not keep the later ones from being tried."""
    first: tuple[Found, Program] | None = None
    for act in acts:
        try:
            act()
        except Found as found:
            if found.requirement == requirement:
                raise
            first = first or (found, lab.program)
    if first is not None:
        lab.program = first[1]
        raise first[0]


def tour(
    nodes: Iterable[Node],
    *,
    make: Make = Batch,
    shapes: tuple[tuple[int, tuple[int, ...]], ...] = SHAPES,
    stacked: bool = False,
    seed: int = 0,
) -> list[Story]:
    """One story for each shape and structure, without luck: all rows written, some again, and read by every index.

    Args:
        nodes: structures of an item.
        make: the data for a structure, a leading shape and a seed.
        shapes: `max_size` and trailing shape of each story.
        stacked: whether the data are lists or lazy stacks, which only an index of several rows can take.
        seed: of the data; also turns the kinds of indices round.
    """
    found = []
    for number, ((size, trailing), node) in enumerate(product(shapes, list(nodes)), seed):
        rows = -(-size // prod(trailing))
        last = (rows - 1,)
        all_rows = (
            Index("range", (0, rows)),
            _listed(rows),
            Index("slice", (0, rows, None)),
            _listed(rows, "tensor"),
        )
        one_row = (
            Index("list", last),
            Index("slice", (rows - 1, rows, None)),
            Index("tensor", last),
            at(rows - 1),
        )
        first, again = all_rows[number % 4], one_row[number % (3 if stacked else 4)]
        corrected = Index("list", (0,)) if stacked else at(-1)
        lead = trailing if again.form == "int" else (1, *trailing)
        steps = [
            Step("write", (first, make(node, (rows, *trailing), seed))),
            Step("write", (again, make(node, lead, seed + 3))),
            Step("write", (all_rows[(number + 1) % 4], make(node, (rows, *trailing), seed + 5))),
            Step("assign", (corrected, make(node, (1, *trailing) if stacked else trailing, seed + 4))),
        ]
        indices = [
            *places(rows),
            at(-1),
            Index("list", (rows - 1, 0)),
            Index("grid", ((2, 1), (0, rows - 1))),
            Index("list"),
        ]
        steps += [Step("read", (index, "grad", "get")) for index in [*indices, *elements(trailing)]]
        found.append(Story(Setup(size, 1 + len(trailing), trailing, node), tuple(steps)))
    return found


def _listed(rows: int, form: str = "list") -> Index:
    return Index(form, tuple(range(rows)))


def elements(trailing: tuple[int, ...]) -> list[Index]:
    """Indices of single elements, for a storage that was written before."""
    if not trailing:
        return []
    inner = tuple(Index("int", (size - 1,)) for size in trailing)
    column = Index("tuple", (Index("slice", (None, None, None)), *inner))
    points = Index("tuple", tuple(Index("tensor", (0, 0)) for _ in range(1 + len(trailing))))
    return [Index("tuple", (Index("int", (0,)), *inner)), column, points]


@st.composite
def _story(
    draw: st.DrawFn,
    nodes: st.SearchStrategy[Node],
    make: Make,
    shape: tuple[int, tuple[int, ...]],
    listeners: int,
    stacked: bool,
    reads: int,
) -> Story:
    size, trailing = shape
    setup = Setup(size, 1 + len(trailing), trailing, draw(nodes), listeners=listeners)
    model = Model(size, setup.ndim, trailing, setup.node)
    steps: list[Step] = []
    filled = draw(st.booleans())
    for number in range(draw(st.integers(1, 3))):
        # Half of the stories begin with all rows, so that a storage which counts rows wrongly is heard out as well.
        first = Index("range", (0, model.capacity)) if filled and not number else None
        index = first or draw(_writing(model.capacity, model.readable, trailing, stacked))
        span = model.for_writing(index)
        batch = make(setup.node, span.lead, draw(st.integers(0, 40)) + number)
        model.set(span, batch)
        steps.append(Step("write", (index, batch)))
    if draw(st.booleans()):
        index = draw(_assigning(model.readable, trailing, stacked))
        steps.append(
            Step("assign", (index, make(setup.node, model.for_reading(index).lead, draw(st.integers(0, 40)))))
        )
    looking = read_indices(model.readable, trailing, empty=True)
    steps += [
        Step("read", (index, "grad", "get"))
        for index in draw(st.lists(looking, min_size=reads, max_size=reads + 3))
    ]
    return Story(setup, tuple(steps))


@cache
def _writing(
    capacity: int, readable: int, trailing: tuple[int, ...], stacked: bool
) -> st.SearchStrategy[Index]:
    fresh = not readable
    kinds = [kind(capacity, readable, trailing, fresh=fresh) for kind in (appends, overwrites, set_indices)]
    return st.one_of(kinds).map(_rows_named) if stacked else st.one_of(kinds)


@cache
def _assigning(readable: int, trailing: tuple[int, ...], stacked: bool) -> st.SearchStrategy[Index]:
    indices = read_indices(readable, trailing)
    return indices.map(_rows_named) if stacked else indices


def _rows_named(index: Index) -> Index:
    """An index of several rows, in one dimension, instead of one of a single item or of elements."""
    if index.form in ("range", "slice", "list", "tensor", "int32", "mask", "ellipsis"):
        return index
    return Index("list", (index.args[0] if index.form in ("int", "numpy", "scalar") else 0,))


def places(rows: int, *, single: bool = True, several: bool = True, plain: bool = False) -> Iterator[Index]:
    """Indices for `rows` rows, each of another kind; those of several rows name all of them, in some order.

    Args:
        rows: how many there are.
        single: whether indices of one row are among them.
        several: whether indices of all rows are.
        plain: whether masks and `...` are left out.
    """
    last = rows - 1
    if single:
        yield from (at(last), Index("numpy", (0,)), Index("scalar", (last,)))
    if several:
        yield Index("range", (0, rows))
        yield Index("list", tuple(reversed(range(rows))))
        yield Index("tensor", tuple(range(rows)))
        yield Index("slice", (0, rows, None))
    if several and not plain:
        yield Index("mask", (True,) * rows)
        yield Index("ellipsis")


def refused_everywhere(
    lab: Lab,
    requirement: str,
    setup: Setup,
    bad: Callable[[tuple[int, ...]], Any],
    *,
    first: Node | None = None,
    single: bool = True,
    several: bool = True,
) -> None:
    """Checks that data are refused under every kind of index, each time by another storage.

    Args:
        lab: the lab.
        requirement: what says so.
        setup: how the storages are made.
        bad: the data for a leading shape.
        first: the structure of what they hold before; None for fresh storages.
        single: whether to try indices of one item.
        several: whether to try indices of several.
    """
    model = Model(setup.size, setup.ndim, setup.trailing, setup.node)
    lead = (model.capacity, *setup.trailing)
    held = (
        []
        if first is None
        else [Step("write", (Index("range", (0, model.capacity)), Batch(first, lead, seed=3)))]
    )
    acts = []
    for index in places(model.capacity, single=single, several=several):
        data = bad(model.for_writing(index).lead)
        for verb in ("refuse_write", "refuse_assign") if held else ("refuse_write",):
            acts.append(partial(play, lab, setup, *held, Step(verb, (index, data, requirement))))
    all_of(lab, requirement, acts)
