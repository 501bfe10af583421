"""What has no bare counterpart among the rows: elements of `ndim=2`, dumps, threads, and the machine's bandwidth."""

import shutil

import pytest
import torch
from storage_benchmarks.operations import filled
from storage_benchmarks.records import FRAMES, SMALL


@pytest.mark.parametrize("what", ["write", "read"])
def test_elements_of_two_dimensions(benchmark, backend_of, storage, what):
    """256 elements of rows of eight."""
    backend = backend_of(storage)
    benchmark.extra_info.update(subject=storage, what=f"{what} 256 elements of ndim=2, small")
    with backend.context():
        made = backend.factory(SMALL.capacity, ndim=2)
        rows = SMALL.capacity // 8
        for start in range(0, rows, 100):
            made.set(torch.arange(start, start + 100), SMALL.make(800).reshape(100, 8))
        index = (torch.randint(rows, (256,)), torch.randint(8, (256,)))
        data = SMALL.make(256)
        benchmark((lambda: made.set(index, data)) if what == "write" else (lambda: made.get(index)))


@pytest.mark.parametrize("what", ["dump", "load"])
@pytest.mark.parametrize("record", [SMALL, FRAMES], ids=lambda record: record.name)
def test_checkpoints(benchmark, backend_of, storage, record, what, tmp_path):
    backend = backend_of(storage)
    benchmark.extra_info.update(subject=storage, what=f"{what}, {record.name}, {record.capacity} rows")
    with backend.context():
        made = filled(backend.factory, record)
        made.dumps(tmp_path / "dump")
        act = made.dumps if what == "dump" else backend.factory(record.capacity).loads
        benchmark.pedantic(act, args=(tmp_path / "dump",), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("record", [SMALL, FRAMES], ids=lambda record: record.name)
def test_copy_of_a_file(benchmark, record, tmp_path):
    """As many bytes as a dump holds."""
    benchmark.extra_info.update(subject="copy of a file", what=f"dump, {record.name}, {record.capacity} rows")
    (tmp_path / "one").write_bytes(bytes(record.size * record.capacity))
    benchmark.pedantic(
        shutil.copyfile, args=(tmp_path / "one", tmp_path / "other"), rounds=5, warmup_rounds=1
    )


@pytest.mark.parametrize("what", ["write", "read"])
@pytest.mark.parametrize("threads", [1, 2, 4, 8])
def test_threads_of_torch(benchmark, backend_of, storage, threads, what):
    backend = backend_of(storage)
    if threads > max(2, torch.get_num_interop_threads()):
        pytest.skip(f"{threads} threads are more than this machine has cores")
    torch.set_num_threads(threads)
    benchmark.extra_info.update(
        subject=storage, what=f"{what} 256 rows of frames, {threads} thread{'s' * (threads > 1)}"
    )
    with backend.context():
        made = filled(backend.factory, FRAMES)
        rows, data = torch.randperm(FRAMES.capacity)[:256], FRAMES.make(256)
        benchmark((lambda: made.set(slice(0, 256), data)) if what == "write" else (lambda: made.get(rows)))


def test_bandwidth(benchmark):
    """One thread copies 64 MiB, which no cache holds: the line that nothing crosses for long."""
    source, target = torch.ones(2**26, dtype=torch.uint8), torch.zeros(2**26, dtype=torch.uint8)
    benchmark.extra_info.update(subject="bandwidth", what="copy", bytes=2**26)
    benchmark(target.copy_, source)
