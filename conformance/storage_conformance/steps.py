"""Programs as data: how the storage is made, and what is done with it step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from storage_conformance.structure import Leaf, Node

if TYPE_CHECKING:
    from storage_conformance.trial import Trial

__all__ = ["Setup", "Step"]


@dataclass(frozen=True)
class Setup:
    """How the storage of a program is made, and what it is to hold."""

    size: int
    ndim: int = 1
    trailing: tuple[int, ...] = ()
    node: Node = field(default_factory=Leaf)
    device: str = "cpu"
    listeners: int = 0


@dataclass(frozen=True)
class Step:
    """One method of `Trial` with its arguments."""

    verb: str
    arguments: tuple[Any, ...]

    def perform(self, trial: Trial) -> None:
        getattr(trial, self.verb)(*self.arguments)
