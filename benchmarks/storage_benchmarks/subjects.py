"""Who is measured: registered backends, bare tensors, and other libraries' buffers, behind one pair of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict

from .cursors import cursors
from .floor import Floor
from .operations import filled
from .peers import PEERS, Peer
from .records import SMALL, Record, leaves

BARE = "bare torch"


@dataclass(frozen=True)
class Case:
    """What a subject is asked to do.

    Attributes:
        record: the kind of row.
        batch: how many rows at once.
        cursor: which rows, a kind of `cursors`, or ``"row"`` for one item without a row dimension.
        rows: where they lie, from row 0 on; the record's capacity unless the storage is not full.
        device: where the storage is.
    """

    record: Record
    batch: int
    cursor: str = "slice"
    rows: int = 0
    device: str = "cpu"

    @property
    def reach(self) -> int:
        return self.rows or self.record.capacity

    def indices(self) -> list[Any]:
        return cursors(self.cursor, self.reach, self.batch, seed=f"{self.record.name} {self.cursor}")

    def batches(self) -> list[TensorDict]:
        made = [self.record.make(self.batch).to(self.device) for _ in range(2)]
        return [batch[0].clone() for batch in made] if self.cursor == "row" else made


class Refused(Exception):
    """A subject that cannot do that: its message says why."""


def storage_subject(factory: Any) -> Callable[[Case, str], Callable[[], object]]:
    """``prepare(case, "write")`` gives a call that writes, ``"read"`` one that reads."""

    def prepare(case: Case, what: str) -> Callable[[], object]:
        if case.device == "cpu" and not case.rows:
            storage = filled(factory, case.record)
        else:
            storage = factory(case.record.capacity, device=case.device)
            storage.set(torch.arange(case.reach), case.record.make(case.reach).to(case.device))
        turn = _turns(case.indices(), case.batches())
        if what == "read":
            return lambda: storage.get(turn()[0])
        return lambda: storage.set(*turn())

    return prepare


def bare(case: Case, what: str) -> Callable[[], object]:
    """Slices are copied, other rows go through `index_select` and the quickest scatter for the dtype."""
    if case.cursor in ("row", "list", "wrapping list", "range") or case.device != "cpu":
        raise Refused("bare tensors are measured on the CPU with slices and integer tensors")
    floor = Floor(case.record, case.record.capacity)
    turn = _turns(case.indices(), [leaves(batch) for batch in case.batches()])
    if what == "read":
        gather = floor.gathers()["index_select"]
        return lambda: gather(turn()[0])
    write = {"slice": floor.copy, "wrapping tensor": floor.copy_twice}.get(
        case.cursor, floor.scatters()["numpy, opaque rows"]
    )
    return lambda: write(*turn())


def peer_subject(kind: type[Peer]) -> Callable[[Case, str], Callable[[], object]]:
    """The small record in 256 rows where the peer's own cursor is, which are consecutive; one row; drawn reads."""

    def prepare(case: Case, what: str) -> Callable[[], object]:
        whole = case.record is SMALL and not case.rows and case.device == "cpu"
        if what == "read":
            fits, what = whole and case.cursor == "scattered" and case.batch == 256, "read"
        elif case.cursor == "row":
            fits, what = whole, "write_row"
        else:
            fits = whole and case.cursor == "slice" and case.batch == 256
        if not fits:
            raise Refused(
                f"{kind.name} is measured with 256 small rows where its cursor is, and with one row"
            )
        try:
            __import__(kind.module)
        except ImportError as error:
            raise Refused(f"{error}; pip install 'lazy-tensor-storage[peers]'") from None
        act: Callable[[], object] | None = getattr(kind(), what)
        if act is None:
            raise Refused(f"{kind.name} has no call for that")
        return act

    return prepare


PEER_SUBJECTS = {kind.name: peer_subject(kind) for kind in PEERS}


def _turns(indices: list[Any], batches: list[Any]) -> Callable[[], tuple[Any, Any]]:
    number = -1

    def turn() -> tuple[Any, Any]:
        nonlocal number
        number += 1
        return indices[number % len(indices)], batches[number % len(batches)]

    return turn
