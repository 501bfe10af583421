"""Storages that tell attached entities themselves: where the faults of chapter OBS are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from storage_conformance.mutants.delegate import Delegate

__all__ = ["Relaying"]


class _Relay:
    """The only entity of the inner storage; hands on what it is told."""

    def __init__(self, tell: Callable[[torch.Tensor], None]) -> None:
        self._tell = tell

    def mark_update(self, index: torch.Tensor) -> None:
        self._tell(index)


class Relaying(Delegate):
    """Not a mutant itself: keeps the entities, and tells them by `tell` what the inner storage says.

    Attributes:
        entities: in the order of attachment.
        operation: "set", "assign" or "load" while one is under way.
    """

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.entities: list[Any] = []
        self.operation = ""
        self.inner.attach(_Relay(self.tell))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "entities": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.inner.attach(_Relay(self.tell))

    def attach(self, entity: Any) -> None:
        if not callable(getattr(entity, "mark_update", None)):
            raise TypeError("an entity has a callable mark_update")
        if not any(known is entity for known in self.entities):
            self.entities.append(entity)

    def detach(self, entity: Any) -> None:
        self.entities = [known for known in self.entities if known is not entity]

    def tell(self, index: torch.Tensor) -> None:
        self.tell_each(self.entities, index)

    def tell_each(self, entities: list[Any], index: Any) -> None:
        errors = []
        for entity in list(entities):
            try:
                entity.mark_update(index)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def set(self, index: Any, data: Any) -> None:
        self.operation = "set"
        self.inner.set(index, data)

    def __setitem__(self, index: Any, data: Any) -> None:
        self.operation = "assign"
        self.inner[index] = data

    def loads(self, path: Any) -> None:
        self.operation = "load"
        self.inner.loads(path)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.operation = "load_state_dict"
        self.inner.load_state_dict(state)
