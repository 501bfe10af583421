"""`pytest benchmarks --benchmark-only --storages=reference,torchrl`: any registered backend can be measured."""

from pathlib import Path

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--storages", default="reference", help="backends to measure, with commas between them")


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        from storage_conformance.registry import resolve

        names = metafunc.config.getoption("--storages").split(",")
        backends = resolve(names, (), folder=Path.cwd())
        metafunc.parametrize("backend", backends, ids=[backend.name for backend in backends])


@pytest.fixture(autouse=True)
def one_thread():
    """A second thread would measure the machine's other work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
