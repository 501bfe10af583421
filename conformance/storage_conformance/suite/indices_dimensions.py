"""Chapter IDX: masks, `...`, and indices of elements where `ndim > 1`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from hypothesis import strategies as st

from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.structure import Leaf, Node
from storage_conformance.subject import Literal
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import GRIDS, GROUNDS, NODES, PARTLY, Ground
from storage_conformance.suite.turns import every, reads_and_writes

grounds = st.sampled_from(GROUNDS)
grids = st.sampled_from(GRIDS)
nodes = st.sampled_from(NODES)

ALL = Index("slice", (None, None, None))


def masks(rows: int) -> list[Index]:
    """All masks of at least one row."""
    return [Index("mask", bits) for bits in product((False, True), repeat=rows) if any(bits)]


@check("IDX-10", examples=16, ground=grounds, node=nodes)
def a_mask_addresses_rows(lab: Lab, ground: Ground, node: Node) -> None:
    writing = masks(ground.capacity)
    reads_and_writes(lambda: Bench(lab, ground, node), "IDX-10", masks(ground.rows), writing[-3:])
    chosen = [*writing[::8], *writing[-2:]]
    every(lab, "IDX-10", chosen, lambda index: Bench(lab, ground, node).set("IDX-10", index))
    every(lab, "IDX-10", chosen, lambda index: Bench(lab, ground, node, fresh=True).set("IDX-10", index))


@check("IDX-11", examples=24, ground=grounds, node=nodes)
def an_ellipsis_addresses_all_rows(lab: Lab, ground: Ground, node: Node) -> None:
    def first(fresh: bool) -> None:
        Bench(lab, ground, node, fresh=fresh).set("IDX-11", Index("ellipsis"))

    bench = Bench(lab, ground, node)
    bench.get("IDX-11", Index("ellipsis"))
    bench.assign("IDX-11", Index("ellipsis"))
    every(lab, "IDX-11", (False, True), first)


def tuples(rows: int, trailing: tuple[int, ...]) -> list[Index]:
    """Tuples of every mixture of integers, slices and index tensors, no element named twice."""
    last = rows - 1
    first: list[Index] = [
        at(0),
        at(last),
        ALL,
        Index("slice", (last, None, None)),
        Index("slice", (None, None, 2)),
        Index("tensor", (last,)),
        Index("int32", (0,)),
    ]
    if rows > 1:
        first.append(Index("tensor", (last, 0)))
    columns = [_column(size) for size in trailing]
    found = [Index("tuple", (row, *column)) for row in first for column in product(*columns)]
    found += (
        [Index("tuple", (row, *column)) for row in first for column in product(*columns[:-1])]
        if len(trailing) > 1
        else []
    )
    found += [Index("tuple", (row,)) for row in first]
    return [index for index in found if _torch_and_numpy_agree(index)]


def _column(size: int) -> list[Index]:
    last = size - 1
    found = [
        at(last),
        at(-size),
        ALL,
        Index("slice", (last, None, None)),
        Index("tensor", (last,)),
        Index("tensor", (-1,)),
    ]
    return [*found, Index("tensor", (last, 0))] if size > 1 else found


def _torch_and_numpy_agree(index: Index) -> bool:
    """With an integer and a tensor around a slice, NumPy puts the tensor's dimension in front; torch does not."""
    kinds = ["tensor" if entry.form in ("tensor", "int32", "grid") else entry.form for entry in index.args]
    sizes = {len(entry.args) for entry in index.args if entry.form in ("tensor", "int32")}
    return not ("int" in kinds and "tensor" in kinds and "slice" in kinds) and len(sizes - {1}) <= 1


def _crossed(rows: int, trailing: tuple[int, ...]) -> Index:
    """Index tensors that broadcast to a grid of rows and columns."""
    row, column = tuple(range(rows)), tuple(range(trailing[0]))
    return Index("tuple", (Index("grid", ((rows, 1), row)), Index("grid", ((1, trailing[0]), column[::-1]))))


PARTS = 12
"""There are hundreds of mixtures in three dimensions; each example tries some."""


@check("IDX-12", examples=40, ground=grids, node=nodes, part=st.integers(0, PARTS - 1))
def a_tuple_addresses_elements_in_reads(lab: Lab, ground: Ground, node: Node, part: int) -> None:
    bench = Bench(lab, ground, node)
    for index in (*tuples(ground.rows, ground.trailing)[part::PARTS], _crossed(ground.rows, ground.trailing)):
        bench.get("IDX-12", index)
    repeated = Index(
        "tuple", tuple(Index("tensor", (size - 1, 0, size - 1)) for size in (ground.rows, *ground.trailing))
    )
    bench.get("IDX-12", repeated)
    bench.get("IDX-12", Index("tuple", tuple(at(-1) for _ in (0, *ground.trailing))))


@check("IDX-12", examples=20, ground=grids, node=nodes, part=st.integers(0, PARTS - 1))
def a_tuple_addresses_elements_in_writes(lab: Lab, ground: Ground, node: Node, part: int) -> None:
    reading = (*tuples(ground.rows, ground.trailing)[part::PARTS], _crossed(ground.rows, ground.trailing))
    writing = (
        *tuples(ground.capacity, ground.trailing)[part::PARTS],
        _crossed(ground.capacity, ground.trailing),
    )
    reads_and_writes(lambda: Bench(lab, ground, node), "IDX-12", reading, writing)


@check("IDX-12", examples=4, node=nodes)
def an_integer_in_a_tuple_is_taken_before_index_tensors(lab: Lab, node: Node) -> None:
    # torch takes storage[1] first, so that the dimension of the tensor stays behind that of the slice; NumPy does not.
    ground = Ground(12, (2, 2), 3)
    bench = Bench(lab, ground, node)
    given = Index("tuple", (at(1), ALL, Index("tensor", (1, 0, 1))))
    plain = Index(
        "tuple",
        (Index("grid", ((1, 1), (1,))), Index("grid", ((2, 1), (0, 1))), Index("grid", ((1, 3), (1, 0, 1)))),
    )
    bench.get("IDX-12", plain, given=given)
    given = Index("tuple", (at(2), ALL, Index("tensor", (1, 0))))
    plain = Index(
        "tuple",
        (Index("grid", ((1, 1), (2,))), Index("grid", ((2, 1), (0, 1))), Index("grid", ((1, 2), (1, 0)))),
    )
    bench.assign("IDX-12", plain, given=given)
    bench.set("IDX-12", plain, given=given)


@check("IDX-13", examples=30, ground=grids, node=nodes, number=st.integers(0, 2**12 - 1))
def a_mask_of_elements_selects_them_in_order(lab: Lab, ground: Ground, node: Node, number: int) -> None:
    shape = (ground.rows, *ground.trailing)
    size = prod(shape)
    drawn = tuple(bool(number >> place & 1) for place in range(size))
    alternating = tuple(place % 2 == 1 for place in range(size))
    bench = Bench(lab, ground, node)
    for bits in (drawn, (True,) * size, (False,) * (size - 1) + (True,), alternating):
        if any(bits):
            bench.get("IDX-13", Index("cells", (shape, bits)))


def _too_long(ndim: int) -> list[Index]:
    zeros = tuple(at(0) for _ in range(ndim))
    full = tuple(ALL for _ in range(ndim))
    pair = Index("tensor", (0, 0))
    return [
        Index("tuple", entries)
        for entries in (
            (*zeros, at(0)),
            (*full, at(0)),
            (*zeros, ALL),
            (*full, ALL),
            (pair,) * (ndim + 1),
            (*zeros, at(0), at(0)),
            (ALL, *zeros),
            (*full, Index("tensor", (0,))),
        )
    ]


@check("IDX-14", examples=3, nodes=st.permutations(NODES))
def a_tuple_longer_than_ndim_is_refused(lab: Lab, nodes: list[Node]) -> None:
    cases: list[Case] = [
        (ground, nodes[n], index)
        for n, ground in enumerate(PARTLY)
        for index in _too_long(1 + len(ground.trailing))
    ]
    # Batch dimensions beyond those that count are features too.
    cases += [
        (ground, Leaf(feature=(2, 3)), index)
        for ground in PARTLY[:2]
        for index in _too_long(1 + len(ground.trailing))
    ]
    refused_as_index(lab, "IDX-14", cases)


Case = tuple[Ground, Node, Index | Literal]


def refused_as_index(lab: Lab, requirement: str, cases: Iterable[Case]) -> None:
    """What is no index is none in `get`, `[]=`, `set` and the first write, whatever it might be taken for."""

    def attempt(case: tuple[Case, str, tuple[int, ...]]) -> None:
        (ground, node, index), verb, lead = case
        bench = Bench(lab, ground, node, fresh=verb == "first")
        data = bench.batch(bench.model.for_writing(at(0))).reshaped(lead)
        if verb == "get":
            bench.refuse_get(requirement, index)
        elif verb == "assign":
            bench.refuse_assign(requirement, index, data)
        else:
            bench.refuse_set(requirement, index, data)

    def attempts() -> Iterator[tuple[Case, str, tuple[int, ...]]]:
        for number, case in enumerate(cases):
            ground, trailing = case[0], case[0].trailing
            yield case, "get", ()
            # An item, and a feature of one, one row, no row, all readable or all rows: some data fit whatever it means.
            others = [
                (),
                (1, *trailing),
                (0, *trailing),
                (ground.rows, *trailing),
                (ground.capacity, *trailing),
            ]
            for place, verb in enumerate(("assign", "set", "first")):
                yield case, verb, trailing
                yield case, verb, others[(number + place) % len(others)]

    every(lab, requirement, attempts(), attempt)


@check("IDX-18", examples=3, nodes=st.permutations(NODES))
def a_mask_of_another_length_is_refused(lab: Lab, nodes: list[Node]) -> None:
    def attempt(case: tuple[Ground, str, int]) -> None:
        ground, verb, size = case
        node = nodes[size % len(nodes)]
        if size == (ground.rows if verb in ("get", "assign") else ground.capacity):
            return
        for bits in dict.fromkeys(
            ((True,) * size, (True,) * min(size, 1) + (False,) * (size - 1), (False,) * size)
        ):
            lab.start()
            bench, mask = Bench(lab, ground, node, fresh=verb == "first"), Index("mask", bits)
            data = bench.batch(bench.model.for_writing(at(0))).reshaped((sum(bits), *ground.trailing))
            if verb == "get":
                bench.refuse_get("IDX-18", mask)
            elif verb == "assign":
                bench.refuse_assign("IDX-18", mask, data)
            else:
                bench.refuse_set("IDX-18", mask, data)

    grounds_ = [ground for ground in GROUNDS if ground.rows < ground.capacity] + [GROUNDS[1], GROUNDS[2]]
    sizes = [
        (ground, size)
        for ground in grounds_
        for size in sorted(
            {0, 1, ground.rows - 1, ground.rows, ground.rows + 1, ground.capacity, ground.capacity + 1}
        )
    ]
    every(
        lab,
        "IDX-18",
        [(ground, verb, size) for ground, size in sizes for verb in ("get", "assign", "set", "first")],
        attempt,
    )


@check("IDX-18", examples=8, ground=grids, node=nodes)
def a_mask_of_elements_of_another_length_is_refused(lab: Lab, ground: Ground, node: Node) -> None:
    def attempt(rows: int) -> None:
        shape = (rows, *ground.trailing)
        Bench(lab, ground, node).refuse_get("IDX-18", Index("cells", (shape, (True,) * prod(shape))))

    every(lab, "IDX-18", (ground.rows + 1, ground.rows - 1), attempt)
