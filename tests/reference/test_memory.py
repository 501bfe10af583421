"""Where rows live: lazily allocated, at stable addresses, seen through views and copies."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from lazy_tensor_storage import LazyTensorStorage

REFERENCE = Path(__file__).parents[2] / "reference"


def addresses(storage):
    return [leaf.data_ptr() for leaf in storage[:].values()]


def filled(rows=4, capacity=10):
    storage = LazyTensorStorage(capacity)
    storage.set(range(rows), TensorDict(a=torch.arange(rows), b=torch.ones(rows, 3), batch_size=[rows]))
    return storage


def test_addresses_stay_the_same_after_the_first_write(tmp_path):
    storage = filled()
    before = addresses(storage)
    storage.set([9, 2], storage[[0, 1]])
    storage.set(..., storage[:])
    storage.dumps(tmp_path)
    storage.loads(tmp_path)
    storage.load_state_dict(storage.state_dict())
    storage.clear()
    storage.set(0, TensorDict(a=torch.tensor(1), b=torch.ones(3)))
    assert addresses(storage) == before


@pytest.mark.parametrize("index", [1, -3, slice(1, 3), slice(None), ..., (1,), slice(0, 4, 2)])
def test_basic_indices_read_views_that_write_through(index):
    storage = filled()
    storage[index]["b"].fill_(7)
    assert (storage[index]["b"] == 7).all()


@pytest.mark.parametrize(
    "index", [[1], range(1, 3), torch.tensor([1, 2]), [0, 2], torch.tensor([[0], [3]]), [True, False] * 2]
)
def test_other_indices_read_copies_even_where_rows_are_consecutive(index):
    storage = filled()
    storage[index]["b"].fill_(7)
    assert (storage[:]["b"] == 1).all()


def test_a_view_cannot_make_the_storage_part_of_a_graph():
    storage = filled()
    storage[0]["b"].mul_(torch.ones(3, requires_grad=True))
    assert not storage[0]["b"].requires_grad
    storage.set(0, storage[1])


def test_huge_capacities_cost_only_the_rows_written():
    program = (
        "import resource, torch; from lazy_tensor_storage import LazyTensorStorage; "
        "storage = LazyTensorStorage(2**22); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "storage.set([0, 5, 2**22 - 1], torch.ones(3, 256)); storage.get([0, 1]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(REFERENCE)},
    )
    assert int(done.stdout) < 64 * 1024  # KiB; all rows would be 4 GiB


def traced(act):
    """The bytes that Python and NumPy hold after ``act`` and not before, and what it returned."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = act()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before, kept


def test_construction_takes_the_same_memory_at_any_max_size():
    LazyTensorStorage(1)
    small, _ = traced(lambda: LazyTensorStorage(10))
    huge, _ = traced(lambda: LazyTensorStorage(2**62))
    assert abs(huge - small) < 200  # an int of other length


def test_values_that_are_no_tensors_take_memory_by_the_row_written():
    def written(capacity, rows):
        storage = LazyTensorStorage(capacity)
        empty = torch.zeros(rows, 0)  # no bytes: NumPy's allocations are traced as well
        values = NonTensorStack.from_list([f"value {row} " * 10 for row in range(rows)])
        storage.set(range(rows), TensorDict({"a": empty, "b": values}, [rows]))
        return storage

    written(10, 2)
    few, _ = traced(lambda: written(2000, 1000))
    few_of_many, _ = traced(lambda: written(2**40, 1000))
    many, _ = traced(lambda: written(2**40, 10_000))
    assert few > 1000 * 50
    assert few_of_many < 1.1 * few
    assert 7 * few < many < 13 * few


def test_the_first_write_makes_at_most_one_huge_page_of_each_leaf_resident():
    program = (
        "import torch; from pathlib import Path; from tensordict import TensorDict; "
        "from lazy_tensor_storage import LazyTensorStorage; "
        "pages = lambda: int(Path('/proc/self/statm').read_text().split()[1]); "
        "data = TensorDict({'a': torch.ones(4, 256), 'b': torch.ones(4, 256)}, [4]); "
        "LazyTensorStorage(4).set(range(4), data); storage = LazyTensorStorage(2**22); before = pages(); "
        "storage.set(range(4), data); print((pages() - before) * __import__('os').sysconf('SC_PAGE_SIZE'))"
    )
    if not Path("/proc/self/statm").exists():
        pytest.skip("the system does not tell what is resident")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(REFERENCE)},
    )
    assert int(done.stdout) < 2 * 2**21 + 2**20


def test_containers_without_leaves_have_no_bound_but_the_count():
    storage = LazyTensorStorage(2**62)
    storage.set(2**61, TensorDict())
    storage.set(slice(None), TensorDict(batch_size=[2**62]))
    assert len(storage) == 2**62


def test_a_first_write_that_cannot_be_allocated_leaves_the_storage_fresh():
    storage = LazyTensorStorage(2**50)
    with pytest.raises(MemoryError) as caught:
        storage.set(0, torch.ones(2**10))
    assert isinstance(caught.value, RuntimeError)
    assert storage.shape is None
    storage.set(0, TensorDict())


def test_rows_taken_away_read_as_zero_when_they_come_back_unwritten():
    storage = LazyTensorStorage(8, ndim=2)
    storage.set(..., torch.ones(4, 2))
    for index in (2, [2, 0], slice(2, 4), slice(1, 4, 2), (3, 1), ([3, 1], 0)):
        storage.clear()
        data = torch.full(storage_shape(index), 5.0)
        storage.set(index, data)
        assert (storage[index] == 5).all()
        assert storage[:].sum() == data.sum()


def storage_shape(index):
    return torch.empty(4, 2)[index].shape


def test_an_index_that_is_a_view_of_the_storage_is_read_before_it_is_overwritten():
    storage = LazyTensorStorage(3)
    storage.set(range(3), torch.tensor([2, 0, 1]))
    storage.set(storage[:], torch.tensor([7, 8, 9]))
    assert storage[:].tolist() == [8, 9, 7]


def test_data_that_share_memory_through_numpy_are_copied_first():
    storage = LazyTensorStorage(4)
    storage.set(range(4), torch.arange(4))
    storage.set([1, 2, 3], torch.from_numpy(storage[:].numpy()[:3]))
    assert storage[:].tolist() == [0, 0, 1, 2]


def test_the_last_of_many_items_for_one_row_wins():
    storage = LazyTensorStorage(3)
    storage.set(np.zeros(100_000, np.int64), torch.arange(100_000))
    assert storage[0] == 99_999


def test_what_is_read_in_inference_mode_can_be_used_outside():
    storage = filled()
    with torch.inference_mode():
        view, copied = storage[0]["b"], storage[[0]]["b"]
    view.mul_(2)
    (copied * torch.ones(3, requires_grad=True)).sum().backward()
    assert not copied.is_inference()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.uint8, torch.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (1, 3)])
def test_dimensions_of_one_element_may_have_any_stride(dtype, shape):
    storage = LazyTensorStorage(4)
    storage.set(range(4), torch.zeros(4, *shape[1:]).to(dtype))
    data = torch.stack([torch.ones(shape)] * 2, -1).to(dtype)[..., 0]
    storage.set(list(range(shape[0])), data)
    assert storage.get(0).float().eq(1).all()
