"""`python benchmarks/report.py TIMINGS.json`: the claims in one run, and the documents of the last measurement.

Prints each goal with its ratio, writes the table and the plot of the timings that pytest-benchmark has left, and ends
with exit code 1 if a goal falls short.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import os
import platform
from pathlib import Path

import torch
from storage_benchmarks.goals import Claims, measured
from storage_benchmarks.memory import CAPACITY, resident
from storage_benchmarks.plot import throughput
from storage_benchmarks.table import Timing, comparison, markdown, timings

HERE = Path(__file__).parent
STORAGES = ("reference", "torchrl", "torchrl-memmap")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("timings", type=Path, nargs="?", help="what --benchmark-json has written")
    parser.add_argument("--threads", type=int, default=1, help="of torch, for the goals")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # TorchRL logs each storage that it makes
    torch.set_num_threads(arguments.threads)
    before = _pinned() if arguments.threads == 1 else None
    claims = measured()
    if before is not None:
        os.sched_setaffinity(0, before)
    for line in [*claims.goals, *(f"note  {note}" for note in claims.notes)]:
        print(line)
    if arguments.timings:
        _document(timings(arguments.timings), claims)
    return 0 if claims.met else 1


def _pinned() -> set[int] | None:
    """Keeps this process on one core, where the system can: a move to another one empties its caches."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    return before


def _document(found: list[Timing], claims: Claims) -> None:
    (HERE / "throughput.svg").write_text(throughput(found), encoding="utf-8")
    sections = {
        "goals": f"{machine()}\n\n```\n{_goals(claims)}\n```",
        "table": f"{machine()}\n\n{comparison(found)}",
        "memory": f"{machine()}\n\n{_memory()}",
    }
    filled_in(HERE / "README.md", sections)
    few = [timing for timing in found if timing.info.get("record") == "small" and _shown(timing)]
    filled_in(HERE.parent / "README.md", {"speed": f"{comparison(few)}\n\n{machine()}"})


def _shown(timing: Timing) -> bool:
    info = timing.info
    return info["rows"] == info["capacity"] and info["device"] == "cpu" and info["batch"] in (1, 256)


def _goals(claims: Claims) -> str:
    return "\n".join([*map(str, claims.goals), *(f"note  {note}" for note in claims.notes)])


def _memory() -> str:
    rows = []
    for name in STORAGES:
        grown = resident(name)
        if grown is not None:
            rows.append([name, *(f"{mebibytes:,.1f}" for mebibytes in grown.values())])
    return markdown([f"MiB, {CAPACITY:,} small rows", "construct", "first write of 256 rows", "full"], rows)


def machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{today}, {platform.machine()}, {cores} cores, {platform.system()}, Python {platform.python_version()}, "
        f"torch {torch.__version__.partition('+')[0]}, one thread unless it says otherwise."
    )


def filled_in(path: Path, sections: dict[str, str]) -> None:
    """Replaces what stands between ``<!-- name -->`` and ``<!-- end of name -->``."""
    text = path.read_text(encoding="utf-8")
    for name, content in sections.items():
        head, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        if not start or not end:
            raise SystemExit(f"{path}: there is no <!-- {name} --> with its <!-- end of {name} -->.")
        text = f"{head}{start}\n{content}\n\n{end}{tail}"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
