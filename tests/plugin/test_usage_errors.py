"""Mistakes at the start of a run: one paragraph, exit code 4, no traceback."""

from __future__ import annotations

import pytest


def paragraph(result: pytest.RunResult, code: int = 4) -> str:
    """The only thing that was said, after checking that it was said properly."""
    assert result.ret == code
    everything = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in everything
    assert "INTERNALERROR" not in everything
    lines = [line for line in result.errlines if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


def test_an_unknown_backend_lists_the_registered_and_the_closest(conformance):
    said = paragraph(conformance("refernce"))
    assert "no backend 'refernce'" in said
    assert "reference, torchrl, torchrl-memmap" in said
    assert "Did you mean 'reference'?" in said


def test_an_empty_name(conformance):
    assert "needs the name of a backend" in paragraph(conformance(""))


@pytest.mark.parametrize("name", ["stories:", ":Good", "stories::Good", "a b:Good"])
def test_a_malformed_name(conformance, name):
    assert "is not of the form package.module:attribute" in paragraph(conformance(name))


def test_a_module_that_does_not_exist(conformance):
    assert "there is no module 'nowhere'" in paragraph(conformance("nowhere:Storage"))


def test_a_module_that_imports_something_missing(conformance, pytester):
    pytester.makepyfile(broken="import not_installed")
    said = paragraph(conformance("broken:Storage"))
    assert "importing broken failed: ModuleNotFoundError: No module named 'not_installed'" in said


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero (broken.py, line 1)"),
        ("def (", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_does_not_import(conformance, pytester, source, told):
    pytester.makepyfile(broken=source)
    assert told in paragraph(conformance("broken:Storage"))


def test_a_missing_attribute(conformance):
    said = paragraph(conformance("stories:Goood"))
    assert "stories has no attribute 'Goood'. Did you mean 'Good'?" in said


def test_an_attribute_that_is_not_callable(conformance, pytester):
    pytester.makepyfile(other="answer = 42")
    assert "other:answer is a int, not a class, a factory" in paragraph(conformance("other:answer"))


def test_a_factory_that_raises(conformance, pytester):
    pytester.makepyfile(other="def make(*args, **keywords):\n    raise OSError('no\\nserver')")
    said = paragraph(conformance("other:make"))
    assert "Backend 'other:make' cannot be built: it raised OSError: no server." in said
    assert "factory(max_size, device=..., ndim=...)" in said


def test_a_context_that_raises(conformance, pytester):
    pytester.makeconftest(
        """
        from contextlib import contextmanager
        from storage_conformance import Backend

        @contextmanager
        def server():
            raise OSError("port in use")
            yield

        def pytest_conformance_backends(config):
            return [Backend("served", dict, context=server)]
        """
    )
    assert "cannot be set up: its context raised OSError: port in use" in paragraph(conformance("served"))


def test_a_storage_that_cannot_be_written_once_has_an_exit_code_of_its_own(conformance, pytester):
    pytester.makepyfile(
        other="""
        class Storage:
            story = {"smoke": "set(0, row) raised\\nKeyError: 0"}
            def __init__(self, max_size, *, device="cpu", ndim=1): pass
        """
    )
    said = paragraph(conformance("other:Storage"), code=6)
    assert "Backend 'other:Storage' cannot be written and read once: set(0, row) raised KeyError: 0." in said


def test_the_same_backend_twice(conformance):
    assert "was asked for twice" in paragraph(conformance("stories:Good,stories:Good"))


def test_a_name_registered_twice(conformance, pytester):
    pytester.makeconftest(
        """
        from storage_conformance import Backend

        def pytest_conformance_backends(config):
            return [Backend("reference", dict)]
        """
    )
    assert "registered more than once, by conftest hook and by shipped" in paragraph(conformance("reference"))


@pytest.mark.parametrize("result", ["Backend('one', dict)", "['one']", "1 / 0"])
def test_a_hook_that_gives_something_else(conformance, pytester, result):
    pytester.makeconftest(
        f"""
        from storage_conformance import Backend

        def pytest_conformance_backends(config):
            return {result}
        """
    )
    assert "pytest_conformance_backends hook" in paragraph(conformance("stories:Good"))


@pytest.mark.parametrize("name", ["a b", "a,b", "a[b]", ""])
def test_a_name_that_no_node_id_can_hold(conformance, pytester, name):
    pytester.makepyfile(other=f"from storage_conformance import Backend\nbackend = Backend({name!r}, dict)")
    assert "cannot be called" in paragraph(conformance("other:backend"))


def test_an_unknown_feature(conformance):
    said = paragraph(conformance("stories:Good", "--conformance-features=pytree,colour"))
    assert "unknown colour; SPEC.md has pytree" in said


def test_features_are_for_bare_classes(conformance, pytester):
    pytester.makepyfile(other="from storage_conformance import Backend\nbackend = Backend('one', dict)")
    said = paragraph(conformance("other:backend", "--conformance-features=pytree"))
    assert "--conformance-features is for a bare class" in said


def test_a_pattern_that_names_nothing(conformance):
    assert "'LEM-*' names no requirement" in paragraph(
        conformance("stories:Good", "--conformance-only=CAP-3,LEM-*")
    )


def test_a_seed_that_is_no_integer(conformance):
    assert "--hypothesis-seed" in paragraph(conformance("stories:Good", "--hypothesis-seed=lucky"))


def test_an_unknown_profile_in_the_ini_file(conformance, pytester):
    pytester.makeini("[pytest]\naddopts = -p fake_campaign\nconformance_profile = endless\n")
    assert "no profile 'endless'" in paragraph(conformance("stories:Good"))


def test_deviations_both_given_and_switched_off(conformance):
    options = ("--conformance-deviations=torchrl", "--conformance-no-deviations")
    assert "contradict each other" in paragraph(conformance("stories:Good", *options))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('["LEN-999"]\nreason = "x"', "LEN-999 is no requirement of SPEC.md"),
        ('["LEN-3"]\n', "LEN-3 needs a reason"),
        ('["LEN-3"]\nreason = " "', "LEN-3 needs a reason"),
        ('["LEN-3"]\nreason = "x"\nuntil = 2001-01-31', "which is past"),
        ('["LEN-3"]\nreason = "x"\nsince = 3', "unknown keys ['since']"),
        ('["LEN-3"\n', "cannot be read"),
        ('"LEN-3" = "x"', "LEN-3 must be a table"),
    ],
)
def test_a_wrong_list_of_deviations(conformance, pytester, text, told):
    pytester.path.joinpath("known.toml").write_text(text)
    assert told in paragraph(conformance("stories:Good", "--conformance-deviations=known.toml"))


def test_a_list_of_deviations_that_does_not_exist(conformance):
    said = paragraph(conformance("stories:Good", "--conformance-deviations=torchlr"))
    assert (
        "neither a file nor one of the shipped lists torchrl, torchrl-memmap. Did you mean 'torchrl'?" in said
    )


def test_a_missing_library_names_the_extra_to_install(conformance, pytester, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torchrl" else find(name, *a)
    )
    said = paragraph(conformance("torchrl"))
    assert "needs torchrl, which is not installed: pip install 'lazy-tensor-storage[torchrl]'." in said


def test_nothing_is_resolved_for_help(pytester):
    assert pytester.runpytest_inprocess("--conformance=refernce", "--help").ret == 0
