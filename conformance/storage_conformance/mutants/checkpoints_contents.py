"""Chapter CKPT: faults about the containers and the texts that a load brings back."""

from __future__ import annotations

from typing import Any

from tensordict import NonTensorData, NonTensorStack, TensorDict, is_tensorclass

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import Altering, Path, rows_of
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


def _text_keys(item: Any) -> list[str]:
    if not isinstance(item, TensorDict) and not is_tensorclass(item):
        return []
    return [
        str(key)
        for key in list(item.keys())
        if isinstance(item.get(key), str | NonTensorData | NonTensorStack)
    ]


def _plain(value: Any, *, nested: bool) -> Any:
    """A container with tensorclasses turned into TensorDicts."""
    if is_tensorclass(value) and not isinstance(value, NonTensorData | NonTensorStack):
        if not nested:
            return value.to_tensordict()
        fields = {name: _plain(getattr(value, name), nested=False) for name in value.fields_names()}
        return type(value)(**fields, batch_size=value.batch_size, device=value.device)
    if isinstance(value, TensorDict) and not is_tensorclass(value):
        return TensorDict(
            {key: _plain(value.get(key), nested=False) for key in list(value.keys())},
            value.batch_size,
            device=value.device,
        )
    return value


class _OtherContainers(Delegate):
    """Reads other containers after a load into a fresh storage."""

    loaded = False

    def loads(self, path: Path) -> None:
        fresh = self.inner.shape is None
        self.inner.loads(path)
        self.loaded = self.loaded or fresh


@mutant("CKPT-7", may="CKPT-5")
class LoadedRecordsAreTensorDicts(_OtherContainers):
    """A fresh storage that loads rows of a tensorclass returns TensorDicts."""

    def get(self, index: Any) -> Any:
        value = self.inner.get(index)
        return value.to_tensordict() if self.loaded and is_tensorclass(value) else value


@mutant("CKPT-7", may="CKPT-5")
class LoadedInnerRecordsAreTensorDicts(_OtherContainers):
    """A fresh storage that loads a tensorclass inside a TensorDict returns TensorDicts in its place."""

    def get(self, index: Any) -> Any:
        value = self.inner.get(index)
        return _plain(value, nested=True) if self.loaded and not is_tensorclass(value) else value


@mutant("CKPT-7", may="CKPT-5")
class LoadedPointsAreTuples(_OtherContainers):
    """A fresh storage that loads named tuples returns plain ones."""

    def get(self, index: Any) -> Any:
        value = self.inner.get(index)
        return tuple(value) if self.loaded and isinstance(value, tuple) else value


class _Texts(Altering):
    def keep(self, aside: LazyTensorStorage, row: int) -> Any:
        """The item whose texts the row gets."""
        raise NotImplementedError

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        for row in range(rows_of(aside)):
            item, other = aside.get(row), self.keep(aside, row)
            for key in _text_keys(item):
                if key in _text_keys(other):
                    item.set(key, other.get(key))
            if _text_keys(item):
                aside[row] = item
        return aside


@mutant("CKPT-8")
class OneTextForAll(_Texts):
    """Each row gets the text of row 0."""

    def keep(self, aside: LazyTensorStorage, row: int) -> Any:
        return aside.get(0)


@mutant("CKPT-8")
class OneTextForAllLeaves(Altering):
    """The second text of a row becomes its first."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        for row in range(rows_of(aside)):
            item = aside.get(row)
            keys = _text_keys(item)
            for key in keys[1:]:
                item.set(key, item.get(keys[0]))
            if keys:
                aside[row] = item
        return aside


@mutant("CKPT-8")
class AThousandTexts(_Texts):
    """Rows after the thousandth get the text of row 0."""

    def keep(self, aside: LazyTensorStorage, row: int) -> Any:
        return aside.get(row if row < 1_000 else 0)


@mutant("CKPT-8")
class OldTextsStay(_Texts):
    """Rows that were there keep their texts."""

    def keep(self, aside: LazyTensorStorage, row: int) -> Any:
        return self.inner.get(row) if row < rows_of(self.inner) else aside.get(row)
