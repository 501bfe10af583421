"""Chapter SET: graphs, autograd modes, strides and locks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import TensorDict

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields, Leaf, Node, tensors
from storage_conformance.subject import Literal
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import GROUNDS, PAIR, STEP, Ground
from storage_conformance.suite.turns import every
from storage_conformance.suite.writing_memory import ALL, KINDS, few, full_grounds, kinds

grounds = st.sampled_from(GROUNDS)


# --- graphs -------------------------------------------------------------------------------------------------

FLOATS: tuple[Node, ...] = (
    Leaf(feature=(2,)),
    Fields(
        (("n", Leaf(torch.int64)), ("a", Leaf(feature=(2,))), ("next", Fields((("b", Leaf(torch.float64)),))))
    ),
    STEP,
    Leaf(torch.complex64),
)


@check(
    "SET-4",
    examples=12,
    ground=grounds,
    node=st.sampled_from(FLOATS),
    first=st.sampled_from(("plain", "requires_grad")),
)
def what_is_read_requires_no_grad(lab: Lab, ground: Ground, node: Node, first: str) -> None:
    def attempt(index: Index) -> None:
        bench = Bench(lab, ground, node, fresh=True)
        bench.set("SET-4", index, bench.batch(bench.model.for_writing(index), layout=first))
        _requires_no_grad(bench)
        for later in (at(0), Index("list", (bench.model.readable - 1,)), Index("slice", (0, 1, None))):
            bench.set("SET-4", later, bench.batch(bench.model.for_writing(later), 3, layout="requires_grad"))
            bench.assign(
                "SET-4", later, bench.batch(bench.model.for_writing(later), 5, layout="requires_grad")
            )
        _requires_no_grad(bench)

    rows = ground.capacity
    every(lab, "SET-4", (ALL, at(0), Index("range", (0, rows)), Index("list", tuple(range(rows)))), attempt)


@check(
    "SET-4",
    examples=16,
    kind=st.sampled_from(("parameter", "nested", "result", "record")),
    verb=st.sampled_from(("first", "set", "assign")),
    rows=st.sampled_from((1, 3)),
)
def parameters_and_results_are_written_as_values(lab: Lab, kind: str, verb: str, rows: int) -> None:
    nodes: dict[str, Node] = {
        "parameter": Leaf(feature=(2,)),
        "result": Leaf(feature=(2,)),
        "nested": PAIR,
        "record": STEP,
    }
    node = nodes[kind]
    for index in (at(0), Index("range", (0, rows)), Index("list", tuple(range(rows)))):
        lab.start()
        bench = Bench(lab, Ground(3, (), rows), node, fresh=verb == "first")
        batch = bench.batch(bench.model.for_writing(index))
        data = Literal(
            _in_a_graph(kind, batch),
            f"{'in_a_graph' if kind == 'result' else 'as_parameters'}({batch.code()})",
        )
        if verb == "assign":
            bench.assign("SET-4", index, batch, data=data)
        else:
            bench.set("SET-4", index, batch, data=data)
        _requires_no_grad(bench)


def _in_a_graph(kind: str, batch: Batch) -> Any:
    value = batch.data()
    if kind == "parameter":
        return torch.nn.Parameter(value)
    if kind == "result":
        return torch.zeros_like(value).requires_grad_() + value
    if kind == "nested":
        return TensorDict(
            {"a": torch.nn.Parameter(value["a"]), "next": {"b": torch.nn.Parameter(value["next", "b"])}},
            batch_size=value.batch_size,
        )
    return type(value)(
        obs=torch.nn.Parameter(value.obs),
        reward=torch.nn.Parameter(value.reward),
        batch_size=value.batch_size,
    )


def _requires_no_grad(bench: Bench) -> None:
    readable = bench.model.readable
    for index in (
        at(0),
        ALL,
        Index("list", (0,)),
        Index("range", (0, readable)),
        Index("mask", (True,) * readable),
        Index("ellipsis"),
    ):
        for read in (bench.storage.get, bench.storage.item):
            with bench.lab.checking("SET-4"):
                if any(tensor.requires_grad for tensor in tensors(read(index))):
                    raise Violation(f"a tensor read with {index.code()} requires grad")


# --- autograd modes -----------------------------------------------------------------------------------------

MODES = ("grad", "no_grad", "inference")


@check(
    "SET-5",
    examples=7,
    given=kinds,
    ground=grounds,
    layout=st.sampled_from(("plain", "plain", "inference")),
)
def modes_may_come_in_any_order(lab: Lab, node: Node, ground: Ground, layout: str) -> None:
    for form in ("int", "list", "slice", "range"):
        lab.start()
        _in_any_order(lab, node, ground, layout, form)


def _in_any_order(lab: Lab, node: Node, ground: Ground, layout: str, form: str) -> None:
    Bench(lab, ground, node)  # writing as such is no matter of modes

    def attempt(modes: tuple[str, str]) -> None:
        first, second = modes
        bench = Bench(lab, ground, node, fresh=True)
        index = (
            at(0)
            if form == "int"
            else Index("list", (0,))
            if form == "list"
            else Index(form, (0, 1) if form == "range" else (0, 1, None))
        )
        bench.set("SET-5", Index("range", (0, ground.rows)), mode=first)
        bench.set("SET-5", index, bench.batch(bench.model.for_writing(index), 4, layout=layout), mode=second)
        for mode in MODES:
            bench.get("SET-5", index, mode=mode)
        bench.assign(
            "SET-5", index, bench.batch(bench.model.for_reading(index), 6, layout=layout), mode=second
        )
        for mode in MODES:
            bench.get("SET-5", index, mode=mode)
            bench.set("SET-5", index, bench.batch(bench.model.for_writing(index), 8), mode=mode)

    every(lab, "SET-5", product(MODES, MODES), attempt)


# --- strides and locks --------------------------------------------------------------------------------------


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(list(reversed(range(tensor.dim()))))


LAYOUTS: tuple[tuple[str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
    ("with an offset", lambda tensor: torch.stack([torch.zeros_like(tensor), tensor])[1]),
    ("with all dimensions reversed", lambda tensor: _reversed(_reversed(tensor).contiguous())),
    (
        "with gaps between rows",
        lambda tensor: (
            torch.stack([tensor, torch.zeros_like(tensor)], 1)[:, 0] if tensor.dim() else tensor.clone()
        ),
    ),
    (
        "as columns of a wider tensor",
        lambda tensor: (
            torch.cat([torch.zeros_like(tensor), tensor], -1)[..., tensor.shape[-1] :]
            if tensor.dim()
            else tensor.clone()
        ),
    ),
)


@check(
    "SET-6",
    examples=40,
    node=st.sampled_from(KINDS),
    ground=full_grounds,
    layout=st.sampled_from(("transposed", "strided", "expanded", "locked")),
    verb=st.sampled_from(("first", "set", "assign")),
)
def strides_and_locks_do_not_matter(lab: Lab, node: Node, ground: Ground, layout: str, verb: str) -> None:
    def begin() -> Bench:
        lab.start()
        return Bench(lab, ground, node, fresh=verb == "first")

    def attempt(index: Index) -> None:
        control = begin()
        if not control.prepared(
            lambda: control.assign("SET-16", index) if verb == "assign" else control.set("SET-1", index)
        ):
            return  # dense data are no matter of layout
        bench = begin()
        span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
        batch = bench.batch(span, layout=layout)
        bench.assign("SET-6", index, batch) if verb == "assign" else bench.set("SET-6", index, batch)
        bench.set("SET-6", at(0))  # the lock of the first write is not the storage's

    every(lab, "SET-6", few(ground.rows if verb == "assign" else ground.capacity), attempt)


@check(
    "SET-6",
    examples=10,
    ground=full_grounds,
    node=st.sampled_from((Leaf(feature=(2, 3)), PAIR, STEP, Leaf(torch.bool, (3,)))),
)
def views_of_other_tensors_are_data(lab: Lab, ground: Ground, node: Node) -> None:
    for layout in LAYOUTS:
        for verb in ("first", "set", "assign"):
            for each in (node, Leaf()):
                _laid_out(lab, ground, each, layout, verb)


def _laid_out(
    lab: Lab,
    ground: Ground,
    node: Node,
    layout: tuple[str, Callable[[torch.Tensor], torch.Tensor]],
    verb: str,
) -> None:
    def begin() -> Bench:
        lab.start()
        return Bench(lab, ground, node, fresh=verb == "first")

    def attempt(index: Index) -> None:
        control = begin()
        if not control.prepared(
            lambda: control.assign("SET-16", index) if verb == "assign" else control.set("SET-1", index)
        ):
            return
        bench = begin()
        span = bench.model.for_reading(index) if verb == "assign" else bench.model.for_writing(index)
        batch, (name, lay_out) = bench.batch(span), layout
        dense = batch.data()
        value = lay_out(dense) if isinstance(node, Leaf) else dense.apply(lay_out)
        data = Literal(value, f"{batch.code()} {name}")
        bench.assign("SET-6", index, batch, data=data) if verb == "assign" else bench.set(
            "SET-6", index, batch, data=data
        )

    every(lab, "SET-6", few(ground.rows if verb == "assign" else ground.capacity), attempt)
