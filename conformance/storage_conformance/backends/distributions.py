"""Versions of installed distributions, read without importing them."""

from __future__ import annotations

from importlib import metadata, util

from storage_conformance.errors import ConfigurationError

__all__ = ["required_version", "version_of_package"]


def required_version(distribution: str, *, package: str, backend: str, install: str) -> str:
    """The version of a library that a shipped backend needs.

    Raises:
        ConfigurationError: it is not installed.
    """
    if util.find_spec(package) is None:
        raise ConfigurationError(f"Backend {backend!r} needs {package}, which is not installed: {install}.")
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def version_of_package(package: str) -> str:
    """The version of the distribution that brings an importable package, "" if none does."""
    for distribution in metadata.packages_distributions().get(package.partition(".")[0], []):
        return metadata.version(distribution)
    return ""
