"""Chapter GET: reading."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import TensorDictBase

from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised
from storage_conformance.strategies.structures import structures
from storage_conformance.structure import Fields, Leaf, Node, Record, tensors
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import Arguments, check
from storage_conformance.suite.grounds import GROUNDS, NODES, PAIR, STEP, Ground
from storage_conformance.suite.indices_odd import EMPTY, empty_indices
from storage_conformance.suite.turns import every, in_turn, reading
from storage_conformance.suite.writing import element_indices, row_indices
from storage_conformance.suite.writing_assign import beyond
from storage_conformance.suite.writing_memory import KINDS, TREES

grounds = st.sampled_from(GROUNDS)

ALL = Index("slice", (None, None, None))


def any_structure(_: frozenset[str]) -> Arguments:
    return {"node": structures(frozenset(), one_dimension=False)}


def repeated(rows: int) -> list[Index]:
    """Indices that name rows several times and in no order."""
    last, order = rows - 1, (rows - 1, 0, rows // 2, 0, rows - 1)
    return [
        Index("list", order),
        Index("tensor", order),
        Index("int32", order),
        Index("grid", ((5, 1), order)),
        Index("list", (last,) * 7),
        Index("tensor", (-1, 0, -1)),
    ]


@check(
    "GET-1",
    examples=24,
    ground=grounds,
    node=st.sampled_from((*NODES, STEP)),
    more=st.sampled_from((0, 1, 7)),
)
def rows_above_the_length_cannot_be_read(lab: Lab, ground: Ground, node: Node, more: int) -> None:
    indices = beyond(ground.rows, more, ground.trailing)
    in_turn(lambda: Bench(lab, ground, node), [partial(_refused, index=index) for index in indices])
    for index in (at(ground.rows + more), Index("list", (ground.rows + more,))):
        lab.start()
        bench = Bench(lab, ground, node)
        lab.refused("GET-1", partial(bench.storage.item, index), what="the read")


def _refused(bench: Bench, index: Index) -> None:
    bench.refuse_get("GET-1", index)


@check("GET-2", examples=24, given=any_structure, ground=grounds)
def rows_come_in_the_order_of_the_index(lab: Lab, node: Node, ground: Ground) -> None:
    indices = [
        *row_indices(ground.rows, negative=True),
        *repeated(ground.rows),
        *element_indices(ground.rows, ground.trailing),
    ]
    in_turn(lambda: Bench(lab, ground, node), (reading("GET-2", index) for index in indices))


@check("GET-2", examples=12, node=st.sampled_from((*NODES, STEP)), rows=st.permutations(range(7)))
def rows_come_in_order_after_a_ring_of_writes(lab: Lab, node: Node, rows: list[int]) -> None:
    bench = Bench(lab, Ground(7, (), 7), node)
    bench.set("SET-1", Index("list", (5, 6, 0, 1)))
    bench.set("SET-1", Index("list", tuple(rows[:3])))
    for form in ("list", "tensor", "int32"):
        bench.get("GET-2", Index(form, tuple(rows)))
        bench.get("GET-2", Index(form, (rows[0], rows[0], rows[6])))
    bench.get("GET-2", Index("range", (6, -1, -2)))


@check("GET-3", examples=20, given=any_structure, ground=grounds)
def brackets_read_what_get_reads(lab: Lab, node: Node, ground: Ground) -> None:
    def attempt(bench: Bench, index: Index) -> None:
        # Whether the index is taken, and read right, has requirements of its own.
        if not bench.prepared(lambda: bench.get("GET-2", index)):
            return
        bench.get("GET-3", index, spelling="item")

    rows, trailing = ground.rows, ground.trailing
    indices = [
        *row_indices(rows, negative=True),
        *repeated(rows),
        *element_indices(rows, trailing),
        *empty_indices(rows, trailing),
    ]
    in_turn(lambda: Bench(lab, ground, node), [partial(attempt, index=index) for index in indices])


@check(
    "GET-4", examples=24, ground=grounds, history=st.sampled_from(("nothing", "a refused write", "no rows"))
)
def a_fresh_storage_cannot_be_read(lab: Lab, ground: Ground, history: str) -> None:
    ndim = 1 + len(ground.trailing)
    indices = [
        at(0),
        at(-1),
        at(3),
        Index("numpy", (0,)),
        Index("scalar", (0,)),
        ALL,
        Index("slice", (0, 1, None)),
        Index("slice", (1, 1, None)),
        Index("ellipsis"),
        Index("range", (0, 1)),
        Index("list", (0,)),
        Index("tensor", (0,)),
        Index("int32", (0,)),
        Index("grid", ((1, 1), (0,))),
        Index("mask"),
        *EMPTY,
    ]
    if ndim > 1:
        indices += [Index("tuple", (at(0),) * ndim), Index("tuple", (ALL, at(0)))]

    def attempt(bench: Bench, index: Index) -> None:
        bench.refuse_get("GET-4", index)

    def fresh() -> Bench:
        bench = Bench(lab, ground, PAIR, fresh=True)
        if history != "nothing":
            with suppress(Raised):
                index = at(ground.capacity + 1) if history == "a refused write" else Index("range", (0, 0))
                bench.storage.set(index, bench.batch(index.resolve(ground.capacity + 2, ground.trailing)))
        return bench

    if fresh().size() == (None, 0):  # a storage that is not fresh after that fails LAZY-3 or LAZY-6
        lab.start()
        in_turn(fresh, [partial(attempt, index=index) for index in indices])


# --- whose memory it is -------------------------------------------------------------------------------------


def advanced(rows: int, trailing: tuple[int, ...]) -> list[Index]:
    """Advanced indices; some of them address what a slice could, and must not be read as one."""
    last, ordered = rows - 1, tuple(range(rows))
    found = [
        Index("range", (0, rows)),
        Index("range", (0, 1)),
        Index("range", (last, rows)),
        Index("range", (0, rows, 2)),
        Index("range", (last, -1, -1)),
        Index("list", ordered),
        Index("list", (0,)),
        Index("list", (last, 0)),
        Index("tensor", ordered),
        Index("tensor", (last,)),
        Index("int32", ordered),
        Index("mask", (True,) * rows),
        Index("mask", (False,) * last + (True,)),
        Index("grid", ((rows, 1), ordered)),
        Index("grid", ((1, 1), (0,))),
    ]
    if trailing:
        zeros, all_columns = tuple(at(0) for _ in trailing), tuple(ALL for _ in trailing)
        tensors_ = tuple(Index("tensor", tuple(range(size))[:1]) for size in trailing)
        found += [
            Index("tuple", (Index("tensor", ordered), *zeros)),
            Index("tuple", (Index("tensor", ordered), *all_columns)),
            Index("tuple", (Index("tensor", (0,)), *tensors_)),
            Index("tuple", (ALL, Index("tensor", (0,)))),
            Index("tuple", (at(0), Index("tensor", tuple(range(trailing[0]))))),
        ]
        shape = (rows, *trailing)
        found.append(Index("cells", (shape, (True,) * (rows * torch.Size(trailing).numel()))))
    return found


def kinds(features: frozenset[str]) -> Arguments:
    return {"node": st.sampled_from((*KINDS, *TREES) if "pytree" in features else KINDS)}


@check("GET-5", examples=20, given=kinds, ground=grounds, spelling=st.sampled_from(("get", "get", "item")))
def changes_of_a_sampled_batch_stay_there(lab: Lab, node: Node, ground: Ground, spelling: str) -> None:
    def attempt(bench: Bench, index: Index) -> None:
        value = bench.get("GET-2", index, spelling=spelling)
        for tensor in tensors(value):
            tensor.logical_not_() if tensor.dtype == torch.bool else tensor.add_(1)
        lab.program.add(f"change({bench.last_found})")
        bench.rows("GET-5")
        bench.get("GET-5", index, spelling=spelling)  # what was handed out must not be handed out again

    in_turn(
        lambda: Bench(lab, ground, node),
        [partial(attempt, index=index) for index in advanced(ground.rows, ground.trailing)],
    )


@check("GET-5", examples=10, given=kinds, ground=grounds, verb=st.sampled_from(("set", "assign")))
def a_sampled_batch_outlives_its_rows(lab: Lab, node: Node, ground: Ground, verb: str) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node)
        value, before = bench.get("GET-2", index), bench.model.copy()
        for row in range(ground.rows):
            bench.set("SET-1", at(row)) if verb == "set" else bench.assign("SET-16", at(row))
        now, bench.model = bench.model, before
        bench.value("GET-5", value, index)
        bench.model = now

    every(lab, "GET-5", advanced(ground.rows, ground.trailing), attempt)


CONTAINERS: tuple[Node, ...] = (
    PAIR,
    Fields((("a", Leaf()), ("next", Fields((("b", Leaf()), ("deep", Fields((("c", Leaf()),)))))))),
    Fields((("step", STEP), ("b", Leaf()))),
    Fields((("a", Leaf()), ("more", Fields((("step", STEP),))))),
    Fields((("a", Leaf()), ("none", Fields(())))),
    Record("Transition", (("step", STEP), ("value", Leaf()))),
)


@check(
    "GET-6",
    examples=12,
    ground=grounds,
    spelling=st.sampled_from(("get", "item")),
    given=lambda features: {
        "node": st.sampled_from((*CONTAINERS, *TREES) if "pytree" in features else CONTAINERS)
    },
)
def fields_of_what_was_read_may_come_and_go(lab: Lab, ground: Ground, spelling: str, node: Node) -> None:
    def attempt(bench: Bench, case: tuple[Index, str]) -> None:
        index, change = case
        value = bench.get("GET-2", index, spelling=spelling)
        _change_fields(value, change)
        lab.program.add(f"{'add' if change == 'adds to' else 'remove'}_fields({bench.last_found})")
        for again in (at(0), ALL, index, Index("list", (0,))):
            bench.get("GET-6", again)
        bench.set("GET-6", at(0))
        bench.rows("GET-6")

    readable = Index("slice", (0, ground.rows, None))
    indices = (
        at(0),
        at(ground.rows - 1),
        ALL,
        readable,
        Index("ellipsis"),
        Index("range", (0, ground.rows)),
        Index("list", (0,)),
        Index("slice", (0, 1, None)),
    )
    cases = [(index, change) for index in indices for change in ("adds to", "removes")]
    in_turn(lambda: Bench(lab, ground, node), [partial(attempt, case=case) for case in cases])


def _change_fields(value: Any, change: str) -> None:
    """Adds a field to every container, or removes all fields; a container that is locked keeps what it has."""
    with suppress(Exception):
        if isinstance(value, TensorDictBase):
            for inner in value.values():
                _change_fields(inner, change)
            if change == "adds to":
                value["new"] = torch.zeros(value.batch_size)
            else:
                for key in list(value.keys()):
                    del value[key]
        elif isinstance(value, dict):
            for inner in value.values():
                _change_fields(inner, change)
            value.update(new=torch.zeros(2)) if change == "adds to" else value.clear()
        elif isinstance(value, list):
            value.append(torch.zeros(2)) if change == "adds to" else value.clear()
        elif isinstance(value, tuple):
            for inner in value:
                _change_fields(inner, change)
        elif hasattr(value, "_tensordict"):
            for inner in value.values():
                _change_fields(inner, change)
