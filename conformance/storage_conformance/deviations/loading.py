"""Lists of known deviations, read from TOML and checked strictly: a list that says too much hides a regression.

```toml
["LEN-3"]
reason = "counts writes, not rows"
raises = "IndexError"       # optional: the exception the failure has to raise, or a list of these
until = 2027-01-31          # optional: an error from the day after
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from storage_conformance.errors import ConfigurationError, suggestion
from storage_conformance.requirements import Specification

__all__ = ["Deviation", "load", "shipped"]

_KEYS = {"reason", "raises", "until"}


@dataclass(frozen=True)
class Deviation:
    """One entry of a list.

    Attributes:
        requirement: the id of the requirement that is not met.
        reason: one line for the report.
        raises: names of the exceptions one of which the failure has to raise; empty if none is required.
        until: the last day on which the entry is accepted.
    """

    requirement: str
    reason: str
    raises: tuple[str, ...] = ()
    until: date | None = None


def shipped() -> dict[str, Path]:
    """The lists inside this package, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.toml"), key=lambda p: p.stem)}


def load(
    source: str | Path, specification: Specification, *, folder: Path, today: date
) -> dict[str, Deviation]:
    """Reads a list, by the name of a shipped one or by its path (from `folder` on, if relative).

    Raises:
        ConfigurationError: there is no such list, it is no TOML, or an entry has no reason, an unknown id, an unknown
            key or a day that is past.
    """
    path = shipped().get(str(source), folder / source)
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no list of known deviations {str(source)!r}: it is neither a file nor one of the shipped lists "
            f"{', '.join(shipped())}.{suggestion(str(source), shipped())}"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The list of known deviations {path} cannot be read: {error}.") from None
    try:
        return {name: _deviation(name, entry, specification, today) for name, entry in entries.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"The list of known deviations {path} is wrong: {error}") from None


def _deviation(name: str, entry: object, specification: Specification, today: date) -> Deviation:
    requirement = specification.requirements.get(name)
    if requirement is None:
        raise ConfigurationError(
            f"{name} is no requirement of SPEC.md {specification.version}."
            f"{suggestion(name, specification.requirements)}"
        )
    if requirement.level == "MAY":
        raise ConfigurationError(f"{name} is a MAY, from which nothing can deviate.")
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f'{name} must be a table: ["{name}"], and below it reason = "...".')
    if unknown := sorted(set(entry) - _KEYS):
        raise ConfigurationError(f"{name} has unknown keys {unknown}; there are {sorted(_KEYS)}.")
    reason = entry.get("reason")
    if not (isinstance(reason, str) and reason.strip()):
        raise ConfigurationError(f"{name} needs a reason of one line.")
    return Deviation(
        name, reason.strip(), _raises(name, entry.get("raises")), _until(name, entry.get("until"), today)
    )


def _raises(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if (
        isinstance(names, list)
        and names
        and all(isinstance(one, str) and one.isidentifier() for one in names)
    ):
        return tuple(names)
    raise ConfigurationError(
        f"{name} has raises = {value!r}, not the name of an exception or a list of names."
    )


def _until(name: str, value: Any, today: date) -> date | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise ConfigurationError(f"{name} has until = {value!r}, not a day such as 2027-01-31.") from None
    if isinstance(value, datetime) or not isinstance(value, date):
        raise ConfigurationError(f"{name} has until = {value!r}, not a day such as 2027-01-31.")
    if value < today:
        raise ConfigurationError(
            f"{name} was accepted until {value}, which is past: mend the backend or move the day."
        )
    return value
