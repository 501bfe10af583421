"""Chapter SET: assignments, and the first write."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised
from storage_conformance.structure import Node
from storage_conformance.subject import Literal
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import GRIDS, Ground
from storage_conformance.suite.turns import every, in_turn
from storage_conformance.suite.writing import ALL, any_structure, element_indices, grounds, nodes, row_indices


@check("SET-16", "SET-2", examples=16, given=any_structure, ground=grounds)
def what_can_be_read_can_be_assigned(lab: Lab, node: Node, ground: Ground) -> None:
    def attempt(bench: Bench, index: Index) -> None:
        bench.assign("SET-16", index, addressed_only=True)
        bench.rows("SET-2")
        bench.get("SET-16", index)

    cases = [*row_indices(ground.rows, negative=True), *element_indices(ground.rows, ground.trailing)]
    if ground.trailing:
        shape = (ground.rows, *ground.trailing)
        bits = [place % 2 == 0 for place in range(prod(shape))]
        cases += [Index("cells", (shape, tuple(bits))), Index("tuple", tuple(at(-1) for _ in shape))]
    in_turn(lambda: Bench(lab, ground, node), [partial(attempt, index=index) for index in cases])


def _optional_kinds(rows: int) -> list[tuple[Index, Any]]:
    """Indices that a storage may refuse: what they mean, and the index itself."""
    order = tuple(range(rows))[::-1]
    return [
        (Index("list", order), Index("uint8", order)),
        (
            at(rows - 1),
            Literal(
                torch.tensor(rows - 1, dtype=torch.uint8), f"torch.tensor({rows - 1}, dtype=torch.uint8)"
            ),
        ),
        (Index("list", order), Index("array", order)),
        (
            Index("mask", (False,) * (rows - 1) + (True,)),
            Literal(numpy.arange(rows) == rows - 1, f"numpy.arange({rows}) == {rows - 1}"),
        ),
        (Index("slice", (None, None, -1)), Literal(slice(None, None, -1), "slice(None, None, -1)")),
        (
            Index("range", (-1, -rows - 1, -1)),
            Literal(range(-1, -rows - 1, -1), f"range(-1, {-rows - 1}, -1)"),
        ),
    ]


@check("SET-16", examples=20, ground=grounds, node=nodes)
def kinds_that_may_be_refused_are_assigned_where_they_are_read(lab: Lab, ground: Ground, node: Node) -> None:
    for meaning, given in _optional_kinds(ground.rows):
        lab.start()
        bench = Bench(lab, ground, node)
        try:
            bench.storage.get(given)
        except Raised:
            continue
        with lab.checking("SET-16"):
            batch = bench.batch(bench.model.for_reading(meaning))
            bench.storage.assign(given, batch)
            bench.model.assign(bench.model.for_reading(meaning), batch)
        bench.rows("SET-16")


def beyond(rows: int, more: int, trailing: tuple[int, ...]) -> list[Index]:
    """Indices that name row `rows + more`, alone or with rows that can be addressed."""
    row = rows + more
    found = [
        at(row),
        Index("numpy", (row,)),
        Index("scalar", (row,)),
        Index("list", (0, row)),
        Index("list", (row, 0)),
        Index("tensor", (0, row)),
        Index("int32", (row,)),
        Index("range", (row, row + 1)),
        Index("range", (0, row + 1)),
        Index("range", (row, -1, -1)),
        Index("grid", ((2, 1), (0, row))),
    ]
    if trailing:
        zeros = tuple(at(0) for _ in trailing)
        found += [
            Index("tuple", (at(row), *zeros)),
            Index("tuple", (at(row),)),
            Index("tuple", (at(row), ALL)),
        ]
        found += [Index("tuple", (Index("tensor", (0, row)), *(Index("tensor", (0, 0)) for _ in trailing)))]
    return found


@check("SET-17", examples=24, ground=grounds, node=nodes, more=st.sampled_from((0, 1, 7)))
def rows_above_the_length_cannot_be_assigned(lab: Lab, ground: Ground, node: Node, more: int) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node)
        lead = index.resolve(ground.rows + more + 1, ground.trailing).lead
        bench.refuse_assign("SET-17", index, Batch(node, lead, seed=30), only=IndexError)

    every(lab, "SET-17", beyond(ground.rows, more, ground.trailing), attempt)


@check("SET-17", examples=24, ground=grounds, node=nodes)
def a_fresh_storage_cannot_be_assigned(lab: Lab, ground: Ground, node: Node) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node, fresh=True)
        bench.refuse_assign("SET-17", index, bench.batch(bench.model.for_writing(index)))
        bench.set("LAZY-3", at(0))

    every(lab, "SET-17", row_indices(ground.capacity, negative=True), attempt)


@check("SET-19", examples=20, ground=st.sampled_from((*GRIDS, Ground(20, (4,), 2))), node=nodes)
def a_first_write_of_some_elements_is_refused(lab: Lab, ground: Ground, node: Node) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node, fresh=True)
        bench.refuse_set("SET-19", index, bench.batch(bench.model.for_writing(index)))

    rows, trailing = ground.capacity, ground.trailing
    # No trailing shape for which the last column would be the whole row: it is never the first one.
    last = next(axis for axis, size in enumerate(trailing) if size > 1)
    column = tuple(at(trailing[axis] - 1 if axis == last else 0) for axis in range(len(trailing)))
    tensors = tuple(
        Index("tensor", (trailing[axis] - 1 if axis == last else 0,)) for axis in range(len(trailing))
    )
    shape = (rows, *trailing)
    bits = (True,) * (prod(shape) - 1) + (False,)
    cases = [
        Index("tuple", (first, *column))
        for first in (at(0), at(rows - 1), ALL, Index("tensor", tuple(range(rows))))
    ]
    cases += [
        Index("tuple", (Index("tensor", (0,)), *tensors)),
        Index("cells", (shape, bits)),
        Index("cells", (shape, bits[::-1])),
    ]
    every(lab, "SET-19", cases, attempt)
