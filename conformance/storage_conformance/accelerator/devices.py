"""The devices of a run: what `--conformance-device` may name, made ready."""

from __future__ import annotations

from storage_conformance.errors import ConfigurationError

__all__ = ["Unavailable", "prepare"]


class Unavailable(Exception):
    """The device that was named is a good one, and not on this machine."""


def prepare(name: str) -> str:
    """The device that `name` says, with its ordinal where it has one, ready for use; torch is imported only for it.

    Raises:
        ConfigurationError: torch does not know such a device, or the fake accelerator cannot be registered.
        Unavailable: this machine has none of that type, or not so many.
    """
    if name == "cpu":
        return name
    import torch

    from storage_conformance.accelerator.fake import NAME, install

    if name.partition(":")[0] == NAME:
        install()
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigurationError(f"--conformance-device={name}: {str(error).splitlines()[0]}.") from None
    if device.type in ("cpu", "meta"):
        return device.type
    module = getattr(torch, device.type, None)
    if module is None or not module.is_available():
        raise Unavailable(f"torch {torch.__version__} finds no {device.type} device on this machine")
    index = module.current_device() if device.index is None else device.index
    if index >= module.device_count():
        raise Unavailable(f"there are {module.device_count()} devices of type {device.type}, and no {name}")
    return f"{device.type}:{index}"
