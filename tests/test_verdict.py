"""From findings to verdicts, without pytest."""

from __future__ import annotations

import pytest

from storage_conformance.deviations import Deviation
from storage_conformance.finding import Failure, Finding
from storage_conformance.requirements import Requirement
from storage_conformance.verdict import Policy, judge, not_claimed

FAILURE = Failure("2, not 1", ("storage = make(2)",), exception="KeyError")
KNOWN = Deviation("LEN-3", "counts writes")


def requirement(level: str) -> Requirement:
    return Requirement("LEN-3", level, f"It {level} be.", "so", "decision", (), (), 1)


@pytest.mark.parametrize(
    ("level", "evaluations", "failure", "known", "policy", "outcome", "failed"),
    [
        ("MUST", 3, None, None, Policy(), "pass", False),
        ("MUST", 3, FAILURE, None, Policy(), "fail", True),
        ("MUST", 0, None, None, Policy(), "not exercised", True),
        ("MUST", 0, None, KNOWN, Policy(), "deviation", False),
        ("MUST", 3, FAILURE, KNOWN, Policy(), "deviation", False),
        ("MUST", 3, None, KNOWN, Policy(), "stale", True),
        ("MUST", 3, None, KNOWN, Policy(exact_list=False), "pass", False),
        ("MUST", 3, FAILURE, Deviation("LEN-3", "x", ("KeyError",)), Policy(), "deviation", False),
        ("MUST", 3, FAILURE, Deviation("LEN-3", "x", ("IndexError",)), Policy(), "wrong exception", True),
        (
            "MUST",
            3,
            FAILURE,
            Deviation("LEN-3", "x", ("IndexError",)),
            Policy(exact_list=False),
            "deviation",
            False,
        ),
        ("SHOULD", 3, None, None, Policy(), "pass", False),
        ("SHOULD", 0, None, None, Policy(), "not exercised", False),
        ("SHOULD", 3, FAILURE, None, Policy(), "unmet", False),
        ("SHOULD", 3, FAILURE, None, Policy(should_fails=True), "fail", True),
        ("SHOULD", 3, FAILURE, KNOWN, Policy(should_fails=True), "deviation", False),
        ("SHOULD", 3, None, KNOWN, Policy(), "stale", True),
    ],
)
def test_verdicts(level, evaluations, failure, known, policy, outcome, failed):
    verdict = judge(requirement(level), Finding("LEN-3", evaluations, failure), known, policy)
    assert (verdict.outcome, verdict.failed) == (outcome, failed)


def test_a_failure_counts_even_where_its_check_never_finished():
    assert judge(requirement("MUST"), Finding("LEN-3", 0, FAILURE), None, Policy()).outcome == "fail"


def test_a_missing_exception_is_a_wrong_one():
    silent = Finding("LEN-3", 1, Failure("no refusal", ()))
    verdict = judge(requirement("MUST"), silent, Deviation("LEN-3", "x", ("IndexError",)), Policy())
    assert verdict.reason == "raised no exception, the known deviation raises IndexError"


def test_not_claimed_keeps_the_reason():
    verdict = not_claimed("needs an accelerator")
    assert (verdict.outcome, verdict.failed, verdict.reason) == ("not claimed", False, "needs an accelerator")
