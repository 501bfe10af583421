"""Storages that change data on their way in or out: where most faults of chapters DATA and DTYPE are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_tensorclass
from tensordict.utils import is_non_tensor

from storage_conformance.mutants.delegate import Delegate

__all__ = ["Rewriting", "fields_of", "is_lazy", "is_plain", "leafwise", "nested", "rebuilt"]

Change = Callable[[Any], Any]


class Rewriting(Delegate):
    """Not a mutant itself: it stores what `given` makes of the data, and gives what `returned` makes of the rows."""

    def given(self, index: Any, data: Any) -> Any:
        return data

    def returned(self, index: Any, value: Any) -> Any:
        return value

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, self.given(index, data))

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = self.given(index, data)

    def get(self, index: Any) -> Any:
        return self.returned(index, self.inner.get(index))

    def __iter__(self) -> Iterator[Any]:
        return (self.get(row) for row in range(self.inner.shape[0] if self.inner.shape else 0))

    @property
    def example(self) -> Any:
        """A batch of no rows; None while fresh."""
        return None if self.inner.shape is None else self.inner.get(slice(0, 0))


def is_plain(value: Any) -> bool:
    """Whether it is a tensor and no container."""
    return (
        isinstance(value, torch.Tensor)
        and not isinstance(value, TensorDictBase)
        and not is_tensorclass(value)
    )


def is_lazy(data: Any) -> bool:
    """Whether it is a lazy stack, of TensorDicts or of tensorclasses."""
    inner = data._tensordict if is_tensorclass(data) and not is_non_tensor(data) else data
    return isinstance(inner, LazyStackedTensorDict) and not is_non_tensor(data)


def fields_of(data: Any) -> dict[str, Any]:
    """The entries of a TensorDict or of a tensorclass."""
    if is_tensorclass(data):
        return dict.fromkeys(data.__dataclass_fields__) | fields_of(data._tensordict)
    return {str(key): data.get(key) for key in data.keys()}  # noqa: SIM118  a TensorDict iterates over rows


def rebuilt(data: Any, fields: dict[str, Any]) -> Any:
    """A container like `data` with other entries."""
    present = {name: entry for name, entry in fields.items() if entry is not None}
    body = TensorDict(present, batch_size=data.batch_size, device=data.device)
    return type(data)._from_tensordict(body) if is_tensorclass(data) else body


def nested(value: Any) -> bool:
    """Whether it is a TensorDict or a tensorclass of tensors."""
    return (isinstance(value, TensorDictBase) or is_tensorclass(value)) and not is_non_tensor(value)


def leafwise(data: Any, change: Change) -> Any:
    """The same containers with each tensor changed; lists and lazy stacks item by item."""
    if is_plain(data):
        return change(data)
    if is_lazy(data):
        stack = data._tensordict if is_tensorclass(data) else data
        items = [leafwise(item, change) for item in data.unbind(stack.stack_dim)]
        return LazyStackedTensorDict.lazy_stack(items, stack.stack_dim)
    if nested(data):
        return rebuilt(data, {name: leafwise(entry, change) for name, entry in fields_of(data).items()})
    if isinstance(data, dict):
        return {key: leafwise(entry, change) for key, entry in data.items()}
    if isinstance(data, list | tuple):
        entries = [leafwise(entry, change) for entry in data]
        return type(data)(*entries) if hasattr(data, "_fields") else type(data)(entries)
    return data
