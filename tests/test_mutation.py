"""`make mutation`: what is listed as equivalent is still there, and the judge can tell."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "mutation"
REFERENCE = Path(__file__).parents[1] / "reference" / "lazy_tensor_storage"
CHANGES = tomllib.loads((HERE / "equivalent.toml").read_text())["change"]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change['module']} {change['operator']}")
def test_what_is_listed_as_equivalent_is_still_there(change):
    source = (REFERENCE / change["module"]).read_text()
    lines = [line.strip() for line in source.splitlines()]
    assert change["line"] in lines, "the line has changed: look again, or remove the entry"
    assert change["why"]
    name = change["function"].rpartition(".")[2]
    defined = {
        node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert not name or name in defined


JUDGE = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
import judge
from storage_conformance.campaign import load_checks

load_checks()
package = Path({package!r})
source = (package / "storage.py").read_text()
for text in ("max(self._readable, selection.top)", "the oracle is not listed"):
    changed = source.replace(text, "self._readable + selection.top")
    print(judge.judged(package, "storage.py", changed, limit=200, stages=("quick",)).by or "nothing")
"""


@pytest.mark.slow
def test_the_judge_notices_a_fault_and_nothing_else():
    program = JUDGE.format(here=str(HERE), package=str(REFERENCE))
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    noticed, unnoticed = done.stdout.split()
    assert noticed.partition("-")[0] in ("LEN", "SET", "CAP")
    assert unnoticed == "nothing"


def test_what_is_no_behaviour_is_left_alone(tmp_path):
    pytest.importorskip("cosmic_ray.mutating", reason="the extra `mutation` is not installed")
    tmp_path.joinpath("module.py").write_text(
        '__all__ = ["a" + "b"]\n'
        "def f(x: int | None = 1) -> int | str:\n"
        "    if x > 2:\n"
        '        raise ValueError("x is " + str(x - 1))\n'
        "    return x * 3\n"
    )
    find = runpy.run_path(str(HERE / "candidates.py"))["find"]
    found = {(candidate.number, candidate.operator.partition("_")[0]) for candidate in find(tmp_path)}
    assert found == {
        (2, "NumberReplacer"),
        (3, "AddNot"),
        (3, "NumberReplacer"),
        (3, "ReplaceComparisonOperator"),
        (5, "NumberReplacer"),
        (5, "ReplaceBinaryOperator"),
    }
