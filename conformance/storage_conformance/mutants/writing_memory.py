"""Chapter SET: faults of memory that belongs to somebody else."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing, put
from storage_conformance.mutants.rewriting import is_lazy, is_plain, leafwise, nested
from storage_conformance.structure import tensors

__all__: list[str] = []


class Borrowing(Reindexing):
    """Not a mutant itself: what it borrows of the caller it reads again until it is written the next time."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._borrowed: tuple[Any, list[torch.Tensor]] | None = None

    def borrows(self, index: Any, data: Any) -> bool:
        """Whether it keeps the caller's memory."""
        return False

    def _borrow(self, rows: Any, data: Any) -> None:
        self._borrowed = (rows, [leaf.detach() for leaf in tensors(data)])

    def get(self, index: Any) -> Any:
        if self._borrowed is not None:
            put(self, *self._borrowed)
        return super().get(index)

    def set(self, index: Any, data: Any) -> None:
        borrows = self.borrows(index, data)
        super().set(index, data)
        self._borrowed = None
        if borrows:
            self._borrow(slice(index.start, index.stop) if isinstance(index, range) else index, data)

    def __setitem__(self, index: Any, data: Any) -> None:
        borrows = self.borrows(index, data)
        super().__setitem__(index, data)
        self._borrowed = None
        if borrows:
            self._borrow(index, data)

    def loads(self, path: Any) -> None:
        super().loads(path)
        self._borrowed = None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._borrowed = None

    def clear(self) -> None:
        super().clear()
        self._borrowed = None


@mutant("SET-3")
class AdoptsTheFirstBatch(Borrowing):
    """A first write of all rows of one tensor keeps the tensor."""

    def borrows(self, index: Any, data: Any) -> bool:
        return self.fresh and is_plain(data) and isinstance(index, slice) and index == slice(None)


@mutant("SET-3")
class AdoptsNestedBatches(Borrowing):
    """A first write of rows of a nested TensorDict keeps its tensors."""

    def borrows(self, index: Any, data: Any) -> bool:
        deep = isinstance(data, TensorDict) and any(
            isinstance(entry, TensorDictBase) for entry in data.values()
        )
        return self.fresh and deep and isinstance(index, range) and index.step > 0 and len(index) > 0


@mutant("SET-3")
class AdoptsAssignedRows(Borrowing):
    """With `ndim > 1` an assignment of all rows keeps the tensors."""

    def borrows(self, index: Any, data: Any) -> bool:
        kind = is_plain(data) or (nested(data) and not is_lazy(data))
        return index is Ellipsis and not self.fresh and self.ndim > 1 and kind


def smear(storage: Reindexing, rows: range, data: Any) -> None:
    """Writes rows one after the other, also where the data lie in the rows just written."""
    leaves = tensors(data)
    for place, row in enumerate(rows):
        put(storage, row, [leaf[place] for leaf in leaves])


@mutant("SET-18")
class WritesRowByRow(Reindexing):
    """A slice of rows of one tensor is written row by row, so that it may read what it has just written."""

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data.clone() if is_plain(data) else data)
        if isinstance(index, slice) and is_plain(data):
            smear(self, range(*index.indices(self.rows)), data)


@mutant("SET-18")
class AssignsRowByRow(Reindexing):
    """With `ndim == 1` a range of rows of a TensorDict is assigned row by row."""

    def __setitem__(self, index: Any, data: Any) -> None:
        smears = isinstance(index, range) and isinstance(data, TensorDict) and self.ndim == 1
        super().__setitem__(index, leafwise(data, torch.clone) if smears else data)
        if smears:
            smear(self, index, data)
