from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

# In-process runs forget the modules that they import. Ours must be the same for tests that patch them; Hypothesis is
# imported by its own plugin at the end of each run, which takes a second each time.
import hypothesis  # noqa: F401
import pytest

import storage_conformance.session  # noqa: F401

STORIES = """
from storage_conformance.finding import Failure

class Good:
    def __init__(self, max_size, *, device="cpu", ndim=1):
        pass

class Bad(Good):
    story = {
        "LEN-3": Failure(
            "len(storage) is 2, expected 1",
            ("storage = make(max_size=2)", "storage.set(0, tensor([0.]))", "storage.set(0, tensor([0.]))"),
            shrunk=True,
        ),
        "IDX-1": Failure("get(-1) raised", ("storage = make(1)",), exception="IndexError"),
    }
"""


@pytest.fixture(autouse=True)
def stories(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with `stories.py`, in which a fake campaign can be loaded."""
    pytester.makepyfile(stories=STORIES)
    pytester.makeini("[pytest]\naddopts = -p fake_campaign -p no:cacheprovider\n")
    fakes = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(fakes)
    monkeypatch.setenv("PYTHONPATH", fakes)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def conformance(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs `pytest --conformance=...` in the folder of the stories."""

    def run(backend: str, *arguments: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess(f"--conformance={backend}", *arguments)

    return run
