"""Fast paths for leaves in CPU memory: every one declines what it does not know, and `Memory` goes the plain way.

Timings are for one leaf of 256 rows of four float32 out of 20000, on two cores of a server, torch 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_char, c_size_t, c_void_p, cast, memmove
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from . import dtypes
from .indexing import Numbers
from .nodes import Node, TensorDictNode, TensorNode

Array: TypeAlias = np.ndarray[Any, Any]

ENABLED = True
"""Whether storages made from now on use this module. For tests: nothing that can be observed depends on it."""

# As memmove of ctypes, but without a result and without letting other threads run: a sixth less for a short copy.
_MEMMOVE = cast(memmove, c_void_p).value or 0
_move = PYFUNCTYPE(None, c_void_p, c_void_p, c_size_t)(_MEMMOVE)
_move_long = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)(_MEMMOVE)

_LONG = 2**17  # bytes: 3 us, for which other threads should not have to wait
# Bytes of one leaf from where on torch's threads are quicker, where it has any: two threads take as long as one call
# of C for 1 MiB (42 us). With one thread they never are: 9.4 us for 256 KiB where C takes 5.9.
_THREADS_PAY = 2**20
_SELECT_PAYS = (
    2**17
)  # bytes read of one leaf, from where on index_select is as quick as NumPy, and has threads
_FEW = 64  # sizes of batches whose shapes are kept
_NUMPY_KNOWS = dtypes.SUPPORTED - dtypes.FLOAT8 - {torch.bfloat16}
_STAND_INS = {1: torch.uint8, 2: torch.int16}


class Sources(NamedTuple):
    """Leaves of ``[*shape, *feature_shape]`` that are plain, and the address of the first byte of each."""

    leaves: list[Tensor]
    addresses: list[int]


class _Level(NamedTuple):
    """A TensorDict of an item: its fields, each with a level of its own where it is a TensorDict again."""

    tail: torch.Size
    fields: list[tuple[str, _Level | None]]


class PlainLeaves:
    """The leaves of a storage as addresses and as NumPy arrays.

    A tensor is *plain* if its bytes can be taken as they are: dense, of the right dtype and shape, on the CPU, with
    no conjugation or negation pending, and outside the memory of the storage itself.
    """

    def __init__(
        self, root: Node, nodes: list[TensorNode], leaves: list[Tensor], elements: list[Tensor]
    ) -> None:
        """Args: the schema, and its leaves as ``[rows, ...]`` and as ``[elements, ...]``, of items below 2 GiB."""
        self._root = _level(root)
        self._kinds = [(node.feature_shape, node.dtype, node.dtype.is_complex) for node in nodes]
        self._expected: dict[torch.Size, list[tuple[torch.Size, torch.dtype, bool]]] = {}
        self._rows = [_Block(leaf) for leaf in leaves]
        self._elements = self._rows if elements is leaves else [_Block(leaf) for leaf in elements]
        self._targets = [(block.address, block.size) for block in self._rows]
        self._longest = max((block.size for block in self._rows), default=0)
        ends = [(leaf.data_ptr(), leaf.data_ptr() + leaf.nbytes) for leaf in leaves if leaf.nbytes]
        # One comparison instead of one for each leaf; what lies between two leaves is sent the plain way as well.
        self._low, self._high = (
            min((low for low, _ in ends), default=0),
            max((high for _, high in ends), default=0),
        )
        extent: Any = (c_char * (self._high - self._low)).from_address(self._low)
        self._extent: Array = np.frombuffer(extent, np.uint8)

    def open(self, data: object, shape: torch.Size) -> Sources | None:
        """The leaves of an item made of nothing but TensorDicts and plain tensors; ``None`` for any other.

        Structure, shapes and dtypes are those of the schema. One pass instead of `Schema.take` and a loop over what
        it returns: 9 us for a write of five leaves that takes 16, in a loop with other work.
        """
        root = self._root
        if root is None:
            if type(data) is not Tensor or len(self._kinds) != 1:
                return None
            return self.check([data], shape)
        leaves: list[Any] = []
        return self.check(leaves, shape) if _opened(data, root, shape, leaves) else None

    def check(self, given: list[Tensor], shape: torch.Size) -> Sources | None:
        """The leaves of an item, in the order of the schema, if they are plain; ``None`` if one is not.

        Those that require grad are detached in place of the list.
        """
        expected = self._expected.get(shape) or self._expect(shape)
        low, high = self._low, self._high
        addresses: list[int] = []
        try:
            for leaf, (expected_shape, dtype, is_complex) in zip(given, expected, strict=True):
                if (
                    type(leaf) is not Tensor
                    or leaf.shape != expected_shape
                    or leaf.dtype is not dtype
                    or not leaf.is_cpu
                    or not leaf.is_contiguous()
                    or leaf.is_neg()
                    or (is_complex and leaf.is_conj())
                ):
                    return None
                if leaf.requires_grad:
                    given[len(addresses)] = leaf.detach()
                address = leaf.data_ptr()
                if low <= address < high:
                    return None
                addresses.append(address)
        except RuntimeError:  # no memory of its own: sparse, nested, or inside a function transform
            return None
        return Sources(given, addresses)

    def _expect(self, shape: torch.Size) -> list[tuple[torch.Size, torch.dtype, bool]]:
        if len(self._expected) >= _FEW:
            self._expected.clear()
        expected = [
            (shape + feature_shape, dtype, is_complex) for feature_shape, dtype, is_complex in self._kinds
        ]
        self._expected[shape] = expected
        return expected

    def copy(self, first: int, count: int, sources: Sources, *, skip: int = 0) -> None:
        """Copy rows ``skip`` to ``skip + count`` of the sources to rows ``first`` and following.

        0.4 us where ``leaf[first:last].copy_(source)`` takes 1.6 us.
        """
        if count * self._longest < _LONG:
            for (target, size), address in zip(self._targets, sources.addresses, strict=True):
                _move(target + first * size, address + skip * size, count * size)
            return
        threads = torch.get_num_threads() > 1
        for block, leaf, address in zip(self._rows, *sources, strict=True):
            length = count * block.size
            if threads and length >= _THREADS_PAY:
                rows = leaf if count == 1 and leaf.dim() < block.leaf.dim() else leaf[skip : skip + count]
                block.leaf[first : first + count].copy_(rows)
            else:
                _move_long(block.address + first * block.size, address + skip * block.size, length)

    def copy_around(self, first: int, before: int, after: int, sources: Sources) -> None:
        """Copy ``before`` rows to ``first`` and following, and the ``after`` rows that come next to row 0.

        3.1 us for five small leaves, where two calls of `copy` take 6.2.
        """
        if (before + after) * self._longest >= _LONG:
            self.copy(first, before, sources)
            self.copy(0, after, sources, skip=before)
            return
        for (target, size), address in zip(self._targets, sources.addresses, strict=True):
            _move(target + first * size, address, before * size)
            _move(target, address + before * size, after * size)

    def scatter(self, numbers: Numbers, given: Sequence[Tensor], *, whole_rows: bool) -> None:
        """Write plain tensors to the rows, or to the elements, of these numbers; of duplicates the last one wins.

        Rows as opaque blocks of bytes: 1.3 us where ``index_copy_`` takes 2.6, 120 us for 256 frames of 4x84x84 bytes
        where it takes 2800, one path for all dtypes, and duplicates need no search.
        """
        if np.may_share_memory(numbers, self._extent):  # 0.2 us, a copy of 4096 numbers takes 0.7
            numbers = numbers.copy()
        for block, source in zip(self._rows if whole_rows else self._elements, given, strict=True):
            if block.size:
                array = source.numpy() if block.as_dtype is None else _array(source)
                block.opaque[numbers] = array.reshape(-1).view(block.opaque_dtype)

    def gather(self, numbers: Numbers, *, whole_rows: bool) -> list[Tensor]:
        """The rows, or the elements, of these numbers, ``[n, ...]`` for each leaf.

        0.9 us where ``index_select`` takes 2.0 and ``leaf[numbers]`` 3.4.
        """
        blocks = self._rows if whole_rows else self._elements
        # With one thread NumPy is at least as quick at any size: 83 us for 1 MiB of rows of 256 bytes, index_select
        # between 82 and 100.
        if numbers.size * self._longest >= _SELECT_PAYS and torch.get_num_threads() > 1:
            return [block.select(numbers) for block in blocks]
        found: list[Tensor] = []
        for block in blocks:
            part = torch.from_numpy(block.take(numbers, 0))
            found.append(part if block.as_dtype is None else part.view(block.as_dtype))
        return found

    def clone(self, rows: slice) -> list[Tensor]:
        """Copies of rows, ``[n, ...]`` for each leaf: 1.0 us where ``leaf[rows].clone()`` takes 2.5."""
        found: list[Tensor] = []
        for block in self._rows:
            part = torch.from_numpy(block.array[rows].copy())
            found.append(part if block.as_dtype is None else part.view(block.as_dtype))
        return found


class _Block:
    """A leaf of ``[n, ...]`` in CPU memory.

    Attributes:
        leaf: the tensor.
        address: of its first byte.
        size: of one row or element, in bytes.
        array: as a NumPy array; dtypes that NumPy does not know as integers of the same size.
        take: that of ``array``.
        opaque: as ``[n]`` blocks of bytes, which is ``opaque_dtype``.
        as_dtype: the dtype of the tensor where NumPy does not know it.
    """

    __slots__ = ("address", "array", "as_dtype", "leaf", "opaque", "opaque_dtype", "size", "take")

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = leaf
        self.address = leaf.data_ptr()
        self.size = leaf.nbytes // leaf.shape[0]
        self.array = array = _array(leaf)
        self.take = array.take
        self.opaque: Array = (
            array.reshape(-1).view(np.uint8).view(f"V{self.size}") if self.size else np.zeros(0, "V0")
        )
        self.opaque_dtype = self.opaque.dtype
        self.as_dtype = None if leaf.dtype in _NUMPY_KNOWS else leaf.dtype

    def select(self, numbers: Numbers) -> Tensor:
        if self.leaf.dtype in dtypes.FLOAT8:  # which index_select does not know
            return (
                self.leaf.view(torch.uint8).index_select(0, torch.from_numpy(numbers)).view(self.leaf.dtype)
            )
        return self.leaf.index_select(0, torch.from_numpy(numbers))


def _level(node: Node) -> _Level | None:
    """``None`` if there is anything but TensorDicts and tensors below; `_opened` need not know the difference."""
    if not isinstance(node, TensorDictNode):
        return None
    fields: list[tuple[str, _Level | None]] = []
    for key, child in node.fields.items():
        inner = _level(child)
        if inner is None and not isinstance(child, TensorNode):
            return None
        fields.append((key, inner))
    return _Level(node.tail, fields)


def _opened(data: Any, level: _Level, shape: torch.Size, leaves: list[Any]) -> bool:
    """Append the fields of ``data`` to ``leaves``; what they are is left to the caller. False: another structure."""
    tail, fields = level
    if type(data) is not TensorDict or data.batch_size != (shape + tail if tail else shape):
        return False
    try:
        # What items() goes over, which is public but takes twice as long; where it is gone, the plain way is taken.
        given = data._tensordict
        if len(given) != len(fields):
            return False
        for key, inner in fields:
            if inner is None:
                leaves.append(given[key])
            elif not _opened(given[key], inner, shape, leaves):
                return False
    except (AttributeError, KeyError):
        return False
    return True


def _array(tensor: Tensor) -> Array:
    if tensor.dtype in _NUMPY_KNOWS:
        return tensor.numpy()
    return tensor.view(_STAND_INS[tensor.dtype.itemsize]).numpy()
