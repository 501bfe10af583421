"""The report as text, from records alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage_conformance.report import Record, render, summarize
from storage_conformance.report.terminal import failure_lines
from storage_conformance.requirements import specification

SPEC = specification()


def record(requirement: str, outcome: str = "pass", **values) -> Record:
    facts = SPEC.requirements[requirement]
    defaults = {
        "requirement": requirement,
        "level": facts.level,
        "chapter": facts.chapter,
        "sentence": facts.sentence,
        "spec": SPEC.version,
        "backend": "shelf",
        "version": "1.2",
        "profile": "default",
        "seed": 0,
        "outcome": outcome,
        "failed": outcome in ("fail", "stale", "wrong exception", "error"),
        "evaluations": 5,
    }
    return Record(**(defaults | values))


def everything(**values) -> list[Record]:
    return [record(requirement.id, **values) for requirement in SPEC.ordered() if requirement.level != "MAY"]


def lines(records: list[Record], width: int = 100) -> list[str]:
    return [line.text for line in render(records, SPEC, backends=["shelf", "box"], width=width)]


def test_records_survive_as_properties():
    full = record(
        "LEN-3",
        "fail",
        steps=("a = 1", "b"),
        message="x\ny",
        reason="r",
        exception="E",
        shrunk=True,
        script="s",
    )
    assert Record.from_properties([("other", 1), *full.properties()]) == full
    assert Record.from_properties([*full.properties(), ("outcome", "error")]) == replace(
        full, outcome="error"
    )


def test_properties_of_other_tests_are_no_record():
    assert Record.from_properties([("requirement", "LEN-3")]) is None


def test_no_records_no_report():
    assert lines([]) == []


def test_only_complete_and_met_is_conformant():
    complete = everything()
    assert summarize(complete, SPEC).conformant
    assert not summarize(complete[1:], SPEC).conformant
    assert not summarize(everything(profile="quick"), SPEC).conformant
    assert summarize(everything(profile="thorough"), SPEC).conformant


@pytest.mark.parametrize(
    "outcome", ["fail", "stale", "wrong exception", "deviation", "not exercised", "error"]
)
def test_one_must_that_is_not_met_is_enough(outcome):
    some = [r if r.requirement != "LEN-3" else record("LEN-3", outcome) for r in everything()]
    summary = summarize(some, SPEC)
    assert not summary.conformant
    assert summary.must_passed == summary.must_total - 1


def test_unmet_shoulds_and_unclaimed_features_do_not_count_against():
    should = next(r.id for r in SPEC.ordered() if r.level == "SHOULD")
    outcomes = {should: "unmet", "QRY-9": "not claimed"}
    summary = summarize(
        [record(r.requirement, outcomes.get(r.requirement, "pass")) for r in everything()], SPEC
    )
    assert summary.conformant
    assert "1 SHOULD unmet, 1 not claimed" in summary.sentence


def test_partial_counts():
    some = [
        record("LEN-1"),
        record("LEN-2", "deviation"),
        record("LEN-3", "deviation"),
        record("LEN-4", "fail"),
    ]
    rest = len(everything()) - 4
    assert summarize(some, SPEC).sentence == (
        f"shelf 1.2: partial: 1 failed, 2 known deviations, {rest} not run, 1 of 4 MUST conform"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_report_keeps_to_the_width(width):
    reason = "a reason that goes on and on " * 8
    records = everything()
    records[0] = replace(records[0], outcome="deviation", reason=reason)
    records[1] = replace(records[1], outcome="unmet", message=reason)
    records[2] = replace(
        records[2], outcome="not claimed", reason="feature `clear` is not claimed", evaluations=0
    )
    records[3] = replace(records[3], outcome="fail", failed=True, reason=reason)
    *text, verdict = lines(records, width)
    assert max(map(len, text)) <= max(width, 75)
    assert verdict.startswith("shelf 1.2: partial: 1 failed, 1 known deviation, 1 not claimed")


def test_a_failure_on_one_line_where_there_is_room():
    failing = record(
        "LEN-3", "fail", steps=("storage = make(2)", "storage.set(0, 1)"), message="2, not 1", shrunk=True
    )
    assert failure_lines(failing, 200) == [
        "LEN-3  FAIL  shelf 1.2   "
        '"A `set` that addresses only rows below `W` MUST NOT change the length."   '
        "5 evaluations, shrunk to 2 steps, seed 0",
        "    storage = make(2)",
        "    storage.set(0, 1)",
        "    2, not 1",
    ]


def test_what_the_program_says_already_is_not_said_again():
    failing = record(
        "LEN-3", "fail", steps=("storage = make(2)", "len(storage)\n# 2, not 1"), message="2, not 1"
    )
    assert sum("2, not 1" in line for line in failure_lines(failing)) == 1


def test_matrix_of_backends_in_the_given_order():
    records = [replace(r, backend="box", version="") for r in everything()] + everything()
    text = lines(records)
    assert any(line.split() == ["shelf", "box"] for line in text)
    assert text[-2].startswith("shelf 1.2: conformant")
    assert text[-1].startswith("box: conformant")


def test_reports_are_plain_ascii():
    assert "\n".join(lines(everything())).isascii()
