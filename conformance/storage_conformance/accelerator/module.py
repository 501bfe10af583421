"""What becomes `torch.fake`: the questions that `torch.cuda` answers, under the same names."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.backend_registration import _DummyBackendModule

from storage_conformance.accelerator.fake import NAME, ORDINALS
from storage_conformance.accelerator.ledger import MEMORY, Ledger

__all__ = ["LEDGERS", "FakeModule", "resolved"]

LEDGERS = tuple(Ledger() for _ in range(ORDINALS))


def resolved(device: Any) -> torch.device:
    """The device with its ordinal, which is that of the current device, 0, if none is given.

    Raises:
        RuntimeError: there is no such ordinal.
    """
    device = torch.device(NAME, device) if isinstance(device, int) else torch.device(device or NAME)
    if (device.index or 0) >= ORDINALS:
        raise RuntimeError(f"fake error: invalid device ordinal {device.index}, there are {ORDINALS}")
    return torch.device(NAME, device.index or 0)


def _ledger(device: Any) -> Ledger:
    return LEDGERS[resolved(device).index]


class FakeModule(_DummyBackendModule):
    """`torch.fake`."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return ORDINALS

    def current_device(self) -> int:
        return 0

    def synchronize(self, device: Any = None) -> None:
        """Every call is over when it returns."""

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors hold now."""
        return _ledger(device).allocated

    def max_memory_allocated(self, device: Any = None) -> int:
        """The most bytes that tensors held since `reset_peak_memory_stats`."""
        return _ledger(device).peak

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """The peak is what is held now."""
        _ledger(device).peak = _ledger(device).allocated

    def allocation_count(self, device: Any = None) -> int:
        """How often memory was allocated, ever."""
        return _ledger(device).allocations

    def set_memory_limit(self, nbytes: int | None, device: Any = None) -> None:
        """Lets an allocation fail that would bring the bytes held above `nbytes`; None restores the first limit."""
        _ledger(device).limit = MEMORY if nbytes is None else nbytes

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Free bytes and all bytes."""
        ledger = _ledger(device)
        return max(0, ledger.limit - ledger.allocated), ledger.limit

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers are those of the CPU."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]
