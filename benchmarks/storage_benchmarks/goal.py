"""A claim of speed: a ratio of two medians of one run, and its bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A ratio and its bound.

    Attributes:
        claim: as a sentence.
        ratio: as measured.
        bound: at most this, or at least where ``least``.
    """

    claim: str
    ratio: float
    bound: float
    least: bool

    @property
    def met(self) -> bool:
        return self.ratio >= self.bound if self.least else self.ratio <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.least else "<="
        return f"{'pass' if self.met else 'FAIL'}  {self.ratio:7.2f} {sign} {self.bound:<5g} {self.claim}"


def at_most(claim: str, ours: float, others: float, bound: float) -> Goal:
    return Goal(claim, ours / others, bound, least=False)


def at_least(claim: str, ours: float, others: float, bound: float) -> Goal:
    """How many times quicker ``ours`` is."""
    return Goal(claim, others / ours, bound, least=True)
