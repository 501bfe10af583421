"""The entities that are told of each change, and what they are told."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .indexing import Selection, element_numbers


class Entity(Protocol):
    """Something that wants to know which rows change: a replay buffer, a priority sampler."""

    def mark_update(self, index: Tensor) -> object:
        """Called after each change with the rows, or the elements, that changed."""


class Entities:
    """Entities in the order in which they were attached, each of them once, by identity.

    Attributes:
        attached: the entities.

    Implements: OBS-4, OBS-6, OBS-7.
    """

    def __init__(self) -> None:
        self.attached: list[Entity] = []

    def attach(self, entity: Entity) -> None:
        """Add ``entity`` unless it is there. Raises: ``TypeError``. Implements: OBS-8."""
        if not callable(getattr(entity, "mark_update", None)):
            raise TypeError(
                f"a {type(entity).__name__} has no callable mark_update(index); it was not attached."
            )
        if not any(entity is attached for attached in self.attached):
            self.attached.append(entity)

    def detach(self, entity: Entity) -> None:
        """Drop ``entity`` if it is there. Implements: OBS-13."""
        self.attached = [attached for attached in self.attached if attached is not entity]

    def tell(self, changed: Tensor) -> None:
        """Call ``mark_update`` of each, with a tensor of its own.

        Raises:
            Exception: the first one that an entity raised, after all of them were told.

        Implements: OBS-1, OBS-4, OBS-12.
        """
        errors: list[Exception] = []
        for entity in tuple(self.attached):  # one may attach or detach others while it is told
            try:
                entity.mark_update(changed.clone())
            except Exception as error:
                errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"Another attached entity raised as well: {other!r}")
            raise errors[0]


def changed_by(selection: Selection, trailing: torch.Size) -> Tensor:
    """The rows that a write to ``selection`` changes, ``[n]``; with a trailing shape the elements, ``[n, ndim]``.

    Implements: OBS-9, OBS-10.
    """
    numbers = element_numbers(selection, trailing)
    if selection.window is None:
        numbers = np.unique(numbers)  # an index may name a row several times
    if not trailing:
        return torch.from_numpy(np.array(numbers, np.int64))
    coordinates = np.unravel_index(numbers, (selection.top, *trailing))
    return torch.from_numpy(np.stack(coordinates, -1).astype(np.int64))
