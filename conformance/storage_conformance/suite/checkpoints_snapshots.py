"""Chapter CKPT: when a dump can be written, and that it is a snapshot."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.damage import each_file, files_of, removed
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields, Leaf
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    MAPPING,
    NESTED,
    PAIR,
    SHAPES,
    STEP,
    TENSOR,
    TEXTS,
    capacity,
    filled,
    label,
    load_aside,
    row,
    rows,
    sequel,
    setup_in,
    setups_of,
    shelved,
)
from storage_conformance.trial import Setup, Step, Trial, law


def _kinds(features: frozenset[str]) -> tuple[Any, ...]:
    return (
        PAIR,
        NESTED,
        STEP,
        *((MAPPING,) if "pytree" in features else ()),
        *((TEXTS,) if "non_tensor" in features else ()),
    )


@check("CKPT-18", examples=40, given=setups_of(_kinds))
def later_writes_do_not_reach_a_dump(lab: Lab, setup: Setup) -> None:
    count, lead = capacity(setup), setup.trailing
    trial = shelved(lab, setup, *filled(setup, "full", 3))
    path, dumped = trial.dumps[0]
    load_aside(trial, path, dumped, "CKPT-5")
    trial.write(*row(setup, 0, 20).arguments)
    load_aside(trial, path, dumped, "CKPT-18")
    trial.write(*rows(setup, 0, count, 25).arguments)
    trial.assign(Index("slice", (None, None, None)), Batch(setup.node, (count, *lead), seed=30))
    trial.assign(at(0), Batch(setup.node, lead, seed=33))
    load_aside(trial, path, dumped, "CKPT-18")


def _scrambled(lab: Lab, dump: Path) -> None:
    """Changes every byte of a dump in place, as another process might that writes there, and then deletes its files."""
    for name in files_of(dump):
        with (dump / name).open("r+b") as file:
            content = file.read()
            file.seek(0)
            file.write(bytes(255 - byte for byte in content))
    lab.program.add(
        "{}", Literal(None, each_file(dump, "f.write_bytes(bytes(255 - b for b in f.read_bytes()))"))
    )


@check("CKPT-18", examples=40, given=setups_of(_kinds))
def later_changes_of_a_dump_do_not_reach_a_storage(lab: Lab, setup: Setup) -> None:
    """Neither the storage that wrote it, nor one that loaded it, fresh or used."""
    load = Step("load", (0,))
    for reader in ("writer", "fresh", "used"):
        trial = shelved(lab, setup, *filled(setup, "full", 3))
        if reader != "writer":
            trial = sequel(lab, trial, setup, *(filled(setup, "full", 9) if reader == "used" else []), load)
        dump = trial.dumps[0][0]
        _scrambled(lab, dump)
        trial.verify(law("CKPT-18"))
        for name in files_of(dump):
            (dump / name).unlink()
        trial.verify(law("CKPT-18"))
        trial.write(*row(setup, 0, 20).arguments)


@check("CKPT-18", examples=15, shape=st.sampled_from(SHAPES), node=st.sampled_from((PAIR, STEP)))
def writes_after_a_load_do_not_reach_the_dump(lab: Lab, shape: Any, node: Any) -> None:
    setup = setup_in(shape, node)
    source = shelved(lab, setup, *filled(setup, "full", 3))
    path, dumped = source.dumps[0]
    for before in ([], filled(setup, "partial", 9)):
        trial = sequel(lab, source, setup, *before, Step("load", (0,)))
        trial.write(*rows(setup, 0, capacity(setup), 20).arguments)
        trial.assign(at(0), Batch(setup.node, setup.trailing, seed=33))
        load_aside(trial, path, dumped, "CKPT-18")


def _older_and_newer(features: frozenset[str]) -> dict[str, st.SearchStrategy[Any]]:
    nodes = [*_kinds(features), TENSOR]
    setups = [setup_in(SHAPES[0], node) for node in nodes] + [setup_in(shape) for shape in SHAPES[1:]]
    near = [(older, newer) for older, newer in product(setups, setups) if PAIR in (older.node, newer.node)]
    return {"case": st.sampled_from(near)}


@check("CKPT-19", examples=140, given=_older_and_newer)
def a_dump_replaces_an_older_one(lab: Lab, case: tuple[Setup, Setup]) -> None:
    older, newer = case
    first = shelved(lab, older, *filled(older, "full", 3))
    path = first.dumps[0][0]
    second = sequel(lab, first, newer, rows(newer, 0, 1, 9))
    fits = lab.path()
    with lab.checking("CKPT-20"):
        second.storage.call("dumps", Literal(fits, label(1)))
    load_aside(second, fits, second.model, "CKPT-5", shown=Literal(fits, label(1)))
    with lab.checking("CKPT-19"):
        second.storage.call("dumps", Literal(path, label(0)))
    load_aside(second, path, second.model, "CKPT-19")


@check(
    "CKPT-19",
    examples=15,
    setup=st.sampled_from([setup_in(shape, node) for shape in SHAPES for node in (PAIR, STEP)]),
)
def a_storage_replaces_its_own_dumps(lab: Lab, setup: Setup) -> None:
    """More rows over fewer and, after a load, fewer over more."""
    trial = shelved(lab, setup, rows(setup, 0, 1, 3), slot=1)
    trial = sequel(lab, trial, setup, rows(setup, 0, 1, 3))
    path = lab.path()
    with lab.checking("CKPT-20"):
        trial.storage.call("dumps", Literal(path, label(0)))
    for step in (*filled(setup, "full", 7), Step("load", (1,)), row(setup, 0, 12)):
        step.perform(trial)
        elsewhere = lab.path()
        with lab.checking("CKPT-20"):
            trial.storage.call("dumps", Literal(elsewhere, label(2)))
        load_aside(trial, elsewhere, trial.model, "CKPT-5", shown=Literal(elsewhere, label(2)))
        with lab.checking("CKPT-19"):
            trial.storage.call("dumps", Literal(path, label(0)))
        load_aside(trial, path, trial.model, "CKPT-19")


def _first_indices(trailing: tuple[int, ...]) -> list[Index]:
    """Indices of every kind for a first write, which append."""
    rest = (False,) * (3 if not trailing else 2)
    return [
        Index("list", (0, 1)),
        Index("slice", (0, 2, None)),
        Index("int", (0,)),
        Index("range", (0, 2)),
        Index("tensor", (0, 1)),
        Index("int32", (0, 1)),
        Index("numpy", (0,)),
        Index("mask", (True, True, *rest)),
        Index("grid", ((2, 1), (0, 1))),
        Index("list", (0,)),
        Index("slice", (None, None, None)),
        Index("ellipsis"),
        Index("scalar", (0,)),
    ]


def _later_indices(trailing: tuple[int, ...]) -> list[Index]:
    """Indices of every kind for a storage in which every row is written."""
    rest = (False,) * (3 if not trailing else 2)
    found = [
        Index("list", (1, 0)),
        Index("slice", (0, 3, 2)),
        Index("int", (1,)),
        Index("range", (1, -1, -1)),
        Index("tensor", (1, 0)),
        Index("int32", (1,)),
        Index("numpy", (1,)),
        Index("mask", (False, True, *rest)),
        Index("grid", ((1, 2), (1, 0))),
        Index("list", (1,)),
        Index("slice", (None, None, 2)),
        Index("ellipsis"),
        Index("scalar", (1,)),
    ]
    if trailing:
        found.append(Index("tuple", tuple(Index("int", (0,)) for _ in range(1 + len(trailing)))))
        found.append(Index("tuple", (Index("slice", (0, 2, None)), Index("int", (1,)))))
        found.append(Index("tuple", tuple(Index("tensor", (0, 1)) for _ in range(1 + len(trailing)))))
    return found


_DUMPABLE: list[Any] = [
    (shape, index, True) for shape in ((5, ()), (8, (2,))) for index in _first_indices(shape[1])
]
_DUMPABLE += [
    (shape, index, False) for shape in ((5, ()), (24, (2, 3))) for index in _later_indices(shape[1])
]


@check("CKPT-20", examples=140, case=st.sampled_from(_DUMPABLE))
def a_dump_succeeds_after_every_kind_of_index(lab: Lab, case: Any) -> None:
    shape, index, fresh = case
    setup = setup_in(shape)
    span = index.resolve(capacity(setup), setup.trailing)
    before = [] if fresh else [rows(setup, 0, capacity(setup), 3)]
    trial = play(
        lab, setup, *before, Step("write", (index, Batch(PAIR, span.lead, seed=9))), Step("dump", (0,))
    )
    load_aside(trial, *trial.dumps[0], "CKPT-5")


@check(
    "CKPT-20",
    examples=40,
    given=lambda features: {**setups_of(_kinds)(features), "features": st.just(features)},
)
def a_dump_succeeds_after_everything_else(lab: Lab, setup: Setup, features: frozenset[str]) -> None:
    """After an assignment, a load, a write of nothing, a clear, a state dict, a pickle."""
    count, one = capacity(setup), Batch(setup.node, setup.trailing, seed=20)
    last: list[list[Step]] = [
        [Step("assign", (at(0), one))],
        [
            Step(
                "assign",
                (Index("slice", (None, None, None)), Batch(setup.node, (count, *setup.trailing), seed=20)),
            )
        ],
        [Step("load", (0,))],
        [Step("load", (0,)), Step("assign", (at(-1), one))],
        [Step("load_elsewhere", (0, setup.size))],
        [Step("load_elsewhere", (0, setup.size)), row(setup, 0, 21)],
        [Step("write_nothing", (Index("range", (0, 0)), Batch(setup.node, (0, *setup.trailing))))],
        *([[Step("clear", ())]] if "clear" in features else []),
        *([[Step("transfer", (None,))]] if "state_dict" in features else []),
        *([[Step("pickle", ())]] if "pickle" in features else []),
    ]
    for steps in last:
        play(
            lab,
            setup,
            rows(setup, 0, count, 3),
            Step("dump", (0,)),
            *steps,
            Step("dump", (1,)),
            Step("load", (1,)),
        )


@check("CKPT-21", examples=100, given=setups_of())
def a_dump_changes_nothing(lab: Lab, setup: Setup) -> None:
    """Nothing that can be read, and nothing about what can be written next: the same writes succeed as before."""
    for state in ("partial", "full"):
        before = filled(setup, state, 3)
        readable = before[0].arguments[1].lead[0]
        trial = play(
            lab,
            setup,
            *before,
            rows(setup, 0, readable, 9),
            Step("assign", (at(0), Batch(setup.node, setup.trailing, seed=20))),
        )
        trial.dump(0)
        index, again = Index("range", (0, readable)), Batch(setup.node, (readable, *setup.trailing), seed=12)
        with lab.checking("CKPT-21"):
            trial.storage.set(index, again)
            trial.storage.assign(at(0), Batch(setup.node, setup.trailing, seed=23))
        trial.model.set(trial.model.for_writing(index), again)
        trial.model.assign(trial.model.for_reading(at(0)), Batch(setup.node, setup.trailing, seed=23))
        trial.verify(law("CKPT-21"))


BYTES_OF_A_SMALL_DUMP = 1 << 20
"""The rows of `capacity` elements take 16 MiB; two of them a few bytes, and a format may round that up generously."""


SMALL = [
    (shape, after)
    for shape in ((1 << 20, ()), (1 << 20, (2,)), (1 << 20, (2, 3)))
    for after in ("a write", "a load", "an older dump")
]


@check("CKPT-22", poisoned=False)
def a_dump_of_two_rows_is_small(lab: Lab) -> None:
    """After a write, after a load, and in the place of an older dump of many bytes."""
    for shape, after in SMALL:
        _dump_of_two_rows_is_small(lab, shape, after)


def _dump_of_two_rows_is_small(lab: Lab, shape: Any, after: str) -> None:
    setup = replace(setup_in(shape), node=Fields((("a", Leaf(torch.float64)), ("b", Leaf(torch.int64)))))
    small = replace(setup, size=12)
    if after == "a load":
        source = shelved(lab, small, rows(small, 0, 2, 3), slot=1)
        trial: Trial = sequel(lab, source, setup, Step("load", (1,)))
    else:
        trial = play(lab, setup, rows(setup, 0, 2, 3))
    path = lab.path()
    if after == "an older dump":
        large = Setup(128, node=Fields((("wide", Leaf(torch.float64, (2048,))),)))
        older = play(lab, large, rows(large, 0, 128, 3))
        with lab.checking("CKPT-20"):
            older.storage.call("dumps", Literal(path, label(0)))
        trial = sequel(lab, older, setup, rows(setup, 0, 2, 3))
    with lab.checking("CKPT-20"):
        trial.storage.call("dumps", Literal(path, label(0)))
    with lab.checking("CKPT-22"):
        shown = each_file(path, "f.stat().st_size")
        size = sum((path / name).stat().st_size for name in files_of(path))
        removed(path)
        if size > BYTES_OF_A_SMALL_DUMP:
            raise Violation(
                f"the dump of two rows takes {size} bytes, after {after}",
                claim=f"sum({shown}) <= {BYTES_OF_A_SMALL_DUMP}",
                actual=str(size),
            )
