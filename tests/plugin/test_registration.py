"""The ways in which a backend becomes known, and what the plugin costs those who do not use it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_a_conftest_hook_registers_backends(pytester, conformance):
    pytester.makeconftest(
        """
        from storage_conformance import Backend
        from stories import Good

        def pytest_conformance_backends(config):
            return [Backend("mine", Good, features={"clear"}, version="3.1")]
        """
    )
    pytester.syspathinsert()
    result = conformance("mine", "-v", "-k", "QRY-9")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*profile default, seed 0, mine 3.1", "SPEC.md::QRY-9[[]mine[]] PASSED*"])


def test_a_hook_without_the_option_is_not_called(pytester):
    pytester.makeconftest("def pytest_conformance_backends(config):\n    raise AssertionError")
    pytester.makepyfile("def test_own(): pass")
    assert pytester.runpytest_inprocess().ret == 0


@pytest.mark.parametrize(
    ("target", "expected"),
    [("Good", "shelf"), ("backend", "own"), ("nothing", "is a NoneType")],
)
def test_an_entry_point_registers_a_class_or_a_backend(pytester, conformance, monkeypatch, target, expected):
    pytester.makepyfile(
        shop="from stories import Good\nfrom storage_conformance import Backend\n"
        "backend = Backend('own', Good)\nnothing = None"
    )
    metadata = pytester.mkdir("shop-1.2.dist-info")
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.2\n")
    metadata.joinpath("entry_points.txt").write_text(
        f"[storage_conformance.backends]\nshelf = shop:{target}\n"
    )
    pytester.syspathinsert()
    result = conformance("shelf", "-k", "LEN-3", "-v")
    assert expected in result.stdout.str() + result.stderr.str()
    listing = pytester.runpytest_inprocess("--conformance-list").stdout.str()
    assert "entry point of shop" in listing


def test_the_list_names_backends_versions_and_features(pytester):
    result = pytester.runpytest_inprocess("--conformance-list")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "reference *shipped *clear, detach, * last_row*",
            "torchrl * shipped *",
            "torchrl-memmap * shipped *",
        ]
    )


def test_a_module_beside_the_run_is_found_without_being_installed(pytester):
    result = pytester.runpytest_subprocess("--conformance=stories:Good", "-k", "LEN-3")
    assert result.ret == 0


def test_a_backend_keeps_its_own_name(pytester, conformance):
    pytester.makepyfile(
        other="from stories import Good\nfrom storage_conformance import Backend\nb = Backend('mine', Good)"
    )
    pytester.syspathinsert()
    assert "SPEC.md::LEN-3[mine]" in conformance("other:b", "SPEC.md::LEN-3", "-v").stdout.str()


def test_claims_of_a_bare_class(conformance):
    result = conformance(
        "stories:Good", "--conformance-features=clear, pytree", "-k", "QRY-9 or CAP-7 or QRY-7"
    )
    result.assert_outcomes(passed=2, skipped=1, deselected=result.parseoutcomes()["deselected"])


def test_the_context_is_entered_before_and_left_after(pytester, conformance):
    pytester.makeconftest(
        """
        from contextlib import contextmanager
        from storage_conformance import Backend
        from stories import Good

        @contextmanager
        def server():
            print("server up")
            yield
            print("server down")

        def pytest_conformance_backends(config):
            return [Backend("served", Good, context=server)]
        """
    )
    pytester.syspathinsert()
    text = conformance("served", "-k", "LEN", "-s").stdout.str()
    assert (
        text.count("server up") == text.count("server down") == 2
    )  # once for the smoke step, once for the suite


def test_without_the_option_neither_torch_nor_hypothesis_nor_numpy_is_imported(pytester):
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            assert "storage_conformance.plugin" in sys.modules
            heavy = {"torch", "hypothesis", "numpy", "tensordict", "lazy_tensor_storage"}
            assert not heavy & set(sys.modules)
            ours = {name for name in sys.modules if name.startswith("storage_conformance")}
            assert "storage_conformance.session" not in ours
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:benchmark")
    assert result.ret == 0, result.stdout.str()


def test_the_plugin_itself_imports_only_pytest():
    code = (
        "import sys, pytest; before = set(sys.modules); import storage_conformance.plugin; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= set(sys.stdlib_module_names) | {"storage_conformance"}


def test_without_the_option_nothing_changes(pytester):
    pytester.makepyfile("def test_own(): pass")
    result = pytester.runpytest_inprocess("-v")
    result.assert_outcomes(passed=1)
    assert "onformance with" not in result.stdout.str()
