"""Fast paths for leaves in CPU memory: every one declines what it does not know, and `Memory` goes the plain way.

Timings are for one leaf of 256 rows of four float32 out of 20000, on two cores of a server, torch 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import PYFUNCTYPE, c_size_t, c_void_p, cast, memmove
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from . import dtypes
from .indexing import Numbers

Array: TypeAlias = np.ndarray[Any, Any]

ENABLED = True
"""Whether storages made from now on use this module. For tests: nothing that can be observed depends on it."""

# As memmove of ctypes, but without a result and without letting other threads run: a sixth less for a short copy.
_move = PYFUNCTYPE(None, c_void_p, c_void_p, c_size_t)(cast(memmove, c_void_p).value or 0)

_THREADS_PAY = 2**17  # bytes of one leaf, from where on torch's threads are quicker than one call of C
_NUMPY_KNOWS = dtypes.SUPPORTED - dtypes.FLOAT8 - {torch.bfloat16}
_STAND_INS = {1: torch.uint8, 2: torch.int16}


class PlainLeaves:
    """The leaves of a storage as addresses and as NumPy arrays.

    A tensor is *plain* if its bytes can be taken as they are: dense, of the right dtype and shape, on the CPU, with
    no conjugation or negation pending, and outside the memory of the storage itself.
    """

    def __init__(
        self, leaves: list[Tensor], elements: list[Tensor], feature_shapes: list[torch.Size]
    ) -> None:
        """Args: the leaves as ``[rows, ...]`` and as ``[elements, ...]``, of items below 2 GiB."""
        self._dtypes = [leaf.dtype for leaf in leaves]
        self._feature_shapes = feature_shapes
        self._rows = [_Block(leaf) for leaf in leaves]
        self._elements = self._rows if elements is leaves else [_Block(leaf) for leaf in elements]
        ends = [(leaf.data_ptr(), leaf.data_ptr() + leaf.nbytes) for leaf in leaves if leaf.nbytes]
        # One comparison instead of one for each leaf; what lies between two leaves is sent the plain way as well.
        self._low, self._high = (
            min((low for low, _ in ends), default=0),
            max((high for _, high in ends), default=0),
        )
        self._shape: torch.Size | None = None
        self._expected: list[tuple[torch.Size, torch.dtype]] = []

    def addresses(self, given: list[Tensor], shape: torch.Size) -> list[int] | None:
        """Where the bytes of ``given`` are, leaves of ``[*shape, *feature_shape]``; ``None`` if one is not plain.

        Those that require grad are detached in place of the list.
        """
        if shape != self._shape:
            # Batches come in few sizes; the expected shapes of the last one are kept.
            expected = [shape + feature_shape for feature_shape in self._feature_shapes]
            self._expected, self._shape = list(zip(expected, self._dtypes, strict=True)), shape
        found: list[int] = []
        try:
            for leaf, (expected_shape, dtype) in zip(given, self._expected, strict=True):
                if (
                    type(leaf) is not Tensor
                    or leaf.shape != expected_shape
                    or leaf.dtype is not dtype
                    or not leaf.is_cpu
                    or not leaf.is_contiguous()
                    or leaf.is_neg()
                    or (dtype.is_complex and leaf.is_conj())
                ):
                    return None
                if leaf.requires_grad:
                    given[len(found)] = leaf.detach()
                address = leaf.data_ptr()
                if self._low <= address < self._high:
                    return None
                found.append(address)
        except RuntimeError:  # no memory of its own: sparse, nested, or inside a function transform
            return None
        return found

    def copy(
        self, first: int, count: int, given: list[Tensor], addresses: list[int], *, skip: int = 0
    ) -> None:
        """Copy rows ``skip`` to ``skip + count`` of plain tensors to rows ``first`` and following.

        0.4 us where ``leaf[first:last].copy_(source)`` takes 1.6 us.
        """
        for block, source, address in zip(self._rows, given, addresses, strict=True):
            size = count * block.size
            if size < _THREADS_PAY:
                _move(block.address + first * block.size, address + skip * block.size, size)
            else:
                rows = (
                    source if count == 1 and source.dim() < block.leaf.dim() else source[skip : skip + count]
                )
                block.leaf[first : first + count].copy_(rows)

    def scatter(self, numbers: Numbers, given: Sequence[Tensor], *, whole_rows: bool) -> None:
        """Write plain tensors to the rows, or to the elements, of these numbers; of duplicates the last one wins.

        Rows as opaque blocks of bytes: 1.3 us where ``index_copy_`` takes 2.6, 120 us for 256 frames of 4x84x84 bytes
        where it takes 2800, one path for all dtypes, and duplicates need no search.
        """
        numbers = numbers.copy()  # it may be a view of what is about to be written
        for block, source in zip(self._rows if whole_rows else self._elements, given, strict=True):
            if block.size:
                block.opaque[numbers] = _array(source).reshape(-1).view(block.opaque.dtype)

    def gather(self, numbers: Numbers, *, whole_rows: bool) -> list[Tensor]:
        """The rows, or the elements, of these numbers, ``[n, ...]`` for each leaf.

        0.9 us where ``index_select`` takes 2.0 and ``leaf[numbers]`` 3.4.
        """
        blocks = self._rows if whole_rows else self._elements
        return [
            block.take(numbers) if numbers.size * block.size < _THREADS_PAY else block.select(numbers)
            for block in blocks
        ]


class _Block:
    """A leaf of ``[n, ...]`` in CPU memory.

    Attributes:
        leaf: the tensor.
        address: of its first byte.
        size: of one row or element, in bytes.
        array: as a NumPy array; dtypes that NumPy does not know as integers of the same size.
        opaque: as ``[n]`` blocks of bytes.
    """

    __slots__ = ("_as_dtype", "address", "array", "leaf", "opaque", "size")

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = leaf
        self.address = leaf.data_ptr()
        self.size = leaf.nbytes // leaf.shape[0]
        self.array = _array(leaf)
        self.opaque: Array = (
            self.array.reshape(-1).view(np.uint8).view(f"V{self.size}") if self.size else np.zeros(0, "V0")
        )
        self._as_dtype = None if leaf.dtype in _NUMPY_KNOWS else leaf.dtype

    def take(self, numbers: Numbers) -> Tensor:
        found = torch.from_numpy(self.array.take(numbers, 0))
        return found if self._as_dtype is None else found.view(self._as_dtype)

    def select(self, numbers: Numbers) -> Tensor:
        if self.leaf.dtype in dtypes.FLOAT8:  # which index_select does not know
            return (
                self.leaf.view(torch.uint8).index_select(0, torch.from_numpy(numbers)).view(self.leaf.dtype)
            )
        return self.leaf.index_select(0, torch.from_numpy(numbers))


def _array(tensor: Tensor) -> Array:
    if tensor.dtype in _NUMPY_KNOWS:
        return tensor.numpy()
    return tensor.view(_STAND_INS[tensor.dtype.itemsize]).numpy()
