"""Chapter DATA: lazy stacks and lists that are written as something else."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, is_tensorclass

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.rewriting import Rewriting, fields_of, is_lazy, is_plain, nested, rebuilt

__all__: list[str] = []

INDICES = "IDX-5 IDX-6 IDX-7 IDX-8 IDX-10 IDX-11"
"""A stack is written by one of these, and the machine asks about the index first."""


def _stack_dim(data: Any) -> int:
    stack = data._tensordict if is_tensorclass(data) else data
    return int(stack.stack_dim)


@mutant("DATA-10", may=f"{INDICES} DATA-11")
class WritesTheFirstOfALazyStack(Rewriting):
    """Of a lazy stack the first item is written to all rows."""

    def given(self, index: Any, data: Any) -> Any:
        if not is_lazy(data):
            return data
        items = data.unbind(_stack_dim(data))
        return torch.stack([items[0]] * len(items), _stack_dim(data)) if items else data


@mutant("DATA-10", may=INDICES)
class StacksAlongTheRows(Rewriting):
    """A lazy stack along another dimension is taken for one along the rows."""

    def given(self, index: Any, data: Any) -> Any:
        if not is_lazy(data) or _stack_dim(data) == 0:
            return data
        return torch.stack(list(data.unbind(_stack_dim(data))), 0)


@mutant("DATA-10", may=INDICES)
class TurnsLazyStacksRound(Rewriting):
    """Written by a list, a lazy stack is written in reverse."""

    def given(self, index: Any, data: Any) -> Any:
        if not is_lazy(data) or not isinstance(index, list) or _stack_dim(data):
            return data
        return torch.stack(list(data.unbind(0))[::-1], 0)


@mutant("DATA-10", may=INDICES)
class RefusesLazyStacksOfClasses(Rewriting):
    """A lazy stack of tensorclasses is refused."""

    def given(self, index: Any, data: Any) -> Any:
        if is_lazy(data) and is_tensorclass(data):
            raise TypeError("a lazy stack of tensorclasses is not supported")
        return data


@mutant("DATA-11", may="ERR-1 ERR-2")
class KeepsTheCommonKeys(Rewriting):
    """Of a lazy stack of items with different keys the common ones are written."""

    def given(self, index: Any, data: Any) -> Any:
        if not isinstance(data, LazyStackedTensorDict) or is_tensorclass(data):
            return data
        return torch.stack(_alike(data.unbind(0)), 0) if data.stack_dim == 0 and data.batch_size[0] else data


def _alike(items: Any) -> list[Any]:
    """Items reduced to the keys that all of them have, at every level."""
    if not all(nested(item) for item in items):
        return list(items)
    names = [name for name in fields_of(items[0]) if all(name in fields_of(item) for item in items)]
    columns = {name: _alike([fields_of(item)[name] for item in items]) for name in names}
    return [rebuilt(item, {name: columns[name][n] for name in names}) for n, item in enumerate(items)]


@mutant("DATA-11", may="ERR-1 ERR-2")
class PadsLazyStacks(Rewriting):
    """Of a lazy stack of items of different shapes the smaller ones are filled up with zeros."""

    def given(self, index: Any, data: Any) -> Any:
        if not isinstance(data, LazyStackedTensorDict) or is_tensorclass(data) or data.stack_dim:
            return data
        return torch.stack(_padded(list(data.unbind(0))), 0) if data.batch_size[0] else data


def _padded(items: list[Any]) -> list[Any]:
    if all(is_plain(item) for item in items) and len({item.dim() for item in items}) == 1:
        shape = [max(sizes) for sizes in zip(*(item.shape for item in items), strict=True)]
        found = [item.new_zeros(shape) for item in items]
        for target, item in zip(found, items, strict=True):
            target[tuple(slice(0, size) for size in item.shape)] = item
        return found
    if (
        not all(type(item) is TensorDict for item in items)
        or len({frozenset(fields_of(i)) for i in items}) > 1
    ):
        return items
    columns = {name: _padded([fields_of(item)[name] for item in items]) for name in fields_of(items[0])}
    return [
        rebuilt(item, {name: column[n] for name, column in columns.items()}) for n, item in enumerate(items)
    ]


def _stacked(items: list[Any], dim: int = 0) -> Any:
    """A dense batch of alike items of any kind."""
    first = items[0]
    if isinstance(first, dict):
        return {key: _stacked([item[key] for item in items], dim) for key in first}
    if isinstance(first, list | tuple):
        entries = [_stacked([item[n] for item in items], dim) for n in range(len(first))]
        return type(first)(*entries) if hasattr(first, "_fields") else type(first)(entries)
    return torch.stack(items, dim)


@mutant("DATA-12", may=INDICES)
class TurnsListsRound(Rewriting):
    """The items of a list are written in reverse."""

    def given(self, index: Any, data: Any) -> Any:
        return data[::-1] if isinstance(data, list) else data


@mutant("DATA-12", may=INDICES)
class TakesAListOfOneForItsItem(Rewriting):
    """A list of one item is taken for the item."""

    def given(self, index: Any, data: Any) -> Any:
        return (
            data[0] if isinstance(data, list) and len(data) == 1 and isinstance(index, list | range) else data
        )


@mutant("DATA-12", may=INDICES)
class RefusesListsOfClasses(Rewriting):
    """A list of tensorclasses is refused."""

    def given(self, index: Any, data: Any) -> Any:
        if isinstance(data, list) and any(is_tensorclass(item) for item in data):
            raise TypeError("a list of tensorclasses is not supported")
        return data


@mutant("DATA-12", may=INDICES)
class StacksListsTheOtherWay(Rewriting):
    """With `ndim > 1` the items of a list are stacked behind the trailing shape."""

    def given(self, index: Any, data: Any) -> Any:
        rows = isinstance(index, list | range | slice) and isinstance(data, list) and len(data) > 1
        if self.ndim == 1 or not rows or not all(map(is_plain, data)):
            return data
        return torch.stack(data, 1) if len({item.shape for item in data}) == 1 and data[0].dim() else data


@mutant("DATA-13", may="ERR-1 ERR-2")
class KeepsTheCommonKeysOfLists(Rewriting):
    """Of a list of items with different keys the common ones are written."""

    def given(self, index: Any, data: Any) -> Any:
        if isinstance(data, list) and data and all(type(item) is TensorDict for item in data):
            return _alike(data)
        return data


@mutant("DATA-13", may="ERR-1 ERR-2")
class TakesAListForAnItem(Rewriting):
    """For an index of a single item a list of one is taken for the item."""

    def given(self, index: Any, data: Any) -> Any:
        return data[0] if isinstance(index, int) and isinstance(data, list) and len(data) == 1 else data


@mutant("DATA-13", may="ERR-1 ERR-2")
class PutsAnItemTogether(Rewriting):
    """For an index of a single item a list is stacked to one."""

    def given(self, index: Any, data: Any) -> Any:
        single = isinstance(index, int) or (is_plain(index) and index.dim() == 0)
        return _stacked(data) if single and isinstance(data, list) and data else data
