"""The suite on the fake accelerator, each run in a process of its own: a device type cannot be taken back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

MUTANTS = """
from storage_conformance import accelerator
from storage_conformance.campaign import Campaign
from storage_conformance.mutants import load_mutants
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification

accelerator.install()
tried = 0
for mutant in load_mutants().values():
    if "accelerator" not in specification().requirements[mutant.fires[0]].features:
        continue
    wanted = frozenset(mutant.fires)
    with Campaign(
        mutant.backend(), selected=wanted, profile=PROFILES["quick"], seed=0, expected=wanted, device="fake:0"
    ) as campaign:
        tried += 1
        for requirement in mutant.fires:
            if campaign.finding(requirement).failure is None:
                print(mutant.name, "is not noticed by", requirement)
print(tried, "mutants")
"""


SCRIPTS = """
from storage_conformance import accelerator
from storage_conformance.campaign import Campaign
from storage_conformance.mutants import load_mutants
from storage_conformance.profile import PROFILES
from storage_conformance.requirements import specification

accelerator.install()
for mutant in load_mutants().values():
    if "accelerator" not in specification().requirements[mutant.fires[0]].features:
        continue
    selected = frozenset(mutant.fires)
    with Campaign(mutant.backend(), selected=selected, profile=PROFILES["quick"], seed=0, device="fake:0") as campaign:
        script = campaign.finding(mutant.fires[0]).failure.script
    assert "accelerator.install()" in script
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    except Exception:
        continue
    print(mutant.fires[0])
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_reference_conforms_on_an_accelerator(tmp_path: Path):
    done = run(
        tmp_path, "-m", "pytest", "--conformance=reference", "--conformance-device=fake",
        "--conformance-only=DEV-*,LAZY-*,COPY-*,CKPT-*", "-p", "no:cacheprovider",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 2 skipped" in done.stdout, done.stdout  # CKPT-27 and CKPT-28: no fork beside an accelerator


@pytest.mark.slow
def test_mutants_are_caught_on_an_accelerator(tmp_path: Path):
    done = run(tmp_path, "-W", "ignore", "-c", MUTANTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "8 mutants\n", done.stdout


@pytest.mark.slow
def test_scripts_install_the_accelerator_and_show_the_fault(tmp_path: Path):
    done = run(tmp_path, "-W", "ignore", "-c", SCRIPTS)
    assert done.returncode == 0, done.stderr
    # What takes memory shows in the counts of the device, about which a script claims nothing.
    assert done.stdout.split() == ["DEV-13", "DEV-14"]


def test_the_fake_accelerator_is_refused_beside_another_backend(tmp_path: Path):
    tmp_path.joinpath("conftest.py").write_text(
        "import torch\ntorch.utils.rename_privateuse1_backend('other')\n"
    )
    done = run(tmp_path, "-m", "pytest", "--conformance=reference", "--conformance-device=fake")
    assert done.returncode == 4
    assert "given to 'other'" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_a_device_that_is_not_there_is_skipped_with_a_reason(tmp_path: Path):
    done = run(tmp_path, "-m", "pytest", "--conformance=reference", "--conformance-device=cuda")
    assert done.returncode == 5
    assert "finds no cuda device on this machine" in done.stdout
