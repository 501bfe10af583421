"""`--conformance-report=PATH`: the files that a session leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage_conformance.errors import ConfigurationError
from storage_conformance.plan import Plan
from storage_conformance.report import Record
from storage_conformance.report.files import write_whole
from storage_conformance.report.formats import UnknownFormat, require_format, text_of
from storage_conformance.report.report import Report, Run

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["ReportWriter", "report_paths"]


def report_paths(config: pytest.Config) -> list[Path]:
    """Where reports are to be written; nowhere in a worker of xdist, or where nothing is run.

    Raises:
        ConfigurationError: a suffix means no format, or no file can be there.
    """
    given: list[str] = config.getoption("conformance_report") or []
    paths = list(dict.fromkeys(config.invocation_params.dir / path for path in given))
    for path in paths:
        try:
            require_format(path)
        except UnknownFormat as error:
            raise ConfigurationError(f"--conformance-report={error}") from None
        if path.is_dir():
            raise ConfigurationError(f"--conformance-report={path}: expected a file, this is a folder.")
    if config.option.collectonly or hasattr(config, "workerinput"):
        return []
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)  # now, not after half an hour
        except OSError as error:
            raise ConfigurationError(
                f"--conformance-report={path}: its folder cannot be made: {error}."
            ) from None
    return paths


class ReportWriter:
    """Writes the files at the end of a session, however it ends, and names them in the terminal."""

    def __init__(self, plan: Plan, records: Mapping[tuple[str, str], Record], paths: Sequence[Path]) -> None:
        self._plan = plan
        self._records = records
        self._paths = paths
        self._said: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        early = session.exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        report = self._report(interrupted=early or bool(session.shouldstop or session.shouldfail))
        for path in self._paths:
            try:
                write_whole(path, text_of(report, path))
            except OSError as error:
                self._said.append(f"conformance report NOT written: {path}: {error}")
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
            else:
                self._said.append(f"conformance report: {path}")

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        for line in self._said:
            terminalreporter.write_line(line)

    def _report(self, *, interrupted: bool) -> Report:
        plan = self._plan
        runs = [
            Run(backend.name, backend.version, plan.profile.name, plan.seed, plan.device, interrupted)
            for backend in plan.backends
        ]
        return Report(plan.specification, tuple(runs), tuple(self._records.values()))
