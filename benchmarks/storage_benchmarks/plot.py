"""Throughput against bytes per write, as SVG: both axes logarithmic, with the bandwidth of the machine as a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from .records import FLOATS, FRAMES, MEBIBYTE
from .subjects import PEER_SUBJECTS
from .table import Timing

Point = tuple[float, float]

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 72, 32, 40, 48
COLOURS = {
    "reference": "#1f77b4",
    "torchrl": "#d62728",
    "torchrl-memmap": "#ff7f0e",
    "bare torch": "#7f7f7f",
}
OTHERS = ("#2ca02c", "#9467bd", "#8c564b", "#e377c2")
DASHES = {"slice": "", "scattered": "5 4"}


def throughput(found: Iterable[Timing]) -> str:
    """One line for each storage and each of slices and scattered rows."""
    lines: dict[tuple[str, str], list[Point]] = {}
    bandwidth = 0.0
    for timing in found:
        info = timing.info
        if info["subject"] == "bandwidth":
            bandwidth = info["bytes"] / timing.median * 1e6
        elif _is_drawn(info):
            point = (info["bytes"], info["bytes"] / timing.median * 1e6)
            lines.setdefault((info["subject"], info["cursor"]), []).append(point)
    drawn = {key: _best(points) for key, points in lines.items()}
    return _svg(drawn, bandwidth)


def _is_drawn(info: dict[str, Any]) -> bool:
    """Writes of one or two leaves to full storages on the CPU; with more leaves that counts more than the bytes."""
    return (
        info["what"] == "write"
        and info["record"] in (FLOATS.name, MEBIBYTE.name, FRAMES.name)
        and info.get("cursor") in DASHES
        and info["rows"] == info["capacity"]
        and info["device"] == "cpu"
        and info["subject"] not in PEER_SUBJECTS
    )


def _best(points: Iterable[Point]) -> list[Point]:
    """By size; where two records have the same bytes the quicker one."""
    best: dict[float, float] = {}
    for size, rate in points:
        best[size] = max(rate, best.get(size, 0))
    return sorted(best.items())


def _svg(lines: dict[tuple[str, str], list[Point]], bandwidth: float) -> str:
    points = [point for line in lines.values() for point in line]
    sizes, rates = _decades(size for size, _ in points), _decades([*(rate for _, rate in points), bandwidth])

    def at(point: Point) -> str:
        x = LEFT + (math.log10(point[0]) - sizes[0]) / (sizes[-1] - sizes[0]) * (WIDTH - LEFT - RIGHT)
        y = (
            HEIGHT
            - BOTTOM
            - (math.log10(point[1]) - rates[0]) / (rates[-1] - rates[0]) * (HEIGHT - TOP - BOTTOM)
        )
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">Bytes written per second against bytes per write '
        "(dashed: scattered rows)</text>",
    ]
    for power in sizes:
        x, y = at((10**power, 10 ** rates[0])).split(",")
        parts.append(f'<path d="M{x},{TOP} V{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{HEIGHT - 26}" text-anchor="middle">{_bytes(10**power)}</text>')
    for power in rates:
        x, y = at((10 ** sizes[0], 10**power)).split(",")
        parts.append(f'<path d="M{x},{y} H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{float(y) + 4}" text-anchor="end">{_bytes(10**power)}/s</text>'
        )
    if bandwidth:
        line = f"{at((10 ** sizes[0], bandwidth))} {at((10 ** sizes[-1], bandwidth))}"
        parts.append(f'<polyline points="{line}" stroke="black" stroke-width="1.5" stroke-dasharray="2 3"/>')
    colours = _colours([subject for subject, _ in lines])
    for (subject, cursor), line_points in lines.items():
        parts.append(
            f'<polyline points="{" ".join(map(at, line_points))}" fill="none" stroke="{colours[subject]}" '
            f'stroke-width="2" stroke-dasharray="{DASHES[cursor]}"><title>{escape(subject)}, {cursor}</title>'
            "</polyline>"
        )
    legend = [*colours.items(), *([("one thread copying 64 MiB", "black")] if bandwidth else [])]
    for place, (subject, colour) in enumerate(legend):
        x, y = WIDTH - RIGHT - 210, HEIGHT - BOTTOM - 12 - 17 * (len(legend) - 1 - place)
        parts.append(f'<path d="M{x},{y - 4} h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{escape(subject)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _colours(subjects: Sequence[str]) -> dict[str, str]:
    unknown = [name for name in dict.fromkeys(subjects) if name not in COLOURS]
    return {
        name: COLOURS.get(name) or OTHERS[unknown.index(name) % len(OTHERS)]
        for name in dict.fromkeys(subjects)
    }


def _decades(values: Iterable[float]) -> list[int]:
    logs = [math.log10(value) for value in values if value > 0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return list(range(low, max(high, low + 1) + 1))


def _bytes(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count:g} B"
