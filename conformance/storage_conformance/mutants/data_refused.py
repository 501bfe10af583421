"""Chapter DATA: what is no data is taken, or refused in a way that nobody expects."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.rewriting import Rewriting, is_plain, leafwise

__all__: list[str] = []


@mutant("DATA-18", may="ERR-1 ERR-2")
class FillsRowsWithANumber(Rewriting):
    """A number is written to every leaf of the rows."""

    def given(self, index: Any, data: Any) -> Any:
        if self.example is None or not isinstance(data, int | float) or isinstance(data, bool):
            return data
        return leafwise(self.inner.get(index), lambda leaf: torch.full_like(leaf, data))


@mutant("DATA-18")
class IgnoresNone(Rewriting):
    """None is taken for nothing to write."""

    def set(self, index: Any, data: Any) -> None:
        if data is not None:
            self.inner.set(index, data)


@mutant("DATA-18", may="ERR-5")
class AsksAnythingForItsShape(Rewriting):
    """Data of a strange type raise AttributeError."""

    def given(self, index: Any, data: Any) -> Any:
        if not isinstance(data, list | tuple | dict):
            data.shape  # noqa: B018  the accident of a code path
        return data


@mutant("DATA-18")
class TakesNumbersForFirstItems(Rewriting):
    """A number is taken for a tensor without dimensions by the first write of an item."""

    def set(self, index: Any, data: Any) -> None:
        number = isinstance(data, int | float | complex) and isinstance(index, int) and self.ndim == 1
        self.inner.set(index, torch.as_tensor(data) if number and self.inner.shape is None else data)


@mutant("DATA-19", may="ERR-1 ERR-2")
class FillsSparseTensorsUp(Rewriting):
    """Sparse tensors are made dense."""

    def given(self, index: Any, data: Any) -> Any:
        return leafwise(
            data,
            lambda leaf: leaf.to_dense() if leaf.layout is not torch.strided and not leaf.is_nested else leaf,
        )


@mutant("DATA-19", may="ERR-1 ERR-2")
class PadsNestedTensors(Rewriting):
    """Nested tensors are filled up with zeros."""

    def given(self, index: Any, data: Any) -> Any:
        if not is_plain(data) or not data.is_nested:
            return data
        return (
            data.to_padded_tensor(0.0) if data.layout is torch.strided else torch.stack(list(data.unbind()))
        )
