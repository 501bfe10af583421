"""Chapter NEW: construction."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.lab import Lab
from storage_conformance.listener import Journal, Listener
from storage_conformance.recorder import Violation
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check


@check("NEW-1", examples=10, size=st.integers(1, 10))
def a_size_is_enough(lab: Lab, size: int) -> None:
    with lab.checking("NEW-1"):
        by_position = lab.make(size)
        by_name = lab.backend.factory(max_size=size)
        if by_position.attribute("ndim") != 1 or by_position.length() != 0 or len(by_name) != 0:
            raise Violation("a new storage has ndim 1 and no rows", claim="(storage.ndim, len(storage)) == (1, 0)")


@check("NEW-2", examples=5, ndim=st.integers(1, 3))
def ndim_is_the_argument(lab: Lab, ndim: int) -> None:
    with lab.checking("NEW-2"):
        found = lab.make(6, ndim=ndim).attribute("ndim")
        if found != ndim:
            raise Violation(f"ndim is {found!r}, expected {ndim}", claim=f"storage.ndim == {ndim}", actual=repr(found))


@check("NEW-3", examples=20, size=st.sampled_from((2.0, 2.7, "3", None, True, False, [2], float("nan"), 1j)))
def sizes_that_are_no_integers_are_refused(lab: Lab, size: Any) -> None:
    lab.refused("NEW-3", lambda: lab.make(size), what=f"max_size={size!r}")


@check("NEW-4", examples=6, size=st.sampled_from((0, -1, -10)))
def sizes_below_one_are_refused(lab: Lab, size: int) -> None:
    lab.refused("NEW-4", lambda: lab.make(size), what=f"max_size={size}")


@check("NEW-5", examples=16, ndim=st.sampled_from((0, -1, 1.5, 1.0, "2", None, True, [1])))
def an_ndim_that_counts_nothing_is_refused(lab: Lab, ndim: Any) -> None:
    lab.refused("NEW-5", lambda: lab.make(4, ndim=ndim), what=f"ndim={ndim!r}")


@check("NEW-6", examples=10, size=st.integers(1, 9), kind=st.sampled_from((numpy.int64, numpy.int32, numpy.uint8)))
def any_integer_type_is_taken(lab: Lab, size: int, kind: Any) -> None:
    with lab.checking("NEW-6"):
        text = f"numpy.{kind.__name__}"
        storage = lab.make(Literal(kind(size), f"{text}({size})"), ndim=Literal(kind(1), f"{text}(1)"))
        storage.set(0, Literal(torch.ones(2), "torch.ones(2)"))
        found = storage.attribute("max_size"), storage.attribute("ndim"), storage.length()
        if found != (size, 1, 1):
            raise Violation(f"max_size, ndim and len are {found}", claim=f"storage.max_size == {size}", actual=str(found[0]))


@check("NEW-7", examples=5, size=st.integers(1, 4))
def storages_share_nothing(lab: Lab, size: int) -> None:
    journal = Journal()
    with lab.checking("NEW-7"):
        first, second = lab.make(size), lab.make(size, name="second")
        second.call("attach", Literal(Listener("entity", journal), "entity"))
        first.set(0, Literal(torch.ones(2), "torch.ones(2)"))
        if second.length() != 0 or journal:
            raise Violation("a write to one storage reached another", claim="len(second) == 0", actual=str(second.length()))
        second.set(0, Literal(torch.zeros(2), "torch.zeros(2)"))
        if not torch.equal(first.get(0), torch.ones(2)):
            raise Violation("a write to one storage changed the rows of another")
