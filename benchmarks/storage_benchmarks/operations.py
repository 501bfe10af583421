"""Writes and reads of a storage, and of bare tensors, to be timed in turns."""

from __future__ import annotations

from typing import Any

import torch

from .cursors import CONTIGUOUS, WRAPPING, cursors
from .floor import Floor
from .records import Record, leaves
from .rounds import Operation

BATCHES = 4
"""Different batches that are written in turn."""

_ROOM = 2**25
"""Bytes up to which an operation has three storages in turn: how quick one is, is also a matter of the pages it got."""


def filled(factory: Any, record: Record) -> Any:
    """A storage of ``record.capacity`` rows, all of them written."""
    storage = factory(record.capacity)
    for start in range(0, record.capacity, 512):
        stop = min(record.capacity, start + 512)
        storage.set(torch.arange(start, stop), record.make(stop - start))
    return storage


def storage_operations(name: str, factory: Any, record: Record, batch: int) -> dict[str, Operation]:
    """Writes by each kind of cursor, of one row, and a read, each on a storage of its own.

    On one storage for all, an operation would find in the cache what another one has just written there.
    """
    batches = [record.make(batch) for _ in range(BATCHES)]
    items = [made[0].clone() for made in batches]

    def indices(kind: str) -> list[Any]:
        return cursors(kind, record.capacity, batch, seed=f"{name} {kind}")

    def storages() -> list[Any]:
        return [filled(factory, record) for _ in range(_copies(record))]

    operations: dict[str, Operation] = {}
    for kind in (*CONTIGUOUS, *WRAPPING, "scattered"):
        operations[f"{name} {kind}"] = _write(storages(), indices(kind), batches)
    operations[f"{name} row"] = _write(storages(), indices("row"), items)
    operations[f"{name} read"] = _read(storages(), indices("scattered"))
    return operations


def _copies(record: Record) -> int:
    return 3 if record.size * record.capacity <= _ROOM else 1


def _write(storages: list[Any], indices: list[Any], batches: list[Any]) -> Operation:
    return lambda turn: storages[turn % len(storages)].set(
        indices[turn % len(indices)], batches[turn % len(batches)]
    )


def _read(storages: list[Any], indices: list[Any]) -> Operation:
    return lambda turn: storages[turn % len(storages)].get(indices[turn % len(indices)])


def floor_operations(record: Record, batch: int) -> dict[str, Operation]:
    """The same with bare tensors, by all ways that torch and NumPy have."""
    batches = [leaves(record.make(batch)) for _ in range(BATCHES)]

    def in_turn(calls: list[Any]) -> Any:
        return lambda turn, *given: calls[turn % len(calls)](*given)

    def writing(ways: list[Any], kind: str, seed: str) -> Operation:
        indices, write = cursors(kind, record.capacity, batch, seed=seed), in_turn(ways)
        return lambda turn: write(turn, indices[turn % len(indices)], batches[turn % BATCHES])

    def reading(ways: list[Any], seed: str) -> Operation:
        indices, gather = cursors("scattered", record.capacity, batch, seed=seed), in_turn(ways)
        return lambda turn: gather(turn, indices[turn % len(indices)])

    def floors() -> list[Floor]:
        return [Floor(record, record.capacity) for _ in range(_copies(record))]

    operations = {
        "bare copy": writing([floor.copy for floor in floors()], "slice", "bare copy"),
        "bare two copies": writing(
            [floor.copy_twice for floor in floors()], "wrapping tensor", "bare two copies"
        ),
    }
    for name in floors()[0].scatters():
        ways = [floor.scatters()[name] for floor in floors()]
        operations[f"bare scatter {name}"] = writing(ways, "scattered", name)
    for name in floors()[0].gathers():
        ways = [floor.gathers()[name] for floor in floors()]
        operations[f"bare gather {name}"] = reading(ways, name)
    return operations
