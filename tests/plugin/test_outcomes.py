"""Verdicts as pytest shows them: exit codes, counts, the table, JUnit."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from storage_conformance.requirements import specification

CLAIMS = "--conformance-features=" + ",".join(sorted({*specification().features} - {"accelerator"}))
MUST = [
    r for r in specification().requirements.values() if r.level == "MUST" and "accelerator" not in r.features
]
ACCELERATOR = sum("accelerator" in r.features for r in specification().requirements.values())
SHOULD = [
    r
    for r in specification().requirements.values()
    if r.level == "SHOULD" and "accelerator" not in r.features
]


@pytest.fixture
def story(pytester, conformance):
    """Runs the suite on a backend about which a story is told, as source of a dict."""

    def run(told: str, *arguments: str, known: str = "") -> pytest.RunResult:
        pytester.makepyfile(
            told=f"from storage_conformance.finding import Failure\nfrom stories import Good\n"
            f"class Storage(Good):\n    story = {told}\n"
        )
        if known:
            pytester.path.joinpath("known.toml").write_text(known)
            arguments = (*arguments, "--conformance-deviations=known.toml")
        return conformance("told:Storage", CLAIMS, *arguments)

    return run


def verdict(result: pytest.RunResult) -> str:
    return next(line for line in reversed(result.outlines) if line.startswith("told:Storage: "))


def test_a_backend_that_meets_everything_is_conformant(story):
    result = story("{}")
    assert result.ret == 0
    evaluations = 10 * (len(MUST) + len(SHOULD))
    assert verdict(result) == (
        f"told:Storage: conformant with SPEC 1.0 ({len(MUST)} MUST, {len(SHOULD)} SHOULD, {ACCELERATOR} not claimed, "
        f"{evaluations:,} evaluations)"
    )


def test_the_quick_profile_does_not_say_conformant(story):
    result = story("{}", "--conformance-profile=quick")
    assert result.ret == 0
    assert f"partial: {ACCELERATOR} not claimed, profile quick" in verdict(result)


@pytest.mark.parametrize("selection", ["-k LEN", "--conformance-only=LEN-*", "SPEC.md::LEN-3"])
def test_a_part_of_the_suite_does_not_say_conformant(story, selection):
    result = story("{}", *selection.split())
    assert result.ret == 0
    assert re.search(r"partial: \d+ not run, \d+ of \d+ MUST conform", verdict(result))


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_violated_must_fails_with_sentence_steps_and_message(conformance, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)  # pytest cuts its short summary to the terminal's width, but not there
    result = conformance("stories:Bad")
    assert result.ret == 1
    text = result.stdout.str()
    assert "Traceback" not in text
    assert text.count("storage.set(0, tensor([0.]))") == 2  # printed once, two steps
    result.stdout.fnmatch_lines(
        [
            "*conformance with SPEC 1.0*",
            "profile default, seed 0, stories:Bad",
            "chapter * MUST * failed * claimed * evaluations",
            "LEN * Length and shape * 8/9 * 1 *",
            "all * 2 *",
            "LEN-3  FAIL  stories:Bad * 7 evaluations, shrunk to 3 steps, seed 0",
            "*A `set` that addresses only rows below `W` MUST NOT change the length.*",
            "    storage = make(max_size=2)",
            "    storage.set(0, tensor([[]0.[]]))",
            "    len(storage) is 2, expected 1",
            "IDX-1  FAIL  stories:Bad * 7 evaluations, 1 step, seed 0",
            "stories:Bad: partial: 2 failed, * MUST conform",
            "FAILED SPEC.md::LEN-3[[]stories:Bad[]] - len(storage) is 2, expected 1",
        ]
    )


def test_a_requirement_that_nothing_evaluates_is_not_exercised(story):
    result = story("{'LEN-3': 0}")
    assert result.ret == 1
    assert "not exercised (1)" in result.outlines
    assert f"partial: 1 not exercised, {ACCELERATOR} not claimed" in verdict(result)


def test_a_should_that_nothing_evaluates_is_skipped(story):
    result = story(f"{{'{SHOULD[0].id}': 0}}")
    assert result.ret == 0
    assert "not exercised (1)" in result.outlines


def test_an_unmet_should_is_reported_and_does_not_fail(story):
    told = f"{{'{SHOULD[0].id}': Failure('slow', ())}}"
    result = story(told)
    assert result.ret == 0
    assert result.parseoutcomes()["xfailed"] == 1
    assert "SHOULD, but does not (1)" in result.outlines
    assert "1 SHOULD unmet" in verdict(result)
    assert story(told, "--conformance-strict").ret == 1


def test_a_known_deviation_is_expected(story):
    result = story("{'LEN-3': Failure('2, not 1', ())}", known='["LEN-3"]\nreason = "counts writes"')
    assert result.ret == 0
    assert result.parseoutcomes()["xfailed"] == 1
    assert "known deviations (1)" in result.outlines
    assert "  LEN-3  counts writes" in result.outlines
    assert f"partial: 1 known deviation, {ACCELERATOR} not claimed" in verdict(result)


def test_a_known_deviation_that_is_gone_fails(story):
    result = story("{}", known='["LEN-3"]\nreason = "counts writes"')
    assert result.ret == 1
    result.stdout.fnmatch_lines(["LEN-3  STALE *", "  met, so the known deviation 'counts writes' must go"])


def test_a_known_deviation_with_another_exception_fails(story):
    told = "{'LEN-3': Failure('boom', (), exception='KeyError')}"
    result = story(told, known='["LEN-3"]\nreason = "refuses"\nraises = "IndexError"')
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["LEN-3  WRONG EXCEPTION *", "  raised KeyError, the known deviation raises IndexError"]
    )
    assert story(told, known='["LEN-3"]\nreason = "refuses"\nraises = ["IndexError", "KeyError"]').ret == 0


def test_known_deviations_can_be_switched_off(pytester, conformance):
    pytester.path.joinpath("known.toml").write_text('["LEN-3"]\nreason = "x"\n["IDX-1"]\nreason = "y"')
    pytester.makeini("[pytest]\naddopts = -p fake_campaign\nconformance_deviations = known.toml\n")
    assert conformance("stories:Bad").ret == 0
    assert conformance("stories:Bad", "--conformance-no-deviations").ret == 1


def test_a_borrowed_list_only_says_no_worse_than(monkeypatch, tmp_path, conformance):
    from storage_conformance import plan
    from storage_conformance.deviations import loading

    lists = {"other": tmp_path / "other.toml"}
    lists["other"].write_text('["LEN-3"]\nreason = "x"\n["IDX-1"]\nreason = "y"')
    monkeypatch.setattr(loading, "shipped", lambda: lists)
    monkeypatch.setattr(plan, "shipped", lambda: lists)
    assert conformance("stories:Bad", "--conformance-deviations=other").ret == 0
    assert conformance("stories:Good", "--conformance-deviations=other").ret == 0


def test_an_error_of_the_suite_keeps_its_traceback(story):
    result = story("{'LEN-3': ZeroDivisionError('harness')}")
    assert result.ret == 1
    result.assert_outcomes(errors=1, passed=len(MUST) + len(SHOULD) - 1, skipped=ACCELERATOR)
    text = result.stdout.str()
    assert "fake_campaign.py" in text
    assert "ZeroDivisionError: harness" in text
    assert "1 error" in verdict(result)


def test_a_run_that_exercises_nothing_fails(conformance):
    result = conformance("stories:Good", "SPEC.md::QRY-9")
    assert result.ret == 1
    assert "nothing was exercised" in result.stdout.str()


def test_unclaimed_features_are_skipped_with_the_reason(conformance):
    result = conformance("stories:Good", "-rs")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["  feature `clear` is not claimed: QRY-9, QRY-10"])
    result.stdout.fnmatch_lines(["SKIPPED*feature `clear` is not claimed*"])


def test_several_backends_make_a_matrix(conformance):
    result = conformance("stories:Good,stories:Bad")
    result.stdout.fnmatch_lines(
        [
            "* stories:Good  stories:Bad",
            "LEN * 9/9 * 8/9",
            "all * failed * 0 * 2",
            "  stories:Good, stories:Bad: feature `clear` is not claimed: QRY-9, QRY-10",
            "stories:Good: conformant*",
            "stories:Bad: partial*",
        ]
    )


def test_junit_carries_what_was_found(conformance, pytester):
    conformance("stories:Bad", "--junitxml=junit.xml")
    cases = ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    case = next(case for case in cases if case.get("name") == "LEN-3[stories:Bad]")
    found = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert found["requirement"] == "LEN-3"
    assert found["outcome"] == "fail"
    assert found["evaluations"] == "7"
    assert found["steps"].startswith("storage = make(max_size=2)\nstorage.set")
    assert case.find("failure").get("message") == "len(storage) is 2, expected 1"
    assert case.find("failure").text.startswith("LEN-3  FAIL")


def test_warnings_as_errors_do_not_reach_the_backend(story):
    result = story("{'LEN-3': lambda campaign: __import__('warnings').warn('old') or 3}", "-W", "error")
    assert result.ret == 0


@pytest.mark.parametrize(("given", "seed"), [((), "0"), (("--hypothesis-seed=7",), "7")])
def test_the_seed_reaches_campaign_and_report(story, given, seed):
    result = story("{'LEN-3': lambda campaign: campaign.seed + 1}", *given)
    result.stdout.fnmatch_lines([f"conformance: SPEC 1.0, profile default, seed {seed}, told:Storage"])


def test_a_random_seed_is_drawn_and_shown(story):
    seeds = {
        re.search(r"profile default, seed (\d+)", story("{}", "--hypothesis-seed=random").stdout.str())[1]
        for _ in range(2)
    }
    assert len(seeds) == 2


def test_the_device_reaches_the_campaign(story):
    told = "{'LEN-3': lambda campaign: {'meta': 5}[campaign.device]}"
    assert story(told, "--conformance-device=meta").ret == 0


def test_campaigns_learn_what_is_selected_and_what_is_expected(story):
    told = "{'LEN-3': lambda c: Failure(f'{sorted(c.selected)} {sorted(c.expected)}', ())}"
    result = story(told, "-k", "LEN-3 or LEN-4", "--junitxml=junit.xml", "--conformance-strict")
    assert "['LEN-3', 'LEN-4'] []" in result.stdout.str()


def test_collecting_runs_nothing(story):
    assert story("{'smoke': 'not now'}", "--collect-only", "-q").ret == 0
