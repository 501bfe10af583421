"""Shows that each mutant is caught: ``python -m storage_conformance.mutants.matrix``.

For each mutant the checks and the machine hunt for the requirements that it declares, in the quick profile; with
``--whole`` for all requirements, which takes hours, and tells besides who else noticed. A mutant that is not caught,
and with ``--whole`` one that is noticed by a requirement it does not declare, fails the run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from storage_conformance.campaign import Campaign
from storage_conformance.mutants import load_mutants
from storage_conformance.mutants.mutant import FEATURES, Mutant
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification

__all__ = ["Trial", "main", "rendered", "summary", "tried"]

LIFE = 40
"""Mutants for one process, which then makes room for another: nothing of theirs can pile up."""


@dataclass(frozen=True)
class Trial:
    """What one mutant met.

    Attributes:
        name: the mutant.
        fires: the requirements that have to catch it.
        may: those that may notice it as well.
        noticed: those that did, of those looked at.
        evaluations: of the requirements that have to catch it, in all.
        seconds: of processor time.
    """

    name: str
    fires: tuple[str, ...]
    may: frozenset[str]
    noticed: frozenset[str]
    evaluations: int
    seconds: float

    @property
    def missed(self) -> list[str]:
        return [requirement for requirement in self.fires if requirement not in self.noticed]

    @property
    def undeclared(self) -> list[str]:
        return sorted(self.noticed - {*self.fires} - self.may)


def tried(name: str, seed: int, *, whole: bool) -> Trial:
    """Hunts one mutant."""
    mutant = load_mutants()[name]
    wanted = frozenset(_all_of(mutant) if whole else mutant.fires)
    started = time.process_time()
    with Campaign(
        mutant.backend(), selected=wanted, profile=PROFILES["quick"], seed=seed, expected=wanted
    ) as campaign:
        findings = {requirement: campaign.finding(requirement) for requirement in sorted(wanted)}
    return Trial(
        name=name,
        fires=mutant.fires,
        may=mutant.may_fire,
        noticed=frozenset(r for r, finding in findings.items() if finding.failure is not None),
        evaluations=sum(findings[requirement].evaluations for requirement in mutant.fires),
        seconds=time.process_time() - started,
    )


def _all_of(mutant: Mutant) -> Iterable[str]:
    return (
        requirement.id
        for requirement in specification().requirements.values()
        if requirement.level != "MAY" and set(requirement.features) <= FEATURES
    )


def rendered(trials: Sequence[Trial]) -> str:
    """The matrix in Markdown: a line for each mutant; ``may`` are those that noticed it as well."""
    lines = [
        "| mutant | must catch it | did not | also noticed | undeclared | evaluations | seconds |",
        "| --- | --- | --- | --- | --- | ---: | ---: |",
    ]
    for trial in sorted(trials, key=lambda trial: (trial.fires, trial.name)):
        also = ", ".join(sorted(trial.noticed & trial.may))
        lines.append(
            f"| {trial.name} | {', '.join(trial.fires)} | {', '.join(trial.missed)} | {also} "
            f"| {', '.join(trial.undeclared)} | {trial.evaluations:,} | {trial.seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


def summary(trials: Sequence[Trial]) -> list[str]:
    """What a person wants to know first."""
    known = specification().requirements
    chapters: dict[str, list[Trial]] = {}
    for trial in trials:
        chapters.setdefault(known[trial.fires[0]].chapter, []).append(trial)
    lines = ["chapter  mutants  caught  requirements"]
    for chapter in specification().chapters:
        if found := chapters.get(chapter):
            caught = sum(not trial.missed for trial in found)
            shown = {requirement for trial in found for requirement in trial.fires}
            lines.append(f"{chapter:<7}  {len(found):>7}  {caught:>6}  {len(shown):>12}")
    caught = sum(not trial.missed for trial in trials)
    evaluations = [trial.evaluations for trial in trials]
    seconds = [trial.seconds for trial in trials]
    lines += [
        f"{'all':<7}  {len(trials):>7}  {caught:>6}",
        "",
        f"evaluations: median {statistics.median(evaluations):,.0f}, most {max(evaluations):,}; "
        f"seconds: median {statistics.median(seconds):.2f}, most {max(seconds):.1f}",
    ]
    return lines


def _all_tried(names: Sequence[str], options: argparse.Namespace) -> list[Trial]:
    # Fresh interpreters: a fork would copy half of torch's threads. Not max_tasks_per_child, with which Python 3.11 may
    # wait for ever.
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(tried, name, options.seed, whole=options.whole) for name in names]
        found: list[Trial] = []
        for name, future in zip(names, waiting, strict=True):
            try:
                found.append(future.result())
            except Exception as error:
                raise SystemExit(f"{name} could not be tried: {type(error).__name__}: {error}") from error
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 0 if all went as declared."""
    parser = argparse.ArgumentParser(prog="python -m storage_conformance.mutants.matrix", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="decides every draw")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--whole", action="store_true", help="look at all requirements (hours)")
    parser.add_argument("--sample", type=int, help="so many mutants only, drawn by the seed")
    parser.add_argument("--output", type=Path, help="where to write the matrix, in Markdown")
    options = parser.parse_args(arguments)

    known = specification().requirements
    names = sorted(
        name
        for name, mutant in load_mutants().items()
        if "accelerator" not in known[mutant.fires[0]].features  # these need a process with a second device
    )
    if options.sample:
        names = sorted(Random(options.seed).sample(names, min(options.sample, len(names))))
    trials: list[Trial] = []
    share = LIFE * options.jobs
    for first in range(0, len(names), share):
        trials += _all_tried(names[first : first + share], options)
        print(f"{len(trials)} of {len(names)} mutants", file=sys.stderr, flush=True)

    print(
        f"mutants, seed {options.seed}, {'all requirements' if options.whole else 'what has to catch them'}"
    )
    print("\n".join(summary(trials)))
    if options.output:
        options.output.write_text(rendered(trials))
    wrong = False
    for trial in trials:
        if trial.missed:
            wrong = True
            print(f"{trial.name} is not caught by {', '.join(trial.missed)}")
        if trial.undeclared:
            wrong = True
            print(f"{trial.name} is noticed by {', '.join(trial.undeclared)}, which it does not declare")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
