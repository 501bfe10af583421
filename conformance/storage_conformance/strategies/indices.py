"""Indices of every kind of chapter IDX, drawn for a storage of known length and shape."""

from __future__ import annotations

from functools import cache
from math import prod

from hypothesis import strategies as st

from storage_conformance.index import Index

__all__ = ["appends", "overwrites", "read_indices", "row_indices", "set_indices"]


@cache
def appends(
    capacity: int, readable: int, trailing: tuple[int, ...], *, fresh: bool
) -> st.SearchStrategy[Index]:
    """Indices of the next rows, from the beginning again where the storage is full."""
    start, room = (readable, capacity - readable) if readable < capacity else (0, capacity)

    def rows(drawn: tuple[str, int]) -> Index:
        form, count = drawn
        bounds = (start, start + min(count, room))
        return Index(form, (*bounds, 1)) if form in ("range", "slice") else Index(form, tuple(range(*bounds)))

    several = st.tuples(st.sampled_from(("range", "slice", "tensor", "list")), st.integers(1, 3)).map(rows)
    return st.one_of(several, st.just(Index("int", (start,))))


@cache
def overwrites(
    capacity: int, readable: int, trailing: tuple[int, ...], *, fresh: bool
) -> st.SearchStrategy[Index]:
    """Indices of rows that hold something already, if there are any."""
    return row_indices(readable or capacity, negative=False).map(
        lambda index: _bounded(index, readable, capacity)
    )


@cache
def set_indices(
    capacity: int, readable: int, trailing: tuple[int, ...], *, fresh: bool
) -> st.SearchStrategy[Index]:
    """Indices of at least one row for a `set`: anywhere in the capacity, around its end, and single elements."""
    wrapped = st.tuples(st.integers(0, capacity - 1), st.integers(1, min(capacity, 4))).map(
        lambda drawn: Index("list", tuple((drawn[0] + k) % capacity for k in range(drawn[1])))
    )
    kinds = [row_indices(capacity, negative=False), wrapped]
    if trailing and not fresh:
        kinds.append(_tuples(capacity, trailing, negative=False))
    return st.one_of(kinds)


def _bounded(index: Index, readable: int, capacity: int) -> Index:
    """The same rows for a `set`, which reads open ends and masks against the capacity."""
    if readable in (0, capacity):
        return index
    if index.form == "mask":
        return Index("mask", (*index.args, *[False] * (capacity - readable)))
    if index.form == "ellipsis":
        return Index("slice", (0, readable, None))
    if index.form == "slice":
        return Index("slice", slice(*index.args).indices(readable))
    return index


@cache
def read_indices(
    readable: int, trailing: tuple[int, ...], *, empty: bool = False
) -> st.SearchStrategy[Index]:
    """Indices for `get` and `[]=`: they resolve against the readable rows, of which there is at least one."""
    kinds = [row_indices(readable, negative=True)]
    if trailing:
        kinds += [_tuples(readable, trailing, negative=True), _cells(readable, trailing)]
    if empty:
        kinds.append(
            st.sampled_from(
                (Index("list"), Index("range", (0, 0)), Index("slice", (1, 1, None)), Index("tensor"))
            )
        )
    return st.one_of(kinds)


@cache
def row_indices(rows: int, *, negative: bool) -> st.SearchStrategy[Index]:
    """Indices of rows, of every kind, for `rows` rows."""
    row = st.integers(0, rows - 1)
    signed = st.integers(-rows, rows - 1) if negative else row
    several = st.lists(row, min_size=1, max_size=min(rows + 1, 4)).map(tuple)
    if negative:  # no row twice: which of two items it then holds is another matter
        several = st.one_of(
            several,
            st.lists(signed, min_size=1, max_size=min(rows, 4), unique_by=lambda r: r % rows).map(tuple),
        )
    return st.one_of(
        signed.map(lambda r: Index("int", (r,))),
        st.tuples(st.sampled_from(("numpy", "scalar")), signed).map(
            lambda drawn: Index(drawn[0], (drawn[1],))
        ),
        st.tuples(row, st.integers(1, rows), st.sampled_from((None, None, 1, 2))).map(_slice),
        st.tuples(row, row, st.sampled_from((1, 1, 2, -1))).map(_range),
        st.tuples(st.sampled_from(("list", "tensor", "int32")), several).map(lambda drawn: Index(*drawn)),
        st.lists(st.booleans(), min_size=rows, max_size=rows).map(
            lambda bits: Index("mask", (True, *bits[1:]))
        ),
        st.lists(row, min_size=2, max_size=2).map(lambda r: Index("grid", ((2, 1), tuple(r)))),
        st.just(Index("ellipsis")),
        st.just(Index("slice", (None, None, None))),
    )


def _slice(drawn: tuple[int, int, int | None]) -> Index:
    start, length, step = drawn
    return Index("slice", (start or None, start + length, step))


def _range(drawn: tuple[int, int, int]) -> Index:
    first, last, step = drawn
    low, high = sorted((first, last))
    return Index("range", (low, high + 1, step)) if step > 0 else Index("range", (high, low - 1, step))


def _tuples(rows: int, trailing: tuple[int, ...], *, negative: bool) -> st.SearchStrategy[Index]:
    sizes = (rows, *trailing)
    integers = st.tuples(*(st.integers(-size if negative else 0, size - 1) for size in sizes)).map(
        lambda entries: Index("tuple", tuple(Index("int", (entry,)) for entry in entries))
    )
    first = st.integers(0, rows - 1)
    sliced = st.tuples(
        st.one_of(
            st.just(Index("slice", (None, None, None))), first.map(lambda r: Index("slice", (r, None, None)))
        ),
        st.integers(0, trailing[0] - 1),
    ).map(lambda drawn: Index("tuple", (drawn[0], Index("int", (drawn[1],)))))
    pairs = st.lists(
        st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1, max_size=3, unique=True
    ).map(lambda points: Index("tuple", tuple(Index("tensor", axis) for axis in zip(*points, strict=True))))
    short = first.map(lambda r: Index("tuple", (Index("int", (r,)),)))
    return st.one_of(integers, sliced, pairs, *([short] if len(trailing) > 1 else []))


def _cells(rows: int, trailing: tuple[int, ...]) -> st.SearchStrategy[Index]:
    shape = (rows, *trailing)
    size = prod(shape)
    return st.lists(st.booleans(), min_size=size, max_size=size).map(
        lambda bits: Index("cells", (shape, (True, *bits[1:])))
    )
