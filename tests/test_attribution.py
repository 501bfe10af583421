"""Who is blamed: little storages with one fault each, and a program in which it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.attribution import play
from storage_conformance.backend import Backend
from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.rewriting import Rewriting, is_lazy
from storage_conformance.recorder import Found, Recorder
from storage_conformance.steps import Setup, Step
from storage_conformance.structure import Fields, Leaf, Record, Text

PAIR = Fields((("a", Leaf()), ("b", Leaf(torch.int64))))
TEXTS = Fields((("a", Leaf()), ("text", Text())))
STEP = Record("Step", (("obs", Leaf()), ("reward", Leaf())))
ALL = Index("range", (0, 3))


def write(index: Index, node: Any, *lead: int, **facts: Any) -> Step:
    return Step("write", (index, Batch(node, lead, seed=1, **facts)))


class TurnsListsOfItemsRound(Rewriting):
    def given(self, index: Any, data: Any) -> Any:
        return data[::-1] if isinstance(data, list) else data


class TakesTheFirstOfALazyStack(Rewriting):
    def given(self, index: Any, data: Any) -> Any:
        return torch.stack([data[0]] * len(data)) if is_lazy(data) else data


class SortsListsOfRows(Delegate):
    def set(self, index: Any, data: Any) -> None:
        super().set(sorted(index) if isinstance(index, list) else index, data)


class LosesTextsOfNoRows(Rewriting):
    def returned(self, index: Any, value: Any) -> Any:
        empty = isinstance(value, TensorDict) and value.shape and not value.shape[0]
        return value.exclude("text") if empty else value


class LosesTexts(Rewriting):
    def returned(self, index: Any, value: Any) -> Any:
        return value.exclude("text") if isinstance(value, TensorDict) else value


class SavesTheFirstRowOnly(Delegate):
    def save(self, path: Any) -> None:
        one = LazyTensorStorage(self.max_size, ndim=self.ndim)
        one.set(0, self.inner.get(0))
        one.dumps(path)


class LoadsNothing(Delegate):
    def load(self, path: Any) -> None:
        pass


class DumpsTheFirstRowOnly(SavesTheFirstRowOnly):
    dumps = SavesTheFirstRowOnly.save


class DropsSignsOfZero(Rewriting):
    def given(self, index: Any, data: Any) -> Any:
        return data.apply(lambda t: t.to(torch.int32).to(t.dtype) if t.is_floating_point() else t)


class WritesNothingWithoutGrad(Delegate):
    def set(self, index: Any, data: Any) -> None:
        if torch.is_grad_enabled():
            super().set(index, data)


class ShiftsSlices(Delegate):
    def get(self, index: Any) -> Any:
        rows = super().get(index)
        return rows.roll(1, 0) if isinstance(index, slice) and isinstance(rows, torch.Tensor) else rows


class AssignsInReverse(Delegate):
    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = data.flip(0) if isinstance(index, range) else data


def dumped(save: str, load: str) -> list[Step]:
    return [write(ALL, PAIR, 3), Step("dump", (0, save)), Step("load", (0, load))]


NOTHING = Step("read", (Index("list"), "grad", "get"))

CASES: list[tuple[Callable[..., Any], Any, list[Step], str]] = [
    (TurnsListsOfItemsRound, PAIR, [write(Index("list", (0, 1, 2)), PAIR, 3, form="list")], "DATA-12"),
    (TakesTheFirstOfALazyStack, PAIR, [write(Index("tensor", (0, 1, 2)), PAIR, 3, form="lazy")], "DATA-10"),
    (TakesTheFirstOfALazyStack, PAIR, [write(ALL, PAIR, 3, form="lazy")], "DATA-10"),
    (SortsListsOfRows, PAIR, [write(Index("list", (2, 1, 0)), PAIR, 3)], "IDX-7"),
    (SortsListsOfRows, PAIR, [write(Index("list", (2, 1, 0)), PAIR, 3, form="list")], "IDX-7"),
    (SortsListsOfRows, PAIR, [write(Index("list", (2, 1, 0)), PAIR, 3, form="lazy")], "IDX-7"),
    (LosesTextsOfNoRows, TEXTS, [write(ALL, TEXTS, 3), NOTHING], "IDX-20"),
    (LosesTexts, TEXTS, [write(ALL, TEXTS, 3)], "DATA-16"),
    (SavesTheFirstRowOnly, PAIR, dumped("save", "loads"), "CKPT-1"),
    (LoadsNothing, PAIR, [*dumped("dumps", "load")[:2], write(at(1), PAIR), Step("load", (0, "load"))], "CKPT-1"),
    (DumpsTheFirstRowOnly, PAIR, dumped("dumps", "loads"), "CKPT-6"),
    (DumpsTheFirstRowOnly, PAIR, dumped("dump", "load"), "CKPT-6"),
    (DropsSignsOfZero, PAIR, [write(ALL, PAIR, 3, bits=True)], "DTYPE-4"),
    (WritesNothingWithoutGrad, PAIR, [Step("write", (ALL, Batch(PAIR, (3,)), "no_grad"))], "SET-5"),
    (AssignsInReverse, Leaf(), [write(ALL, Leaf(), 3), Step("assign", (ALL, Batch(Leaf(), (3,), 5)))], "IDX-6"),
    (ShiftsSlices, Leaf(), [write(ALL, Leaf(), 3)], "IDX-5"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("storage", "node", "steps", "requirement"),
    CASES,
    ids=[f"{storage.__name__}-{number}" for number, (storage, *_) in enumerate(CASES)],
)
def test_blame(storage: Any, node: Any, steps: list[Step], requirement: str, tmp_path: Path):
    backend = Backend("faulty", storage, features=frozenset({"non_tensor"}))
    with pytest.raises(Found) as found:
        play(Lab(backend, Recorder(), tmp_path), Setup(4, node=node), *steps)
    assert found.value.requirement == requirement, found.value.message


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_same_programs_do_well_on_the_reference(number: int, tmp_path: Path):
    _, node, steps, _ = CASES[number]
    backend = Backend("sound", LazyTensorStorage, features=frozenset({"non_tensor"}))
    play(Lab(backend, Recorder(), tmp_path), Setup(4, node=node), *steps)
