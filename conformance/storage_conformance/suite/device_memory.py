"""Chapter DEV on an accelerator: where memory is taken, and what comes back from dumps and pickles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.batch import Batch
from storage_conformance.index import at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import tensors
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.capacity import kinds, must_equal, same_contents, span
from storage_conformance.suite.check import check

SEEDS = st.integers(0, 99)
ROW = torch.Size((4096,))
ROWS = 256
NEEDED = ROWS * ROW.numel() * 4
"""Bytes of the rows of a capacity, 4 MiB: what an allocator adds to it is small beside that."""


def _peak(device: str, storage: Subject, data: Literal) -> int:
    """Bytes that a first write takes of a device at its peak."""
    module = torch.get_device_module(torch.device(device).type)
    module.synchronize(device)
    before = module.memory_allocated(device)
    module.reset_peak_memory_stats(device)
    storage.set(at(0), data)
    module.synchronize(device)
    return int(module.max_memory_allocated(device)) - int(before)


def _large(device: str) -> Literal:
    return Literal(torch.ones(ROW, device=device), f"torch.ones({ROW.numel()}, device={device!r})")


def _make(lab: Lab, size: int, device: str, name: str = "storage") -> Subject:
    with lab.checking("NEW-1"):
        return Subject.make(lab.backend, lab.program, size, name=name, device=device)


@check("DEV-13", poisoned=False)
def rows_are_allocated_once(lab: Lab) -> None:
    for source in lab.devices:
        lab.start()
        storage = _make(lab, ROWS, lab.device)
        with lab.checking("DEV-13"):
            taken = _peak(lab.device, storage, _large(source))
            if not NEEDED <= taken <= NEEDED * 3 // 2:
                raise Violation(f"the first write took {taken} bytes of {lab.device} for rows of {NEEDED}")


@check("DEV-14", poisoned=False)
def rows_are_allocated_nowhere_else(lab: Lab) -> None:
    for home in lab.devices:
        for away in lab.devices[1:]:
            if home == away:
                continue
            lab.start()
            storage = _make(lab, ROWS, home)
            with lab.checking("DEV-14"):
                taken = _peak(away, storage, _large(away))
                if taken >= NEEDED:
                    raise Violation(f"the first write to a storage on {home} took {taken} bytes of {away}")


@check("DEV-15", examples=2, seed=SEEDS)
def loads_land_on_the_device_of_the_storage(lab: Lab, seed: int) -> None:
    for node in kinds(lab.backend.features):
        for number, home in enumerate(lab.devices):
            source_device = lab.devices[(number + 1 + seed % max(1, len(lab.devices) - 1)) % len(lab.devices)]
            for used in (False, True):
                lab.start()
                batch = Batch(node, (2,), seed=seed)
                source = _make(lab, 6, source_device)
                with lab.checking("SET-1"):
                    source.set(span(0, 2), replace(batch, device=source_device))
                path = Literal(lab.path(), 'folder / "dump"')
                with lab.checking("CKPT-20"):
                    source.call("dumps", path)
                loaded = _make(lab, 6, home, "loaded")
                if used:
                    with lab.checking("SET-1"):
                        loaded.set(span(0, 3), Batch(node, (3,), seed=seed + 1, device=home))
                with lab.checking("DEV-15"):
                    loaded.call("loads", path)
                    _is_on(loaded, home, batch)


@check("DEV-16", poisoned=False)
def a_device_without_the_memory_leaves_the_storage_fresh(lab: Lab) -> None:
    for source in lab.devices:
        lab.start()
        storage = _make(lab, 1 << 40, lab.device)
        lab.refused("DEV-16", lambda: storage.set(at(0), _large(source)), what="the write")  # noqa: B023
        with lab.checking("DEV-16"):
            must_equal(storage.length(), 0, "len(storage)")
            must_equal(storage.attribute("shape"), None, "storage.shape")
            must_equal(storage.attribute("device"), torch.device(lab.device), "storage.device")


@check("DEV-17", examples=2, seed=SEEDS)
def pickles_come_back_to_their_device(lab: Lab, seed: int) -> None:
    for node in kinds(lab.backend.features):
        for home in lab.devices[1:]:
            lab.start()
            batch = Batch(node, (2,), seed=seed)
            storage = _make(lab, 6, home)
            with lab.checking("SET-1"):
                storage.set(span(0, 2), replace(batch, device=home))
            with lab.checking("DEV-17"):
                _is_on(storage.repickled("restored"), home, batch)


def _is_on(storage: Subject, home: str, batch: Batch) -> None:
    must_equal(storage.attribute("device"), torch.device(home), f"{storage.name}.device")
    value: Any = storage.get(slice(0, 2))
    strangers = [tensor.device for tensor in tensors(value) if tensor.device != torch.device(home)]
    if strangers:
        raise Violation(f"a leaf is on {strangers[0]}, the storage on {home}")
    if not same_contents(value, batch):
        raise Violation("the rows are not those that were written")
