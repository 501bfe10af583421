"""Chapter LAZY: lazy allocation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import TensorDict

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation
from storage_conformance.strategies.structures import DTYPES
from storage_conformance.structure import Fields, Leaf, Node, Record, leaves, observe
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.capacity import (
    Trailing,
    attempt,
    cases,
    fresh_storage,
    kinds,
    must_equal,
    rows_for,
    same_contents,
    span,
)
from storage_conformance.suite.check import check

SEEDS = st.integers(0, 99)
EVERY_DTYPE = Fields(tuple((str(dtype), Leaf(dtype, (2,))) for dtype in DTYPES))


def _is_zero(value: Any, node: Node, lead: Trailing) -> bool:
    """Whether all tensors in `value` are zero; a container of another kind is the matter of chapter DATA."""
    try:
        contents = observe(value, node, lead)
    except Violation:
        return True
    found = zip(leaves(node), contents, strict=True)
    return all(not any(content) for (_, leaf), content in found if isinstance(leaf, Leaf))


def _check_rows(
    lab: Lab, requirement: str, storage: Subject, node: Node, trailing: Trailing, written: set[int]
) -> None:
    """Checks the rows below the storage's own length that are not `written`: one by one, and all at once."""
    readable = storage.length() // prod(trailing)
    missing = [row for row in range(readable) if row not in written]
    for index in (*map(at, missing), Index("tensor", (*missing, *missing[:1]))):
        try:
            value = storage.get(index)
        except Raised:
            return  # the matter of the requirements about the length and about reading
        with lab.checking(requirement):
            if not _is_zero(value, node, index.resolve(readable, trailing).lead):
                raise Violation(f"of rows {missing}, which no write covered, not all are zero")


def _check_elements(
    lab: Lab, requirement: str, storage: Subject, node: Node, trailing: Trailing, row: int
) -> None:
    """Checks the elements of a row of which only the last one is written."""
    if storage.length() < (row + 1) * prod(trailing):
        return  # the matter of LEN-6
    *others, _ = product(*map(range, trailing))
    for entry in others:
        with lab.checking("IDX-12"):
            value = storage.get(Index("tuple", (at(row), *map(at, entry))))
        with lab.checking(requirement):
            if not _is_zero(value, node, ()):
                raise Violation(f"element {(row, *entry)}, which no write covered, does not read as zero")


def _write_last_element(lab: Lab, storage: Subject, batch: Batch, trailing: Trailing, row: int) -> None:
    with lab.checking("IDX-12"):
        storage.set(Index("tuple", (at(row), *(at(size - 1) for size in trailing))), batch)


@check("LAZY-1", examples=2, seed=SEEDS)
def rows_never_written_read_as_zero(lab: Lab, seed: int) -> None:
    for node, size, trailing in [*cases(lab, seed), (EVERY_DTYPE, 5, ()), (EVERY_DTYPE, 7, (3,))]:
        top = rows_for(size, trailing) - 1
        for first in (at(top), Index("list", (top,)), Index("tensor", (top, 0))):
            storage = fresh_storage(lab, size, trailing)
            data = Batch(node, first.resolve(top + 1, trailing).lead, seed=seed + 3)
            with lab.checking("SET-1"):
                storage.set(first, data)
            _check_rows(lab, "LAZY-1", storage, node, trailing, {*first.args})


@check("LAZY-1", examples=2, seed=SEEDS)
def a_gap_behind_rows_reads_as_zero(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        top = rows_for(size, trailing) - 1
        storage = fresh_storage(lab, size, trailing)
        for row in (0, top):
            with lab.checking("SET-1"):
                storage.set(at(row), Batch(node, trailing, seed=seed + 3))
        _check_rows(lab, "LAZY-1", storage, node, trailing, {0, top})


@check("LAZY-1", examples=2, seed=SEEDS)
def elements_never_written_read_as_zero(lab: Lab, seed: int) -> None:
    for number, node in enumerate((*kinds(lab.backend.features), EVERY_DTYPE)):
        for trailing in ((2,), ((3,), (2, 2))[(number + seed) % 2]):
            storage = fresh_storage(lab, 3 * prod(trailing), trailing)
            with lab.checking("SET-1"):
                storage.set(at(0), Batch(node, trailing, seed=seed))
            _write_last_element(lab, storage, Batch(node, (), seed=seed), trailing, 2)
            _check_elements(lab, "LAZY-1", storage, node, trailing, 2)
            _check_rows(lab, "LAZY-1", storage, node, trailing, {0, 2})


MEBIBYTE = 2**20


def _resident() -> int | None:
    """Bytes of the process in physical memory, or the most there ever were; None where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _growth(act: Callable[[], Any]) -> int:
    """By how many bytes the process grows while `act` runs; 0 where the system does not tell."""
    before = _resident()
    kept = act()
    after = _resident()
    del kept
    return 0 if before is None or after is None else after - before


@check("LAZY-2", poisoned=False)
def construction_takes_no_memory(lab: Lab) -> None:
    """First at a size where a byte for each element shows and does no harm; what passes there is tried at 2**40."""
    for ndim in (1, 2):
        for size in (20_000_000, 2**40):
            lab.start()
            made: list[Subject] = []
            with lab.checking("LAZY-2"):
                # The least of three: the interpreter and its threads allocate too. All are kept, lest memory be reused.
                least = min(_growth(lambda: made.append(lab.make(size, ndim=ndim))) for _ in range(3))  # noqa: B023
                if least > 10 * MEBIBYTE:
                    raise Violation(f"the construction took {least // MEBIBYTE} MiB for max_size={size}")
                must_equal(made[0].length(), 0, "len(storage)")


def _refusals(trailing: Trailing, capacity: int) -> list[tuple[str, Any, Any]]:
    """Writes to a fresh storage that have to be refused, each with the structure that must not stay behind."""
    pair = Fields((("a", Leaf(torch.int64, (2,))), ("b", Leaf())))
    shapes = [*trailing, 2], [*trailing, 3]
    ragged = Literal(
        [torch.zeros(shape) for shape in shapes], "[torch.zeros({}), torch.zeros({})]".format(*shapes)
    )
    return [
        ("a row beyond", at(capacity + 20), Batch(pair, trailing)),
        ("a list beyond", Index("list", (0, capacity + 20)), Batch(pair, (2, *trailing))),
        ("a tensor beyond", at(capacity + 20), Batch(Leaf(torch.int64, (5,)), trailing)),
        ("too many rows", span(0, 1), Batch(pair, (2, *trailing))),
        ("too few rows", span(0, 2), Batch(Leaf(torch.bool, (2,)), (1, *trailing))),
        ("another T beyond", at(capacity + 20), Batch(pair, tuple(size + 2 for size in trailing))),
        ("a ragged list", span(0, 2), ragged),
        ("no data", at(0), Literal("text", "'text'")),
        ("no index", Literal("a", "'a'"), Batch(pair, trailing)),
        ("data without values", at(0), Batch(pair, trailing, layout="meta")),
    ]


SEQUELS: tuple[Node, ...] = (
    Leaf(feature=(3,)),
    Fields((("x", Leaf(torch.float64)), ("b", Leaf(torch.bool, (2,))))),
    Record("Step", (("obs", Leaf(torch.int32, (2,))), ("reward", Leaf()))),
)


@check("LAZY-3", examples=3, seed=SEEDS)
def a_refused_first_write_leaves_no_trace(lab: Lab, seed: int) -> None:
    for size, trailing in ((4, ()), (7, (2,)), (12, (2, 3))):
        capacity = rows_for(size, trailing)
        for number, (what, index, rejected) in enumerate(_refusals(trailing, capacity)):
            automatic = (number + seed) % 3 == 0 and what != "data without values"  # which "auto" may take
            options: dict[str, Any] = {"device": "auto"} if automatic else {}
            storage = fresh_storage(lab, size, trailing, **options)
            taken = [attempt(storage, index, rejected) for _ in range(1 + (number + seed) % 2)]
            if not any(taken):  # that it is refused is the matter of the requirement that says so
                node = SEQUELS[(number + seed) % 3]
                _takes_another_structure(lab, "LAZY-3", storage, Batch(node, (2, *trailing), seed=seed))


def _takes_another_structure(lab: Lab, requirement: str, storage: Subject, batch: Batch) -> None:
    """Checks that a storage is still fresh: nothing is there, and any structure is taken."""
    with lab.checking(requirement):
        must_equal(storage.length(), 0, "len(storage)")
        must_equal(storage.attribute("shape"), None, "storage.shape")
        storage.set(span(0, 2), batch)
        if not same_contents(storage.get(span(0, 2)), batch):
            raise Violation("what was written next does not read back")


@check("LAZY-6", examples=2, seed=SEEDS)
def a_first_write_of_zero_rows_leaves_the_storage_fresh(lab: Lab, seed: int) -> None:
    empties = (Index("list"), Index("tensor"), span(0, 0), span(3, 3), Index("slice", (0, 0, None)))
    for number, (node, index) in enumerate((n, i) for n in kinds(lab.backend.features) for i in empties):
        size, trailing = ((4, ()), (7, (2,)), (12, (2, 3)))[(number + seed) % 3]
        options: dict[str, Any] = {"device": "auto"} if (number + seed) % 2 else {}
        storage = fresh_storage(lab, size, trailing, **options)
        names = ("max_size", "device")
        before = [storage.attribute(name) for name in names]
        attempt(storage, index, Batch(node, (0, *trailing)))  # that it is taken is the matter of SET-15
        with lab.checking("LAZY-6"):
            for name, value in zip(names, before, strict=True):
                must_equal(storage.attribute(name), value, f"storage.{name}")
        _takes_another_structure(
            lab, "LAZY-6", storage, Batch(SEQUELS[number % 3], (2, *trailing), seed=seed)
        )


@check("LAZY-4", examples=2, seed=SEEDS)
def rows_taken_away_do_not_come_back(lab: Lab, seed: int) -> None:
    geometries: tuple[tuple[int, Trailing], ...] = ((5, ()), (8, (2,)), (11, (3,)))
    tensor, *others = kinds(lab.backend.features)
    chosen = [(tensor, geometry) for geometry in geometries]
    chosen += [(node, geometries[(seed + number) % 3]) for number, node in enumerate(others)]
    for take_away in _takers(lab):
        for number, (node, (size, trailing)) in enumerate(chosen):
            capacity = rows_for(size, trailing)
            storage = fresh_storage(lab, size, trailing)
            with lab.checking("SET-1"):
                storage.set(span(0, capacity), Batch(node, (capacity, *trailing), seed=seed + 1))
            left = take_away(lab, storage, size, node, trailing)
            row = capacity - 1 if (number + seed) % 2 else left + 1
            if trailing:
                _write_last_element(lab, storage, Batch(node, (), seed=seed), trailing, row)
                _check_elements(lab, "LAZY-4", storage, node, trailing, row)
            with lab.checking("SET-1"):
                storage.set(at(row), Batch(node, trailing, seed=seed + 2))
            _check_rows(lab, "LAZY-4", storage, node, trailing, {*range(left), row})


Taker = Callable[[Lab, Subject, int, Node, Trailing], int]


def _takers(lab: Lab) -> list[Taker]:
    """What takes rows away; each says how many rows it leaves."""
    found: list[Taker] = [_load]
    if lab.claims("clear"):
        found.append(_clear)
    if lab.claims("state_dict"):
        found.append(_load_state_dict)
    return found


def _other(lab: Lab, size: int, node: Node, trailing: Trailing) -> Subject:
    """A storage of one row."""
    with lab.checking("NEW-1"):
        other = lab.make(size, name="other", **({"ndim": 1 + len(trailing)} if trailing else {}))
    with lab.checking("SET-1"):
        other.set(at(0), Batch(node, trailing, seed=50))
    return other


def _load(lab: Lab, storage: Subject, size: int, node: Node, trailing: Trailing) -> int:
    other, path = _other(lab, size, node, trailing), Literal(lab.path(), 'folder / "other"')
    with lab.checking("CKPT-20"):
        other.call("dumps", path)
    with lab.checking("CKPT-9"):
        storage.call("loads", path)
    return 1


def _load_state_dict(lab: Lab, storage: Subject, size: int, node: Node, trailing: Trailing) -> int:
    other = _other(lab, size, node, trailing)
    with lab.checking("COPY-6"):
        storage.call("load_state_dict", Literal(other.call("state_dict"), "other.state_dict()"))
    return 1


def _clear(lab: Lab, storage: Subject, size: int, node: Node, trailing: Trailing) -> int:
    with lab.checking("QRY-9"):
        storage.call("clear")
    return 0


@check("LAZY-5", examples=2, poisoned=False, trailing=st.sampled_from(((), (2,))))
def memory_grows_with_the_rows_written(lab: Lab, trailing: Trailing) -> None:
    """Two rows of 64 KiB in a capacity of 192 MiB, on the CPU whatever the run's device."""
    rows, shape = 3072, [*trailing, 64 * 1024 // prod(trailing)]
    big = torch.ones(shape, dtype=torch.uint8)
    pair = TensorDict(
        {"a": torch.ones(trailing), "b": big}, batch_size=trailing
    )  # the big leaf is not the first one
    text = f"torch.ones({shape}, dtype=torch.uint8)"
    pair_text = f'TensorDict({{"a": torch.ones({[*trailing]}), "b": {text}}}, batch_size={[*trailing]})'
    for item in (Literal(big, text), Literal(pair, pair_text)):
        for row in (1, rows - 1):
            lab.start()
            with lab.checking("NEW-1"):
                storage = Subject.make(
                    lab.backend, lab.program, rows * prod(trailing), ndim=1 + len(trailing)
                )
            with lab.checking("LAZY-5"):
                growth = _growth(lambda: [storage.set(at(0), item), storage.set(at(row), item)])  # noqa: B023
                if growth > 48 * MEBIBYTE:
                    raise Violation(
                        f"two rows of 64 KiB took {growth // MEBIBYTE} MiB; the capacity is 192 MiB"
                    )
