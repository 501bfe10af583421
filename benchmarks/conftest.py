"""`pytest benchmarks --benchmark-only --storages=reference,mybackend`: any registered backend can be measured.

Compare within one row of the table and one run only; the claims of the README are measured in turns, by `report.py`.
"""

from pathlib import Path

import pytest
import torch
from storage_benchmarks.subjects import BARE, PEER_SUBJECTS, Refused, bare, storage_subject


def pytest_addoption(parser):
    parser.addoption(
        "--storages",
        default="reference,torchrl,torchrl-memmap",
        help="backends to measure, with commas between them, beside bare tensors and other libraries",
    )


def pytest_generate_tests(metafunc):
    names = metafunc.config.getoption("--storages").split(",")
    if "subject" in metafunc.fixturenames:
        metafunc.parametrize("subject", [*names, BARE, *PEER_SUBJECTS])
    if "storage" in metafunc.fixturenames:
        metafunc.parametrize("storage", names)


@pytest.fixture(autouse=True)
def one_thread():
    """A second thread would measure the machine's other work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def backend_of(pytestconfig):
    """Gives the backend of that name, or skips."""
    from storage_conformance.errors import ConfigurationError
    from storage_conformance.registry import resolve

    def find(name):
        try:
            [backend] = resolve([name], (), folder=Path.cwd())
        except ConfigurationError as error:
            pytest.skip(str(error))
        return backend

    return find


@pytest.fixture
def measure(benchmark, subject, backend_of):
    """Times what a subject does in a case, or skips with the reason why it cannot."""

    def run(case, what):
        if case.device == "cuda" and not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")
        benchmark.extra_info.update(
            subject=subject,
            what=what,
            record=case.record.name,
            batch=case.batch,
            cursor=case.cursor,
            rows=case.reach,
            capacity=case.record.capacity,
            device=case.device,
            bytes=case.record.size * case.batch,
        )
        benchmark.group = f"{what} {case.cursor}: {case.batch} rows of {case.record.name} ({case.device})"
        try:
            if subject == BARE or subject in PEER_SUBJECTS:
                prepare = bare if subject == BARE else PEER_SUBJECTS[subject]
                benchmark(prepare(case, what))
            else:
                backend = backend_of(subject)
                with backend.context():
                    benchmark(storage_subject(backend.factory)(case, what))
        except Refused as reason:
            pytest.skip(str(reason))

    return run
