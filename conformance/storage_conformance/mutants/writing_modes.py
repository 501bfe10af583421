"""Chapter SET: faults of graphs, autograd modes, strides and locks."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.reindexing import Reindexing
from storage_conformance.mutants.rewriting import is_lazy, is_plain, leafwise, nested
from storage_conformance.structure import tensors

__all__: list[str] = []


def _in_graph(value: Any) -> Any:
    for leaf in tensors(value):
        if leaf.is_floating_point() and not leaf.is_inference() and not torch.is_inference_mode_enabled():
            leaf.requires_grad_()
    return value


class Graphs(Reindexing):
    """Not a mutant itself: remembers whether data that require grad were written."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._in_graph = False

    def joins(self, data: Any) -> bool:
        return any(leaf.requires_grad for leaf in tensors(data))

    def set(self, index: Any, data: Any) -> None:
        joins = self.joins(data)
        super().set(index, data)
        self._in_graph = self._in_graph or joins


@mutant("SET-4")
class JoinsTheFirstGraph(Graphs):
    """After a first write that requires grad single rows require it too."""

    def joins(self, data: Any) -> bool:
        return self.fresh and super().joins(data)

    def get(self, index: Any) -> Any:
        value = super().get(index)
        return _in_graph(value) if self._in_graph and type(index) is int else value


@mutant("SET-4")
class KeepsParameters(Graphs):
    """Once a parameter was written, slices require grad."""

    def joins(self, data: Any) -> bool:
        return any(isinstance(leaf, torch.nn.Parameter) for leaf in tensors(data))

    def get(self, index: Any) -> Any:
        value = super().get(index)
        return _in_graph(value) if self._in_graph and isinstance(index, slice) else value


@mutant("SET-4")
class RefusesGraphsLater(Graphs):
    """Data that require grad are refused once something was written."""

    def set(self, index: Any, data: Any) -> None:
        if not self.fresh and any(leaf.requires_grad for leaf in tensors(data)):
            raise RuntimeError(
                "a view of a leaf variable that requires grad is used in an in-place operation"
            )
        super().set(index, data)


@mutant("SET-5")
class LivesInInferenceMode(Reindexing):
    """After a first write in inference mode it is not written in another."""

    def __init__(self, max_size: int, *, device: Any = "cpu", ndim: int = 1) -> None:
        super().__init__(max_size, device=device, ndim=ndim)
        self._inference = False

    def set(self, index: Any, data: Any) -> None:
        if self._inference and not torch.is_inference_mode_enabled():
            raise RuntimeError("inplace update to inference tensor outside of inference mode")
        fresh = self.fresh
        super().set(index, data)
        self._inference = self._inference or (fresh and torch.is_inference_mode_enabled())


@mutant("SET-5")
class ReadsNoListsInInferenceMode(Reindexing):
    """A list is not read in inference mode."""

    def in_get(self, index: Any) -> Any:
        if isinstance(index, list) and torch.is_inference_mode_enabled() and not self.fresh:
            raise RuntimeError("not in inference mode")
        return index


@mutant("SET-5")
class AssignsNothingInInferenceMode(Reindexing):
    """An assignment in inference mode is lost after a first write with gradients."""

    def __setitem__(self, index: Any, data: Any) -> None:
        if torch.is_inference_mode_enabled() and isinstance(index, slice):
            return
        super().__setitem__(index, data)


def _as_it_lies(leaf: torch.Tensor) -> torch.Tensor:
    strides: list[int] = []
    step = 1
    for size in reversed(leaf.shape):
        strides.insert(0, step)
        step *= max(1, size)
    room = leaf.untyped_storage().nbytes() // leaf.itemsize - leaf.storage_offset()
    return leaf.detach().as_strided(leaf.shape, strides) if step <= room else leaf


@mutant("SET-6")
class TakesMemoryAsItLies(Reindexing):
    """The strides of a tensor are ignored once something was written."""

    def set(self, index: Any, data: Any) -> None:
        super().set(
            index,
            _as_it_lies(data) if is_plain(data) and not self.fresh and data.layout == torch.strided else data,
        )


@mutant("SET-6")
class RefusesLocks(Reindexing):
    """A locked TensorDict is refused in the first write."""

    def set(self, index: Any, data: Any) -> None:
        if self.fresh and isinstance(data, TensorDictBase) and data.is_locked:
            raise RuntimeError("cannot modify a locked TensorDict")
        super().set(index, data)


@mutant("SET-6")
class AssignsExpandedRowsOnce(Reindexing):
    """Of rows of one tensor that are expanded the first one is assigned, and zeros for the others."""

    def __setitem__(self, index: Any, data: Any) -> None:
        expanded = nested(data) and not is_lazy(data) and self.ndim == 1
        super().__setitem__(index, leafwise(data, _only_the_first) if expanded else data)


def _only_the_first(leaf: torch.Tensor) -> torch.Tensor:
    if leaf.dim() and leaf.shape[0] > 1 and leaf.stride(0) == 0 and leaf.numel():
        return torch.cat([leaf[:1], torch.zeros_like(leaf[1:])])
    return leaf
