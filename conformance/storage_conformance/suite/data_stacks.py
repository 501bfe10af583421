"""Chapter DATA: lazy stacks and lists are batches of items, if the items are alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Leaf, Node, Record, Text, Tree
from storage_conformance.subject import Literal
from storage_conformance.suite.check import Arguments, check
from storage_conformance.suite.data import FLAGS, OBSERVED, ONE, SCALAR, VECTOR, step
from storage_conformance.suite.stories import (
    ROWS_ONLY,
    SHAPES,
    Story,
    refused_everywhere,
    stories,
    tell,
    tour,
)
from storage_conformance.trial import Setup, Step

STACKABLE: tuple[Fields | Record, ...] = (
    Fields((("a", SCALAR), ("b", VECTOR))),
    Fields((("a", SCALAR), ("next", OBSERVED))),
    Fields((("a", SCALAR), ("b", ONE)), (2,)),
    step(),
    Fields((("a", SCALAR), ("step", step()))),
)


def lazy(node: Node, lead: tuple[int, ...], seed: int) -> Batch:
    return Batch(node, lead, seed, form="lazy")


def listed(node: Node, lead: tuple[int, ...], seed: int) -> Batch:
    return Batch(node, lead, seed, form="list")


def same(node: Node) -> Node:
    return node


@check("DATA-10")
def every_lazy_stack_is_written_as_the_dense_one(lab: Lab) -> None:
    tell(lab, "DATA-10", tour(STACKABLE, make=lazy, stacked=True), same)


@check("DATA-10", examples=4, tales=stories(st.sampled_from(STACKABLE), make=lazy, stacked=True))
def a_lazy_stack_is_written_as_the_dense_one(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-10", tales, same)


@dataclass(frozen=True, repr=False)
class Sideways(Batch):
    """A lazy stack along the second dimension."""

    def _stacked(self, device: torch.device | None) -> Any:
        return LazyStackedTensorDict.lazy_stack(
            list(self._dense(self.values, self.lead, device).unbind(1)), 1
        )

    def code(self) -> str:
        dense = Batch(self.node, self.lead, self.seed).code()
        return (
            dense if self.form == "dense" else f"LazyStackedTensorDict.lazy_stack(list({dense}.unbind(1)), 1)"
        )


@check("DATA-10")
def a_lazy_stack_along_another_dimension_counts_as_well(lab: Lab) -> None:
    tales = []
    for node in STACKABLE[:2]:
        wide = Fields(node.children, (2,))
        for size, trailing, kept in ((5, (), wide), (10, (3,), node), (9, (2, 2), node)):
            setup = Setup(size, 1 + len(trailing), trailing, kept)
            for first in Index("range", (0, 2)), Index("tensor", (1, 0)), Index("slice", (0, 2, None)):
                write = Step("write", (first, Sideways(kept, (2, *trailing), 3, form="lazy")))
                again = Step("write", (Index("list", (0, 1)), Sideways(kept, (2, *trailing), 4, form="lazy")))
                tales.append(Story(setup, (write, again)))
    tell(lab, "DATA-10", tales, same)


@check("DATA-10")
def a_lazy_stack_along_the_trailing_shape_is_an_item(lab: Lab) -> None:
    tales = []
    for node in (*STACKABLE[:2], step()):
        for size, trailing in SHAPES[2:]:
            item = Batch(node, trailing, 3, form="lazy")
            steps = Step("write", (at(1), item)), Step("write", (at(0), item)), Step("assign", (at(-1), item))
            tales.append(Story(Setup(size, 1 + len(trailing), trailing, node), steps))
    tell(lab, "DATA-10", tales, same)


def _unlike_items() -> list[tuple[Node, Node, Node]]:
    """The first item, another one, and the structure that a storage has to hold for the first one to fit."""
    flat = Fields((("a", SCALAR), ("b", VECTOR)))
    nested = Fields((("a", SCALAR), ("next", OBSERVED)))
    shorter = Fields((("a", SCALAR), ("next", Fields(OBSERVED.children[:1]))))
    longer = Fields((*flat.children, ("c", SCALAR)))
    reshaped = Fields((("a", SCALAR), ("b", Leaf(feature=(3,)))))
    inner = Fields((("a", SCALAR), ("next", Fields((("obs", Leaf(feature=(3,))), ("done", FLAGS))))))
    return [
        (flat, Fields(flat.children[:1]), flat),
        (flat, longer, flat),
        (flat, reshaped, flat),
        (nested, shorter, nested),
        (nested, inner, nested),
    ]


def mixture(first: Node, other: Node, lead: tuple[int, ...], *, lazily: bool) -> Literal:
    """Items of which the last one is unlike the rest."""
    inner = lead[1:]
    batches = [Batch(first, inner, seed=n) for n in range(lead[0] - 1)] + [Batch(other, inner, seed=7)]
    items, text = [batch.data() for batch in batches], f"[{', '.join(batch.code() for batch in batches)}]"
    if not lazily:
        return Literal(items, text)
    return Literal(LazyStackedTensorDict.lazy_stack(items), f"LazyStackedTensorDict.lazy_stack({text})")


@check("DATA-11")
def lazy_stacks_of_unlike_items_are_refused(lab: Lab) -> None:
    for size, trailing in ((3, ()), (5, (3,)), (9, (2, 2))):
        for first, other, held in _unlike_items():
            setup = Setup(size, 1 + len(trailing), trailing, held)
            for one, two in ((first, other), (other, first)):
                for before in (None, held):
                    refused_everywhere(
                        lab, "DATA-11", setup, partial(mixture, one, two, lazily=True),
                        first=before, single=False,
                    )  # fmt: skip


def _listable(features: frozenset[str]) -> Arguments:
    nodes: list[Node] = [SCALAR, VECTOR, Leaf(torch.int64, (1,)), *STACKABLE]
    if "pytree" in features:
        nodes += [Tree("dict", (("a", SCALAR), ("b", VECTOR))), Tree("tuple", (("0", SCALAR), ("1", FLAGS)))]
    return {"tales": stories(st.sampled_from(nodes), make=listed, stacked=True)}


@check("DATA-12")
def every_list_is_written_as_the_dense_batch(lab: Lab) -> None:
    nodes: list[Node] = [SCALAR, VECTOR, Leaf(torch.int64, (1,)), *STACKABLE]
    tell(lab, "DATA-12", tour(nodes, make=listed, stacked=True), same)


@check("DATA-12", examples=4, given=_listable)
def a_list_is_a_batch_of_items(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-12", tales, same)


def _listable_texts(features: frozenset[str]) -> Arguments:
    nodes: list[Node] = [SCALAR]
    if "non_tensor" in features:
        nodes = [
            Fields((("a", SCALAR), ("text", Text()))),
            Record("Captioned", (("obs", VECTOR), ("caption", Text()))),
        ]
    return {"tales": stories(st.sampled_from(nodes), make=listed, stacked=True, shapes=ROWS_ONLY)}


@check("DATA-12", examples=4, given=_listable_texts)
def a_list_of_items_with_texts_is_a_batch(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DATA-12", tales, same)


@check("DATA-13")
def lists_of_unlike_items_are_refused(lab: Lab) -> None:
    pairs: list[tuple[Node, Node]] = [(first, other) for first, other, _ in _unlike_items()]
    pairs += [
        (SCALAR, VECTOR),
        (VECTOR, Leaf(feature=(3,))),
        (VECTOR, ONE),
        (step(), Fields(step().children)),
    ]
    pairs += [(SCALAR, Fields((("a", SCALAR),))), (step(), Record("Twin", step().children))]
    for size, trailing in ((3, ()), (5, (3,))):
        for first, other in pairs:
            setup = Setup(size, 1 + len(trailing), trailing, first)
            for before in (None, first):
                refused_everywhere(
                    lab, "DATA-13", setup, partial(mixture, first, other, lazily=False),
                    first=before, single=False,
                )  # fmt: skip


def _list_of(node: Node, count: int, lead: tuple[int, ...]) -> Batch:
    return Batch(node, (count, *lead), form="list")


@check("DATA-13")
def a_list_is_no_item(lab: Lab) -> None:
    for size, trailing in SHAPES:
        for node in (SCALAR, VECTOR, Fields((("a", SCALAR), ("b", VECTOR))), step()):
            setup = Setup(size, 1 + len(trailing), trailing, node)
            for before in (None, node):
                for count in (1, 2):
                    refused_everywhere(
                        lab, "DATA-13", setup, partial(_list_of, node, count),
                        first=before, several=False,
                    )  # fmt: skip
            if trailing:  # one item, taken apart into a list along its first dimension
                refused_everywhere(
                    lab,
                    "DATA-13",
                    setup,
                    partial(Batch, node, form="list"),
                    first=node,
                    several=False,
                )
