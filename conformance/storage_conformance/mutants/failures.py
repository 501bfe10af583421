"""Chapter ERR: faults of operations that fail half-way."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict

from lazy_tensor_storage import CheckpointError
from storage_conformance.mutants.altering import Path, rows_of
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant
from storage_conformance.structure import tensors

ERRORS = (TypeError, ValueError, LookupError, RuntimeError)


def _listed(index: Any) -> list[int]:
    """The rows that a list, a range or a tensor names; none for other indices."""
    if isinstance(index, torch.Tensor):
        return index.tolist() if index.dim() == 1 and index.dtype in (torch.int64, torch.int32) else []
    plain = isinstance(index, list | range) and all(type(row) is int for row in index)
    return list(index) if plain else []


class _Failing(Delegate):
    """Does something about a failed operation, and raises its exception nevertheless."""

    def after_set(self, index: Any, data: Any) -> None:
        """After a `set` that failed."""

    def after_assignment(self, index: Any, data: Any) -> None:
        """After an assignment that failed."""

    def set(self, index: Any, data: Any) -> None:
        try:
            self.inner.set(index, data)
        except ERRORS:
            self.after_set(index, data)
            raise

    def __setitem__(self, index: Any, data: Any) -> None:
        try:
            self.inner[index] = data
        except ERRORS:
            self.after_assignment(index, data)
            raise


def _one_by_one(storage: Any, index: Any, data: Any, *, assign: bool) -> None:
    try:
        for number, row in enumerate(_listed(index)):
            if assign:
                storage[row] = data[number]
            else:
                storage.set(row, data[number])
    except (*ERRORS, AttributeError):
        return


@mutant("ERR-1", may="OBS-1 OBS-11 LAZY-3 DTYPE-7")
class RowsAreWrittenOneByOne(_Failing):
    """The rows of a list before the first bad one are written."""

    def after_set(self, index: Any, data: Any) -> None:
        if rows_of(self.inner):
            _one_by_one(self.inner, index, data, assign=False)


def _first_leaf(storage: Any, index: Any, data: Any) -> None:
    """Writes the first leaf of one row, if that alone fits."""
    if type(index) is not int or not 0 <= index < rows_of(storage):
        return
    held, given = tensors(storage.get(index)), tensors(data)
    if given and held and not given[0].is_meta and held[0].shape == given[0].shape:
        held[0].copy_(given[0])


@mutant("ERR-1")
class LeavesAreWrittenOneByOne(_Failing):
    """The first leaf of a row is written before the second is looked at."""

    def after_set(self, index: Any, data: Any) -> None:
        _first_leaf(self.inner, index, data)


@mutant("ERR-1")
class LeavesAreWrittenOneByOneWhereFull(_Failing):
    """The first leaf of a row is written before the second is looked at, in a full storage of several dimensions."""

    def after_set(self, index: Any, data: Any) -> None:
        if self.ndim > 1 and len(self.inner) == self.inner.max_size:
            _first_leaf(self.inner, index, data)


class _Pretending(_Failing):
    """Answers what it would be after a write that failed."""

    pretended: Any = None

    def set(self, index: Any, data: Any) -> None:
        self.pretended = None
        super().set(index, data)

    def clear(self) -> None:
        self.pretended = None
        self.inner.clear()

    def loads(self, path: Path) -> None:
        self.inner.loads(path)
        self.pretended = None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state)
        self.pretended = None


@mutant("ERR-1", may="GET-1 LAZY-3 LEN-1")
class LengthsAreRaisedFirst(_Pretending):
    """The length is raised before the data are looked at, where a row is free."""

    def after_set(self, index: Any, data: Any) -> None:
        if type(index) is int and index >= 0 and self.inner.shape is not None:
            width = self.inner.shape[1:].numel()
            if len(self.inner) < (index + 1) * width <= self.inner.max_size:
                self.pretended = (index + 1) * width

    def __len__(self) -> int:
        return self.pretended or len(self.inner)


@mutant("ERR-1")
class SeamsMoveFirst(_Pretending):
    """The last-written row is noted before the data are looked at."""

    def after_set(self, index: Any, data: Any) -> None:
        rows = _listed(index)
        if rows and rows_of(self.inner):
            self.pretended = rows[0]

    @property
    def last_row(self) -> int | None:
        return self.inner.last_row if self.pretended is None else self.pretended


@mutant("ERR-1", may="LAZY-3 CAP-2 CAP-5 SET-19 LEN-1")
class FailedFirstWritesAllocate(_Pretending):
    """A first write that failed leaves a storage of no rows, which is fresh no more."""

    def after_set(self, index: Any, data: Any) -> None:
        if self.inner.shape is None and isinstance(data, TensorDict):
            self.pretended = torch.Size([0, *data.batch_size[1 : self.ndim]])

    @property
    def shape(self) -> torch.Size | None:
        return self.inner.shape if self.inner.shape is not None else self.pretended


@mutant("ERR-2", may="OBS-2 OBS-11")
class RowsAreAssignedOneByOne(_Failing):
    """The rows of a list before the first bad one are assigned."""

    def after_assignment(self, index: Any, data: Any) -> None:
        if rows_of(self.inner):
            _one_by_one(self.inner, index, data, assign=True)


@mutant("ERR-2")
class LeavesAreAssignedOneByOne(_Failing):
    """The first leaf of a row is assigned before the second is looked at."""

    def after_assignment(self, index: Any, data: Any) -> None:
        _first_leaf(self.inner, index, data)


@mutant("ERR-2", may="OBS-1 OBS-11 SET-17 GET-1 LAZY-3")
class FailedAssignmentsAppend(_Failing):
    """An assignment beyond the length raises after it has appended a row."""

    def after_assignment(self, index: Any, data: Any) -> None:
        if type(index) is int and index == rows_of(self.inner) and index:
            try:
                self.inner.set(index, data)
            except ERRORS:
                return


@mutant("ERR-2", may="SET-17 LEN-1")
class FailedAssignmentsAllocate(_Failing):
    """An assignment to a fresh storage raises after it has fixed a shape."""

    fixed: torch.Size | None = None

    def after_assignment(self, index: Any, data: Any) -> None:
        if self.inner.shape is None and isinstance(data, TensorDict):
            self.fixed = torch.Size([0, *data.batch_size[1 : self.ndim]])

    @property
    def shape(self) -> torch.Size | None:
        return self.inner.shape if self.inner.shape is not None else self.fixed


@mutant("ERR-5", may="CAP-6")
class DivisionsShow(Delegate):
    """A first write of no elements divides by zero."""

    def set(self, index: Any, data: Any) -> None:
        if self.shape is None and isinstance(data, TensorDict) and 0 in data.batch_size[-(self.ndim - 1) :]:
            raise ZeroDivisionError("integer division or modulo by zero")
        self.inner.set(index, data)


@mutant("ERR-5", may="DATA-18 CAP-5 DEV-9")
class AssertionsCheckData(Delegate):
    """Data that do not fit fail an assertion."""

    def set(self, index: Any, data: Any) -> None:
        try:
            self.inner.set(index, data)
        except (ValueError, TypeError) as error:
            raise AssertionError(str(error)) from error


@mutant("ERR-5", may="SET-17 IDX-14 IDX-15 IDX-16 IDX-18 DATA-18")
class AttributesAreMissing(Delegate):
    """Data that are no container lack an attribute, in an assignment."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if data is None or isinstance(data, int | str):
            raise AttributeError(f"{type(data).__name__!r} object has no attribute 'batch_size'")
        self.inner[index] = data


@mutant("ERR-5")
class DamageIsTheEndOfAFile(Delegate):
    """A load of a dump that ends early raises `EOFError`."""

    def loads(self, path: Path) -> None:
        try:
            self.inner.loads(path)
        except CheckpointError as error:
            raise EOFError("ran out of input") from error


@mutant("ERR-5")
class StatesMissNames(Delegate):
    """A state dict in which a number is none ends in an `AttributeError`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(state, dict) and None in state.values() and state.get("last_row", 0) is not None:
            raise AttributeError("'NoneType' object has no attribute 'item'")
        self.inner.load_state_dict(state)
