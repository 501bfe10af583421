"""Chapter IDX: indices of rows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.structure import Leaf, Node
from storage_conformance.subject import Literal
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import GROUNDS, NODES, Ground
from storage_conformance.suite.turns import assigning, every, in_turn, reading, reads_and_writes

grounds = st.sampled_from(GROUNDS)
nodes = st.sampled_from(NODES)
WIDE = Ground(300, (), 300)
"""More rows than a byte can number."""


def orders(rows: int) -> list[tuple[int, ...]]:
    """Sequences of different rows: single ones, forwards, backwards, rotated, with gaps."""
    numbers = tuple(range(rows))
    found = [
        (0,),
        (rows - 1,),
        numbers,
        numbers[::-1],
        numbers[1:] + numbers[:1],
        numbers[::2],
        numbers[-1:] + numbers[:1],
    ]
    return list(dict.fromkeys(order for order in found if len(set(order)) == len(order)))


def indices(form: str, rows: int) -> list[Index]:
    return [Index(form, order) for order in orders(rows)]


def beside(lab: Lab, requirement: str, ground: Ground, node: Node, forms: tuple[str, ...]) -> None:
    """Each index of these forms in `get`, `[]=` and `set`, and as the first write."""
    for form in forms:
        lab.start()
        reads_and_writes(
            lambda: Bench(lab, ground, node),
            requirement,
            indices(form, ground.rows),
            indices(form, ground.capacity),
        )
        every(
            lab,
            requirement,
            indices(form, ground.capacity)[:4],
            lambda index: Bench(lab, ground, node, fresh=True).set(requirement, index),
        )


@check("IDX-1", examples=12, ground=grounds, node=nodes)
def an_integer_addresses_its_row(lab: Lab, ground: Ground, node: Node) -> None:
    readable, writable = ([at(row) for row in range(rows)] for rows in (ground.rows, ground.capacity))
    reads_and_writes(lambda: Bench(lab, ground, node), "IDX-1", readable, writable)
    every(lab, "IDX-1", writable, lambda index: Bench(lab, ground, node, fresh=True).set("IDX-1", index))


@check("IDX-1")
def integers_above_a_byte_address_their_rows(lab: Lab) -> None:
    bench = Bench(lab, WIDE, Leaf())
    for row in (127, 256, 299):
        bench.set("IDX-1", at(row))
        bench.assign("IDX-1", at(row - 1))


@check("IDX-2", examples=24, ground=grounds, node=nodes, more=st.booleans())
def a_negative_integer_counts_from_the_readable_rows(
    lab: Lab, ground: Ground, node: Node, more: bool
) -> None:
    bench = Bench(lab, ground, node)
    if more and ground.rows < ground.capacity:  # what counted from the end before must not be remembered
        bench.get("IDX-2", at(-1))
        bench.set("SET-1", at(ground.rows))
    for row in range(1, bench.model.readable + 1):
        bench.get("IDX-2", at(-row))
        bench.assign("IDX-2", at(-row))
    bench.refuse_get("IDX-2", at(-bench.model.readable - 1))
    bench.refuse_assign("IDX-2", at(-bench.model.readable - 1), bench.batch(bench.model.for_reading(at(0))))


NEGATIVE_FORMS = ("int", "numpy", "scalar", "list", "tensor", "int32", "grid", "range", "mixed")


def negative(form: str, row: int, other: int) -> Index:
    """An index of this form that names a row by a negative number."""
    if form == "grid":
        return Index("grid", ((1, 2), (row, other)))
    if form == "range":
        return Index("range", (row, row - 1, -1))
    if form == "mixed":
        return Index("list", (other, row))
    return Index(form, (row,))


@check("IDX-3", examples=12, ground=grounds, fresh=st.booleans())
def a_negative_row_in_a_set_counts_from_the_capacity_or_is_refused(
    lab: Lab, ground: Ground, fresh: bool
) -> None:
    def write(case: tuple[str, int]) -> None:
        form, row = case
        bench = Bench(lab, ground, Leaf(feature=(2,)), fresh=fresh)
        other = 0 if ground.capacity + row != 0 else ground.capacity - 1
        if ground.capacity > 1 or form not in ("grid", "mixed"):
            bench.may_set("IDX-3", negative(form, row, other), (IndexError,))

    def write_too_low(form: str) -> None:
        bench = Bench(lab, ground, Leaf(feature=(2,)), fresh=fresh)
        one = at(0) if form in ("int", "numpy", "scalar") else Index("list", (0,))
        index = Index(form, (-ground.capacity - 1,))
        bench.refuse_set("IDX-3", index, bench.batch(bench.model.for_writing(one)), only=IndexError)

    every(lab, "IDX-3", product(NEGATIVE_FORMS, range(-1, -ground.capacity - 1, -1)), write)
    every(lab, "IDX-3", ("int", "numpy", "scalar", "list", "tensor", "int32"), write_too_low)


KINDS_OF_INTEGER = (
    ("numpy.int64", numpy.int64),
    ("numpy.int32", numpy.int32),
    ("numpy.int8", numpy.int8),
    ("numpy.uint8", numpy.uint8),
    ("numpy.uint64", numpy.uint64),
    ("torch.int64", torch.int64),
    ("torch.int32", torch.int32),
    ("torch.int16", torch.int16),
    ("torch.int8", torch.int8),
)


@check("IDX-4", examples=6, ground=grounds, node=nodes)
def integers_of_other_types_are_integers(lab: Lab, ground: Ground, node: Node) -> None:
    for name, type_ in KINDS_OF_INTEGER:
        lab.start()
        _integers(lab, ground, node, name, type_)


def _integers(lab: Lab, ground: Ground, node: Node, name: str, type_: Any) -> None:
    def spelled(row: int) -> Literal:
        if name.startswith("numpy"):
            return Literal(type_(row), f"{name}({row})")
        return Literal(torch.tensor(row, dtype=type_), f"torch.tensor({row}, dtype={name})")

    def first(row: int) -> None:
        Bench(lab, ground, node, fresh=True).set("IDX-4", at(row), given=spelled(row))

    every(lab, "IDX-4", {0, ground.capacity - 1}, first)
    lab.start()
    bench = Bench(lab, ground, node)
    for row in range(0 if "uint" in name else -ground.rows, ground.rows):
        bench.get("IDX-4", at(row), given=spelled(row))
        bench.assign("IDX-4", at(row), given=spelled(row))
    for row in range(ground.capacity):
        bench.set("IDX-4", at(row), given=spelled(row))


BOUNDS = (None, -9, -3, -1, 0, 1, 2, 9)


@check("IDX-5", examples=40, ground=grounds, node=nodes, start=st.sampled_from(BOUNDS), numpys=st.booleans())
def a_slice_addresses_what_python_says(
    lab: Lab, ground: Ground, node: Node, start: int | None, numpys: bool
) -> None:
    bench, fresh = Bench(lab, ground, node), 0
    for stop, step in product(BOUNDS, (None, 1, 2, 3)):
        index, bounds = Index("slice", (start, stop, step)), slice(start, stop, step)
        if numpys and step != 3:  # bounds are often computed
            entries = [None if entry is None else numpy.int64(entry) for entry in (start, stop, step)]
            given = Literal(slice(*entries), f"slice(*map(numpy.int64, {entries}))")
        else:
            given = Literal(bounds, repr(bounds))
        if range(*bounds.indices(ground.rows)):
            bench.get("IDX-5", index, given=given)
            if step != 3:
                bench.assign("IDX-5", index, given=given)
        if range(*bounds.indices(ground.capacity)) and fresh < 3:
            fresh += 1
            Bench(lab, ground, node, fresh=True).set("IDX-5", index, given=given)


SLICES = (
    (None, None, None),
    (-1, None, None),
    (None, -1, None),
    (1, None, None),
    (0, 2, None),
    (-3, -1, None),
    (-9, 2, None),
    (1, 9, 2),
    (None, None, 2),
    (-2, None, 2),
    (0, 1, 3),
    (None, None, 3),
)


@check("IDX-5", examples=24, ground=grounds, node=nodes)
def a_slice_in_a_set_counts_from_the_capacity(lab: Lab, ground: Ground, node: Node) -> None:
    def write(bounds: tuple[int | None, int | None, int | None]) -> None:
        if range(*slice(*bounds).indices(ground.capacity)):
            Bench(lab, ground, node).set("IDX-5", Index("slice", bounds))

    every(lab, "IDX-5", SLICES, write)


@check("IDX-6", examples=20, ground=grounds, node=nodes)
def a_range_addresses_its_rows_in_its_order(lab: Lab, ground: Ground, node: Node) -> None:
    def ranges(rows: int) -> list[Index]:
        last = rows - 1
        bounds = {
            (0, rows, 1),
            (last, rows, 1),
            (0, rows, 2),
            (last % 2, rows, 2),
            (last, -1, -1),
            (last, -1, -2),
            (last, last - 1, -1),
            (0, -1, -1),
            (last, 0, -1),
            (0, last, 3),
            (0, rows, rows),
            (0, 1, 7),
            (last, -1, -3),
        }
        return [Index("range", bound) for bound in sorted(bounds) if range(*bound)]

    reads_and_writes(lambda: Bench(lab, ground, node), "IDX-6", ranges(ground.rows), ranges(ground.capacity))
    every(
        lab,
        "IDX-6",
        ranges(ground.capacity)[:5],
        lambda index: Bench(lab, ground, node, fresh=True).set("IDX-6", index),
    )


@check("IDX-7", examples=24, ground=grounds, node=nodes)
def a_list_of_integers_addresses_its_rows(lab: Lab, ground: Ground, node: Node) -> None:
    beside(lab, "IDX-7", ground, node, ("list",))


@check(
    "IDX-7",
    examples=24,
    ground=grounds,
    node=nodes,
    rows=st.lists(st.integers(-9, 9), min_size=1, max_size=6),
)
def a_list_may_repeat_and_count_from_the_end(lab: Lab, ground: Ground, node: Node, rows: list[int]) -> None:
    named = tuple(row % ground.rows - (ground.rows if row < 0 else 0) for row in rows)
    read = [Index("list", order) for order in (named, (-1, 0, -1), (0, 0), tuple(range(-ground.rows, 0)))]
    assigned = [
        Index("list", order)
        for order in ((-1,), tuple(range(-ground.rows, 0)), tuple(range(-1, -ground.rows - 1, -1)))
    ]
    acts = [*(reading("IDX-7", index) for index in read), *(assigning("IDX-7", index) for index in assigned)]
    in_turn(lambda: Bench(lab, ground, node), acts)


@check("IDX-8", examples=16, ground=grounds, node=nodes)
def a_tensor_addresses_its_rows_in_its_order(lab: Lab, ground: Ground, node: Node) -> None:
    beside(lab, "IDX-8", ground, node, ("tensor", "int32"))


@check(
    "IDX-8",
    examples=24,
    ground=grounds,
    node=nodes,
    form=st.sampled_from(("tensor", "int32")),
    rows=st.lists(st.integers(-9, 9), min_size=1, max_size=6),
)
def a_tensor_may_repeat_and_count_from_the_end(
    lab: Lab, ground: Ground, node: Node, form: str, rows: list[int]
) -> None:
    named = tuple(row % ground.rows - (ground.rows if row < 0 else 0) for row in rows)
    read = [Index(form, order) for order in (named, (-1, 0, -1), (0, 0), tuple(range(-ground.rows, 0)))]
    assigned = [
        Index(form, order)
        for order in ((-1,), tuple(range(-ground.rows, 0)), tuple(range(-1, -ground.rows - 1, -1)))
    ]
    acts = [*(reading("IDX-8", index) for index in read), *(assigning("IDX-8", index) for index in assigned)]
    in_turn(lambda: Bench(lab, ground, node), acts)


@check("IDX-8", examples=8, node=nodes, dtype=st.sampled_from((torch.int64, torch.int32)))
def an_index_tensor_may_be_strided_and_used_again(lab: Lab, node: Node, dtype: torch.dtype) -> None:
    bench = Bench(lab, Ground(6, (), 5), node)
    strided = torch.tensor([4, 9, 0, 9, 2, 9], dtype=dtype)[::2]
    given = Literal(strided, f"torch.tensor([4, 9, 0, 9, 2, 9], dtype={dtype})[::2]")
    bench.get("IDX-8", Index("tensor", (4, 0, 2)), given=given)
    bench.assign("IDX-8", Index("tensor", (4, 0, 2)), given=given)
    bench.set("IDX-8", Index("tensor", (4, 0, 2)), given=given)
    # A sampler may keep its index: -1 is another row as soon as there is one more.
    last = Literal(torch.tensor([-1, 0], dtype=dtype), "index")
    lab.start()
    bench = Bench(lab, Ground(6, (), 5), node)
    lab.program.add(f"index = torch.tensor([-1, 0], dtype={dtype})")
    bench.get("IDX-8", Index("tensor", (-1, 0)), given=last)
    bench.assign("IDX-8", Index("tensor", (-1, 0)), given=last)
    bench.set("SET-1", at(5))
    bench.get("IDX-8", Index("tensor", (-1, 0)), given=last)


@check("IDX-8", examples=2, form=st.sampled_from(("tensor", "int32")))
def tensors_above_a_byte_address_their_rows(lab: Lab, form: str) -> None:
    bench = Bench(lab, WIDE, Leaf())
    bench.get("IDX-8", Index(form, (299, 0, 256, 255, 128, 127, 44)))
    bench.assign("IDX-8", Index(form, (299, 0, 256, 255, 128, 127, 44)))
    bench.set("IDX-8", Index(form, (44, 0, 256, 255, 299, 127, 128)))


@check("IDX-9", examples=24, ground=grounds, node=nodes)
def a_tensor_of_several_dimensions_addresses_rows(lab: Lab, ground: Ground, node: Node) -> None:
    def grids(rows: int) -> list[Index]:
        last, few = rows - 1, min(rows, 4)
        found = [
            Index("grid", ((1, 1), (last,))),
            Index("grid", ((few, 1), tuple(range(few)))),
            Index("grid", ((1, few), tuple(range(few))[::-1])),
        ]
        if rows > 1:
            found.append(Index("grid", ((1, 2, 1), (last, 0))))
        return [*found, Index("grid", ((2, 2), (1, 3, 2, 0)))] if rows > 3 else found

    repeated = [
        Index("grid", ((2, 3), (0, 0, ground.rows - 1, 0, ground.rows - 1, 0))),
        Index("grid", ((2, 1, 2), (0,) * 4)),
    ]
    in_turn(lambda: Bench(lab, ground, node), (reading("IDX-9", index) for index in repeated))
    lab.start()
    reads_and_writes(lambda: Bench(lab, ground, node), "IDX-9", grids(ground.rows), grids(ground.capacity))
    every(
        lab,
        "IDX-9",
        grids(ground.capacity),
        lambda index: Bench(lab, ground, node, fresh=True).set("IDX-9", index),
    )
