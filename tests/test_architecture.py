"""Which way the arrows point, what is public, and what the wheel holds."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "reference" / "lazy_tensor_storage"
CONFORMANCE = ROOT / "conformance" / "storage_conformance"


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Names of the modules that a file imports anywhere, functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:  # a relative one stays inside
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importing(paths: list[Path], *packages: str) -> list[str]:
    """Which of these files import one of these packages."""
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in imports(path)
        if any(name == package or name.startswith(f"{package}.") for package in packages)
    ]


def rooms(*names: str) -> list[Path]:
    return [path for name in names for path in modules(CONFORMANCE / name)]


def test_the_reference_knows_nothing_of_the_suite():
    assert modules(REFERENCE)
    assert importing(modules(REFERENCE), "storage_conformance", "pytest", "hypothesis", "torchrl") == []


def test_the_suite_meets_the_reference_only_as_a_backend_or_a_mutant():
    allowed = set(rooms("backends", "mutants"))
    assert importing([p for p in modules(CONFORMANCE) if p not in allowed], "lazy_tensor_storage") == []


def test_the_suite_meets_torchrl_only_as_a_backend():
    allowed = set(rooms("backends"))
    assert importing([p for p in modules(CONFORMANCE) if p not in allowed], "torchrl") == []


def test_checks_know_no_backend():
    assert (
        importing(
            rooms("suite", "machines", "strategies"),
            "storage_conformance.backends",
            "storage_conformance.mutants",
            "storage_conformance.registry",
            "storage_conformance.plan",
            "storage_conformance.session",
            "storage_conformance.items",
            "storage_conformance.report",
            "pytest",
        )
        == []
    )


def test_reports_are_functions_of_records():
    assert importing(rooms("report"), "pytest", "_pytest", "torch", "hypothesis") == []


@pytest.mark.parametrize(
    "name", ["plugin", "hookspecs", "errors", "requirements", "backend", "finding", "profile", "deviations"]
)
def test_what_every_run_of_pytest_imports_is_light(name):
    path = CONFORMANCE / name
    found = modules(path) if path.is_dir() else [path.with_suffix(".py")]
    assert importing(found, "torch", "hypothesis", "numpy", "tensordict", "safetensors") == []


def test_nothing_of_pytest_that_is_private_is_used_at_run_time():
    for path in modules(CONFORMANCE):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("_pytest"):
                assert id(node) in guarded, path


@pytest.mark.parametrize("package", ["lazy_tensor_storage", "storage_conformance"])
def test_public_names_are_declared_and_there(package):
    module = importlib.import_module(package)
    assert module.__all__
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_public_names_of_the_suite():
    import storage_conformance

    assert sorted(storage_conformance.__all__) == sorted(
        ["Backend", "Failure", "Finding", "Requirement", "Specification", "specification"]
    )


def test_the_reference_works_without_pytest_and_hypothesis():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pytest', '_pytest', 'hypothesis', 'torchrl', 'storage_conformance']))\n"
        "import lazy_tensor_storage\n"
        "lazy_tensor_storage.LazyTensorStorage(4)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.mark.slow
def test_the_wheel_holds_both_packages_and_nothing_else(wheel):
    names = wheel.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "lazy_tensor_storage",
        "storage_conformance",
    }
    expected = {
        str(path.relative_to(folder.parent))
        for folder in (REFERENCE, CONFORMANCE)
        for path in modules(folder)
    }
    assert expected <= set(names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "storage_conformance/SPEC.md",
        "storage_conformance/report/schema.json",
        "storage_conformance/report/page.css",
        "storage_conformance/report/page.js",
        "storage_conformance/py.typed",
        "storage_conformance/deviations/torchrl.toml",
        "storage_conformance/deviations/torchrl-memmap.toml",
        "lazy_tensor_storage/py.typed",
    ],
)
def test_the_wheel_holds_what_is_no_code(wheel, name):
    assert wheel.namelist().count(name) == 1


@pytest.mark.slow
def test_the_wheel_carries_the_specification_unchanged(wheel):
    assert wheel.read("storage_conformance/SPEC.md") == (ROOT / "SPEC.md").read_bytes()


@pytest.mark.slow
def test_the_wheel_says_what_it_needs_and_offers(wheel):
    (folder,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
    base = sorted(need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need)
    assert [need.partition(">=")[0] for need in base] == ["numpy", "tensordict", "torch"]
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "conformance",
        "torchrl",
        "benchmarks",
        "peers",
        "progress",
        "mutation",
        "dev",
    }
    assert "Framework :: Pytest" in metadata.get_all("Classifier", [])
    entry_points = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "[pytest11]\nstorage-conformance = storage_conformance.plugin" in entry_points
    assert "[console_scripts]\nstorage-conformance = storage_conformance.report.command:main" in entry_points
