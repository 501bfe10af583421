"""Chapter DATA: tensors, TensorDicts and tensorclasses come back as what they were."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Violation
from storage_conformance.structure import Absent, Fields, Leaf, Node, Record
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.stories import SHAPES, Story, places, refused_everywhere, stories, tell, tour
from storage_conformance.trial import Setup

SCALAR, VECTOR, ONE, FLAGS = Leaf(), Leaf(feature=(2,)), Leaf(feature=(1,)), Leaf(torch.bool)
EMPTY = Fields(())
OBSERVED = Fields((("obs", VECTOR), ("done", FLAGS)))


def step(extra: tuple[int, ...] = ()) -> Record:
    return Record("Step", (("obs", VECTOR), ("reward", SCALAR)), extra)


def as_tensor(node: Node) -> Node:
    return VECTOR


def as_field(node: Node) -> Node:
    return Fields((("a", node),))


def as_fields(node: Node) -> Node:
    """TensorDicts instead of tensorclasses, without the fields that are None."""
    if not isinstance(node, Fields | Record):
        return node
    return Fields(
        tuple((name, as_fields(c)) for name, c in node.children if not isinstance(c, Absent)), node.extra
    )


def deeply(levels: int, node: Node) -> Node:
    """`node` in so many TensorDicts, with a leaf beside it in each."""
    return Fields((("a", SCALAR), ("in", deeply(levels - 1, node)))) if levels else node


def without_extra(node: Node) -> Node:
    if not isinstance(node, Fields | Record):
        return node
    return replace(
        node, children=tuple((name, without_extra(child)) for name, child in node.children), extra=()
    )


PLAIN = (SCALAR, ONE, VECTOR, Leaf(torch.int64, (2, 3)))


@check("DATA-1")
def tensors_of_every_shape_come_back(lab: Lab) -> None:
    tell(lab, "DATA-1", tour(PLAIN), as_field)


@check("DATA-1", examples=4, tales=stories(st.sampled_from(PLAIN)))
def tensors_come_back_as_tensors(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-1", tales, as_field)


@check("DATA-1", examples=2, size=st.sampled_from((1, 3)))
def items_without_dimensions_are_items(lab: Lab, size: int) -> None:
    with lab.checking("DATA-1"):
        storage = lab.make(size)
        storage.set(0, Literal(torch.tensor(5.0), "torch.tensor(5.0)"))
        found = storage.get(0)
        if not isinstance(found, torch.Tensor) or found.shape != () or found.item() != 5.0:
            raise Violation(
                f"the item is {found!r}, a {type(found).__name__}",
                claim="storage.get(0) == 5.0",
                actual=repr(found),
            )


NESTED = (
    Fields((("a", SCALAR), ("b", VECTOR))),
    Fields((("a", SCALAR), ("next", OBSERVED), ("none", EMPTY))),
    Fields((("next", Fields((("deep", Fields((("obs", VECTOR), ("none", EMPTY)))), ("a", SCALAR)))),)),
    Fields((("a.b", SCALAR), ("a", Fields((("b", ONE), ("b.c", SCALAR)))), ("with blank", SCALAR))),
    Fields((("only", Fields((("empty", EMPTY),))),)),
    EMPTY,
    deeply(6, Fields((("obs", VECTOR), ("none", EMPTY)))),
)


@check("DATA-2")
def every_nesting_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-2", tour(NESTED), as_tensor)


@check("DATA-2", examples=4, tales=stories(st.sampled_from(NESTED)))
def tensordicts_keep_their_keys_at_every_level(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-2", tales, as_tensor)


WIDER_INSIDE = (
    Fields((("a", SCALAR), ("next", Fields((("obs", VECTOR),), (2,))))),
    Fields((("next", Fields((("obs", SCALAR), ("deep", Fields((("a", SCALAR),), (3,)))), (2,))),)),
    Fields((("next", Fields((("obs", SCALAR),), (1,))), ("last", Fields((("obs", ONE),), (2, 3))))),
    Fields((("a", SCALAR), ("next", Fields((), (2,))))),
    Fields((("a", SCALAR), ("step", step((2,))))),
)


@check("DATA-3")
def every_nested_batch_size_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-3", tour(WIDER_INSIDE), without_extra)


@check("DATA-3", examples=4, tales=stories(st.sampled_from(WIDER_INSIDE)))
def nested_batch_sizes_are_kept(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-3", tales, without_extra)


WIDER = (
    Fields((("a", SCALAR), ("b", VECTOR)), (2,)),
    Fields((("a", SCALAR), ("next", Fields((("obs", VECTOR),)))), (2, 1)),
    Fields((("a", SCALAR),), (1,)),
    Fields((), (3,)),
    step((2,)),
)


@check("DATA-4")
def every_further_batch_dimension_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-4", tour(WIDER), without_extra)


@check("DATA-4", examples=4, tales=stories(st.sampled_from(WIDER)))
def batch_dimensions_beyond_ndim_are_kept(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-4", tales, without_extra)


UNSORTED = Fields(
    (("z", SCALAR), ("m", Fields((("y", SCALAR), ("b", VECTOR), ("x", ONE)))), ("a", VECTOR), ("k", EMPTY))
)


@check("DATA-5")
def keys_keep_their_order(lab: Lab) -> None:
    for size, trailing in SHAPES:
        lab.start()
        storage = lab.make(size, ndim=1 + len(trailing))
        rows = Model(size, 1, trailing, UNSORTED).capacity
        lead = (rows, *trailing)
        with lab.checking("SET-1"):
            storage.set(Index("range", (0, rows)), Batch(UNSORTED, lead))
            storage.set(at(0), Batch(UNSORTED, trailing, seed=1))
        for index in (*places(rows), Index("list")):
            with lab.checking("GET-2"):
                value = storage.get(index)
            with lab.checking("DATA-5"):
                _check_order(value, UNSORTED, ())


def _check_order(value: Any, node: Fields, path: tuple[str, ...]) -> None:
    names, keys = [name for name, _ in node.children], list(map(str, value.keys()))
    expected, found = [name for name in names if name in keys], [key for key in keys if key in names]
    if found != expected:
        at_path = f" at {path!r}" if path else ""
        raise Violation(f"the keys{at_path} come back in the order {found}, written in the order {expected}")
    for name, child in node.children:
        if isinstance(child, Fields) and name in keys:
            _check_order(value.get(name), child, (*path, name))


CLASSES = (
    step(),
    Record("Twin", (("obs", Leaf(torch.int64, (2, 3))), ("reward", SCALAR))),
    Record("LongStep", (("obs", VECTOR), ("reward", ONE), ("done", FLAGS))),
    step((2,)),
)


@check("DATA-6")
def every_tensorclass_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-6", tour(CLASSES), as_fields)


@check("DATA-6", examples=4, tales=stories(st.sampled_from(CLASSES)))
def tensorclasses_come_back_as_that_class(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-6", tales, as_fields)


LONG = Record("LongStep", (("obs", VECTOR), ("reward", SCALAR), ("done", FLAGS)))
NESTED_CLASSES = (
    Record("Transition", (("step", step()), ("value", SCALAR))),
    Fields((("a", SCALAR), ("step", step()))),
    Fields((("next", Fields((("step", LONG), ("b", VECTOR)))), ("step", step()))),
    Fields((("first", Record("Transition", (("step", step()), ("value", SCALAR)))),)),
    Record(
        "Transition", (("step", Record("Twin", (("obs", SCALAR), ("reward", SCALAR)))), ("value", OBSERVED))
    ),
)


@check("DATA-7")
def every_nested_tensorclass_comes_back(lab: Lab) -> None:
    tell(lab, "DATA-7", tour(NESTED_CLASSES), as_fields)


@check("DATA-7", examples=4, tales=stories(st.sampled_from(NESTED_CLASSES)))
def nested_tensorclasses_come_back_as_that_class(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-7", tales, as_fields)


def masked(mask: Node, *, first: Node = VECTOR) -> Record:
    return Record("Masked", (("obs", first), ("mask", mask)))


ABSENT = (
    masked(Absent()),
    Fields((("a", SCALAR), ("inner", masked(Absent())))),
    masked(Absent(), first=FLAGS),
)


@check("DATA-8")
def every_absent_field_stays_absent(lab: Lab) -> None:
    tell(lab, "DATA-8", tour(ABSENT), as_fields)


@check("DATA-8", examples=4, tales=stories(st.sampled_from(ABSENT)))
def an_absent_field_stays_absent(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-8", tales, as_fields)


@check("DATA-9")
def a_field_is_never_sometimes_absent(lab: Lab) -> None:
    pairs: list[tuple[Node, Node]] = [(masked(Absent()), masked(FLAGS)), (masked(FLAGS), masked(Absent()))]
    pairs += [
        (Fields((("a", SCALAR), ("in", one))), Fields((("a", SCALAR), ("in", other)))) for one, other in pairs
    ]
    for size, trailing in SHAPES:
        for held, given in pairs:
            setup = Setup(size, 1 + len(trailing), trailing, held)
            refused_everywhere(lab, "DATA-9", setup, partial(Batch, given, seed=1), first=held)
