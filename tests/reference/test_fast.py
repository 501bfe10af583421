"""The fast paths: nothing that can be observed tells them from the plain way."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from lazy_tensor_storage import LazyTensorStorage, fast
from lazy_tensor_storage.dtypes import SUPPORTED

ROWS = 12
CURSORS = {
    "int": 5,
    "negative int": -2,
    "slice": slice(2, 6),
    "slice with a step": slice(1, 12, 3),
    "range": range(3, 8),
    "descending range": range(7, 2, -1),
    "list": [4, 5, 6],
    "scattered list": [9, 0, 4],
    "wrapping list": [10, 11, 0, 1],
    "wrapping tensor": torch.tensor([9, 10, 11, 0]),
    "negative tensor": torch.tensor([-1, -12, 3]),
    "duplicates": torch.tensor([3, 7, 3, 3, 0]),
    "int32": torch.tensor([3, 1], dtype=torch.int32),
    "two dimensions": torch.tensor([[1, 2], [8, 3]]),
    "mask": torch.arange(ROWS) % 3 == 1,
    "nothing": torch.tensor([], dtype=torch.int64),
    "read-only array": np.frombuffer(np.array([6, 2]).tobytes(), np.int64),
}
DTYPES = sorted(SUPPORTED, key=str)


def noise(shape, dtype, seed):
    """Any bytes, not-a-numbers of every kind among them."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (size,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).view(shape)


def bits(tensor):
    content = tensor.contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []
    return tensor.dtype, tensor.shape, content


def lead(index):
    return np.empty((ROWS, 0))[index if not isinstance(index, torch.Tensor) else index.numpy()].shape[:-1]


def story(write, read, dtype, feature_shape, enabled, monkeypatch):
    """A storage written twice and read, with the fast paths or without."""
    monkeypatch.setattr(fast, "ENABLED", enabled)
    storage = LazyTensorStorage(ROWS)
    everything = TensorDict({"a": noise((ROWS, *feature_shape), dtype, 1), "b": torch.arange(ROWS)}, [ROWS])
    storage.set(range(ROWS), everything)
    rows = lead(write)
    data = TensorDict({"a": noise((*rows, *feature_shape), dtype, 2), "b": noise(rows, torch.int64, 3)}, rows)
    storage.set(write, data)
    found, run = storage.get(read), storage.get(range(3, 8))
    return [
        bits(leaf) for item in (storage[:], found, run) for leaf in (item["a"], item["b"])
    ], storage.last_row


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("feature_shape", [(), (2, 5), (0,)], ids=str)
def test_every_dtype_and_index_gives_the_same_bits(dtype, feature_shape, monkeypatch):
    for write in CURSORS.values():
        told = [
            story(write, CURSORS["duplicates"], dtype, feature_shape, enabled, monkeypatch)
            for enabled in (True, False)
        ]
        assert told[0] == told[1]


@pytest.mark.parametrize("name", CURSORS)
def test_every_index_reads_the_same_bits(name, monkeypatch):
    told = [
        story(slice(0, 3), CURSORS[name], torch.bfloat16, (3,), enabled, monkeypatch)
        for enabled in (True, False)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("index", [slice(1, 3), [2, 0], 1], ids=str)
def test_leaves_that_are_large_enough_for_threads(index, monkeypatch):
    told = []
    for enabled in (True, False):
        monkeypatch.setattr(fast, "ENABLED", enabled)
        storage = LazyTensorStorage(4)
        storage.set(range(4), noise((4, 300_000), torch.uint8, 1))
        storage.set(index, noise((*np.empty(4)[index].shape, 300_000), torch.uint8, 2).requires_grad_(False))
        told.append((bits(storage[:]), bits(storage.get(index))))
    assert told[0] == told[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_leaves_that_are_large_enough_for_several_threads(threads, monkeypatch):
    told = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for enabled in (True, False):
            monkeypatch.setattr(fast, "ENABLED", enabled)
            storage = LazyTensorStorage(5)
            storage.set(range(5), noise((5, 3 * 2**18), torch.int16, 1))
            storage.set(slice(1, 3), noise((2, 3 * 2**18), torch.int16, 2))
            storage.set(4, noise((3 * 2**18,), torch.int16, 3))
            storage.set([3, 4, 0], noise((3, 3 * 2**18), torch.int16, 4))
            told.append((storage[:].numpy().tobytes(), storage.get([4, 1]).numpy().tobytes()))
    finally:
        torch.set_num_threads(before)
    assert told[0] == told[1]


def nested(rows=3, order=1):
    """A record of two levels; order -1 gives the same with all fields in reverse."""
    inner = {"x": torch.arange(rows), "y": torch.rand(rows, 2)}
    fields = {
        "a": torch.arange(rows) + 5,
        "inner": TensorDict(dict(list(inner.items())[::order]), [rows]),
        "b": torch.rand(rows),
    }
    return TensorDict(dict(list(fields.items())[::order]), [rows])


def test_fields_may_come_in_any_order():
    storage = LazyTensorStorage(3)
    storage.set(range(3), nested())
    data = nested(order=-1)
    storage.set([2, 0, 1], data)
    assert (storage[[2, 0, 1]] == data).all()
    assert list(storage[0].keys()) == ["a", "inner", "b"]


FAULTS = {
    "a missing leaf": (lambda data: data.pop("a"), ValueError),
    "a missing leaf below": (lambda data: data["inner"].pop("x"), ValueError),
    "a missing TensorDict": (lambda data: data.pop("inner"), ValueError),
    "one leaf more": (lambda data: data.set("c", torch.zeros(3)), ValueError),
    "one leaf more below": (lambda data: data["inner"].set("z", torch.zeros(3)), ValueError),
    "another name": (lambda data: data.rename_key_("a", "A"), ValueError),
    "a TensorDict for a leaf": (lambda data: data.set("a", TensorDict({}, [3])), TypeError),
    "a leaf for a TensorDict": (lambda data: data.set("inner", torch.zeros(3)), TypeError),
    "another shape": (lambda data: data.set("a", torch.zeros(3, 1, dtype=torch.int64)), ValueError),
    "another dtype": (lambda data: data.set("a", torch.full((3,), 0.5)), TypeError),
    "a sparse leaf": (lambda data: data.set("a", torch.arange(3).to_sparse()), TypeError),
}


@pytest.mark.parametrize("enabled", [True, False], ids=["fast", "plain"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_batch_is_refused_alike(fault, enabled, monkeypatch):
    monkeypatch.setattr(fast, "ENABLED", enabled)
    spoil, refused = FAULTS[fault]
    storage = LazyTensorStorage(3)
    storage.set(range(3), nested())
    before = storage[:].clone()
    for index in (slice(0, 3), [2, 0, 1]):
        data = nested()
        spoil(data)
        with pytest.raises(refused, match="nothing was written"):
            storage.set(index, data)
        assert (storage[:] == before).all()


@pytest.mark.parametrize("enabled", [True, False], ids=["fast", "plain"])
def test_batch_sizes_are_compared(enabled, monkeypatch):
    monkeypatch.setattr(fast, "ENABLED", enabled)
    storage = LazyTensorStorage(3)
    storage.set(range(3), nested())
    smaller = nested()
    smaller.batch_size = []
    for data in (nested(rows=2), smaller):
        with pytest.raises(ValueError, match="batch size"):
            storage.set(range(3), data)


def test_batches_of_many_sizes():
    storage = LazyTensorStorage(200)
    storage.set(..., torch.zeros(200, dtype=torch.int64))
    for count in [*range(1, 150), 3, 140]:
        storage.set(slice(0, count), torch.full((count,), count))
        assert storage[:count].eq(count).all()
        with pytest.raises(ValueError, match="nothing was written"):
            storage.set(slice(0, count), torch.zeros(count + 1, dtype=torch.int64))


def test_elements_of_rows(monkeypatch):
    told = []
    for enabled in (True, False):
        monkeypatch.setattr(fast, "ENABLED", enabled)
        storage = LazyTensorStorage(12, ndim=2)
        storage.set(range(4), noise((4, 3, 2), torch.int16, 1))
        storage.set((torch.tensor([0, 3, 0]), torch.tensor([1, 2, 1])), noise((3, 2), torch.int16, 2))
        storage.set((slice(1, 3), 1), noise((2, 2), torch.int16, 3))
        told.append((bits(storage[:]), bits(storage.get((torch.tensor([3, 1]), 2)))))
    assert told[0] == told[1]


def complex_noise(*shape):
    return torch.complex(torch.randn(shape), torch.randn(shape))


@pytest.mark.parametrize(
    "data",
    [
        complex_noise(3, 2).conj(),
        complex_noise(3, 2).conj().imag,
        torch._neg_view(torch.randn(3, 2)),
        torch.randn(2, 3).t(),
        torch.randn(1, 2).expand(3, 2),
        torch.randn(3, 2, requires_grad=True),
        torch.randn(3, 2, requires_grad=True) * 2,
        torch.nn.Parameter(torch.randn(3, 2)),
    ],
    ids=["conj", "neg", "neg view", "transposed", "expanded", "requires grad", "in a graph", "parameter"],
)
@pytest.mark.parametrize("index", [slice(1, 4), [3, 0, 2]], ids=str)
def test_what_is_not_plain_is_written_all_the_same(data, index):
    storage = LazyTensorStorage(4)
    storage.set(slice(0, 4), torch.zeros(4, 2, dtype=data.dtype))
    storage.set(index, data)
    assert bits(storage.get(index)) == bits(data.detach().clone().resolve_neg().resolve_conj())
    assert not storage.get(index).requires_grad


@pytest.mark.parametrize("index", [slice(0, 3), [2, 1, 0], torch.tensor([3, 0, 1])], ids=str)
def test_rows_of_the_storage_itself_are_written_as_they_were(index):
    storage = LazyTensorStorage(4)
    storage.set(range(4), TensorDict({"a": torch.arange(4), "b": torch.arange(4) + 10}, [4]))
    before = storage[:].clone()
    view = storage[1:4]
    storage.set(index, TensorDict({"a": view["b"], "b": view["a"]}, [3]))
    expected = before.clone()
    expected[index] = TensorDict({"a": before["b"][1:4], "b": before["a"][1:4]}, [3])
    assert (storage[:] == expected).all()


def test_an_index_in_the_memory_of_the_storage_is_read_once():
    storage = LazyTensorStorage(4)
    storage.set(range(4), TensorDict({"a": torch.tensor([2, 0, 3, 1]), "b": torch.zeros(4)}, [4]))
    rows = storage[:]["a"]
    storage.set(rows, TensorDict({"a": torch.arange(10, 14), "b": torch.arange(4.0)}, [4]))
    assert storage[:]["a"].tolist() == [11, 13, 10, 12]
    assert storage[:]["b"].tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("index", "refused"),
    [
        ([1, True], TypeError),
        ([True, 3], TypeError),
        ([2, 1.0], TypeError),
        ([2, "1"], TypeError),
        ([2, None], TypeError),
        ([2, 2**63], IndexError),
        ([3, False], TypeError),
        ([2, 3, 0, True], TypeError),
        ([2, 4], IndexError),
        ([2, -5], IndexError),
    ],
    ids=str,
)
def test_lists_that_are_no_index(index, refused):
    storage = LazyTensorStorage(4)
    storage.set(range(4), torch.arange(4))
    for act in (
        lambda: storage.get(index),
        lambda: storage.set(index, torch.zeros(len(index), dtype=torch.int64)),
    ):
        with pytest.raises(refused):
            act()
    assert storage[:].tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_the_plain_way_conforms(tmp_path):
    """What an accelerator uses, and items of more than 2 GiB."""
    tmp_path.joinpath("conftest.py").write_text(
        "from contextlib import contextmanager\n"
        "from lazy_tensor_storage import LazyTensorStorage, fast\n"
        "from storage_conformance import Backend\n"
        "from storage_conformance.registry import resolve\n"
        "@contextmanager\n"
        "def plain():\n"
        "    fast.ENABLED = False\n"
        "    yield\n"
        "def pytest_conformance_backends(config):\n"
        "    [known] = resolve(['reference'], (), folder=config.rootpath)\n"
        "    return [Backend('plain', LazyTensorStorage, features=known.features, context=plain)]\n"
    )
    command = [sys.executable, "-m", "pytest", "--conformance=plain", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--conformance-profile=quick"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r"^plain: partial: \d+ not claimed, profile quick, (\d+) of \1 MUST", done.stdout, re.MULTILINE
    ), done.stdout
