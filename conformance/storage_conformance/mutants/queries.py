"""Chapter QRY: looks that leave traces, and answers that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import torch

from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []


class _Rows(Delegate):
    """Not a mutant itself: knows how many rows can be read."""

    @property
    def rows(self) -> int:
        return self.inner.shape[0] if self.inner.shape is not None else 0


@mutant("QRY-1", may="QRY-7 QRY-8 GET-5 COPY-1 COPY-3 CKPT-21")
class MovesTheLastRowByReading(Delegate):
    """A read of one row makes it the last-written one."""

    seen: int | None = None

    def get(self, index: Any) -> Any:
        found = self.inner.get(index)
        if type(index) is int and index >= 0:
            self.seen = index
        return found

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.seen = None

    def loads(self, path: Any) -> None:
        self.inner.loads(path)
        self.seen = None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state)
        self.seen = None

    def clear(self) -> None:
        self.inner.clear()
        self.seen = None

    @property
    def last_row(self) -> int | None:
        return self.inner.last_row if self.seen is None else self.seen


@mutant("QRY-1", may="IDX-7 GET-2")
class ChangesTheListGiven(Delegate):
    """Negative rows in a list are replaced in the caller's list."""

    def get(self, index: Any) -> Any:
        found = self.inner.get(index)
        if type(index) is list and self.inner.shape is not None:
            index[:] = [row % self.inner.shape[0] if row < 0 else row for row in index]
        return found


@mutant("QRY-1", may="QRY-5 ERR-1")
class ForgetsTheLastRowWhenPrinted(Delegate):
    """After `repr` there is no last row."""

    printed = False

    def __repr__(self) -> str:
        self.printed = True
        return repr(self.inner)

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.printed = False

    @property
    def last_row(self) -> int | None:
        return None if self.printed else self.inner.last_row


@mutant("QRY-1", may="CAP-1 LAZY-3 LAZY-6 ERR-1 QRY-2 QRY-3 GET-4")
class IsRoundedUpByALook(_Rows):
    """A look at the shape of a fresh storage with `ndim > 1` rounds its size up."""

    looked = False

    @property
    def shape(self) -> torch.Size | None:
        found = self.inner.shape
        self.looked = self.looked or (found is None and self.ndim > 1)
        return found

    @property
    def max_size(self) -> int:
        return self.inner.max_size + (1 if self.looked and self.inner.shape is None else 0)


@mutant("QRY-1", may="IDX-10 GET-2 SET-2 GET-5 DATA-1")
class ZeroesWhatAMaskPassesOver(_Rows):
    """A read by a mask sets the rows that are not selected to zero."""

    def get(self, index: Any) -> Any:
        found = self.inner.get(index)
        if (
            isinstance(index, torch.Tensor)
            and index.dtype == torch.bool
            and index.dim() == self.ndim
            and self.ndim > 1
        ):
            for row in range(self.rows):
                if not index[row].all() and isinstance(self.inner.get(row), torch.Tensor):
                    self.inner[row] = self.inner.get(row) * 0
        return found


@mutant("QRY-2", may="OBS-11 QRY-1")
class IteratesOverElements(_Rows):
    """With `ndim > 1` iteration goes on over as many rows as there are elements, and raises."""

    def __iter__(self) -> Iterator[Any]:
        return (self.inner.get(row) for row in range(len(self.inner)))


@mutant("QRY-2", may="QRY-9 LAZY-3")
class CannotIterateWhileFresh(_Rows):
    """Iteration over a fresh storage raises."""

    def __iter__(self) -> Iterator[Any]:
        if self.inner.shape is None:
            raise RuntimeError("there is nothing to iterate over")
        return iter(self.inner)


@mutant("QRY-2")
class SkipsTheLastRowWhenFull(_Rows):
    """Iteration over a full storage leaves its last row out."""

    def __iter__(self) -> Iterator[Any]:
        full = len(self.inner) == self.inner.max_size and self.inner.shape is not None
        return (self.inner.get(row) for row in range(self.rows - (1 if full else 0)))


@mutant("QRY-2")
class IteratesInOnePlace(_Rows):
    """Two iterations at the same time share their place."""

    def __iter__(self) -> Iterator[Any]:
        self.place = 0
        return self._items()

    def _items(self) -> Iterator[Any]:
        while self.place < self.rows:
            self.place += 1
            yield self.inner.get(self.place - 1)


@mutant("QRY-2")
class IteratesOverBatches(_Rows):
    """Iteration gives batches of one row."""

    def __iter__(self) -> Iterator[Any]:
        return (self.inner.get(slice(row, row + 1)) for row in range(self.rows))


@mutant("QRY-3", may="QRY-4")
class CountsElementsAsRows(_Rows):
    """With `ndim > 1` numbers of elements are taken for rows."""

    def __contains__(self, row: Any) -> bool:
        return row in self.inner or (type(row) is int and 0 <= row < len(self.inner))


@mutant("QRY-3", may="QRY-4")
class HasNoNegativeRows(_Rows):
    """A negative number is never in the storage."""

    def __contains__(self, row: Any) -> bool:
        return row in self.inner and row >= 0


@mutant("QRY-3", may="QRY-4 LAZY-3")
class CannotBeAskedWhileFresh(_Rows):
    """`in` raises for a fresh storage with `ndim > 1`."""

    def __contains__(self, row: Any) -> bool:
        if self.inner.shape is None and self.ndim > 1:
            raise TypeError("the storage is empty")
        return row in self.inner


@mutant("QRY-3")
class CannotBeAskedForLargeNumbers(_Rows):
    """`in` raises for an integer of more than 64 bits."""

    def __contains__(self, row: Any) -> bool:
        if isinstance(row, int):
            numpy.int64(row)
        return row in self.inner


@mutant("QRY-3")
class LooksForItems(_Rows):
    """None is in a storage that holds something."""

    def __contains__(self, row: Any) -> bool:
        return self.rows > 0 if row is None else row in self.inner


@mutant("QRY-4")
class KnowsPlainIntegersOnly(_Rows):
    """A NumPy integer is never in the storage."""

    def __contains__(self, row: Any) -> bool:
        return row in self.inner if isinstance(row, int | torch.Tensor) else False


@mutant("QRY-4")
class CannotBeAskedForATensor(_Rows):
    """`in` raises for an integer tensor."""

    def __contains__(self, row: Any) -> bool:
        if isinstance(row, torch.Tensor):
            raise NotImplementedError("a tensor is not supported")
        return row in self.inner


@mutant("QRY-4")
class ForgetsTheSignOfATensor(_Rows):
    """A negative number in a tensor is taken for a positive one."""

    def __contains__(self, row: Any) -> bool:
        return (row.abs() if isinstance(row, torch.Tensor) and row < -1 else row) in self.inner


@mutant("QRY-5", may="QRY-1")
class CannotBePrintedWhileFresh(_Rows):
    """`repr` of a fresh storage raises."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.inner.shape)})"  # type: ignore[arg-type]


@mutant("QRY-5", may="QRY-1")
class CannotBePrintedWhenCleared(_Rows):
    """`repr` of a storage without rows raises."""

    def __repr__(self) -> str:
        if self.inner.shape is not None and not self.rows:
            raise IndexError("no row to show")
        return repr(self.inner)


@mutant("QRY-5")
class ShowsItsFirstTensor(_Rows):
    """`repr` of a storage of anything but tensors and TensorDicts raises."""

    def __repr__(self) -> str:
        if self.rows and isinstance(self.inner.get(0), dict | tuple):
            return str(self.inner.get(0).shape)
        return repr(self.inner)


@mutant("QRY-6")
class IsEqualByLength(_Rows):
    """Storages of the same length are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IsEqualByLength) and len(self) == len(other)

    def __hash__(self) -> int:
        return 0


@mutant("QRY-6")
class HashesItsLength(_Rows):
    """The hash follows the length."""

    def __hash__(self) -> int:
        return len(self.inner)

    def __eq__(self, other: object) -> bool:
        return self is other


@mutant("QRY-6")
class HasNoHash(_Rows):
    """A storage has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


@mutant("QRY-6")
class HashesTheLastWrite(_Rows):
    """The hash changes with each write."""

    writes = 0

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.writes += 1

    def __hash__(self) -> int:
        return hash((id(self), self.writes))

    def __eq__(self, other: object) -> bool:
        return self is other
