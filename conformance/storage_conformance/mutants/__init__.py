"""Storages with exactly one fault each, as people really err: what the checks must catch."""

from __future__ import annotations

import importlib
import pkgutil

from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import MUTANTS, Mutant, mutant

__all__ = ["MUTANTS", "Delegate", "Mutant", "load_mutants", "mutant"]


def load_mutants() -> dict[str, Mutant]:
    """Imports every module of mutants, and gives all of them by name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return MUTANTS
