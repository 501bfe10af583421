"""Backends that ship with the suite, each built only when it is asked for."""

__all__ = ["SHIPPED"]

SHIPPED = {
    "reference": "storage_conformance.backends.reference:backend",
    "torchrl": "storage_conformance.backends.torchrl:lazy_tensor_storage",
    "torchrl-memmap": "storage_conformance.backends.torchrl:lazy_memmap_storage",
}
