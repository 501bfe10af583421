"""How a check is written down: a function of a lab and drawn arguments, and the requirements that it evaluates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

__all__ = ["CHECKS", "Check", "check"]

Arguments = dict[str, st.SearchStrategy[Any]]


@dataclass(frozen=True)
class Check:
    """One check of the suite.

    Attributes:
        name: its function's name, unique.
        requirements: what it evaluates; it runs when one of them is selected and applies.
        function: called with a lab and the arguments drawn.
        arguments: a function of the backend's features that gives strategies by argument name.
        examples: how many examples the default profile draws; 1 where nothing is drawn.
        poisoned: whether uninitialised memory is filled with a pattern meanwhile.
    """

    name: str
    requirements: tuple[str, ...]
    function: Callable[..., None]
    arguments: Callable[[frozenset[str]], Arguments]
    examples: int
    poisoned: bool


CHECKS: dict[str, Check] = {}
"""All checks, by name."""


def check(
    *requirements: str,
    examples: int = 20,
    poisoned: bool = True,
    given: Callable[[frozenset[str]], Arguments] | None = None,
    **strategies: st.SearchStrategy[Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a check of `requirements`.

    Args:
        requirements: ids; the function evaluates each under `lab.checking(id)` or `lab.refused(id, ...)`.
        examples: examples in the default profile.
        poisoned: whether uninitialised memory is poisoned.
        given: strategies that depend on the features that the backend claims.
        strategies: strategies by argument name.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        name = function.__name__
        if name in CHECKS:
            raise ValueError(f"two checks are called {name}")
        drawn = bool(strategies or given)

        def arguments(features: frozenset[str]) -> Arguments:
            return {**strategies, **(given(features) if given else {})}

        CHECKS[name] = Check(name, requirements, function, arguments, examples if drawn else 1, poisoned)
        return function

    return register
