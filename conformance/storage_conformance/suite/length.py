"""Chapter LEN: length and shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields, Leaf, Node
from storage_conformance.subject import Subject
from storage_conformance.suite.capacity import (
    GEOMETRIES,
    Trailing,
    cases,
    fresh_storage,
    kinds,
    must_equal,
    rows_for,
    same_contents,
    span,
)
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup, index_requirement

ROW = Leaf()
PAIR = Fields((("a", Leaf()), ("b", Leaf(torch.int64, (2,)))))


SEEDS = st.integers(0, 99)


def _append(lab: Lab, storage: Subject, rows: int, trailing: Trailing, node: Node = ROW) -> None:
    """Fills a fresh storage up to `rows` rows in one write."""
    with lab.checking("SET-1"):
        storage.set(span(0, rows), Batch(node, (rows, *trailing)))


def _has_length(lab: Lab, requirement: str, storage: Subject, length: int) -> None:
    with lab.checking(requirement):
        must_equal(storage.length(), length, f"len({storage.name})")


def spellings(rows: Sequence[int], capacity: int) -> list[Index]:
    """Every kind of index of a `set` that names exactly these rows in this order, among `capacity` rows."""
    rows = tuple(rows)
    found = [Index(form, rows) for form in ("list", "tensor", "int32")] + [
        Index("grid", ((len(rows), 1), rows))
    ]
    if len(rows) == 1:
        found += [Index(form, rows) for form in ("int", "numpy", "scalar")]
    if rows == tuple(range(rows[0], rows[0] + len(rows))):
        found += [span(rows[0], rows[-1] + 1), Index("slice", (rows[0], rows[-1] + 1, None))]
    if rows == tuple(range(rows[0], rows[0] - len(rows), -1)):
        found.append(Index("range", (rows[0], rows[-1] - 1, -1)))
    if rows == tuple(sorted(set(rows))):
        found.append(Index("mask", tuple(row in rows for row in range(capacity))))
    if rows == tuple(range(capacity)):
        found.append(Index("ellipsis"))
    return found


def _check_write(lab: Lab, requirement: str, setup: Setup, before: int, index: Index, seed: int) -> None:
    """Checks the length after one write, by any kind of index, to a storage of `before` rows."""
    size, trailing = setup.size, setup.trailing
    storage = fresh_storage(lab, size, trailing)
    if before:
        _append(lab, storage, before, trailing, setup.node)
    written = index.resolve(rows_for(size, trailing), trailing)
    with lab.checking(index_requirement(index)):
        storage.set(index, Batch(setup.node, written.lead, seed=seed))
    _has_length(lab, requirement, storage, max(before, 1 + max(written.rows)) * prod(trailing))


@check("LEN-1", examples=6, size=st.integers(1, 1000), device=st.sampled_from(("cpu", "auto")))
def a_fresh_storage_has_no_length_and_no_shape(lab: Lab, size: int, device: str) -> None:
    for ndim in (1, 2, 3):
        options: dict[str, Any] = {"device": device} if device == "auto" or lab.device == "cpu" else {}
        storage = fresh_storage(lab, size, (2,) * (ndim - 1), **options)
        _has_length(lab, "LEN-1", storage, 0)
        with lab.checking("LEN-1"):
            must_equal(storage.attribute("shape"), None, "storage.shape")
        _has_length(lab, "LEN-1", storage, 0)


@check("LEN-2", examples=2, seed=SEEDS, counts=st.lists(st.integers(1, 3), min_size=5, max_size=5))
def appending_raises_the_length_by_the_elements_appended(lab: Lab, seed: int, counts: list[int]) -> None:
    for node, size, trailing in cases(lab, seed):
        storage, capacity, width = (
            fresh_storage(lab, size, trailing),
            rows_for(size, trailing),
            prod(trailing),
        )
        readable = 0
        for count in counts:
            rows = range(readable, min(readable + count, capacity))
            if not rows:
                break
            form = ("range", "list", "tensor")[(seed + readable) % 3]
            index = span(rows[0], rows[-1] + 1) if form == "range" else Index(form, tuple(rows))
            single = len(rows) == 1 and seed % 2
            lead = trailing if single else (len(rows), *trailing)
            with lab.checking("SET-1"):
                storage.set(at(rows[0]) if single else index, Batch(node, lead, seed=seed))
            readable += len(rows)
            _has_length(lab, "LEN-2", storage, readable * width)


@check("LEN-3", examples=2, seed=SEEDS)
def overwriting_does_not_lengthen(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity, width = rows_for(size, trailing), prod(trailing)
        for readable in sorted({1, capacity - 1, capacity} - {0}):
            storage = fresh_storage(lab, size, trailing)
            _append(lab, storage, readable, trailing, node)
            row = seed % readable
            turned = Index("tensor", tuple(range(row, -1, -1)))
            for index in (at(row), span(0, readable), Index("list", (row,)), turned, at(0)):
                lead = index.resolve(capacity, trailing).lead
                with lab.checking("SET-1"):
                    storage.set(index, Batch(node, lead, seed=seed))
                _has_length(lab, "LEN-3", storage, readable * width)


@check("LEN-3", examples=20, geometry=st.sampled_from(GEOMETRIES), data=st.data())
def overwriting_by_any_index_does_not_lengthen(
    lab: Lab, geometry: tuple[int, Trailing], data: st.DataObject
) -> None:
    size, trailing = geometry
    capacity = rows_for(size, trailing)
    before = data.draw(st.integers(1, capacity))
    rows = data.draw(st.lists(st.integers(0, before - 1), min_size=1, max_size=3))
    index = data.draw(st.sampled_from(spellings(rows, capacity)))
    _check_write(lab, "LEN-3", Setup(size, 1 + len(trailing), trailing, ROW), before, index, 9)


@check("LEN-4", examples=2, seed=SEEDS)
def a_row_written_beyond_the_length_is_readable(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity, width = rows_for(size, trailing), prod(trailing)
        for before in range(min(2, capacity - 1)):
            for row in sorted({before + 1, capacity - 1} - {before}):
                item, several = Batch(node, trailing, seed=seed), Batch(node, (1, *trailing), seed=seed)
                for index, batch in (
                    (at(row), item),
                    (Index("list", (row,)), several),
                    (span(row, row + 1), several),
                ):
                    storage = fresh_storage(lab, size, trailing)
                    if before:
                        _append(lab, storage, before, trailing, node)
                    with lab.checking("SET-1"):
                        storage.set(index, batch)
                    with lab.checking("LEN-4"):
                        if storage.length() < (row + 1) * width:
                            claim = f"len(storage) >= {(row + 1) * width}"
                            raise Violation(
                                f"row {row} was written", claim=claim, actual=str(storage.length())
                            )
                        if not same_contents(storage.get(at(row)), item):
                            raise Violation(f"row {row} does not read back as written")


@check(
    "LEN-4",
    examples=20,
    geometry=st.sampled_from([g for g in GEOMETRIES if rows_for(*g) > 2]),
    data=st.data(),
)
def a_gap_counts_whatever_the_index(lab: Lab, geometry: tuple[int, Trailing], data: st.DataObject) -> None:
    size, trailing = geometry
    capacity = rows_for(size, trailing)
    before = data.draw(st.integers(0, capacity - 2))
    rows = sorted(
        data.draw(st.lists(st.integers(before + 1, capacity - 1), min_size=1, max_size=3, unique=True))
    )
    # How a fresh storage takes numbers that are no `int` is the matter of IDX-4.
    known = [index for index in spellings(rows, capacity) if before or index.form not in ("numpy", "scalar")]
    index = data.draw(st.sampled_from(known))
    _check_write(lab, "LEN-4", Setup(size, 1 + len(trailing), trailing, PAIR), before, index, 5)


@check("LEN-5", examples=2, seed=SEEDS, picked=st.lists(st.integers(0, 8), min_size=2, max_size=5))
def order_and_repetition_do_not_count(lab: Lab, seed: int, picked: list[int]) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity, width = rows_for(size, trailing), prod(trailing)
        drawn = tuple(number % capacity for number in picked)
        top = capacity - 1
        for rows in (drawn, drawn[::-1], (0, 0), (top, 0, top, 0), tuple(range(top, -1, -1))):
            for form in ("list", "tensor"):
                storage = fresh_storage(lab, size, trailing)
                with lab.checking("SET-1"):
                    storage.set(Index(form, rows), Batch(node, (len(rows), *trailing), seed=seed))
                _has_length(lab, "LEN-5", storage, (1 + max(rows)) * width)


@check("LEN-5", examples=10, size=st.integers(2, 6), start=st.integers(0, 2), stop=st.integers(0, 5))
def a_range_counts_the_same_in_both_directions(lab: Lab, size: int, start: int, stop: int) -> None:
    low, high = sorted((start % size, stop % size))
    for index in (span(low, high + 1), Index("range", (high, low - 1, -1)), Index("range", (high, -1, -2))):
        for before in (0, 1):
            storage = fresh_storage(lab, size, ())
            if before:
                _append(lab, storage, 1, ())
            with lab.checking("SET-1"):
                storage.set(index, Batch(ROW, index.resolve(size, ()).lead))
            _has_length(lab, "LEN-5", storage, high + 1)


@check("LEN-6", examples=2, seed=SEEDS)
def a_row_counts_whole_as_soon_as_one_element_is_written(lab: Lab, seed: int) -> None:
    geometries = ((8, (2,)), (7, (3,)), (9, (2, 2)), (14, (3, 2)))
    for node, (size, trailing) in product(kinds(lab.backend.features)[:: 1 + seed % 2], geometries):
        capacity, width = rows_for(size, trailing), prod(trailing)
        for row in {1, capacity - 1}:
            for part in _parts(row, trailing):
                storage = fresh_storage(lab, size, trailing)
                _append(lab, storage, 1, trailing, node)
                for again in range(2):  # the second write is to a row that counts already
                    batch = Batch(node, part.resolve(capacity, trailing).lead, seed=seed + again)
                    with lab.checking("IDX-12"):
                        storage.set(part, batch)
                    _has_length(lab, "LEN-6", storage, (row + 1) * width)


def _parts(row: int, trailing: Trailing) -> list[Index]:
    """Indices of some elements of one row."""
    first, last = tuple(at(0) for _ in trailing), tuple(at(size - 1) for size in trailing)
    tensors = tuple(Index("tensor", (0, size - 1)) for size in trailing)
    found = [(at(row), *first), (at(row), *last), (Index("tensor", (row, row)), *tensors)]
    if trailing[0] > 2:
        found.append((at(row), Index("slice", (1, None, None)), *first[1:]))
    if len(trailing) > 1:
        found.append((at(row), at(1)))
    return [Index("tuple", entries) for entries in found]


@check("LEN-7", examples=2, seed=SEEDS)
def the_shape_is_rows_and_trailing_shape(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity = rows_for(size, trailing)
        middle = seed % capacity
        for rows in ((0, capacity - 1, 0), (middle, 0), tuple(range(capacity))):
            storage = fresh_storage(lab, size, trailing)
            readable = 0
            for row in rows:
                with lab.checking("SET-1"):
                    storage.set(at(row), Batch(node, trailing, seed=seed))
                readable = max(readable, row + 1)
                if storage.length() != readable * prod(trailing):
                    break  # the matter of the requirements about the length
                with lab.checking("LEN-7"):
                    shape = storage.attribute("shape")
                    must_equal(shape, torch.Size((readable, *trailing)), "storage.shape")
                    must_equal(isinstance(shape, torch.Size), True, "isinstance(storage.shape, torch.Size)")


@check("LEN-8", examples=2, seed=SEEDS)
def a_storage_with_every_row_written_is_full(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity = rows_for(size, trailing)
        every = list(range(capacity))
        turned = every[seed % capacity :] + every[: seed % capacity]
        backwards = Index("tensor", tuple(reversed(turned)))
        again = [*(at(row) for row in every), at(0)]
        for writes in ([span(0, capacity)], [at(row) for row in turned], [backwards], again):
            storage = fresh_storage(lab, size, trailing)
            for index in writes:
                lead = index.resolve(capacity, trailing).lead
                with lab.checking("SET-1"):
                    storage.set(index, Batch(node, lead, seed=seed))
            with lab.checking("LEN-8"):
                full, length = storage.attribute("max_size"), storage.length()
                if length != full:
                    raise Violation(
                        f"every row is written, the length is {length} and max_size {full}",
                        claim="len(storage) == storage.max_size", actual=f"{length} and {full}",
                    )  # fmt: skip


@check("LEN-9", examples=2, seed=SEEDS)
def assigning_does_not_lengthen(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity = rows_for(size, trailing)
        for readable in sorted({1, capacity - 1, capacity} - {0}):
            storage = fresh_storage(lab, size, trailing)
            _append(lab, storage, readable, trailing, node)
            length = storage.length()
            row = seed % readable
            for index in (
                at(row),
                span(0, readable),
                Index("list", (row,)),
                Index("tensor", (row, 0)),
                at(0),
            ):
                with lab.checking("SET-16"):
                    storage.assign(index, Batch(node, index.resolve(readable, trailing).lead, seed=seed))
                _has_length(lab, "LEN-9", storage, length)
