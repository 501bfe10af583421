"""Chapter COPY: faults of state dicts."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import is_tensorclass

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import PlainStates, every_row, leaf_tensors, refill, rows_of
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


@mutant("COPY-5", may="COPY-6 COPY-8")
class StatesHoldNoRecords(PlainStates):
    """A tensorclass comes out of a state dict as a TensorDict, in a fresh storage."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if self.inner.shape is not None or not rows_of(aside) or not is_tensorclass(aside.get(0)):
            return aside
        return refill(aside, every_row(aside).to_tensordict(), rows_of(aside))


@mutant("COPY-5", may="COPY-8")
class StatesOfPartsLoseTheLastLeaf(PlainStates):
    """The last leaf comes out as zeros in a fresh storage that the state does not fill."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if self.inner.shape is None and rows_of(aside) and len(aside) < self.max_size:
            leaf_tensors(aside)[-1].zero_()
        return aside


@mutant("COPY-5", may="COPY-6 COPY-8")
class StatesFillTheStorage(PlainStates):
    """A fresh storage counts one row more than the state holds, where there is room."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        count = rows_of(aside)
        if self.inner.shape is None and count and self.ndim > 1 and len(aside) < self.max_size:
            last = aside.last_row
            aside.set(count, aside.get(0))
            aside.set(last or 0, aside.get(last or 0))
        return aside


@mutant("COPY-6", may="COPY-7 COPY-8 COPY-9 COPY-10")
class UsedStoragesTakeNoState(Delegate):
    """A storage that holds rows loads no state dict."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.inner.shape is not None:
            raise RuntimeError("this storage is not empty")
        self.inner.load_state_dict(state)


@mutant("COPY-6", may="COPY-7 COPY-8")
class StatesNeverShorten(PlainStates):
    """After the state of fewer rows, the old ones beyond them can still be read."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        loaded, before, last = rows_of(aside), rows_of(self.inner), aside.last_row
        if loaded < before:
            try:
                aside.set(range(loaded, before), self.inner.get(range(loaded, before)))
            except (TypeError, ValueError):
                return aside
            if last is not None:
                aside.set(last, aside.get(last))
        return aside


@mutant("COPY-6", may="COPY-7 COPY-8")
class RowsThereKeepTheirLastLeafOfAState(PlainStates):
    """Of the rows that a used storage holds, a state dict replaces all leaves but the last."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if rows_of(self.inner) and rows_of(aside) and len(new := leaf_tensors(aside)) > 1:
            old = leaf_tensors(self.inner)[-1]
            count = min(len(old), len(new[-1]))
            if old.shape[1:] == new[-1].shape[1:] and old.dtype == new[-1].dtype:
                new[-1][:count] = old[:count]
        return aside


class _Adopting(Delegate):
    """Puts the storage itself into its state."""

    def state_dict(self) -> dict[str, Any]:
        return {**self.inner.state_dict(), "storage": self.inner}

    def adopts(self, other: LazyTensorStorage) -> bool:
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = (
            {key: entry for key, entry in state.items() if key != "storage"}
            if isinstance(state, dict)
            else state
        )
        self.inner.load_state_dict(own)
        other = state.get("storage")
        if isinstance(other, LazyTensorStorage) and other is not self.inner and self.adopts(other):
            self.inner = other


@mutant("COPY-7", may="COPY-4 COPY-5 COPY-6 COPY-10 OBS-1 OBS-2 OBS-3 OBS-4 OBS-11 OBS-13")
class StatesOfFullStoragesAreShared(_Adopting):
    """Where source and destination are full, the memory is taken over."""

    def adopts(self, other: LazyTensorStorage) -> bool:
        return rows_of(other) > 0 and len(other) == other.max_size and self.inner.max_size == other.max_size


@mutant("COPY-7", may="COPY-4 COPY-5 COPY-6 COPY-10 OBS-1 OBS-2 OBS-3 OBS-4 OBS-11 OBS-13")
class StatesOfRecordsAreShared(_Adopting):
    """The memory of a tensorclass is taken over, where the capacities agree."""

    def adopts(self, other: LazyTensorStorage) -> bool:
        return rows_of(other) > 0 and is_tensorclass(other.get(0)) and self.inner.max_size == other.max_size


@mutant("COPY-8", may="CAP-2 CAP-3 LEN-8 COPY-7")
class StatesBringTheirSize(Delegate):
    """`max_size` is that of the storage whose state was loaded."""

    size: int | None = None

    def state_dict(self) -> dict[str, Any]:
        return {**self.inner.state_dict(), "size": self.inner.max_size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = (
            {key: entry for key, entry in state.items() if key != "size"}
            if isinstance(state, dict)
            else state
        )
        self.inner.load_state_dict(own)
        self.size = state.get("size") if self.inner.shape is not None else None

    @property
    def max_size(self) -> int:
        return self.size or self.inner.max_size


@mutant("COPY-8", may="ERR-4")
class StatesAreCutOff(PlainStates):
    """A state of more rows than fit loses the last ones."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        width = (aside.shape or torch.Size([1]))[1:].numel()
        room = -(-self.inner.max_size // width)
        return aside if rows_of(aside) <= room else refill(aside, aside.get(slice(0, room)), room)


@mutant("COPY-8", may="ERR-4")
class StatesHaveNoShape(Delegate):
    """A state of as many elements in another arrangement is accepted."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for ndim in (1, 2, 3):
            aside = LazyTensorStorage(1 << 16, ndim=ndim)
            try:
                aside.load_state_dict(state)
            except (TypeError, ValueError):
                continue
            if self.inner.shape is None or not rows_of(aside) or aside.shape == self.inner.shape:
                break
            held, rows = self.inner.shape[1:], rows_of(aside)
            if ndim != self.ndim or aside.shape is None or held == aside.shape[1:]:
                break
            if held.numel() == aside.shape[1:].numel():
                fitted = LazyTensorStorage(1 << 16, ndim=ndim)
                fitted.set(range(rows), every_row(aside).reshape(rows, *held))
                return self.inner.load_state_dict(fitted.state_dict())
        return self.inner.load_state_dict(state)


def _is_fresh(state: Any) -> bool:
    aside = LazyTensorStorage(1)
    try:
        aside.load_state_dict(state)
    except (TypeError, ValueError):
        return False
    return aside.shape is None


@mutant("COPY-9")
class FreshStatesAreIgnored(Delegate):
    """The state of a fresh storage changes nothing."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not _is_fresh(state):
            self.inner.load_state_dict(state)


@mutant("COPY-9")
class FreshStatesOnlyClear(Delegate):
    """The state of a fresh storage takes the rows away, and leaves the structure."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if _is_fresh(state):
            self.inner.clear()
        else:
            self.inner.load_state_dict(state)


@mutant("COPY-9")
class FreshStatesAreRefused(Delegate):
    """The state of a fresh storage is refused by one that holds rows."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if _is_fresh(state) and self.inner.shape is not None:
            raise RuntimeError("there is nothing in this state")
        self.inner.load_state_dict(state)


@mutant("COPY-10", may="COPY-7")
class StatesEndAtTheEnd(PlainStates):
    """After a state dict the last-written row is the highest one."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        if rows_of(aside):
            aside.set(rows_of(aside) - 1, aside.get(rows_of(aside) - 1))
        return aside


@mutant("COPY-10")
class UsedStoragesKeepTheirSeamOverAState(PlainStates):
    """A state dict leaves the last-written row of a used storage, if that is still there."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        last = self.inner.last_row
        if last is not None and last < rows_of(aside):
            aside.set(last, aside.get(last))
        return aside
