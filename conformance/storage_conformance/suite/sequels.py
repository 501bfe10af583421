"""A second storage after the first: what the checks of loads, copies and refusals have in common.

No check is registered here. A `Trial` tells the story of one storage; a sequel begins another one in the same program,
with the dumps of the first at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.structure import Absent, Fields, Leaf, Node, Record, Text, Tree
from storage_conformance.subject import Literal, Subject
from storage_conformance.trial import Blame, Setup, Step, Trial, law

__all__ = [
    "CAPTIONED",
    "EVERY_DTYPE",
    "NESTED",
    "PAIR",
    "SHAPES",
    "STEP",
    "TENSOR",
    "TEXTS",
    "TRANSITION",
    "capacity",
    "combinations",
    "filled",
    "kinds",
    "label",
    "load_aside",
    "loaded",
    "row",
    "rows",
    "sequel",
    "setup_in",
    "setups_of",
    "shelved",
    "swap",
]

FLOAT, LONG = Leaf(torch.float32), Leaf(torch.int64)
PAIR = Fields((("a", FLOAT), ("b", LONG)))
WIDE = Fields((("a", Leaf(torch.float16, (2, 3))), ("b", Leaf(torch.uint8, (5,)))))
NESTED = Fields(
    (("a", FLOAT), ("next", Fields((("obs", Leaf(torch.float64, (2,))), ("a", LONG)))), ("none", Fields(())))
)
STEP = Record("Step", (("obs", Leaf(torch.float32, (2,))), ("reward", Leaf(torch.float64))))
TRANSITION = Record("Transition", (("step", STEP), ("value", FLOAT)))
INSIDE = Fields((("b", LONG), ("step", STEP)))
MASKED = Record("Masked", (("obs", FLOAT), ("mask", Absent())))
EXTRA = Fields((("a", FLOAT), ("next", Fields((("b", LONG),), (3,)))), (2,))
HOLLOW = Fields((("a", Leaf(torch.float32, (0,))), ("b", LONG), ("c", Leaf(torch.bool, (2, 0)))))
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)
EVERY_DTYPE = Fields(tuple((str(dtype)[6:], Leaf(dtype, (2,))) for dtype in DTYPES))
TENSOR = Leaf(torch.float32, (2,))
SCALAR = Leaf(torch.int64)
MAPPING = Tree("dict", (("a", FLOAT), ("b", Tree("list", (("0", LONG), ("1", Leaf(torch.float32, (2,))))))))
COUPLE = Tree("tuple", (("0", FLOAT), ("1", LONG)))
POINT = Tree("namedtuple", (("x", FLOAT), ("y", Tree("dict", (("c", LONG),)))))
TEXTS = Fields((("a", FLOAT), ("text", Text())))
CAPTIONED = Record("Captioned", (("obs", FLOAT), ("caption", Text())))
DEEP_TEXTS = Fields((("a", FLOAT), ("next", Fields((("b", LONG), ("text", Text()))))))

SHAPES = ((5, ()), (1, ()), (7, (2,)), (20, (2, 3)))
"""`max_size` and `T`: five rows, one row, and four rows into which `P` does not divide `max_size`."""

PLAIN = (PAIR, STEP, NESTED, TRANSITION, INSIDE, MASKED, EXTRA, HOLLOW, WIDE, EVERY_DTYPE, TENSOR, SCALAR)


def kinds(features: frozenset[str], trailing: tuple[int, ...] = ()) -> tuple[Node, ...]:
    """Structures of every kind that a backend with these features has to take."""
    trees = (MAPPING, COUPLE, POINT) if "pytree" in features else ()
    texts = (TEXTS, CAPTIONED, DEEP_TEXTS) if "non_tensor" in features and not trailing else ()
    return (*PLAIN, *trees, *texts)


def setups_of(
    nodes: Callable[[frozenset[str]], tuple[Node, ...]] | None = None,
) -> Callable[[frozenset[str]], Any]:
    """Every structure in one shape, some in two, and the pair of leaves in all. Drawn as `setup`."""

    def arguments(features: frozenset[str]) -> dict[str, st.SearchStrategy[Any]]:
        chosen = kinds(features) if nodes is None else nodes(features)
        found = [setup_in(SHAPES[0], node) for node in chosen]
        found += [setup_in(shape, PAIR) for shape in SHAPES[1:]]
        found += [
            setup_in(SHAPES[2 + n % 2], node)
            for n, node in enumerate(chosen)
            if node in (STEP, NESTED, TRANSITION, EVERY_DTYPE, TENSOR, MAPPING)
        ]
        return {"setup": st.sampled_from(found)}

    return arguments


def setup_in(shape: tuple[int, tuple[int, ...]], node: Node = PAIR) -> Setup:
    """A storage of a shape of `SHAPES`."""
    size, trailing = shape
    return Setup(size, 1 + len(trailing), trailing, node)


def capacity(setup: Setup) -> int:
    """`R`."""
    return -(-setup.size // prod(setup.trailing))


def rows(setup: Setup, start: int, stop: int, seed: int = 0, *, bits: bool = False) -> Step:
    """A write of whole rows, in the plainest way."""
    batch = Batch(setup.node, (stop - start, *setup.trailing), seed=seed, bits=bits)
    return Step("write", (Index("range", (start, stop)), batch))


def row(setup: Setup, number: int, seed: int = 0, *, bits: bool = False) -> Step:
    """A write of one row."""
    return Step("write", (at(number), Batch(setup.node, setup.trailing, seed=seed, bits=bits)))


def filled(setup: Setup, state: str, seed: int = 0, *, bits: bool = False) -> list[Step]:
    """Writes that leave a storage "fresh", "partial", with a "gap" of rows never written, or "full".

    A full one has begun again, so that its last-written row is not its highest one.
    """
    count = capacity(setup)
    if state == "fresh":
        return []
    if state == "partial" and count > 2:
        return [rows(setup, 0, count - 2, seed, bits=bits)]
    if state == "gap" and count > 2:
        return [row(setup, 0, seed, bits=bits), row(setup, count - 2, seed + 1, bits=bits)]
    return [rows(setup, 0, count, seed, bits=bits), row(setup, 0, seed + 1, bits=bits)]


def label(slot: int | str) -> str:
    """The path of a dump, as the programs shown spell it."""
    return f'folder / "{slot}"'


def shelved(lab: Lab, setup: Setup, *steps: Step, slot: int = 0) -> Trial:
    """Plays a program and dumps its storage at a slot."""
    return play(lab, setup, *steps, Step("dump", (slot,)))


def sequel(lab: Lab, earlier: Trial, setup: Setup, *steps: Step) -> Trial:
    """Plays a program of its own after `earlier`, whose dumps it can load.

    Only the steps before the first load are attributed: controls could not load what another program dumped.
    """
    lines = list(earlier.storage.program.lines)
    first_load = next((n for n, step in enumerate(steps) if step.verb == "load"), len(steps))
    trial = play(lab, setup, *steps[:first_load])
    lab.program.lines[:0] = lines
    trial.dumps.update(earlier.dumps)
    for step in steps[first_load:]:
        step.perform(trial)
    return trial


def loaded(requirement: str, *, last_row: str = "CKPT-23") -> Blame:
    """One requirement answers for what a load leaves, but for what others say of the text and the last row."""
    return replace(law(requirement), last_row=last_row, text="CKPT-8")


def load_aside(
    trial: Trial,
    path: Path,
    dumped: Model,
    requirement: str,
    *,
    reader: str = "loads",
    size: int | None = None,
    shown: Any = None,
) -> Subject:
    """Loads a dump into one more fresh storage and compares everything, under one requirement.

    Only under CKPT-5 do text and last row stand under requirements of their own: whatever else asks for a load has
    seen one succeed before.
    """
    setup = trial.setup
    model = Model(size or setup.size, setup.ndim, setup.trailing, setup.node)
    storage = trial.another(model.size)
    with trial.lab.checking(requirement):
        storage.call(reader, shown or Literal(path, label("0")))
    model.take(dumped)
    blame = loaded(requirement) if requirement == "CKPT-5" else law(requirement)
    trial.verify_other(storage, model, blame)
    return storage


def swap(trial: Trial) -> None:
    """The program goes on with the twin, which the other storage must not follow."""
    assert trial.twin is not None
    storage, model, requirement = trial.twin
    trial.twin = trial.storage, trial.model, requirement
    trial.storage, trial.model = storage, model


def combinations(*choices: Any) -> st.SearchStrategy[Any]:
    """Every combination of the choices."""
    return st.sampled_from(list(product(*choices)))
