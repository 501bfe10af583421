"""Chapter OBS: who is told, how often and in which order."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.relaying import Relaying

__all__: list[str] = []


@mutant("OBS-1", may="OBS-11")
class TellsNobodyOfTheFirstWrite(Relaying):
    """The first write is not told."""

    def set(self, index: Any, data: Any) -> None:
        fresh = self.inner.shape is None
        self.operation = "first" if fresh else "set"
        self.inner.set(index, data)

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "first":
            super().tell(index)


@mutant("OBS-1", may="OBS-4 OBS-6 OBS-7 OBS-12 QRY-10")
class TellsOfEachElement(Relaying):
    """With `ndim > 1` a write is told once for each of its rows."""

    def tell(self, index: torch.Tensor) -> None:
        rows = set(index[:, 0].tolist()) if index.dim() == 2 and self.operation == "set" else set()
        for row in sorted(rows) if len(rows) > 1 else ():
            super().tell(index[index[:, 0] == row])
        if len(rows) < 2:
            super().tell(index)


@mutant("OBS-1", may="OBS-2 OBS-3 OBS-6 OBS-13")
class SkipsHollowEntities(Relaying):
    """An entity that is false in a condition is not told."""

    def tell(self, index: torch.Tensor) -> None:
        self.tell_each([entity for entity in self.entities if entity], index)


@mutant("OBS-1", may="OBS-6 OBS-13")
class WantsADictionary(Relaying):
    """An entity without a `__dict__` is not told of overwritten rows."""

    def tell(self, index: torch.Tensor) -> None:
        slotted = [entity for entity in self.entities if not hasattr(entity, "__dict__")]
        skipped = {id(entity) for entity in slotted} if self.operation == "set" else set()
        self.tell_each([entity for entity in self.entities if id(entity) not in skipped], index)


@mutant("OBS-1", may="OBS-5 OBS-10 OBS-12 QRY-10")
class TellsNobodyOfElements(Relaying):
    """A write by a tuple is not told."""

    def set(self, index: Any, data: Any) -> None:
        self.operation = "tuple" if isinstance(index, tuple) else "set"
        self.inner.set(index, data)

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "tuple":
            super().tell(index)


@mutant("OBS-2")
class TellsNobodyOfAssignments(Relaying):
    """An assignment is not told."""

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "assign":
            super().tell(index)


@mutant("OBS-2")
class TellsNobodyOfTheLastRow(Relaying):
    """An assignment by a negative number is not told."""

    def __setitem__(self, index: Any, data: Any) -> None:
        self.operation = "from the end" if isinstance(index, int) and index < 0 else "assign"
        self.inner[index] = data

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "from the end":
            super().tell(index)


@mutant("OBS-2", may="OBS-4 OBS-6 OBS-7 OBS-12 OBS-13")
class TellsTwiceOfAssignments(Relaying):
    """An assignment by a mask is told twice."""

    def __setitem__(self, index: Any, data: Any) -> None:
        mask = isinstance(index, torch.Tensor) and index.dtype == torch.bool
        self.operation = "mask" if mask else "assign"
        self.inner[index] = data

    def tell(self, index: torch.Tensor) -> None:
        super().tell(index)
        if self.operation == "mask":
            super().tell(index)


@mutant("OBS-3")
class TellsNobodyOfLoads(Relaying):
    """A load is not told."""

    def tell(self, index: torch.Tensor) -> None:
        if not self.operation.startswith("load"):
            super().tell(index)


@mutant("OBS-3", may="OBS-5 OBS-9 OBS-10 OBS-12")
class TellsNobodyOfTheFirstLoad(Relaying):
    """A load into a fresh storage is not told."""

    def loads(self, path: Any) -> None:
        self.operation = "first load" if self.inner.shape is None else "load"
        self.inner.loads(path)

    def tell(self, index: torch.Tensor) -> None:
        if self.operation != "first load":
            super().tell(index)


@mutant("OBS-3", may="OBS-9 OBS-10")
class TellsOfRowsThatWereThere(Relaying):
    """After a load of fewer rows than before the rows that are gone are told as well."""

    def loads(self, path: Any) -> None:
        self.held = self.inner.shape[0] if self.inner.shape is not None else 0
        super().loads(path)

    def tell(self, index: torch.Tensor) -> None:
        if self.operation == "load" and index.dim() == 1 and self.held > len(index):
            index = torch.arange(self.held)
        super().tell(index)


@mutant("OBS-3", may="OBS-10")
class TellsOfOneElementOfEachRow(Relaying):
    """After a load with `ndim > 1` one element of each row is told."""

    def tell(self, index: torch.Tensor) -> None:
        if self.operation.startswith("load") and index.dim() == 2:
            index = index[(index[:, 1:] == 0).all(1)]
        super().tell(index)


@mutant("OBS-4", may="OBS-12")
class TellsTheLastFirst(Relaying):
    """Entities are told in reverse."""

    def tell(self, index: torch.Tensor) -> None:
        self.tell_each(self.entities[::-1], index)


@mutant("OBS-4")
class TellsInAnyOrder(Relaying):
    """Entities are told in the order of their addresses."""

    def tell(self, index: torch.Tensor) -> None:
        self.tell_each(sorted(self.entities, key=lambda entity: id(entity) * 2654435761 % 2**32), index)


@mutant("OBS-6", may="OBS-1 OBS-13")
class TellsOncePerAttachment(Relaying):
    """An entity attached twice is told twice."""

    def attach(self, entity: Any) -> None:
        super().attach(entity)
        if not any(known is entity for known in self.entities[-1:]):
            self.entities.append(entity)


@mutant("OBS-6", may="OBS-1")
class ForgetsAttachmentsAtAWrite(Relaying):
    """An entity attached again after a write is told twice."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.told = 0

    def attach(self, entity: Any) -> None:
        if self.told and any(known is entity for known in self.entities):
            self.entities.append(entity)
        super().attach(entity)

    def tell(self, index: torch.Tensor) -> None:
        self.told += 1
        super().tell(index)


@mutant("OBS-7", may="OBS-1 OBS-13")
class ComparesEntities(Relaying):
    """Of two entities that are equal the second one is not attached."""

    def attach(self, entity: Any) -> None:
        if not any(known == entity for known in self.entities if type(known).__eq__ is type(entity).__eq__):
            super().attach(entity)


@mutant("OBS-7", may="OBS-1 OBS-6 OBS-13")
class HashesEntities(Relaying):
    """Entities are kept in a dict, so that those without a hash are refused and equal ones are one."""

    def attach(self, entity: Any) -> None:
        if not callable(getattr(entity, "mark_update", None)):
            raise TypeError("an entity has a callable mark_update")
        self.entities = list(dict.fromkeys([*self.entities, entity]))


@mutant("OBS-8", may="SET-1")
class AttachesAnything(Relaying):
    """An object without `mark_update` is attached, and found wanting at the first write."""

    def attach(self, entity: Any) -> None:
        self.entities.append(entity)

    def tell(self, index: torch.Tensor) -> None:
        self.tell_each(list({id(entity): entity for entity in self.entities}.values()), index)


@mutant("OBS-8")
class AttachesWhatCannotBeCalled(Relaying):
    """An object whose `mark_update` is no function is attached and never told."""

    def attach(self, entity: Any) -> None:
        if not hasattr(entity, "mark_update") or callable(entity.mark_update):
            super().attach(entity)


@mutant("OBS-8", may="ERR-5")
class RaisesAttributeError(Relaying):
    """An object without `mark_update` raises AttributeError when it is attached."""

    def attach(self, entity: Any) -> None:
        entity.mark_update  # noqa: B018  the accident of a code path
        super().attach(entity)


@mutant("OBS-13")
class NeverForgets(Relaying):
    """A detached entity is told as before."""

    def detach(self, entity: Any) -> None:
        return


@mutant("OBS-13", may="OBS-1 OBS-2 OBS-7")
class DetachesAnEqual(Relaying):
    """The first entity that is equal to the given one is detached."""

    def detach(self, entity: Any) -> None:
        equal = [n for n, known in enumerate(self.entities) if known == entity]
        del self.entities[equal[0]]


@mutant("OBS-13")
class CountsAttachments(Relaying):
    """An entity attached twice has to be detached twice."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.times: dict[int, int] = {}

    def attach(self, entity: Any) -> None:
        super().attach(entity)
        self.times[id(entity)] = self.times.get(id(entity), 0) + 1

    def detach(self, entity: Any) -> None:
        self.times[id(entity)] = self.times.get(id(entity), 0) - 1
        if self.times[id(entity)] < 1:
            super().detach(entity)
