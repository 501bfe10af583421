"""`storage-conformance merge` and `diff`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from storage_conformance.report import document
from storage_conformance.report.command import main
from storage_conformance.report.files import write_whole
from storage_conformance.report.report import Report


@pytest.fixture
def saved(tmp_path):
    """Writes a report and gives its path."""

    def save(name: str, report: Report) -> str:
        path = tmp_path / f"{name}.json"
        write_whole(path, document.write(report))
        return str(path)

    return save


def test_merge_sets_backends_side_by_side_in_every_format(saved, one, tmp_path, capsys):
    paths = [saved("a", one("box")), saved("b", one("shelf", {"LEN-3": "fail"}))]
    outputs = [tmp_path / "new" / f"all.{suffix}" for suffix in ("json", "md", "html", "svg")]
    assert main(["merge", *paths, *(f"-o{path}" for path in outputs)]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("box 1.2: conformant")
    merged = document.read(outputs[0].read_text(), "all.json")
    assert [run.backend for run in merged.runs] == ["box", "shelf"]
    for path in outputs:
        assert "box" in path.read_text()
        assert "shelf" in path.read_text()


def test_merge_joins_the_parts_of_one_run(saved, one, tmp_path):
    whole = one("shelf")
    parts = [
        saved(name, Report(whole.specification, whole.runs, whole.records[cut]))
        for name, cut in [("a", slice(90)), ("b", slice(80, None))]
    ]
    out = tmp_path / "all.json"
    assert main(["merge", *parts, "-o", str(out)]) == 0
    assert document.read(out.read_text(), "all.json").records == whole.records


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda one: one("shelf", {"LEN-3": "fail"}), "different results for LEN-3 on shelf"),
        (lambda one: one("shelf", run={"seed": 1}), "checked shelf differently"),
        (
            lambda one: replace(one("box"), specification=replace(one().specification, version="0.9")),
            "about SPEC 0.9",
        ),
    ],
)
def test_merge_refuses_what_does_not_go_together(saved, one, tmp_path, capsys, other, said):
    out = tmp_path / "all.json"
    assert main(["merge", saved("a", one("shelf")), saved("b", other(one)), "-o", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_diff_of_equals_is_silent_and_passes(saved, one, capsys):
    path = saved("a", one(outcomes={"LEN-3": "fail"}))
    assert main(["diff", path, path]) == 0
    assert capsys.readouterr().out == "no requirement changed\n"


@pytest.mark.parametrize(
    "after",
    ["fail", "deviation", "not exercised", "not claimed", "unmet", "error", "wrong exception", "not run"],
)
def test_diff_fails_where_something_no_longer_conforms(saved, one, capsys, after):
    old, new = saved("old", one()), saved("new", one(outcomes={"LEN-3": after}))
    assert main(["diff", old, new]) == 1
    out = capsys.readouterr().out
    assert "no longer conforms (1)" in out
    assert f"LEN-3  shelf  pass -> {after}" in out


def test_diff_lists_what_got_better_and_passes(saved, one, capsys):
    old = saved("old", one(outcomes={"LEN-3": "fail", "CAP-1": "fail"}))
    new = saved("new", one(outcomes={"CAP-1": "deviation"}))
    assert main(["diff", old, new]) == 0
    out = capsys.readouterr().out
    assert "got better (1)\n  LEN-3  shelf  fail -> pass\n" in out
    assert "changed otherwise (1)\n  CAP-1  shelf  fail -> deviation" in out


def test_a_backend_that_is_gone_no_longer_conforms(saved, one, capsys):
    assert main(["diff", saved("old", one("shelf")), saved("new", one("box"))]) == 1
    out = capsys.readouterr().out
    assert "shelf: only in the older report" in out
    assert "LEN-3  shelf  pass -> not run" in out


def test_a_requirement_that_the_specification_gave_up_is_not_missed(saved, one, capsys):
    old = one()
    kept = {name: r for name, r in old.specification.requirements.items() if name != "LEN-3"}
    newer = replace(old.specification, version="2.0", requirements=kept)
    new = Report(newer, old.runs, tuple(r for r in old.records if r.requirement != "LEN-3"))
    assert main(["diff", saved("old", old), saved("new", new)]) == 0
    out = capsys.readouterr().out
    assert "no longer in SPEC.md: LEN-3" in out
    assert "SPEC 1.0 before, 2.0 now" in out


@pytest.mark.parametrize("text", ["{}", "\x00", '{"format": "storage-conformance-report", "version": 9}'])
def test_what_is_no_report_is_one_sentence(saved, one, tmp_path, capsys, text):
    path = tmp_path / "broken.json"
    path.write_text(text)
    assert main(["diff", saved("old", one()), str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_files_that_are_not_there_or_have_no_format(saved, one, tmp_path, capsys):
    assert main(["diff", "nowhere.json", "nowhere.json"]) == 2
    assert main(["merge", saved("a", one()), "-o", str(tmp_path / "all.pdf")]) == 2
    assert "ends in one of .json, .md, .html, .svg" in capsys.readouterr().err


def test_messages_cannot_move_the_cursor(saved, one, capsys):
    new = saved("new", one(outcomes={"LEN-3": "fail"}, message="\x1b[2J\x1b[Hall is well\ud800"))
    assert main(["diff", saved("old", one()), new]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "all is well" in out


def test_the_command_needs_neither_torch_nor_hypothesis_nor_pytest(saved, one):
    path = saved("a", one())
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['torch', 'hypothesis', 'pytest', 'numpy', 'tensordict']))\n"
        "from storage_conformance.report.command import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "diff", path, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "no requirement changed\n"), done.stderr


def test_a_report_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_whole(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("r.json", "old")]


def test_results_are_in_the_order_of_the_specification(one):
    mixed = replace(one(), records=one().records[::-1])
    written = [result["requirement"] for result in json.loads(document.write(mixed))["results"]]
    assert written == [requirement.id for requirement in mixed.requirements]


def test_a_reader_that_stops_early_is_no_mistake_and_no_pass(saved, one):
    path = saved("a", one())
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "storage_conformance.report.command", "diff", path, path]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
