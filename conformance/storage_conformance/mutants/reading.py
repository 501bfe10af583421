"""Chapter GET: faults of reading."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, is_tensor_of
from storage_conformance.mutants.rewriting import leafwise
from storage_conformance.structure import tensors

__all__: list[str] = []


@mutant("GET-1")
class ReadsUpToTheCapacity(Reindexing):
    """A row between the length and the capacity reads as zeros."""

    def get(self, index: Any) -> Any:
        if type(index) is int and 0 < self.readable <= index < self.rows:
            return leafwise(self.inner.get(0), torch.zeros_like)
        return super().get(index)


@mutant("GET-1")
class ClampsLists(Reindexing):
    """A row above the length in a list is the last one."""

    def in_get(self, index: Any) -> Any:
        return (
            [min(row, self.readable - 1) for row in index]
            if isinstance(index, list) and self.readable
            else index
        )


@mutant("GET-1")
class CutsRanges(Reindexing):
    """A range that ends above the length is cut there."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, range) and index.step == 1 and index.stop > self.readable > index.start:
            return range(index.start, self.readable)
        return index


@mutant("GET-1")
class RefusesRowsAsValues(Reindexing):
    """With `ndim > 1` a row above the length is refused with `ValueError`."""

    def get(self, index: Any) -> Any:
        try:
            return super().get(index)
        except IndexError as error:
            if self.ndim > 1 and is_tensor_of(index, torch.int64):
                raise ValueError(str(error)) from None
            raise


@mutant("GET-2", may="IDX-7 IDX-8 SET-16")
class ReadsInOrder(Reindexing):
    """Lists and index tensors read their rows in ascending order."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, list):
            return sorted(index)
        return index.sort().values if is_tensor_of(index, torch.int64, torch.int32) else index


@mutant("GET-2", may="IDX-7 IDX-8")
class RepeatsNoRow(Reindexing):
    """Of several rows in a list or an index tensor, one that was named before reads as zeros."""

    def get(self, index: Any) -> Any:
        value = super().get(index)
        if not isinstance(index, list) and not is_tensor_of(index, torch.int64, torch.int32):
            return value
        seen: set[int] = set()
        for place, row in enumerate(index):
            if int(row) in seen:
                for leaf in tensors(value):
                    leaf[place].zero_()
            seen.add(int(row))
        return value


@mutant("GET-3", may="IDX-7")
class BracketsSort(Reindexing):
    """`storage[index]` reads a list in ascending order."""

    def __getitem__(self, index: Any) -> Any:
        return self.get(sorted(index) if isinstance(index, list) else index)


@mutant("GET-3", may="IDX-4")
class BracketsKeepADimension(Reindexing):
    """`storage[row]` is a batch of one row for an index tensor without dimensions."""

    def __getitem__(self, index: Any) -> Any:
        return self.get(index.reshape(1) if is_tensor_of(index, torch.int64, dimensions=0) else index)


@mutant("GET-3")
class BracketsReadRows(Reindexing):
    """With `ndim > 1` `storage[row, column]` reads the whole row."""

    def __getitem__(self, index: Any) -> Any:
        return self.get(index[0] if isinstance(index, tuple) and len(index) == self.ndim else index)


@mutant("GET-4")
class HasNoRowsWhileFresh(Reindexing):
    """`get` on a fresh storage raises `IndexError`."""

    def get(self, index: Any) -> Any:
        if self.fresh and type(index) is int:
            raise IndexError("no such row")
        return super().get(index)


@mutant("GET-4")
class ReadsNothingWhileFresh(Reindexing):
    """An empty index reads None on a fresh storage."""

    def get(self, index: Any) -> Any:
        return None if self.fresh and isinstance(index, list) and not index else super().get(index)


@mutant("GET-5")
class ReadsRangesAsViews(Reindexing):
    """A range of consecutive rows reads a view."""

    def in_get(self, index: Any) -> Any:
        consecutive = (
            isinstance(index, range) and index.step == 1 and 0 <= index.start < index.stop <= self.readable
        )
        return slice(index.start, index.stop) if consecutive else index


@mutant("GET-5")
class ReadsSingleRowsAsViews(Reindexing):
    """A list of one row reads a view."""

    def in_get(self, index: Any) -> Any:
        one = (
            isinstance(index, list)
            and len(index) == 1
            and type(index[0]) is int
            and 0 <= index[0] < self.readable
        )
        return slice(index[0], index[0] + 1) if one else index


@mutant("GET-5")
class ReadsFullMasksAsViews(Reindexing):
    """With `ndim > 1` a mask of all rows reads a view."""

    def in_get(self, index: Any) -> Any:
        full = (
            is_tensor_of(index, torch.bool)
            and self.ndim > 1
            and len(index) == self.readable > 0
            and bool(index.all())
        )
        return slice(0, self.readable) if full else index


@mutant("GET-5")
class ReadsTheSameBatchAgain(Reindexing):
    """What an index tensor read last is handed out again until something is written."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._last: tuple[torch.Tensor, Any] | None = None

    def get(self, index: Any) -> Any:
        if not is_tensor_of(index, torch.int64):
            return super().get(index)
        if self._last is None or not torch.equal(self._last[0], index):
            self._last = index.clone(), super().get(index)
        return self._last[1]

    def set(self, index: Any, data: Any) -> None:
        self._last = None
        super().set(index, data)

    def __setitem__(self, index: Any, data: Any) -> None:
        self._last = None
        super().__setitem__(index, data)

    def loads(self, path: Any) -> None:
        self._last = None
        super().loads(path)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._last = None
        super().load_state_dict(state)

    def clear(self) -> None:
        self._last = None
        super().clear()


class Handing(Reindexing):
    """Not a mutant itself: hands out one container again and again."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._handed: tuple[tuple[int, ...], TensorDictBase] | None = None

    def hands(self, index: Any) -> bool:
        """Whether it is the container of all rows that is asked for."""
        return False

    def get(self, index: Any) -> Any:
        value = super().get(index)
        if not self.hands(index) or type(value) is not TensorDict:
            return value
        shape = tuple(value.batch_size)
        if self._handed is None or self._handed[0] != shape:
            self._handed = shape, value
        return self._handed[1]

    def loads(self, path: Any) -> None:
        self._handed = None
        super().loads(path)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._handed = None
        super().load_state_dict(state)


@mutant("GET-6")
class HandsOutItsContainer(Handing):
    """`get(slice(None))` of a full storage is the storage's own TensorDict."""

    def hands(self, index: Any) -> bool:
        full = isinstance(index, slice) and index == slice(None) and self.readable == self.rows
        return full and not self.fresh and not torch.is_inference_mode_enabled()


@mutant("GET-6")
class HandsOutItsNestedContainers(Handing):
    """`get(...)` gives a new container with the nested ones of the storage."""

    def hands(self, index: Any) -> bool:
        return index is Ellipsis and self.readable > 0 and not torch.is_inference_mode_enabled()

    def get(self, index: Any) -> Any:
        value = super().get(index)
        if not self.hands(index) or type(value) is not TensorDict:
            return value
        outer = value.copy()
        outer._tensordict.update(value._tensordict)
        return outer
