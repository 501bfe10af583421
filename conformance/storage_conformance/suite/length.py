"""Chapter LEN: length and shape.

Most checks compare a length with that of a plainer program, so that each sees its own requirement only: what the
length is, in elements, is the matter of `LEN-2`, `LEN-4` and `LEN-8`.
"""

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
from storage_conformance.trial import index_requirement

ROW = Leaf()
PAIR = Fields((("a", Leaf()), ("b", Leaf(torch.int64, (2,)))))
SEEDS = st.integers(0, 99)
PICKED = st.lists(st.integers(0, 9), min_size=1, max_size=4)


def _write(
    lab: Lab, storage: Subject, index: Index, size: int, trailing: Trailing, node: Node = ROW, seed: int = 0
) -> None:
    """A `set` that has to succeed; of kinds of indices that are not plain, the chapter IDX says so."""
    plain = index.form in ("int", "range", "list", "tensor")
    lead = index.resolve(rows_for(size, trailing), trailing).lead
    with lab.checking("SET-1" if plain else index_requirement(index)):
        storage.set(index, Batch(node, lead, seed=seed))


def _must_have_length(lab: Lab, requirement: str, storage: Subject, length: int) -> None:
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


@check("LEN-1", examples=5, size=st.integers(1, 1000))
def a_fresh_storage_has_no_length_and_no_shape(lab: Lab, size: int) -> None:
    for ndim, device in product((1, 2, 3), ("cpu", "auto")):
        options: dict[str, Any] = {"device": device} if device == "auto" or lab.device == "cpu" else {}
        storage = fresh_storage(lab, size, (2,) * (ndim - 1), **options)
        _must_have_length(lab, "LEN-1", storage, 0)
        with lab.checking("LEN-1"):
            must_equal(storage.attribute("shape"), None, "storage.shape")
        _must_have_length(lab, "LEN-1", storage, 0)


@check("LEN-2", examples=3, seed=SEEDS, counts=st.lists(st.integers(1, 3), min_size=5, max_size=5))
def appending_raises_the_length_by_the_elements_appended(lab: Lab, seed: int, counts: list[int]) -> None:
    for number, (node, size, trailing) in enumerate(cases(lab, seed)):
        storage, capacity = fresh_storage(lab, size, trailing), rows_for(size, trailing)
        readable = 0
        for count in counts:
            rows = tuple(range(readable, min(readable + count, capacity)))
            if not rows:
                break
            several = (span(rows[0], rows[-1] + 1), Index("list", rows), Index("tensor", rows))
            single = len(rows) == 1 and (number + seed) % 2
            index = at(rows[0]) if single else several[(number + seed + readable) % 3]
            before = storage.length() if readable else 0
            _write(lab, storage, index, size, trailing, node, seed)
            readable += len(rows)
            _must_have_length(lab, "LEN-2", storage, before + len(rows) * prod(trailing))


@check("LEN-3", examples=2, seed=SEEDS)
def overwriting_does_not_lengthen(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity = rows_for(size, trailing)
        for readable in sorted({1, capacity - 1, capacity} - {0}):
            storage = fresh_storage(lab, size, trailing)
            _write(lab, storage, span(0, readable), size, trailing, node)
            row = seed % readable
            turned = Index("tensor", tuple(range(row, -1, -1)))
            for index in (at(row), span(0, readable), Index("list", (row,)), turned, at(0)):
                length = storage.length()
                _write(lab, storage, index, size, trailing, node, seed)
                _must_have_length(lab, "LEN-3", storage, length)


@check("LEN-3", examples=2, picked=PICKED)
def overwriting_by_any_index_does_not_lengthen(lab: Lab, picked: list[int]) -> None:
    for size, trailing in ((5, ()), (1, ()), (8, (3,)), (9, (2, 2))):
        capacity = rows_for(size, trailing)
        for readable in sorted({1, capacity - 1, capacity} - {0}):
            drawn = [number % readable for number in picked]
            for rows in ([0], drawn, range(readable)):
                for index in spellings(rows, capacity):
                    storage = fresh_storage(lab, size, trailing)
                    _write(lab, storage, span(0, readable), size, trailing)
                    length = storage.length()
                    _write(lab, storage, index, size, trailing, seed=9)
                    _must_have_length(lab, "LEN-3", storage, length)


def _must_reach(lab: Lab, storage: Subject, length: int) -> None:
    with lab.checking("LEN-4"):
        if storage.length() < length:
            claim, actual = f"len(storage) >= {length}", str(storage.length())
            raise Violation(f"the length is {actual}, expected at least {length}", claim=claim, actual=actual)


@check("LEN-4", examples=2, seed=SEEDS)
def a_row_written_beyond_the_length_is_readable(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity = rows_for(size, trailing)
        for before in range(min(2, capacity - 1)):
            for row in {before + 1, capacity - 1}:
                for index in (at(row), Index("list", (row,)), span(row, row + 1)):
                    storage = fresh_storage(lab, size, trailing)
                    if before:
                        _write(lab, storage, span(0, before), size, trailing, node)
                    _write(lab, storage, index, size, trailing, node, seed)
                    _must_reach(lab, storage, (row + 1) * prod(trailing))
                    with lab.checking("LEN-4"):
                        if not same_contents(storage.get(at(row)), Batch(node, trailing, seed=seed)):
                            raise Violation(f"row {row} does not read back as written")


@check("LEN-4", examples=2, picked=PICKED)
def a_gap_counts_whatever_the_index(lab: Lab, picked: list[int]) -> None:
    for size, trailing in ((5, ()), (13, (3,)), (16, (2, 2))):
        capacity = rows_for(size, trailing)
        for before in (0, 1, 2):
            drawn = sorted({before + 1 + number % (capacity - before - 1) for number in picked})
            for rows in ([capacity - 1], drawn):
                for index in spellings(rows, capacity):
                    if not before and index.form in ("numpy", "scalar"):
                        continue  # how a fresh storage takes numbers that are no `int` is the matter of IDX-4
                    storage = fresh_storage(lab, size, trailing)
                    if before:
                        _write(lab, storage, span(0, before), size, trailing, PAIR)
                    _write(lab, storage, index, size, trailing, PAIR, seed=5)
                    _must_reach(lab, storage, (1 + max(rows)) * prod(trailing))


def _check_same_length(
    lab: Lab, geometry: tuple[int, Trailing], node: Node, before: int, index: Index, plain: Index
) -> None:
    """Checks that two indices of the same rows give the same length to storages of `before` rows."""
    lengths = []
    for chosen in (plain, index):
        storage = fresh_storage(lab, *geometry)
        if before:
            _write(lab, storage, span(0, before), *geometry, node)
        _write(lab, storage, chosen, *geometry, node)
        lengths.append(storage.length())
    with lab.checking("LEN-5"):
        must_equal(lengths[1], lengths[0], "len(storage)")


@check("LEN-5", examples=2, seed=SEEDS, picked=PICKED)
def order_and_repetition_do_not_count(lab: Lab, seed: int, picked: list[int]) -> None:
    for number, (node, size, trailing) in enumerate(cases(lab, seed)):
        top = rows_for(size, trailing) - 1
        drawn = tuple(place % (top + 1) for place in picked)
        for rows in (drawn, (0, 0), (top, 0, top, 0), tuple(range(top, -1, -1))):
            for form in ("list", "tensor") if node in (ROW, PAIR) else ("list",):
                plain = Index("tensor" if form == "list" else "list", tuple(sorted(set(rows))))
                _check_same_length(lab, (size, trailing), node, (number + seed) % 2, Index(form, rows), plain)


@check("LEN-5", examples=4, size=st.integers(2, 6), picked=PICKED)
def any_index_counts_each_row_once(lab: Lab, size: int, picked: list[int]) -> None:
    for trailing in ((), (2,)):
        geometry = (size * prod(trailing), trailing)
        low, high = min(picked) % size, size - 1
        descending, every_other = Index("range", (high, low - 1, -1)), Index("range", (high, -1, -2))
        _check_same_length(lab, geometry, ROW, 0, descending, span(low, high + 1))
        _check_same_length(lab, geometry, PAIR, 0, every_other, Index("range", (high % 2, high + 1, 2)))
        rows = tuple(place % size for place in picked)
        for repeated in (
            Index("int32", (*rows, high, high)),
            Index("grid", ((len(rows) + 1, 1), (*rows, rows[0]))),
        ):
            plain = Index("list", tuple(sorted(set(repeated.resolve(size, ()).rows))))
            _check_same_length(lab, geometry, ROW, 1, repeated, plain)


@check("LEN-6", examples=2, seed=SEEDS)
def a_row_counts_whole_as_soon_as_one_element_is_written(lab: Lab, seed: int) -> None:
    geometries = ((8, (2,)), (7, (3,)), (9, (2, 2)), (14, (3, 2)))
    for number, (node, geometry) in enumerate(product(kinds(lab.backend.features), geometries)):
        row = (1, rows_for(*geometry) - 1)[(number + seed) % 2]
        whole = _lengths_after(lab, geometry, node, at(row), 1)
        for part in _parts(row, geometry[1]):
            lengths = _lengths_after(
                lab, geometry, node, part, 2
            )  # the second write is to a row that counts already
            with lab.checking("LEN-6"):
                for length in lengths:
                    must_equal(length, whole[0], "len(storage)")


def _lengths_after(
    lab: Lab, geometry: tuple[int, Trailing], node: Node, index: Index, times: int
) -> list[int]:
    """The lengths of a storage of one row while another one, or some elements of it, is written."""
    storage = fresh_storage(lab, *geometry)
    _write(lab, storage, at(0), *geometry, node)
    lengths = []
    for seed in range(times):
        _write(lab, storage, index, *geometry, node, seed)
        lengths.append(storage.length())
    return lengths


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
                _write(lab, storage, at(row), size, trailing, node, seed)
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
                _write(lab, storage, index, size, trailing, node, seed)
            with lab.checking("LEN-8"):
                must_equal(storage.length(), storage.attribute("max_size"), "len(storage)")


@check("LEN-9", examples=2, seed=SEEDS)
def assigning_does_not_lengthen(lab: Lab, seed: int) -> None:
    for node, size, trailing in cases(lab, seed):
        capacity = rows_for(size, trailing)
        for readable in sorted({1, capacity - 1, capacity} - {0}):
            storage = fresh_storage(lab, size, trailing)
            _write(lab, storage, span(0, readable), size, trailing, node)
            length, row = storage.length(), seed % readable
            for index in (
                at(row),
                span(0, readable),
                Index("list", (row,)),
                Index("tensor", (row, 0)),
                at(0),
            ):
                with lab.checking("SET-16"):
                    storage.assign(index, Batch(node, index.resolve(readable, trailing).lead, seed=seed))
                _must_have_length(lab, "LEN-9", storage, length)
