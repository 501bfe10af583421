"""Indices as small facts, resolved by NumPy.

NumPy's indexing of an array of element numbers is the oracle for what an index addresses: it knows nothing of torch
and of any storage, and agrees with torch wherever SPEC.md demands something.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy
import torch

__all__ = ["Index", "Span", "at"]

_BASIC = frozenset({"int", "numpy", "scalar", "slice", "ellipsis", "raw"})


@dataclass(frozen=True)
class Span:
    """What an index addresses: element numbers in row-major order, and the leading shape of the data."""

    cells: tuple[int, ...]
    lead: tuple[int, ...]
    trailing: tuple[int, ...]

    @property
    def rows(self) -> list[int]:
        """The row of each element, in order, repetitions included."""
        width = prod(self.trailing)
        return [cell // width for cell in self.cells]

    @property
    def whole_rows(self) -> bool:
        """Whether the leading shape ends with the trailing shape: the index named rows, not elements."""
        return (
            len(self.lead) >= len(self.trailing)
            and self.lead[len(self.lead) - len(self.trailing) :] == self.trailing
        )

    def coordinates(self) -> set[tuple[int, ...]]:
        """The coordinates of each element, in `ndim` dimensions."""
        grid = numpy.unravel_index(
            numpy.array(self.cells, dtype=numpy.int64), (1 + max(self.rows, default=0), *self.trailing)
        )
        return set(zip(*(axis.tolist() for axis in grid), strict=True))


@dataclass(frozen=True)
class Index:
    """An index of one of the kinds of chapter IDX.

    `form` says which, and `args` hold plain numbers: the row of "int", "numpy" and "scalar"; the bounds of "slice" and
    "range"; the rows of "list", "tensor", "int32", "uint8" and "array"; the truth values of "mask" and "mask_array";
    shape and flat values of "grid" and "cells"; the entries of "tuple"; nothing for "ellipsis"; any object and its
    source text for "raw".
    """

    form: str
    args: tuple[Any, ...] = ()

    @property
    def advanced(self) -> bool:
        """Whether results of a read with this index may not alias the storage."""
        return self.form not in _BASIC and (
            self.form != "tuple" or any(entry.advanced for entry in self.args)
        )

    def value(self) -> Any:
        """The object that is handed to a storage."""
        form, args = self.form, self.args
        if form == "int":
            return args[0]
        if form == "numpy":
            return numpy.int64(args[0])
        if form == "scalar":
            return torch.tensor(args[0])
        if form == "slice":
            return slice(*args)
        if form == "range":
            return range(*args)
        if form == "list":
            return list(args)
        if form in _TENSORS:
            return torch.tensor(args, dtype=_TENSORS[form])
        if form == "array":
            return numpy.array(args, dtype=numpy.int64)
        if form == "mask_array":
            return numpy.array(args, dtype=bool)
        if form == "grid":
            return torch.tensor(args[1], dtype=torch.int64).reshape(args[0])
        if form == "cells":
            return torch.tensor(args[1], dtype=torch.bool).reshape(args[0])
        if form == "raw":
            return args[0]
        return ... if form == "ellipsis" else tuple(entry.value() for entry in args)

    def code(self) -> str:
        """A Python expression for `value()`."""
        form, args = self.form, self.args
        if form in ("int", "list", "slice", "range"):
            return repr(self.value()).replace("slice(None, None, None)", "slice(None)")
        if form == "ellipsis":
            return "..."
        if form == "raw":
            return str(args[1])
        if form == "numpy":
            return f"numpy.int64({args[0]})"
        if form == "scalar":
            return f"torch.tensor({args[0]})"
        if form in _TENSORS:
            return f"torch.tensor({list(args)}, dtype={_TENSORS[form]})"
        if form in ("array", "mask_array"):
            return f"numpy.array({list(args)}, dtype={'int' if form == 'array' else 'bool'})"
        if form in ("grid", "cells"):
            dtype = torch.int64 if form == "grid" else torch.bool
            return f"torch.tensor({list(args[1])}, dtype={dtype}).reshape({list(args[0])})"
        return f"({', '.join(entry.code() for entry in args)},)"

    __repr__ = code

    def resolve(self, rows: int, trailing: tuple[int, ...]) -> Span:
        """What the index addresses among `rows` rows of trailing shape `trailing`.

        Raises:
            IndexError: a row is out of range.
        """
        width = prod(trailing)
        numbers = numpy.arange(rows * width).reshape(rows, *trailing)
        found = numbers[self._numpy()]
        return Span(tuple(found.reshape(-1).tolist()), tuple(found.shape), trailing)

    def plain(self, span: Span) -> tuple[Index, tuple[int, ...]]:
        """Another form that addresses the same elements in the same order, and the leading shape of data for it."""
        width = prod(span.trailing)
        if self.form not in ("tuple", "cells"):
            rows = tuple(span.rows[::width])
            return Index("list" if self.form in ("tensor", "scalar") else "tensor", rows), (
                len(rows),
                *span.trailing,
            )
        cells = numpy.array(span.cells, dtype=numpy.int64)
        axes = numpy.unravel_index(cells, (1 + max(span.rows, default=0), *span.trailing))
        return Index("tuple", tuple(Index("tensor", tuple(axis.tolist())) for axis in axes)), (
            len(span.cells),
        )

    def _numpy(self) -> Any:
        form, args = self.form, self.args
        if form in ("int", "numpy", "scalar"):
            return args[0]
        if form == "slice":
            return slice(*args)
        if form == "range":
            return numpy.array(list(range(*args)), dtype=numpy.int64)
        if form in ("mask", "mask_array"):
            return numpy.array(args, dtype=bool)
        if form == "grid":
            return numpy.array(args[1], dtype=numpy.int64).reshape(args[0])
        if form == "cells":
            return numpy.array(args[1], dtype=bool).reshape(args[0])
        if form == "ellipsis":
            return slice(None)
        if form == "tuple":
            return tuple(entry._numpy() for entry in args)
        if form == "raw":
            raise TypeError(f"{args[1]} addresses nothing")
        return numpy.array(args, dtype=numpy.int64)


_TENSORS = {"tensor": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "mask": torch.bool}


def at(row: int) -> Index:
    """The plain integer index of one row."""
    return Index("int", (row,))
