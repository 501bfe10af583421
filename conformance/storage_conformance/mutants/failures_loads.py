"""Chapter ERR: faults of loads that fail half-way."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.altering import Path, leaf_tensors
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.failures import ERRORS
from storage_conformance.mutants.mutant import mutant


@mutant("ERR-3", may="OBS-11 CKPT-24 CKPT-20")
class LoadsClearFirst(Delegate):
    """A load takes the old rows away before it looks at the dump."""

    def loads(self, path: Path) -> None:
        try:
            self.inner.loads(path)
        except (*ERRORS, OSError):
            self.inner.clear()
            raise


@mutant("ERR-3", may="CKPT-24")
class HalfALoadStays(Delegate):
    """A load that fails has overwritten the first leaf, in a full storage."""

    def loads(self, path: Path) -> None:
        try:
            self.inner.loads(path)
        except (*ERRORS, OSError):
            for leaf in leaf_tensors(self.inner)[:1]:
                if len(self.inner) == self.inner.max_size:
                    leaf.zero_()
            raise


@mutant("ERR-3", may="LEN-1")
class FailedLoadsAllocate(Delegate):
    """A load that fails leaves a fresh storage with no rows, which is fresh no more."""

    failed = False

    def loads(self, path: Path) -> None:
        try:
            self.inner.loads(path)
        except (*ERRORS, OSError):
            self.failed = True
            raise

    @property
    def shape(self) -> torch.Size | None:
        return torch.Size([0]) if self.failed and self.inner.shape is None else self.inner.shape


@mutant("ERR-3")
class FailedLoadsMoveTheSeam(Delegate):
    """A load that fails has set the last-written row already, in storages of several dimensions."""

    failed = False

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.failed = False

    def loads(self, path: Path) -> None:
        try:
            self.inner.loads(path)
        except (*ERRORS, OSError):
            self.failed = self.ndim > 1
            raise
        self.failed = False

    @property
    def last_row(self) -> int | None:
        return None if self.failed else self.inner.last_row


@mutant("ERR-4", may="OBS-11")
class StatesClearFirst(Delegate):
    """A load of a state dict takes the old rows away before it looks at the new ones."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        try:
            self.inner.load_state_dict(state)
        except ERRORS:
            self.inner.clear()
            raise


@mutant("ERR-4")
class HalfAStateStays(Delegate):
    """A state dict that fails has overwritten the first leaf, in a full storage."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        try:
            self.inner.load_state_dict(state)
        except ERRORS:
            for leaf in leaf_tensors(self.inner)[:1]:
                if len(self.inner) == self.inner.max_size:
                    leaf.zero_()
            raise


@mutant("ERR-4", may="LEN-1")
class FailedStatesAllocate(Delegate):
    """A state dict that fails leaves a fresh storage with no rows, which is fresh no more."""

    failed = False

    def load_state_dict(self, state: dict[str, Any]) -> None:
        try:
            self.inner.load_state_dict(state)
        except ERRORS:
            self.failed = True
            raise

    @property
    def shape(self) -> torch.Size | None:
        return torch.Size([0]) if self.failed and self.inner.shape is None else self.inner.shape
