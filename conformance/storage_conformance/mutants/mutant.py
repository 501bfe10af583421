"""How a mutant is written down: a faulty storage, and the requirements that have to notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from storage_conformance.backend import Backend
from storage_conformance.requirements import specification

__all__ = ["MUTANTS", "Mutant", "mutant"]

FEATURES = frozenset({"pytree", "non_tensor", "state_dict", "pickle", "last_row", "clear", "detach", "fork"})


@dataclass(frozen=True)
class Mutant:
    """One faulty storage.

    Attributes:
        name: its class's name.
        factory: makes it.
        fires: requirements whose checks have to catch it; the first one is what it was written for.
        may_fire: requirements that may notice as well.
        fault: what is wrong, in a line.
    """

    name: str
    factory: Callable[..., Any]
    fires: tuple[str, ...]
    may_fire: frozenset[str]
    fault: str

    def backend(self) -> Backend:
        return Backend(self.name, self.factory, features=FEATURES)


MUTANTS: dict[str, Mutant] = {}

T = TypeVar("T", bound=Callable[..., Any])


def mutant(*fires: str, may: str = "") -> Callable[[T], T]:
    """Registers a class as a mutant; its docstring says what is wrong.

    Args:
        fires: ids that have to catch it.
        may: ids that may catch it too, separated by blanks.
    """

    def register(factory: T) -> T:
        known = specification().requirements
        if unknown := {*fires, *may.split()} - set(known):
            raise ValueError(f"{factory.__name__}: unknown requirements {sorted(unknown)}")
        if factory.__name__ in MUTANTS:
            raise ValueError(f"two mutants are called {factory.__name__}")
        fault = (factory.__doc__ or "").strip()
        if not fault:
            raise ValueError(f"{factory.__name__} says nowhere what is wrong with it")
        MUTANTS[factory.__name__] = Mutant(factory.__name__, factory, fires, frozenset(may.split()), fault)
        return factory

    return register
