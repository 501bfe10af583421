"""The report as one page of HTML that needs nothing else: requirements down, backends across.

The table is complete without scripts; these filter it and show what is known about a cell. Texts of backends are
escaped in the table, travel as JSON besides, and are shown as text nodes; a content security policy admits nothing but
the style and the script that stand here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from storage_conformance.report.records import Record
from storage_conformance.report.report import Report, Run
from storage_conformance.requirements import Requirement

__all__ = ["write"]

_NOT_RUN = "not run"
_LOOKS = {"pass": "pass", "deviation": "known", "unmet": "known", "not claimed": "none", _NOT_RUN: "none"}


def write(report: Report) -> str:
    """The text of the page."""
    style, script = _shipped("page.css"), _shipped("page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    titles = ", ".join(run.title for run in report.runs)
    title = escape(f"Conformance with SPEC {report.specification.version}: {titles}")
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        '<a class="skip" href="#sheet">Skip to the table</a>',
        "<header>",
        f"<h1>Conformance with SPEC {escape(report.specification.version)}</h1>",
        *_verdicts(report),
        "</header>",
        "<main>",
        *_filters(report),
        *_table(report),
        "</main>",
        '<dialog id="detail" aria-labelledby="heading"><header><h2 id="heading"></h2>',
        '<button id="close" type="button">Close</button></header><div id="body"></div></dialog>',
        f'<script type="application/json" id="facts">{_facts(report)}</script>',
        f"<script>{script}</script>",
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(lines)


def _verdicts(report: Report) -> Iterator[str]:
    yield '<ul class="verdicts">'
    for run in report.runs:
        facts = f"profile {run.profile}, seed {run.seed}, device {run.device}"
        yield f'<li>{escape(report.sentence(run))} <span class="facts">{escape(facts)}</span></li>'
    yield "</ul>"


def _filters(report: Report) -> Iterator[str]:
    yield '<form id="filters" aria-label="Filters">'
    yield '<label>Chapter <select id="chapter"><option value="">all</option>'
    for prefix, title, _ in report.chapters():
        yield f'<option value="{escape(prefix)}">{escape(prefix)} {escape(title)}</option>'
    yield '</select></label><label>Status <select id="status"><option value="">any</option>'
    seen = {_outcome(report.record(run.backend, r.id)) for run in report.runs for r in report.requirements}
    yield from (f'<option value="{outcome}">{outcome}</option>' for outcome in sorted(seen))
    yield '</select></label><button type="reset">Show all</button></form>'
    yield '<p id="count" role="status" class="facts"></p>'
    yield '<noscript><p class="facts">Filters and details need JavaScript.</p></noscript>'


def _table(report: Report) -> Iterator[str]:
    yield '<div class="sheet" id="sheet" role="region" aria-label="Requirements by backend" tabindex="0">'
    yield "<table><caption><span>Activate a cell for its details; arrow keys move between cells.</span></caption>"
    heads = "".join(f'<th scope="col">{escape(run.title)}</th>' for run in report.runs)
    yield f'<thead><tr><th scope="col">Requirement</th>{heads}</tr></thead>'
    number = {(record.backend, record.requirement): n for n, record in enumerate(report.records)}
    for prefix, title, requirements in report.chapters():
        yield f'<tbody data-chapter="{escape(prefix)}">'
        sums = (report.musts(run.backend, prefix) for run in report.runs)
        cells = "".join(f'<td class="sum">{met} of {applicable} MUST</td>' for met, applicable in sums)
        yield f'<tr><th scope="rowgroup">{escape(prefix)} {escape(title)}</th>{cells}</tr>'
        for requirement in requirements:
            yield _row(report, requirement, number)
        yield "</tbody>"
    yield "</table></div>"


def _row(report: Report, requirement: Requirement, number: dict[tuple[str, str], int]) -> str:
    records = [(run, report.record(run.backend, requirement.id)) for run in report.runs]
    statuses = "|".join(sorted({_outcome(record) for _, record in records}))
    identifier = escape(requirement.id)
    head = (
        f'<th scope="row" id="{identifier}"><span class="id">{identifier}</span> '
        f'<span class="level">{escape(requirement.level)}</span> '
        f'<span class="sentence">{_prose(requirement.sentence)}</span></th>'
    )
    cells = "".join(
        _cell(run, requirement, record, number.get((run.backend, requirement.id))) for run, record in records
    )
    return f'<tr data-statuses="{statuses}">{head}{cells}</tr>'


def _cell(run: Run, requirement: Requirement, record: Record | None, number: int | None) -> str:
    outcome = _outcome(record)
    if record is None:
        return f'<td><span class="none">{outcome}</span></td>'
    label = escape(f"{outcome}: {requirement.id} on {run.title}")
    look = _LOOKS.get(outcome, "bad")
    return (
        f'<td><button type="button" class="{look}" data-n="{number}" aria-haspopup="dialog" '
        f'aria-label="{label}">{outcome}</button></td>'
    )


def _facts(report: Report) -> str:
    """What the script shows, as JSON that cannot end its element."""
    facts: dict[str, Any] = {
        "count": len(report.requirements),
        "requirements": {r.id: {"sentence": r.sentence, "why": r.why} for r in report.requirements},
        "backends": {
            run.backend: {
                "title": run.title,
                "seed": str(run.seed),  # JavaScript's numbers end at 2**53
                "profile": run.profile,
                "device": run.device,
            }
            for run in report.runs
        },
        "results": [
            {
                "requirement": record.requirement,
                "backend": record.backend,
                "outcome": record.outcome,
                "evaluations": record.evaluations,
                "reason": record.reason,
                "message": record.message,
                "steps": record.steps,
                "shrunk": record.shrunk,
                "script": record.script,
            }
            for record in report.records
        ],
    }
    text = json.dumps(facts, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _outcome(record: Record | None) -> str:
    return _NOT_RUN if record is None else record.outcome


def _prose(text: str) -> str:
    """A sentence of SPEC.md, in which backticks mark code."""
    parts = (escape(part) for part in text.split("`"))
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _shipped(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
