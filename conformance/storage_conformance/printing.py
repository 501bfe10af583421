"""The report in the terminal, and each failure in it once."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

import pytest

from storage_conformance.plan import Plan
from storage_conformance.report import Record, render

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["FailureCurtain", "ReportPrinter"]

_HIDDEN = pytest.StashKey[list[object]]()


class FailureCurtain:
    """Keeps unmet requirements out of pytest's FAILURES section, which would show each a second time."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: TerminalReporter, config: pytest.Config
    ) -> Generator[None, None, None]:
        failed = terminalreporter.stats.get("failed", [])
        hidden = [report for report in failed if _is_verdict(report)]
        config.stash[_HIDDEN] = failed
        if hidden:
            terminalreporter.stats["failed"] = [report for report in failed if report not in hidden]
        return (yield)


class ReportPrinter:
    """Prints the report after pytest's FAILURES and before its short summary, for which it lifts the curtain."""

    def __init__(self, plan: Plan, records: Mapping[tuple[str, str], Record]) -> None:
        self._plan = plan
        self._records = records

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        if failed := config.stash.get(_HIDDEN, []):
            terminalreporter.stats["failed"] = failed
        lines = render(
            self._records.values(),
            self._plan.specification,
            backends=[backend.name for backend in self._plan.backends],
            width=config.get_terminal_writer().fullwidth,
        )
        for line in lines:
            if line.style == "heading":
                terminalreporter.write_sep("=", line.text, bold=True)
            else:
                terminalreporter.write_line(line.text, **({line.style: True} if line.style else {}))


def _is_verdict(report: object) -> bool:
    record = Record.from_properties(getattr(report, "user_properties", ()))
    return record is not None and record.outcome != "error"
