"""Writing and reading rows, beside the bare torch operation on the same leaves.

Compare within one run only: `--benchmark-group-by=func,param:kind` puts each operation next to its bare loop.
"""

import pytest
import torch
from tensordict import TensorDict

CAPACITY, BATCH = 20_000, 256
INDICES = ("slice", "range", "tensor", "scattered")


def record(rows):
    """A small transition: five leaves, 37 bytes in all."""
    return TensorDict(
        {
            "obs": torch.rand(rows, 4),
            "action": torch.rand(rows, 2),
            "next": {
                "obs": torch.rand(rows, 4),
                "reward": torch.rand(rows, 1),
                "done": torch.zeros(rows, 1, dtype=torch.bool),
            },
        },
        batch_size=[rows],
    )


def frames(rows):
    """Two stacks of four 84x84 frames."""
    shape = (rows, 4, 84, 84)
    return TensorDict(
        {
            "obs": torch.zeros(shape, dtype=torch.uint8),
            "next": {"obs": torch.zeros(shape, dtype=torch.uint8)},
        },
        batch_size=[rows],
    )


KINDS = {"record": (record, CAPACITY), "frames": (frames, 1_000)}


def leaves(data):
    return [leaf for _, leaf in data.items(include_nested=True, leaves_only=True)]


def index_of(name, capacity):
    start = capacity // 2
    if name == "slice":
        return slice(start, start + BATCH)
    if name == "range":
        return range(start, start + BATCH)
    if name == "tensor":
        return torch.arange(start, start + BATCH)
    return torch.randperm(capacity, generator=torch.Generator().manual_seed(0))[:BATCH]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=INDICES)
def index(request):
    return request.param


def filled(backend, kind):
    make, capacity = KINDS[kind]
    storage = backend.factory(capacity)
    for start in range(0, capacity, BATCH):
        storage.set(range(start, min(capacity, start + BATCH)), make(min(capacity, start + BATCH) - start))
    return storage


def test_set(benchmark, backend, kind, index):
    make, capacity = KINDS[kind]
    with backend.context():
        storage, rows, data = filled(backend, kind), index_of(index, capacity), make(BATCH)
        benchmark(lambda: storage.set(rows, data))
        assert len(storage) == capacity


def test_set_bare(benchmark, kind, index):
    make, capacity = KINDS[kind]
    rows, data = index_of(index, capacity), leaves(make(BATCH))
    targets = [leaf.new_zeros((capacity, *leaf.shape[1:])) for leaf in data]
    run = slice(rows.start, rows.stop) if isinstance(rows, range) else rows

    def write():
        for target, leaf in zip(targets, data, strict=True):
            target[run] = leaf

    benchmark(write)


def test_get(benchmark, backend, kind):
    _, capacity = KINDS[kind]
    with backend.context():
        storage, rows = filled(backend, kind), index_of("scattered", capacity)
        found = benchmark(lambda: storage.get(rows))
        assert found.batch_size == (BATCH,)


def test_get_bare(benchmark, kind):
    make, capacity = KINDS[kind]
    rows, sources = index_of("scattered", capacity), leaves(make(capacity))
    benchmark(lambda: [source.index_select(0, rows) for source in sources])


def test_set_one_row(benchmark, backend, kind):
    make, capacity = KINDS[kind]
    with backend.context():
        storage, item = filled(backend, kind), make(1)[0]
        benchmark(lambda: storage.set(capacity // 2, item))
