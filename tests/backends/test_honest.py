"""Storages built from SPEC.md alone, in three quite different ways, conform: the suite asks for nothing else."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from storage_conformance.requirements import specification

CONFTEST = """
from storage_conformance import Backend
import {module}

def pytest_conformance_backends(config):
    features, refuses = {module}.FEATURES, getattr({module}, "REFUSED", ())
    return [Backend("honest", {module}.{name}, features=features, refuses=refuses)]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("rows_in_a_list", "RowsInAList"),
        ("numpy_memmaps", "NumpyMemmaps"),
        ("sqlite_rows", "SqliteRows"),
        ("liberties", "Liberties"),
    ],
)
def test_an_honest_storage_conforms(module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    claims = importlib.import_module(module).FEATURES
    tmp_path.joinpath("conftest.py").write_text(CONFTEST.format(module=module, name=name))
    command = [sys.executable, "-m", "pytest", "--conformance=honest", "--conformance-profile=quick"]
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    claimed = [
        requirement
        for requirement in specification().requirements.values()
        if requirement.level == "MUST" and set(requirement.features) <= claims
    ]
    verdict = rf"^honest\b.*\b{len(claimed)} (MUST,|of {len(claimed)} MUST conform)"
    assert re.search(verdict, done.stdout, flags=re.MULTILINE), done.stdout
    assert not re.search(r"^(not exercised|\S+  (FAIL|ERROR)) ", done.stdout, flags=re.MULTILINE), done.stdout
