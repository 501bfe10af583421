"""Several faults at once: each is named in one run."""

from __future__ import annotations

import itertools
import random

import pytest

from storage_conformance.backend import Backend
from storage_conformance.campaign import Campaign
from storage_conformance.mutants import Delegate, Mutant, load_mutants
from storage_conformance.mutants.mutant import FEATURES
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification

KNOWN = specification().requirements
CHAPTERS = (
    "LEN",
    "DEV",
    "IDX",
    "SET",
    "GET",
    "DATA",
    "DTYPE",
    "OBS",
    "CKPT",
)  # some iterate by their own `get`


def by_chapter() -> dict[str, list[Mutant]]:
    found: dict[str, list[Mutant]] = {chapter: [] for chapter in CHAPTERS}
    for _, mutant in sorted(load_mutants().items()):
        requirement = KNOWN[mutant.fires[0]]
        delegates = isinstance(mutant.factory, type) and issubclass(mutant.factory, Delegate)
        if delegates and requirement.chapter in found and "accelerator" not in requirement.features:
            found[requirement.chapter].append(mutant)
    return found


def composed(factories):
    """A storage that delegates to the next one, and so on."""

    def make(max_size, *, device="cpu", ndim=1):
        storages = [factory(max_size, device=device, ndim=ndim) for factory in factories]
        for outer, inner in itertools.pairwise(storages):
            outer.inner = inner
        return storages[0]

    return make


def missed(mutants, storages):
    """Names of mutants that one run on the composed storages does not name."""
    wanted = frozenset(mutant.fires[0] for mutant in mutants)
    backend = Backend("several", composed(storages), features=FEATURES)
    with Campaign(backend, selected=wanted, profile=PROFILES["quick"], seed=0, expected=wanted) as campaign:
        return [mutant.name for mutant in mutants if campaign.finding(mutant.fires[0]).failure is None]


def draw(seed):
    """Five mutants of five chapters, each of which shows through a storage around it (some drop what `set` returns)."""
    chance, pool = random.Random(seed), by_chapter()
    found = []
    for chapter in chance.sample(CHAPTERS, 5):
        candidates = chance.sample(pool[chapter], len(pool[chapter]))
        found.append(next(m for m in candidates if not missed([m], [Delegate, m.factory, Delegate])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_five_faults_are_all_named(seed):
    mutants = draw(seed)
    assert not missed(mutants, [mutant.factory for mutant in mutants])
