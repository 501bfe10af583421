"""The reference, as one more backend."""

from __future__ import annotations

from typing import Any

from storage_conformance.backend import Backend
from storage_conformance.backends.distributions import required_version
from storage_conformance.requirements import specification

__all__ = ["backend"]


def backend() -> Backend:
    """`lazy_tensor_storage.LazyTensorStorage`, which claims every optional feature that needs no second device."""
    return Backend(
        name="reference",
        factory=_make,
        features=frozenset(specification().features) - {"accelerator"},
        version=required_version(
            "lazy-tensor-storage",
            package="lazy_tensor_storage",
            backend="reference",
            install="pip install lazy-tensor-storage",
        ),
        script="from lazy_tensor_storage import LazyTensorStorage as make",
    )


def _make(*args: Any, **keywords: Any) -> Any:
    from lazy_tensor_storage import LazyTensorStorage

    return LazyTensorStorage(*args, **keywords)
