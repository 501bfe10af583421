"""Chapter SET: faults with data of other leaves or containers."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing
from storage_conformance.mutants.rewriting import fields_of, is_plain, leafwise
from storage_conformance.structure import tensors
from storage_conformance.tensorclasses import Step, Twin

__all__: list[str] = []


class Merging(Reindexing):
    """Not a mutant itself: makes data fit what the storage holds."""

    def merged(self, data: TensorDictBase, held: TensorDictBase) -> TensorDictBase:
        return data

    def fitted(self, index: Any, data: Any) -> Any:
        if self.fresh or type(data) is not TensorDict:
            return data
        held = self.inner.get(slice(0, 1))
        return self.merged(data, held) if type(held) is TensorDict else data

    def stale(self, index: Any) -> Any:
        """What the rows hold now; None where they cannot be read."""
        try:
            return leafwise(self.inner.get(index), torch.clone)
        except Exception:
            return None


@mutant("SET-10")
class KeepsStaleLeaves(Merging):
    """A leaf that the data lack keeps its value in the rows that are overwritten."""

    def set(self, index: Any, data: Any) -> None:
        old: Any = self.stale(index) if type(data) is TensorDict and not self.fresh else None
        if isinstance(old, TensorDict) and old.batch_size == data.batch_size and data.keys():
            missing = {key: old.get(key) for key in old.keys() if key not in data.keys()}  # noqa: SIM118
            data = data.copy().update(missing) if missing else data
        super().set(index, data)


@mutant("SET-10")
class KeepsStaleNestedLeaves(Merging):
    """A leaf that a nested TensorDict lacks keeps its value in an assignment."""

    def __setitem__(self, index: Any, data: Any) -> None:
        old: Any = self.stale(index) if type(data) is TensorDict and not self.fresh else None
        if isinstance(old, TensorDict) and old.batch_size == data.batch_size:
            data = data.copy()
            for key, entry in list(data.items()):
                held = old.get(key, None)
                if (
                    type(entry) is TensorDict
                    and type(held) is TensorDict
                    and held.batch_size == entry.batch_size
                ):
                    more = {name: held.get(name) for name in held.keys() if name not in entry.keys()}  # noqa: SIM118
                    data.set(key, entry.copy().update(more))
        super().__setitem__(index, data)


@mutant("SET-10")
class WritesZerosForNothing(Merging):
    """Data without any leaf are taken for zeros."""

    def set(self, index: Any, data: Any) -> None:
        old: Any = (
            self.stale(index) if type(data) is TensorDict and not data.keys() and not self.fresh else None
        )
        super().set(index, leafwise(old, torch.zeros_like) if isinstance(old, TensorDict) else data)


@mutant("SET-11")
class DropsNewLeaves(Merging):
    """A new leaf is dropped in `set`."""

    def merged(self, data: TensorDictBase, held: TensorDictBase) -> TensorDictBase:
        known = [key for key in data.keys() if key in held.keys()]  # noqa: SIM118
        return data.select(*known) if set(known) == set(held.keys()) else data

    def set(self, index: Any, data: Any) -> None:
        super().set(index, self.fitted(index, data))


@mutant("SET-11")
class DropsNewLeavesOfLocked(DropsNewLeaves):
    """A new leaf of a locked TensorDict is dropped."""

    def fitted(self, index: Any, data: Any) -> Any:
        return super().fitted(index, data) if isinstance(data, TensorDictBase) and data.is_locked else data


@mutant("SET-11")
class DropsNewNestedLeaves(Merging):
    """A new leaf of a nested TensorDict is dropped in an assignment."""

    def merged(self, data: TensorDictBase, held: TensorDictBase) -> TensorDictBase:
        data = data.copy()
        for key, entry in list(data.items()):
            there = held.get(key, None)
            if (
                type(entry) is TensorDict
                and type(there) is TensorDict
                and set(there.keys()) < set(entry.keys())
            ):
                data.set(key, entry.select(*there.keys()))
        return data

    def __setitem__(self, index: Any, data: Any) -> None:
        super().__setitem__(index, self.fitted(index, data))


@mutant("SET-12")
class FillsLeavesWithATensor(Merging):
    """A tensor that is written to a row of a TensorDict fills every leaf."""

    def set(self, index: Any, data: Any) -> None:
        old = self.stale(index) if type(index) is int and is_plain(data) and not self.fresh else None
        if type(old) is TensorDict and not data.is_meta and not data.is_sparse and not data.is_nested:
            first = data.reshape(-1)[:1]
            data = (
                leafwise(old, lambda leaf: first.expand(leaf.numel()).reshape(leaf.shape))
                if first.numel()
                else data
            )
        super().set(index, data)


@mutant("SET-12")
class TakesTwins(Merging):
    """A tensorclass with the same fields is taken for the one that is there."""

    def set(self, index: Any, data: Any) -> None:
        super().set(
            index, _twin(data) if not self.fresh and isinstance(self.inner.get(slice(0, 1)), Step) else data
        )


def _twin(data: Any) -> Any:
    if not is_tensorclass(data) or type(data) is not Twin:
        return data
    make: Any = Step
    twin: Any = data
    return make(**fields_of(twin), batch_size=twin.batch_size)


@mutant("SET-12")
class TakesNestedTwins(Merging):
    """With `ndim > 1` a tensorclass inside a TensorDict is assigned whatever its type."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if isinstance(data, TensorDict) and self.ndim > 1:
            data = data.copy()
            for key, entry in list(data.items()):
                if is_tensorclass(entry):
                    data.set(key, _twin(entry))
        super().__setitem__(index, data)


@mutant("SET-12")
class UnpacksSingleLeaves(Merging):
    """A TensorDict of one leaf is taken for its tensor."""

    def set(self, index: Any, data: Any) -> None:
        plain = not self.fresh and is_plain(self.inner.get(slice(0, 1)))
        if plain and type(data) is TensorDict and len(tensors(data)) == 1:
            data = tensors(data)[0]
        super().set(index, data)
