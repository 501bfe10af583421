"""What is known about one requirement on one backend once its item has run.

A record travels as the `user_properties` of pytest's report: that way it crosses from xdist's workers, and reaches
JUnit files, as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from storage_conformance.verdict import Outcome

__all__ = ["Record"]

Property = tuple[str, object]


@dataclass(frozen=True)
class Record:
    """One line of a report.

    Attributes:
        requirement: its id.
        level: MUST or SHOULD.
        chapter: the prefix of the id.
        sentence: the requirement itself.
        spec: version of SPEC.md.
        backend: name of the backend.
        version: version of the backend.
        profile: name of the profile.
        seed: of the run.
        outcome: see `storage_conformance.verdict`.
        failed: whether it fails the run.
        evaluations: how often the checks of the requirement were evaluated.
        reason: why, where the outcome alone does not say it.
        message: expected against actual.
        steps: the shortest program found, one line of Python for each call.
        exception: name of the exception that the backend raised, "" if it raised none.
        shrunk: whether the program went through the shrinker.
        script: the program as a stand-alone Python script.
    """

    requirement: str
    level: str
    chapter: str
    sentence: str
    spec: str
    backend: str
    version: str
    profile: str
    seed: int
    outcome: Outcome = "error"
    failed: bool = True
    evaluations: int = 0
    reason: str = ""
    message: str = ""
    steps: tuple[str, ...] = ()
    exception: str = ""
    shrunk: bool = False
    script: str = ""

    @property
    def title(self) -> str:
        """Name and version of the backend."""
        return f"{self.backend} {self.version}".strip()

    def properties(self) -> list[Property]:
        """The record as properties with values that JSON knows."""
        values = asdict(self) | {"steps": "\n".join(self.steps)}
        return [(name, value) for name, value in values.items() if value != ""]

    @classmethod
    def from_properties(cls, properties: Iterable[Property]) -> Record | None:
        """The record that a report carries, None if the report is of another test."""
        names = {field.name for field in fields(cls)}
        values: dict[str, Any] = {name: value for name, value in properties if name in names}
        if not {"requirement", "backend", "spec", "sentence"} <= set(values):
            return None
        facts: dict[str, Any] = {
            "version": "",
            **values,
            "steps": tuple(str(values.get("steps", "")).splitlines()),
        }
        return cls(**facts)
