"""Each mutant is caught by the check of the requirement that it violates: a check that cannot fail checks nothing."""

from __future__ import annotations

import pytest

from storage_conformance.campaign import Campaign
from storage_conformance.mutants import load_mutants
from storage_conformance.profile import PROFILES

MUTANTS = load_mutants()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_mutant_is_caught(name):
    mutant = MUTANTS[name]
    expected = frozenset(mutant.fires)
    campaign = Campaign(
        mutant.backend(), selected=expected, profile=PROFILES["quick"], seed=0, expected=expected
    )
    with campaign:
        findings = [campaign.finding(requirement) for requirement in mutant.fires]
    missed = [finding.requirement for finding in findings if finding.failure is None]
    assert not missed, f"{mutant.fault}: not noticed by {missed}"
