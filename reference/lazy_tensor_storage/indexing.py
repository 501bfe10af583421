"""What an index addresses: kinds, bounds, rows or elements, the last row.

`resolve` turns whatever a caller may hand to ``set``, ``get`` or ``[]`` into a `Selection`. It knows nothing of data:
it looks at a grid of ``rows`` by the trailing shape ``T``, and follows torch's rules within it.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

Index: TypeAlias = (
    int
    | slice
    | range
    | list[Any]
    | EllipsisType
    | Tensor
    | np.ndarray[Any, Any]
    | np.integer[Any]
    | tuple[Any, ...]
)
Window: TypeAlias = int | slice | tuple[int | slice, ...]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_UNSIGNED = np.dtype(np.uint64)
_INDEX_DTYPES = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.bool}
)


class Selection(NamedTuple):
    """The rows or elements that an index addresses, within a grid of ``[rows, *T]``.

    Attributes:
        shape: the shape of what is addressed; data for it are ``[*shape, *feature_shape]``.
        top: one more than the highest row addressed; 0 if there is none.
        last: the row of the last element, in the order of the index; -1 if there is none.
        window: where the index is a rectangle of the grid: ``leaf[window]`` is what it addresses.
        numbers: otherwise the numbers of the rows (or of the elements, counted row by row), int64 ``[n]``; a tensor
            if they lie on an accelerator.
        whole_rows: whether only complete rows are addressed; ``numbers`` then counts rows.
        basic: whether the index is made of integers, slices and ``...`` only.
        wraps: where ``numbers`` run up to the last row of the grid and go on at row 0, how many come before that.
    """

    shape: torch.Size
    top: int
    last: int
    window: Window | None
    numbers: Numbers | Tensor | None
    whole_rows: bool
    basic: bool
    wraps: int = 0

    def index_dimensions(self, trailing: torch.Size) -> int:
        """How many dimensions of ``shape`` are the index's own; the others are those of ``T``."""
        return len(self.shape) - len(trailing) if self.whole_rows else len(self.shape)


def resolve(index: Index, rows: int, trailing: torch.Size) -> Selection:
    """What ``index`` addresses in a grid of ``[rows, *trailing]``.

    Raises:
        IndexError: a row is out of bounds, a mask has another shape than the grid, a tuple is too long.
        TypeError: the object is no index.
        ValueError: a slice has a negative step.

    Implements: IDX-1 to IDX-23.
    """
    if type(index) is int:
        return _one_row(index, rows, trailing)
    if type(index) is slice:
        return _slice(index, rows, trailing)
    if isinstance(index, Tensor):
        return _tensor(index, rows, trailing)
    if isinstance(index, list):
        return _list(index, rows, trailing)
    if isinstance(index, range):
        return _range(index, rows, trailing)
    if isinstance(index, np.ndarray):
        return _array(_from_numpy(index), rows, trailing)
    if index is Ellipsis:
        return _slice(slice(None), rows, trailing)
    if isinstance(index, tuple):
        return _tuple(index, rows, trailing)
    return _one_row(row_number(index), rows, trailing)


def row_dimensions(index: Index, ndim: int) -> int:
    """How many dimensions of the data stand for rows, told from the index alone.

    The first write needs to know before it can tell the trailing shape, and with it the number of rows.

    Raises:
        IndexError: a tuple is too long.
        TypeError: the object is no index.
        ValueError: the index may address a part of a row.

    Implements: SET-19.
    """
    if isinstance(index, (slice, range, list)) or index is Ellipsis:
        return 1
    if isinstance(index, (Tensor, np.ndarray)):
        is_mask = index.dtype in (torch.bool, np.bool_)
        if is_mask and index.ndim > 1:
            raise ValueError(
                f"the first write needs whole rows, to learn the trailing shape; a mask of {index.ndim} dimensions "
                "selects elements. Nothing was written."
            )
        return int(index.ndim)
    if isinstance(index, tuple):
        entries = [entry for entry in index if entry is not Ellipsis]
        _check_length(entries, ndim)
        if not entries or index[0] is Ellipsis:
            first: Any = slice(None)
            others = entries
        else:
            first, others = entries[0], entries[1:]
        if any(not isinstance(entry, slice) or entry != slice(None) for entry in others):
            raise ValueError(
                "the first write needs whole rows, to learn the trailing shape; this tuple addresses elements. "
                "Nothing was written."
            )
        _refuse_nested(first)
        return row_dimensions(first, ndim)
    row_number(index)
    return 0


def row_number(index: Any) -> int:
    """The ``int`` of an integer of any type; a ``bool`` is none.

    Raises:
        TypeError: the object is no integer.

    Implements: IDX-4, IDX-15, IDX-16, QRY-4.
    """
    if isinstance(index, (bool, np.bool_)):
        raise TypeError("a bool is no index; nothing was read or written.")
    if isinstance(index, Tensor) and (
        index.ndim or index.dtype not in _INDEX_DTYPES or index.dtype is torch.bool
    ):
        raise TypeError(f"a tensor of dtype {index.dtype} and shape {list(index.shape)} is no row number.")
    if isinstance(index, np.ndarray) and (index.ndim or index.dtype.kind not in "iu"):
        raise TypeError(f"an array of dtype {index.dtype} and shape {list(index.shape)} is no row number.")
    try:
        return operator.index(index)
    except TypeError:
        raise TypeError(
            "an index is an integer, a slice, a range, a list of integers, an integer or bool tensor, '...' or a tuple "
            f"of these, not {type(index).__name__}."
        ) from None


def element_numbers(selection: Selection, trailing: torch.Size) -> Numbers:
    """The elements addressed, ``[n]``, counted row by row, in the order of the index."""
    cells = trailing.numel()
    if selection.numbers is not None:
        given = selection.numbers
        numbers: Numbers = given.cpu().numpy() if isinstance(given, Tensor) else given
        if selection.whole_rows and cells > 1:
            numbers = (numbers[:, None] * cells + np.arange(cells)).reshape(-1)
        return numbers
    assert selection.window is not None
    numbers = np.zeros((), np.int64)
    for entry, size, stride in zip(
        _pad(selection.window, trailing), (None, *trailing), _strides(trailing), strict=True
    ):
        if isinstance(entry, slice):
            stop = size if entry.stop is None else entry.stop
            numbers = numbers[..., None] + np.arange(entry.start or 0, stop, entry.step or 1) * stride
        else:
            numbers = numbers + entry * stride
    return np.asarray(numbers, np.int64).reshape(-1)


# One index at a time -------------------------------------------------------------------------------------------------


def _one_row(row: int, rows: int, trailing: torch.Size) -> Selection:
    found = row + rows if row < 0 else row
    if not 0 <= found < rows:
        raise _out_of_bounds(row, rows)
    return Selection(trailing, found + 1, found, found, None, True, True)


def _slice(index: slice, rows: int, trailing: torch.Size) -> Selection:
    first, stop, step = _bounds(index, rows)
    if step == 1 and first < stop:
        return _run(first, stop, trailing, basic=True)
    return _window(range(first, stop, step), trailing, basic=True)


def _run(first: int, stop: int, trailing: torch.Size, *, basic: bool) -> Selection:
    """Consecutive rows, one at least: as `_window`, in two thirds of the time."""
    shape = torch.Size((stop - first, *trailing))
    return Selection(shape, stop, stop - 1, slice(first, stop, 1), None, True, basic)


def _bounds(index: slice, size: int) -> tuple[int, int, int]:
    try:
        bounds = index.indices(size)
    except ValueError:
        raise ValueError("a slice needs a step other than 0; nothing was read or written.") from None
    except TypeError:
        raise TypeError(f"the bounds of a slice are integers or None, not those of {index}.") from None
    if bounds[2] < 0:
        raise ValueError(
            "a slice needs a positive step (use a range for the reverse order); nothing was read or written."
        )
    return bounds


def _window(addressed: range, trailing: torch.Size, *, basic: bool) -> Selection:
    """A selection of ascending rows, all of them within bounds."""
    count = len(addressed)
    shape = torch.Size((count, *trailing))
    if not count:
        return Selection(shape, 0, -1, slice(0, 0), None, True, basic)
    last = addressed[-1]
    step = addressed.step if count > 1 else 1
    return Selection(shape, last + 1, last, slice(addressed[0], last + 1, step), None, True, basic)


def _range(index: range, rows: int, trailing: torch.Size) -> Selection:
    if not index:
        return _window(range(0), trailing, basic=False)
    if index.step == 1 and index.start >= 0 and index.stop <= rows:
        return _run(index.start, index.stop, trailing, basic=False)
    for row in (index[0], index[-1]):
        if not -rows <= row < rows:
            raise _out_of_bounds(row, rows)
    low, high = sorted((index[0], index[-1]))
    if low < 0 <= high:
        return _rows(np.arange(index.start, index.stop, index.step, dtype=np.int64), rows, trailing)
    if low < 0:
        index = range(index.start + rows, index.stop + rows, index.step)
    if index.step > 0:
        return _window(index, trailing, basic=False)
    numbers = np.arange(index.start, index.stop, index.step, dtype=np.int64)
    return Selection(
        torch.Size((len(index), *trailing)), max(index) + 1, index[-1], None, numbers, True, False
    )


def _list(index: list[Any], rows: int, trailing: torch.Size) -> Selection:
    packed = _packed(index)
    if packed is None:
        return _array(_from_mixed_list(index), rows, trailing)
    first, last = index[0], index[-1]
    beyond = len(index) - 1 - (last - first)  # as in `_rows`; what follows is that without detours
    # A bool was packed as 0 or 1, which are not among rows that begin at 2.
    if beyond == 0 and first > 1 and last < rows and packed == _bytes_of(first, last + 1):
        return _run(first, last + 1, trailing, basic=False)
    if beyond == rows and 0 <= last < first < rows and packed == _wrapped(first, rows, last):
        before = rows - first
        if set(map(type, index[before : before + 2])) == {int}:
            shape = torch.Size((len(index), *trailing))
            return Selection(shape, rows, last, None, np.frombuffer(packed, np.int64), True, False, before)
    return _array(_from_packed(packed, index), rows, trailing)


def _from_list(index: Sequence[Any]) -> np.ndarray[Any, Any]:
    packed = _packed(index)
    return _from_mixed_list(index) if packed is None else _from_packed(packed, index)


def _packed(index: Sequence[Any]) -> bytearray | None:
    """Integers as int64; ``None`` if there is something else among them, but a bool passes for 0 or 1."""
    if not index or type(index[0]) is not int or type(index[-1]) is not int:
        return None
    try:
        # 1.4 us for 256 integers, where NumPy with a look at the types takes 6.5.
        packed = bytearray(8 * len(index))
        struct.pack_into(f"{len(index)}q", packed, 0, *index)
    except Exception:  # whatever an entry that is no integer raises: the slow way says what is wrong
        return None
    return packed


def _from_packed(packed: bytearray, index: Sequence[Any]) -> np.ndarray[Any, Any]:
    numbers = np.frombuffer(packed, np.int64)
    if all(type(index[place]) is int for place in (numbers.view(_UNSIGNED) < 2).nonzero()[0].tolist()):
        return numbers
    return _from_mixed_list(index)


def _from_mixed_list(index: Sequence[Any]) -> np.ndarray[Any, Any]:
    types = set(map(type, index))
    if types <= {bool, np.bool_} and types:
        return np.array(index, dtype=np.bool_)
    numbers = index if types == {int} else [row_number(entry) for entry in index]
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        raise IndexError(
            "an index in the list does not fit into 64 bits; nothing was read or written."
        ) from None


def _from_numpy(index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = index.dtype.kind
    if kind == "b" and index.ndim:
        return index
    if kind == "u" and index.dtype.itemsize == 8 and index.size and int(index.max()) > np.iinfo(np.int64).max:
        raise IndexError("an index in the array does not fit into 64 bits; nothing was read or written.")
    if kind in "iu":
        return index.astype(np.int64, copy=False)
    raise TypeError(f"an array of dtype {index.dtype} and {index.ndim} dimensions is no index.")


def _from_tensor(index: Tensor) -> np.ndarray[Any, Any]:
    if index.is_nested or index.layout is not torch.strided or index.device.type == "meta":
        raise TypeError("a tensor that is sparse, nested or on the meta device is no index.")
    if index.dtype not in _INDEX_DTYPES or (index.dtype is torch.bool and not index.ndim):
        raise TypeError(f"a tensor of dtype {index.dtype} and shape {list(index.shape)} is no index.")
    if index.dtype not in (torch.int64, torch.bool):
        index = index.to(torch.int64)
    return (index if index.is_cpu else index.cpu()).numpy()


def _tensor(index: Tensor, rows: int, trailing: torch.Size) -> Selection:
    if (
        type(index) is Tensor
        and index.dtype is torch.int64
        and index.is_cpu
        and index.layout is torch.strided
    ):
        array: np.ndarray[Any, Any] = index.numpy()
        return _rows(array, rows, trailing) if array.ndim else _one_row(int(array), rows, trailing)
    array = _from_tensor(index)
    selection = _array(array, rows, trailing)
    kept = selection.numbers is not None and index.dtype is torch.int64
    if kept and not index.is_cpu and array.size and int(array.min()) >= 0:
        # Rows drawn on an accelerator stay there for the read, unless a negative one had to be resolved.
        return selection._replace(numbers=index.detach().reshape(-1))
    return selection


def _array(array: np.ndarray[Any, Any], rows: int, trailing: torch.Size) -> Selection:
    if array.dtype == np.bool_:
        return _mask(array, rows, trailing)
    if not array.ndim:
        return _one_row(int(array), rows, trailing)
    return _rows(array, rows, trailing)


def _rows(array: Numbers, rows: int, trailing: torch.Size) -> Selection:
    flat = array if array.ndim == 1 else array.reshape(-1)
    shape = torch.Size(array.shape + trailing)
    count = flat.size
    if not count:
        return Selection(shape, 0, -1, None, np.zeros(0, np.int64), True, False)
    first, last = flat.item(0), flat.item(-1)
    # Consecutive rows are copied as one block, those of a cursor that wraps as two. The ends tell almost always.
    beyond = count - 1 - (last - first)  # what is missing to a run
    if array.ndim > 1:
        pass
    elif beyond == 0 and first >= 0 and last < rows and _climbs(flat) == count - 1:
        return _run(first, last + 1, trailing, basic=False)
    elif beyond == rows and 0 <= last < first < rows and _climbs(flat) == count - 2:
        before = rows - first
        if flat.item(before - 1) == rows - 1 and flat.item(before) == 0:
            return Selection(shape, rows, last, None, _dense(flat), True, False, before)
    # Seen as unsigned, a negative number is a huge one: one pass finds both kinds of mistake, and the highest row.
    # 0.2 us for 256 numbers, where max() takes 0.8.
    unsigned = flat.view(_UNSIGNED)
    highest = unsigned.item(unsigned.argmax())
    if highest >= rows:
        flat = _wrap(flat, rows)
        last, highest = flat.item(-1), int(flat.max())
    return Selection(shape, highest + 1, last, None, _dense(flat), True, False)


def _climbs(numbers: Numbers) -> int:
    # 0.7 us for 256 numbers and 1.6 for 4096, where to compare with a range takes 1.5 and 3.2.
    return int(np.count_nonzero(numbers[1:] > numbers[:-1]))


def _bytes_of(first: int, stop: int) -> bytes:
    return np.arange(first, stop, dtype=np.int64).tobytes()


_KNOWN = 4096
_FROM_ZERO = _bytes_of(0, _KNOWN)  # saves a third of the time that it takes to tell a list that wraps


def _wrapped(first: int, rows: int, last: int) -> bytes:
    if last < _KNOWN:
        return _bytes_of(first, rows) + _FROM_ZERO[: 8 * (last + 1)]
    return _bytes_of(first, rows) + _bytes_of(0, last + 1)


def _wrap(numbers: Numbers, size: int) -> Numbers:
    """Negative numbers counted from the end; a copy, within bounds."""
    low, high = int(numbers.min()), int(numbers.max())
    if low < -size or high >= size:
        raise _out_of_bounds(low if low < -size else high, size)
    return np.where(numbers < 0, numbers + size, numbers)


def _dense(numbers: Numbers) -> Numbers:
    # torch takes neither read-only arrays without a warning nor negative strides at all.
    return numbers if numbers.flags.carray else numbers.copy()


def _mask(mask: np.ndarray[Any, Any], rows: int, trailing: torch.Size) -> Selection:
    if mask.ndim == 1:
        _check_mask(mask, (rows,))
        return _rows(np.flatnonzero(mask).astype(np.int64, copy=False), rows, trailing)
    return _tuple((mask,), rows, trailing)


def _check_mask(mask: np.ndarray[Any, Any], sizes: tuple[int, ...]) -> None:
    if mask.shape != sizes:
        raise IndexError(
            f"a mask needs the shape of what it masks, {list(sizes)}, not {list(mask.shape)}; nothing was read or "
            "written."
        )


# Several dimensions --------------------------------------------------------------------------------------------------


def _tuple(index: tuple[Any, ...], rows: int, trailing: torch.Size) -> Selection:
    entries = _normalise(index, rows, trailing)
    first, others = entries[0], entries[1:]
    if all(
        isinstance(entry, range) and len(entry) == size for entry, size in zip(others, trailing, strict=True)
    ):
        if isinstance(first, int):
            return _one_row(first, rows, trailing)
        if isinstance(first, range):
            return _window(first, trailing, basic=True)
        return _rows(first, rows, trailing)
    if all(isinstance(entry, (int, range)) for entry in entries):
        return _rectangle(entries)
    return _elements(entries, trailing)


def _normalise(index: tuple[Any, ...], rows: int, trailing: torch.Size) -> list[int | range | Numbers]:
    """One entry for each dimension of the grid: a row number, an ascending range, or an array of numbers."""
    sizes = (rows, *trailing)
    given = [entry for entry in index if entry is not Ellipsis]
    _check_length(given, len(sizes))
    if len(index) - len(given) > 1:
        raise IndexError("an index can have one '...' only; nothing was read or written.")
    resolved: list[Any] = []
    for entry in index:
        _refuse_nested(entry)
        resolved.append(entry if entry is Ellipsis or isinstance(entry, slice) else _entry(entry))
    covered = sum(entry.ndim if _is_mask(entry) else 1 for entry in resolved if entry is not Ellipsis)
    if covered > len(sizes):
        raise IndexError(f"the index covers {covered} dimensions, the storage has {len(sizes)}.")
    fill = [slice(None)] * (len(sizes) - covered)
    position = next((place for place, entry in enumerate(resolved) if entry is Ellipsis), len(resolved))
    resolved[position : position + 1] = fill

    entries: list[int | range | Numbers] = []
    for entry in resolved:
        size = sizes[len(entries)]
        if isinstance(entry, slice):
            entries.append(range(*_bounds(entry, size)))
        elif isinstance(entry, int):
            entries.append(_one_row(entry, size, torch.Size()).last)
        elif _is_mask(entry):
            _check_mask(entry, sizes[len(entries) : len(entries) + entry.ndim])
            entries.extend(entry.nonzero())
        else:
            in_bounds = not entry.size or int(entry.reshape(-1).view(_UNSIGNED).max()) < size
            entries.append(entry if in_bounds else _wrap(entry, size))
    return entries


def _entry(entry: Any) -> int | np.ndarray[Any, Any]:
    if isinstance(entry, Tensor):
        array = _from_tensor(entry)
    elif isinstance(entry, range):
        try:
            array = np.arange(entry.start, entry.stop, entry.step, dtype=np.int64)
        except (OverflowError, MemoryError, ValueError):
            raise IndexError(f"{entry} is out of bounds; nothing was read or written.") from None
    elif isinstance(entry, list):
        array = _from_list(entry)
    elif isinstance(entry, np.ndarray):
        array = _from_numpy(entry)
    else:
        return row_number(entry)
    return array if array.ndim else int(array)


def _rectangle(entries: list[Any]) -> Selection:
    window = tuple(e if isinstance(e, int) else slice(e.start, e.stop, e.step) for e in entries)
    shape = torch.Size([len(e) for e in entries if isinstance(e, range)])
    first = entries[0]
    if not shape.numel():
        return Selection(shape, 0, -1, window, None, False, True)
    last = first if isinstance(first, int) else first[-1]
    return Selection(shape, last + 1, last, window, None, False, True)


def _elements(entries: list[Any], trailing: torch.Size) -> Selection:
    """Follows torch: integers are taken first, arrays are broadcast against each other.

    Their dimensions stand where the arrays stood, or in front where a slice is between them.
    """
    kept = [
        (entry, stride)
        for entry, stride in zip(entries, _strides(trailing), strict=True)
        if not isinstance(entry, int)
    ]
    offset = sum(
        entry * stride
        for entry, stride in zip(entries, _strides(trailing), strict=True)
        if isinstance(entry, int)
    )
    places = [place for place, (entry, _) in enumerate(kept) if isinstance(entry, np.ndarray)]
    try:
        common = np.broadcast_shapes(*(kept[place][0].shape for place in places))
    except ValueError:
        raise IndexError(
            "the index tensors do not broadcast together; nothing was read or written."
        ) from None
    adjacent = places[-1] - places[0] == len(places) - 1
    before = places[0] if adjacent else 0
    slices = [place for place in range(len(kept)) if place not in places]
    shape = [len(kept[place][0]) for place in slices]
    shape[before:before] = common

    total: Any = np.full((), offset, np.int64)
    for place, (entry, stride) in enumerate(kept):
        axes = [1] * len(shape)
        if isinstance(entry, np.ndarray):
            start = before + len(common) - entry.ndim
            axes[start : start + entry.ndim] = entry.shape
            values = entry
        else:
            rank = slices.index(place)
            axes[rank if rank < before else rank + len(common)] = len(entry)
            values = np.arange(entry.start, entry.stop, entry.step, dtype=np.int64)
        total = total + (values * stride).reshape(axes)
    numbers = np.broadcast_to(total, shape).reshape(-1)
    cells = trailing.numel()
    top, last = (int(numbers.max()) // cells + 1, int(numbers[-1]) // cells) if numbers.size else (0, -1)
    return Selection(torch.Size(shape), top, last, None, _dense(numbers), False, False)


def _pad(window: Window, trailing: torch.Size) -> tuple[int | slice, ...]:
    window = window if isinstance(window, tuple) else (window,)
    return window + (slice(None),) * (1 + len(trailing) - len(window))


def _strides(trailing: torch.Size) -> list[int]:
    return [trailing[place:].numel() for place in range(len(trailing) + 1)]


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype == np.bool_


def _refuse_nested(entry: Any) -> None:
    if isinstance(entry, tuple):
        raise TypeError("a tuple inside a tuple is no index; nothing was read or written.")


def _check_length(entries: Sequence[Any], ndim: int) -> None:
    if len(entries) > ndim:
        raise IndexError(
            f"an index has at most {ndim} entries, one for each dimension that counts, not {len(entries)}; nothing was "
            "read or written."
        )


def _out_of_bounds(row: int, rows: int) -> IndexError:
    return IndexError(f"index {row} is out of bounds for {rows} rows; nothing was read or written.")
