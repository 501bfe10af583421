"""Chapter DTYPE: leaves that come back in another dtype or with other bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lazy_tensor_storage import LazyTensorStorage
from storage_conformance.mutants.altering import Altering, leaf_tensors
from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.rewriting import Rewriting, is_plain, leafwise, nested
from storage_conformance.structure import tensors

__all__: list[str] = []

Leafwise = Callable[[torch.Tensor], torch.Tensor]


class _Storing(Rewriting):
    """Not a mutant itself: stores what `stored` makes of each tensor."""

    def given(self, index: Any, data: Any) -> Any:
        return leafwise(data, self._dense)

    def _dense(self, leaf: torch.Tensor) -> torch.Tensor:
        strange = leaf.is_nested or leaf.layout is not torch.strided or leaf.is_meta
        return leaf if strange else self.stored(leaf)

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class _Giving(Rewriting):
    """Not a mutant itself: gives what `read` makes of each tensor."""

    def returned(self, index: Any, value: Any) -> Any:
        return leafwise(value, self.read)

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@mutant("DTYPE-1", may="DTYPE-4 DTYPE-6")
class KeepsDoublesAsFloats(_Storing):
    """A float64 goes through float32."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.float().double() if leaf.dtype == torch.float64 else leaf


@mutant("DTYPE-1", may="DTYPE-4 DTYPE-8")
class GivesBrainFloatsAsFloats(_Giving):
    """A bfloat16 comes back as a float32."""

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.float() if leaf.dtype == torch.bfloat16 else leaf


@mutant("DTYPE-1", may="DTYPE-4 DTYPE-6")
class SaturatesHalves(_Storing):
    """A float16 beyond 60000 is cut off."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.clamp(-60000, 60000) if leaf.dtype == torch.float16 else leaf


@mutant("DTYPE-1", may="DTYPE-4 DTYPE-6")
class RoundsNestedFloats(Rewriting):
    """A float32 that is not the first leaf goes through bfloat16."""

    def given(self, index: Any, data: Any) -> Any:
        if not nested(data) or len(tensors(data)) < 2:
            return data
        first = iter([True])
        return leafwise(data, lambda leaf: leaf if next(first, False) else _rounded(leaf))


def _rounded(leaf: torch.Tensor) -> torch.Tensor:
    plain = leaf.dtype == torch.float32 and leaf.layout is torch.strided
    # Small whole numbers survive, so that nothing else is wrong.
    return torch.where(leaf == leaf.round(), leaf, leaf.bfloat16().float()) if plain else leaf


@mutant("DTYPE-2", may="DTYPE-4 DTYPE-6")
class KeepsDoubleComplexAsComplex(_Storing):
    """A complex128 goes through complex64."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.to(torch.complex64).to(leaf.dtype) if leaf.dtype == torch.complex128 else leaf


@mutant("DTYPE-2", may="DTYPE-4 DTYPE-6 SET-1 IDX-7")
class LosesImaginaryParts(_Storing):
    """Written by a list, complex numbers lose their imaginary parts."""

    def given(self, index: Any, data: Any) -> Any:
        return super().given(index, data) if isinstance(index, list) else data

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.real.to(leaf.dtype) if leaf.dtype.is_complex else leaf


@mutant("DTYPE-2", may="DTYPE-4 DTYPE-6")
class ConjugatesSamples(_Giving):
    """Complex numbers come back conjugated."""

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.conj().resolve_conj() if leaf.dtype.is_complex else leaf


@mutant("DTYPE-3", may="DTYPE-4 DTYPE-6 GET-5")
class KeepsIntegersAsDoubles(_Storing):
    """An int64 goes through float64."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        # The largest integers would become the smallest, which is another fault.
        return leaf.double().clamp(-(2.0**63), 2.0**63 - 1024).long() if leaf.dtype == torch.int64 else leaf


@mutant("DTYPE-3", may="GET-5 DATA-9")
class GivesTruthAsNumbers(_Giving):
    """A bool comes back as a uint8."""

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.to(torch.uint8) if leaf.dtype == torch.bool else leaf


@mutant("DTYPE-3", may="DTYPE-4 DTYPE-6")
class LosesTheHighestBit(_Storing):
    """A uint8 beyond 127 loses its highest bit."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf & 127 if leaf.dtype == torch.uint8 else leaf


def _is_float(leaf: torch.Tensor) -> bool:
    return leaf.dtype.is_floating_point and leaf.dtype.itemsize > 1


@mutant("DTYPE-4", may="DTYPE-9")
class ForgetsPayloads(_Storing):
    """All NaNs become the same one."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return torch.where(leaf.isnan(), torch.nan, leaf) if _is_float(leaf) else leaf


@mutant("DTYPE-4", may="DTYPE-9")
class ForgetsTheSignOfZero(_Storing):
    """A negative zero becomes a positive one."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return torch.where(leaf == 0, torch.zeros_like(leaf), leaf) if _is_float(leaf) else leaf


@mutant("DTYPE-4")
class FlushesSubnormals(_Giving):
    """Subnormal numbers are read as zeros."""

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        if not _is_float(leaf):
            return leaf
        return torch.where(leaf.abs() < torch.finfo(leaf.dtype).tiny, leaf * 0.0, leaf)


@mutant("CKPT-5", may="CKPT-9")
class DumpsByArithmetic(Altering):
    """A dump holds each number plus zero, as `TensorDict.clone` makes it."""

    def alter(self, aside: LazyTensorStorage) -> LazyTensorStorage:
        for leaf in leaf_tensors(aside):
            if _is_float(leaf):
                leaf.add_(0)
        return aside


@mutant("DTYPE-5", may="ERR-5")
class RefusesHollowLeaves(_Storing):
    """A feature dimension of size zero is refused."""

    def stored(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf

    def given(self, index: Any, data: Any) -> Any:
        rows = 1 if isinstance(index, int) else 0
        hollow = [leaf for leaf in tensors(data) if 0 in leaf.shape[rows and 0 :]]
        if hollow and any(0 not in leaf.shape[:1] for leaf in hollow):
            raise ValueError("a leaf has no elements")
        return data


@mutant("DTYPE-5", may="CAP-6 SET-3 SET-8 LEN-2 LEN-8 LEN-3 LEN-4")
class DoesNotCountHollowItems(Rewriting):
    """A tensor without elements is not written at all."""

    def set(self, index: Any, data: Any) -> None:
        if not (is_plain(data) and data.numel() == 0 and 0 not in data.shape[:1]):
            self.inner.set(index, data)


@mutant("DTYPE-5")
class FlattensHollowLeaves(_Giving):
    """A leaf without elements comes back without its feature shape."""

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        kept = self.ndim + 1
        hollow = leaf.dim() > kept and 0 in leaf.shape[kept - 1 :] and 0 not in leaf.shape[:1]
        return leaf.reshape(*leaf.shape[: kept - 1], 0) if hollow and leaf.numel() == 0 else leaf


@mutant("DTYPE-9")
class RefusesSmallFloats(Rewriting):
    """Floating-point numbers of eight bits are refused."""

    def given(self, index: Any, data: Any) -> Any:
        if any(leaf.dtype.is_floating_point and leaf.dtype.itemsize == 1 for leaf in tensors(data)):
            raise TypeError("floating-point numbers of eight bits are not supported")
        return data


@mutant("DTYPE-9", may="DTYPE-8")
class GivesSmallFloatsAsHalves(_Giving):
    """A float8_e5m2 comes back as a float16."""

    def read(self, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.half() if leaf.dtype == torch.float8_e5m2 else leaf
