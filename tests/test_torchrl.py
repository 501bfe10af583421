"""TorchRL's own storages: what fails without the list of known deviations is what the list says, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from storage_conformance.deviations import load, shipped
from storage_conformance.requirements import specification

pytest.importorskip("torchrl")

RUNS = [
    pytest.param("torchrl", 0, marks=pytest.mark.slow),
    *(pytest.param("torchrl", seed, marks=pytest.mark.thorough) for seed in (1, 2)),
    *(pytest.param("torchrl-memmap", seed, marks=pytest.mark.thorough) for seed in (0, 1, 2)),
]


@pytest.mark.parametrize(("backend", "seed"), RUNS)
def test_the_failing_requirements_are_those_of_the_list(tmp_path: Path, backend: str, seed: int):
    command = [
        sys.executable, "-m", "pytest", f"--conformance={backend}", "--conformance-no-deviations",
        f"--hypothesis-seed={seed}", "-p", "no:cacheprovider",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    failing = re.findall(r"^FAILED SPEC\.md::([A-Z]+-\d+)\[", done.stdout, flags=re.MULTILINE)
    listed = load(str(shipped()[backend]), specification(), folder=tmp_path, today=date.today())
    assert sorted(failing) == sorted(listed), done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["torchrl", "torchrl-memmap"])
def test_with_its_list_the_run_is_green(tmp_path: Path, backend: str):
    command = [sys.executable, "-m", "pytest", f"--conformance={backend}", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = load(str(shipped()[backend]), specification(), folder=tmp_path, today=date.today())
    assert f"partial: {len(listed)} known deviations, " in done.stdout, done.stdout


ALONE = "import sys\nsys.modules['storage_conformance'] = sys.modules['lazy_tensor_storage'] = None\n"


@pytest.mark.parametrize("backend", ["torchrl", "torchrl-memmap"])
def test_a_script_needs_nothing_of_ours(tmp_path: Path, backend: str):
    report = tmp_path / "report.xml"
    command = [
        sys.executable, "-m", "pytest", f"--conformance={backend}", "--conformance-no-deviations",
        "--conformance-only=LEN-3", "--conformance-profile=quick", f"--junit-xml={report}", "-p", "no:cacheprovider",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (script,) = [
        found.get("value", "")
        for found in ElementTree.parse(report).iter("property")
        if found.get("name") == "script"
    ]
    failing = tmp_path / "failing.py"
    failing.write_text(ALONE + script.replace("from __future__ import annotations", ""))
    alone = subprocess.run([sys.executable, str(failing)], capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert "AssertionError: len(storage) is 2, expected 1" in alone.stderr
