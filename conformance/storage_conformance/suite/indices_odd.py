"""Chapter IDX: indices of no rows, objects that are no index, and kinds that a storage may take or refuse."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.strategies.structures import structures
from storage_conformance.structure import Leaf, Node, observe
from storage_conformance.subject import Literal
from storage_conformance.suite.bench import ANY_REFUSAL, Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import GROUNDS, NODES, PAIR, PARTLY, STEP, Ground
from storage_conformance.suite.indices_dimensions import refused_as_index
from storage_conformance.suite.sequels import TEXTS
from storage_conformance.suite.turns import every
from storage_conformance.trial import Setup, Step

grounds = st.sampled_from(GROUNDS)
nodes = st.sampled_from(NODES)

BOOLS = (Literal(True, "True"), Literal(False, "False"))
NO_INDICES = (
    Literal(None, "None"),
    Literal("a", "'a'"),
    Literal("next", "'next'"),
    Literal("", "''"),
    Literal(0.0, "0.0"),
    Literal(1.5, "1.5"),
    Literal(float("nan"), "float('nan')"),
    Literal(torch.tensor(0.0), "torch.tensor(0.)"),
    Literal(torch.tensor([0.0]), "torch.tensor([0.])"),
    Literal(torch.tensor([1.0, 0.0], dtype=torch.float64), "torch.tensor([1., 0.], dtype=torch.float64)"),
    Literal(torch.tensor([1.0], dtype=torch.float16), "torch.tensor([1.], dtype=torch.float16)"),
)


NO_SLICES = tuple(
    Literal(bounds, repr(bounds).replace("slice(None, None, None)", "slice(None)"))
    for bounds in (
        slice(None, None, 0),
        slice(0, 1, 0),
        slice("a"),
        slice("0", None),
        slice(0.0, 1),
        slice(0, 1.0),
        slice(None, None, 1.0),
        slice(None, None, "1"),
    )
)
NO_LISTS = tuple(
    Literal(rows, repr(rows)) for rows in (["a"], ["0"], [0.0], [1.5], [None], [0, 1.5], [0, "a"], [0, None])
)


@check("IDX-15", examples=2, nodes=st.permutations(NODES))
def a_bool_is_no_index(lab: Lab, nodes: list[Node]) -> None:
    places = [
        (ground, nodes[n % len(nodes)])
        for n, ground in enumerate((*PARTLY, Ground(1, (), 1), Ground(2, (), 2)))
    ]
    refused_as_index(lab, "IDX-15", [(*place, index) for place in places for index in BOOLS * 3])


@check("IDX-16", examples=2, nodes=st.permutations(NODES))
def what_names_no_row_is_no_index(lab: Lab, nodes: list[Node]) -> None:
    places = [(PARTLY[0], PAIR), *((ground, nodes[n]) for n, ground in enumerate(PARTLY))]
    refused_as_index(lab, "IDX-16", [(*place, index) for place in places for index in NO_INDICES])


@check("IDX-22", examples=2, nodes=st.permutations(NODES))
def a_slice_has_integers_for_bounds_and_steps_on(lab: Lab, nodes: list[Node]) -> None:
    places = [(PARTLY[0], PAIR), *((ground, nodes[n]) for n, ground in enumerate(PARTLY))]
    refused_as_index(lab, "IDX-22", [(*place, index) for place in places for index in NO_SLICES])


@check("IDX-23", examples=2, nodes=st.permutations(NODES))
def a_list_of_anything_but_integers_is_no_index(lab: Lab, nodes: list[Node]) -> None:
    places = [(PARTLY[0], PAIR), *((ground, nodes[n]) for n, ground in enumerate(PARTLY))]
    refused_as_index(lab, "IDX-23", [(*place, index) for place in places for index in NO_LISTS])


# --- indices of no rows -------------------------------------------------------------------------------------

EMPTY = (
    Index("list"),
    Index("tensor"),
    Index("int32"),
    Index("range", (0, 0)),
    Index("range", (1, 0, 1)),
    Index("slice", (1, 1, None)),
    Index("slice", (9, None, None)),
    Index("slice", (0, 0, 2)),
    Index("grid", ((0, 2), ())),
    Index("grid", ((2, 0), ())),
)


def empty_indices(rows: int, trailing: tuple[int, ...]) -> list[Index]:
    found = [*EMPTY, Index("mask", (False,) * rows)]
    if trailing:
        shape = (rows, *trailing)
        found.append(Index("cells", (shape, (False,) * prod(shape))))
        found.append(Index("tuple", (Index("slice", (0, 0, None)), at(0))))
        found.append(Index("tuple", tuple(Index("tensor") for _ in shape)))
    return found


@check("IDX-20", examples=40, node=structures(frozenset(), one_dimension=False), ground=grounds)
def an_index_of_no_rows_gives_no_rows(lab: Lab, ground: Ground, node: Node) -> None:
    bench = Bench(lab, ground, node)
    for index in empty_indices(ground.rows, ground.trailing):
        bench.get("IDX-20", index)


@check("IDX-20")
def an_index_of_no_rows_gives_no_texts(lab: Lab) -> None:
    if not lab.claims("non_tensor"):
        return
    setup = Setup(3, node=TEXTS)
    write = Step("write", (Index("range", (0, 2)), Batch(TEXTS, (2,))))
    for empty in (Index("range", (0, 0)), Index("list"), Index("slice", (0, 0, None)), Index("tensor")):
        play(lab, setup, write, Step("read", (empty, "grad", "item", False)))


@check("IDX-20", examples=6, node=st.sampled_from((Leaf(feature=(2,)), PAIR, STEP)))
def a_cleared_storage_gives_no_rows(lab: Lab, node: Node) -> None:
    if not lab.claims("clear"):
        return
    bench = Bench(lab, Ground(5, (), 3), node)
    with lab.checking("QRY-9"):
        bench.storage.call("clear")
    for index in EMPTY:
        with lab.checking("IDX-20"):
            lead = index.resolve(0, ()).lead
            observe(bench.storage.get(index), node, lead)


# --- kinds that a storage may take or refuse ----------------------------------------------------------------


@check(
    "IDX-17",
    examples=16,
    ground=st.sampled_from(
        (Ground(2, (), 2), Ground(3, (), 3), Ground(5, (), 3), Ground(9, (3,), 3), Ground(8, (2, 2), 2))
    ),
    node=nodes,
)
def a_uint8_tensor_is_no_mask(lab: Lab, ground: Ground, node: Node) -> None:
    def uint8(*rows: int) -> Index:
        return Index("uint8", rows)

    def scalar(row: int) -> Literal:
        return Literal(torch.tensor(row, dtype=torch.uint8), f"torch.tensor({row}, dtype=torch.uint8)")

    def taken_for_a_mask(bench: Bench) -> None:
        # Data for a mask of one row: as int64 these rows are more, and the write has to be refused.
        data = bench.batch(bench.model.for_writing(at(0))).reshaped((1, *ground.trailing))
        bench.refuse_set("IDX-17", uint8(1, *[0] * (ground.capacity - 1)), data)

    def attempt(case: tuple[str, Index, Index | Literal]) -> None:
        verb, meaning, given = case
        bench = Bench(lab, ground, node)
        if verb == "get":
            bench.may_get("IDX-17", meaning, ANY_REFUSAL, given=given)
        elif verb == "assign":
            bench.may_assign("IDX-17", meaning, ANY_REFUSAL, given=given)
        elif verb == "set":
            bench.may_set("IDX-17", meaning, ANY_REFUSAL, given=given)
        else:
            taken_for_a_mask(bench)

    orders = [
        (1, 0),
        (0, 1),
        tuple(range(ground.rows))[::-1],
        (1, *[0] * (ground.rows - 1)),
        (1, 1),
        (0,) * ground.rows,
        (1,),
    ]
    cases: list[tuple[str, Index, Index | Literal]] = [("mask", at(0), at(0))]
    for order in orders:
        verbs = ("get", "assign", "set") if len(set(order)) == len(order) else ("get",)
        cases += [(verb, Index("list", order), uint8(*order)) for verb in verbs]
    for row in (0, 1, ground.rows - 1):
        cases += [(verb, at(row), scalar(row)) for verb in ("get", "assign", "set")]
    every(lab, "IDX-17", cases, attempt)


DOWNWARDS = (
    (None, None, -1),
    (None, None, -2),
    (3, 0, -1),
    (-1, None, -1),
    (2, None, -1),
    (9, 0, -2),
    (-1, -9, -1),
    (None, 0, -3),
    (0, None, -1),
)


@check("IDX-19", examples=3, nodes=st.permutations(NODES))
def a_slice_with_a_negative_step_goes_down_or_is_refused(lab: Lab, nodes: list[Node]) -> None:
    def attempt(case: tuple[tuple[int | None, int | None, int], Ground, Node, str]) -> None:
        bounds, ground, node, verb = case
        index, bench = Index("slice", bounds), Bench(lab, ground, node, fresh=verb == "first")
        if not range(*slice(*bounds).indices(ground.rows if verb in ("get", "assign") else ground.capacity)):
            return
        if verb == "get":
            bench.may_get("IDX-19", index, (ValueError,))
        elif verb == "assign":
            bench.may_assign("IDX-19", index, (ValueError,))
        else:
            bench.may_set("IDX-19", index, (ValueError,))

    some = product(DOWNWARDS[1:3], GROUNDS[:5], (Leaf(), PAIR), ("get", "assign", "set", "first"))
    rest = product(DOWNWARDS, GROUNDS[5:], nodes[:1], ("get", "assign", "set", "first"))
    every(lab, "IDX-19", (*some, *rest), attempt)


ARRAYS = ("int64", "int32", "grid", "scalar", "bool")


@check(
    "IDX-21", examples=40, ground=grounds, kind=st.sampled_from(ARRAYS), node=st.sampled_from((Leaf(), PAIR))
)
def numpy_arrays_are_tensors_or_refused_everywhere(lab: Lab, ground: Ground, kind: str, node: Node) -> None:
    def array(rows: int) -> tuple[Index, Literal]:
        """What the array means as a tensor, and the array itself."""
        order = tuple(range(rows))[::-1]
        if kind == "scalar":
            return at(rows - 1), Literal(numpy.array(rows - 1), f"numpy.array({rows - 1})")
        if kind == "grid":
            return Index("grid", ((rows, 1), order)), Literal(
                numpy.array(order).reshape(rows, 1), f"numpy.array({list(order)}).reshape({rows}, 1)"
            )
        if kind == "bool":
            bits = (True, *[False] * (rows - 2), True)[:rows]
            return Index("mask", bits), Literal(numpy.array(bits), f"numpy.array({list(bits)})")
        return Index("list", order), Literal(
            numpy.array(order, dtype=kind), f"numpy.array({list(order)}, dtype={kind!r})"
        )

    taken: dict[str, bool] = {}
    for verb, rows in (
        ("get", ground.rows),
        ("set", ground.capacity),
        ("[]=", ground.rows),
        ("first set", ground.capacity),
    ):
        lab.start()
        meaning, given = array(rows)
        bench = Bench(lab, ground, node, fresh=verb == "first set")
        if verb == "get":
            taken[verb] = bench.may_get("IDX-21", meaning, (TypeError,), given=given)
        elif verb == "[]=":
            taken[verb] = bench.may_assign("IDX-21", meaning, (TypeError,), given=given)
        else:
            taken[verb] = bench.may_set("IDX-21", meaning, (TypeError,), given=given)
        with lab.checking("IDX-21"):
            if taken[verb] != taken["get"]:
                takes, refuses = ("get", verb) if taken["get"] else (verb, "get")
                raise Violation(f"{takes} takes a NumPy array of kind {kind}, {refuses} refuses it")
