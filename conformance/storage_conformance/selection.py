"""Which requirements a command line asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from storage_conformance.errors import ConfigurationError, suggestion
from storage_conformance.requirements import Specification

__all__ = ["DOCUMENT", "Targets", "exact_keywords", "matching", "split_targets"]

DOCUMENT = "SPEC.md"

_KEYWORD = re.compile(r"[\w:+\-.\[\]\\/=]+")


@dataclass(frozen=True)
class Targets:
    """The arguments of a command line, sorted into ours and pytest's.

    Attributes:
        items: names of items of the suite, such as `LEN-3[torchrl]` or, for all backends, `LEN-3`; None for the suite.
        others: paths and node ids of other tests.
    """

    items: tuple[str, ...] | None
    others: tuple[str, ...]


def split_targets(arguments: Sequence[str]) -> Targets:
    """Picks `SPEC.md` and `SPEC.md::LEN-3[torchrl]` out of the arguments; without any the whole suite is meant."""
    ours = [argument for argument in arguments if argument.partition("::")[0].removeprefix("./") == DOCUMENT]
    names = tuple(argument.partition("::")[2] for argument in ours)
    return Targets(names if all(names) and names else None, tuple(a for a in arguments if a not in ours))


def matching(patterns: Iterable[str], specification: Specification) -> frozenset[str] | None:
    """The ids that `CAP-3,LEN-*` names; None without a pattern.

    Raises:
        ConfigurationError: a pattern names no requirement that is checked.
    """
    checked = [r.id for r in specification.requirements.values() if r.level != "MAY"]
    wanted = [part.strip() for pattern in patterns for part in pattern.split(",") if part.strip()]
    found: set[str] = set()
    for pattern in wanted:
        ids = [identifier for identifier in checked if fnmatchcase(identifier, pattern.upper())]
        if not ids:
            raise ConfigurationError(
                f"--conformance-only: {pattern!r} names no requirement of SPEC.md {specification.version}; "
                f"its chapters are {', '.join(specification.chapters)}.{suggestion(pattern, checked)}"
            )
        found.update(ids)
    return frozenset(found) if wanted else None


def exact_keywords(expression: str, specification: Specification) -> str:
    """A `-k` expression in which `LEN-1` means that requirement and `LEN` that chapter.

    pytest looks for keywords anywhere in a name, so that `LEN-1` would select LEN-10 too, and `SET` every requirement
    of a backend called `mydataset:Storage`. Names of items read `LEN-1[backend]`.
    """

    def exact(match: re.Match[str]) -> str:
        word = match[0]
        if word.upper() in specification.requirements:
            return f"{word}["
        return f"{word}-" if word in specification.chapters else word

    return _KEYWORD.sub(exact, expression)
