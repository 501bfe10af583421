"""What a command line asks for."""

from __future__ import annotations

import pytest

from storage_conformance.errors import ConfigurationError
from storage_conformance.requirements import specification
from storage_conformance.selection import Targets, exact_keywords, matching, split_targets


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        ([], Targets(None, ())),
        (["tests"], Targets(None, ("tests",))),
        (["SPEC.md"], Targets(None, ())),
        (["SPEC.md::LEN-3[x]"], Targets(("LEN-3[x]",), ())),
        (["./SPEC.md::LEN-3[x]", "tests"], Targets(("LEN-3[x]",), ("tests",))),
        (["SPEC.md::LEN-3", "SPEC.md"], Targets(None, ())),
        (["other/SPEC.md"], Targets(None, ("other/SPEC.md",))),
    ],
)
def test_arguments_are_sorted_into_ours_and_others(arguments, targets):
    assert split_targets(arguments) == targets


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ("", ""),
        ("LEN-1", "LEN-1["),
        ("LEN-1[", "LEN-1["),
        ("LEN", "LEN-"),
        ("not (LEN-1 or CAP) and torchrl", "not (LEN-1[ or CAP-) and torchrl"),
        ("LEN-1[torchrl]", "LEN-1[torchrl]"),
        ("length", "length"),
        ("set", "set"),
    ],
)
def test_keywords_mean_what_they_name(given, exact):
    assert exact_keywords(given, specification()) == exact
    assert exact_keywords(exact, specification()) == exact


def test_patterns_and_ids():
    assert matching([], specification()) is None
    assert matching(["CAP-3, LEN-1", "len-2"], specification()) == {"CAP-3", "LEN-1", "LEN-2"}
    assert matching(["LEN-*"], specification()) == {
        name for name in specification().requirements if name.startswith("LEN-")
    }


def test_a_pattern_must_name_something():
    with pytest.raises(ConfigurationError, match="'CAP-99' names no requirement"):
        matching(["CAP-99"], specification())
