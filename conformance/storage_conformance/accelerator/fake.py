"""Makes `fake` a device type of this process, by PyTorch's PrivateUse1 backend for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storage_conformance.errors import ConfigurationError

if TYPE_CHECKING:
    import torch

__all__ = ["NAME", "ORDINALS", "install"]

NAME = "fake"
ORDINALS = 2

_FACTORIES = (
    "empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step", "randint.low",
    "randint.low_generator", "randint", "randint.generator", "zeros", "full", "ones", "scalar_tensor", "randperm",
    "randperm.generator",
)  # fmt: skip
_installed = False


def install() -> None:
    """Registers the device type `fake` with two ordinals; a second call does nothing. It cannot be undone.

    Raises:
        ConfigurationError: torch cannot do it, or the process has another PrivateUse1 backend.
    """
    global _installed
    if _installed:
        return
    import torch

    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        raise ConfigurationError(
            f"The fake accelerator needs PyTorch's PrivateUse1 backend, which this process has given to {taken!r} and "
            "can have but once: run without what registers that."
        )
    try:
        from torch.utils.backend_registration import (
            _DummyDeviceGuard,
            _DummyPrivateUse1Hook,
            _setup_privateuseone_for_python_backend,
        )

        from storage_conformance.accelerator.module import FakeModule
    except ImportError as error:
        raise ConfigurationError(
            f"The fake accelerator needs PyTorch's PrivateUse1 backend for Python, which torch {torch.__version__} "
            f"does not have ({error}): torch 2.13 has it."
        ) from error
    _setup_privateuseone_for_python_backend(
        NAME, backend_module=FakeModule(), device_guard=_DummyDeviceGuard(), hook=_DummyPrivateUse1Hook()
    )
    for name in _FACTORIES:
        _register_factory(name)
    torch.library.impl("aten::_copy_from", "privateuseone")(_copy_from)
    _installed = True


def _register_factory(name: str) -> None:
    import torch

    from storage_conformance.accelerator.module import LEDGERS, resolved
    from storage_conformance.accelerator.tensor import held

    packet, _, overload = name.partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def make(*args: Any, **keywords: Any) -> torch.Tensor:
        device = resolved(keywords.get("device"))
        keywords.pop("pin_memory", None)
        if packet not in (
            "randint",
            "randperm",
        ):  # what can be large: memory that is not there is not touched either
            wanted = function(*args, **{**keywords, "device": "meta"})
            LEDGERS[device.index].demand(wanted.untyped_storage().nbytes())
        return held(function(*args, **{**keywords, "device": "cpu"}), device)

    torch.library.impl(f"aten::{name}", "privateuseone")(make)


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    """Where `torch.tensor(..., device="fake")` ends."""
    getattr(target, "raw", target).copy_(getattr(source, "raw", source))
    return target
