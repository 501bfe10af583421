"""The claims of speed of the reference: what is measured, and what it is held against.

Checks and the all-or-nothing guarantee are part of every figure: only the public interface is timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from lazy_tensor_storage import LazyTensorStorage

from .cursors import CONTIGUOUS, WRAPPING, cursors
from .goal import Goal, at_least, at_most
from .operations import filled, floor_operations, storage_operations
from .peers import PEERS
from .records import FLOATS, FRAMES, LEAVES, MEBIBYTE, SMALL, Record
from .rounds import Operation, medians
from .steps import per_second

BATCH = 256

# A cursor that wraps counts as two runs: it has twice the time.
SMALL_BOUNDS = {
    "slice": 4,
    "range": 8,
    "list": 8,
    "tensor": 4,
    "wrapping tensor": 2,
    "wrapping list": 4,
    "scattered": 2,
    "read": 2,
    "row": 4,
}
# A slice of TorchRL is a bare copy: nothing can be five times quicker.
FRAME_BOUNDS = {"range": 5, "list": 5, "tensor": 5, "scattered": 5, "read": 5}

# More than 1 MiB a write: 1.5, 14, 2 and 1.25 MiB. With thousands of narrow rows a list is a good part of the work, an
# integer of it takes as long as half a row of 256 bytes: no claim for lists there, but a note.
LARGE = ((MEBIBYTE, BATCH, 300), (FRAMES, BATCH, 80), (FLOATS, 8192, 300), (LEAVES, 4096, 150))
# Exactly 1 MiB, where the ten microseconds of a call are a sixth of it: within the bound on a quiet machine only.
NOTED = (FLOATS, 4096, 150)


@dataclass
class Claims:
    """What came out of one run.

    Attributes:
        goals: ratios with a bound.
        notes: what was left out, and why.
    """

    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        return all(goal.met for goal in self.goals)


def measured() -> Claims:
    """All claims, in one run; takes half a minute."""
    claims = Claims()
    _small(claims)
    for record, batch, rounds in LARGE:
        _large(claims, record, batch, rounds)
    _noted(claims, *NOTED)
    claims.goals += _capacity()
    claims.goals.append(Goal("suite: machine steps a second, by one core", per_second(), 500, least=True))
    return claims


def _small(claims: Claims) -> None:
    """Everything that takes the small record, in the same turns."""
    torchrl, peers = _torchrl(claims, SMALL), _peers(claims)
    operations = floor_operations(SMALL, BATCH) | storage_operations("ours", LazyTensorStorage, SMALL, BATCH)
    times = medians(operations | torchrl | peers, 600)
    claims.goals += _beside_floor(times, SMALL, contiguous=3, scattered=2.5, kinds=(*CONTIGUOUS, *WRAPPING))
    if torchrl:
        claims.goals += _beside_torchrl(times, SMALL, SMALL_BOUNDS)
    if peers:
        claims.goals += _beside_peers(claims, times)


def _large(claims: Claims, record: Record, batch: int, rounds: int) -> None:
    operations = floor_operations(record, batch) | storage_operations(
        "ours", LazyTensorStorage, record, batch
    )
    torchrl = _torchrl(claims, record) if record is FRAMES else {}
    times = medians(operations | torchrl, rounds)
    kinds = (*CONTIGUOUS, *WRAPPING) if batch == BATCH else ("slice", "range", "tensor")
    claims.goals += _beside_floor(times, record, contiguous=1.25, scattered=1.25, kinds=kinds)
    if batch != BATCH:
        ratio = times["ours list"] / times["bare copy"]
        claims.notes.append(f"{record.name}: write list / bare copy, {batch} rows: {ratio:.2f}")
    if torchrl:
        claims.goals += _beside_torchrl(times, record, FRAME_BOUNDS)


def _noted(claims: Claims, record: Record, batch: int, rounds: int) -> None:
    operations = floor_operations(record, batch) | storage_operations(
        "ours", LazyTensorStorage, record, batch
    )
    kinds = (*CONTIGUOUS, *WRAPPING)
    goals = _beside_floor(medians(operations, rounds), record, contiguous=1.25, scattered=1.25, kinds=kinds)
    claims.notes += [f"{goal.claim}, {batch} rows: {goal.ratio:.2f}" for goal in goals]


def _torchrl(claims: Claims, record: Record) -> dict[str, Operation]:
    try:
        from torchrl.data import LazyTensorStorage as Theirs
    except ImportError as error:
        claims.notes.append(f"{record.name}: nothing beside torchrl, {error}")
        return {}
    return storage_operations("torchrl", Theirs, record, BATCH)


def _beside_floor(
    times: dict[str, float], record: Record, *, contiguous: float, scattered: float, kinds: Iterable[str]
) -> Iterator[Goal]:
    for kind in kinds:
        floor = "bare two copies" if kind in WRAPPING else "bare copy"
        yield at_most(
            f"{record.name}: write {kind} / {floor}", times[f"ours {kind}"], times[floor], contiguous
        )
    for what, floor in (("scattered", "bare scatter"), ("read", "bare gather")):
        least = min(taken for name, taken in times.items() if name.startswith(floor))
        name = "write scattered" if what == "scattered" else what
        yield at_most(f"{record.name}: {name} / best {floor}", times[f"ours {what}"], least, scattered)


def _beside_torchrl(times: dict[str, float], record: Record, bounds: dict[str, int]) -> Iterator[Goal]:
    for kind, bound in bounds.items():
        what = kind if kind == "read" else f"write {kind}"
        yield at_least(
            f"{record.name}: torchrl {what} / ours", times[f"ours {kind}"], times[f"torchrl {kind}"], bound
        )


def _peers(claims: Claims) -> dict[str, Operation]:
    """Writes where a cursor of their own is, of 256 rows and of one; reads of 256 rows that are drawn first."""
    operations: dict[str, Operation] = {}
    for kind in PEERS:
        try:
            __import__(kind.module)
        except ImportError as error:
            claims.notes.append(f"nothing beside {kind.name}: {error}")
            continue
        peer = kind()
        for what in ("write", "write_row", "read"):
            act = getattr(peer, what)
            if act is not None:
                operations[f"{kind.name} {what}"] = lambda turn, act=act: act()
    if operations:
        storage = filled(LazyTensorStorage, SMALL)
        operations["ours drawn"] = lambda turn: storage.get(torch.randint(len(storage), (BATCH,)))
    return operations


def _beside_peers(claims: Claims, times: dict[str, float]) -> Iterator[Goal]:
    for kind in PEERS:
        for what, ours in (("write", "slice"), ("read", "drawn")):
            if f"{kind.name} {what}" in times:
                told = "write" if what == "write" else "draw and read"
                yield at_least(
                    f"small: {kind.name} {told} / ours",
                    times[f"ours {ours}"],
                    times[f"{kind.name} {what}"],
                    1,
                )
        if f"{kind.name} write_row" in times:
            ratio = times[f"{kind.name} write_row"] / times["ours row"]
            claims.notes.append(
                f"small: {kind.name} takes {ratio:.2f} times as long as ours to write one row"
            )


def _capacity() -> Iterator[Goal]:
    """The same 10,000 rows of storages of 10,000 and 2,000,000, and of one that holds no more than these."""
    reach, most = 10_000, 2_000_000
    full, huge, hollow = (LazyTensorStorage(rows) for rows in (reach, most, most))
    for start in range(0, most, 50_000):
        huge.set(slice(start, start + 50_000), SMALL.make(50_000))
    for storage in (full, hollow):
        storage.set(slice(0, reach), SMALL.make(reach))
    storages = {"full": full, "huge": huge, "hollow": hollow}
    operations: dict[str, Operation] = {}
    for name, storage in storages.items():
        rows, batch = cursors("scattered", reach, BATCH, seed=name), SMALL.make(BATCH)
        operations[f"{name} write"] = lambda turn, storage=storage, rows=rows, batch=batch: storage.set(
            rows[turn % len(rows)], batch
        )
        operations[f"{name} read"] = lambda turn, storage=storage, rows=rows: storage.get(
            rows[turn % len(rows)]
        )
    operations["construct 10"] = lambda turn: LazyTensorStorage(10)
    operations["construct 2**50"] = lambda turn: LazyTensorStorage(2**50)
    times = medians(operations, 300)
    for what in ("write", "read"):
        yield at_most(
            f"{what} at a capacity of 2,000,000 / of 10,000",
            times[f"huge {what}"],
            times[f"full {what}"],
            1.25,
        )
        yield at_most(
            f"{what} of a storage filled to 0.5 % / full",
            times[f"hollow {what}"],
            times[f"huge {what}"],
            1.25,
        )
    yield at_most(
        "construct with max_size=2**50 / max_size=10", times["construct 2**50"], times["construct 10"], 1.25
    )
