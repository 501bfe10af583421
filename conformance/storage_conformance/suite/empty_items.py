"""Items with nothing in them: TensorDicts without leaves have rows all the same, and so have features of size zero."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Leaf, Node, Record, Text, Tree
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup, Step

LEAFLESS = Fields(())
BEYOND = st.sampled_from(("int", "list", "tensor", "range"))


def rows_up_to(form: str, last: int) -> tuple[Index, tuple[int, ...]]:
    """An index that ends with row `last`, and the leading shape of data for it."""
    if form == "int":
        return Index("int", (last,)), ()
    if form == "range":
        return Index("range", (0, last + 1)), (last + 1,)
    return Index(form, (0, last)), (2,)


@check("CAP-4", examples=16, form=BEYOND, size=st.integers(1, 3))
def leafless_items_do_not_fit_beyond_the_capacity(lab: Lab, form: str, size: int) -> None:
    for fill in (0, size):
        index, lead = rows_up_to(form, size + 1)
        filling = [Step("write", (Index("range", (0, fill)), Batch(LEAFLESS, (fill,))))] if fill else []
        play(
            lab,
            Setup(size, node=LEAFLESS),
            *filling,
            Step("refuse_write", (index, Batch(LEAFLESS, lead), "CAP-4")),
        )


@check("LAZY-6", examples=4, size=st.integers(1, 3))
def no_leafless_items_leave_it_fresh(lab: Lab, size: int) -> None:
    for index in (Index("range", (0, 0)), Index("slice", (0, 0, None)), Index("tensor"), Index("list")):
        play(lab, Setup(size, node=LEAFLESS), Step("write_nothing", (index, Batch(LEAFLESS, (0,)))))


@check("GET-1", examples=16, form=BEYOND, size=st.integers(2, 4))
def leafless_items_cannot_be_read_beyond_the_length(lab: Lab, form: str, size: int) -> None:
    for readable in (size - 1, size):
        index, _ = rows_up_to(form, readable)
        write = Step("write", (Index("range", (0, readable)), Batch(LEAFLESS, (readable,))))
        play(lab, Setup(size, node=LEAFLESS), write, Step("refuse_read", (index, "GET-1")))


@check("CKPT-11", examples=6, size=st.integers(2, 4))
def leafless_items_are_not_loaded_beyond_the_capacity(lab: Lab, size: int) -> None:
    write = Step("write", (Index("range", (0, size)), Batch(LEAFLESS, (size,))))
    play(lab, Setup(size, node=LEAFLESS), write, Step("dump", (0,)), Step("refuse_load", (0, size - 1)))


EMPTY, FILLED = Leaf(torch.uint8, (0,)), Leaf(torch.int16, (1,))


def _whole(form: str, width: int, node: Node) -> tuple[Setup, Step]:
    """A storage of four rows of `width` elements, and a write of all of them."""
    index = Index("slice", (None, None, None)) if form == "slice" else Index("range", (0, 4))
    return Setup(4 * width, 2, (width,), node), Step("write", (index, Batch(node, (4, width))))


@check("DTYPE-5", examples=8, form=st.sampled_from(("range", "slice")), width=st.integers(1, 3))
def features_of_size_zero_take_no_capacity(lab: Lab, form: str, width: int) -> None:
    play(lab, *_whole(form, width, Fields((("a", EMPTY), ("b", FILLED)))))


@check("DTYPE-5", examples=8, form=st.sampled_from(("range", "slice")), width=st.integers(1, 3))
def features_of_size_zero_take_no_capacity_of_other_leaves(lab: Lab, form: str, width: int) -> None:
    if lab.claims("pytree"):
        for leaves in ((EMPTY, FILLED), (FILLED, EMPTY)):
            play(lab, *_whole(form, width, Tree("tuple", (("0", leaves[0]), ("1", leaves[1])))))


@check("SET-14", examples=6, form=st.sampled_from(("list", "tensor", "grid")))
def the_last_of_several_items_brings_its_text_along(lab: Lab, form: str) -> None:
    if not lab.claims("non_tensor"):
        return
    node = Record("Captioned", (("obs", Leaf(torch.bool, ())), ("caption", Text())))
    index = Index("grid", ((2, 1), (0, 0))) if form == "grid" else Index(form, (0, 0))
    lead = (2, 1) if form == "grid" else (2,)
    play(lab, Setup(4, node=node), Step("write", (index, Batch(node, lead, seed=3))))


@check("COPY-1", examples=4, size=st.integers(1, 3))
def storages_of_empty_items_are_copied_or_refuse(lab: Lab, size: int) -> None:
    for node in (Leaf(torch.int32, (2, 0)), LEAFLESS, Fields((("a", EMPTY), ("b", FILLED)))):
        write = Step("write", (Index("range", (0, size)), Batch(node, (size,))))
        play(lab, Setup(size, node=node), write, Step("deepcopy", ()))
