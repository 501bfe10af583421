"""Chapter DTYPE: values that change on the way into another dtype, and dtypes that work now and then."""

from __future__ import annotations

from typing import Any

import torch

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.rewriting import (
    Rewriting,
    fields_of,
    is_lazy,
    is_plain,
    leafwise,
    nested,
    rebuilt,
)
from storage_conformance.structure import tensors

__all__: list[str] = []


class _Casting(Rewriting):
    """Not a mutant itself: casts each tensor to the dtype that the storage holds there, as torch does."""

    def cast(self, data: Any) -> Any:
        return data if self.example is None else self._like(data, self.example)

    def _like(self, data: Any, held: Any) -> Any:
        if is_plain(data) and is_plain(held):
            return (
                self.leaf(data, held.dtype) if data.layout is torch.strided and not data.is_nested else data
            )
        if (
            nested(data)
            and nested(held)
            and not is_lazy(data)
            and fields_of(data).keys() == fields_of(held).keys()
        ):
            other = fields_of(held)
            return rebuilt(
                data, {name: self._like(entry, other[name]) for name, entry in fields_of(data).items()}
            )
        if isinstance(data, list):
            return [self._like(item, held) for item in data]
        return data

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return leaf.to(dtype)


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class CastsEverything(_Casting):
    """Data are cast to the dtype of the first write, whatever becomes of them."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)


@mutant("DTYPE-6", may="ERR-2")
class CastsAssignments(_Casting):
    """An assignment casts to the dtype of the first write."""

    def __setitem__(self, index: Any, data: Any) -> None:
        self.inner[index] = self.cast(data)


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class CastsFieldsOfTensorDicts(_Casting):
    """The fields of TensorDicts are cast to the dtypes of the first write."""

    def given(self, index: Any, data: Any) -> Any:
        return data if is_plain(data) else self.cast(data)


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class DropsFractions(_Casting):
    """A floating-point number is cut off where the storage holds integers."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        whole = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
        return leaf.to(dtype) if whole and leaf.dtype.is_floating_point else leaf


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class WrapsIntegersAround(_Casting):
    """An integer that does not fit wraps around."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        kinds = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
        return leaf.to(dtype) if {leaf.dtype, dtype} <= kinds else leaf


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class LosesImaginaryPartsOfOthers(_Casting):
    """A complex number loses its imaginary part where the storage holds real ones."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return leaf.real.to(dtype) if leaf.dtype.is_complex and dtype.is_floating_point else leaf


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class RoundsLargeIntegersToComplex(_Casting):
    """An integer is rounded where the storage holds complex numbers."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        whole = not (leaf.dtype.is_floating_point or leaf.dtype.is_complex or leaf.dtype == torch.bool)
        return leaf.to(dtype) if whole and dtype.is_complex else leaf


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class OverflowsToInfinity(_Casting):
    """A float64 beyond the range of float32 becomes infinite."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return leaf.to(dtype) if leaf.dtype == torch.float64 and dtype == torch.float32 else leaf


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class GoesThroughFloat32(_Casting):
    """What becomes complex is a float32 on the way."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return leaf.float().to(dtype) if leaf.dtype == torch.int64 and dtype.is_complex else leaf


@mutant("DTYPE-6", may="ERR-1 ERR-2")
class RoundsLargeIntegers(_Casting):
    """An integer is rounded where the storage holds floating-point numbers."""

    def given(self, index: Any, data: Any) -> Any:
        return self.cast(data)

    def leaf(self, leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        whole = not (leaf.dtype.is_floating_point or leaf.dtype.is_complex or leaf.dtype == torch.bool)
        return leaf.to(dtype) if whole and dtype.is_floating_point else leaf


class _Complaining(Rewriting):
    """Not a mutant itself: raises something else than TypeError for a dtype."""

    def set(self, index: Any, data: Any) -> None:
        try:
            self.inner.set(index, data)
        except TypeError as error:
            raise self.instead(data, error) from error

    def __setitem__(self, index: Any, data: Any) -> None:
        try:
            self.inner[index] = data
        except TypeError as error:
            raise self.instead(data, error) from error

    def instead(self, data: Any, error: TypeError) -> Exception:
        return error

    def differs(self, data: Any) -> bool:
        held = [leaf.dtype for leaf in tensors(self.example)] if self.example is not None else []
        return bool(held) and [leaf.dtype for leaf in tensors(data)] != held


@mutant("DTYPE-7")
class CallsADtypeAValue(_Complaining):
    """Another dtype than the first write's raises ValueError."""

    def instead(self, data: Any, error: TypeError) -> Exception:
        return ValueError(str(error)) if self.differs(data) else error


@mutant("DTYPE-7")
class HasNotImplementedADtype(_Complaining):
    """A dtype that is not supported raises NotImplementedError."""

    def instead(self, data: Any, error: TypeError) -> Exception:
        return NotImplementedError(str(error)) if any(map(_unsigned, tensors(data))) else error


def _unsigned(leaf: torch.Tensor) -> bool:
    return leaf.dtype == torch.uint16


class _Disguising(Rewriting):
    """Not a mutant itself: keeps uint16 as int16 and gives it back as it was."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self.disguised = False

    def given(self, index: Any, data: Any) -> Any:
        if not any(map(_unsigned, tensors(data))):
            return data
        return leafwise(data, lambda leaf: leaf.view(torch.int16) if _unsigned(leaf) else leaf)

    def set(self, index: Any, data: Any) -> None:
        super().set(index, data)
        self.disguised = self.disguised or any(map(_unsigned, tensors(data)))

    def returned(self, index: Any, value: Any) -> Any:
        if not self.disguised:
            return value
        return leafwise(value, lambda leaf: leaf.view(torch.uint16) if leaf.dtype == torch.int16 else leaf)


@mutant("DTYPE-8", may="DTYPE-7")
class CannotSampleUnsigned(_Disguising):
    """A uint16 can be written and read by slices and integers only."""

    def given(self, index: Any, data: Any) -> Any:
        self._check(index, any(map(_unsigned, tensors(data))))
        return super().given(index, data)

    def returned(self, index: Any, value: Any) -> Any:
        self._check(index, self.disguised)
        return super().returned(index, value)

    def _check(self, index: Any, unsigned: bool) -> None:
        if unsigned and not isinstance(index, int | slice):
            raise NotImplementedError('"index_put" not implemented for uint16')


@mutant("DTYPE-8")
class CannotMaskUnsigned(_Disguising):
    """A uint16 cannot be read by a mask."""

    def returned(self, index: Any, value: Any) -> Any:
        if self.disguised and is_plain(index) and index.dtype == torch.bool:
            raise NotImplementedError('"masked_select" not implemented for uint16')
        return super().returned(index, value)


@mutant("DTYPE-8", may="DTYPE-6")
class GivesUnsignedAsSigned(_Disguising):
    """A uint16 comes back as an int16."""

    def returned(self, index: Any, value: Any) -> Any:
        return value
