"""The script of a counterexample stands alone: it fails on the storage it was found on and passes on the reference."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from storage_conformance.campaign import Campaign
from storage_conformance.mutants import load_mutants
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification

MUTANTS = {
    name: mutant
    for name, mutant in sorted(load_mutants().items())
    if not any("accelerator" in specification().requirements[i].features for i in mutant.fires)
}
NO_SCRIPT = {"LAZY-2", "LAZY-5"}
"""What takes memory shows in the size of the process, about which a script claims nothing."""

MUTANTS = {name: mutant for name, mutant in MUTANTS.items() if mutant.fires[0] not in NO_SCRIPT}
NOT_YET = {
    "AssignsNothingDownwards", "ComparesNdimWithInt", "CountsAfterTelling", "IsRoundedUpByALook",
    "IteratesInOnePlace", "LooksForItems", "LosesWideRows", "ManifestsHaveNoCheckSum",
    "MovesTheLastRowByReading", "OneParentIsCreated", "ReadsNothingWhileTelling", "TakesMemoryAsItLies",
    "TakesNestedTwins", "TakesTwins", "TellsBeforeItWrites",
}  # fmt: skip
"""Mutants whose script does not show the fault: it says in a comment what the check saw, or lacks a helper."""
SOME = sorted(random.Random(0).sample(sorted(MUTANTS), 30))
RUNS = [
    pytest.param(
        name,
        marks=[
            pytest.mark.slow if name in SOME else pytest.mark.thorough,
            *([pytest.mark.xfail(reason="no script shows it yet", strict=True)] if name in NOT_YET else []),
        ],
    )
    for name in MUTANTS
]
REFUSALS = (TypeError, ValueError, LookupError, RuntimeError)
MAKE = re.compile(r"^from (\S+) import (\w+) as make$", flags=re.MULTILINE)


def outcome(script):
    """What the script raises."""
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", RUNS)
def test_a_script_fails_on_the_mutant_and_passes_on_the_reference(name):
    mutant = MUTANTS[name]
    wanted = frozenset(mutant.fires)
    with Campaign(mutant.backend(), selected=wanted, profile=PROFILES["quick"], seed=0) as campaign:
        failure = campaign.finding(mutant.fires[0]).failure
    assert failure is not None
    assert failure.shrunk
    script = failure.script
    assert "storage_conformance" not in MAKE.sub("", script), "a script needs nothing of ours but the mutant"
    assert outcome(script) is not None, script
    on_the_reference, replaced = MAKE.subn(
        "from lazy_tensor_storage import LazyTensorStorage as make", script
    )
    assert replaced == 1, script
    error = outcome(on_the_reference)
    # Where a requirement leaves the choice, the reference may refuse what the mutant takes.
    free = "refused" in specification().requirements[mutant.fires[0]].sentence or mutant.fires[0] == "DTYPE-7"
    assert error is None or (free and isinstance(error, REFUSALS)), on_the_reference


@pytest.mark.slow
def test_a_script_runs_as_a_file(tmp_path):
    mutant = MUTANTS["CountsRowsInEightBits"]
    wanted = frozenset(mutant.fires)
    with Campaign(mutant.backend(), selected=wanted, profile=PROFILES["quick"], seed=0) as campaign:
        failure = campaign.finding(mutant.fires[0]).failure
    path = tmp_path / "script.py"
    path.write_text(failure.script)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
