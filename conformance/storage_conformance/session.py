"""A pytest session with `--conformance`: what happens from its start to the report."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from storage_conformance.accelerator import Unavailable
from storage_conformance.campaigns import Campaigns, Unusable
from storage_conformance.errors import ConfigurationError
from storage_conformance.items import RequirementItem, SpecFile
from storage_conformance.plan import SEED_KEY, Plan, plan
from storage_conformance.printing import FailureCurtain, ReportPrinter
from storage_conformance.report import Record
from storage_conformance.reporting import ReportWriter, report_paths
from storage_conformance.selection import exact_keywords

__all__ = ["EXIT_UNUSABLE", "ConformanceSession", "start"]

EXIT_UNUSABLE = 6
"""Exit code where a backend could be built, but not be written and read once."""


def start(session: pytest.Session) -> None:
    """Plans the run, tries each backend once and hands over to `ConformanceSession`."""
    config = session.config
    try:
        paths = report_paths(config)
        planned = plan(config)
        campaigns = Campaigns(planned)
        if not (config.option.collectonly or hasattr(config, "workerinput")):
            campaigns.smoke()
    except ConfigurationError as error:
        raise pytest.UsageError(" ".join(str(error).split())) from None
    except Unavailable as error:
        pytest.exit(f"skipped: {error}", returncode=pytest.ExitCode.NO_TESTS_COLLECTED)
    except Unusable as error:
        pytest.exit(str(error), returncode=EXIT_UNUSABLE)
    config.option.keyword = exact_keywords(config.option.keyword, planned.specification)
    conformance = ConformanceSession(planned, campaigns)
    config.pluginmanager.register(conformance, "storage-conformance-session")
    config.pluginmanager.register(ReportPrinter(planned, conformance.records), "storage-conformance-report")
    config.pluginmanager.register(FailureCurtain(), "storage-conformance-curtain")
    if paths:
        writer = ReportWriter(planned, conformance.records, paths)
        config.pluginmanager.register(writer, "storage-conformance-report-files")


class ConformanceSession:
    """The hooks of a session; a plugin of its own, so that runs without the option never meet it."""

    def __init__(self, planned: Plan, campaigns: Campaigns) -> None:
        self.plan = planned
        self.campaigns = campaigns
        self.records: dict[tuple[str, str], Record] = {}

    def pytest_report_header(self) -> str:
        titles = ", ".join(f"{backend.name} {backend.version}".strip() for backend in self.plan.backends)
        return (
            f"conformance: SPEC {self.plan.specification.version}, profile {self.plan.profile.name}, "
            f"seed {self.plan.seed}, {titles}"
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Workers of xdist read the same command line, but a random seed is drawn once."""
        node.workerinput[SEED_KEY] = self.plan.seed

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        """Keeps from pytest the arguments that are ours; without any, only the suite is collected."""
        arguments = session.config.args
        session.config.args = list(self.plan.targets.others)
        try:
            return (yield)
        finally:
            session.config.args = arguments

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Adds SPEC.md to the session itself; as an argument it would depend on rootdir, ignores and overlaps."""
        report = yield
        if isinstance(collector, pytest.Session) and report.result is not None:
            report.result.append(SpecFile.of(collector, self.plan, self.campaigns))
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._require_targets(items)
        if self.plan.only is None:
            return
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            wanted = not isinstance(item, RequirementItem) or item.requirement.id in self.plan.only
            (kept if wanted else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def _require_targets(self, items: list[pytest.Item]) -> None:
        names = {item.name for item in items if isinstance(item, RequirementItem)}
        known = names | {name.partition("[")[0] for name in names}
        if missing := [name for name in self.plan.targets.items or () if name not in known]:
            raise pytest.UsageError(
                f"not found: {', '.join(f'SPEC.md::{name}' for name in missing)}; the items are called "
                f"SPEC.md::LEN-3[{self.plan.backends[0].name}] and so on (see --collect-only)."
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        ours = [item for item in session.items if isinstance(item, RequirementItem)]
        self.campaigns.select([(item.backend.name, item.requirement.id) for item in ours])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = Record.from_properties(report.user_properties)
        if record is None or (report.when != "call" and not report.failed):
            return
        if report.when != "call":
            record = Record.from_properties(
                [
                    *report.user_properties,
                    ("outcome", "error"),
                    ("failed", True),
                    ("reason", f"in {report.when}"),
                ]
            )
            assert record is not None
        self.records[record.backend, record.requirement] = record

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.campaigns.close()
        exercised = any(record.evaluations for record in self.records.values())
        if self.records and not exercised and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
