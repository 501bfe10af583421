"""Chapter CKPT: which storages take which dumps."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import TensorDictBase

from storage_conformance.batch import Batch
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation
from storage_conformance.strategies.faults import spoiled
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    MAPPING,
    MASKED,
    NESTED,
    PAIR,
    SHAPES,
    STEP,
    TENSOR,
    TEXTS,
    TRANSITION,
    capacity,
    filled,
    label,
    load_aside,
    loaded,
    row,
    rows,
    sequel,
    setup_in,
    shelved,
)
from storage_conformance.trial import Setup, Step, Trial, law


def refuse_load(trial: Trial, requirement: str, slot: int = 0) -> None:
    """A load that has to be refused and to leave everything as it was."""
    act = Literal(trial.dumps[slot][0], label(slot))
    trial.lab.refused(requirement, lambda: trial.storage.call("loads", act), what="the load")
    trial.verify(law("ERR-3"))


@check(
    "CKPT-10",
    examples=60,
    shape=st.sampled_from(SHAPES),
    node=st.sampled_from((PAIR, STEP)),
    state=st.sampled_from(("partial", "full")),
    used=st.booleans(),
)
def rows_are_loaded_wherever_they_fit(lab: Lab, shape: Any, node: Node, state: str, used: bool) -> None:
    setup = setup_in(shape, node)
    source = shelved(lab, setup, *filled(setup, state, 3))
    path, dumped = source.dumps[0]
    load_aside(source, path, dumped, "CKPT-5")
    elements, width = len(dumped), prod(setup.trailing)
    for size in sorted(
        {elements, elements - width + 1, elements + 1, setup.size, setup.size + 2 * width + 1}
    ):
        other = replace(setup, size=size)
        trial = sequel(lab, source, other, *([rows(other, 0, min(2, capacity(other)), 8)] if used else []))
        with lab.checking("CKPT-10"):
            trial.storage.call("loads", Literal(path, label(0)))
        trial.model.take(dumped)
        trial.verify(loaded("CKPT-10"))
        with lab.checking("CKPT-10"):
            trial.storage.set(*row(other, capacity(other) - 1).arguments)


@check(
    "CKPT-11",
    examples=60,
    shape=st.sampled_from([shape for shape in SHAPES if shape[0] > 1]),
    node=st.sampled_from((PAIR, STEP)),
    state=st.sampled_from(("partial", "full")),
    held=st.sampled_from(("fresh", "one", "full")),
)
def more_rows_than_fit_are_refused(lab: Lab, shape: Any, node: Node, state: str, held: str) -> None:
    setup = setup_in(shape, node)
    source = shelved(lab, setup, *filled(setup, state, 3))
    load_aside(source, *source.dumps[0], "CKPT-5")
    for count in sorted({source.model.readable - 1, 1} - {0}):
        small = replace(setup, size=count * prod(setup.trailing))
        before = {"fresh": [], "one": [rows(small, 0, 1, 8)], "full": filled(small, "full", 8)}[held]
        trial = sequel(lab, source, small, *before)
        refuse_load(trial, "CKPT-11")
        trial.write(*row(small, count - 1, 9).arguments)


def _shapes_at_odds() -> list[tuple[Setup, Setup, bool]]:
    """Dumped and held, and whether the holder is fresh: the same bytes, counted in other elements."""
    flat, cell, pair = (
        Leaf(torch.float32, (2,)),
        Leaf(torch.float32),
        Fields((("a", Leaf()), ("b", Leaf(torch.int64)))),
    )
    bulky = replace(pair, extra=(2,))
    other_ndims = [
        (Setup(8, 2, (2,), cell), Setup(4, 1, (), flat)),
        (Setup(8, 2, (2,), pair), Setup(4, 1, (), bulky)),
        (Setup(24, 3, (2, 3), pair), Setup(8, 2, (2,), replace(pair, extra=(3,)))),
        (Setup(8, 2, (1,), pair), Setup(8, 1, (), pair)),
    ]
    other_trailing = [
        (Setup(8, 2, (2,), pair), Setup(12, 2, (3,), pair)),
        (Setup(12, 2, (3,), pair), Setup(8, 2, (2,), pair)),
        (Setup(24, 3, (2, 3), pair), Setup(24, 3, (3, 2), pair)),
        (Setup(24, 3, (2, 3), cell), Setup(24, 3, (6, 1), cell)),
        (Setup(8, 2, (1,), cell), Setup(8, 2, (2,), cell)),
    ]
    both_ways = [*other_ndims, *((held, dumped) for dumped, held in other_ndims)]
    return [(*pair_, fresh) for pair_ in both_ways for fresh in (True, False)] + [
        (*pair_, False) for pair_ in other_trailing
    ]


@check("CKPT-12", examples=60, case=st.sampled_from(_shapes_at_odds()))
def rows_of_another_shape_are_refused(lab: Lab, case: tuple[Setup, Setup, bool]) -> None:
    dumped, held, fresh = case
    source = shelved(lab, dumped, rows(dumped, 0, 2, 3))
    trial = sequel(lab, source, held, *([] if fresh else [rows(held, 0, 2, 8)]))
    refuse_load(trial, "CKPT-12")


def _structures_at_odds(features: frozenset[str]) -> dict[str, st.SearchStrategy[Any]]:
    nodes: list[Node] = [
        PAIR,
        NESTED,
        STEP,
        TRANSITION,
        MASKED,
        TENSOR,
        Record("LongStep", (*STEP.children, ("done", Leaf(torch.bool)))),
    ]
    nodes += [MAPPING] if "pytree" in features else []
    nodes += [TEXTS] if "non_tensor" in features else []
    about_structure = {"SET-8", "SET-10", "SET-12", "DATA-9", "DATA-15"}
    found: list[tuple[Node, Node]] = []
    for node in nodes:
        variants = [
            b.node
            for b, rule in spoiled(Batch(node, ()), (), fresh=False, rows_named=False)
            if rule in about_structure
        ]
        found += [pair for variant in variants for pair in ((node, variant), (variant, node))]
    a, b = PAIR.children
    found += [
        (PAIR, Fields((a, ("c", b[1])))),
        (PAIR, Fields((a, ("b", Fields((b,)))))),
        (Fields((a, ("b", Fields((b,))))), PAIR),
        (Fields((a, ("b", STEP))), Fields((a, ("b", replace(STEP, type="Twin"))))),
        (STEP, Fields(STEP.children)),
    ]
    if "pytree" in features:
        couple, point = (
            Tree("tuple", (("0", a[1]), ("1", b[1]))),
            Tree("namedtuple", (("x", a[1]), ("y", b[1]))),
        )
        inner = Tree("dict", (("a", couple),)), Tree("dict", (("a", replace(couple, type="list")),))
        found += [(couple, point), (point, couple), inner, inner[::-1]]
        found += [(Tree("dict", PAIR.children), PAIR), (PAIR, Tree("dict", PAIR.children))]
    return {"case": st.sampled_from(list(dict.fromkeys(found)))}


@check("CKPT-13", examples=250, given=_structures_at_odds)
def rows_of_another_structure_are_refused(lab: Lab, case: tuple[Node, Node]) -> None:
    dumped, held = (Setup(4, node=node) for node in case)
    source = shelved(lab, dumped, rows(dumped, 0, 3, 3))
    trial = sequel(lab, source, held, rows(held, 0, 2, 8))
    refuse_load(trial, "CKPT-13")


_SAMPLE = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
)
DTYPE_PAIRS = [(a, b) for a in _SAMPLE for b in _SAMPLE if a != b]


@check("CKPT-24", examples=180, dtypes=st.sampled_from(DTYPE_PAIRS))
def values_survive_a_load_into_another_dtype(lab: Lab, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    """The last leaf differs; its values are as far from the other dtype as they can be without being infinite."""
    written, held = (Setup(4, node=Fields((("a", Leaf()), ("b", Leaf(dtype, (2,)))))) for dtype in dtypes)
    whole = not (dtypes[0].is_floating_point or dtypes[0].is_complex)
    batch = Batch(written.node, (3,), seed=3, halves=dtypes[0].is_floating_point, bits=whole)
    source = shelved(lab, written, Step("write", (rows(written, 0, 3).arguments[0], batch)))
    trial = sequel(lab, source, held, rows(held, 0, 2, 8))
    try:
        trial.storage.call("loads", Literal(source.dumps[0][0], label(0)))
    except Raised as raised:
        lab.allowed(raised.error)
        with lab.checking("CKPT-24"):
            trial.verify(law("ERR-3"))
        return
    lab.program.precede("with refused(): ")
    with lab.checking("CKPT-24"):
        value = trial.storage.peek(slice(0, 3))
        if not isinstance(value, TensorDictBase) or set(value.keys()) != {"a", "b"}:
            raise Violation(f"after the load the rows are {value!r}, expected a TensorDict of 'a' and 'b'")
        for name, expected in zip("ab", batch.values, strict=True):
            _same_values(name, value.get(name), expected)


def _same_values(name: str, actual: torch.Tensor, expected: torch.Tensor) -> None:
    both_floating = actual.dtype.is_floating_point and expected.dtype.is_floating_point
    precision = max(torch.finfo(actual.dtype).eps, torch.finfo(expected.dtype).eps) if both_floating else 0
    if actual.shape != expected.shape:
        raise Violation(
            f"leaf {name!r} has shape {list(actual.shape)} after the load, expected {list(expected.shape)}"
        )
    for got, want in zip(actual.reshape(-1).tolist(), expected.reshape(-1).tolist(), strict=True):
        if abs(got - want) > precision * abs(want):
            raise Violation(
                f"leaf {name!r} of {actual.dtype} holds {got} after the load of {want} of {expected.dtype}"
            )
