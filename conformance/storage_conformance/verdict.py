"""From a finding to an outcome: what a requirement's item says, and whether it fails the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from storage_conformance.deviations import Deviation
from storage_conformance.finding import Finding
from storage_conformance.requirements import Requirement

__all__ = ["Outcome", "Policy", "Verdict", "judge", "not_claimed"]

Outcome = Literal[
    "pass",
    "fail",
    "deviation",  # known, and as the list says
    "stale",  # on the list, but met
    "wrong exception",  # on the list, but with another exception
    "not claimed",  # not tested: an optional feature, or a device that is not at hand
    "not exercised",  # no evaluation, so nothing is known
    "unmet",  # a SHOULD that is not met
    "error",  # of the harness, not of the storage
]


@dataclass(frozen=True)
class Policy:
    """How strict a run is.

    Attributes:
        exact_list: whether the list of deviations is the backend's own, so that each entry must fail as it says; a list
            borrowed from another backend only says "no worse than that one".
        should_fails: whether an unmet SHOULD fails the run.
    """

    exact_list: bool = True
    should_fails: bool = False


@dataclass(frozen=True)
class Verdict:
    """The outcome of one requirement on one backend.

    Attributes:
        outcome: the word for it.
        failed: whether it fails the run.
        reason: why, where the word alone does not say it.
    """

    outcome: Outcome
    failed: bool
    reason: str = ""


def not_claimed(reason: str) -> Verdict:
    """The verdict on a requirement that does not apply."""
    return Verdict("not claimed", failed=False, reason=reason)


def judge(requirement: Requirement, finding: Finding, deviation: Deviation | None, policy: Policy) -> Verdict:
    """The verdict on a requirement that applies."""
    failure = finding.failure
    if failure is None and finding.evaluations == 0 and deviation is not None and policy.exact_list:
        # A storage that tells nobody gives no call to look at: listing that is honest, and ends with the first call.
        return Verdict("deviation", failed=False, reason=deviation.reason)
    if failure is None and finding.evaluations == 0:
        return Verdict(
            "not exercised",
            failed=requirement.level == "MUST",
            reason="no check was evaluated: nothing is known",
        )
    if failure is None and deviation is not None and policy.exact_list:
        return Verdict(
            "stale", failed=True, reason=f"met, so the known deviation {deviation.reason!r} must go"
        )
    if failure is None:
        return Verdict("pass", failed=False)
    if deviation is None and requirement.level == "SHOULD":
        return Verdict("fail" if policy.should_fails else "unmet", failed=policy.should_fails)
    if deviation is None:
        return Verdict("fail", failed=True)
    if policy.exact_list and deviation.raises and failure.exception not in deviation.raises:
        raised = failure.exception or "no exception"
        expected = " or ".join(deviation.raises)
        return Verdict(
            "wrong exception", failed=True, reason=f"raised {raised}, the known deviation raises {expected}"
        )
    return Verdict("deviation", failed=False, reason=deviation.reason)
