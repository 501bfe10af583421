"""What the suite has to know about a storage before it can check it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage_conformance.requirements import specification

__all__ = ["Backend"]


@dataclass(frozen=True)
class Backend:
    """A storage under test.

    Attributes:
        name: what `--conformance=NAME` and the reports call it.
        factory: called as `factory(max_size, device=..., ndim=...)`; gives a fresh storage each time.
        features: the optional features of SPEC.md that it claims; each has to work.
        refuses: the optional features that it refuses; each has to be refused as SPEC.md says.
        deviations: the list of known deviations, a name of a shipped list or the path of a TOML file.
        version: shown in reports.
        context: entered before the first storage is made and left after the last, for a server to start or a folder
            to clean.
        script: Python source that defines `make`, for the scripts of failures, with nothing of this package; by
            default they import the factory by its name.
    """

    name: str
    factory: Callable[..., Any]
    features: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    deviations: str | Path | None = None
    version: str = ""
    context: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)
    script: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", frozenset(self.features))
        object.__setattr__(self, "refuses", frozenset(self.refuses))
        if not callable(self.factory):
            raise TypeError(f"backend {self.name!r}: the factory must be callable, got {self.factory!r}")
        known = specification().features
        if unknown := (self.features | self.refuses) - set(known):
            raise ValueError(
                f"backend {self.name!r}: unknown features {sorted(unknown)}; SPEC.md has {sorted(known)}"
            )
        if both := self.features & self.refuses:
            raise ValueError(f"backend {self.name!r}: {sorted(both)} cannot be both claimed and refused")
