"""Chapter DTYPE: data of another dtype than the first write's, and dtypes that a storage need not support."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict

from storage_conformance.attribution import play
from storage_conformance.batch import Batch, tensor_code
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation
from storage_conformance.structure import Fields, Leaf, tensor_bytes
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.check import check
from storage_conformance.suite.dtypes import COMPLEX, FLOATS, WHOLE
from storage_conformance.trial import Setup, Step, law

REQUIRED = (*FLOATS, *COMPLEX, *WHOLE)
Number = int | float | complex
_CANDIDATES: tuple[Number, ...] = (
    0,
    1,
    -1,
    2,
    300,
    1.5,
    -0.25,
    1.7,
    2**24 + 1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    1 + 2j,
    0.1,
    1e39,
)
_EPSILON = {
    torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7,
    torch.complex64: 2.0**-23, torch.complex128: 2.0**-52,
}  # fmt: skip


@dataclass(frozen=True)
class Mixture:
    """A value of one dtype written over rows of another."""

    held: torch.dtype
    given: torch.dtype
    value: Number

    @property
    def written(self) -> Number:
        """The value as the given dtype has it."""
        return torch.tensor(self.value, dtype=self.given).item()


def _mixtures() -> Iterator[Mixture]:
    """Each pair of dtypes with a value that fits both, and with the values that only the given one holds."""
    for held, given in itertools.product(REQUIRED, REQUIRED):
        if held == given:
            continue
        fit: list[Number] = []
        unfit: list[Number] = []
        for value in _CANDIDATES:
            if _holds(given, value):
                (fit if _holds(held, value) else unfit).append(value)
        chosen = dict.fromkeys(
            [
                *fit[1:2],
                *unfit[:1],
                *unfit[-1:],
                *(v for v in fit if v == 2**24 + 1 or _rounds(held, given, v)),
            ]
        )
        yield from (Mixture(held, given, value) for value in chosen)


def _holds(dtype: torch.dtype, value: Number) -> bool:
    """Whether a value of this dtype can come close to `value`: exactly, or rounded if it is no whole number."""
    if dtype == torch.bool:
        return value in (0, 1)
    if dtype.is_complex:
        part = torch.float64 if dtype == torch.complex128 else torch.float32
        return _holds(part, value.real if isinstance(value, complex) else value)
    if isinstance(value, complex):
        return False
    if dtype.is_floating_point:
        if abs(value) > torch.finfo(dtype).max:
            return False
        return not isinstance(value, int) or int(torch.tensor(float(value), dtype=dtype).item()) == value
    info = torch.iinfo(dtype)
    return isinstance(value, int) and info.min <= value <= info.max


def _rounds(held: torch.dtype, given: torch.dtype, value: Number) -> bool:
    return isinstance(value, float) and value == 0.1 and not (held.is_complex or given.is_complex)


def _same(stored: Number, mixture: Mixture) -> bool:
    """Whether `stored` is the value written, rounded if both dtypes are floating-point ones."""
    value = mixture.written
    if value == stored:
        return True
    epsilon = _EPSILON.get(mixture.held)
    if epsilon is None or mixture.given not in _EPSILON:
        return False
    return abs(complex(value) - complex(stored)) <= 2 * epsilon * abs(complex(value))


class _Written:
    """A storage that holds one dtype in its last leaf, about to be given another one."""

    def __init__(self, lab: Lab, mixture: Mixture, *, nested: bool, trailing: tuple[int, ...]) -> None:
        self.mixture, self.nested, self.trailing = mixture, nested, trailing
        leaf = Leaf(mixture.held)
        node = Fields((("a", Leaf()), ("b", leaf))) if nested else leaf
        setup = Setup(3 * 2 ** len(trailing), 1 + len(trailing), trailing, node)
        first = Step("write", (Index("range", (0, 3)), Batch(node, (3, *trailing), seed=1)))
        self.trial = play(lab, setup, first)

    def data(self, lead: tuple[int, ...]) -> Literal:
        dtype, value = self.mixture.given, self.mixture.value
        shape = (*lead, *self.trailing)
        tensor, text = (
            torch.full(shape, value, dtype=dtype),
            f"torch.full({list(shape)}, {value}, dtype={dtype})",
        )
        if not self.nested:
            return Literal(tensor, text)
        data = TensorDict({"a": torch.zeros(shape), "b": tensor}, batch_size=shape)
        return Literal(
            data, f"TensorDict({{'a': torch.zeros({list(shape)}), 'b': {text}}}, batch_size={list(shape)})"
        )

    def claimed(self, row: int) -> str:
        """A Python expression for what is stored in a row."""
        leaf = f"storage.get({row})['b']" if self.nested else f"storage.get({row})"
        return f"{leaf}.flatten()[-1].item()"

    def stored(self, row: int) -> Number:
        value = self.trial.storage.get(row)
        leaf = value["b"] if self.nested else value
        if not isinstance(leaf, torch.Tensor):
            raise Violation(f"a {type(leaf).__name__} came back for a tensor")
        return leaf.reshape(-1)[-1].item()


_PLACES: tuple[tuple[str, Index, tuple[int, ...], int], ...] = (
    ("set", at(1), (), 1),
    ("set", Index("range", (1, 3)), (2,), 2),
    ("set", Index("list", (2, 0)), (2,), 0),
    ("set", Index("tensor", (1,)), (1,), 1),
    ("set", Index("slice", (0, 3, None)), (3,), 1),
    ("set", Index("mask", (False, True, True)), (2,), 2),
    ("assign", at(-1), (), 2),
    ("assign", Index("slice", (1, None, None)), (2,), 1),
    ("assign", Index("list", (1,)), (1,), 1),
)


@check("DTYPE-6")
def another_dtype_is_refused_or_keeps_its_values(lab: Lab) -> None:
    for number, mixture in enumerate(_mixtures()):
        for turn in range(2):
            verb, index, lead, row = _PLACES[(number + 4 * turn) % len(_PLACES)]
            trailing = ((), (2,), (2, 2))[(number + turn) % 3]
            _give(lab, mixture, verb, index, lead, row, nested=(number + turn) % 2 == 1, trailing=trailing)


@check("DTYPE-6")
def fractions_and_large_numbers_never_change_in_silence(lab: Lab) -> None:
    """The mistakes that people make, in every place where a value can be written."""
    common = (
        Mixture(torch.int64, torch.float32, 1.7), Mixture(torch.uint8, torch.int64, 300),
        Mixture(torch.bool, torch.int64, 2), Mixture(torch.float32, torch.int64, 2**24 + 1),
        Mixture(torch.float32, torch.complex64, 1 + 2j),
    )  # fmt: skip
    for mixture, (verb, index, lead, row), nested in itertools.product(common, _PLACES, (False, True)):
        _give(lab, mixture, verb, index, lead, row, nested=nested, trailing=())


def _give(
    lab: Lab,
    mixture: Mixture,
    verb: str,
    index: Index,
    lead: tuple[int, ...],
    row: int,
    *,
    nested: bool,
    trailing: tuple[int, ...],
) -> None:
    written = _Written(lab, mixture, nested=nested, trailing=trailing)
    storage, data = written.trial.storage, written.data(lead)
    error: Exception | None = None
    with lab.checking("DTYPE-6"):
        try:
            storage.set(index, data) if verb == "set" else storage.assign(index, data)
        except Raised as raised:
            error = raised.error
        if error is None:
            stored = written.stored(row)
            if not _same(stored, mixture):
                raise Violation(
                    f"{mixture.given} {mixture.value} became {mixture.held} {stored} in silence", aspect="value",
                    claim=f"{written.claimed(row)} == {mixture.written}", actual=repr(stored),
                )  # fmt: skip
    if error is not None:
        lab.allowed(error)
        written.trial.verify(law("ERR-1" if verb == "set" else "ERR-2"))


@check("DTYPE-7")
def a_refusal_by_reason_of_the_dtype_is_a_type_error(lab: Lab) -> None:
    """Only where a storage refuses: one that finds room for every value has nothing to raise."""
    for number, mixture in enumerate(_mixtures()):
        verb, index, lead, _ = _PLACES[number % len(_PLACES)]
        written = _Written(lab, mixture, nested=number % 2 == 1, trailing=())
        call = written.trial.storage.set if verb == "set" else written.trial.storage.assign
        _expect_type_error(lab, partial(call, index, written.data(lead)))
    for dtype, (first, lead), nested in itertools.product(UNCOMMON, FIRSTS, (False, True)):
        lab.start()
        with lab.checking("NEW-1"):
            storage = lab.make(ROWS)
        _expect_type_error(lab, partial(storage.set, first, _wrapped(dtype, lead, 0, nested=nested)))


def _expect_type_error(lab: Lab, call: Callable[[], object]) -> None:
    try:
        call()
    except Raised as raised:
        with lab.checking("DTYPE-7"):
            if not isinstance(raised.error, TypeError):
                raise Violation(
                    f"expected TypeError, got {type(raised.error).__name__}: {raised.error}"
                ) from None


UNCOMMON = tuple(
    getattr(torch, name)
    for name in (
        "uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
    if hasattr(torch, name)
)  # fmt: skip
"""Dtypes that no storage has to support, as far as the torch at hand has them."""


ROWS = 3
FIRSTS: tuple[tuple[Index, tuple[int, ...]], ...] = (
    (at(0), ()), (Index("range", (0, ROWS)), (ROWS,)), (Index("slice", (0, ROWS, None)), (ROWS,)),
    (Index("list", (0, 1, 2)), (ROWS,)), (Index("tensor", (0, 1, 2)), (ROWS,)),
    (Index("mask", (True,) * ROWS), (ROWS,)),
)  # fmt: skip


def _uncommon(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> Literal:
    count = torch.Size(shape).numel() * dtype.itemsize
    raw = [(seed * 7 + 3 * k) % 60 + 1 for k in range(count)]
    text = f"torch.tensor({raw}, dtype=torch.uint8).view({dtype}).reshape({list(shape)})"
    return Literal(torch.tensor(raw, dtype=torch.uint8).view(dtype).reshape(shape), text)


@check("DTYPE-8")
def a_dtype_works_everywhere_or_is_refused_at_once(lab: Lab) -> None:
    for dtype, (first, lead), nested in itertools.product(UNCOMMON, FIRSTS, (False, True)):
        lab.start()
        with lab.checking("NEW-1"):
            storage = lab.make(ROWS)
        error: Exception | None = None
        with lab.checking("DTYPE-8"):
            try:
                storage.set(first, _wrapped(dtype, lead, 0, nested=nested))
            except Raised as raised:
                error = raised.error
            if error is None:
                _use_everywhere(storage, dtype, nested=nested)
            elif not isinstance(error, TypeError | ValueError | RuntimeError):
                raise Violation(
                    f"the refusal raised {type(error).__name__}, expected TypeError, ValueError or RuntimeError"
                )
        if error is not None:
            _check_fresh(lab, storage)


def _wrapped(dtype: torch.dtype, lead: tuple[int, ...], seed: int, *, nested: bool) -> Literal:
    leaf = _uncommon(dtype, (*lead, 2), seed)
    if not nested:
        return leaf
    data = TensorDict({"a": torch.zeros(lead), "b": leaf.value}, batch_size=lead)
    return Literal(
        data, f"TensorDict({{'a': torch.zeros({list(lead)}), 'b': {leaf.text}}}, batch_size={list(lead)})"
    )


def _use_everywhere(storage: Subject, dtype: torch.dtype, *, nested: bool) -> None:
    """Writes and reads all rows by every kind of index."""
    everything = tuple(range(ROWS))
    kinds = (
        Index("range", (0, ROWS)), Index("slice", (0, ROWS, None)), Index("list", everything),
        Index("tensor", everything), Index("mask", (True,) * ROWS), Index("grid", ((ROWS,), everything)),
    )  # fmt: skip
    for seed, index in enumerate(kinds):
        data = _wrapped(dtype, (ROWS,), seed, nested=nested)
        storage.set(index, data)
        for reading in kinds:
            _expect(storage.get(reading), data.value, index, reading, nested=nested)
        storage.assign(index, data)
    one = _wrapped(dtype, (), 9, nested=nested)
    storage.set(at(1), one)
    _expect(storage.get(at(1)), one.value, at(1), at(1), nested=nested)


def _expect(found: Any, written: Any, index: Index, reading: Index, *, nested: bool) -> None:
    got, want = (found["b"], written["b"]) if nested else (found, written)
    if got.dtype != want.dtype or got.shape != want.shape or tensor_bytes(got) != tensor_bytes(want):
        leaf = "['b']" if nested else ""
        claim = f"same(storage.get({reading!r}){leaf}, {tensor_code(want, bits=True)})"
        message = f"written by {index!r} and read by {reading!r}, {want.dtype} data come back changed"
        raise Violation(message, claim=claim)


def _check_fresh(lab: Lab, storage: Subject) -> None:
    with lab.checking("LAZY-3"):
        if storage.length() != 0 or storage.attribute("shape") is not None:
            raise Violation(
                "the refused write left something behind", claim="len(storage) == 0 and storage.shape is None"
            )
        storage.set(at(0), Literal(torch.ones(3), "torch.ones(3)"))
        if not torch.equal(storage.get(at(0)).cpu(), torch.ones(3)):
            raise Violation("after the refused write another one does not read back")
