"""The hook that this plugin adds to pytest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from storage_conformance.backend import Backend


@pytest.hookspec
def pytest_conformance_backends(config: pytest.Config) -> Iterable[Backend] | None:
    """Registers backends from a conftest.py or a plugin; called only where `--conformance` was given.

    Returns:
        Any number of `storage_conformance.Backend`, each to be asked for by `--conformance=<its name>`.
    """
