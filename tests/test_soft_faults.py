"""A systematic fault that leaves storage and model together does not hide what else there is to see."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from storage_conformance.backend import Backend
from storage_conformance.campaign import Campaign
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import FEATURES
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification


class SaysItHoldsOneMore(Delegate):
    @property
    def max_size(self) -> int:
        return super().max_size + 1


class AddsADimensionToItsShape(Delegate):
    @property
    def shape(self) -> Any:
        shape = super().shape
        return None if shape is None else torch.Size((*shape, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storage", "named", "unharmed"),
    [
        (SaysItHoldsOneMore, {"CAP-1", "CAP-2"}, ("LEN", "IDX", "SET", "GET", "DATA", "DTYPE", "LAZY", "DEV", "ERR-1")),
        (AddsADimensionToItsShape, {"LEN-7"}, ("CAP", "IDX", "SET", "GET", "DATA", "DTYPE", "LAZY", "DEV", "ERR-1")),
    ],
)  # fmt: skip
def test_everything_else_is_checked(storage: Any, named: set[str], unharmed: tuple[str, ...]):
    ids = frozenset(
        r.id for r in specification().ordered() if r.level != "MAY" and "accelerator" not in r.features
    )
    backend = Backend("soft", storage, features=FEATURES)
    with Campaign(backend, selected=ids, profile=PROFILES["quick"], seed=0, expected=ids) as campaign:
        findings = [campaign.finding(requirement) for requirement in sorted(ids)]
    failing = {finding.requirement for finding in findings if finding.failure}
    assert named <= failing
    # What a dump that failed has left is judged only where a sound one comes back whole, shape and size included.
    assert {f.requirement for f in findings if not f.evaluations} <= {f"CKPT-{n}" for n in range(25, 30)}
    # A full storage is recognised by `max_size`, so that LEN-8 speaks of it too.
    assert {i for i in failing if i.startswith(unharmed)} - {"LEN-8"} == set()
