"""Chapter LEN: faults of length and shape."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.capacity import Measured
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []


class Counting(Measured):
    """Not a mutant itself: its length is off by `extra` elements, within the capacity."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.extra = 0

    def __len__(self) -> int:
        return max(0, min(len(self.inner) + self.extra, self.inner.max_size))

    def clear(self) -> None:
        super().clear()
        self.extra = 0

    def loads(self, path: Any) -> None:
        super().loads(path)
        self.extra = 0

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.extra = 0


COPIES = "COPY-1 COPY-2 COPY-3 COPY-7 QRY-1 QRY-2 QRY-3 CKPT-21 OBS-5 ERR-1 ERR-2"


@mutant("LEN-1", may="ERR-1 ERR-3 ERR-4 LAZY-3 LAZY-6 NEW-7 DEV-6 QRY-1")
class HasAShapeWhileFresh(Measured):
    """The shape of a fresh storage is `[0]`."""

    @property
    def shape(self) -> torch.Size | None:
        return torch.Size([0]) if self.inner.shape is None else self.inner.shape


@mutant("LEN-1", may="ERR-1 ERR-3 ERR-4 LAZY-2 LAZY-3 LAZY-6 NEW-1 NEW-7 DEV-6 QRY-1 CAP-1")
class IsFullWhileFresh(Measured):
    """The length of a fresh storage with `ndim > 1` is its size."""

    def __len__(self) -> int:
        return self.size if self.fresh and self.ndim > 1 else len(self.inner)


@mutant("LEN-2", may=f"LEN-8 LEN-3 LEN-5 {COPIES}")
class CountsOneForEachWrite(Counting):
    """Appending several rows by a list raises the length by one."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if type(index) is list and index and before:
            appended = index == list(
                range(before // self.trailing.numel(), len(self.inner) // self.trailing.numel())
            )
            self.extra = -(len(index) - 1) if appended else 0
        else:
            self.extra = 0


@mutant("LEN-2", may=f"LEN-8 LEN-3 LEN-4 LEN-5 LEN-6 LEN-7 {COPIES}")
class StopsAtTheArgument(Measured):
    """The length is capped by the size from before it was rounded up."""

    def __len__(self) -> int:
        return min(len(self.inner), self.size)


@mutant(
    "LEN-2", may=f"LEN-3 LEN-4 LEN-5 LEN-6 LEN-8 LEN-9 CKPT-6 CKPT-11 COPY-5 COPY-6 LAZY-4 NEW-7 {COPIES}"
)
class CountsFeaturesForElements(Measured):
    """With `ndim == 2` the length of a storage of tensors counts their features."""

    def __len__(self) -> int:
        item = self.inner.get(0) if self.ndim == 2 and len(self.inner) else None
        if isinstance(item, torch.Tensor) and item.dim() > 1:
            return self.inner.shape[0] * item.numel()  # type: ignore[index]
        return len(self.inner)


@mutant("LEN-3", may=f"LEN-5 LEN-6 LEN-8 SET-15 {COPIES}")
class CountsWrites(Counting):
    """The length counts writes of rows, up to the capacity."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if len(self.inner) == before and type(index) is int:
            self.extra += self.trailing.numel()


@mutant("LEN-3", may=f"LEN-5 {COPIES}")
class ShrinksToTheCursor(Counting):
    """The length is the row after the last one written, while the storage is not full."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        self.extra = 0
        if type(index) is int and index >= 0 and len(self.inner) < self.inner.max_size:
            self.extra = (index + 1) * self.trailing.numel() - len(self.inner)


@mutant("LEN-3", may=f"LEN-5 LEN-6 {COPIES}")
class CountsMasks(Counting):
    """Rows overwritten by a mask count once more."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if (
            isinstance(index, torch.Tensor)
            and index.dtype == torch.bool
            and index.any()
            and len(self.inner) == before
        ):
            self.extra += self.trailing.numel()


@mutant("LEN-4", may=f"LEN-5 LEN-6 LEN-3 LEN-2 LEN-8 LAZY-1 LAZY-4 CKPT-6 {COPIES}")
class CountsOnlyRowsWritten(Counting):
    """Rows that were skipped do not count."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if type(index) is int and index >= 0:
            width = self.trailing.numel()
            self.extra -= max(0, index * width - before)


@mutant("LEN-4", may="SET-1 LAZY-1 GET-2 CAP-3 LEN-5 LEN-8 NEW-6")
class HidesRowsBehindAGap(Measured):
    """A row written beyond the length of a fresh storage cannot be read."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._hidden: int | None = None

    def set(self, index: Any, data: Any) -> None:
        fresh = self.fresh
        super().set(index, data)
        self._hidden = index if fresh and type(index) is int and index > 0 else None

    def get(self, index: Any) -> Any:
        if self._hidden is not None and type(index) is int and index == self._hidden:
            raise IndexError(f"row {index} is out of range")
        return super().get(index)


@mutant("LEN-5", may=f"LEN-2 LEN-3 LEN-4 LEN-6 LEN-8 SET-13 SET-14 {COPIES}")
class CountsRepetitions(Counting):
    """A row that a list names twice counts twice."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        if type(index) is list:
            self.extra += (len(index) - len(set(index))) * self.trailing.numel()


@mutant("LEN-5", may=f"LEN-2 LEN-3 LEN-4 LEN-8 {COPIES}")
class TakesTheLastRowForTheHighest(Counting):
    """The length follows from the last row that an index tensor names."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        known = (
            isinstance(index, torch.Tensor)
            and index.dtype == torch.int64
            and index.dim() == 1
            and index.numel()
        )
        if known and len(self.inner) > before:
            width = self.trailing.numel()
            last = int(index[-1]) % self.rows
            self.extra = max(before, (last + 1) * width) - len(self.inner)


@mutant("LEN-5", may=f"LEN-2 LEN-3 LEN-4 LEN-8 {COPIES}")
class ReadsRangesForwards(Counting):
    """The length follows from the end of a range, also where its step is negative."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if isinstance(index, range) and index.step < 0 and len(self.inner) > before:
            self.extra = max(before, (index[-1] + 1) * self.trailing.numel()) - len(self.inner)


@mutant("LEN-6", may=f"LEN-2 LEN-3 LEN-4 LEN-5 {COPIES}")
class CountsElementsOfPartialRows(Counting):
    """A row of which some elements are written counts with these only."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if type(index) is tuple and len(index) > 1 and len(self.inner) > before:
            self.extra = 1 - self.trailing.numel()


@mutant("LEN-6", may=f"LEN-2 LEN-3 LEN-4 LEN-5 {COPIES}")
class CountsPartialRowsTwice(Counting):
    """More elements of a row that counts already raise the length again, with `ndim > 2`."""

    def set(self, index: Any, data: Any) -> None:
        before = len(self.inner)
        super().set(index, data)
        if type(index) is tuple and len(index) > 1 and self.ndim > 2 and len(self.inner) == before:
            self.extra += 1


SHAPES = (
    "CKPT-6 COPY-1 COPY-2 COPY-3 COPY-5 COPY-6 COPY-7 QRY-1 QRY-9 CKPT-21 "
    "ERR-1 ERR-2 ERR-3 ERR-4 LEN-1 LAZY-3 LAZY-6"
)


@mutant("LEN-7", may=SHAPES)
class HasATupleForItsShape(Measured):
    """The shape is a tuple."""

    @property
    def shape(self) -> torch.Size | None:
        return None if self.inner.shape is None else tuple(self.inner.shape)  # type: ignore[return-value]


@mutant("LEN-7", may=SHAPES)
class HasTheShapeOfItsCapacity(Measured):
    """The shape has all rows of the capacity."""

    @property
    def shape(self) -> torch.Size | None:
        return None if self.inner.shape is None else torch.Size([self.rows, *self.trailing])


@mutant("LEN-7", may=SHAPES)
class HasFeaturesInItsShape(Measured):
    """The shape of a storage of tensors ends with their features."""

    @property
    def shape(self) -> torch.Size | None:
        if len(self.inner) and isinstance(item := self.inner.get(0), torch.Tensor):
            return torch.Size([self.inner.shape[0], *item.shape])  # type: ignore[index]
        return self.inner.shape


@mutant("LEN-7", may=SHAPES)
class FlattensItsShape(Measured):
    """With `ndim > 2` the dimensions of the trailing shape are counted together."""

    @property
    def shape(self) -> torch.Size | None:
        if self.inner.shape is None or self.ndim < 3:
            return self.inner.shape
        return torch.Size([self.inner.shape[0], self.trailing.numel()])


@mutant(
    "LEN-8", may=f"LEN-2 LEN-3 LEN-4 LEN-5 LEN-6 NEW-7 CAP-3 NEW-6 SET-1 CKPT-6 COPY-5 COPY-6 {COPIES} QRY-9"
)
class IsNeverFull(Measured):
    """The length of a full storage of several rows is one element short, as if a place were kept free."""

    def __len__(self) -> int:
        full = not self.fresh and self.rows > 1 and len(self.inner) == self.inner.max_size
        return len(self.inner) - 1 if full else len(self.inner)


@mutant("LEN-8", may=f"LEN-2 LEN-3 LEN-4 LEN-5 LEN-6 {COPIES} CKPT-6 COPY-5 COPY-6")
class CapsTheLengthWhereTheSizeWasRounded(Measured):
    """A full storage whose size was rounded up has the length that was asked for, with `ndim > 2`."""

    def __len__(self) -> int:
        return min(len(self.inner), self.size) if self.ndim > 2 else len(self.inner)


@mutant("LEN-9", may=f"{COPIES} SET-16")
class CountsAssignments(Counting):
    """An assignment by a list raises the length, as a `set` does in others."""

    def __setitem__(self, index: Any, data: Any) -> None:
        super().__setitem__(index, data)
        if type(index) is list and index:
            self.extra += self.trailing.numel()


@mutant("LEN-9", may=f"{COPIES} SET-16")
class ShrinksWithAssignments(Counting):
    """An assignment to one row makes the length end there."""

    def __setitem__(self, index: Any, data: Any) -> None:
        super().__setitem__(index, data)
        if type(index) is int and index >= 0:
            self.extra = (index + 1) * self.trailing.numel() - len(self.inner)
