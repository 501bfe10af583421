"""All that one or several runs found out, as the files that are written from it need it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from storage_conformance.report.records import Record
from storage_conformance.report.summary import summarize
from storage_conformance.requirements import Requirement, Specification

__all__ = ["Report", "Run", "UnusableReport"]


class UnusableReport(ValueError):
    """A report that cannot be read or joined; the message names the place and says what to do."""


@dataclass(frozen=True)
class Run:
    """How one backend was checked.

    Attributes:
        backend: its name.
        version: its version, "" if it has none.
        profile: name of the profile.
        seed: of everything drawn.
        device: that data were stored on.
        interrupted: whether the run ended before it was through.
    """

    backend: str
    version: str
    profile: str
    seed: int
    device: str
    interrupted: bool = False

    @property
    def title(self) -> str:
        """Name and version of the backend."""
        return f"{self.backend} {self.version}".strip()


@dataclass(frozen=True)
class Report:
    """Requirements, backends, and what is known about the pairs of them.

    Attributes:
        specification: whose requirements were checked.
        runs: one for each backend, in the order in which they are shown.
        records: at most one for each requirement and backend; none where an item did not run.
    """

    specification: Specification
    runs: tuple[Run, ...]
    records: tuple[Record, ...]

    @cached_property
    def requirements(self) -> list[Requirement]:
        """What is checked, in the order of SPEC.md: everything but a MAY."""
        return [r for r in self.specification.ordered() if r.level != "MAY"]

    @cached_property
    def _by_pair(self) -> dict[tuple[str, str], Record]:
        return {(record.backend, record.requirement): record for record in self.records}

    def record(self, backend: str, requirement: str) -> Record | None:
        """What is known about a pair, None if its item did not run."""
        return self._by_pair.get((backend, requirement))

    def of(self, backend: str) -> list[Record]:
        """The records of one backend, in the order of SPEC.md."""
        found = (self.record(backend, requirement.id) for requirement in self.requirements)
        return [record for record in found if record is not None]

    def conformant(self, run: Run) -> bool:
        """Whether a backend was found to meet every MUST, in a run that was complete."""
        found = self.of(run.backend)
        return bool(found) and not run.interrupted and summarize(found, self.specification).conformant

    def sentence(self, run: Run) -> str:
        """The verdict on a backend in one line."""
        found = self.of(run.backend)
        said = summarize(found, self.specification).sentence if found else f"{run.title}: nothing was run"
        return f"{said} (interrupted)" if run.interrupted else said

    def musts(self, backend: str, chapter: str = "") -> tuple[int, int]:
        """How many MUST are met, and how many apply: all but the unclaimed, those that did not run included."""
        met = applicable = 0
        for requirement in self.requirements:
            if requirement.level == "MUST" and chapter in ("", requirement.chapter):
                record = self.record(backend, requirement.id)
                met += record is not None and record.outcome == "pass"
                applicable += record is None or record.outcome != "not claimed"
        return met, applicable

    def chapters(self) -> Iterable[tuple[str, str, list[Requirement]]]:
        """Prefix, title and requirements of each chapter that has any."""
        for prefix, title in self.specification.chapters.items():
            if found := [requirement for requirement in self.requirements if requirement.chapter == prefix]:
                yield prefix, title, found
