"""Reports of several runs as one, and what changed from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from storage_conformance.report.records import Record
from storage_conformance.report.report import Report, Run, UnusableReport

__all__ = ["Change", "Comparison", "compare", "merge"]


def merge(reports: Sequence[tuple[str, Report]]) -> Report:
    """One report of all backends and results; parts of one run (by `-k`, say) come together again.

    Args:
        reports: each with the name that error messages call it.

    Raises:
        UnusableReport: they are of different specifications, or disagree about one backend.
    """
    (first_name, first), *others = reports
    runs = {run.backend: (first_name, run) for run in first.runs}
    records = {(record.backend, record.requirement): (first_name, record) for record in first.records}
    for name, report in others:
        if report.specification != first.specification:
            raise UnusableReport(
                f"{first_name} is about SPEC {first.specification.version}, {name} about SPEC "
                f"{report.specification.version} or other sentences of it: check both with the same version."
            )
        for run in report.runs:
            runs[run.backend] = (name, _joined(runs.get(run.backend), name, run))
        for record in report.records:
            pair = record.backend, record.requirement
            if pair in records and records[pair][1] != record:
                raise UnusableReport(
                    f"{records[pair][0]} and {name} have different results for {record.requirement} on "
                    f"{record.backend}: leave one out, or give the backend another name in one of the runs."
                )
            records[pair] = name, record
    return Report(
        first.specification,
        tuple(run for _, run in runs.values()),
        tuple(record for _, record in records.values()),
    )


def _joined(known: tuple[str, Run] | None, name: str, run: Run) -> Run:
    if known is None:
        return run
    interrupted = known[1].interrupted or run.interrupted
    if replace(known[1], interrupted=interrupted) != replace(run, interrupted=interrupted):
        raise UnusableReport(
            f"{known[0]} and {name} checked {run.backend} differently (version, profile, seed or device): "
            "leave one out, or give the backend another name in one of the runs."
        )
    return replace(run, interrupted=interrupted)


@dataclass(frozen=True)
class Change:
    """A requirement whose outcome on a backend is another one; "not run" stands for none."""

    backend: str
    requirement: str
    before: str
    after: str
    message: str


@dataclass(frozen=True)
class Comparison:
    """What changed between two reports.

    Attributes:
        worse: conformed, and no longer does; a requirement that was not run again is not known to conform.
        better: conforms, and did not.
        other: changed, but neither of these.
        gone: ids that the newer specification no longer has.
        notes: differences in how the two were made that explain others.
    """

    worse: tuple[Change, ...]
    better: tuple[Change, ...]
    other: tuple[Change, ...]
    gone: tuple[str, ...]
    notes: tuple[str, ...]


def compare(old: Report, new: Report) -> Comparison:
    """Compares two reports, by backend and requirement.

    Backends that only one of them has count too: what conformed and is not there is worse.
    """
    kinds: dict[str, list[Change]] = {"worse": [], "better": [], "other": []}
    backends = list(dict.fromkeys(run.backend for run in (*old.runs, *new.runs)))
    ids = list(dict.fromkeys(r.id for r in (*old.requirements, *new.requirements)))
    known = {requirement.id for requirement in new.requirements}
    for backend in backends:
        for identifier in ids:
            if identifier not in known:
                continue
            before, after = old.record(backend, identifier), new.record(backend, identifier)
            change = Change(
                backend, identifier, _outcome(before), _outcome(after), after.message if after else ""
            )
            if change.before != change.after:
                kinds[_kind(change)].append(change)
    return Comparison(
        **{name: tuple(found) for name, found in kinds.items()},
        gone=tuple(r.id for r in old.requirements if r.id not in known),
        notes=tuple(_notes(old, new)),
    )


def _outcome(record: Record | None) -> str:
    return "not run" if record is None else record.outcome


def _kind(change: Change) -> str:
    if change.before in ("pass", "stale") and change.after not in ("pass", "stale"):
        return "worse"  # a stale deviation is met: only the list is wrong
    if change.after in ("pass", "stale") and change.before not in ("pass", "stale"):
        return "better"
    return "other"


def _notes(old: Report, new: Report) -> list[str]:
    notes = []
    if old.specification.version != new.specification.version:
        notes.append(f"SPEC {old.specification.version} before, {new.specification.version} now")
    earlier = {run.backend: run for run in old.runs}
    for run in new.runs:
        before = earlier.get(run.backend)
        if before is None:
            notes.append(f"{run.backend}: only in the newer report")
            continue
        for name in ("version", "profile", "seed", "device"):
            if getattr(before, name) != getattr(run, name):
                notes.append(
                    f"{run.backend}: {name} {getattr(before, name)} before, {getattr(run, name)} now"
                )
        if run.interrupted:
            notes.append(f"{run.backend}: the newer run was interrupted")
    later = {run.backend for run in new.runs}
    notes += [f"{name}: only in the older report" for name in earlier if name not in later]
    return notes
