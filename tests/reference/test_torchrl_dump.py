"""Dumps that TorchRL has just written, loaded into the reference."""

import json

import pytest
import torch
from tensordict import NonTensorData, TensorDict, tensorclass

from lazy_tensor_storage import CheckpointError, LazyTensorStorage
from lazy_tensor_storage import storage as storage_module

replay_buffers = pytest.importorskip("torchrl.data", reason="TorchRL writes the dumps")


@tensorclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


@tensorclass
class Noted:
    a: torch.Tensor
    note: str
    more: torch.Tensor | None = None


@pytest.fixture(params=["staged", "in place"], autouse=True)
def way(request, monkeypatch):
    if request.param == "in place":
        monkeypatch.setattr(storage_module, "STAGED", -1)


def by_torchrl(path, data, rows=4, **options):
    storage = replay_buffers.LazyTensorStorage(6, **options)
    storage.set(range(rows), data)
    storage.dumps(path)
    return storage


TENSORDICT = TensorDict(
    a=torch.arange(4),
    b=TensorDict(c=torch.tensor([True, False] * 4).view(4, 2), z=torch.zeros(4, 0), batch_size=[4]),
    batch_size=[4],
)
PAIRS = Pair(a=torch.arange(4), b=torch.randn(4, 2), batch_size=[4])


@pytest.mark.parametrize(
    "data",
    [
        TENSORDICT,
        PAIRS,
        TensorDict(p=PAIRS, k=torch.ones(4, dtype=torch.bfloat16), batch_size=[4]),
        TensorDict(
            {
                "a.b": torch.ones(4, 1),
                "with blank": torch.zeros(4),
                "../%": torch.randn(4),
                "": torch.ones(4),
                "..": torch.ones(4),
            },
            batch_size=[4],
        ),
        TensorDict(a=torch.randn(4, 3, 2), batch_size=[4, 3]),
        TensorDict(a=TensorDict(b=torch.randn(4, 3, 2), batch_size=[4, 3]), batch_size=[4]),
    ],
    ids=["nested", "tensorclass", "tensorclass inside", "odd names", "wider", "wider inside"],
)
@pytest.mark.parametrize("used", [False, True])
def test_tensordicts_and_tensorclasses(tmp_path, data, used):
    by_torchrl(tmp_path, data)
    storage = LazyTensorStorage(9)
    if used:
        storage.set(range(7), torch.cat([data, data[:3]]))
    storage.loads(tmp_path)
    assert len(storage) == 4
    assert storage.last_row is None
    assert type(storage[:]) is type(data)
    assert storage[:].batch_size == data.batch_size
    assert bool((storage[:] == data).all())
    storage.set(4, data[0])
    assert bool((storage[4] == data[0]).all())


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("used", [False, True])
def test_fields_of_tensorclasses_that_are_none(tmp_path, used, inside):
    data = Noted(a=torch.arange(4), note="x", batch_size=[4])
    data = TensorDict(n=data, batch_size=[4]) if inside else data
    by_torchrl(tmp_path, data)
    storage = LazyTensorStorage(9)
    if used:
        storage.set(range(2), data[:2])
    storage.loads(tmp_path)
    for index in (4, 5):  # what was read can be written, and so can what TorchRL was given
        storage.set(index, storage[0] if index == 4 else data[1])
    rows = [item["n"] if inside else item for item in storage]
    assert [row.a.item() for row in rows] == [0, 1, 2, 3, 0, 1]
    assert {(type(row), row.note, row.more) for row in rows} == {(Noted, "x", None)}


@pytest.mark.parametrize("name", ["other.pickle", "pickle.pkl"])
def test_pickled_fields_of_tensorclasses_are_refused(tmp_path, name):
    by_torchrl(tmp_path, PAIRS)
    (tmp_path / name).write_bytes(b"cos\nsystem\n.")
    with pytest.raises(CheckpointError, match="pickle"):
        LazyTensorStorage(9).loads(tmp_path)


def test_fields_of_tensorclasses_that_are_kept_in_another_way_are_refused(tmp_path):
    by_torchrl(tmp_path, PAIRS)
    changed(tmp_path / "meta.json", lambda meta: meta.update(c="text"))
    with pytest.raises(CheckpointError, match="beside the rows"):
        LazyTensorStorage(9).loads(tmp_path)


def test_a_tensor_without_a_name_is_refused(tmp_path):
    data = torch.ones(4, 2)
    by_torchrl(tmp_path, data)
    changed(
        tmp_path / "storage_metadata.json",
        lambda meta: meta.update(metadata={"": meta["metadata"].popitem()[1]}),
    )
    used = LazyTensorStorage(9)
    used.set(range(2), data[:2] + 1)
    with pytest.raises(CheckpointError):
        used.loads(tmp_path)
    assert used[:].tolist() == [[2, 2], [2, 2]]


def test_tensors_with_two_dimensions(tmp_path):
    data = torch.arange(6.0).view(3, 2)
    by_torchrl(tmp_path, data, rows=3, ndim=2)
    storage = LazyTensorStorage(8, ndim=2)
    storage.loads(tmp_path)
    assert storage.shape == (3, 2)
    assert torch.equal(storage[:], data)
    with pytest.raises(CheckpointError, match="ndim"):
        LazyTensorStorage(8, ndim=3).loads(tmp_path)


def test_tensors(tmp_path):
    by_torchrl(tmp_path, torch.arange(8).view(4, 2))
    storage = LazyTensorStorage(8)
    storage.loads(tmp_path)
    assert torch.equal(storage[:], torch.arange(8).view(4, 2))


def test_a_pytree_needs_a_storage_that_knows_its_structure(tmp_path):
    data = {"a": torch.arange(4.0), "b": (torch.ones(4), torch.zeros(4, 2))}
    by_torchrl(tmp_path, data)
    storage = LazyTensorStorage(8)
    with pytest.raises(CheckpointError, match="structure of this pytree"):
        storage.loads(tmp_path)
    assert storage.shape is None
    storage.set(range(6), {"a": torch.ones(6), "b": (torch.zeros(6), torch.ones(6, 2))})
    storage.loads(tmp_path)
    assert len(storage) == 4
    found = storage[:]
    assert torch.equal(found["a"], data["a"])
    assert torch.equal(found["b"][0], data["b"][0])
    assert torch.equal(found["b"][1], data["b"][1])
    other = LazyTensorStorage(8)
    other.set(0, {"a": torch.ones(()), "b": (torch.ones(()),)})
    with pytest.raises(CheckpointError, match=r"b\.1"):
        other.loads(tmp_path)
    assert len(other) == 1


def test_values_that_are_not_tensors_come_back_row_by_row(tmp_path):
    storage = replay_buffers.LazyTensorStorage(6)
    for row, text in enumerate(["x", "y", "z"]):
        storage.set(row, TensorDict(a=torch.tensor(row), s=NonTensorData(text)))
    storage.dumps(tmp_path)
    found = LazyTensorStorage(6)
    found.loads(tmp_path)
    assert [item["s"] for item in found] == ["x", "y", "z"]


def test_more_rows_than_fit_are_refused(tmp_path):
    by_torchrl(tmp_path, TENSORDICT)
    storage = LazyTensorStorage(3)
    with pytest.raises(ValueError, match="do not fit"):
        storage.loads(tmp_path)
    assert storage.shape is None


@pytest.mark.parametrize("length", [0, 1, 47, 49])
def test_a_file_of_another_length_is_refused(tmp_path, length):
    by_torchrl(tmp_path, TENSORDICT)
    with (tmp_path / "a.memmap").open("r+b") as file:
        file.truncate(length)
    storage = LazyTensorStorage(9)
    with pytest.raises(CheckpointError, match="bytes in place of 48"):
        storage.loads(tmp_path)
    assert storage.shape is None


@pytest.mark.parametrize("name", ["a.memmap", "b", "b/c.memmap", "meta.json", "b/meta.json"])
def test_what_is_missing_is_missed(tmp_path, name):
    by_torchrl(tmp_path, TENSORDICT)
    (tmp_path / name).rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="missing"):
        LazyTensorStorage(9).loads(tmp_path)


@pytest.mark.parametrize("name", ["a.memmap", "b", "meta.json", "storage_metadata.json"])
def test_symbolic_links_are_not_followed(tmp_path, name):
    by_torchrl(tmp_path / "dump", TENSORDICT)
    (tmp_path / "dump" / name).rename(tmp_path / "outside")
    (tmp_path / "dump" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError, match="symbolic link"):
        LazyTensorStorage(9).loads(tmp_path / "dump")


def changed(path, change):
    meta = json.loads(path.read_text())
    change(meta)
    path.write_text(json.dumps(meta))


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update({"../a": meta.pop("a")}),
        lambda meta: meta.update({"/etc/passwd": {"type": "TensorDict"}}),
        lambda meta: meta.update({"..": {"type": "TensorDict"}}),
        lambda meta: meta.update({"ü" * 200: meta.pop("a")}),
        lambda meta: meta["a"].update(shape=[2**60]),
        lambda meta: meta["a"].update(shape=[-6]),
        lambda meta: meta["a"].update(shape=6),
        lambda meta: meta["a"].update(dtype="torch.nothing"),
        lambda meta: meta["a"].update(dtype="torch.int32"),
        lambda meta: meta["a"].update(is_nested=True),
        lambda meta: meta.update(shape=[5]),
        lambda meta: meta.update(shape=[]),
        lambda meta: meta.pop("_type"),
        lambda meta: meta.pop("shape"),
        lambda meta: meta.update(c=None),
    ],
)
def test_metadata_that_make_no_sense_are_refused(tmp_path, change):
    by_torchrl(tmp_path, TENSORDICT)
    changed(tmp_path / "meta.json", change)
    storage = LazyTensorStorage(9)
    with pytest.raises(CheckpointError):
        storage.loads(tmp_path)
    assert storage.shape is None


def test_no_class_is_imported(tmp_path):
    by_torchrl(tmp_path, PAIRS)
    for name in ("antigravity.Pair", "os.path.join", "builtins.eval", "torch.Tensor", "Pair", ""):
        changed(tmp_path / "meta.json", lambda meta, name=name: meta.update(_type=f"<class '{name}'>"))
        with pytest.raises(ValueError, match=r"import it first|is no tensorclass"):
            LazyTensorStorage(9).loads(tmp_path)


def test_pickles_are_refused(tmp_path):
    values = TensorDict(a=torch.arange(2), s=NonTensorData("x", batch_size=[2]), batch_size=[2])
    by_torchrl(tmp_path, values, rows=2)
    changed(
        tmp_path / "s" / "meta.json", lambda meta: meta.pop("data")
    )  # as tensordict does beside its pickles
    (tmp_path / "s" / "pickle.pkl").write_bytes(b"cos\nsystem\n.")
    storage = LazyTensorStorage(9)
    with pytest.raises(CheckpointError, match="pickle"):
        storage.loads(tmp_path)
    assert storage.shape is None


def test_a_leaf_that_torchrl_forgets_is_missed(tmp_path):
    by_torchrl(tmp_path, TensorDict({"shape": torch.ones(4), "a": torch.ones(4)}, batch_size=[4]))
    with pytest.raises(CheckpointError, match=r"shape\.memmap"):
        LazyTensorStorage(9).loads(tmp_path)


def test_a_dump_of_ours_comes_first(tmp_path):
    by_torchrl(tmp_path, torch.ones(4))
    ours = LazyTensorStorage(3)
    ours.set(0, torch.zeros(()))
    ours.dumps(tmp_path)
    loaded = LazyTensorStorage(9)
    loaded.loads(tmp_path)
    assert loaded[:].tolist() == [0]
