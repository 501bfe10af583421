"""The command that this project is about, as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from storage_conformance.requirements import specification


@pytest.mark.slow
def test_the_reference_conforms(tmp_path: Path):
    command = [sys.executable, "-m", "pytest", "--conformance=reference", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    must = [r for r in specification().requirements.values() if r.level == "MUST"]
    claimed = [r for r in must if "accelerator" not in r.features]
    assert re.search(
        rf"^reference \S+: conformant with SPEC {specification().version} \({len(claimed)} MUST, ",
        done.stdout,
        flags=re.MULTILINE,
    ), done.stdout
