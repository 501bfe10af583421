"""`--conformance-report` in whole runs of pytest, each a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_conformance.report import document
from storage_conformance.requirements import specification

FAKES = Path(__file__).parent / "plugin"

STORIES = """
from storage_conformance.finding import Failure

def interrupted(campaign):
    raise KeyboardInterrupt

class Good:
    def __init__(self, max_size, *, device="cpu", ndim=1):
        pass

class Bad(Good):
    story = {"LEN-3": Failure("len(storage) is 2, expected 1", ("storage = make(2)",), script="import torch")}

class Interrupted(Good):
    story = {"LEN-3": interrupted}
"""


@pytest.fixture(autouse=True)
def stories(pytester, monkeypatch):
    pytester.makepyfile(stories=STORIES)
    pytester.makeini("[pytest]\naddopts = -p fake_campaign -p no:cacheprovider\n")
    monkeypatch.setenv("PYTHONPATH", str(FAKES), prepend=":")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def conformance(pytester):
    return lambda backends, *arguments: pytester.runpytest_subprocess(f"--conformance={backends}", *arguments)


def read(path: Path):
    return document.read(path.read_text(), path.name)


def test_each_suffix_in_a_folder_that_is_made(pytester, conformance):
    names = [f"new/folder/r.{suffix}" for suffix in ("json", "md", "html", "svg")]
    result = conformance("stories:Good,stories:Bad", *(f"--conformance-report={name}" for name in names))
    assert result.ret == 1
    for name in names:
        text = (pytester.path / name).read_text()
        assert "stories:Good" in text
        assert "stories:Bad" in text
        result.stdout.fnmatch_lines([f"conformance report: *{name}"])
    report = read(pytester.path / names[0])
    assert [run.backend for run in report.runs] == ["stories:Good", "stories:Bad"]
    assert report.record("stories:Bad", "LEN-3").script == "import torch"
    assert len(list((pytester.path / "new/folder").iterdir())) == 4


def test_xdist_gives_one_report_with_the_same_results(pytester, conformance):
    pytest.importorskip("xdist")
    both = "stories:Good,stories:Bad"
    conformance(both, "--conformance-report=alone.json")
    result = conformance(both, "-n2", "--dist=loadgroup", "--conformance-report=shared.json")
    assert result.ret == 1
    assert result.stdout.str().count("conformance report:") == 1
    assert (pytester.path / "shared.json").read_text() == (pytester.path / "alone.json").read_text()


@pytest.mark.parametrize(("backend", "arguments", "code"), [("Interrupted", (), 2), ("Bad", ("-x",), 1)])
def test_a_run_that_ends_early_leaves_a_report_that_says_so(pytester, conformance, backend, arguments, code):
    result = conformance(f"stories:{backend}", "--conformance-report=r.json", *arguments)
    assert result.ret == code
    report = read(pytester.path / "r.json")
    assert report.runs[0].interrupted
    assert report.record(f"stories:{backend}", "LEN-1").outcome == "pass"
    assert report.record(f"stories:{backend}", "QRY-1") is None


def test_junit_is_pointed_to(conformance):
    result = conformance("stories:Good", "--conformance-report=r.xml")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--junit-xml=*r.xml*"])


@pytest.mark.parametrize("name", ["r.pdf", "r", "folder.json"])
def test_what_cannot_be_written_is_a_mistake_before_anything_runs(pytester, conformance, name):
    pytester.mkdir("folder.json")
    result = conformance("stories:Good", f"--conformance-report={name}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --conformance-report=*expected a*"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_file_in_the_place_of_the_folder(pytester, conformance):
    pytester.path.joinpath("file").write_text("")
    assert conformance("stories:Good", "--conformance-report=file/r.json").ret == 4


def test_without_a_backend_there_is_nothing_to_report_on(pytester):
    result = pytester.runpytest_subprocess("--conformance-report=r.json")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*needs --conformance=BACKEND*"])


def test_a_report_that_cannot_be_written_fails_the_run(pytester, conformance):
    pytester.makeconftest(
        "import pathlib\ndef pytest_collection_finish(session):\n    pathlib.Path('r.json').mkdir()\n"
    )
    result = conformance("stories:Good", "--conformance-report=r.json", "--conformance-report=r.md")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["conformance report NOT written: *r.json*", "conformance report: *r.md"])


def test_collecting_only_writes_nothing(pytester, conformance):
    pytester.path.joinpath("r.json").write_text("old")
    conformance("stories:Good", "--collect-only", "--conformance-report=r.json")
    assert pytester.path.joinpath("r.json").read_text() == "old"


def test_junit_carries_the_facts_as_properties(pytester, conformance):
    conformance("stories:Bad", "--junit-xml=j.xml", "-k", "LEN-3")
    text = pytester.path.joinpath("j.xml").read_text()
    for name in ("requirement", "level", "chapter", "evaluations", "spec"):
        assert f'<property name="{name}"' in text


def test_the_badge_and_page_of_a_selection_do_not_claim_conformance(pytester, conformance):
    conformance("stories:Good", "-k", "LEN-3", "--conformance-report=r.json")
    (backend,) = json.loads((pytester.path / "r.json").read_text())["backends"]
    assert not backend["conformant"]
    musts = [r for r in specification().requirements.values() if r.level == "MUST"]
    assert (backend["must_met"], backend["must_applicable"]) == (1, len(musts))
