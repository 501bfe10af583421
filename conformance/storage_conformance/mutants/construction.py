"""Chapter NEW: faults of construction."""

from __future__ import annotations

import operator
import weakref
from typing import Any, ClassVar

from storage_conformance.mutants.delegate import Delegate
from storage_conformance.mutants.mutant import mutant

__all__: list[str] = []


@mutant("NEW-1")
class NamesItsSizeOtherwise(Delegate):
    """The first argument of the constructor has another name than `max_size`."""

    def __init__(self, size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(size, device=device, ndim=ndim)


@mutant("NEW-1")
class HasNoNdimUnlessGiven(Delegate):
    """`ndim` is None where the constructor was not given one."""

    def __init__(self, max_size: int, *, device: Any = "cpu", **options: Any) -> None:
        super().__init__(max_size, device=device, **options)
        self._given = "ndim" in options

    @property
    def ndim(self) -> int:
        return self.inner.ndim if self._given else None  # type: ignore[return-value]


@mutant("NEW-2")
class KnowsTwoDimensionsAtMost(Delegate):
    """`ndim` says 2 where 3 or more were given."""

    @property
    def ndim(self) -> int:
        return min(self.inner.ndim, 2)


@mutant("NEW-2", may="COPY-1 COPY-3")
class TakesNdimFromTheData(Delegate):
    """From the first write on `ndim` counts all batch dimensions of a TensorDict."""

    @property
    def ndim(self) -> int:
        if not len(self.inner):
            return self.inner.ndim
        return max(self.inner.ndim, 1 + len(getattr(self.inner.get(0), "batch_size", ())))


@mutant("NEW-3")
class TruncatesItsSize(Delegate):
    """A float is truncated to a size."""

    def __init__(self, max_size: Any, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(int(max_size) if isinstance(max_size, float) else max_size, device=device, ndim=ndim)


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


@mutant("NEW-3")
class TakesWholeFloats(Delegate):
    """A float without a fraction, 1e6 say, is taken for the integer."""

    def __init__(self, max_size: Any, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(int(max_size) if _is_whole(max_size) else max_size, device=device, ndim=ndim)


@mutant("NEW-3")
class TakesTrueForOne(Delegate):
    """`True` is taken for a size of 1."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(1 if max_size is True else max_size, device=device, ndim=ndim)


@mutant("NEW-3")
class ReadsItsSizeFromText(Delegate):
    """A string of digits is taken for a size."""

    def __init__(self, max_size: Any, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(int(max_size) if isinstance(max_size, str) else max_size, device=device, ndim=ndim)


@mutant("NEW-4")
class TakesSizesBelowOne(Delegate):
    """A negative size is noticed only when something is written."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        negative = type(max_size) is int and max_size < 0
        super().__init__(1 if negative else max_size, device=device, ndim=ndim)


@mutant("NEW-4")
class TakesZero(Delegate):
    """A size of zero is taken."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(1 if type(max_size) is int and max_size == 0 else max_size, device=device, ndim=ndim)


@mutant("NEW-5")
class TakesAnyIntegerForNdim(Delegate):
    """An `ndim` below 1 is taken."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=1 if type(ndim) is int and ndim < 1 else ndim)


@mutant("NEW-5")
class RoundsNdim(Delegate):
    """A float is truncated to an `ndim`."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=int(ndim) if isinstance(ndim, float) else ndim)


@mutant("NEW-5")
class TakesNoNdimForOne(Delegate):
    """An `ndim` of None is taken for 1."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: Any = 1) -> None:
        super().__init__(max_size, device=device, ndim=1 if ndim is None else ndim)


@mutant("NEW-6")
class WantsAnInt(Delegate):
    """A size that is an integer of NumPy is refused."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        if not isinstance(max_size, int):
            raise TypeError(f"max_size has to be an int, got {max_size!r}")
        super().__init__(max_size, device=device, ndim=ndim)


@mutant("NEW-6")
class ComparesNdimWithInt(Delegate):
    """An `ndim` that is an integer of another type is kept, and read back, as it is."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._given = ndim

    @property
    def ndim(self) -> int:
        return self._given


@mutant("NEW-6")
class CountsInEightBits(Delegate):
    """The capacity is computed in the integer type of the size, where it overflows."""

    def __init__(self, max_size: Any, *, device: Any = "cpu", ndim: int = 1) -> None:
        self._modulo = 2 ** (8 * max_size.itemsize - 1) if hasattr(max_size, "itemsize") else 0
        super().__init__(max_size, device=device, ndim=ndim)

    @property
    def max_size(self) -> int:
        found = operator.index(self.inner.max_size)
        return found % self._modulo if self._modulo else found


@mutant("NEW-7")
class TellsTheEntitiesOfOthers(Delegate):
    """An entity is attached to the storage made before as well, as if the list belonged to the class."""

    _newest: ClassVar[weakref.ref[TellsTheEntitiesOfOthers] | None] = None

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._before = TellsTheEntitiesOfOthers._newest
        TellsTheEntitiesOfOthers._newest = weakref.ref(self)

    def attach(self, entity: Any) -> None:
        super().attach(entity)
        other = self._before() if self._before else None
        if other is not None:
            other.inner.attach(entity)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_before": None}


@mutant("NEW-7")
class SharesRowsWithItsTwin(Delegate):
    """Two storages made one after the other with the same arguments, before one is written, are one."""

    _newest: ClassVar[weakref.ref[SharesRowsWithItsTwin] | None] = None

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._arguments = str((max_size, device, ndim))
        newest = SharesRowsWithItsTwin._newest
        twin = newest() if newest else None
        if twin is not None and twin._arguments == self._arguments and twin.inner.shape is None:
            self.inner = twin.inner
        SharesRowsWithItsTwin._newest = weakref.ref(self)
