"""Chapter NEW: construction."""

from __future__ import annotations

from itertools import product
from math import prod
from numbers import Integral
from typing import Any

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import at
from storage_conformance.lab import Lab
from storage_conformance.listener import Journal, Listener
from storage_conformance.recorder import Raised, Violation
from storage_conformance.structure import Fields, Leaf, Node
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.capacity import Trailing, attempt, must_equal, same_contents, span
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup

ROW = Leaf(feature=(2,))


@check("NEW-1", examples=10, size=st.one_of(st.integers(1, 10), st.just(1000)))
def a_size_is_enough(lab: Lab, size: int) -> None:
    with lab.checking("NEW-1"):
        for storage in (Subject.make(lab.backend, lab.program, size), _made_by_name(lab, size)):
            must_equal(storage.attribute("ndim"), 1, "storage.ndim")
            must_equal(storage.length(), 0, "len(storage)")


def _made_by_name(lab: Lab, size: int) -> Subject:
    lab.start()
    lab.program.add(f"storage = make(max_size={size})")
    try:
        storage = lab.backend.factory(max_size=size)
    except Exception as error:
        raise Raised(error, "the constructor") from error
    return Subject(storage, "storage", lab.program)


@check("NEW-2", examples=6, extra=st.sampled_from(((), (2,), (2, 3))))
def ndim_is_the_argument(lab: Lab, extra: tuple[int, ...]) -> None:
    for ndim in (1, 2, 3, 4):
        lab.start()
        with lab.checking("NEW-2"):
            storage = lab.make(6, ndim=ndim)
            must_equal(storage.attribute("ndim"), ndim, "storage.ndim")
        trailing = (2, 1, 1)[: ndim - 1]
        with lab.checking("SET-1"):
            storage.set(span(0, 2), Batch(Fields((("a", ROW),), extra), (2, *trailing)))
        with lab.checking("NEW-2"):
            must_equal(storage.attribute("ndim"), ndim, "storage.ndim")


def literal(value: Any) -> Literal:
    """A number as an argument, written down so that it can be read back."""
    if isinstance(value, numpy.generic):
        return Literal(value, f"numpy.{type(value).__name__}({value})")
    return Literal(value, f'float("{value}")' if repr(value) in ("inf", "nan") else repr(value))


def _refuse(lab: Lab, requirement: str, argument: str, value: Any, **others: Any) -> None:
    lab.start()
    given = literal(value)
    arguments = {**others, argument: given}
    size = arguments.pop("max_size")
    lab.refused(requirement, lambda: lab.make(size, **arguments), what=f"{argument}={given.text}")


NO_INTEGERS = (
    2.0, 2.7, 1e6, "3", None, True, False, [2], (2,), float("nan"), float("inf"), 1j, numpy.float64(3.0),
    numpy.bool_(True),
)  # fmt: skip


@check("NEW-3", examples=2, ndim=st.sampled_from((1, 2)))
def sizes_that_are_no_integers_are_refused(lab: Lab, ndim: int) -> None:
    for size in NO_INTEGERS:
        _refuse(lab, "NEW-3", "max_size", size, ndim=ndim)


@check("NEW-4", examples=2, ndim=st.sampled_from((1, 2)))
def sizes_below_one_are_refused(lab: Lab, ndim: int) -> None:
    for size in (0, -1, -2, -10, -(2**40), numpy.int64(0), numpy.int8(-1)):
        _refuse(lab, "NEW-4", "max_size", size, ndim=ndim)


@check("NEW-5", examples=2, size=st.sampled_from((4, 1)))
def an_ndim_that_counts_nothing_is_refused(lab: Lab, size: int) -> None:
    for ndim in (0, -1, -2, numpy.int64(0), *NO_INTEGERS):
        _refuse(lab, "NEW-5", "ndim", ndim, max_size=size)


@Integral.register
class Count:
    """An integer type of somebody's own."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value

    __int__ = __index__


COUNT = (
    'Count = type("Count", (), {"__init__": lambda self, n: setattr(self, "n", n), '
    '"__index__": lambda self: self.n, "__int__": lambda self: self.n})'
)
"""The same in one line, for the program that a failure shows."""

INTEGERS: tuple[tuple[Any, str], ...] = (
    (numpy.int64, "numpy.int64"), (numpy.int32, "numpy.int32"), (numpy.uint8, "numpy.uint8"),
    (numpy.int8, "numpy.int8"), (numpy.uint64, "numpy.uint64"), (Count, "Count"),
)  # fmt: skip


@check("NEW-6", examples=6, size=st.one_of(st.just(127), st.integers(1, 20)))
def any_integer_type_acts_as_the_int(lab: Lab, size: int) -> None:
    """At 127 arithmetic in eight bits overflows."""
    for trailing in ((), (2,)):
        ndim = 1 + len(trailing)
        with lab.checking("NEW-1"):
            plain = _measured(lab, size, ndim, trailing)
        for kind, name in INTEGERS:
            lab.start()
            if kind is Count:
                lab.program.add("{}", Literal(None, COUNT))
            sizes = Literal(kind(size), f"{name}({size})"), Literal(kind(ndim), f"{name}({ndim})")
            with lab.checking("NEW-6"):
                found = _measured(lab, *sizes, trailing)
                for (expression, expected), (_, actual) in zip(plain, found, strict=True):
                    must_equal(actual, expected, expression)


def _measured(lab: Lab, size: Any, ndim: Any, trailing: Trailing) -> list[tuple[str, Any]]:
    """What a storage of one row, and then of two, says about its size."""
    storage = lab.make(size, ndim=ndim)
    found = [(f"storage.{name}", storage.attribute(name)) for name in ("ndim", "max_size")]
    for row in (0, 1):
        attempt(storage, at(row), Batch(Leaf(), trailing))
        found.append(("storage.max_size", storage.attribute("max_size")))
        found.append(("len(storage)", storage.length()))
    return found


OTHER: Node = Fields((("a", Leaf(torch.int64)), ("b", ROW)))


@check("NEW-7", examples=3, size=st.integers(4, 6))
def storages_made_alike_share_nothing(lab: Lab, size: int) -> None:
    for trailing, device in product(((), (2,)), ("cpu", "auto")):
        for late in (False, True):  # the second one is made before or after the first one is written
            if device == "auto" or lab.device == "cpu":
                _write_one_of_two(
                    lab, late, trailing, Setup(size, 1 + len(trailing), trailing, device=device)
                )


def _write_one_of_two(lab: Lab, late: bool, trailing: Trailing, setup: Setup) -> None:
    one, other = Batch(ROW, trailing, seed=1), Batch(OTHER, trailing, seed=7)
    lab.start()
    journals = Journal(), Journal()
    first = _watched(lab, "first", setup, journals[0])
    second = None if late else _watched(lab, "second", setup, journals[1])
    with lab.checking("SET-1"):
        first.set(at(0), one)
        first.set(at(1), one)
    second = second or _watched(lab, "second", setup, journals[1])
    with lab.checking("NEW-7"):
        must_equal(second.length(), 0, "len(second)")
        journals[0].clear()
        second.set(at(0), other)
        _check_not_told(lab, journals[0], "entity0")
        must_equal(second.length(), prod(trailing), "len(second)")
        must_equal(first.length(), 2 * prod(trailing), "len(first)")
        if not same_contents(first.get(at(0)), one):
            raise Violation("a write to one storage changed the rows of the other")
        if not same_contents(second.get(at(0)), other):
            raise Violation("a storage holds rows of the other")
        journals[1].clear()
        first.set(at(0), one)
        _check_not_told(lab, journals[1], "entity1")


def _check_not_told(lab: Lab, journal: Journal, entity: str) -> None:
    if journal:
        lab.program.before_last("forget()")
        raise Violation("a write to one storage told the entity of the other", claim=f"told({entity}) == 0")


def _watched(lab: Lab, name: str, setup: Setup, journal: Journal) -> Subject:
    options = {"device": setup.device} if setup.device != "cpu" else {}
    with lab.checking("NEW-1"):
        storage = lab.make(setup.size, name=name, ndim=setup.ndim, **options)
    with lab.checking("OBS-1"):
        shown = f"{'entity0' if name == 'first' else 'entity1'} := Entity()"
        storage.call("attach", Literal(Listener(name, journal), shown))
    return storage
