"""A tensor that says it is on an accelerator, around one in CPU memory that has the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from storage_conformance.accelerator.fake import NAME
from storage_conformance.accelerator.module import LEDGERS, resolved

__all__ = ["FakeTensor", "held"]

_INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
_COPYING = {"copy_", "_to_copy", "_copy_from", "_foreach_copy_"}


class FakeTensor(torch.Tensor):
    """A tensor on `fake:N`; `raw` is the CPU tensor behind it."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls: type[FakeTensor], raw: torch.Tensor, device: torch.device) -> FakeTensor:
        self = torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype, device=device
        )  # fmt: skip
        self.raw = raw
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"{self.raw!r} on {self.device}"

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()

    def tolist(self) -> Any:
        return self.raw.tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return held, (self.raw, str(self.device))

    def __deepcopy__(self, memo: Any) -> FakeTensor:
        return held(self.raw.clone(), self.device)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.is_pinned.default:
            return False
        kwargs = dict(kwargs or {})
        inputs = [x for x in _flat((args, kwargs)) if isinstance(x, torch.Tensor)]
        wrappers = [x for x in inputs if isinstance(x, cls)]
        device = wrappers[0].device if wrappers else None
        if kwargs.get("device") is not None:
            device = torch.device(kwargs["device"])
            device = resolved(device) if device.type == NAME else device
            kwargs["device"] = "cpu"
        name = func._schema.name.removeprefix("aten::")
        _refuse_strangers(name, args, inputs)
        args, kwargs = _each(_raw, args), _each(_raw, kwargs)
        if device is None or device.type != NAME:
            return func(*args, **kwargs)
        if name.startswith("new_") or name.endswith("_like"):
            wanted = func(*args, **{**kwargs, "device": "meta"})
            LEDGERS[device.index].demand(wanted.untyped_storage().nbytes())
        known = {id(_raw(x)): x for x in inputs}

        def back(x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            # What was changed in place is the caller's own tensor, be it on the CPU.
            return known[id(x)] if id(x) in known else held(x, device)

        return _each(back, func(*args, **kwargs))


def _raw(x: Any) -> Any:
    return x.raw if isinstance(x, FakeTensor) else x


def _each(act: Callable[[Any], Any], value: Any) -> Any:
    """The arguments or results of an operation, each seen by `act`."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_each(act, entry) for entry in value))
    if isinstance(value, tuple | list):
        return type(value)(_each(act, entry) for entry in value)
    return {key: _each(act, entry) for key, entry in value.items()} if isinstance(value, dict) else act(value)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list | dict):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _flat(entry)
    else:
        yield value


def _refuse_strangers(name: str, args: Any, inputs: list[torch.Tensor]) -> None:
    """Raises where CUDA does: indices may lie on the CPU, and values of no dimension too; copies cross devices."""
    if name in _INDEXING:
        home = args[0].device
        if any(isinstance(i, torch.Tensor) and i.device not in (home, torch.device("cpu")) for i in args[1]):
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({home})"
            )
        inputs = [args[0], args[2]] if len(args) > 2 else []
    if name not in _COPYING and len({x.device for x in inputs if x.dim()}) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices ({name})"
        )


def held(raw: torch.Tensor, device: torch.device | str | None) -> FakeTensor:
    """A CPU tensor as one on `device`, its memory counted there."""
    device = resolved(device)
    LEDGERS[device.index].hold(raw)
    return FakeTensor(raw, device)
