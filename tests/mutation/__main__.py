"""Changes the reference's own source, one place at a time, and sees whether the conformance suite notices.

``make mutation ARGS="--sample 100 --seed 3"``. What nothing noticed must stand in ``equivalent.toml`` with the reason
why nobody could notice it through the public interface; anything else fails the run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

import torch
from candidates import Candidate, changed, find, sampled
from judge import STAGES, Verdict, judged

from storage_conformance.campaign import load_checks

PACKAGE = Path(__file__).parents[2] / "reference" / "lazy_tensor_storage"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 0 if every survivor is known to be equivalent."""
    parser = argparse.ArgumentParser(prog="make mutation ARGS=...", description=__doc__)
    parser.add_argument("--sample", type=int, default=300, help="places to change")
    parser.add_argument("--seed", type=int, default=0, help="decides which")
    parser.add_argument("--module", action="append", help="only these files")
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time for one campaign")
    parser.add_argument("--part", default="1/1", help="the first of two parts is 1/2")
    parser.add_argument("--results", type=Path, help="a file that a run which was stopped goes on from")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    load_checks()  # before the first child, for all of them
    found = [c for c in find(PACKAGE) if not options.module or c.module in options.module]
    chosen = sampled(found, options.sample, options.seed)
    part, parts = map(int, options.part.split("/"))
    known = {_key(entry): entry["why"] for entry in _equivalent()}
    done = _read(options.results)
    outcomes: list[tuple[Candidate, Verdict, str]] = []
    for candidate in chosen[part - 1 :: parts]:
        source = changed(PACKAGE, candidate)
        name = json.dumps([candidate.module, candidate.operator, candidate.occurrence])
        verdict = done.get(name) or judged(
            PACKAGE, candidate.module, source, limit=options.limit, stages=tuple(STAGES)
        )
        if options.results and name not in done:
            with options.results.open("a") as file:
                file.write(f"{name}\t{verdict.by}\t{verdict.seconds:.1f}\n")
        why = known.get((candidate.module, candidate.function, candidate.line, candidate.operator), "")
        outcomes.append((candidate, verdict, why))
        if not verdict.by:
            _show(candidate, source, why)
    return _report(outcomes)


def _show(candidate: Candidate, source: str, why: str) -> None:
    before = (PACKAGE / candidate.module).read_text(encoding="utf-8").splitlines()
    diff = list(unified_diff(before, source.splitlines(), lineterm="", n=0))[3:]
    print(
        f"survived: {candidate.module}:{candidate.number} {candidate.function} {candidate.operator}",
        *diff,
        sep="\n  ",
    )
    print(f"  equivalent: {why}" if why else "  not known to be equivalent", flush=True)


def _report(outcomes: Sequence[tuple[Candidate, Verdict, str]]) -> int:
    print(f"{'module':<16} changed  noticed  equivalent  survived")
    modules = sorted({candidate.module for candidate, _, _ in outcomes})
    for module in [*modules, "all"]:
        here = [outcome for outcome in outcomes if module in (outcome[0].module, "all")]
        noticed = sum(bool(verdict.by) for _, verdict, _ in here)
        equivalent = sum(bool(why) and not verdict.by for _, verdict, why in here)
        print(
            f"{module:<16} {len(here):>7}  {noticed:>7}  {equivalent:>10}  {len(here) - noticed - equivalent:>8}"
        )
    by = Counter(verdict.by for _, verdict, _ in outcomes if verdict.by)
    print("noticed most often by", ", ".join(f"{name} {count}" for name, count in by.most_common(12)))
    return int(any(not verdict.by and not why for _, verdict, why in outcomes))


def _equivalent() -> list[dict[str, str]]:
    return list(tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("change", ()))


def _key(entry: dict[str, str]) -> tuple[str, str, str, str]:
    return entry["module"], entry["function"], entry["line"], entry["operator"]


def _read(path: Path | None) -> dict[str, Verdict]:
    if path is None or not path.exists():
        return {}
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return {name: Verdict(by, float(seconds)) for name, by, seconds in rows}


if __name__ == "__main__":
    started = time.monotonic()
    code = main()
    print(f"{time.monotonic() - started:.0f} s")
    sys.exit(code)
