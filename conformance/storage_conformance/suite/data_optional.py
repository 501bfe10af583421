"""Chapter DATA: pytrees, and values that are not tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack, TensorDict

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields, Leaf, Node, Record, Text, Tree, leaves
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.check import check
from storage_conformance.suite.data import FLAGS, SCALAR, VECTOR
from storage_conformance.suite.stories import (
    ROWS_ONLY,
    Story,
    places,
    refused_everywhere,
    stories,
    tell,
    tour,
)
from storage_conformance.tensorclasses import TENSORCLASSES
from storage_conformance.trial import Setup, Step


def tree(kind: str, **children: Node) -> Tree:
    return Tree(kind, tuple((name.removeprefix("_"), child) for name, child in children.items()))


PAIR = tree("list", _0=SCALAR, _1=VECTOR)
TREES = (
    tree("dict", a=SCALAR, b=VECTOR),
    tree("tuple", _0=VECTOR, _1=FLAGS),
    tree("tuple", _0=SCALAR),
    tree("namedtuple", x=SCALAR, y=Leaf(torch.int64, (2,))),
    tree("dict", a=PAIR, b=tree("tuple", _0=SCALAR, _1=tree("namedtuple", x=VECTOR, y=FLAGS))),
    tree("tuple", _0=tree("dict", z=SCALAR, a=PAIR), _1=SCALAR),
    tree("namedtuple", x=PAIR, y=tree("dict", c=tree("dict", d=VECTOR))),
    tree("dict", one=tree("list", _0=SCALAR), other=tree("tuple", _0=SCALAR)),
)


def as_fields_of_leaves(node: Node) -> Node:
    return Fields(tuple((str(n), leaf) for n, (_, leaf) in enumerate(leaves(node))))


def without_text(node: Node) -> Node:
    return Fields(tuple((str(n), leaf) for n, (_, leaf) in enumerate(leaves(node)) if isinstance(leaf, Leaf)))


@check("DATA-14")
def every_tree_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-14", tour(TREES), as_fields_of_leaves)


@check("DATA-14", examples=4, tales=stories(st.sampled_from(TREES)))
def pytrees_come_back_as_the_same_tree(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-14", tales, as_fields_of_leaves)


FLAT = tree("dict", a=SCALAR, b=VECTOR)
DEEP = tree("dict", a=PAIR, b=tree("dict", c=SCALAR))
OTHER_TREES: tuple[tuple[Tree, Tree], ...] = (
    (FLAT, tree("dict", a=SCALAR)),
    (FLAT, tree("dict", a=SCALAR, b=VECTOR, c=SCALAR)),
    (FLAT, tree("dict", a=SCALAR, c=VECTOR)),
    (FLAT, tree("tuple", _0=SCALAR, _1=VECTOR)),
    (FLAT, tree("namedtuple", x=SCALAR, y=VECTOR)),
    (FLAT, tree("dict", a=SCALAR, b=tree("list", _0=VECTOR))),
    (tree("tuple", _0=SCALAR, _1=SCALAR), tree("tuple", _0=SCALAR)),
    (tree("tuple", _0=SCALAR, _1=SCALAR), tree("tuple", _0=SCALAR, _1=SCALAR, _2=SCALAR)),
    (tree("tuple", _0=SCALAR, _1=SCALAR), tree("namedtuple", x=SCALAR, y=SCALAR)),
    (tree("namedtuple", x=SCALAR, y=SCALAR), tree("tuple", _0=SCALAR, _1=SCALAR)),
    (DEEP, tree("dict", a=tree("tuple", _0=SCALAR, _1=VECTOR), b=tree("dict", c=SCALAR))),
    (DEEP, tree("dict", a=tree("list", _0=SCALAR), b=tree("dict", c=SCALAR))),
    (DEEP, tree("dict", a=PAIR, b=tree("dict", d=SCALAR))),
    (DEEP, tree("dict", a=PAIR, b=tree("tuple", _0=SCALAR))),
)


@check("DATA-15")
def another_tree_is_refused(lab: Lab) -> None:
    for size, trailing in ((3, ()), (5, (3,))):
        for held, given in OTHER_TREES:
            setup = Setup(size, 1 + len(trailing), trailing, held)
            refused_everywhere(lab, "DATA-15", setup, partial(Batch, given, seed=1), first=held)


TEXTS = (
    Fields((("a", SCALAR), ("text", Text()))),
    Fields((("text", Text()), ("next", Fields((("obs", VECTOR), ("note", Text())))))),
    Fields((("text", Text()), ("other", Text()), ("a", VECTOR))),
)


@check("DATA-16")
def every_text_in_a_tensordict_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-16", tour(TEXTS, shapes=ROWS_ONLY), without_text)


@check("DATA-16", examples=4, tales=stories(st.sampled_from(TEXTS), shapes=ROWS_ONLY))
def texts_in_tensordicts_belong_to_their_row(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-16", tales, without_text)


CAPTIONED = Record("Captioned", (("obs", VECTOR), ("caption", Text())))
CAPTIONS = (CAPTIONED, Record("Captioned", (("obs", Leaf(torch.int64)), ("caption", Text()))))


@check("DATA-17")
def every_text_in_a_tensorclass_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-17", tour(CAPTIONS, shapes=ROWS_ONLY), without_text)


@check("DATA-17", examples=4, tales=stories(st.sampled_from(CAPTIONS), shapes=ROWS_ONLY))
def texts_in_tensorclasses_belong_to_their_row(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-17", tales, without_text)


@check("DATA-16", "DATA-17")
def texts_written_by_a_grid_of_rows_belong_to_their_row(lab: Lab) -> None:
    everything, grid = Index("range", (0, 3)), Index("grid", ((2, 1), (2, 0)))
    for requirement, node in (("DATA-16", TEXTS[0]), ("DATA-17", CAPTIONED)):
        steps = (
            Step("write", (everything, Batch(node, (3,)))),
            Step("write", (grid, Batch(node, (2, 1), seed=1))),
            Step("assign", (grid, Batch(node, (2, 1), seed=2))),
            Step("read", (grid, "grad", "get")),
        )
        tell(lab, requirement, [Story(Setup(3, node=node), steps)], without_text)


VALUES: tuple[Any, ...] = (
    "go", "", 3, -1.5, None, True, b"\x00\xff", ("left", 2), {"depth": [1, {"k": "v"}]}, "ü\n", (),
)  # fmt: skip

Container = Callable[[Any, tuple[int, ...]], Any]


@check("DATA-16", examples=6, start=st.integers(0, 11))
def values_of_any_type_in_tensordicts_come_back_equal(lab: Lab, start: int) -> None:
    def container(value: Any, lead: tuple[int, ...]) -> Literal:
        data = TensorDict({"a": torch.ones(*lead, 2), "value": value}, batch_size=lead)
        text = (
            f"TensorDict({{'a': torch.ones({[*lead, 2]}), 'value': {_code(value)}}}, batch_size={list(lead)})"
        )
        return Literal(data, text)

    _check_values(lab, "DATA-16", container, "value", start)


@check("DATA-17", examples=6, start=st.integers(0, 11))
def values_of_any_type_in_tensorclasses_come_back_equal(lab: Lab, start: int) -> None:
    captioned: Any = TENSORCLASSES["Captioned"]

    def container(value: Any, lead: tuple[int, ...]) -> Literal:
        data = captioned(obs=torch.ones(*lead, 2), caption=value, batch_size=lead)
        text = f"Captioned(obs=torch.ones({[*lead, 2]}), caption={_code(value)}, batch_size={list(lead)})"
        return Literal(data, text)

    _check_values(lab, "DATA-17", container, "caption", start)


def _code(value: Any) -> str:
    if isinstance(value, NonTensorStack):
        return f"NonTensorStack({', '.join(f'NonTensorData({v!r})' for v in value.tolist())})"
    batch_size = f", batch_size={list(value.batch_size)}" if value.batch_size else ""
    return f"NonTensorData({value.data!r}{batch_size})"


def _check_values(lab: Lab, requirement: str, container: Container, name: str, start: int) -> None:
    """Writes rows of different values, of one value, and a single row among equal ones."""
    rows = 4
    values = [VALUES[(start + 5 * k) % len(VALUES)] for k in range(rows + 2)]
    for first in places(rows, single=False, plain=True):
        lab.start()
        storage = lab.make(rows)
        with lab.checking(requirement):
            order = [values[k] for k in (reversed(range(rows)) if first.form == "list" else range(rows))]
            stacked = NonTensorStack(*map(NonTensorData, order))  # pyright: ignore[reportAbstractUsage]
            storage.set(first, container(stacked, (rows,)))
            _expect(storage, name, values[:rows])
            storage.set(1, container(NonTensorData(values[rows]), ()))
            _expect(storage, name, [values[0], values[rows], *values[2:rows]])
            storage.set(first, container(NonTensorData(values[rows + 1], batch_size=[rows]), (rows,)))
            _expect(storage, name, [values[rows + 1]] * rows)
            storage.assign(at(-1), container(NonTensorData(values[0]), ()))
            _expect(storage, name, [*[values[rows + 1]] * (rows - 1), values[0]])


def _expect(storage: Subject, name: str, expected: list[Any]) -> None:
    for row, value in enumerate(expected):
        found = _plain(storage.get(row).get(name))
        if type(found) is not type(value) or found != value:
            claim = f"getattr(v := storage.get({row}).get({name!r}), 'data', v) == {value!r}"
            raise Violation(
                f"row {row} holds {found!r}, written was {value!r}", claim=claim, actual=repr(found)
            )
    for index in (Index("slice", (0, len(expected), None)), Index("list", tuple(range(len(expected))))):
        read = storage.get(index).get(name)
        values = read.tolist() if hasattr(read, "tolist") else read
        if list(values) != expected:
            raise Violation(f"{index!r} reads {values!r}, written was {expected!r}")


def _plain(entry: Any) -> Any:
    return entry.data if isinstance(entry, NonTensorData) else entry
