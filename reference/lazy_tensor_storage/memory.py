"""The memory behind a storage: allocate, read, write.

A leaf is one block of ``[rows, *T, *feature_shape]``, allocated at the first write and never moved. What is simple and
on the CPU goes through `fast`; this is the plain way, for all kinds of data, indices and devices.
"""

from __future__ import annotations

import bisect
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import dtypes, fast
from .indexing import Numbers, Selection, element_numbers
from .nodes import Column
from .schema import Schema

_ALIGNMENT = 64  # bytes, that of torch's own allocations; NumPy promises less than complex128 needs


class OutOfMemory(MemoryError, RuntimeError):
    """Rows could not be allocated: Python's exception for it, and the one that torch raises."""


class Memory:
    """The rows of one storage, and which of them may hold bytes that are not zero.

    Attributes:
        leaves: one tensor of ``[rows, *T, *feature_shape]`` for each leaf of the schema.
        values: for each value that is not a tensor, the values by the number of their element.
        touched: no row at or above this one was ever written.
        fast: what writes and reads plain tensors, if anything does.
    """

    def __init__(self, schema: Schema, rows: int, device: torch.device) -> None:
        """Allocates ``rows`` rows that read as zero.

        Raises:
            MemoryError: there is not enough of it on the CPU.
            RuntimeError: there is not enough of it on ``device``.

        Implements: LAZY-1, LAZY-5, DEV-13, DEV-14.
        """
        self.rows = rows
        self.device = device
        self.trailing = schema.trailing
        self.touched = 0
        self.values: list[dict[int, Any]] = [{} for _ in schema.values]
        kinds = [
            (torch.Size((rows, *schema.trailing, *node.feature_shape)), node.dtype) for node in schema.leaves
        ]
        if device.type == "cpu":
            self.leaves = _zeros_on_cpu(kinds)
        else:
            self.leaves = [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype in kinds]
        cells = rows * schema.trailing.numel()
        self._elements = [
            leaf.view(cells, *node.feature_shape) if schema.trailing else leaf
            for leaf, node in zip(self.leaves, schema.leaves, strict=True)
        ]
        self.fast: fast.PlainLeaves | None = None
        # NumPy counts the bytes of an item in 31 bits.
        if fast.ENABLED and device.type == "cpu" and all(leaf.nbytes // rows < 2**31 for leaf in self.leaves):
            elements = self._elements if schema.trailing else self.leaves
            self.fast = fast.PlainLeaves(schema.root, schema.leaves, self.leaves, elements)
        extents = sorted(
            (leaf.data_ptr(), leaf.data_ptr() + leaf.numel() * leaf.element_size()) for leaf in self.leaves
        )
        # Leaves without bytes may have any address.
        self._starts = [start for start, end in extents if start < end]
        self._ends = [end for start, end in extents if start < end]

    # Reading ---------------------------------------------------------------------------------------------------------

    def read(self, selection: Selection) -> list[Tensor]:
        """What ``selection`` addresses of each leaf, ``[*selection.shape, *feature_shape]``.

        A basic index gives views, detached so that no operation on them can make the storage part of a graph; any
        other index gives copies.

        Implements: GET-2, GET-5, SET-4.
        """
        window = selection.window
        if window is not None:
            if selection.basic:
                return [leaf[window].detach() for leaf in self.leaves]
            if self.fast is not None and type(window) is slice:
                return self.fast.clone(window)
            return [leaf[window].clone() for leaf in self.leaves]
        numbers = selection.numbers
        assert numbers is not None
        if self.fast is not None and not isinstance(numbers, Tensor):
            found = self.fast.gather(numbers, whole_rows=selection.whole_rows)
        else:
            on_device = torch.as_tensor(numbers, device=self.device)
            source = self.leaves if selection.whole_rows else self._elements
            found = [_gather(leaf, on_device) for leaf in source]
        dimensions = len(self.trailing) + 1 if selection.whole_rows else 1
        if len(selection.shape) == dimensions:
            return found
        return [part.view(selection.shape + part.shape[dimensions:]) for part in found]

    def read_values(self, selection: Selection) -> list[Column]:
        """The values that are not tensors, one for each element addressed; ``None`` where none was written."""
        if not any(self.values):
            return [None] * len(self.values)
        numbers = element_numbers(selection, self.trailing).tolist()
        return [[held.get(number) for number in numbers] if held else None for held in self.values]

    # Writing ---------------------------------------------------------------------------------------------------------

    def write_plain(self, selection: Selection, sources: fast.Sources, readable: int) -> None:
        """As `write`, for what `fast` has passed."""
        assert self.fast is not None
        if readable < self.touched or selection.top > self.touched:
            self._reach(selection, readable)
        window = selection.window
        if type(window) is int:
            self.fast.copy(window, 1, sources)
        elif type(window) is slice and window.step == 1:
            self.fast.copy(window.start, window.stop - window.start, sources)
        elif window is not None:
            for leaf, source in zip(self.leaves, sources.leaves, strict=True):
                leaf[window].copy_(source)
        elif selection.wraps:
            before = selection.wraps
            self.fast.copy_around(selection.top - before, before, selection.last + 1, sources)
        else:
            self.fast.scatter(_on_cpu(selection), sources.leaves, whole_rows=selection.whole_rows)

    def prepare(self, selection: Selection, sources: list[Tensor]) -> tuple[Selection, list[Tensor]]:
        """Everything about a write that may still fail, or that the write itself would disturb.

        Copies sources and indices that lie in this memory, brings what is scattered to the device, and settles which
        item wins where an index names a row several times: torch leaves that open, per leaf, on an accelerator.

        Raises:
            RuntimeError: out of memory on the device.

        Implements: SET-3, SET-6, SET-13, SET-14, SET-18, DEV-10, DEV-11, DEV-12.
        """
        sources = [source.clone() if self._holds(source) else source for source in sources]
        if selection.numbers is None or self.device.type == "meta":
            return selection, sources
        if self.fast is not None:
            return selection, [_plain_bytes(source) for source in sources]
        return self._deduplicated(selection, sources)

    def write(self, selection: Selection, sources: list[Tensor], readable: int) -> None:
        """Write sources that `prepare` returned, and zero the rows that come below the length unwritten.

        Args:
            selection: rows or elements.
            sources: ``[*selection.shape, *feature_shape]`` for each leaf.
            readable: the rows that could be read before this write.

        Implements: SET-1, SET-2, LAZY-4, DTYPE-4, DTYPE-5.
        """
        self._reach(selection, readable)
        window = selection.window
        if window is not None:
            for leaf, source in zip(self.leaves, sources, strict=True):
                leaf[window].copy_(source)
        elif self.device.type == "meta":
            return
        elif self.fast is not None:
            self.fast.scatter(_on_cpu(selection), sources, whole_rows=selection.whole_rows)
        else:
            assert isinstance(selection.numbers, Tensor)
            targets = self.leaves if selection.whole_rows else self._elements
            for leaf, source in zip(targets, sources, strict=True):
                _scatter(leaf, selection.numbers, source)

    def write_values(self, selection: Selection, kept: list[Column]) -> None:
        """Keep the values that are not tensors, one for each element addressed."""
        if not any(self.values) and all(given is None for given in kept):
            return
        numbers = element_numbers(selection, self.trailing).tolist()
        for held, given in zip(self.values, kept, strict=True):
            if given is not None:
                held.update(zip(numbers, given, strict=True))
            elif held:
                for number in numbers:
                    held.pop(number, None)

    def forget_values(self, readable: int) -> None:
        """Drop the values of rows that can no longer be read."""
        first = readable * self.trailing.numel()
        for held in self.values:
            for number in [number for number in held if number >= first]:
                del held[number]

    def _reach(self, selection: Selection, readable: int) -> None:
        """Before a write: zeroes for rows that come below the length unwritten."""
        if readable < self.touched:
            self._zero_gap(selection, readable)
        self.touched = max(self.touched, selection.top)

    def _zero_gap(self, selection: Selection, readable: int) -> None:
        stop = min(selection.top, self.touched)
        first = selection.window if selection.whole_rows else None
        if isinstance(first, int):
            stop = min(stop, first)
        elif isinstance(first, slice) and first.step in (None, 1):
            stop = min(stop, first.start or 0)
        if readable < stop:
            for leaf in self.leaves:
                leaf[readable:stop].zero_()

    def _deduplicated(self, selection: Selection, sources: list[Tensor]) -> tuple[Selection, list[Tensor]]:
        numbers = _on_cpu(selection)
        lead = (
            torch.Size((numbers.size, *self.trailing))
            if selection.whole_rows
            else torch.Size((numbers.size,))
        )
        rank = len(selection.shape)
        flat = [source.reshape(lead + source.shape[rank:]).to(self.device) for source in sources]
        ordered = np.sort(numbers)
        if (ordered[1:] == ordered[:-1]).any():
            unique, from_the_end = np.unique(numbers[::-1], return_index=True)
            last = torch.from_numpy(numbers.size - 1 - from_the_end).to(self.device)
            flat = [_gather(source, last) for source in flat]
            numbers = unique
        flat = [_aligned(source) for source in flat]
        on_device = torch.from_numpy(np.ascontiguousarray(numbers)).to(self.device, copy=True)
        return selection._replace(numbers=on_device), flat

    def _holds(self, tensor: Tensor) -> bool:
        address = tensor.data_ptr()
        place = bisect.bisect_right(self._starts, address) - 1
        return place >= 0 and address < self._ends[place] and tensor.device == self.device


def tight(leaf: Tensor) -> Tensor:
    """``leaf`` over memory that ends where it ends: ``torch.save`` writes all of what a tensor is a view of.

    On the CPU it is the same memory, elsewhere a copy.
    """
    if leaf.device.type != "cpu" or not leaf.numel():
        return leaf.clone()
    block = leaf.reshape(-1).view(torch.uint8).numpy()
    return torch.from_numpy(block).view(leaf.dtype).view(leaf.shape)


def _zeros_on_cpu(kinds: list[tuple[torch.Size, torch.dtype]]) -> list[Tensor]:
    """Leaves of zeros in one block, so that one comparison tells whether an address lies in any of them."""
    sizes = [shape.numel() * dtype.itemsize for shape, dtype in kinds]
    starts = [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    try:
        # NumPy asks the system for pages that are zero when they are first touched; torch.zeros touches all of them.
        block = np.zeros(starts[-1] + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        shapes = ", ".join(str(list(shape)) for shape, _ in kinds)
        raise OutOfMemory(f"cannot allocate {starts[-1]} bytes for leaves of {shapes}.") from None
    block = block[-block.ctypes.data % _ALIGNMENT :]
    return [
        torch.from_numpy(block[start : start + size]).view(dtype).view(shape)
        if size
        else torch.empty(shape, dtype=dtype, device="cpu")
        for start, size, (shape, dtype) in zip(starts, sizes, kinds, strict=False)
    ]


def _on_cpu(selection: Selection) -> Numbers:
    numbers = selection.numbers
    assert numbers is not None
    return numbers.cpu().numpy() if isinstance(numbers, Tensor) else numbers


def _plain_bytes(source: Tensor) -> Tensor:
    """``source`` on the CPU, dense, with no conjugation or negation pending."""
    if source.is_neg() or source.is_conj():
        source = source.resolve_neg().resolve_conj()
    return source.cpu().contiguous()


def _flat(dense: Tensor) -> Tensor:
    """One dimension of stride 1: torch calls a dimension of one element contiguous whatever its stride is."""
    flat = dense.reshape(-1)
    return flat if flat.numel() != 1 else flat.as_strided((1,), (1,))


def _gather(leaf: Tensor, numbers: Tensor) -> Tensor:
    # index_select is the quickest read that torch has (2.0 us, leaf[numbers] takes 3.5), but knows no float8.
    if leaf.dtype in dtypes.FLOAT8:
        return leaf.view(torch.uint8).index_select(0, numbers).view(leaf.dtype)
    return leaf.index_select(0, numbers)


def _aligned(source: Tensor) -> Tensor:
    """``source`` dense, and at an address from which eight bytes can be read as one word."""
    source = source.contiguous()
    return source if source.storage_offset() * source.element_size() % 8 == 0 else source.clone()


def _scatter(leaf: Tensor, numbers: Tensor, source: Tensor) -> None:
    """Write rows that are named once each."""
    if not leaf.numel():
        return
    word = _word(leaf)
    if word is not None:
        # Single bytes crawl through index_copy_: 500 us for 256 frames of 84x84, 72 us as words of eight.
        leaf = leaf.view(leaf.shape[0], -1).view(word)
        row = source.numel() // source.shape[0]
        source = _flat(source).view(source.shape[0], row).view(word)
    leaf.index_copy_(0, numbers, source)


def _word(leaf: Tensor) -> torch.dtype | None:
    if leaf.element_size() > 2:
        return None
    row = leaf[0].numel() * leaf.element_size()
    for word in (torch.int64, torch.int32, torch.int16, torch.uint8):
        if row % word.itemsize == 0 and leaf.data_ptr() % word.itemsize == 0:
            return word
    return None
