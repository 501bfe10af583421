"""Data, dtypes and entities: what SPEC.md leaves open and this storage promises."""

from __future__ import annotations

import collections

import pytest
import torch
from tensordict import NonTensorData, TensorDict, UnbatchedTensor, lazy_stack, tensorclass

from lazy_tensor_storage import LazyTensorStorage

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]
COMPLEX = ["complex128", "complex64"]
TAKES = {
    **{name: [*FLOATS, *INTEGERS, "bool"] for name in FLOATS},
    **{name: [*COMPLEX, *FLOATS, *INTEGERS, "bool"] for name in COMPLEX},
    "int64": [*INTEGERS, "bool"],
    "int32": ["int32", "int16", "int8", "uint8", "bool"],
    "int16": ["int16", "int8", "uint8", "bool"],
    "int8": ["int8", "bool"],
    "uint8": ["uint8", "bool"],
    "bool": ["bool"],
}


@tensorclass
class Step:
    obs: torch.Tensor
    text: str | None = None
    extra: torch.Tensor | None = None


def holding(*items):
    storage = LazyTensorStorage(8)
    storage.set(range(len(items)), list(items))
    return storage


@pytest.mark.parametrize("held", TAKES)
def test_a_dtype_takes_those_whose_values_it_has(held):
    for given in TAKES:
        storage = holding(torch.zeros(2).to(getattr(torch, held)))
        data = torch.tensor([0, 1]).to(getattr(torch, given))
        if given in TAKES[held]:
            storage.set(1, data)
            assert torch.equal(storage[1].to(torch.complex128), data.to(torch.complex128))
        else:
            with pytest.raises(TypeError, match="nothing was written"):
                storage.set(1, data)


@pytest.mark.parametrize(
    ("held", "data"),
    [
        (torch.float32, torch.tensor(2**24 + 1)),
        (torch.float64, torch.tensor(2**63 - 1)),
        (torch.float16, torch.tensor(-2049)),
        (torch.complex64, torch.tensor(2**24 + 1)),
        (torch.float32, torch.tensor(1e300, dtype=torch.float64)),
        (torch.float8_e4m3fn, torch.tensor(float("inf"))),
        (torch.float16, torch.tensor(1e6)),
        (torch.complex64, torch.tensor(complex(0, 1e300), dtype=torch.complex128)),
    ],
)
def test_a_value_that_would_change_by_more_than_rounding_is_refused(held, data):
    with pytest.raises(TypeError):
        holding(torch.zeros(()).to(held)).set(0, data)


def test_a_message_says_what_where_and_that_nothing_happened():
    storage = holding(TensorDict(next=TensorDict(obs=torch.zeros(3, 4))))
    with pytest.raises(ValueError) as caught:
        storage.set(0, TensorDict(next=TensorDict(obs=torch.zeros(3, 5))))
    assert (
        str(caught.value)
        == "leaf ('next', 'obs') has shape [3, 5], the storage holds [3, 4]; nothing was written."
    )


def test_the_batch_size_of_a_container_names_the_device_of_the_storage():
    storage = holding(Step(obs=torch.ones(2)))
    assert storage[0].device == storage[:].device == storage.device


def test_a_field_that_was_none_may_hold_text_later_but_no_tensor():
    storage = holding(Step(obs=torch.ones(2)))
    storage.set(1, Step(obs=torch.ones(2), text="left"))
    assert [item.text for item in storage] == [None, "left"]
    storage.set(1, Step(obs=torch.ones(2)))
    assert storage[1].text is None
    with pytest.raises(TypeError, match="text"):
        storage.set(0, Step(obs=torch.ones(2), text=torch.ones(2)))


def test_values_that_are_not_tensors_are_copied_in_and_out():
    value = [1]
    storage = holding(TensorDict(s=NonTensorData(value), a=torch.ones(1)))
    value.append(2)
    storage[0].get("s").data.append(3)
    assert storage[0].get("s").data == [1]


def test_objects_are_kept_as_they_are():
    value = object()
    storage = holding(TensorDict(s=NonTensorData(value), a=torch.ones(1)))
    assert storage[0].get("s").data is value


def test_a_batch_reads_as_one_value_for_each_row():
    storage = holding(*[TensorDict(s="same", a=torch.ones(1))] * 3)
    assert storage[:]["s"] == ["same"] * 3
    assert storage[0:0].get("s").tolist() == []


def test_a_tensordict_or_a_tensorclass_may_stand_in_a_pytree():
    Pair = collections.namedtuple("Pair", "td step")
    storage = holding(Pair(TensorDict(a=torch.ones(2)), [Step(obs=torch.ones(2))]))
    assert type(storage[0]) is Pair
    assert storage[:].td.batch_size == (1,)
    assert type(storage[[0]].step[0]) is Step


@pytest.mark.parametrize(
    "data",
    [
        TensorDict(a=UnbatchedTensor(torch.ones(2)), b=torch.ones(2), batch_size=[2]),
        collections.defaultdict(list, a=torch.ones(2)),
        {"a": torch.ones(2), "b": None},
        {},
        torch.ones(2, dtype=torch.uint16),
        NonTensorData("text", batch_size=[2]),
    ],
    ids=["unbatched", "defaultdict", "none", "empty", "uint16", "text"],
)
def test_what_has_no_rows_of_its_own_is_refused_with_a_type_error(data):
    storage = LazyTensorStorage(4)
    with pytest.raises(TypeError, match="nothing was written"):
        storage.set(slice(0, 2), data)
    assert storage.shape is None


def test_nested_lazy_stacks_that_differ_deep_down_are_refused():
    storage = LazyTensorStorage(4)
    parts = [TensorDict(n=TensorDict(a=torch.ones(2))), TensorDict(n=TensorDict(b=torch.ones(2)))]
    with pytest.raises(ValueError, match="keys"):
        storage.set(slice(0, 2), lazy_stack(parts))
    assert storage.shape is None


class Listener:
    def __init__(self, storage, heard, then=lambda: None):
        self.storage, self.heard, self.then = storage, heard, then
        storage.attach(self)

    def mark_update(self, index):
        self.heard.append(index.tolist())
        index.zero_()
        self.then()


def test_the_first_exception_of_an_entity_reaches_the_writer_after_all_were_told():
    storage, heard = LazyTensorStorage(4), []

    def fail(error):
        raise error

    Listener(storage, heard, lambda: fail(KeyError("first")))
    Listener(storage, heard, lambda: fail(OSError("second")))
    Listener(storage, heard)
    with pytest.raises(KeyError, match="first") as caught:
        storage.set([3, 1, 3], torch.arange(3))
    assert "second" in caught.value.__notes__[0]
    assert heard == [[1, 3]] * 3
    assert storage[:].tolist() == [0, 1, 0, 2]


def test_an_entity_may_attach_detach_and_write_while_it_is_told():
    storage, heard, nested = LazyTensorStorage(4), [], []

    def once():
        storage.detach(first)
        Listener(storage, nested)
        storage.set(1, torch.tensor(1))

    first = Listener(storage, heard, once)
    storage.set(0, torch.tensor(0))
    assert heard == [[0]]
    assert nested == [[1]]


def test_clear_tells_nobody():
    storage, heard = holding(torch.ones(2)), []
    Listener(storage, heard)
    storage.clear()
    assert heard == []


def test_the_representation_names_the_structure_and_no_data():
    storage = holding(TensorDict(a=torch.full((3,), 7.0), n=TensorDict(b=torch.ones(()))))
    assert repr(storage) == (
        "LazyTensorStorage(shape=[1], len=1, max_size=8, ndim=1, device='cpu', "
        "structure=TensorDict(a: float32[3], n: TensorDict(b: float32[])))"
    )


def test_what_is_read_is_as_the_constructor_of_tensordict_makes_it():
    storage = LazyTensorStorage(3)
    data = TensorDict({"a": torch.rand(3, 2), "inner": TensorDict({"b": torch.arange(3)}, [3])}, [3])
    storage.set(range(3), data)
    read, made = storage[[0, 1, 2]], TensorDict(data.to_dict(), [3], device="cpu")
    assert repr(read) == repr(made)
    assert read.device == read["inner"].device == made.device
    assert read["inner"].batch_size == made["inner"].batch_size
    assert (torch.stack([read, read]).to(torch.float64) == torch.stack([made, made])).all()
    read["c"] = torch.zeros(3)
    with pytest.raises(RuntimeError):
        read["d"] = torch.zeros(4)
