"""TorchRL's two lazy storages, which are imported when the first one is made."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage_conformance.backend import Backend
from storage_conformance.backends.distributions import required_version

__all__ = ["lazy_memmap_storage", "lazy_tensor_storage"]

# What the documentation of TorchRL promises; `last_row`, `clear` and `detach` stand nowhere in it.
_DOCUMENTED = frozenset({"pytree", "non_tensor", "state_dict", "pickle"})

# Documented nowhere either; but both are memory that a fork takes along, and collectors fork.
_CLAIMED = _DOCUMENTED | {"fork"}

# Memory maps hold tensors: of values that are not tensors they keep those of the first row, for all rows (0.14.1).
_MAPPED = _CLAIMED - {"non_tensor"}

_MAKE_MAPPED = """\
from tempfile import mkdtemp

from torchrl.data import LazyMemmapStorage


def make(*args, **keywords):
    return LazyMemmapStorage(*args, scratch_dir=mkdtemp(), **keywords)
"""


def lazy_tensor_storage() -> Backend:
    """`torchrl.data.LazyTensorStorage`."""
    return Backend(
        "torchrl",
        _make,
        _CLAIMED,
        deviations="torchrl",
        version=_version("torchrl"),
        context=_quiet,
        script="from torchrl.data import LazyTensorStorage as make",
    )


def lazy_memmap_storage() -> Backend:
    """`torchrl.data.LazyMemmapStorage`, each storage in a folder of its own."""
    scratch = _Scratch()
    return Backend(
        "torchrl-memmap",
        scratch.make,
        _MAPPED,
        deviations="torchrl-memmap",
        version=_version("torchrl-memmap"),
        context=scratch.opened,
        script=_MAKE_MAPPED,
    )


def _version(backend: str) -> str:
    return required_version(
        "torchrl", package="torchrl", backend=backend, install="pip install 'lazy-tensor-storage[torchrl]'"
    )


def _make(*args: Any, **keywords: Any) -> Any:
    from torchrl.data import LazyTensorStorage

    return LazyTensorStorage(*args, **keywords)


@contextmanager
def _quiet() -> Iterator[None]:
    """TorchRL logs each storage that it initialises, and a campaign makes thousands."""
    import torchrl  # sets the level, so it must come first

    logger = logging.getLogger(torchrl.__name__)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Scratch:
    """Folders for memory maps: each goes with its storage, and all of them at the end."""

    def __init__(self) -> None:
        self._root: Path | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        with (
            _quiet(),
            tempfile.TemporaryDirectory(prefix="torchrl-memmap-", ignore_cleanup_errors=True) as folder,
        ):
            self._root = Path(folder)
            try:
                yield
            finally:
                self._root = None

    def make(self, *args: Any, **keywords: Any) -> Any:
        from torchrl.data import LazyMemmapStorage

        folder = tempfile.mkdtemp(dir=self._root)
        storage = LazyMemmapStorage(*args, scratch_dir=folder, **keywords)
        # A campaign makes thousands of storages: their files must not wait for its end.
        weakref.finalize(storage, shutil.rmtree, folder, ignore_errors=True)
        return storage
