"""The report as Markdown for a pull-request comment or `$GITHUB_STEP_SUMMARY`.

Whatever comes from a backend stands in code, behind fences that it cannot close: there it can neither format nor link
nor call people by `@name`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from storage_conformance.report.records import Record
from storage_conformance.report.report import Report

__all__ = ["LIMIT", "write"]

LIMIT = 60_000
"""Bytes at most: GitHub refuses comments of more than 65,536 characters, and a recipe may put some words before it."""

_PROGRAM_LIMIT = 3_000
_NOT_MET = ("fail", "stale", "wrong exception", "error", "not exercised")
_KNOWN = ("deviation", "unmet")
_FORMATTING = re.compile(r"[\\`*_{}\[\]<>&#|~!@$]")


def write(report: Report) -> str:
    """The text; at most `LIMIT` bytes, however much failed: what is left out is counted."""
    head = "\n".join([*_head(report), ""])
    room = LIMIT - len(_bytes(head)) - 200
    blocks: list[str] = []
    left_out = 0
    for block in _details(report):
        size = len(_bytes(block)) + 1
        if size > room or left_out:
            left_out += 1
        else:
            blocks.append(block)
            room -= size
    if left_out:
        blocks.append(f"\n{left_out} more are in the report as JSON or HTML.\n")
    return "\n".join([head, *blocks])


def _head(report: Report) -> Iterator[str]:
    yield f"### Conformance with SPEC {escape(report.specification.version)}"
    yield ""
    for run in report.runs:
        mark = "✅" if report.conformant(run) else "❌" if _failing(report, run.backend) else "🟡"
        yield f"- {mark} {inline(report.sentence(run), 300)}"
    yield ""
    yield "| chapter | MUST |" + "".join(f" {in_table(run.title, 60)} |" for run in report.runs)
    yield "| --- | ---: |" + " ---: |" * len(report.runs)
    for prefix, title, requirements in report.chapters():
        musts = sum(requirement.level == "MUST" for requirement in requirements)
        cells = "".join(f" {_fraction(report, run.backend, prefix)} |" for run in report.runs)
        yield f"| {escape(prefix)} {escape(title)} | {musts} |{cells}"
    musts = sum(requirement.level == "MUST" for requirement in report.requirements)
    cells = "".join(f" **{_fraction(report, run.backend)}** |" for run in report.runs)
    yield f"| **all** | **{musts}** |{cells}"
    yield ""
    facts = {f"profile {run.profile}, seed {run.seed}, device {run.device}" for run in report.runs}
    yield "; ".join(inline(fact, 120) for fact in sorted(facts)) + ". Met of those that apply."


def _failing(report: Report, backend: str) -> bool:
    return any(record.failed for record in report.of(backend))


def _fraction(report: Report, backend: str, chapter: str = "") -> str:
    met, applicable = report.musts(backend, chapter)
    return f"{met}/{applicable}"


def _details(report: Report) -> Iterator[str]:
    """What fails the run first, so that a limit cuts off what is known already."""
    records = [record for run in report.runs for record in report.of(run.backend)]
    for outcomes in (_NOT_MET, _KNOWN):
        for record in records:
            if record.outcome in outcomes:
                yield _detail(record)


def _detail(record: Record) -> str:
    said = f"{record.evaluations:,} evaluations, seed {record.seed}"
    lines = [
        "<details><summary>"
        f"<b>{html.escape(record.requirement)}</b> {record.outcome} {in_html(record.title, 120)}</summary>",
        "",
        f"> {sentence(record.sentence)}",
        "",
        said,
        "",
    ]
    if record.reason:
        lines += [inline(record.reason, 1_000), ""]
    program = "\n".join(record.steps)
    if record.message not in program:
        program = f"{program}\n\n{_commented(record.message)}".strip()
    if program:
        lines += [fenced(program, _PROGRAM_LIMIT), ""]
    return "\n".join([*lines, "</details>"])


def _commented(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def escape(text: str) -> str:
    """Text of ours on one line, as it is."""
    flat = " ".join(text.split())
    return _FORMATTING.sub(lambda found: f"&#{ord(found[0])};", flat)


def inline(text: str, limit: int) -> str:
    """Text of a backend as a code span, on one line, cut to `limit` characters."""
    flat = _cut(text, limit)
    if not flat:
        return ""
    fence = _fence(flat, 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}"


def in_table(text: str, limit: int) -> str:
    """The same in a table, whose cells a bar would end even within code."""
    return inline(text.replace("|", "\u00a6"), limit)


def in_html(text: str, limit: int) -> str:
    """The same within a block of HTML, where backticks mean nothing."""
    return f"<code>{html.escape(_cut(text, limit))}</code>"


def sentence(text: str) -> str:
    """A sentence of SPEC.md, whose only Markdown is code between backticks."""
    return "".join(
        part if part.startswith("`") else _FORMATTING.sub(lambda found: f"&#{ord(found[0])};", part)
        for part in re.split(r"(`[^`]+`)", " ".join(text.split()))
    )


def _cut(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[:limit]} .."


def _fence(text: str, least: int) -> str:
    """More backticks than stand in a row anywhere in a text."""
    return "`" * max(least, 1 + max(map(len, re.findall(r"`+", text)), default=0))


def fenced(text: str, limit: int) -> str:
    """A block of Python, behind a fence that nothing in it can close."""
    shown = text if len(text) <= limit else f"{text[:limit]}\n# .. cut off"
    fence = _fence(shown, 3)
    return f"{fence}python\n{shown}\n{fence}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
