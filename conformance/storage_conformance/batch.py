"""Data to write, as small facts: a structure, a leading shape and a seed say everything.

A batch knows its contents without any container, so that the model never has to read one; and it can be written down
as a Python expression for the program that a failure shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from random import Random
from typing import Any

import numpy
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_tensorclass

from storage_conformance.structure import (
    Absent,
    Content,
    Fields,
    Leaf,
    Node,
    Record,
    Text,
    Tree,
    build,
    leaves,
    tensor_bytes,
)

__all__ = ["FORMS", "LAYOUTS", "Batch", "tensor_code"]

LAYOUTS = ("plain", "transposed", "strided", "expanded", "requires_grad", "inference", "locked", "meta")
FORMS = ("dense", "lazy", "list")
_MODULO = {torch.bfloat16: 251, torch.float16: 2039, torch.uint8: 251, torch.int8: 127, torch.int16: 32749}
_WORDS = ("", "go", "left", "über", "a b", "\n")


@dataclass(frozen=True)
class Batch:
    """Items to write.

    Attributes:
        node: the structure of an item.
        lead: the leading shape of the data; `()` for one item without trailing shape.
        seed: decides the values.
        bits: numbers of any size, infinite and not-a-number ones among them, in place of small whole ones.
        halves: floating-point values that are no whole numbers.
        layout: how the tensors lie in memory and whether they belong to a graph.
        form: "dense", "lazy" (a lazy stack) or "list" (of items); the last two only for one or more leading dimensions.
        device_named: whether TensorDicts say on which device they are.
        device: where the tensors are; "" stands for the CPU.
    """

    node: Node
    lead: tuple[int, ...]
    seed: int = 0
    bits: bool = False
    halves: bool = False
    layout: str = "plain"
    form: str = "dense"
    device_named: bool = False
    device: str = ""

    @cached_property
    def values(self) -> list[Any]:
        """The leaves in order: contiguous tensors, and lists of values."""
        found: list[Any] = []
        for number, (_, leaf) in enumerate(leaves(self.node)):
            if isinstance(leaf, Text):
                words = range(prod(self.lead))
                found.append([f"{_WORDS[(self.seed * 5 + k) % 6]}{self.seed + k}.{number}" for k in words])
                continue
            tensor = _fill(leaf, self.lead, self.seed, number, self.bits)
            if self.halves and leaf.dtype.is_floating_point:
                tensor = tensor + 0.5
            if self.layout == "expanded" and self.lead and self.lead[0]:
                tensor = tensor[:1].expand_as(tensor).contiguous()
            found.append(tensor)
        return found

    @cached_property
    def contents(self) -> list[Content]:
        """What the leaves hold, as the model keeps it."""
        return [tensor_bytes(v) if isinstance(v, torch.Tensor) else list(v) for v in self.values]

    def data(self, device: torch.device | None = None) -> Any:
        """A new container with new memory, as a caller would hand it over."""
        if device is None and self.device:
            device = torch.device(self.device)
        if self.form != "dense":
            return self._stacked(device)
        if self.layout == "inference":
            with torch.inference_mode():
                return self._dense(self.values, self.lead, device)
        return self._dense(self.values, self.lead, device)

    def reshaped(self, lead: tuple[int, ...]) -> Batch:
        """The same items in the same order under another leading shape."""
        return replace(self, lead=lead)

    def _dense(self, values: list[Any], lead: tuple[int, ...], device: torch.device | None) -> Any:
        layout = self._layout_for(lead)
        laid_out = [_lay_out(v, layout, device) if isinstance(v, torch.Tensor) else v for v in values]
        if self.layout == "meta":  # the last leaf only: the fault hides behind sound ones
            last = max(n for n, v in enumerate(laid_out) if isinstance(v, torch.Tensor))
            laid_out[last] = laid_out[last].to("meta")
        named = (device or torch.device("cpu")) if self.device_named else None
        container = build(self.node, lead, iter(laid_out), named)
        if self.layout == "locked" and (isinstance(container, TensorDictBase) or is_tensorclass(container)):
            container.lock_()
        return container

    def _layout_for(self, lead: tuple[int, ...]) -> str:
        """Rows are expanded, never the features of a single item."""
        return "plain" if self.layout == "expanded" and not lead else self.layout

    def _stacked(self, device: torch.device | None) -> Any:
        size = prod(self.lead[1:])
        items = []
        for row in range(self.lead[0]):
            values = [
                v[row] if isinstance(v, torch.Tensor) else v[row * size : (row + 1) * size]
                for v in self.values
            ]
            items.append(self._dense(values, self.lead[1:], device))
        return items if self.form == "list" else LazyStackedTensorDict.lazy_stack(items)

    def code(self) -> str:
        """A Python expression for `data()`."""
        text = self._code_on_the_cpu()
        if not self.device:
            return text
        moving = f"lambda t: t.to({self.device!r}) if isinstance(t, torch.Tensor) else t"
        return f"torch.utils._pytree.tree_map({moving}, {text})"

    def _code_on_the_cpu(self) -> str:
        if self.form == "dense":
            return self._wrapped(
                _expression(
                    self.node, self.lead, iter(self._leaf_code(self.values, self.lead)), self.device_named
                )
            )
        size = prod(self.lead[1:])
        items = []
        for row in range(self.lead[0]):
            values = [
                v[row] if isinstance(v, torch.Tensor) else v[row * size : (row + 1) * size]
                for v in self.values
            ]
            leaf_code = iter(self._leaf_code(values, self.lead[1:]))
            items.append(_expression(self.node, self.lead[1:], leaf_code, self.device_named))
        text = f"[{', '.join(items)}]"
        return text if self.form == "list" else f"LazyStackedTensorDict.lazy_stack({text})"

    def _wrapped(self, text: str) -> str:
        if self.layout == "locked" and isinstance(self.node, Fields | Record):
            return f"{text}.lock_()"
        return f"in_inference_mode(lambda: {text})" if self.layout == "inference" else text

    def _leaf_code(self, values: list[Any], lead: tuple[int, ...]) -> list[str]:
        found = []
        for (_, leaf), value in zip(leaves(self.node), values, strict=True):
            if isinstance(leaf, Text):
                found.append(repr(value[0]) if not lead else f"NonTensorStack.from_list({value!r})")
            else:
                found.append(_layout_code(tensor_code(value, bits=self.bits), value, self._layout_for(lead)))
        if self.layout == "meta":
            found[-1] += '.to("meta")'
        return found

    __repr__ = code


def _fill(leaf: Leaf, lead: tuple[int, ...], seed: int, number: int, bits: bool) -> torch.Tensor:
    shape, count = lead + leaf.feature, prod(lead + leaf.feature)
    if count == 0:
        return torch.empty(shape, dtype=leaf.dtype)
    dtype = leaf.dtype
    if bits and dtype != torch.bool:
        raw = bytearray(Random(seed * 1009 + number).randbytes(count * dtype.itemsize))
        return _ordinary(torch.frombuffer(raw, dtype=torch.uint8).view(dtype)).reshape(shape)
    whole = numpy.arange(count, dtype=numpy.int64) + (seed * 37 + number * 11 + 1)
    if dtype == torch.bool:
        return torch.from_numpy((whole * 40503 >> 4) % 2 == 1).reshape(shape)
    if dtype.is_complex:
        return (torch.from_numpy(whole).to(dtype) * complex(1, -2)).reshape(shape)
    modulo = _MODULO.get(dtype, 13 if dtype.itemsize == 1 else 0)
    return torch.from_numpy(whole % modulo if modulo else whole).to(dtype).reshape(shape)


def _ordinary(noise: torch.Tensor) -> torch.Tensor:
    """`noise` without the patterns that DTYPE-4 alone speaks of, which a copy by arithmetic would change.

    A `TensorDict.clone` of 0.14 is one. Drawn at random, they would make a verdict depend on the seed.
    """
    parts = torch.view_as_real(noise) if noise.dtype.is_complex else noise
    if parts.dtype.is_floating_point and parts.dtype.itemsize > 1:
        # Arithmetic of bfloat16 has more than one pattern for not-a-number.
        parts[torch.isnan(parts)] = torch.inf if parts.dtype == torch.bfloat16 else torch.nan
        parts[parts == 0] = 0.0
    return noise


def _lay_out(tensor: torch.Tensor, layout: str, device: torch.device | None) -> torch.Tensor:
    """A copy in new memory, with the strides or the autograd state of `layout`."""
    if layout == "transposed" and tensor.dim() >= 2:
        return tensor.mT.contiguous().to(device, copy=True).mT
    if layout == "strided" and tensor.dim() >= 1:
        return torch.stack([tensor, tensor], -1).to(device)[..., 0]
    if layout == "expanded" and tensor.dim() >= 1 and tensor.shape[0]:
        return tensor[:1].to(device, copy=True).expand_as(tensor)
    copy = tensor.clone() if device is None else tensor.to(device, copy=True)
    if (
        layout == "requires_grad"
        and (copy.dtype.is_floating_point or copy.dtype.is_complex)
        and copy.dtype.itemsize > 1
    ):
        copy.requires_grad_()
    return copy


def tensor_code(tensor: torch.Tensor, *, bits: bool = False) -> str:
    """A Python expression for a tensor."""
    shape, dtype = list(tensor.shape), tensor.dtype
    if tensor.numel() == 0:
        return f"torch.empty({shape}, dtype={dtype})"
    plain = not dtype.is_floating_point or (dtype.itemsize > 1 and bool(torch.isfinite(tensor).all()))
    if (bits and dtype != torch.bool) or not plain:
        values = list(tensor_bytes(tensor))
        return f"torch.tensor({values}, dtype=torch.uint8).view({dtype}).reshape({shape})"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype})"


def _layout_code(text: str, tensor: torch.Tensor, layout: str) -> str:
    if layout == "transposed" and tensor.dim() >= 2:
        return f"{text}.mT.contiguous().mT"
    if layout == "strided" and tensor.dim() >= 1:
        return f"torch.stack([{text}] * 2, -1)[..., 0]"
    if layout == "expanded" and tensor.dim() >= 1 and tensor.shape[0]:
        return f"{text}[:1].expand({list(tensor.shape)})"
    if (
        layout == "requires_grad"
        and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
        and tensor.dtype.itemsize > 1
    ):
        return f"{text}.requires_grad_()"
    return text


def _expression(node: Node, lead: tuple[int, ...], leaf_code: Any, device_named: bool) -> str:
    if isinstance(node, Leaf | Text):
        return next(leaf_code)
    if isinstance(node, Absent):
        return "None"
    inner = lead if isinstance(node, Tree) else lead + node.extra
    children = [(name, _expression(child, inner, leaf_code, device_named)) for name, child in node.children]
    device = ', device="cpu"' if device_named else ""
    if isinstance(node, Fields):
        return f"TensorDict({{{', '.join(f'{n!r}: {c}' for n, c in children)}}}, batch_size={list(inner)}{device})"
    if isinstance(node, Record):
        return f"{node.type}({', '.join(f'{n}={c}' for n, c in children)}, batch_size={list(inner)}{device})"
    values = ", ".join(c for _, c in children)
    if node.type == "dict":
        return f"{{{', '.join(f'{n!r}: {c}' for n, c in children)}}}"
    return {"list": f"[{values}]", "tuple": f"({values},)", "namedtuple": f"Point({values})"}[node.type]
