"""What a campaign found out about one requirement: facts that reports print and CI gates on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Failure", "Finding"]


@dataclass(frozen=True)
class Failure:
    """One counterexample.

    Attributes:
        message: expected against actual, in a few lines.
        steps: the shortest program found, one line of Python for each call.
        exception: name of the exception type that the backend raised, "" if it raised none.
        shrunk: whether `steps` went through Hypothesis' shrinker.
        seed: the seed of the run that found it.
        script: the same program as a stand-alone Python script.
    """

    message: str
    steps: tuple[str, ...]
    exception: str = ""
    shrunk: bool = False
    seed: int = 0
    script: str = ""


@dataclass(frozen=True)
class Finding:
    """Evaluations of one requirement on one backend, and the counterexample if there was one."""

    requirement: str
    evaluations: int
    failure: Failure | None = None
