"""SPEC.md itself, and the reader of it."""

from __future__ import annotations

import re

import pytest

from storage_conformance.requirements import SpecificationError, parse, specification, specification_path

DOCUMENT = """# Specification

Version 3.2

## Length (LEN)

#### LEN-1

A fresh storage MUST have length 0.

> Why: nothing can be read. Source: TorchRL.

#### LEN-2

A refused write MUST raise, on
two lines.

> Why: so that somebody
> knows. Source: decision; TorchRL is silent. Raises: `IndexError`, `ValueError`. Feature: `clear`.

## Optional features

| feature | what it adds |
| --- | --- |
| `clear` | `clear()` |
"""


def changed(old: str, new: str) -> str:
    assert old in DOCUMENT
    return DOCUMENT.replace(old, new, 1)


def test_a_requirement_is_read_completely():
    read = parse(DOCUMENT)
    assert (read.version, dict(read.chapters), read.features) == ("3.2", {"LEN": "Length"}, ("clear",))
    requirement = read.requirements["LEN-2"]
    assert requirement.level == "MUST"
    assert requirement.sentence == "A refused write MUST raise, on two lines."
    assert requirement.why == "so that somebody knows."
    assert requirement.source == "decision; TorchRL is silent."
    assert requirement.raises == (IndexError, ValueError)
    assert requirement.features == ("clear",)
    assert DOCUMENT.splitlines()[requirement.line - 1] == "#### LEN-2"
    assert (requirement.chapter, requirement.number) == ("LEN", 2)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("#### LEN-2", "#### LEN-02", "is no requirement id"),
        ("#### LEN-2", "#### len-2", "is no requirement id"),
        ("#### LEN-2", "#### LEN-2 Length", "is no requirement id"),
        ("#### LEN-2", "#### LEN-1", "LEN-1 is used twice"),
        ("#### LEN-2", "#### CAP-2", "no chapter has the prefix of CAP-2"),
        ("A fresh storage MUST have", "A fresh storage has", "needs one sentence with one MUST"),
        (
            "A fresh storage MUST have",
            "A fresh storage MUST or SHOULD have",
            "needs one sentence with one MUST",
        ),
        ("length 0.\n", "length 0\n", "needs one sentence with one MUST"),
        ("> Why: nothing can be read. Source: TorchRL.\n", "", "needs a note"),
        ("Why: nothing can be read. ", "", "needs a note"),
        (" Source: TorchRL.", "", "needs a note"),
        ("Source: TorchRL.", "Source: hearsay.", "has a source that begins with none of"),
        ("`IndexError`", "`IndexOutOfBounds`", "names IndexOutOfBounds, which is no built-in exception"),
        ("`IndexError`", "`print`", "names print, which is no built-in exception"),
        ("`IndexError`", "`KeyboardInterrupt`", "names KeyboardInterrupt, which is no built-in exception"),
        ("Feature: `clear`", "Feature: `colour`", "names unknown features"),
        ("Version 3.2", "", "expected a line 'Version X.Y' once, found it 0 times"),
    ],
)
def test_a_malformed_specification_is_refused(old, new, told):
    with pytest.raises(SpecificationError, match=re.escape(told)):
        parse(changed(old, new))


@pytest.mark.parametrize(
    ("sentence", "level"),
    [
        ("It MUST NOT be.", "MUST"),
        ("It SHOULD be.", "SHOULD"),
        ("It SHOULD NOT be.", "SHOULD"),
        ("It MAY be.", "MAY"),
    ],
)
def test_levels(sentence, level):
    read = parse(changed("A fresh storage MUST have length 0.", sentence))
    assert read.requirements["LEN-1"].level == level


def test_the_specification_of_this_package_parses():
    spec = specification()
    assert 90 <= len(spec.requirements) <= 200
    assert all(requirement.chapter in spec.chapters for requirement in spec.requirements.values())


def test_the_order_is_that_of_the_chapters():
    ordered = specification().ordered()
    assert len(ordered) == len(specification().requirements)
    ranks = [list(specification().chapters).index(requirement.chapter) for requirement in ordered]
    assert ranks == sorted(ranks)


def test_no_heading_that_looks_like_a_requirement_is_overlooked():
    text = specification_path().read_text(encoding="utf-8")
    headings = re.findall(r"^#+ *([A-Z]+-[0-9]+)\b", text, flags=re.MULTILINE)
    assert headings == sorted(headings, key=headings.index)
    assert set(headings) == set(specification().requirements)


def test_ids_that_the_text_mentions_exist():
    text = specification_path().read_text(encoding="utf-8")
    prefixes = "|".join(specification().chapters)
    mentioned = set(re.findall(rf"\b(?:{prefixes})-[0-9]+\b", text))
    assert mentioned <= set(specification().requirements)
