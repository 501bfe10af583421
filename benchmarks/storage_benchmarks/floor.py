"""What torch and NumPy do at best with bare tensors: no checks, no containers, no length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .records import Record, leaves


class Floor:
    """One tensor for each leaf of a record, ``[rows, *feature_shape]``, and the operations on them."""

    def __init__(self, record: Record, rows: int) -> None:
        self._rows = rows
        self.tensors = [torch.ones((rows, *leaf.shape[1:])).to(leaf.dtype) for leaf in leaves(record.make(1))]
        self._arrays = [tensor.numpy() for tensor in self.tensors]
        self._opaque = [array.reshape(rows, -1).view(f"V{array[0].nbytes}")[:, 0] for array in self._arrays]

    def copy(self, rows: slice, given: list[Tensor]) -> None:
        for tensor, leaf in zip(self.tensors, given, strict=True):
            tensor[rows] = leaf

    def copy_twice(self, rows: Tensor, given: list[Tensor]) -> None:
        """Rows that run up to the last one and go on at row 0."""
        before = self._rows - int(rows[0])
        for tensor, leaf in zip(self.tensors, given, strict=True):
            tensor[-before:] = leaf[:before]
            tensor[: len(leaf) - before] = leaf[before:]

    def scatters(self) -> dict[str, Any]:
        return {
            "index_copy_": self._index_copy,
            "index_put_": self._index_put,
            "numpy": self._numpy,
            "numpy, opaque rows": self._numpy_opaque,
        }

    def gathers(self) -> dict[str, Any]:
        return {
            "index_select": lambda rows: [tensor.index_select(0, rows) for tensor in self.tensors],
            "numpy take": lambda rows: [
                torch.from_numpy(array.take(rows.numpy(), 0)) for array in self._arrays
            ],
        }

    def _index_copy(self, rows: Tensor, given: list[Tensor]) -> None:
        for tensor, leaf in zip(self.tensors, given, strict=True):
            tensor.index_copy_(0, rows, leaf)

    def _index_put(self, rows: Tensor, given: list[Tensor]) -> None:
        for tensor, leaf in zip(self.tensors, given, strict=True):
            tensor[rows] = leaf

    def _numpy(self, rows: Tensor, given: list[Tensor]) -> None:
        numbers = rows.numpy()
        for array, leaf in zip(self._arrays, given, strict=True):
            array[numbers] = leaf.numpy()

    def _numpy_opaque(self, rows: Tensor, given: list[Tensor]) -> None:
        numbers = rows.numpy()
        for array, leaf in zip(self._opaque, given, strict=True):
            array[numbers] = leaf.numpy().reshape(-1).view(array.dtype)
