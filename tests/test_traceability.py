"""From each sentence of SPEC.md to a check that evaluates it and a mutant that the check catches, and back."""

from __future__ import annotations

import pytest

from storage_conformance.campaign import load_checks
from storage_conformance.mutants import load_mutants
from storage_conformance.requirements import specification
from storage_conformance.suite.check import CHECKS

REQUIREMENTS = specification().requirements
TESTABLE = [r.id for r in specification().ordered() if r.level != "MAY"]


@pytest.fixture(scope="module", autouse=True)
def everything_registered():
    load_checks()
    load_mutants()


def test_every_requirement_has_a_check():
    checked = {i for check in CHECKS.values() for i in check.requirements}
    assert not set(TESTABLE) - checked


def test_every_check_cites_requirements_that_exist():
    unknown = {name: set(check.requirements) - set(REQUIREMENTS) for name, check in CHECKS.items()}
    assert not {name: ids for name, ids in unknown.items() if ids}
    assert all(check.requirements for check in CHECKS.values())


def test_every_requirement_has_a_mutant():
    caught = {i for mutant in load_mutants().values() for i in mutant.fires}
    assert not set(TESTABLE) - caught


def test_mutants_say_what_is_wrong_with_them():
    faults = [mutant.fault for mutant in load_mutants().values()]
    assert len(set(faults)) == len(faults)
