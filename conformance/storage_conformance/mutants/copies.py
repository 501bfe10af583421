"""Chapter COPY: faults of deep copies and pickles."""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakValueDictionary

from tensordict import is_tensorclass

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import leaf_tensors, rows_of
from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant


class _Copied(Delegate):
    """A deep copy that is made by hand."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.arguments = max_size, device, ndim

    def copied(self, inner: LazyTensorStorage) -> Any:
        """Another storage of this kind around `inner`."""
        twin = type(self)(self.arguments[0], device=self.arguments[1], ndim=self.arguments[2])
        twin.inner = inner
        return twin


@mutant("COPY-1", may="COPY-2 COPY-4")
class CopiesAreAsLargeAsTheirRows(_Copied):
    """A deep copy has room for the rows that are there, and no more."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not rows_of(self.inner):
            return self.copied(copy.deepcopy(self.inner, memo))
        small = LazyTensorStorage(len(self), device=self.arguments[1], ndim=self.arguments[2])
        small.load_state_dict(self.inner.state_dict())
        return self.copied(small)


@mutant("COPY-1", may="COPY-2 DEV-5")
class CopiesForgetTheDevice(_Copied):
    """A deep copy of a fresh storage is on the CPU, also if that was to be found out."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self.inner.shape is None:
            return self.copied(LazyTensorStorage(self.arguments[0], ndim=self.arguments[2]))
        return self.copied(copy.deepcopy(self.inner, memo))


@mutant("COPY-1", may="COPY-2 COPY-4 CKPT-12")
class CopiesHaveOneDimension(_Copied):
    """A deep copy of a fresh storage has `ndim` 1."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self.inner.shape is None:
            return self.copied(LazyTensorStorage(self.arguments[0], device=self.arguments[1]))
        return self.copied(copy.deepcopy(self.inner, memo))


@mutant("COPY-1", may="COPY-2 COPY-4")
class CopiesRaiseValueErrors(_Copied):
    """A deep copy of a storage of tensorclasses raises, and no `TypeError`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if rows_of(self.inner) and is_tensorclass(self.inner.get(0)):
            raise ValueError("cannot copy a tensorclass")
        return self.copied(copy.deepcopy(self.inner, memo))


@mutant("COPY-1", may="COPY-2")
class CopiesLoseTheLastLeaf(_Copied):
    """A deep copy of a full storage has zeros in the last row of the last leaf."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        inner = copy.deepcopy(self.inner, memo)
        if len(inner) == inner.max_size:
            for leaf in leaf_tensors(inner)[-1:]:
                leaf[-1].zero_()
        return self.copied(inner)


@mutant("COPY-2", may="COPY-4")
class CopiesShareEverything(_Copied):
    """A deep copy is another handle to the same rows."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.copied(self.inner)


@mutant("COPY-2", may="COPY-4")
class CopiesOfRecordsShareMemory(_Copied):
    """A deep copy of a storage of tensorclasses shares its memory."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        shared = rows_of(self.inner) and is_tensorclass(self.inner.get(0))
        return self.copied(self.inner if shared else copy.deepcopy(self.inner, memo))


@mutant("COPY-2")
class CopiesAreMadeWhenTheyAreWritten(_Copied):
    """A deep copy copies when it is written first, and not when the original is."""

    lazy = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = self.copied(self.inner)
        twin.lazy = True
        return twin

    def _settle(self) -> None:
        if self.lazy:
            self.inner, self.lazy = copy.deepcopy(self.inner), False

    def set(self, index: Any, data: Any) -> None:
        self._settle()
        self.inner.set(index, data)

    def __setitem__(self, index: Any, data: Any) -> None:
        self._settle()
        self.inner[index] = data

    def loads(self, path: Any) -> None:
        self._settle()
        self.inner.loads(path)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._settle()
        self.inner.load_state_dict(state)

    def clear(self) -> None:
        self._settle()
        self.inner.clear()

    def attach(self, entity: Any) -> None:
        self._settle()
        self.inner.attach(entity)

    def detach(self, entity: Any) -> None:
        self._settle()
        self.inner.detach(entity)


@mutant("COPY-3")
class PicklesForgetTheSeam(Delegate):
    """An unpickled storage has no last-written row."""

    unpickled = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.unpickled = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(1)
        twin.inner = copy.deepcopy(self.inner, memo)
        return twin

    def set(self, index: Any, data: Any) -> None:
        self.inner.set(index, data)
        self.unpickled = False

    def loads(self, path: Any) -> None:
        self.inner.loads(path)
        self.unpickled = False

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state)
        self.unpickled = False

    @property
    def last_row(self) -> int | None:
        return None if self.unpickled else self.inner.last_row


@mutant("COPY-3", may="DEV-5")
class FreshPicklesForgetTheirArguments(Delegate):
    """A fresh storage comes back from a pickle with `ndim` 1 and a size of 1."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), None if self.inner.shape is None else self.inner)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(1)
        twin.inner = copy.deepcopy(self.inner, memo)
        return twin


def _unpickled(kind: Any, inner: Any) -> Any:
    storage = kind(1)
    storage.inner = inner if inner is not None else storage.inner
    return storage


@mutant("COPY-3")
class PicklesOfTreesFail(Delegate):
    """A storage of pytrees cannot be pickled."""

    def __getstate__(self) -> dict[str, Any]:
        if rows_of(self.inner) and isinstance(self.inner.get(0), dict | tuple):
            raise TypeError("cannot pickle a tree")
        return self.__dict__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(1)
        twin.inner = copy.deepcopy(self.inner, memo)
        return twin


@mutant("COPY-4", may="COPY-2 OBS-1 OBS-2 OBS-3 OBS-11 OBS-13 OBS-4")
class CopiesTellTheSameEntities(Delegate):
    """A deep copy takes the list of entities along."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.attached: list[Any] = []

    def attach(self, entity: Any) -> None:
        self.inner.attach(entity)
        self.attached.append(entity)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(1)
        twin.inner = copy.deepcopy(self.inner, memo)
        for entity in self.attached:
            twin.attach(entity)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner, "attached": []}


_ENTITIES: WeakValueDictionary[int, Any] = WeakValueDictionary()


@mutant("COPY-4", may="OBS-1 OBS-2 OBS-3 OBS-11 OBS-13 OBS-4")
class PicklesFindTheirEntitiesAgain(Delegate):
    """A pickle names the entities, and finds them again in the process that had them."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.names: list[int] = []

    def attach(self, entity: Any) -> None:
        self.inner.attach(entity)
        self.names.append(id(entity))
        _ENTITIES[id(entity)] = entity

    def detach(self, entity: Any) -> None:
        self.inner.detach(entity)
        self.names = [name for name in self.names if name != id(entity)]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in self.names:
            if name in _ENTITIES:
                self.inner.attach(_ENTITIES[name])

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(1)
        twin.inner = copy.deepcopy(self.inner, memo)
        return twin
