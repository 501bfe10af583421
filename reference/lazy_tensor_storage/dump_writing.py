"""Writing the rows of a storage to a file, piece by piece."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

from torch import Tensor

from . import dump_values
from .dump_file import PIECE, Done, Outline, bytes_of, in_file_order, leaf_name
from .snapshot import Snapshot


class Writing:
    """A dump that is about to be written.

    Attributes:
        size: the bytes of its tensors.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Raises: ``TypeError``, a value or a key has no exact JSON form."""
        self._snapshot = snapshot
        lines = dump_values.lines_of(snapshot.values) if snapshot.schema.values else iter(())
        self._outline = Outline(
            snapshot.schema, snapshot.ndim, snapshot.readable, snapshot.last_row, sum(map(len, lines))
        )
        self._room = len(self._outline.header(dict.fromkeys(self._outline.sizes(), 0)))
        self.size = sum(self._outline.sizes().values())

    def to(self, descriptor: int, done: Done) -> None:
        """Write it to an empty file; the header last, since it has the sums. Raises: ``OSError``."""
        os.lseek(descriptor, self._room, os.SEEK_SET)
        sums = dict.fromkeys(self._outline.sizes(), 0)
        for node in in_file_order(self._outline.schema):
            for piece in _pieces(self._snapshot.leaves[node.position]):
                self._put(descriptor, leaf_name(node), bytes_of(piece.cpu()), sums, done)
        if self._outline.schema.values:
            for line in dump_values.lines_of(self._snapshot.values):
                self._put(descriptor, "values", memoryview(line), sums, done)
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write_all(descriptor, memoryview(self._outline.header(sums)))

    @staticmethod
    def _put(descriptor: int, name: str, content: memoryview, sums: dict[str, int], done: Done) -> None:
        sums[name] = zlib.crc32(content, sums[name])
        _write_all(descriptor, content)
        done(len(content))


def _pieces(leaf: Tensor) -> Iterator[Tensor]:
    flat = leaf.reshape(-1)
    step = PIECE // leaf.element_size()
    return (flat[start : start + step] for start in range(0, flat.numel(), step))


def _write_all(descriptor: int, rest: memoryview) -> None:
    while rest:
        rest = rest[os.write(descriptor, rest) :]
