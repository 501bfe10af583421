"""The arguments of the constructor, checked at once; and the grad modes that a caller may be in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

import torch

from .indexing import row_number

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_COUNT = 2**63 - 1
"""What ``len`` can say, and an int64 index reach."""


def count(name: str, value: int) -> int:
    """``value`` as an ``int`` of at least 1.

    Raises:
        TypeError: it is no integer; a ``bool`` is none.
        ValueError: it is out of range.

    Implements: NEW-3, NEW-4, NEW-5, NEW-6.
    """
    try:
        number = row_number(value)
    except TypeError:
        raise TypeError(f"{name} is an integer of at least 1, not {value!r}.") from None
    if not 1 <= number <= LARGEST_COUNT:
        raise ValueError(f"{name} is an integer from 1 to 2**63 - 1, not {number}.")
    return number


def device_of(device: torch.device | str) -> torch.device | Literal["auto"]:
    """``device`` in the spelling that a tensor there reports.

    Raises:
        TypeError: it is neither a string nor a ``torch.device``.
        RuntimeError: torch does not know it, or has none.

    Implements: DEV-2, DEV-3, DEV-7.
    """
    if not isinstance(device, (str, torch.device)):
        raise TypeError(f"device is a string or a torch.device, not {device!r}.")
    if device == "auto":
        return "auto"
    try:
        return torch.empty(0, device=torch.device(device)).device
    except (
        Exception
    ) as error:  # torch raises what the missing backend meets: AssertionError, ImportError, ...
        reason = str(error).partition(". ")[0]
        raise RuntimeError(f"torch has no device {str(device)!r} here: {reason}") from error


def outside_inference_mode(method: Callable[P, R]) -> Callable[P, R]:
    """Run ``method`` as if the caller were not in inference mode.

    Memory made in inference mode could not be written outside of it, nor what was read there be used in a graph.

    Implements: SET-5.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.is_inference_mode_enabled():
            return method(*args, **kwargs)
        with torch.inference_mode(False):
            return method(*args, **kwargs)

    return call
