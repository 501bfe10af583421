"""Counts over the records of one backend, and the one sentence that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from storage_conformance.report.records import Record
from storage_conformance.requirements import Specification

__all__ = ["Summary", "summarize"]

_COMPLETE_PROFILES = ("default", "thorough")


@dataclass(frozen=True)
class Summary:
    """Counts of requirements; `must_total` leaves out what was not claimed."""

    title: str
    spec: str
    profile: str
    must_passed: int
    must_total: int
    should_passed: int
    failed: int
    deviations: int
    must_deviations: int
    not_exercised: int
    not_claimed: int
    unmet: int
    errors: int
    not_run: int
    evaluations: int

    @property
    def conformant(self) -> bool:
        """Whether every MUST was tested and met, over the whole suite and long enough."""
        return (
            self.must_passed == self.must_total > 0
            and not (self.failed or self.errors or self.not_run)
            and self.profile in _COMPLETE_PROFILES
        )

    @property
    def sentence(self) -> str:
        """The verdict, for example `reference: conformant with SPEC 1.0 (168 MUST, 9 SHOULD, 21,345 evaluations)`."""
        if self.conformant:
            facts = [f"{self.must_passed} MUST", f"{self.should_passed} SHOULD"]
            facts += [f"{self.unmet} SHOULD unmet"] if self.unmet else []
            facts += [f"{self.not_claimed} not claimed"] if self.not_claimed else []
            facts.append(f"{self.evaluations:,} evaluations")
            return f"{self.title}: conformant with SPEC {self.spec} ({', '.join(facts)})"
        counts = [
            (self.failed, "failed"),
            (self.errors, _plural(self.errors, "error")),
            (self.deviations, _plural(self.deviations, "known deviation")),
            (self.not_exercised, "not exercised"),
            (self.not_claimed, "not claimed"),
            (self.not_run, "not run"),
        ]
        facts = [f"{count} {what}" for count, what in counts if count]
        if self.profile not in _COMPLETE_PROFILES:
            facts.append(f"profile {self.profile}")
        if not self.evaluations:
            facts.append("nothing was exercised")
        return (
            f"{self.title}: partial: {', '.join(facts)}, {self.must_passed} of {self.must_total} MUST conform"
        )


def summarize(records: Iterable[Record], specification: Specification) -> Summary:
    """Counts the records of one backend.

    Raises:
        ValueError: there are none.
    """
    counted = list(records)
    if not counted:
        raise ValueError("there are no records to count")
    first = counted[0]
    checked = {r.id for r in specification.requirements.values() if r.level != "MAY"}

    def count(*outcomes: str, level: str = "") -> int:
        return sum(record.outcome in outcomes and level in ("", record.level) for record in counted)

    failed = sum(record.failed and record.outcome not in ("error", "not exercised") for record in counted)
    return Summary(
        title=first.title,
        spec=first.spec,
        profile=first.profile,
        must_passed=count("pass", level="MUST"),
        must_total=sum(record.level == "MUST" and record.outcome != "not claimed" for record in counted),
        should_passed=count("pass", level="SHOULD"),
        failed=failed,
        deviations=count("deviation"),
        must_deviations=count("deviation", level="MUST"),
        not_exercised=count("not exercised"),
        not_claimed=count("not claimed"),
        unmet=count("unmet"),
        errors=count("error"),
        not_run=len(checked - {record.requirement for record in counted}),
        evaluations=sum(record.evaluations for record in counted),
    )


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
