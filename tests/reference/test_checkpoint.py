"""The dump format, and what happens to a dump that something happened to."""

import fcntl
import json
import os
import subprocess
import sys
import types
import zlib
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tensordict import NonTensorData, TensorDict, tensorclass

from lazy_tensor_storage import CheckpointError, LazyTensorStorage, dump_writing
from lazy_tensor_storage import storage as storage_module

REFERENCE = Path(__file__).parents[2] / "reference"
FILE = "storage.safetensors"
Pair = namedtuple("Pair", "first second")


@pytest.fixture(params=["staged", "in place"], autouse=True)
def way(request, monkeypatch):
    """A load of few bytes reads them into memory of their own, one of many straight into the storage."""
    if request.param == "in place":
        monkeypatch.setattr(storage_module, "STAGED", -1)
    return request.param


def small(rows=3, capacity=1000):
    storage = LazyTensorStorage(capacity)
    data = TensorDict(a=torch.arange(rows), b=torch.ones(rows, 2, dtype=torch.bool), batch_size=[rows])
    storage.set(range(rows), data.set("s", NonTensorData("text", batch_size=[rows])))
    return storage


def contents(storage):
    return (
        storage.shape,
        storage.last_row,
        [(item["a"].item(), item["b"].tolist(), item["s"]) for item in storage],
    )


def rewritten(path, change):
    """The dump at ``path`` with its manifest changed, and every checksum right."""
    whole = (path / FILE).read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])
    manifest = json.loads(header["__metadata__"]["manifest"])
    change(manifest)
    text = json.dumps(manifest, separators=(",", ":"))
    header["__metadata__"] = {"manifest": text, "manifest.crc32": f"{zlib.crc32(text.encode()):08x}"}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    (path / FILE).write_bytes(len(head).to_bytes(8, "little") + head + whole[end:])


def test_a_dump_is_one_file_of_named_leaves_and_a_manifest(tmp_path):
    small().dumps(tmp_path / "runs" / "7")
    assert os.listdir(tmp_path / "runs" / "7") == [FILE]  # noqa: PTH208
    with safe_open(tmp_path / "runs" / "7" / FILE, framework="pt") as opened:
        assert sorted(opened.keys()) == ["leaf.0", "leaf.1", "values"]
        assert opened.get_slice("leaf.1").get_shape() == [3, 2]
        assert json.loads(opened.get_tensor("values").numpy().tobytes()) == ["text"] * 3
        manifest = json.loads(opened.metadata()["manifest"])
    assert manifest["format"] == "lazy-tensor-storage"
    assert (manifest["version"], manifest["rows"], manifest["last_row"], manifest["ndim"]) == (1, 3, 2, 1)


def test_every_dump_cut_short_is_refused(tmp_path):
    small().dumps(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    target = small(2)
    before = contents(target)
    for length in range(len(whole)):
        (tmp_path / FILE).write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            target.loads(tmp_path)
    fresh = LazyTensorStorage(9)
    with pytest.raises(CheckpointError):
        fresh.loads(tmp_path)
    assert fresh.shape is None
    assert contents(target) == before


def test_every_dump_with_an_altered_byte_is_refused_or_restored_exactly(tmp_path):
    source = small()
    source.dumps(tmp_path)
    whole = bytearray((tmp_path / FILE).read_bytes())
    refused = 0
    for place in range(len(whole)):
        for flip in (0x01, 0x20, 0x80):
            whole[place] ^= flip
            (tmp_path / FILE).write_bytes(whole)
            whole[place] ^= flip
            target = LazyTensorStorage(9)
            try:
                target.loads(tmp_path)
            except CheckpointError:
                refused += 1
                assert target.shape is None
            else:
                assert contents(target) == contents(source)
    assert refused > 2.9 * len(whole)


def test_a_dump_that_fails_midway_leaves_the_old_one(tmp_path, monkeypatch):
    small(2).dumps(tmp_path)
    before = (tmp_path / FILE).read_bytes()

    def half(descriptor, content):
        monkeypatch.undo()
        os.write(descriptor, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dump_writing, "_write_all", half)
    with pytest.raises(OSError, match="No space"):
        small(3).dumps(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == before


def test_a_killed_dump_leaves_the_old_one_or_the_new_one_whole(tmp_path):
    small(2).dumps(tmp_path)
    program = (
        "import sys, torch; from lazy_tensor_storage import LazyTensorStorage\n"
        "storage = LazyTensorStorage(10**5)\n"
        "storage.set(range(2), torch.zeros(2, 99))\n"
        "for row in range(2, 10**5):\n"
        "    storage.set(range(10**4), torch.full((10**4, 99), float(row))); storage.dumps(sys.argv[1])\n"
        "    print(row, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, env={"PYTHONPATH": str(REFERENCE)}, stdout=subprocess.PIPE) as writer:
        for _ in range(5):
            writer.stdout.readline()
        writer.kill()
    loaded = LazyTensorStorage(10**4)
    loaded.loads(tmp_path)
    assert len(loaded[:].unique()) == 1
    loaded.dumps(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_what_a_killed_dump_left_behind_is_removed_by_the_next(tmp_path):
    (tmp_path / f".{FILE}.0123456789abcdef.tmp").write_bytes(b"half of it")
    (tmp_path / "notes.txt").write_text("mine")
    small().dumps(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", FILE]


def test_what_another_process_is_still_writing_is_not_removed(tmp_path):
    aside = tmp_path / f".{FILE}.0123456789abcdef.tmp"
    aside.touch()
    lock = os.open(aside, os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    small().dumps(tmp_path)
    assert aside.is_file()
    os.close(lock)
    small().dumps(tmp_path)
    assert not aside.exists()


def test_symbolic_links_in_the_folder_are_not_followed(tmp_path):
    small().dumps(tmp_path / "outside")
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / FILE).symlink_to(tmp_path / "outside" / FILE)
    (tmp_path / "dump" / f".{FILE}.0123456789abcdef.tmp").symlink_to(tmp_path / "outside")
    before = (tmp_path / "outside" / FILE).read_bytes()
    target = LazyTensorStorage(9)
    with pytest.raises(CheckpointError, match="symbolic link"):
        target.loads(tmp_path / "dump")
    assert target.shape is None
    small(2).dumps(tmp_path / "dump")
    assert (tmp_path / "outside" / FILE).read_bytes() == before
    target.loads(tmp_path / "dump")
    assert len(target) == 2


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, 1j, torch.ones(1), bytearray(b"x"), range(3)],
    ids=lambda value: type(value).__name__,
)
def test_values_without_an_exact_json_form_are_refused_before_anything_is_written(tmp_path, value):
    storage = LazyTensorStorage(3)
    storage.set(0, TensorDict(a=torch.ones(1), s=NonTensorData([value])))
    with pytest.raises(TypeError, match="no exact JSON form"):
        storage.dumps(tmp_path / "dump")
    assert list(tmp_path.iterdir()) == []


VALUES = [
    None,
    True,
    3,
    2**200,
    -1.5,
    "ü\ud800",
    b"\x00\xff",
    [1, ["a"]],
    (1, (2,)),
    {"k": [1], 3: (4,)},
    {},
    [],
]


def test_plain_values_come_back_with_their_types(tmp_path):
    storage = LazyTensorStorage(len(VALUES))
    for row, value in enumerate(VALUES):
        storage.set(row, TensorDict(a=torch.ones(1), s=NonTensorData(value)))
    storage.dumps(tmp_path)
    loaded = LazyTensorStorage(len(VALUES))
    loaded.loads(tmp_path)
    found = [item.get("s").data for item in loaded]
    assert found == VALUES
    assert [type(value) for value in found] == [type(value) for value in VALUES]


@pytest.mark.parametrize(
    "dtype", [torch.complex128, torch.complex64, torch.float8_e4m3fn, torch.bfloat16, torch.bool]
)
def test_dtypes_come_back_bit_for_bit(tmp_path, dtype):
    storage = LazyTensorStorage(9)
    storage.set([0, 4, 2], torch.randn(3, 5).to(dtype))
    storage.dumps(tmp_path)
    loaded = LazyTensorStorage(5)
    loaded.loads(tmp_path)
    assert loaded[:].dtype is dtype
    assert torch.equal(loaded[:].view(torch.uint8), storage[:].view(torch.uint8))


def test_a_newer_version_is_refused_by_name(tmp_path):
    small().dumps(tmp_path)
    rewritten(tmp_path, lambda manifest: manifest.update(version=2))
    with pytest.raises(CheckpointError, match="version 2") as refused:
        LazyTensorStorage(9).loads(tmp_path)
    assert "damaged" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(rows=4),
        lambda manifest: manifest.update(last_row=3),
        lambda manifest: manifest.update(last_row=-1),
        lambda manifest: manifest.update(ndim=2),
        lambda manifest: manifest.update(ndim=0),
        lambda manifest: manifest.update(trailing=[3]),
        lambda manifest: manifest["tree"].update(batch=[7]),
        lambda manifest: manifest["tree"].update(batch=[-1]),
        lambda manifest: manifest["tree"].update({"is": "pickle"}),
        lambda manifest: manifest["tree"]["fields"].pop(),
        lambda manifest: manifest["tree"]["fields"].append(manifest["tree"]["fields"][0]),
        lambda manifest: manifest["tree"]["fields"][0][1].update(dtype="float32"),
        lambda manifest: manifest["tree"]["fields"][0][1].update(dtype="object"),
        lambda manifest: manifest["tree"]["fields"][0][1].update(at=1),
        lambda manifest: manifest["tree"]["fields"][0][1].update(shape=[2]),
        lambda manifest: manifest.pop("tree"),
        lambda manifest: manifest.update(format="zip"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path, change):
    small().dumps(tmp_path)
    rewritten(tmp_path, change)
    target = LazyTensorStorage(9)
    with pytest.raises(CheckpointError):
        target.loads(tmp_path)
    assert target.shape is None


def test_a_dump_imports_nothing(tmp_path):
    storage = LazyTensorStorage(3)
    storage.set(0, Pair(torch.ones(1), torch.ones(2)))
    storage.dumps(tmp_path)
    for name in (
        "antigravity:Pair",
        "os:path.join",
        "builtins:eval",
        "builtins:tuple",
        ":",
        "lazy:",
        "torch:Tensor",
    ):
        rewritten(tmp_path, lambda manifest, name=name: manifest["tree"].update({"class": name}))
        with pytest.raises(ValueError, match=r"import it first|is no named tuple"):
            LazyTensorStorage(3).loads(tmp_path)
    assert "antigravity" not in sys.modules


def test_a_dump_runs_no_attribute_hook_of_a_module(tmp_path, monkeypatch):
    module = types.ModuleType("hooked")
    module.__getattr__ = lambda name: pytest.fail("a hook ran")
    monkeypatch.setitem(sys.modules, "hooked", module)
    storage = LazyTensorStorage(3)
    storage.set(0, Pair(torch.ones(1), torch.ones(2)))
    storage.dumps(tmp_path)
    rewritten(tmp_path, lambda manifest: manifest["tree"].update({"class": "hooked:Pair"}))
    with pytest.raises(ValueError, match="import it first"):
        LazyTensorStorage(3).loads(tmp_path)


def test_a_class_that_is_local_to_a_function_comes_back(tmp_path):
    @tensorclass
    class Local:
        a: torch.Tensor

    storage = LazyTensorStorage(3)
    storage.set(0, Local(a=torch.ones(2)))
    storage.dumps(tmp_path)
    loaded = LazyTensorStorage(3)
    loaded.loads(tmp_path)
    assert type(loaded[0]) is Local


def test_there_is_no_pickle_in_a_dump(tmp_path):
    small().dumps(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    header = int.from_bytes(whole[:8], "little")
    assert json.loads(whole[8 : 8 + header])  # the safetensors layout, not a pickle or a zip of pickles


def test_a_file_in_the_place_of_the_folder_is_not_overwritten(tmp_path):
    (tmp_path / "latest").write_text("mine")
    with pytest.raises(FileExistsError):
        small().dumps(tmp_path / "latest")
    assert (tmp_path / "latest").read_text() == "mine"
    with pytest.raises(NotADirectoryError):
        small().loads(tmp_path / "latest")


def test_a_folder_without_a_dump_holds_no_dump(tmp_path):
    with pytest.raises(FileNotFoundError, match=FILE):
        small().loads(tmp_path)


def test_a_dump_is_as_readable_as_any_new_file(tmp_path):
    small().dumps(tmp_path)
    (tmp_path / "new").touch()
    assert (tmp_path / FILE).stat().st_mode == (tmp_path / "new").stat().st_mode


def test_a_dump_of_few_rows_is_small(tmp_path):
    small(capacity=10**6).dumps(tmp_path)
    assert (tmp_path / FILE).stat().st_size < 4096


def test_a_state_dict_survives_a_reader_that_takes_plain_types_only(tmp_path):
    storage = small()
    torch.save(storage.state_dict(), tmp_path / "state.pt")
    assert (tmp_path / "state.pt").stat().st_size < 8192  # of the rows written, not of the capacity
    loaded = LazyTensorStorage(5)
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert contents(loaded) == contents(storage)


# Large dumps ---------------------------------------------------------------------------------------------------------


def test_a_disk_that_fails_after_the_dump_was_verified_leaves_no_mixture(tmp_path, monkeypatch, way):
    small().dumps(tmp_path)
    target, before = small(2), contents(small(2))
    preadv, left = os.preadv, []

    def failing(*arguments):
        left[0] -= 1
        if not left[0]:
            raise OSError(5, "Input/output error")
        return preadv(*arguments)

    monkeypatch.setattr(os, "preadv", failing)
    for failure in range(1, 4):  # two leaves and the values: while it verifies
        left[:] = [failure]
        with pytest.raises(OSError, match="Input/output"):
            target.loads(tmp_path)
        assert contents(target) == before
    left[:] = [5]
    if way == "staged":
        target.loads(tmp_path)
        assert contents(target) == contents(small())
        return
    with pytest.raises(OSError, match="Input/output"):
        target.loads(tmp_path)
    assert len(target) == 0
    assert target.last_row is None
    target.loads(tmp_path)
    assert contents(target) == contents(small())


@pytest.mark.parametrize("answer", [OSError(5, "Input/output error"), KeyboardInterrupt(), 0], ids=repr)
def test_rows_that_a_load_had_to_give_up_leave_nothing_behind(tmp_path, monkeypatch, way, answer):
    small(9).dumps(tmp_path)
    target = small(2)
    preadv, calls = os.preadv, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) < 6:  # two leaves and the values, the leaves once more, and now the values
            return preadv(*arguments)
        if answer == 0:
            return 0  # the file has become shorter
        raise answer

    monkeypatch.setattr(os, "preadv", failing)
    if way == "staged":
        target.loads(tmp_path)
        assert len(calls) == 3
        return
    with pytest.raises((CheckpointError, OSError, KeyboardInterrupt)) as raised:
        target.loads(tmp_path)
    assert type(raised.value) is (CheckpointError if answer == 0 else type(answer))
    said = " ".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    assert "has no rows now" in said
    assert "nothing was changed" not in said
    assert len(target) == 0
    target.set(8, small(2)[1])
    assert [item["a"].item() for item in target] == [0] * 8 + [1]
    assert [item["b"].any().item() for item in target] == [False] * 8 + [True]


def test_a_load_keeps_the_memory_of_a_storage_and_forgets_its_rows(tmp_path):
    small(2).dumps(tmp_path)
    target = small(7)
    place = target[0]["a"].data_ptr()
    target.loads(tmp_path)
    assert contents(target) == contents(small(2))
    assert target[0]["a"].data_ptr() == place
    target.set(4, target[0])
    assert [item["a"].item() for item in target] == [0, 1, 0, 0, 0]
    assert [item["s"] for item in target][2:4] == [None, None]


def test_other_dtypes_are_converted_or_refused(tmp_path):
    source = LazyTensorStorage(3)
    source.set(range(2), torch.tensor([1.5, 2.5], dtype=torch.float64))
    source.dumps(tmp_path)
    wide, narrow = LazyTensorStorage(3), LazyTensorStorage(3)
    wide.set(0, torch.tensor(0.0))
    narrow.set(0, torch.tensor(7))
    wide.loads(tmp_path)
    assert wide[:].tolist() == [1.5, 2.5]
    with pytest.raises(TypeError):
        narrow.loads(tmp_path)
    assert narrow[:].tolist() == [7]


# Progress ------------------------------------------------------------------------------------------------------------


def test_progress_is_told_of_every_byte_once(tmp_path):
    heard = []
    source = LazyTensorStorage(3 * 2**20)
    source.set(..., torch.zeros(3 * 2**20))
    for act in (source.dumps, source.loads, LazyTensorStorage(3 * 2**20).loads):
        heard.clear()
        act(tmp_path, progress=lambda done, total: heard.append((done, total)))
        assert [done for done, _ in heard] == [2**22, 2**23, 3 * 2**22]
        assert {total for _, total in heard} == {3 * 2**22}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, FileNotFoundError("mine"), ValueError("mine")], ids=repr
)
def test_what_progress_raises_ends_a_dump_or_a_load_without_a_trace(tmp_path, error):
    def stop(done, total):
        if done == total:
            raise error

    small(2).dumps(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    target, before = small(4), contents(small(4))
    kind = error if isinstance(error, type) else type(error)
    with pytest.raises(kind, match=None if error is KeyboardInterrupt else "^mine$"):
        target.dumps(tmp_path, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == whole
    with pytest.raises(kind, match=None if error is KeyboardInterrupt else "^mine$"):
        target.loads(tmp_path, progress=stop)
    assert contents(target) == before


def test_a_bar_is_drawn_where_tqdm_is_installed(tmp_path, monkeypatch):
    bars = []

    class Bar:
        def __init__(self, **options):
            bars.append(options | {"done": 0})

        def __enter__(self):
            return self

        def __exit__(self, *_):
            bars[-1]["closed"] = True

        def update(self, count):
            bars[-1]["done"] += count

    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    small().dumps(tmp_path, progress=True)
    small().loads(tmp_path, progress=True)
    assert [bar["desc"] for bar in bars] == ["dump", "load"]
    assert all(bar["done"] == bar["total"] > 0 and bar["closed"] for bar in bars)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"lazy-tensor-storage\[progress\]"):
        small().dumps(tmp_path, progress=True)
    with pytest.raises(TypeError, match="progress"):
        small().dumps(tmp_path, progress=3)
