"""Promises between devices; run by test_accelerator.py in a process where the fake accelerator is installed."""

import copy
import itertools
import pickle

import pytest
import torch
from tensordict import TensorDict, lazy_stack

from lazy_tensor_storage import LazyTensorStorage, dump_reading, dump_writing
from lazy_tensor_storage import storage as storage_module
from storage_conformance import accelerator

accelerator.install()

FAKE = torch.device("fake:0")
DTYPES = [torch.float32, torch.bool, torch.bfloat16, torch.uint8, torch.int64, torch.complex64]
DEVICES = ["cpu", "fake:0", "fake:1"]


def record(device):
    return TensorDict(
        a=torch.arange(6.0, device=device).view(3, 2),
        b=TensorDict(c=torch.zeros(3, dtype=torch.bool, device=device), batch_size=[3]),
        s="text",
        batch_size=[3],
    )


@pytest.mark.parametrize(("dtype", "source"), list(itertools.product(DTYPES, DEVICES)))
def test_every_index_takes_data_from_every_device(dtype, source):
    data = torch.arange(12.0).view(4, 3).to(dtype).to(source)
    for rows in (
        range(1, 5),
        slice(1, 5),
        [4, 0, 2, 1],
        torch.tensor([4, 0, 2, 1]),
        torch.tensor([4, 0, 2, 1], device=FAKE),
    ):
        storage = LazyTensorStorage(6, device="fake")
        storage.set(rows, data)
        index = rows if not isinstance(rows, range) else list(rows)
        assert storage[index].device == storage.device == FAKE
        assert torch.equal(storage[index].cpu(), data.cpu())
        storage[index] = data
        storage.set(0, data[1])
        assert torch.equal(storage[0].cpu(), data[1].cpu())


def test_the_last_of_several_items_for_a_row_wins():
    storage = LazyTensorStorage(4, device=FAKE)
    storage.set([1, 1, 0, 1], {"a": torch.arange(4), "b": torch.arange(4.0, device=FAKE)})
    assert storage[:]["a"].tolist() == [2, 3]
    assert storage[:]["b"].tolist() == [2, 3]


def test_single_bytes_at_odd_addresses_are_written():
    storage = LazyTensorStorage(4, device=FAKE)
    data = torch.arange(33, dtype=torch.uint8)[1:].view(2, 16).to(FAKE)
    storage.set([2, 0], torch.arange(34, dtype=torch.uint8, device=FAKE)[1:33].view(2, 16))
    assert torch.equal(storage[[2, 0]].cpu(), data.cpu())


@pytest.mark.parametrize("source", DEVICES)
def test_auto_is_the_device_of_the_leaves(source):
    storage = LazyTensorStorage(6, device="auto")
    storage.set([1, 0, 4], record(source))
    assert storage.device == torch.device(source)
    assert storage[0].device == storage[0]["a"].device == storage[[0]]["b", "c"].device == storage.device


def test_auto_refuses_leaves_on_different_devices():
    storage = LazyTensorStorage(6, device="auto")
    with pytest.raises(ValueError, match="auto"):
        storage.set(0, {"a": torch.ones(2), "b": torch.ones(2, device=FAKE)})
    assert storage.shape is None
    assert storage.device == "auto"


def test_lists_and_lazy_stacks_may_come_from_other_devices():
    storage = LazyTensorStorage(6, device=FAKE)
    storage.set(range(3), record("cpu"))
    here, there = record("cpu"), record("fake:1")
    storage.set([4, 2], [there[0], here[1]])
    storage.set(slice(0, 2), lazy_stack([there[1], there[2]]))
    assert storage[:]["a"].cpu().tolist() == [[2, 3], [4, 5], [2, 3], [0, 0], [0, 1]]


@pytest.mark.parametrize("device", ["cpu", "fake:0"])
def test_index_tensors_may_lie_on_another_device(device):
    storage = LazyTensorStorage(12, device=device, ndim=2)
    storage.set(range(2), torch.zeros(2, 3))
    for other in ("cpu", "fake:0"):
        rows = torch.tensor([0, -1], device=other)
        storage[rows] = torch.ones(2, 3)
        storage[(rows, 1)] = torch.zeros(2)
        assert storage[rows].cpu().tolist() == [[1, 0, 1], [1, 0, 1]]
        assert storage[torch.ones(2, 3, dtype=torch.bool, device=other)].shape == (6,)
        assert torch.tensor(1, device=other) in storage


def test_memory_is_allocated_once_and_only_on_the_device():
    before = torch.fake.memory_allocated(0)
    storage = LazyTensorStorage(1000, device=FAKE)
    assert torch.fake.memory_allocated(0) == before
    storage.set(0, torch.ones(10))
    assert torch.fake.memory_allocated(0) == before + 1000 * 10 * 4


@pytest.mark.parametrize("staged", [2**25, -1], ids=["staged", "in place"])
@pytest.mark.parametrize("source", DEVICES)
@pytest.mark.parametrize("device", DEVICES)
def test_dumps_of_every_device_go_into_storages_of_every_other(source, device, staged, tmp_path, monkeypatch):
    monkeypatch.setattr(storage_module, "STAGED", staged)
    for module in (dump_reading, dump_writing):
        monkeypatch.setattr(module, "PIECE", 16)  # pieces that end amid a row
    storage = LazyTensorStorage(6, device=source)
    storage.set([1, 0, 4], record("cpu"))
    storage.dumps(tmp_path)
    used = LazyTensorStorage(9, device=device)
    used.set(range(9), lazy_stack([record("cpu")[0]] * 9))
    for loaded in (LazyTensorStorage(9, device=device), used):
        for _ in range(2):
            loaded.loads(tmp_path)
            assert loaded.device == loaded[0].device == torch.device(device)
            assert len(loaded) == 5
            assert loaded.last_row == 4
            assert torch.equal(loaded[:]["a"].cpu(), storage[:]["a"].cpu())
            assert torch.equal(loaded[:]["b", "c"].cpu(), storage[:]["b", "c"].cpu())
            assert [item.get("s") for item in loaded] == [item.get("s") for item in storage]
            loaded.dumps(tmp_path)


def test_dumps_states_and_copies_cross_devices(tmp_path):
    storage = LazyTensorStorage(6, device=FAKE)
    storage.set([1, 0, 4], record("fake:1"))
    storage.dumps(tmp_path)
    for device, expected in (("auto", "cpu"), ("cpu", "cpu"), ("fake:1", "fake:1")):
        loaded = LazyTensorStorage(9, device=device)
        loaded.loads(tmp_path)
        assert loaded.device == loaded[0].device == torch.device(expected)
        assert torch.equal(loaded[:]["a"].cpu(), storage[:]["a"].cpu())
        loaded.load_state_dict(storage.state_dict())
        storage.load_state_dict(loaded.state_dict())
    for copied in (copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))):
        assert copied.device == FAKE
        copied.set(0, record("cpu")[2])
        assert storage[0]["a"].cpu().tolist() == [2, 3]


def test_a_device_that_is_not_there_is_refused_at_construction():
    with pytest.raises(RuntimeError, match="fake:7"):
        LazyTensorStorage(3, device="fake:7")
