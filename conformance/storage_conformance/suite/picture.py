"""Everything that can be observed of a storage, as plain values that compare."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass
from tensordict.utils import is_non_tensor

from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised
from storage_conformance.structure import tensor_bytes
from storage_conformance.subject import Subject

__all__ = ["contents", "picture"]

Picture = tuple[tuple[str, Any], ...]


def picture(lab: Lab, storage: Subject) -> Picture:
    """The length first: there are storages in which a look at the shape changes it.

    Raises:
        Raised: an attribute cannot be read.
    """
    found: list[tuple[str, Any]] = [("len", storage.length())]
    found += [(name, storage.attribute(name)) for name in ("max_size", "ndim", "device")]
    if lab.claims("last_row"):
        found.append(("last_row", storage.attribute("last_row")))
    shape = storage.attribute("shape")
    found.append(("shape", None if shape is None else tuple(shape)))
    rows = 0 if shape is None else shape[0]
    found += [(f"row {row}", _read(storage, row)) for row in range(rows + 1)]
    found.append(("all rows", _read(storage, slice(0, rows))))
    return tuple(found)


def _read(storage: Subject, index: Any) -> Any:
    try:
        return contents(storage.peek(index))
    except Raised as raised:
        return f"raises {type(raised.error).__name__}"


def contents(value: Any) -> Any:
    """Containers, shapes, dtypes and bits of what was read."""
    if is_non_tensor(value):
        values = value.tolist()
        return "values", values if isinstance(values, list) else [values]
    if isinstance(value, TensorDictBase) or is_tensorclass(value):
        keys = sorted(map(str, value.keys()))
        return (
            type(value).__name__,
            tuple(value.batch_size),
            [(key, contents(value.get(key))) for key in keys],
        )
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), tensor_bytes(value)
    if isinstance(value, dict):
        return "dict", [(key, contents(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [contents(entry) for entry in value]
    return value
