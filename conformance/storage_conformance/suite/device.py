"""Chapter DEV: device.

The meta device stands for a second one wherever data only have to be refused. What needs values on two devices runs
where the run names an accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import TensorDictBase, is_tensorclass
from torch.utils._pytree import tree_map

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import Node, leaves, tensors
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.capacity import (
    Trailing,
    attempt,
    fresh_storage,
    kinds,
    must_equal,
    same_contents,
    span,
)
from storage_conformance.suite.check import check
from storage_conformance.trial import Setup, Trial

SEEDS = st.integers(0, 99)
CPU, META = torch.device("cpu"), torch.device("meta")


def _homes(lab: Lab) -> tuple[torch.device, ...]:
    """The devices of this run."""
    return (CPU,) if lab.device == "cpu" else (CPU, torch.device(lab.device))


def _make(lab: Lab, ndim: int = 1, **options: Any) -> Subject:
    """A storage of 12 elements; no device is added to the options."""
    lab.start()
    if ndim > 1:
        options["ndim"] = ndim
    return Subject.make(lab.backend, lab.program, 12, **options)


def _on(device: torch.device, batch: Batch) -> Literal:
    """The data of a batch with all leaves, and no more, on `device`."""
    text = batch.code()
    moved = f"torch.utils._pytree.tree_map(lambda t: t.to({str(device)!r}), {text})"
    return Literal(batch.data(device), text if device == CPU else moved)


def _write_rows(
    lab: Lab, storage: Subject, node: Node, trailing: Trailing = (), device: torch.device = CPU
) -> None:
    with lab.checking("SET-1"):
        storage.set(span(0, 2), _on(device, Batch(node, (2, *trailing), seed=3)))


@check("DEV-1", examples=2, ndim=st.sampled_from((1, 2)))
def the_default_is_the_cpu(lab: Lab, ndim: int) -> None:
    for node in kinds(lab.backend.features):
        with lab.checking("DEV-1"):
            storage = _make(lab, ndim)
            must_equal(storage.attribute("device"), CPU, "storage.device")
        _write_rows(lab, storage, node, (2,) * (ndim - 1))
        with lab.checking("DEV-1"):
            must_equal(storage.attribute("device"), CPU, "storage.device")


def _spellings(device: torch.device) -> list[Any]:
    """The ways to name a device: with its ordinal or without, as a string or as a `torch.device`."""
    names = {str(device), device.type, f"{device.type}:{device.index or 0}"}
    return [
        *sorted(names),
        *(Literal(torch.device(name), f'torch.device("{name}")') for name in sorted(names)),
    ]


@check("DEV-2", examples=2, ndim=st.sampled_from((1, 2)))
def devices_and_strings_are_taken_and_read_back_as_devices(lab: Lab, ndim: int) -> None:
    for node, home in product(kinds(lab.backend.features), _homes(lab)):
        for spelling in (str(home), Literal(home, f'torch.device("{home}")')):
            with lab.checking("DEV-2"):
                storage = _make(lab, ndim, device=spelling)
            for _ in range(2):
                _write_rows(lab, storage, node, (2,) * (ndim - 1))
                with lab.checking("DEV-2"):
                    found = storage.attribute("device")
                    must_equal(
                        isinstance(found, torch.device), True, "isinstance(storage.device, torch.device)"
                    )
                    must_equal(found.type, home.type, "storage.device.type")


@check("DEV-3", examples=2, ndim=st.sampled_from((1, 2)))
def no_device_and_unknown_devices_are_refused(lab: Lab, ndim: int) -> None:
    for device in (None, "gpu", "gpu:0", "nonsense", "nonsense:0", "AUTO", "disk"):
        lab.refused("DEV-3", lambda device=device: _make(lab, ndim, device=device), what=f"device={device!r}")  # type: ignore[misc]


@check("DEV-4", examples=4, seed=SEEDS)
def auto_stays_auto_until_a_write_succeeds(lab: Lab, seed: int) -> None:
    for node, ndim in product(kinds(lab.backend.features), (1, 2, 3)):
        trailing = (2,) * (ndim - 1)
        with lab.checking("NEW-1"):
            storage = _make(lab, ndim, device="auto")
        with lab.checking("DEV-4"):
            must_equal(storage.attribute("device"), "auto", "storage.device")
        for index, lead in ((at(12), trailing), (span(0, 2), (3, *trailing))):
            if not attempt(storage, index, Batch(node, lead, seed=seed)):
                with lab.checking("DEV-4"):
                    must_equal(storage.attribute("device"), "auto", "storage.device")


@check("DEV-5", examples=2, seed=SEEDS)
def auto_becomes_the_device_of_the_leaves(lab: Lab, seed: int) -> None:
    for home, trailing, (number, node) in product(
        _homes(lab), ((), (2,)), enumerate(kinds(lab.backend.features))
    ):
        several = Batch(node, (2, *trailing), seed=seed)
        forms = ["dense", "list"] + (["lazy"] if hasattr(node, "extra") else [])
        for named, form in ((False, "dense"), (True, "dense"), (False, forms[(seed + number) % len(forms)])):
            with lab.checking("NEW-1"):
                storage = _make(lab, 1 + len(trailing), device="auto")
            batch = Batch(node, several.lead, seed=seed, device_named=named, form=form)
            with lab.checking("DEV-5"):
                storage.set(span(0, 2), _on(home, batch))
                must_equal(storage.attribute("device"), home, "storage.device")
                storage.set(at(0), _on(home, Batch(node, trailing, seed=seed)))
                must_equal(storage.attribute("device"), home, "storage.device")


def _scattered(batch: Batch, elsewhere: int) -> Literal:
    """The data of a batch with one leaf on the meta device."""
    numbers = count()
    text = f"lambda t, n=iter(range(9)): t.to('meta') if next(n) == {elsewhere} else t"
    return Literal(
        tree_map(lambda tensor: tensor.to(META) if next(numbers) == elsewhere else tensor, batch.data()),
        f"torch.utils._pytree.tree_map({text}, {batch.code()})",
    )


@check("DEV-6", examples=2, seed=SEEDS)
def leaves_on_different_devices_are_refused(lab: Lab, seed: int) -> None:
    for node, trailing in product(kinds(lab.backend.features), ((), (2,))):
        count = len(leaves(node))
        if count < 2:
            continue
        for elsewhere in range(count):
            for index, lead in (
                (at(0), trailing),
                (span(0, 2), (2, *trailing)),
                (Index("list", (0,)), (1, *trailing)),
            ):
                with lab.checking("NEW-1"):
                    storage = _make(lab, 1 + len(trailing), device="auto")
                data = _scattered(Batch(node, lead, seed=seed), elsewhere)
                lab.refused("DEV-6", lambda: storage.set(index, data), what="the write")  # noqa: B023
                with lab.noting("ERR-1"):
                    must_equal(storage.length(), 0, "len(storage)")
                    must_equal(storage.attribute("shape"), None, "storage.shape")
                    must_equal(storage.attribute("device"), "auto", "storage.device")


@check("DEV-7", examples=2, seed=SEEDS)
def the_device_is_that_of_the_leaves_however_it_was_spelled(lab: Lab, seed: int) -> None:
    homes = _homes(lab)
    spellings = [*(s for home in homes for s in _spellings(home)), "auto", None]
    for node, (number, spelling) in product(kinds(lab.backend.features), enumerate(spellings)):
        trailing = ((), (2,))[(seed + number) % 2]
        options = {} if spelling is None else {"device": spelling}
        with lab.checking("DEV-2"):
            storage = _make(lab, 1 + len(trailing), **options)
        with lab.checking("SET-1"):
            batch = Batch(node, (2, *trailing), seed=seed, device_named=bool((seed + number) % 3))
            storage.set(span(0, 2), _on(homes[-1] if spelling == "auto" else CPU, batch))
        for index in (at(0), at(1)):
            with lab.checking("GET-2"):
                value = storage.get(index)
            with lab.checking("DEV-7"):
                _is_where_the_storage_says(storage, value)


def _is_where_the_storage_says(storage: Subject, value: Any) -> None:
    device = storage.attribute("device")
    for tensor in tensors(value):
        must_equal(device, tensor.device, "storage.device")
    for container in _containers(value):
        if container.device not in (None, device):
            raise Violation(
                f"a {type(container).__name__} names {container.device}, storage.device is {device!r}",
                claim=f"{storage.name}.get(0).device in (None, {storage.name}.device)",
            )


def _containers(value: Any) -> Iterator[Any]:
    """The TensorDicts and tensorclasses in `value`."""
    if isinstance(value, TensorDictBase) or is_tensorclass(value):
        yield value
        fields = value if isinstance(value, TensorDictBase) else value._tensordict
        for field in fields.values():
            yield from _containers(field)
    elif isinstance(value, dict | list | tuple):
        for field in value.values() if isinstance(value, dict) else value:
            yield from _containers(field)


@check("DEV-8", examples=2, seed=SEEDS)
def a_loaded_auto_storage_knows_its_device(lab: Lab, seed: int) -> None:
    for number, node in enumerate(
        sorted(kinds(lab.backend.features), key=lambda node: not hasattr(node, "extra"))
    ):
        trailing = ((), (2,))[(seed + number) % 2]
        source = fresh_storage(lab, 6, trailing, **({"device": "auto"} if seed % 2 else {}))
        _write_rows(lab, source, node, trailing)
        path = Literal(lab.path(), 'folder / "dump"')
        with lab.checking("CKPT-20"):
            source.call("dumps", path)
        with lab.checking("NEW-1"):
            storage = Subject.make(
                lab.backend, lab.program, 6, name="loaded", device="auto", ndim=1 + len(trailing)
            )
        with lab.checking("CKPT-5"):
            storage.call("loads", path)
        with lab.checking("DEV-8"):
            device = storage.attribute("device")
            must_equal(isinstance(device, torch.device), True, "isinstance(loaded.device, torch.device)")
            _is_where_the_storage_says(storage, storage.get(at(0)))


@check("DEV-9", examples=2, seed=SEEDS)
def data_without_values_are_refused(lab: Lab, seed: int) -> None:
    for node, trailing in product(kinds(lab.backend.features), ((), (2,))):
        for written in (False, True):
            trial = Trial(lab, Setup(8, 1 + len(trailing), trailing, node, device=lab.device))
            if written:
                trial.write(span(0, 3), Batch(node, (3, *trailing), seed=seed))
            for index in (
                at(0),
                span(0, 2),
                Index("list", (1,)),
                Index("tensor", (1, 0)),
                Index("slice", (0, 2, None)),
            ):
                lead = index.resolve(4, trailing).lead
                part = Batch(node, lead, seed=seed + 1, layout="meta")  # the last leaf only
                trial.refuse_write(index, part, "DEV-9")
                if written:
                    trial.refuse_assign(index, part, "DEV-9")
            if written:
                trial.refuse_write(at(3), Batch(node, trailing, layout="meta"), "DEV-9")


@check("DEV-9", examples=2, seed=SEEDS)
def data_all_on_the_meta_device_are_refused(lab: Lab, seed: int) -> None:
    for node, written, home in product(kinds(lab.backend.features), (False, True), _homes(lab)):
        forms = ["dense", "list"] + (["lazy"] if hasattr(node, "extra") else [])
        for form in forms:
            with lab.checking("NEW-1"):
                storage = _make(lab, device=str(home))
            if written:
                _write_rows(lab, storage, node, device=home)
            length = storage.length()
            data = _on(META, Batch(node, (2,), seed=seed, form=form, device_named=bool(seed % 3)))
            lab.refused("DEV-9", lambda: storage.set(span(0, 2), data), what="the write")  # noqa: B023
            with lab.checking("ERR-1"):
                must_equal(storage.length(), length, "len(storage)")


def _indices(rows: int) -> tuple[Index, ...]:
    """Indices of row 1, or of rows 1 and 0, of every kind, among `rows` rows."""
    mask = Index("mask", tuple(row == 1 for row in range(rows)))
    several = (span(0, 2), Index("list", (1, 0)), Index("tensor", (1, 0)), Index("slice", (0, 2, None)))
    return at(1), *several, mask, Index("grid", ((2, 1), (1, 0))), Index("scalar", (1,))


@check("DEV-10", examples=2, seed=SEEDS)
def data_are_copied_from_another_device(lab: Lab, seed: int) -> None:
    here = _homes(lab)[-1]
    for node, (home, away) in product(kinds(lab.backend.features), ((here, CPU), (CPU, here))):
        for to_set, to_get in zip(_indices(12), _indices(2), strict=True):
            batch, later = (Batch(node, to_get.resolve(2, ()).lead, seed=seed + k) for k in (0, 1))
            with lab.checking("NEW-1"):
                storage = _make(lab, device=str(home))
            for index, data in ((span(0, 2), Batch(node, (2,), seed=seed + 2)), (to_set, batch)):
                with lab.checking("DEV-10"):
                    storage.set(index, _on(away, data))
            _check_copied(storage, to_get, batch, home, lab)
            with lab.checking("DEV-10"):
                storage.assign(to_get, _on(away, later))
            _check_copied(storage, to_get, later, home, lab)


def _check_copied(storage: Subject, index: Index, batch: Batch, home: torch.device, lab: Lab) -> None:
    with lab.checking("DEV-10"):
        value = storage.get(index)
        if not same_contents(value, batch):
            raise Violation("data from another device do not read back as written")
        if strangers := [tensor.device for tensor in tensors(value) if tensor.device.type != home.type]:
            raise Violation(f"a leaf is on {strangers[0]}, the storage on {home}")


def _check_index_from(lab: Lab, requirement: str, home: torch.device, away: torch.device, seed: int) -> None:
    """Checks `set`, `get` and `[]=` on `home` with index tensors that are on `away`."""
    for node in kinds(lab.backend.features):
        for index in (
            Index("tensor", (1, 0)),
            Index("int32", (1,)),
            Index("grid", ((2, 1), (0, 1))),
            Index("scalar", (1,)),
        ):
            with lab.checking("NEW-1"):
                storage = _make(lab, device=str(home))
            _write_rows(lab, storage, node, device=home)
            moved = Literal(index.value().to(away), f"{index.code()}.to({str(away)!r})")
            for act in (storage.set, storage.assign):
                batch = Batch(node, index.resolve(2, ()).lead, seed=seed)
                with lab.checking(requirement):
                    act(moved, _on(home, batch))
                    if not same_contents(storage.get(moved), batch):
                        raise Violation(f"rows written by an index on {away} do not read back as written")
        rows = torch.tensor([True, False])
        with lab.checking(requirement):
            value = storage.get(Literal(rows.to(away), f"torch.tensor([True, False]).to({str(away)!r})"))
            if not same_contents(value, Batch(node, (1,), seed=3)):
                raise Violation(f"rows read by a mask on {away} are not those written")


@check("DEV-11", examples=2, seed=SEEDS)
def an_accelerator_takes_indices_on_the_cpu(lab: Lab, seed: int) -> None:
    _check_index_from(lab, "DEV-11", _homes(lab)[-1], CPU, seed)


@check("DEV-12", examples=2, seed=SEEDS)
def the_cpu_takes_indices_on_an_accelerator(lab: Lab, seed: int) -> None:
    _check_index_from(lab, "DEV-12", CPU, _homes(lab)[-1], seed)
