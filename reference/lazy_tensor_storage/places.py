"""Where in an item something is, and how to say so."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

Path: TypeAlias = tuple[Any, ...]
"""The keys, field names and positions that lead to a leaf; ``()`` is the item itself."""


def describe(path: Path) -> str:
    """Names a place of an item in a message: ``leaf ('next', 'obs')``."""
    return f"leaf {path!r}" if path else "the item"


def kind_of(data: Any) -> str:
    """Names the type of what was given."""
    kind = type(data)
    return "a plain tensor" if kind is Tensor else f"a {kind.__module__}.{kind.__qualname__}"


def wrong_shape(
    path: Path, what: str, shape: torch.Size, lead: torch.Size, feature_shape: torch.Size
) -> ValueError:
    """A shape that is not ``[*lead, *feature_shape]``, the dimensions of the index and those of the storage."""
    if shape[: len(lead)] == lead:
        after = f" after the dimensions {list(lead)} of the index" if lead else ""
        return ValueError(
            f"{describe(path)} has {what} {list(shape[len(lead) :])}{after}, the storage holds {list(feature_shape)}; "
            "nothing was written."
        )
    return ValueError(
        f"{describe(path)} has {what} {list(shape)}, not {[*lead, *feature_shape]}: {list(lead)} for what the index "
        f"addresses, {list(feature_shape)} for what the storage holds; nothing was written."
    )
