"""A dump comes back whole: of every kind of rows, at every length, into every kind of storage, any number of times."""

from collections import namedtuple
from itertools import permutations

import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, tensorclass

from lazy_tensor_storage import LazyTensorStorage, dump_reading, dump_writing
from lazy_tensor_storage import storage as storage_module

CAPACITY = 5
Pair = namedtuple("Pair", "first second")


@tensorclass
class Inner:
    reward: torch.Tensor
    note: str


@tensorclass
class Transition:
    state: torch.Tensor
    inner: Inner


def numbered(first, count, *shape):
    rows = torch.arange(first, first + count, dtype=torch.float32)
    return rows.reshape(-1, *[1] * len(shape)).expand(count, *shape).clone()


def texts(first, count):
    return NonTensorStack(*(NonTensorData(f"row {number}") for number in range(first, first + count)))


def tensor(first, count):
    return numbered(first, count, 2, 3).to(torch.complex128)


def tensordict(first, count):
    inner = TensorDict(
        b=numbered(first, count, 0), c=numbered(first, count).to(torch.bool), batch_size=[count]
    )
    return TensorDict(a=numbered(first, count, 7), inner=inner, s=texts(first, count), batch_size=[count])


def a_tensorclass(first, count):
    inner = Inner(reward=numbered(first, count, 1), note=texts(first, count), batch_size=[count])
    return Transition(state=numbered(first, count, 4), inner=inner, batch_size=[count])


def pytree(first, count):
    return {"p": Pair(numbered(first, count), [numbered(first, count, 2)]), "t": (numbered(first, count, 3),)}


def two_dimensions(first, count):
    return TensorDict(a=numbered(first, count, 2, 3), batch_size=[count, 2])


KINDS = [tensor, tensordict, a_tensorclass, pytree, two_dimensions]
LENGTHS = [0, 1, CAPACITY - 1, CAPACITY, "wrapped"]
TARGETS = ["fresh", "used", "full", "larger", "larger and used", "just large enough"]


def empty(kind, capacity):
    return LazyTensorStorage(capacity * 2, ndim=2) if kind is two_dimensions else LazyTensorStorage(capacity)


def filled(kind, length, capacity=CAPACITY, first=1):
    storage = empty(kind, capacity)
    if length == "wrapped":
        storage.set(range(capacity), kind(first, capacity))
        storage.set([capacity - 1, 0, 1], kind(first + 50, 3))
    elif length == 0:
        storage.set(0, kind(first, 1)[0] if kind is not pytree else item(first))
        storage.clear()
    else:
        storage.set(range(length), kind(first, length))
    return storage


def item(number):
    return {"p": Pair(numbered(number, 1)[0], [numbered(number, 1, 2)[0]]), "t": (numbered(number, 1, 3)[0],)}


def target_of(name, kind, rows):
    capacities = {"larger": 9, "larger and used": 9, "just large enough": max(rows, 1)}
    capacity = capacities.get(name, CAPACITY)
    if name in ("fresh", "larger", "just large enough"):
        return empty(kind, capacity)
    return filled(kind, capacity if name == "full" else 2, capacity, first=100)


def assert_same(found, expected):
    """Structure and types, bytes, values, the last-written row."""
    found, expected = found.state_dict(), expected.state_dict()
    leaves, others = found.pop("leaves"), expected.pop("leaves")
    assert found == expected
    for leaf, other in zip(leaves, others, strict=True):
        assert (leaf.dtype, leaf.shape) == (other.dtype, other.shape)
        assert torch.equal(leaf, other)


@pytest.fixture(params=["staged", "in place, by bytes"], autouse=True)
def way(request, monkeypatch):
    """Few bytes at once, or straight into the storage in pieces that end amid a row."""
    if request.param != "staged":
        monkeypatch.setattr(storage_module, "STAGED", -1)
        monkeypatch.setattr(dump_reading, "PIECE", 16)
        monkeypatch.setattr(dump_writing, "PIECE", 16)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_dump_comes_back_whole(kind, length, target, tmp_path):
    source = filled(kind, length)
    source.dumps(tmp_path / "first")
    loaded = target_of(target, kind, len(source) // (2 if kind is two_dimensions else 1))
    capacity = loaded.max_size
    for again in ("second", "third"):
        loaded.loads(tmp_path / "first")
        assert_same(loaded, source)
        loaded.dumps(tmp_path / again)
        loaded.loads(tmp_path / again)
        assert_same(loaded, source)
    assert loaded.max_size == capacity
    loaded.set([0], kind(70, 1))
    source.set([0], kind(70, 1))
    assert_same(loaded, source)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_rows_that_do_not_fit_are_refused(kind, used, tmp_path):
    filled(kind, CAPACITY).dumps(tmp_path)
    target = filled(kind, 2, CAPACITY - 1, first=100) if used else empty(kind, CAPACITY - 1)
    with pytest.raises(ValueError, match="do not fit"):
        target.loads(tmp_path)
    if used:
        assert_same(target, filled(kind, 2, CAPACITY - 1, first=100))
    else:
        assert target.shape is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_that_a_load_replaced_do_not_come_back(kind, tmp_path):
    filled(kind, 1).dumps(tmp_path)
    target = filled(kind, CAPACITY, first=100)
    target.loads(tmp_path)
    expected = filled(kind, 1)
    for storage in (target, expected):
        storage.set([3], kind(60, 1))
    assert_same(target, expected)


@pytest.mark.parametrize(("one", "other"), list(permutations(KINDS, 2)), ids=lambda kind: kind.__name__)
def test_rows_of_another_structure_are_refused(one, other, tmp_path):
    filled(one, 3).dumps(tmp_path)
    target = filled(other, 2, first=100)
    with pytest.raises((ValueError, TypeError)):
        target.loads(tmp_path)
    assert_same(target, filled(other, 2, first=100))
