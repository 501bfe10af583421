"""Who holds how much memory of which ordinal."""

from __future__ import annotations

import weakref
from collections import Counter

import torch

__all__ = ["MEMORY", "Ledger"]

MEMORY = 1 << 30
"""Bytes of each ordinal, unless a test sets another limit."""


class Ledger:
    """The memory of one ordinal: each allocation counts once, from its first tensor to the end of its last one."""

    def __init__(self) -> None:
        self.allocated = 0
        self.peak = 0
        self.allocations = 0
        self.limit = MEMORY
        self._holders: Counter[int] = Counter()

    def demand(self, nbytes: int) -> None:
        """Raises where `nbytes` more bytes would be too many.

        Raises:
            torch.OutOfMemoryError: they would exceed the limit.
        """
        if self.allocated + nbytes > self.limit:
            raise torch.OutOfMemoryError(
                f"fake out of memory: tried to allocate {nbytes} bytes, {self.limit - self.allocated} of "
                f"{self.limit} are free"
            )

    def hold(self, tensor: torch.Tensor) -> None:
        """Counts the memory of a CPU tensor as long as it, or a view of it that was counted too, is alive.

        Raises:
            torch.OutOfMemoryError: it would exceed the limit.
        """
        store = tensor.untyped_storage()
        key, nbytes = store._cdata, store.nbytes()
        if not self._holders[key]:
            self.demand(nbytes)
            self.allocated += nbytes
            self.peak = max(self.peak, self.allocated)
            self.allocations += nbytes > 0
        self._holders[key] += 1
        weakref.finalize(tensor, self._release, key, nbytes).atexit = False

    def _release(self, key: int, nbytes: int) -> None:
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self.allocated -= nbytes
