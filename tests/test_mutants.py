"""Each mutant is caught by the check of the requirement that it violates: a check that cannot fail checks nothing."""

from __future__ import annotations

import pytest

from storage_conformance.campaign import Campaign
from storage_conformance.mutants import load_mutants
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification

MUTANTS = {
    name: mutant
    for name, mutant in load_mutants().items()
    if "accelerator"
    not in specification().requirements[mutant.fires[0]].features  # see test_fake_accelerator.py
}


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
