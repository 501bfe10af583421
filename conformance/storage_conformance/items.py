"""The suite as pytest sees it: one collector for SPEC.md, one item for each requirement and backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage_conformance.backend import Backend
from storage_conformance.campaigns import Campaigns
from storage_conformance.finding import Finding
from storage_conformance.plan import Plan
from storage_conformance.report import Record
from storage_conformance.report.terminal import failure_lines
from storage_conformance.requirements import Requirement, specification_path
from storage_conformance.selection import DOCUMENT
from storage_conformance.verdict import judge, not_claimed

__all__ = ["RequirementItem", "RequirementNotMet", "SpecFile"]


class RequirementNotMet(Exception):
    """A verdict that fails the run; its text is the report.

    Attributes:
        summary: the same in one line, for a list in which the requirement is already named.
    """

    def __init__(self, record: Record) -> None:
        super().__init__("\n".join(failure_lines(record)))
        self.summary = (record.message or record.reason or record.outcome).partition("\n")[0]


# A pytest.File that lies outside the rootdir would be skipped by --lf as soon as a test of the user's had failed.
class SpecFile(pytest.Collector):
    """SPEC.md, whose node id is `SPEC.md` wherever the file lies."""

    def __init__(self, *, plan: Plan, campaigns: Campaigns, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.plan = plan
        self.campaigns = campaigns

    @classmethod
    def of(cls, session: pytest.Session, plan: Plan, campaigns: Campaigns) -> SpecFile:
        """The collector of a session."""
        return cls.from_parent(
            session, name=DOCUMENT, path=specification_path(), nodeid=DOCUMENT, plan=plan, campaigns=campaigns
        )

    def collect(self) -> Iterator[RequirementItem]:
        for backend in self.plan.backends:
            for requirement in self.plan.specification.ordered():
                name = f"{requirement.id}[{backend.name}]"
                if requirement.level != "MAY" and self._asked_for(name):
                    # Parsed from text, the id equals the one that --lf reads back from its cache.
                    yield RequirementItem.from_parent(
                        self,
                        name=name,
                        nodeid=f"{DOCUMENT}::{name}",
                        requirement=requirement,
                        backend=backend,
                    )

    def _asked_for(self, name: str) -> bool:
        wanted = self.plan.targets.items
        return wanted is None or name in wanted or name.partition("[")[0] in wanted


class RequirementItem(pytest.Item):
    """One requirement on one backend."""

    parent: SpecFile

    def __init__(self, *, requirement: Requirement, backend: Backend, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.requirement = requirement
        self.backend = backend
        self._finding: Finding | None = None
        self._inapplicable: str | None = None
        plan = self.parent.plan
        self.record = Record(
            requirement=requirement.id,
            level=requirement.level,
            chapter=requirement.chapter,
            sentence=requirement.sentence,
            spec=plan.specification.version,
            backend=backend.name,
            version=backend.version,
            profile=plan.profile.name,
            seed=plan.seed,
        )
        self.user_properties.extend(self.record.properties())
        self.add_marker(pytest.mark.requirement(id=requirement.id, level=requirement.level))
        if self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group(backend.name))

    def setup(self) -> None:
        """Runs the backend's campaign, once for all of its items; what goes wrong here is an error of the suite."""
        campaigns = self.parent.campaigns
        self._inapplicable = campaigns.inapplicable(self.backend, self.requirement.id)
        if self._inapplicable is None:
            self._finding = campaigns.finding(self.backend, self.requirement.id)

    def runtest(self) -> None:
        self.record = self._judged()
        self.user_properties[:] = self.record.properties()
        if self.record.failed:
            raise RequirementNotMet(self.record)
        match self.record.outcome:
            case "deviation":
                pytest.xfail(f"known deviation: {self.record.reason}")
            case "unmet":
                pytest.xfail(f"SHOULD not met: {self.record.message.partition(chr(10))[0]}")
            case "not claimed" | "not exercised":
                pytest.skip(self.record.reason)

    def _judged(self) -> Record:
        plan = self.parent.plan
        finding = self._finding
        if finding is None:
            verdict = not_claimed(self._inapplicable or "")
            return replace(self.record, outcome=verdict.outcome, failed=verdict.failed, reason=verdict.reason)
        deviation = plan.deviations[self.backend.name].get(self.requirement.id)
        verdict = judge(self.requirement, finding, deviation, plan.policies[self.backend.name])
        judged = replace(
            self.record,
            outcome=verdict.outcome,
            failed=verdict.failed,
            reason=verdict.reason,
            evaluations=finding.evaluations,
        )
        failure = finding.failure
        if failure is None:
            return judged
        return replace(
            judged,
            message=failure.message,
            steps=failure.steps,
            exception=failure.exception,
            shrunk=failure.shrunk,
            script=failure.script,
        )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **keywords: Any) -> Any:
        if isinstance(excinfo.value, RequirementNotMet):
            representation = excinfo.getrepr(style="value")
            # Where CI=true pytest cuts nothing off its short summary, and would print the whole report again there.
            if representation.reprcrash is not None:
                representation.reprcrash.message = excinfo.value.summary
            return representation
        return super().repr_failure(excinfo, *args, **keywords)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return Path(self.path), self.requirement.line - 1, self.name
