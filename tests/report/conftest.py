from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from storage_conformance.report import Record
from storage_conformance.report.report import Report, Run
from storage_conformance.requirements import specification

SPEC = specification()

HOSTILE = (
    "\x00|\ud800</script><script>document.title='pwned'</script></script <!--<script \"'`|"
    "<img src=x onerror=alert(1)> ``` @team ]]>"
)
"""What a backend may say of itself: an end to every context that it can stand in."""


def _run(backend: str, **facts) -> Run:
    return replace(Run(backend, "1.2", "default", 0, "cpu"), **facts)


def _records(run: Run, outcomes: dict[str, str], **facts) -> list[Record]:
    found = []
    for requirement in SPEC.ordered():
        outcome = outcomes.get(requirement.id, outcomes.get("", "pass"))
        if requirement.level == "MAY" or outcome == "not run":
            continue
        told = (
            {}
            if outcome == "pass"
            else {"message": "2, not 1", "steps": ("storage = make(2)", "len(storage)")}
        )
        record = Record(
            requirement=requirement.id,
            level=requirement.level,
            chapter=requirement.chapter,
            sentence=requirement.sentence,
            spec=SPEC.version,
            backend=run.backend,
            version=run.version,
            profile=run.profile,
            seed=run.seed,
            outcome=outcome,
            failed=outcome in ("fail", "stale", "wrong exception", "error"),
            evaluations=5,
            **told,
        )
        found.append(replace(record, **(facts if outcome != "pass" else {})))
    return found


@pytest.fixture
def one() -> Callable[..., Report]:
    """Makes a report of one backend: all conforms but for the given outcomes, by id ("" for the rest)."""

    def make(backend: str = "shelf", outcomes: dict[str, str] | None = None, *, run=None, **facts) -> Report:
        how = _run(backend, **(run or {}))
        return Report(SPEC, (how,), tuple(_records(how, outcomes or {}, **facts)))

    return make


@pytest.fixture
def hostile(one) -> Report:
    """A report of a backend that says the worst in every field that it has a say in."""
    return one(
        f"shelf{HOSTILE}",
        {"LEN-3": "fail", "CAP-1": "deviation"},
        run={"version": HOSTILE, "device": HOSTILE},
        message=HOSTILE,
        reason=HOSTILE,
        exception=HOSTILE,
        script=f"print({HOSTILE!r})\n{HOSTILE}",
        steps=("x = 1", "```", HOSTILE),
    )


@pytest.fixture
def two(one) -> Report:
    """A good and a bad backend side by side."""
    outcomes = {"LEN-3": "fail", "CAP-1": "deviation", "CAP-2": "not claimed", "LEN-4": "not run"}
    good = one("reference")
    bad = one(
        "torchrl", outcomes, reason="it counts writes", script="import torch\nassert False", shrunk=True
    )
    return Report(SPEC, good.runs + bad.runs, good.records + bad.records)
