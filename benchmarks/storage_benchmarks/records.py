"""What is written: records of four shapes, as TensorDicts of any number of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor


@dataclass(frozen=True)
class Record:
    """A kind of row.

    Attributes:
        name: for tables.
        make: ``make(rows)`` gives a batch of that many.
        capacity: of the storages that hold it, in rows: well beyond the caches of a processor.
    """

    name: str
    make: Callable[[int], TensorDict]
    capacity: int

    @property
    def size(self) -> int:
        """Of one row, in bytes."""
        return sum(leaf.nbytes for leaf in leaves(self.make(1)))


def leaves(batch: TensorDict) -> list[Tensor]:
    """The tensors of a batch, in the order of its keys."""
    return [leaf for _, leaf in batch.items(include_nested=True, leaves_only=True)]


def _small(rows: int) -> TensorDict:
    following = TensorDict(
        {
            "obs": torch.rand(rows, 4),
            "reward": torch.rand(rows, 1),
            "done": torch.zeros(rows, 1, dtype=torch.bool),
        },
        [rows],
    )
    return TensorDict({"obs": torch.rand(rows, 4), "action": torch.rand(rows, 2), "next": following}, [rows])


def _floats(rows: int) -> TensorDict:
    return TensorDict({"obs": torch.rand(rows, 64)}, [rows])


def _mebibyte(rows: int) -> TensorDict:
    return TensorDict({"obs": torch.rand(rows, 1024), "hidden": torch.rand(rows, 512)}, [rows])


def _leaves(rows: int) -> TensorDict:
    return TensorDict({f"leaf{number}": torch.rand(rows, 4) for number in range(20)}, [rows])


def _frames(rows: int) -> TensorDict:
    first, second = (torch.randint(0, 255, (rows, 4, 84, 84), dtype=torch.uint8) for _ in range(2))
    return TensorDict({"obs": first, "next": TensorDict({"obs": second}, [rows])}, [rows])


SMALL = Record("small", _small, 20_000)  # five leaves, 45 bytes
FLOATS = Record("64 floats", _floats, 40_000)  # one leaf, 256 bytes
MEBIBYTE = Record("1.5 MiB", _mebibyte, 5_000)  # two leaves, 6,144 bytes: 256 rows are 1.5 MiB
LEAVES = Record("20 leaves", _leaves, 40_000)  # of 4 floats, 320 bytes
FRAMES = Record("frames", _frames, 1_000)  # uint8 4x84x84 twice, 56,448 bytes

RECORDS = (SMALL, FLOATS, LEAVES, MEBIBYTE, FRAMES)
