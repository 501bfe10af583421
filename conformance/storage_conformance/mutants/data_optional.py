"""Chapter DATA: faults of pytrees, and of values that are not tensors."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, is_tensorclass
from tensordict.utils import is_non_tensor

from storage_conformance.mutants.data import ELSEWHERE
from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.rewriting import Rewriting, fields_of, is_plain, nested, rebuilt

__all__: list[str] = []


def _treewise(value: Any, change: Any) -> Any:
    """The same tree with each list and tuple changed by `change(entries, kind)`."""
    if isinstance(value, dict):
        return {key: _treewise(entry, change) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return change([_treewise(entry, change) for entry in value], type(value))
    return value


def _same(entries: list[Any], kind: type) -> Any:
    return kind(*entries) if hasattr(kind, "_fields") else kind(entries)


@mutant("DATA-14", may=ELSEWHERE)
class ForgetsNamesOfTuples(Rewriting):
    """A named tuple comes back as a tuple."""

    def returned(self, index: Any, value: Any) -> Any:
        return _treewise(
            value, lambda entries, kind: tuple(entries) if hasattr(kind, "_fields") else _same(entries, kind)
        )


@mutant("DATA-14", may=ELSEWHERE)
class TurnsListsIntoTuples(Rewriting):
    """A list in a pytree comes back as a tuple."""

    def returned(self, index: Any, value: Any) -> Any:
        return _treewise(
            value, lambda entries, kind: tuple(entries) if kind is list else _same(entries, kind)
        )


@mutant("DATA-14", may=ELSEWHERE)
class TurnsDictsIntoTensorDicts(Rewriting):
    """A flat dict of tensors, read by a list, comes back as a TensorDict."""

    def returned(self, index: Any, value: Any) -> Any:
        if (
            not isinstance(value, dict)
            or not isinstance(index, list)
            or not all(map(is_plain, value.values()))
        ):
            return value
        return TensorDict(value, batch_size=next(iter(value.values())).shape[: self.ndim])


@mutant("DATA-15", may="ERR-1 ERR-2")
class FillsMissingEntries(Rewriting):
    """An entry that a dict lacks is written as zeros."""

    def given(self, index: Any, data: Any) -> Any:
        held = self.example
        if not isinstance(data, dict) or not isinstance(held, dict) or not set(data) < set(held):
            return data
        lead = next(iter(data.values())).shape if is_plain(next(iter(data.values()))) else None
        if lead is None or not all(map(is_plain, held.values())):
            return data
        missing = {
            k: torch.zeros(*lead, *v.shape[self.ndim :], dtype=v.dtype)
            for k, v in held.items()
            if k not in data
        }
        return {**data, **missing}


@mutant("DATA-15", may="ERR-1 ERR-2 SET-12")
class TakesAnySequence(Rewriting):
    """A tuple, a named tuple and a list of as many entries are the same."""

    def given(self, index: Any, data: Any) -> Any:
        return data if isinstance(data, list) or self.example is None else self._like(data, self.example)

    def _like(self, data: Any, held: Any) -> Any:
        if isinstance(data, dict) and isinstance(held, dict) and set(data) == set(held):
            return {key: self._like(entry, held[key]) for key, entry in data.items()}
        if isinstance(data, list | tuple) and isinstance(held, list | tuple) and len(data) == len(held):
            return _same([self._like(one, other) for one, other in zip(data, held, strict=True)], type(held))
        return data


def _values(data: Any) -> dict[str, Any]:
    """The entries of a batch or of an item that are not tensors."""
    return {name: entry for name, entry in fields_of(data).items() if is_non_tensor(entry)}


class _Valued(Rewriting):
    """Not a mutant itself: changes the values in containers of one kind."""

    tensorclasses = False

    def concerns(self, data: Any) -> bool:
        return nested(data) and is_tensorclass(data) is self.tensorclasses and bool(_values(data))


class _OneForAll(_Valued):
    def given(self, index: Any, data: Any) -> Any:
        if not self.concerns(data) or not data.batch_size or 0 in data.batch_size:
            return data
        found = {}
        for name, entry in _values(data).items():
            flat = entry.tolist()
            while isinstance(flat, list) and entry.batch_size:
                flat = flat[0]
                entry = entry[0]
            found[name] = NonTensorData(flat, batch_size=data.batch_size)
        return rebuilt(data, {**fields_of(data), **found})


@mutant("DATA-16", may="DATA-12")
class GivesAllRowsTheFirstText(_OneForAll):
    """Of a batch of TensorDicts the value of the first row is kept for all."""


@mutant("DATA-17", may="DATA-12")
class GivesAllRecordsTheFirstCaption(_OneForAll):
    """Of a batch of tensorclasses the value of the first row is kept for all."""

    tensorclasses = True


class _Stringly(_Valued):
    def given(self, index: Any, data: Any) -> Any:
        if not self.concerns(data):
            return data
        found = {name: self._strings(entry) for name, entry in _values(data).items()}
        return rebuilt(data, {**fields_of(data), **found})

    def _strings(self, entry: Any) -> Any:
        if isinstance(entry, NonTensorStack):
            return NonTensorStack(*(self._strings(part) for part in entry.unbind(0)))  # pyright: ignore[reportAbstractUsage]
        return NonTensorData(str(entry.data), batch_size=entry.batch_size)


@mutant("DATA-16")
class KeepsValuesAsText(_Stringly):
    """Values in TensorDicts come back as strings."""


@mutant("DATA-17")
class KeepsCaptionsAsText(_Stringly):
    """Values in tensorclasses come back as strings."""

    tensorclasses = True


class _Stale(_Valued):
    def set(self, index: Any, data: Any) -> None:
        row = isinstance(index, int) and self.inner.shape is not None and index < self.inner.shape[0]
        if row and self.concerns(data) and self.concerns(self.inner.get(index)):
            held = _values(self.inner.get(index))
            data = rebuilt(data, {**fields_of(data), **held})
        self.inner.set(index, data)


@mutant("DATA-16", may="SET-1 SET-18")
class KeepsTheFirstText(_Stale):
    """A value in a TensorDict is never overwritten by a single item."""


@mutant("DATA-17", may="SET-1 SET-18")
class KeepsTheFirstCaption(_Stale):
    """A value in a tensorclass is never overwritten by a single item."""

    tensorclasses = True
