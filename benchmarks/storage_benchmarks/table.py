"""What pytest-benchmark has measured, as one table: a line for each case, a column for each subject."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Attributes: what was measured (`info`, as `conftest` wrote it), and the median in microseconds."""

    info: dict[str, Any]
    median: float

    @property
    def case(self) -> str:
        info = self.info
        if "record" not in info:
            return str(info["what"])
        told = f"{info['what']} {_rows(info['batch'])} of {info['record']}"
        if info["cursor"] == "row":
            told = f"{info['what']} one item of {info['record']}"
        elif info["what"] == "write":
            told += f", {info['cursor']}"
        if info["rows"] != info["capacity"]:
            told += f", {100 * info['rows'] / info['capacity']:g} % full"
        return told if info["device"] == "cpu" else f"{told}, {info['device']}"


def timings(path: Path) -> list[Timing]:
    """Those of a file that ``--benchmark-json`` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    return [Timing(each["extra_info"], each["stats"]["median"] * 1e6) for each in found]


def comparison(found: Iterable[Timing]) -> str:
    """Markdown; an empty cell is a subject that does not do that, or is not installed."""
    cells: dict[str, dict[str, float]] = {}
    subjects: dict[str, None] = {}
    for timing in found:
        if timing.info["subject"] != "bandwidth":
            cells.setdefault(timing.case, {})[timing.info["subject"]] = timing.median
            subjects.setdefault(timing.info["subject"])
    lines = [
        [case, *(_microseconds(row.get(subject)) for subject in subjects)] for case, row in cells.items()
    ]
    return markdown(["median, microseconds", *subjects], lines)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruler = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ruler, *lines])


def _microseconds(taken: float | None) -> str:
    if taken is None:
        return ""
    return f"{taken:,.1f}" if taken < 1000 else f"{taken:,.0f}"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
