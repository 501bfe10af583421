"""Chapter QRY: faults of the last row and of `clear`."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []

STATE = "IDX-21 ERR-1 ERR-2 QRY-1 OBS-12"


class _Remembering(Delegate):
    """Not a mutant itself: `last` makes the last row of an index and of what the reference says."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.row: Any = None

    def last(self, index: Any, right: int) -> Any:
        return right

    def set(self, index: Any, data: Any) -> None:
        written = _written(index)
        self.inner.set(index, data)
        if written and self.inner.last_row is not None:
            self.row = self.last(index, self.inner.last_row)

    def loads(self, path: Any) -> None:
        self.inner.loads(path)
        self.row = self.inner.last_row

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state)
        self.row = self.inner.last_row

    def clear(self) -> None:
        self.inner.clear()
        self.row = None

    @property
    def last_row(self) -> Any:
        return self.row


def _written(index: Any) -> bool:
    """Whether an index names any row."""
    if isinstance(index, torch.Tensor):
        return index.numel() > 0
    return bool(len(index)) if isinstance(index, list | range) else index != slice(0, 0)


@mutant("QRY-7", may=STATE)
class RemembersTheFirstOfAList(_Remembering):
    """After a write by a list the last row is its first entry."""

    def last(self, index: Any, right: int) -> Any:
        return index[0] if isinstance(index, list) and index else right


@mutant("QRY-7", may=STATE)
class RemembersAMaskValue(_Remembering):
    """After a write by a mask the last row is the last value of the mask."""

    def last(self, index: Any, right: int) -> Any:
        return int(index[-1]) if isinstance(index, torch.Tensor) and index.dtype == torch.bool else right


@mutant("QRY-7", may=STATE)
class RemembersTheHighestRow(_Remembering):
    """The last row is the highest one of the index."""

    def last(self, index: Any, right: int) -> Any:
        return max(index) if isinstance(index, range) and len(index) else right


@mutant("QRY-7", may=STATE)
class RemembersTheEndOfASlice(_Remembering):
    """After a write by a slice with a step the last row is the one before its end."""

    def last(self, index: Any, right: int) -> Any:
        if not isinstance(index, slice) or index.step in (None, 1) or self.inner.shape is None:
            return right
        rows = self.inner.max_size // self.inner.shape[1:].numel()
        return index.indices(rows)[1] - 1


@mutant("QRY-7", may=STATE)
class RemembersATensor(_Remembering):
    """After a write by a tensor the last row is a tensor."""

    def last(self, index: Any, right: int) -> Any:
        return torch.tensor(right) if isinstance(index, torch.Tensor) else right


@mutant("QRY-7", may=STATE)
class RemembersANumPyInteger(_Remembering):
    """After a write by a NumPy integer the last row is one as well."""

    def last(self, index: Any, right: int) -> Any:
        return index if isinstance(index, numpy.integer) else right


@mutant("QRY-7", may=STATE)
class RemembersTheListItself(_Remembering):
    """After a write by a list the last row follows the caller's list."""

    def last(self, index: Any, right: int) -> Any:
        return index if isinstance(index, list) and index else right

    @property
    def last_row(self) -> Any:
        return self.row[-1] if isinstance(self.row, list) else self.row


@mutant("QRY-7", may=STATE)
class ForgetsWritesOfElements(_Remembering):
    """A write by a tuple does not move the last row."""

    def last(self, index: Any, right: int) -> Any:
        return self.row if isinstance(index, tuple) else right


@mutant("QRY-7", may=f"{STATE} SET-15 LEN-1 LAZY-6")
class HasALastRowWhileFresh(_Remembering):
    """The last row of a fresh storage is 0."""

    @property
    def last_row(self) -> Any:
        return 0 if self.inner.shape is None else self.row


@mutant("QRY-8", may="IDX-21 OBS-2 OBS-12 ERR-2")
class MovesTheLastRowByAssigning(_Remembering):
    """An assignment to one row makes it the last one."""

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = data
        if isinstance(index, int) and self.inner.shape is not None:
            self.row = index % self.inner.shape[0]


@mutant("QRY-8", may="IDX-21 OBS-2 OBS-12 ERR-2")
class ForgetsTheLastRowByAssigning(_Remembering):
    """After an assignment by a mask there is no last row."""

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = data
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool:
            self.row = None


@mutant("QRY-9", may="QRY-7 ERR-1 COPY-3 OBS-12")
class KeepsTheLastRow(_Remembering):
    """`clear` keeps the last row."""

    def clear(self) -> None:
        self.inner.clear()


@mutant("QRY-9", may="QRY-1 QRY-2 QRY-3 QRY-10 LAZY-4 LEN-2 LEN-3 LEN-4 LEN-5 LEN-8 SET-1")
class ClearsNothingWithSeveralDimensions(Delegate):
    """With `ndim > 1` only the last row is forgotten."""

    cleared = False

    def clear(self) -> None:
        if self.ndim == 1:
            self.inner.clear()
        self.cleared = True

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.cleared = False

    @property
    def last_row(self) -> int | None:
        return None if self.cleared else self.inner.last_row


@mutant("QRY-9")
class CannotBeClearedWhileFresh(Delegate):
    """`clear` of a fresh storage raises."""

    def clear(self) -> None:
        if self.inner.shape is None:
            raise RuntimeError("there is nothing to clear")
        self.inner.clear()


class _Renewing(Delegate):
    """Not a mutant itself: `clear` makes everything new."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.arguments = max_size, device, ndim
        self.entities: list[Any] = []

    def attach(self, entity: Any) -> None:
        self.inner.attach(entity)
        self.entities.append(entity)

    def detach(self, entity: Any) -> None:
        self.inner.detach(entity)
        self.entities = [known for known in self.entities if known is not entity]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "entities": []}


@mutant("QRY-10", may="QRY-9 LAZY-4 CAP-2 LEN-7 IDX-12 IDX-20")
class BecomesFreshWhenCleared(_Renewing):
    """`clear` forgets the structure."""

    def clear(self) -> None:
        self.inner = LazyTensorStorage(self.arguments[0], device=self.arguments[1], ndim=self.arguments[2])
        for entity in self.entities:
            self.inner.attach(entity)


@mutant("QRY-10", may="OBS-1")
class ForgetsEntitiesWhenCleared(_Renewing):
    """`clear` detaches all entities."""

    def clear(self) -> None:
        self.inner.clear()
        for entity in self.entities:
            self.inner.detach(entity)
        self.entities = []


@mutant("QRY-10", may="CAP-2 ERR-1 LEN-8")
class ForgetsItsSizeWhenCleared(_Renewing):
    """After `clear` the size is the argument again."""

    cleared = False

    def clear(self) -> None:
        self.inner.clear()
        self.cleared = True

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.cleared = False

    @property
    def max_size(self) -> int:
        return self.arguments[0] if self.cleared else self.inner.max_size


@mutant("QRY-10", may="DEV-5 DEV-4")
class ForgetsItsDeviceWhenCleared(_Renewing):
    """After `clear` the device of a storage made with "auto" is unknown again."""

    cleared = False

    def clear(self) -> None:
        self.inner.clear()
        self.cleared = self.arguments[1] == "auto"

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.cleared = False

    @property
    def device(self) -> Any:
        return "auto" if self.cleared else self.inner.device
