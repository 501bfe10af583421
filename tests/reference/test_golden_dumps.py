"""Dumps of version 1 of the format, kept in ``tests/data``: every later version reads them.

They are never written again: a new version of the format gets a folder of its own, by
``python tests/reference/test_golden_dumps.py FOLDER``.
"""

import sys
import types
from collections import OrderedDict, namedtuple
from pathlib import Path

import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, tensorclass

from lazy_tensor_storage import LazyTensorStorage, dump_file
from lazy_tensor_storage import storage as storage_module

DATA = Path(__file__).parents[1] / "data" / "dumps-1"
FILE = "storage.safetensors"
DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
]
VALUES = [
    *(None, True, 3, 2**200, -1.5, "ü\ud800", b"\x00\xff"),
    *([1, ["a"]], (1, (2,)), {"k": [1], 3: (4,)}, {}, []),
]


@tensorclass
class Inner:
    reward: torch.Tensor


@tensorclass
class Transition:
    observation: torch.Tensor
    inner: Inner


Pair = namedtuple("Pair", "first second")
CLASSES = {"Inner": Inner, "Transition": Transition, "Pair": Pair}
for _name, _class in CLASSES.items():
    _class.__module__, _class.__qualname__ = "golden", _name


def counted(*shape, dtype=torch.float32):
    """Small numbers that every dtype has."""
    return (torch.arange(torch.Size(shape).numel()) % 7).reshape(shape).to(dtype)


def tensor():
    storage = LazyTensorStorage(9)
    storage.set([0, 2, 1], counted(3, 2, 3))
    return storage


def tensordict():
    storage = LazyTensorStorage(9)
    inner = TensorDict(
        b=counted(4, 2, dtype=torch.int64), deep=TensorDict(c=counted(4, 2, 5), batch_size=[4, 2])
    )
    data = TensorDict({"a": counted(4), "ü/..": inner, "nothing": TensorDict(batch_size=[4])}, batch_size=[4])
    storage.set(range(4), data)
    return storage


def a_tensorclass():
    storage = LazyTensorStorage(9)
    inner = Inner(reward=counted(3, 1), batch_size=[3])
    storage.set(range(3), Transition(observation=counted(3, 4), inner=inner, batch_size=[3]))
    return storage


def pytree():
    storage = LazyTensorStorage(9)
    item = {
        "pair": Pair(counted(3, 2), [counted(3)]),
        7: (counted(3, dtype=torch.int8), OrderedDict(z=counted(3), a=counted(3, 0))),
    }
    storage.set(range(3), item)
    return storage


def two_dimensions():
    storage = LazyTensorStorage(60, ndim=2)
    storage.set(range(3), TensorDict(a=counted(3, 4, 2), batch_size=[3, 4]))
    return storage


def dtypes():
    storage = LazyTensorStorage(9)
    leaves = {str(dtype).removeprefix("torch."): counted(3, 3, dtype=dtype) for dtype in DTYPES}
    storage.set(range(3), TensorDict(leaves, batch_size=[3]))
    return storage


def values():
    storage = LazyTensorStorage(len(VALUES) + 2)
    rows = NonTensorStack(*map(NonTensorData, VALUES))
    storage.set(range(len(VALUES)), TensorDict(a=counted(len(VALUES)), s=rows, batch_size=[len(VALUES)]))
    return storage


def wrapped():
    storage = LazyTensorStorage(3)
    storage.set([1, 2, 0], counted(3, 2))
    storage.set([2, 0], counted(2, 2) + 9)
    return storage


def no_bytes():
    storage = LazyTensorStorage(9)
    storage.set(range(3), TensorDict(a=counted(3, 0), b=counted(3, 2, 0, dtype=torch.bool), batch_size=[3]))
    return storage


def no_rows():
    storage = tensordict()
    storage.clear()
    return storage


STORAGES = {
    made.__name__: made
    for made in (
        *(
            tensor,
            tensordict,
            a_tensorclass,
            pytree,
            two_dimensions,
            dtypes,
            values,
            wrapped,
            no_bytes,
            no_rows,
        ),
    )
}


@pytest.fixture
def classes(monkeypatch):
    """A module of the name that the dumps know."""
    module = types.ModuleType("golden")
    vars(module).update(CLASSES)
    monkeypatch.setitem(sys.modules, "golden", module)


def assert_same(found, expected):
    """All that a storage holds: structure, types, bytes, values and the last-written row."""
    found, expected = found.state_dict(), expected.state_dict()
    leaves, others = found.pop("leaves"), expected.pop("leaves")
    assert found == expected
    for leaf, other in zip(leaves, others, strict=True):
        assert (leaf.shape, leaf.dtype) == (other.shape, other.dtype)
        assert torch.equal(leaf.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


@pytest.mark.parametrize("name", STORAGES)
@pytest.mark.parametrize("staged", [2**25, -1], ids=["staged", "in place"])
def test_a_dump_of_version_1_is_read(name, staged, classes, monkeypatch):
    monkeypatch.setattr(storage_module, "STAGED", staged)
    expected = STORAGES[name]()
    fresh = LazyTensorStorage(60, ndim=2 if name == "two_dimensions" else 1)
    fresh.loads(DATA / name)
    assert_same(fresh, expected)
    expected.loads(DATA / name)
    assert_same(expected, STORAGES[name]())


@pytest.mark.parametrize("name", STORAGES)
def test_the_format_is_that_of_version_1_byte_for_byte(name, tmp_path):
    """While it is the newest: whoever changes the layout meets this test."""
    assert dump_file.VERSION == 1
    STORAGES[name]().dumps(tmp_path)
    assert (tmp_path / FILE).read_bytes() == (DATA / name / FILE).read_bytes()


def test_a_later_specification_reads_it(monkeypatch):
    monkeypatch.setattr(dump_file, "SPECIFICATION", "1.7")
    fresh = LazyTensorStorage(9)
    fresh.loads(DATA / "tensor")
    assert_same(fresh, tensor())


def test_all_dumps_are_small():
    assert sorted(path.name for path in DATA.iterdir()) == sorted(STORAGES)
    assert sum((DATA / name / FILE).stat().st_size for name in STORAGES) < 40_000


@pytest.mark.parametrize("name", STORAGES)
def test_the_reader_of_the_documentation_reads_them(name):
    text = (Path(__file__).parents[2] / "FORMAT.md").read_text(encoding="utf-8")
    namespace = {}
    exec(text.partition("```python\n")[2].partition("```")[0], namespace)
    manifest, found = namespace["read"](DATA / name)
    state = STORAGES[name]().state_dict()
    assert {key: manifest[key] for key in ("ndim", "trailing", "rows", "last_row", "tree")} == {
        key: state[key] for key in ("ndim", "trailing", "rows", "last_row", "tree")
    }
    for number, leaf in enumerate(state["leaves"]):
        assert found[f"leaf.{number}"] == leaf.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    assert len(found.get("values", b"")) == manifest["values"]


if __name__ == "__main__":
    for given in STORAGES:
        STORAGES[given]().dumps(Path(sys.argv[1]) / given)
