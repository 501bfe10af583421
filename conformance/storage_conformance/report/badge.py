"""The report as an SVG badge: a line for each backend."""

from __future__ import annotations

import re
from html import escape

from storage_conformance.report.report import Report, Run

__all__ = ["write"]

_GREEN, _AMBER, _RED, _GREY = "#2a7d33", "#8a6100", "#b3261e", "#555"  # 4.5 to 1 and more beneath white
_HEIGHT = 20
_LONGEST = 40
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(report: Report) -> str:
    """The text of the file."""
    lines = [
        (_cut(f"{run.backend}, SPEC {report.specification.version}"), *_said(report, run))
        for run in report.runs
    ]
    left = max((_width(label) for label, _, _ in lines), default=0)
    right = max((_width(said) for _, said, _ in lines), default=0)
    title = "; ".join(f"{label}: {said}" for label, said, _ in lines)
    size = f'width="{left + right}" height="{_HEIGHT * len(lines)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_xml(title)}">',
        f"<title>{_xml(title)}</title>",
        '<g font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11" fill="#fff" text-anchor="middle">',
    ]
    for n, (label, said, colour) in enumerate(lines):
        top = n * _HEIGHT
        parts += [
            f'<rect y="{top}" width="{left}" height="{_HEIGHT}" fill="{_GREY}"/>',
            f'<rect x="{left}" y="{top}" width="{right}" height="{_HEIGHT}" fill="{colour}"/>',
            _text(label, left / 2, top),
            _text(said, left + right / 2, top),
        ]
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _said(report: Report, run: Run) -> tuple[str, str]:
    met, applicable = report.musts(run.backend)
    failing = any(record.failed for record in report.of(run.backend))
    if report.conformant(run):
        return "conformant", _GREEN
    return f"{met} of {applicable} MUST", _RED if failing else _AMBER


def _text(text: str, middle: float, top: int) -> str:
    length = f'textLength="{_width(text) - 12}" lengthAdjust="spacingAndGlyphs"'  # whatever font there is
    return f'<text x="{middle:g}" y="{top + 14}" {length}>{_xml(text)}</text>'


def _width(text: str) -> int:
    return 12 + 7 * len(text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]}.."


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
