"""Markdown and the badge: what they say, and that nothing of a backend gets out of its place."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from storage_conformance.report import badge, markdown
from storage_conformance.report.report import Report
from storage_conformance.requirements import specification

MUST = sum(requirement.level == "MUST" for requirement in specification().requirements.values())
SVG = "{http://www.w3.org/2000/svg}"


def test_markdown_has_a_verdict_a_matrix_and_the_program(two):
    text = markdown.write(two)
    assert "- ✅ `reference 1.2: conformant" in text
    assert "- ❌ `torchrl 1.2: partial: 1 failed" in text
    assert "| chapter | MUST | `reference 1.2` | `torchrl 1.2` |" in text
    assert re.search(r"^\| LEN Length and shape \| 9 \| 9/9 \| 7/9 \|$", text, re.MULTILINE)
    assert "<b>LEN-3</b> fail <code>torchrl 1.2</code>" in text
    assert "> A `set` that addresses only rows below `W` MUST NOT change the length." in text
    assert "storage = make(2)\nlen(storage)" in text
    assert "<b>CAP-1</b> deviation" in text
    assert "<b>CAP-2</b>" not in text


def test_markdown_fits_a_comment_however_much_fails(one):
    report = one(
        outcomes={"": "fail"}, message="very long " * 1_000, steps=("x = 1",) * 5_000, reason="é" * 5_000
    )
    text = markdown.write(report)
    assert len(text.encode()) <= markdown.LIMIT
    left_out = int(re.search(r"^(\d+) more are in the report", text, re.MULTILINE)[1])
    assert left_out + text.count("<details>") == len(report.records)


def test_what_fails_comes_before_what_is_known(one):
    text = markdown.write(one(outcomes={"": "deviation", "QRY-1": "fail"}))
    assert text.index("QRY-1") < text.index("<b>ERR-1</b>")


def test_markdown_keeps_a_backend_within_code(hostile):
    text = markdown.write(hostile)
    # Fenced blocks and spans go, as a parser of CommonMark takes them, and so does what is escaped in HTML.
    text = re.sub(r"^(`{3,})python\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<code>[^<]*</code>", "", text)
    text = re.sub(r"(?<!`)(`+)(?!`)[^\n]+?(?<!`)\1(?!`)", "", text)
    for sign in ("script", "onerror", "@team", "pwned", "]]>"):
        assert sign not in text
    head = next(line for line in markdown.write(hostile).splitlines() if line.startswith("| chapter"))
    assert head.count("|") == 4


def test_the_badge_says_it_in_colour_words_and_for_screen_readers(two):
    root = ElementTree.fromstring(badge.write(two))
    assert [node.text for node in root.iter(f"{SVG}text")] == [
        "reference, SPEC 1.0",
        "conformant",
        "torchrl, SPEC 1.0",
        f"{MUST - 4} of {MUST - 1} MUST",
    ]
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.findtext(f"{SVG}title")
    assert root.get("height") == "40"


def test_the_badge_is_well_formed_whatever_a_backend_is_called(hostile):
    root = ElementTree.fromstring(badge.write(hostile).encode("utf-8"))
    assert {node.tag.removeprefix(SVG) for node in root.iter()} == {"svg", "title", "g", "rect", "text"}
    assert "onerror" not in "".join(name for node in root.iter() for name in node.attrib)


def test_nothing_run_is_said_and_not_a_pass(one):
    empty = Report(one().specification, one().runs, ())
    assert "nothing was run" in markdown.write(empty)
    assert f"0 of {MUST} MUST" in html.unescape(badge.write(empty))
