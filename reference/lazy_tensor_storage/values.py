"""Values that are not tensors: one Python object for each element, in and out of tensordict's wrappers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack
from torch import Tensor


class Several(list[Any]):
    """The values of one element whose batch size goes on after the dimensions that count, nested by dimension."""


def own(value: Any) -> Any:
    """A copy of the mutable parts that Python, NumPy and torch bring along; other objects are kept as they are.

    A deep copy of any object would not do: many are equal to themselves only.

    Implements: SET-3 and GET-6 for values that are not tensors.
    """
    kind = type(value)
    if kind in (list, Several, tuple, set):
        return kind(own(entry) for entry in value)
    if kind is dict:
        return {key: own(entry) for key, entry in value.items()}
    if kind is bytearray:
        return bytearray(value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list):  # tensordict's LinkedList writes back into the TensorDict it came from
        return [own(entry) for entry in value]
    return value


def unwrap(wrapped: Any, dimensions: int) -> list[Any]:
    """The values of a ``NonTensorData`` or ``NonTensorStack`` along its first dimensions, element by element."""
    if not dimensions:
        return [_value(wrapped)]
    if isinstance(wrapped, LazyStackedTensorDict):
        parts = wrapped.tensordicts if wrapped.stack_dim == 0 else wrapped.unbind(0)
        return [value for part in parts for value in unwrap(part, dimensions - 1)]
    return [own(wrapped.data)] * torch.Size(wrapped.batch_size[:dimensions]).numel()


def _value(wrapped: Any) -> Any:
    if isinstance(wrapped, LazyStackedTensorDict):
        parts = wrapped.tensordicts if wrapped.stack_dim == 0 else wrapped.unbind(0)
        return Several(_value(part) for part in parts)
    return own(wrapped.data)


def wrap(
    values: list[Any], shape: torch.Size, feature_shape: torch.Size, device: torch.device, uniform_from: int
) -> Any:
    """The inverse of `unwrap`, with a batch size of ``[*shape, *feature_shape]``.

    Args:
        values: one for each element of ``shape``.
        shape: the dimensions of what was read.
        feature_shape: the dimensions of the batch size after those.
        device: the device that the wrappers name.
        uniform_from: from this dimension on equal values are given as one, as they were when they were written.
    """
    if not shape:
        return _wrapped(values[0], feature_shape, device)
    if not values:
        return NonTensorData(data=[], batch_size=shape + feature_shape, device=device)
    if (
        uniform_from <= 0
        and all(_same(value, values[0]) for value in values)
        and type(values[0]) is not Several
    ):
        return NonTensorData(data=own(values[0]), batch_size=shape + feature_shape, device=device)
    size = len(values) // shape[0]
    return _stack(
        wrap(values[start : start + size], shape[1:], feature_shape, device, uniform_from - 1)
        for start in range(0, len(values), size)
    )


def _wrapped(value: Any, feature_shape: torch.Size, device: torch.device) -> Any:
    if type(value) is Several:
        if not value:
            return NonTensorData(data=[], batch_size=feature_shape, device=device)
        return _stack(_wrapped(entry, feature_shape[1:], device) for entry in value)
    return NonTensorData(data=own(value), batch_size=feature_shape, device=device)


def _stack(parts: Iterable[Any]) -> NonTensorStack:
    return NonTensorStack.lazy_stack(list(parts))


def _same(one: Any, other: Any) -> bool:
    return one is other or (
        type(one) is type(other) and type(one) in (str, int, float, bytes) and one == other
    )
