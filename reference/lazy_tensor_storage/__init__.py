"""A small, quick, dependable storage of replay-buffer rows: the reference implementation of SPEC.md."""

from .checkpoint import CheckpointError
from .storage import LazyTensorStorage

__all__ = ["CheckpointError", "LazyTensorStorage", "__version__"]

__version__ = "1.0.0"
