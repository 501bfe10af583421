"""Mistakes of the person who starts a run, told in one paragraph instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["ConfigurationError", "suggestion"]


class ConfigurationError(ValueError):
    """A run cannot start as it was asked for; the message says why and what to do."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """`" Did you mean 'torchrl'?"`, or nothing where no known name is close."""
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
