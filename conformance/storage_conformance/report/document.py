"""The report as JSON, of which `schema.json` beside this module says what everything means.

Reading checks whatever the other formats, `merge` and `diff` rely on, so that a file from elsewhere fails with a
sentence. Unknown members are ignored: a later version may add some without another number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from storage_conformance.report.records import Record
from storage_conformance.report.report import Report, Run, UnusableReport
from storage_conformance.requirements import Level, Requirement, Specification
from storage_conformance.verdict import Outcome

__all__ = ["FORMAT", "VERSION", "read", "write"]

FORMAT = "storage-conformance-report"
VERSION = 1

_OWN = ("outcome", "failed", "evaluations", "reason", "message", "exception", "shrunk", "script")
"""Members of a result besides its pair and its steps; the rest of a record stands with its requirement or run."""


def write(report: Report) -> str:
    """The text of the document."""
    return json.dumps(_document(report), indent=1) + "\n"


def _document(report: Report) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "specification": {
            "version": report.specification.version,
            "chapters": [
                {"prefix": prefix, "title": title} for prefix, title in report.specification.chapters.items()
            ],
            "requirements": [
                {"id": r.id, "level": r.level, "chapter": r.chapter, "sentence": r.sentence, "why": r.why}
                for r in report.requirements
            ],
        },
        "backends": [_backend(report, run) for run in report.runs],
        "results": [_result(record) for run in report.runs for record in report.of(run.backend)],
    }


def _backend(report: Report, run: Run) -> dict[str, Any]:
    met, applicable = report.musts(run.backend)
    return {
        "name": run.backend,
        "version": run.version,
        "profile": run.profile,
        "seed": run.seed,
        "device": run.device,
        "interrupted": run.interrupted,
        "conformant": report.conformant(run),
        "must_met": met,
        "must_applicable": applicable,
        "verdict": report.sentence(run),
    }


def _result(record: Record) -> dict[str, Any]:
    own = {name: getattr(record, name) for name in _OWN}
    return {
        "requirement": record.requirement,
        "backend": record.backend,
        **own,
        "steps": list(record.steps),
    }


def read(text: str, name: str) -> Report:
    """The report that a document holds.

    Args:
        text: of the document.
        name: what error messages call it, for example its path.

    Raises:
        UnusableReport: it is no report, of another version, or says something impossible.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableReport(
            f"{name} is no JSON ({error}); expected what --conformance-report=FILE.json writes."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UnusableReport(
            f"{name} is no conformance report: expected 'format': '{FORMAT}', "
            "which --conformance-report=FILE.json writes."
        )
    if document.get("version") != VERSION:
        raise UnusableReport(
            f"{name} has version {document.get('version')!r} of the format, this program reads {VERSION}: "
            "use the version of lazy-tensor-storage that wrote it, or write it again."
        )
    root = _Part(document, name)
    specification = _specification(root.part("specification"))
    runs = tuple(_run(part) for part in root.parts("backends"))
    by_name = {run.backend: run for run in runs}
    if len(by_name) < len(runs):
        raise UnusableReport(f"{name}: backends: a name is there twice.")
    records = tuple(_record(part, specification, by_name) for part in root.parts("results"))
    if len({(record.backend, record.requirement) for record in records}) < len(records):
        raise UnusableReport(f"{name}: results: a requirement has two results on one backend.")
    return Report(specification, runs, records)


def _specification(part: _Part) -> Specification:
    chapters = {chapter.text("prefix"): chapter.text("title") for chapter in part.parts("chapters")}
    requirements = {}
    for found in part.parts("requirements"):
        identifier = found.text("id")
        prefix, _, number = identifier.partition("-")
        if prefix not in chapters or not (number.isascii() and number.isdecimal() and len(number) < 6):
            raise found.wrong(f"id {identifier!r} is none of a chapter, such as LEN-3")
        level: Level = found.one_of("level", get_args(Level))
        requirements[identifier] = Requirement(
            identifier, level, found.text("sentence"), found.text("why"), "", (), (), 0
        )
    return Specification(part.text("version"), chapters, requirements, ())


def _run(part: _Part) -> Run:
    return Run(
        backend=part.text("name"),
        version=part.text("version"),
        profile=part.text("profile"),
        seed=part.number("seed"),
        device=part.text("device"),
        interrupted=part.truth("interrupted"),
    )


def _record(part: _Part, specification: Specification, runs: Mapping[str, Run]) -> Record:
    requirement = specification.requirements.get(part.text("requirement"))
    run = runs.get(part.text("backend"))
    if requirement is None or run is None:
        raise part.wrong("its requirement or its backend is not listed above")
    outcome: Outcome = part.one_of("outcome", get_args(Outcome))
    evaluations = part.number("evaluations")
    if evaluations < 0:
        raise part.wrong("evaluations is negative")
    return Record(
        requirement=requirement.id,
        level=requirement.level,
        chapter=requirement.chapter,
        sentence=requirement.sentence,
        spec=specification.version,
        backend=run.backend,
        version=run.version,
        profile=run.profile,
        seed=run.seed,
        outcome=outcome,
        failed=part.truth("failed"),
        evaluations=evaluations,
        reason=part.text("reason"),
        message=part.text("message"),
        steps=part.texts("steps"),
        exception=part.text("exception"),
        shrunk=part.truth("shrunk"),
        script=part.text("script"),
    )


class _Part:
    """An object of the document, read with a look at the types; `where` leads to it in messages."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where

    def wrong(self, what: str) -> UnusableReport:
        return UnusableReport(f"{self._where}: {what}.")

    def text(self, name: str) -> str:
        return str(self._get(name, str, "a string"))

    def number(self, name: str) -> int:
        value = self._get(name, int, "an integer")
        if isinstance(value, bool):
            raise self.wrong(f"{name} must be an integer, not a truth value")
        return int(value)

    def truth(self, name: str) -> bool:
        return bool(self._get(name, bool, "true or false"))

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._get(name, list, "a list")
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(f"{name} must hold strings only")
        return tuple(values)

    def one_of(self, name: str, allowed: tuple[Any, ...]) -> Any:
        value = self.text(name)
        if value not in allowed:
            raise self.wrong(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
        return value

    def part(self, name: str) -> _Part:
        return _Part(self._get(name, dict, "an object"), f"{self._where}: {name}")

    def parts(self, name: str) -> list[_Part]:
        values = self._get(name, list, "a list")
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(f"{name} must hold objects only")
        return [_Part(value, f"{self._where}: {name}[{n}]") for n, value in enumerate(values)]

    def _get(self, name: str, kind: type, expected: str) -> Any:
        if name not in self._values:
            raise self.wrong(f"{name} is missing, expected {expected}")
        value = self._values[name]
        if not isinstance(value, kind):
            raise self.wrong(f"{name} must be {expected}, not {type(value).__name__}")
        return value
