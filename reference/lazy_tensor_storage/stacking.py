"""Lazy stacks made dense, and tensorclasses opened: what tensordict offers no public strict call for."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_tensorclass
from tensordict.utils import is_non_tensor
from torch import Tensor

from .places import Path, describe


def dense(stack: LazyStackedTensorDict, path: Path) -> TensorDict:
    """The dense stack of a lazy one; tensordict would drop the keys that not all parts have.

    Raises:
        ValueError: the parts differ in keys, types, dtypes or shapes.

    Implements: DATA-10, DATA-11.
    """
    parts = list(stack.tensordicts)
    if not parts:
        return TensorDict({}, batch_size=stack.batch_size)
    return _stack(parts, stack.stack_dim, path)


def fields_of(data: Any, path: Path) -> tuple[TensorDictBase, dict[str, Any]]:
    """The TensorDict of a tensorclass, and its fields as they are stored, ``None`` included.

    The two attributes are not public. tensordict's public calls either unwrap values that are not tensors or turn
    nested tensorclasses into TensorDicts; its own functions use these.
    """
    inner = data._tensordict
    if isinstance(inner, LazyStackedTensorDict):
        inner = dense(inner, path)
    fields = dict(inner.items())
    for key, value in data._non_tensordict.items():
        fields.setdefault(key, value)
    return inner, fields


def _stack(parts: list[Any], dim: int, path: Path) -> Any:
    if all(is_non_tensor(part) for part in parts):
        return torch.stack(parts, dim)
    parts = [dense(part, path) if _is_lazy(part) else part for part in parts]
    first = parts[0]
    if len({_container(part) for part in parts}) > 1:
        raise _differ(path, "type", [_container(part).__name__ for part in parts])
    if len({part.shape for part in parts}) > 1:
        raise _differ(path, "shape", [list(part.shape) for part in parts])
    if isinstance(first, Tensor):
        if len({part.dtype for part in parts}) > 1:
            raise _differ(path, "dtype", [part.dtype for part in parts])
        return torch.stack(parts, dim)
    if is_tensorclass(first):
        opened = [fields_of(part, path) for part in parts]
        nones = [{key for key, value in fields.items() if value is None} for _, fields in opened]
        if any(names != nones[0] for names in nones):
            raise _differ(path, "fields that are None", nones)
        return type(first)._from_tensordict(_stack([inner for inner, _ in opened], dim, path))
    fields = [dict(part.items()) for part in parts]
    if any(each.keys() != fields[0].keys() for each in fields):
        raise _differ(path, "keys", [list(each) for each in fields])
    shape = list(first.batch_size)
    shape.insert(dim, len(parts))
    stacked = {key: _stack([each[key] for each in fields], dim, (*path, key)) for key in fields[0]}
    return TensorDict(stacked, batch_size=shape)


def _is_lazy(part: Any) -> bool:
    return isinstance(part, LazyStackedTensorDict) and not is_non_tensor(part)


def _container(part: Any) -> type:
    if isinstance(part, Tensor):
        return Tensor
    return type(part)


def _differ(path: Path, what: str, seen: list[Any]) -> ValueError:
    return ValueError(
        f"{describe(path)}: the items of a lazy stack differ in {what}: {seen}; nothing was written."
    )
