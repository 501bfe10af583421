"""Indices against torch's own indexing of the same grid."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lazy_tensor_storage import LazyTensorStorage


@st.composite
def entries(draw, size):
    rows = st.integers(-size, size - 1)
    bounds = st.none() | st.integers(-size - 1, size + 1)
    return draw(
        rows
        | st.builds(slice, bounds, bounds, st.none() | st.integers(1, 3))
        | st.lists(rows, max_size=4)
        | st.lists(rows, min_size=4, max_size=4).map(lambda found: torch.tensor(found).view(2, 2))
        | rows.map(torch.tensor)
        | st.lists(st.booleans(), min_size=size, max_size=size).map(
            lambda mask: torch.tensor(mask, dtype=torch.bool)
        )
    )


@st.composite
def grids(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    index = tuple(draw(entries(size)) for size in shape[: draw(st.integers(1, len(shape)))])
    if draw(st.booleans()):
        place = draw(st.integers(0, len(index)))
        index = (*index[:place], ..., *index[place:])
    return torch.Size(shape), index[0] if len(index) == 1 else index


def by_torch(index):
    listed = index if isinstance(index, tuple) else (index,)
    return tuple(
        torch.tensor(entry, dtype=torch.int64) if isinstance(entry, list) else entry for entry in listed
    )


@settings(max_examples=300, deadline=None)
@given(grids())
@example((torch.Size([1, 2, 1]), (..., slice(None, 0), torch.tensor([[0, 1]]))))
def test_every_index_reads_and_writes_what_torch_would(grid):
    shape, index = grid
    storage = LazyTensorStorage(shape.numel(), ndim=len(shape))
    held = torch.arange(shape.numel()).view(shape)
    storage.set(..., held)
    try:
        expected = held[by_torch(index)]
    except IndexError:
        with pytest.raises(IndexError):
            storage.get(index)
        return
    if not expected.numel():
        with suppress(IndexError):  # torch looks at the bounds of a tensor only where it selects something
            assert storage.get(index).shape == expected.shape
        return
    assert storage.get(index).shape == expected.shape
    assert torch.equal(storage.get(index), expected)

    data = -1 - torch.arange(expected.numel()).view(expected.shape)
    by_number = held.reshape(-1).clone()
    for number, value in zip(expected.reshape(-1).tolist(), data.reshape(-1).tolist(), strict=True):
        by_number[number] = value
    storage.set(index, data)
    assert torch.equal(storage[:], by_number.view(shape))


FAR = 2**80


@pytest.mark.parametrize(
    "index",
    [FAR, -FAR, [FAR], range(FAR), range(0, FAR, FAR // 2), np.array([2**63], np.uint64), (FAR,), ([FAR],)],
)
def test_numbers_beyond_64_bits_are_out_of_bounds(index):
    storage = LazyTensorStorage(4)
    storage.set(range(2), torch.ones(2))
    for call in (storage.get, lambda index: storage.set(index, torch.ones(()))):
        with pytest.raises(IndexError):
            call(index)


def test_slices_may_have_bounds_beyond_64_bits():
    storage = LazyTensorStorage(4)
    storage.set(slice(-FAR, FAR), torch.arange(4))
    assert storage[-FAR:FAR:FAR].tolist() == [0]


def test_nested_lists_are_refused():
    storage = LazyTensorStorage(4)
    storage.set(range(2), torch.ones(2))
    with pytest.raises(TypeError):
        storage.get([[0], [1]])


def test_a_tuple_of_one_entry_is_that_entry():
    storage = LazyTensorStorage(4)
    storage.set((range(3),), torch.arange(3))
    assert storage[(1,)] == 1
    assert storage[([2, 0],)].tolist() == [2, 0]
    assert storage[(0, ...)] == 0


@pytest.mark.parametrize(
    "index", [(0,), (0, ...), (0, slice(None)), (slice(0, 1), slice(None)), (..., slice(None))]
)
def test_a_first_write_may_be_a_tuple_that_covers_whole_rows(index):
    storage = LazyTensorStorage(3, ndim=2)
    storage.set(index, torch.ones(*(() if index[0] == 0 else (1,)), 3))
    assert storage.shape == (1, 3)


def test_negative_rows_of_a_write_count_from_the_capacity():
    storage = LazyTensorStorage(4)
    storage.set([-1, -4], torch.tensor([1, 2]))
    assert storage[:].tolist() == [2, 0, 0, 1]
    assert storage.last_row == 0
