"""Chapter DTYPE: every dtype comes back as it was written, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.recorder import Found
from storage_conformance.structure import Fields, Leaf, Node, Record, leaves, relabel
from storage_conformance.suite.check import check
from storage_conformance.suite.stories import ROWS_ONLY, SHAPES, Story, stories, tell, tour
from storage_conformance.trial import Setup, Step

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
COMPLEX = (torch.complex64, torch.complex128)
WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SMALL_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2)
_UNSIGNED = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32, 8: numpy.uint64}
_MANTISSA = {
    torch.float64: 52, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7, torch.complex64: 23,
    torch.complex128: 52,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Extreme(Batch):
    """Values that only the dtype itself can hold: the largest and smallest, and those that need every digit."""

    @cached_property
    def values(self) -> list[Any]:
        return [
            _cycled(_extremes(leaf.dtype), self.lead + leaf.feature, self.seed)
            for _, leaf in leaves(self.node)
            if isinstance(leaf, Leaf)
        ]


@dataclass(frozen=True, repr=False)
class Patterned(Batch):
    """Bit patterns that arithmetic does not keep: signed zeros, subnormals, infinities, NaNs with payloads."""

    @cached_property
    def values(self) -> list[Any]:
        return [
            _cycled(_patterns(leaf.dtype), self.lead + leaf.feature, self.seed)
            for _, leaf in leaves(self.node)
            if isinstance(leaf, Leaf)
        ]


def _extremes(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([True, False, False])
    if not (dtype.is_floating_point or dtype.is_complex):
        whole = torch.iinfo(dtype)
        return torch.tensor([whole.max, whole.min, whole.max - 1, whole.max // 3, 1, 0], dtype=dtype)
    if dtype in SMALL_FLOATS:
        return torch.arange(1, 127, dtype=torch.uint8).view(dtype)
    finest = 2.0 ** -_MANTISSA[dtype]
    if dtype.is_complex:
        real = torch.tensor([1 + finest, 1 / 3, -3e30, 0.0], dtype=torch.float64)
        return torch.complex(real, real.flip(0) * 0.7).to(dtype)
    info = torch.finfo(dtype)
    return torch.tensor(
        [1 / 3, 1 + finest, info.max, -info.max, info.tiny, -(1 + finest), 1e-3], dtype=torch.float64
    ).to(dtype)


def _patterns(dtype: torch.dtype) -> torch.Tensor:
    """Signed zeros, infinities, quiet and signalling NaNs with payloads, the smallest and the largest subnormal."""
    if dtype not in _MANTISSA:
        return _extremes(dtype)
    part = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)
    size, mantissa = part.itemsize, _MANTISSA[part]
    sign, infinity = 1 << (8 * size - 1), ((1 << (8 * size - 1 - mantissa)) - 1) << mantissa
    quiet = 1 << (mantissa - 1)
    positive = [
        0,
        1,
        quiet - 1,
        (1 << mantissa) - 1,
        infinity,
        infinity | quiet,
        infinity | quiet | 5,
        infinity | 3,
    ]
    bits = numpy.array([p | s for p in positive for s in (0, sign)], dtype=_UNSIGNED[size])
    tensor = torch.from_numpy(bits.view(numpy.uint8).copy()).view(part)
    if part is dtype:
        return tensor
    return torch.stack([tensor, tensor.roll(3)], -1).reshape(-1).view(dtype)


def _cycled(values: torch.Tensor, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """`values` from the place `seed` on, over and over; moved as integers, which keeps every bit."""
    raw = values.view(torch.uint8).reshape(len(values), -1)
    places = (torch.arange(prod(shape)) + seed) % len(values)
    return raw[places].reshape(-1).view(values.dtype).reshape(shape)


def single(dtype: torch.dtype) -> list[Node]:
    """Structures that hold a dtype: alone, as the second leaf, in a nested container."""
    leaf, other = Leaf(dtype, (2,)), Leaf()
    return [
        Leaf(dtype, ()),
        leaf,
        Fields((("a", other), ("b", leaf))),
        Record("Step", (("obs", other), ("reward", Fields((("inner", leaf), ("b", Leaf(dtype)))))), ()),
    ]


def as_float32(node: Node) -> Node:
    found = {leaf for _, leaf in leaves(node) if isinstance(leaf, Leaf)}
    return relabel(node, {leaf: Leaf(torch.float32, leaf.feature) for leaf in found})


def as_int64(node: Node) -> Node:
    found = {leaf for _, leaf in leaves(node) if isinstance(leaf, Leaf)}
    return relabel(node, {leaf: Leaf(torch.int64, leaf.feature) for leaf in found})


def unchanged(node: Node) -> Node:
    return node


def with_whole_numbers(batch: Batch) -> Batch:
    return Batch(batch.node, batch.lead, batch.seed)


def of_dtypes(dtypes: Iterable[torch.dtype]) -> list[Node]:
    return [node for dtype in dtypes for node in single(dtype)]


@check("DTYPE-1")
def floating_point_leaves_come_back_exactly(lab: Lab) -> None:
    tell(lab, "DTYPE-1", tour(of_dtypes(FLOATS), make=Extreme), as_int64)


@check("DTYPE-2")
def complex_leaves_come_back_exactly(lab: Lab) -> None:
    tell(lab, "DTYPE-2", tour(of_dtypes(COMPLEX), make=Extreme), as_float32)


@check("DTYPE-3")
def integer_and_bool_leaves_come_back_exactly(lab: Lab) -> None:
    tell(lab, "DTYPE-3", tour(of_dtypes(WHOLE), make=Extreme), as_float32)


@check("DTYPE-4")
def every_kind_of_bit_pattern_is_kept(lab: Lab) -> None:
    shapes = (*ROWS_ONLY, SHAPES[3])
    tell(
        lab,
        "DTYPE-4",
        tour(of_dtypes((*FLOATS, *COMPLEX)), make=Patterned, shapes=shapes),
        as_int64,
    )


@check("CKPT-5")
def every_kind_of_bit_pattern_survives_a_dump(lab: Lab) -> None:
    for node in of_dtypes((*FLOATS, *COMPLEX)):
        lab.start()
        write = Step("write", (Index("range", (0, 16)), Patterned(node, (16,))))
        try:
            play(lab, Setup(16, node=node), write, Step("dump", (0,)), Step("load_elsewhere", (0, 16)))
        except Found as found:
            if found.requirement == "CKPT-5":  # the write is the business of DTYPE-4
                raise


@dataclass(frozen=True, repr=False)
class AllBits(Batch):
    """Every bit pattern of a dtype of 16 bits, a row at a time."""

    @cached_property
    def values(self) -> list[Any]:
        found: list[Any] = []
        for _, leaf in leaves(self.node):
            assert isinstance(leaf, Leaf)
            shape = self.lead + leaf.feature
            counted = torch.arange(prod(shape), dtype=torch.int32).to(torch.int16)
            sixteen = leaf.dtype in (torch.float16, torch.bfloat16)
            found.append((counted.view(leaf.dtype) if sixteen else counted.to(leaf.dtype)).reshape(shape))
        return found


@check("DTYPE-4")
def all_patterns_of_sixteen_bits_are_kept(lab: Lab) -> None:
    tales = []
    for dtype in (torch.float16, torch.bfloat16):
        node = Leaf(dtype, (1 << 14,))
        indices = Index("range", (0, 4)), Index("list", (0, 1, 2, 3)), Index("slice", (0, 4, None))
        for index in indices:
            steps = Step("write", (index, AllBits(node, (4,)))), Step("read", (indices[1], "grad", "get"))
            tales.append(Story(Setup(4, node=node), steps))
    tell(lab, "DTYPE-4", tales, unchanged, with_whole_numbers)


HOLLOW: tuple[Node, ...] = (
    Leaf(torch.float32, (0,)),
    Leaf(torch.int64, (2, 0)),
    Leaf(torch.bool, (0, 3)),
    Fields((("a", Leaf()), ("b", Leaf(torch.float64, (0,))))),
    Fields((("a", Leaf(torch.float32, (3, 0, 2))), ("next", Fields((("obs", Leaf(torch.int64, (0,))),))))),
    Record("Step", (("obs", Leaf(torch.float32, (0,))), ("reward", Leaf()))),
)


def filled(node: Node) -> Node:
    found = {leaf for _, leaf in leaves(node) if isinstance(leaf, Leaf)}
    return relabel(
        node, {leaf: Leaf(leaf.dtype, tuple(size or 1 for size in leaf.feature)) for leaf in found}
    )


@check("DTYPE-5", examples=4, tales=stories(st.sampled_from(HOLLOW)))
def features_of_size_zero_are_stored_and_counted(lab: Lab, tales: tuple[Story, ...]) -> None:
    tell(lab, "DTYPE-5", tales, filled)


@check("DTYPE-5")
def each_structure_with_a_feature_of_size_zero_is_taken(lab: Lab) -> None:
    tell(lab, "DTYPE-5", tour(HOLLOW), filled)


@check("DTYPE-9")
def eight_bit_floats_come_back_exactly(lab: Lab) -> None:
    tell(lab, "DTYPE-9", tour(of_dtypes(SMALL_FLOATS), make=Extreme), as_float32)
