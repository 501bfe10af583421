"""`pytest --conformance-list`."""

from __future__ import annotations

import sys

import pytest

from storage_conformance.errors import ConfigurationError
from storage_conformance.plan import hooked_backends
from storage_conformance.registry import Registration, registrations

__all__ = ["print_backends"]


def print_backends(config: pytest.Config) -> None:
    """Writes the registered backends with version, origin and claimed features to the standard output."""
    try:
        known = registrations(hooked_backends(config))
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None
    rows = [_row(registration) for found in known.values() for registration in found]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join([*cells, row[3]]).rstrip() + "\n")


def _row(registration: Registration) -> tuple[str, str, str, str]:
    try:
        backend = registration.build()
    except ConfigurationError as error:
        return registration.name, "", registration.origin, f"not available: {error}"
    return (
        backend.name,
        backend.version,
        registration.origin,
        ", ".join(sorted(backend.features)) or "no features",
    )
