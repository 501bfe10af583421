"""Which suffix means which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from storage_conformance.report import badge, document, markdown, page
from storage_conformance.report.report import Report

__all__ = ["FORMATS", "UnknownFormat", "require_format", "text_of"]

FORMATS: Mapping[str, Callable[[Report], str]] = {
    ".json": document.write,
    ".md": markdown.write,
    ".html": page.write,
    ".svg": badge.write,
}


class UnknownFormat(ValueError):
    """A suffix that means no format; the message lists those that do."""


def require_format(path: Path) -> None:
    """Refuses a path whose suffix means no format.

    Raises:
        UnknownFormat: it does not.
    """
    suffix = path.suffix.lower()
    if suffix == ".xml":
        raise UnknownFormat(
            f"{path}: pytest itself writes JUnit, and each requirement is there with its facts as properties: "
            f"--junit-xml={path}"
        )
    if suffix not in FORMATS:
        raise UnknownFormat(
            f"{path}: expected a name that ends in one of {', '.join(FORMATS)}, "
            f"got {f'the suffix {path.suffix!r}' if path.suffix else 'no suffix'}."
        )


def text_of(report: Report, path: Path) -> str:
    """The report in the format that the suffix of `path` means."""
    require_format(path)
    return FORMATS[path.suffix.lower()](report)
