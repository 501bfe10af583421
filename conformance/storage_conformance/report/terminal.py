"""The report at the end of a run, as lines of text; the plugin only prints them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from storage_conformance.report.records import Record
from storage_conformance.report.summary import summarize
from storage_conformance.requirements import Specification

__all__ = ["Line", "failure_lines", "render"]

Style = Literal["", "heading", "bold", "red", "green", "yellow"]

_FAILING_WORDS = {"fail": "FAIL", "stale": "STALE", "wrong exception": "WRONG EXCEPTION"}


@dataclass(frozen=True)
class Line:
    """A line and how it looks; a heading is drawn across the terminal."""

    text: str
    style: Style = ""


def render(
    records: Iterable[Record], specification: Specification, *, backends: Sequence[str], width: int = 80
) -> list[Line]:
    """The whole report.

    Args:
        records: of all backends, in any order.
        specification: whose chapters and order the report follows.
        backends: names in the order in which they are shown.
        width: columns of the terminal.
    """
    rank = {requirement.id: n for n, requirement in enumerate(specification.ordered())}
    order = {name: n for n, name in enumerate(backends)}
    ordered = sorted(
        records, key=lambda r: (order.get(r.backend, len(order)), rank.get(r.requirement, len(rank)))
    )
    if not ordered:
        return []
    by_backend: dict[str, list[Record]] = {}
    for record in ordered:
        by_backend.setdefault(record.backend, []).append(record)
    first = ordered[0]
    titles = ", ".join(found[0].title for found in by_backend.values())
    lines = [
        Line(f"conformance with SPEC {first.spec}", "heading"),
        Line(f"profile {first.profile}, seed {first.seed}, {titles}"),
        Line(""),
    ]
    if len(by_backend) == 1:
        lines += _table(ordered, specification, width)
    else:
        lines += _matrix(by_backend, specification, width)
    lines += _failures(ordered, width)
    lines += _deviations(ordered, width)
    lines += _unmet(ordered, width)
    lines += _grouped("not exercised", [r for r in ordered if r.outcome == "not exercised"], width)
    lines += _grouped("not claimed, not tested", [r for r in ordered if r.outcome == "not claimed"], width)
    lines.append(Line(""))
    for found in by_backend.values():
        summary = summarize(found, specification)
        failing = any(record.failed for record in found)
        style: Style = "red" if failing else "green" if summary.conformant else "yellow"
        lines.append(Line(summary.sentence, style))  # never wrapped: people search for it
    return lines


def failure_lines(record: Record, width: int = 80) -> list[str]:
    """A requirement that is not met: its sentence, how often it was evaluated, the program and what came of it."""
    word = _FAILING_WORDS.get(record.outcome, record.outcome.upper())
    facts = f"{record.evaluations:,} evaluations"
    if record.steps:
        how = "shrunk to " if record.shrunk else ""
        facts += f", {how}{len(record.steps)} step{'' if len(record.steps) == 1 else 's'}"
    facts += f", seed {record.seed}"
    head = f"{record.requirement}  {word}  {record.title}"
    quoted = f'"{record.sentence}"'
    one = f"{head}   {quoted}   {facts}"
    lines = [one] if len(one) <= width else [f"{head}   {facts}", *_wrapped(quoted, width, indent="  ")]
    if record.reason:
        lines += _wrapped(record.reason, width, indent="  ")
    lines += [f"    {line}" for step in record.steps for line in step.splitlines()]
    # Campaigns close a program with a comment on what came of it: once is enough.
    if not record.steps or record.message not in record.steps[-1]:
        lines += [f"    {line}" for line in record.message.splitlines()]
    return lines


_COLUMNS: tuple[tuple[tuple[str, str], Callable[[list[Record]], str]], ...] = (
    (("", "MUST"), lambda found: _passed(found)),
    (("", "failed"), lambda found: _count(found, "fail", "stale", "wrong exception", "error")),
    (("known", "deviations"), lambda found: _count(found, "deviation")),
    (("not", "exercised"), lambda found: _count(found, "not exercised")),
    (("not", "claimed"), lambda found: _count(found, "not claimed")),
    (("", "evaluations"), lambda found: f"{sum(record.evaluations for record in found):,}"),
)

_NOT_IF_EMPTY = ("deviations", "exercised", "claimed")
"""Columns left out of a table where they say nothing: 80 columns then have room for the titles."""


def _table(records: list[Record], specification: Specification, width: int) -> list[Line]:
    """One backend: chapter by chapter, with a column for each outcome."""
    columns = [
        (names, cell) for names, cell in _COLUMNS if names[1] not in _NOT_IF_EMPTY or cell(records) != "0"
    ]
    rows = [
        (prefix, title, [cell(found) for _, cell in columns])
        for prefix, title, found in _chapters(records, specification)
    ]
    rows.append(("all", "", [cell(records) for _, cell in columns]))
    return _grid([names for names, _ in columns], rows, width)


def _matrix(by_backend: dict[str, list[Record]], specification: Specification, width: int) -> list[Line]:
    """Several backends: chapter by backend, with what is met of each chapter's MUST, and the other counts below."""
    everything = [record for found in by_backend.values() for record in found]
    rows = [
        (prefix, title, [_passed([r for r in found if r.backend == name]) for name in by_backend])
        for prefix, title, found in _chapters(everything, specification)
    ]
    for (above, below), cell in _COLUMNS:
        rows.append(("all", f"{above} {below}".strip(), [cell(found) for found in by_backend.values()]))
    heads = [(name, found[0].version) for name, found in by_backend.items()]
    return _grid(heads, rows, width)


def _chapters(records: list[Record], specification: Specification) -> Iterator[tuple[str, str, list[Record]]]:
    for prefix, title in specification.chapters.items():
        if found := [record for record in records if record.chapter == prefix]:
            yield prefix, title, found


def _grid(heads: Sequence[tuple[str, str]], rows: list[tuple[str, str, list[str]]], width: int) -> list[Line]:
    widths = [
        max(len(above), len(below), *(len(cells[column]) for _, _, cells in rows))
        for column, (above, below) in enumerate(heads)
    ]
    prefixes = max(len(prefix) for prefix, _, _ in rows)
    numbers = sum(widths) + 2 * len(widths)
    room = max(0, min(max(len(title) for _, title, _ in rows), width - numbers - prefixes - 3))
    left = prefixes + 2 + room

    def line(start: str, cells: Iterable[str]) -> str:
        texts = (f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        return (start.ljust(left) + "".join(texts)).rstrip()

    above = line("", (above for above, _ in heads))
    lines = [Line(above, "bold")] if above else []
    lines.append(Line(line("chapter", (below for _, below in heads)), "bold"))
    for prefix, title, cells in rows:
        lines.append(
            Line(line(f"{prefix:<{prefixes}}  {_cut(title, room)}", cells), "bold" if prefix == "all" else "")
        )
    return lines


def _failures(records: list[Record], width: int) -> Iterator[Line]:
    for record in records:
        if record.outcome in _FAILING_WORDS:
            head, *rest = failure_lines(record, width)
            yield Line("")
            yield Line(head, "red")
            yield from (Line(text) for text in rest)
    for record in records:
        if record.outcome == "error":
            yield Line("")
            yield Line(
                f"{record.requirement}  ERROR  {record.title}   the suite itself failed, see ERRORS", "red"
            )


def _deviations(records: list[Record], width: int) -> Iterator[Line]:
    found = [record for record in records if record.outcome == "deviation"]
    if found:
        yield from _section("known deviations", found, width, lambda record: record.reason)


def _unmet(records: list[Record], width: int) -> Iterator[Line]:
    found = [record for record in records if record.outcome == "unmet"]
    if found:
        yield from _section("SHOULD, but does not", found, width, _sentence_and_message)


def _sentence_and_message(record: Record) -> str:
    return f'"{record.sentence}" {" ".join(record.message.split())}'.strip()


def _section(title: str, records: list[Record], width: int, text: Callable[[Record], str]) -> Iterator[Line]:
    """A list of requirements, each with a text that hangs beside its id."""
    yield Line("")
    yield Line(f"{title} ({len(records)})", "bold")
    several = len({record.backend for record in records}) > 1
    labels = [f"{r.requirement}  {r.backend}" if several else r.requirement for r in records]
    column = max(map(len, labels)) + 4
    for record, label in zip(records, labels, strict=True):
        wrapped = _wrapped(text(record), width, indent=" " * column) or [""]
        yield Line(f"  {label}".ljust(column) + wrapped[0][column:])
        yield from (Line(more) for more in wrapped[1:])


def _grouped(title: str, records: list[Record], width: int) -> Iterator[Line]:
    """Ids under the reason that they share, once for all backends that share them."""
    if not records:
        return
    yield Line("")
    yield Line(f"{title} ({len(records)})", "bold")
    ids: dict[tuple[str, str], list[str]] = {}
    for record in records:
        ids.setdefault((record.reason, record.backend), []).append(record.requirement)
    backends: dict[tuple[str, str], list[str]] = {}
    for (reason, backend), found in ids.items():
        backends.setdefault((reason, ", ".join(found)), []).append(backend)
    several = len({record.backend for record in records}) > 1
    for (reason, named), sharing in backends.items():
        start = f"{', '.join(sharing)}: " if several else ""
        head, *rest = _wrapped(f"{start}{reason}: {named}", width, indent="    ")
        yield Line(head[2:])
        yield from (Line(text) for text in rest)


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        max(width - 1, len(indent) + 20),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 2)] + ".."[:room]


def _passed(records: list[Record]) -> str:
    applicable = [record for record in records if record.level == "MUST" and record.outcome != "not claimed"]
    return f"{sum(record.outcome == 'pass' for record in applicable)}/{len(applicable)}"


def _count(records: list[Record], *outcomes: str) -> str:
    return str(sum(record.outcome in outcomes for record in records))
