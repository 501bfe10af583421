"""The command that shows that the suite has teeth."""

from __future__ import annotations

import pytest

from storage_conformance.mutants.matrix import Trial, main, rendered, summary

CAUGHT = Trial("Caught", ("LEN-3",), frozenset({"LEN-2"}), frozenset({"LEN-3", "LEN-2"}), 7, 0.5)
MISSED = Trial("Missed", ("LEN-3", "SET-1"), frozenset(), frozenset({"SET-1"}), 9, 0.25)
STRANGE = Trial("Strange", ("SET-1",), frozenset(), frozenset({"SET-1", "CAP-1"}), 1, 1.0)


def test_a_trial_says_what_was_missed_and_what_nobody_declared():
    assert (CAUGHT.missed, CAUGHT.undeclared) == ([], [])
    assert (MISSED.missed, MISSED.undeclared) == (["LEN-3"], [])
    assert (STRANGE.missed, STRANGE.undeclared) == ([], ["CAP-1"])


def test_the_summary_counts_by_the_chapter_of_the_first_requirement():
    lines = [line.split() for line in summary([CAUGHT, MISSED, STRANGE])]
    assert ["LEN", "2", "1", "2"] in lines
    assert ["SET", "1", "1", "1"] in lines
    assert ["all", "3", "2"] in lines
    assert [
        "evaluations:",
        "median",
        "7,",
        "most",
        "9;",
        "seconds:",
        "median",
        "0.50,",
        "most",
        "1.0",
    ] in lines


def test_the_matrix_has_a_line_for_each_mutant():
    lines = rendered([STRANGE, CAUGHT, MISSED]).splitlines()
    assert lines[2:] == [
        "| Caught | LEN-3 |  | LEN-2 |  | 7 | 0.5 |",
        "| Missed | LEN-3, SET-1 | LEN-3 |  |  | 9 | 0.2 |",
        "| Strange | SET-1 |  |  | CAP-1 | 1 | 1.0 |",
    ]


@pytest.mark.slow
def test_the_command_tries_a_sample(tmp_path, capsys):
    assert main(["--sample", "2", "--jobs", "1", "--output", str(tmp_path / "matrix.md")]) == 0
    assert "all            2       2" in capsys.readouterr().out
    assert len((tmp_path / "matrix.md").read_text().splitlines()) == 4
