"""Chapter OBS: what entities are told, and when."""

from __future__ import annotations

import copy
from typing import Any

import torch

from storage_conformance.mutants.altering import Path
from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.relaying import Relaying

__all__: list[str] = []


class _Heard:
    """An entity that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[torch.Tensor] = []

    def mark_update(self, index: torch.Tensor) -> None:
        self.told.append(index)


@mutant("OBS-5", may="OBS-11 OBS-12")
class TellsBeforeItWrites(Relaying):
    """Entities are told of an assignment before it is done."""

    def __setitem__(self, index: Any, data: Any) -> None:
        heard = _Heard()
        shadow = copy.deepcopy(self.inner)
        shadow.attach(heard)
        shadow[index] = data
        self.operation = "assign"
        try:
            for rows in heard.told:
                super().tell(rows)
        finally:
            self.operation = "silent"
            self.inner[index] = data

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "silent":
            super().tell(index)


@mutant("OBS-5")
class CountsAfterTelling(Relaying):
    """The length is what it was before while entities are told."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.before: int | None = None

    def __len__(self) -> int:
        return len(self.inner) if self.before is None else self.before

    def set(self, index: Any, data: Any) -> None:
        self.waiting = len(self.inner)
        super().set(index, data)

    def tell(self, index: torch.Tensor) -> None:
        self.before = self.waiting if self.operation == "set" else None
        try:
            super().tell(index)
        finally:
            self.before = None


@mutant("OBS-5")
class ReadsNothingWhileTelling(Relaying):
    """With `ndim > 1` a read inside `mark_update` raises."""

    telling = False

    def get(self, index: Any) -> Any:
        if self.telling:
            raise RuntimeError("the storage is busy")
        return self.inner.get(index)

    def tell(self, index: torch.Tensor) -> None:
        self.telling = self.ndim > 1
        try:
            super().tell(index)
        finally:
            self.telling = False


@mutant("OBS-9", may="OBS-5")
class TellsAList(Relaying):
    """With `ndim == 1` the index is a list."""

    def tell(self, index: Any) -> None:
        self.tell_each(self.entities, index.tolist() if index.dim() == 1 else index)


@mutant("OBS-9")
class TellsSmallIntegers(Relaying):
    """After an assignment the index is an int32 tensor."""

    def tell(self, index: torch.Tensor) -> None:
        small = self.operation == "assign" and self.ndim == 1
        self.tell_each(self.entities, index.int() if small else index)


@mutant("OBS-9")
class TellsTheIndexGiven(Relaying):
    """A negative row of an assignment is told as it was given."""

    def __setitem__(self, index: Any, data: Any) -> None:
        self.index = index
        super().__setitem__(index, data)

    def tell(self, index: torch.Tensor) -> None:
        negative = self.operation == "assign" and isinstance(self.index, int) and self.ndim == 1
        super().tell(torch.tensor([self.index]) if negative else index)


@mutant("OBS-9", may="OBS-3")
class TellsAllRows(Relaying):
    """With `ndim == 1` all readable rows are told of any write."""

    def tell(self, index: torch.Tensor) -> None:
        shape = self.inner.shape
        more = index.dim() == 1 and self.operation == "set"
        super().tell(torch.arange(shape[0]) if shape is not None and more else index)


@mutant("OBS-9")
class TellsAScalar(Relaying):
    """One row is told as a tensor without dimensions."""

    def tell(self, index: torch.Tensor) -> None:
        super().tell(index.reshape(()) if index.dim() == 1 and len(index) == 1 else index)


@mutant("OBS-9")
class TellsTheSpan(Relaying):
    """Rows of a list are told as all rows from the lowest to the highest."""

    def set(self, index: Any, data: Any) -> None:
        self.operation = "list" if isinstance(index, list) else "set"
        self.inner.set(index, data)

    def tell(self, index: torch.Tensor) -> None:
        spread = self.operation == "list" and index.dim() == 1
        super().tell(torch.arange(int(index.min()), int(index.max()) + 1) if spread else index)


@mutant("OBS-10", may="OBS-3")
class TellsRowsOnly(Relaying):
    """With `ndim > 1` the rows are told, not the elements."""

    def tell(self, index: torch.Tensor) -> None:
        super().tell(torch.tensor(sorted(set(index[:, 0].tolist()))) if index.dim() == 2 else index)


@mutant("OBS-10")
class TellsTheFirstElement(Relaying):
    """With `ndim > 1` the first element of each row is told."""

    def tell(self, index: torch.Tensor) -> None:
        short = index.dim() == 2 and self.operation in ("set", "assign")
        first = index[:, 1:].min(0).values if short else index
        super().tell(index[(index[:, 1:] == first).all(1)] if short else index)


@mutant("OBS-10", may="OBS-3")
class TellsColumns(Relaying):
    """With `ndim > 2` the coordinates are told as one row for each dimension."""

    def tell(self, index: torch.Tensor) -> None:
        super().tell(index.T if index.dim() == 2 and index.shape[1] > 2 else index)


@mutant("OBS-10")
class TellsCoordinatesAsSmallIntegers(Relaying):
    """With `ndim > 1` the coordinates are int32."""

    def tell(self, index: torch.Tensor) -> None:
        super().tell(index.int() if index.dim() == 2 else index)


@mutant("OBS-11", may="OBS-1 OBS-12")
class TellsOfRefusedWrites(Relaying):
    """Entities are told of a write that was refused."""

    def set(self, index: Any, data: Any) -> None:
        self.operation = "set"
        try:
            self.inner.set(index, data)
        except (IndexError, ValueError):
            self.tell(torch.zeros((0,) if self.ndim == 1 else (0, self.ndim), dtype=torch.int64))
            raise


@mutant("OBS-11")
class TellsOfDamage(Relaying):
    """Entities are told of a load that was refused, of a damaged dump for example."""

    def loads(self, path: Path) -> None:
        try:
            super().loads(path)
        except ValueError:
            self.tell(torch.zeros((1,) if self.ndim == 1 else (1, self.ndim), dtype=torch.int64))
            raise


@mutant("OBS-11")
class TellsOfNothing(Relaying):
    """Entities are told of a write of zero rows."""

    def set(self, index: Any, data: Any) -> None:
        self.told = False
        super().set(index, data)
        if not self.told:
            self.tell(torch.zeros((0,) if self.ndim == 1 else (0, self.ndim), dtype=torch.int64))

    def tell(self, index: torch.Tensor) -> None:
        self.told = True
        super().tell(index)


@mutant("OBS-11", may="OBS-5")
class TellsOfReads(Relaying):
    """Entities are told of a read by a list."""

    reading = False

    def get(self, index: Any) -> Any:
        found = self.inner.get(index)
        if isinstance(index, list) and index and not self.reading:
            self.reading = True
            self.tell(torch.zeros((1,) if self.ndim == 1 else (1, self.ndim), dtype=torch.int64))
            self.reading = False
        return found


@mutant("OBS-11", may="OBS-12")
class TellsOfFailedLoads(Relaying):
    """Entities are told of a load that raised."""

    def loads(self, path: Any) -> None:
        try:
            super().loads(path)
        except Exception:
            self.tell(torch.zeros((0,) if self.ndim == 1 else (0, self.ndim), dtype=torch.int64))
            raise


@mutant("OBS-12")
class StopsAtTheFirstError(Relaying):
    """After an entity that raises the others are not told."""

    def tell_each(self, entities: list[Any], index: Any) -> None:
        for entity in list(entities):
            entity.mark_update(index)


@mutant("OBS-12")
class TakesTheWriteBack(Relaying):
    """A write is undone if an entity raises."""

    failed = False

    def set(self, index: Any, data: Any) -> None:
        before = copy.deepcopy(self.inner).state_dict()
        try:
            super().set(index, data)
        except Exception:
            if self.failed:
                self.operation, self.failed = "silent", False
                self.inner.load_state_dict(before)
            raise

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "silent":
            self.failed = True
            super().tell(index)
            self.failed = False
