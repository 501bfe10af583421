"""The reference with every liberty that SPEC.md leaves, where the reference itself takes the other side.

It refuses what may be refused (negative rows in `set`, NumPy arrays and uint8 tensors as an index, other dtypes, data
in its own memory, deep copies), takes slices with a negative step, reads locked copies with odd strides and the keys in
another order, dumps to a single file, and says "no" in exceptions of its own.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass
from torch.utils._pytree import tree_leaves

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.requirements import specification

FEATURES = frozenset(specification().features) - {"accelerator"}


class Refused(TypeError, ValueError, IndexError):
    """One exception for everything that is not taken."""


class Liberties(LazyTensorStorage):
    """See the module."""

    def set(self, index: Any, data: Any) -> None:
        size = None if self._memory is None else self._memory.rows
        if any(row < 0 for row in _rows(index)):
            raise Refused("rows of a write are counted from the front")
        self._refuse_data(data)
        super().set(_taken(index, size), data)

    def __setitem__(self, index: Any, data: Any) -> None:
        self._refuse_data(data)
        super().__setitem__(_taken(index, self._readable), data)

    def get(self, index: Any) -> Any:
        return _another(super().get(_taken(index, self._readable)))

    def __getitem__(self, index: Any) -> Any:
        return self.get(index)

    def __deepcopy__(self, memo: Any) -> Any:
        raise Refused("copies are not made")

    def dumps(self, path: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            super().dumps(Path(folder) / "dump")
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.partial")
            with tarfile.open(partial, "w") as archive:
                archive.add(Path(folder) / "dump", "dump")
            partial.replace(target)

    def loads(self, path: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with tarfile.open(path) as archive:
                    archive.extractall(folder, filter="data")
            except tarfile.TarError as error:
                raise Refused(f"no dump: {error}") from error
            super().loads(Path(folder) / "dump")

    def _refuse_data(self, data: Any) -> None:
        leaves = [leaf for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor)]
        if self._memory is None or not leaves or len(leaves) != len(self._memory.leaves):
            return
        if {leaf.dtype for leaf in leaves} - {leaf.dtype for leaf in self._memory.leaves}:
            raise Refused("another dtype")
        if any(
            leaf.device.type == "cpu" and self._memory._holds(leaf) for leaf in leaves if not leaf.is_meta
        ):
            raise Refused("data in the memory of the storage")


def _rows(index: Any) -> list[int]:
    entry = index[0] if isinstance(index, tuple) and index else index
    if isinstance(entry, bool | slice):
        return []
    if isinstance(entry, int | np.integer):
        return [int(entry)]
    if isinstance(entry, range):
        return list(entry[:1]) + list(entry[-1:])
    if isinstance(entry, list):
        return [row for row in entry if type(row) is int]
    if isinstance(entry, torch.Tensor) and entry.dtype in (torch.int32, torch.int64) and not entry.is_meta:
        return entry.reshape(-1).tolist()
    return []


def _taken(index: Any, size: int | None) -> Any:
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, np.ndarray) or (isinstance(entry, torch.Tensor) and entry.dtype == torch.uint8):
            raise Refused("no index")
    if isinstance(index, slice) and isinstance(index.step, int) and index.step < 0:
        if size is None:
            raise Refused("a fresh storage does not know its last row")
        return torch.tensor(range(*index.indices(size)), dtype=torch.int64)
    return index


def _another(item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return item.transpose(0, -1).contiguous().transpose(0, -1) if item.ndim > 1 else item.clone()
    if type(item) is TensorDict:
        other = TensorDict(batch_size=item.batch_size, device=item.device)
        for key in reversed(list(item.keys())):
            other.set(key, _another(item.get(key)))
        return other.lock_()
    if isinstance(item, TensorDictBase) or is_tensorclass(item):
        return item.apply(_another).lock_()
    if isinstance(item, dict):
        return type(item)((key, _another(value)) for key, value in item.items())
    if isinstance(item, tuple) and hasattr(item, "_make"):
        return item._make(map(_another, item))
    return type(item)(map(_another, item)) if isinstance(item, list | tuple) else item
