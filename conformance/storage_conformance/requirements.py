"""SPEC.md, read into `Requirement` objects.

The suite quotes sentences, levels, exceptions and features from here, so that SPEC.md stays the only place where they
are written down.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

__all__ = [
    "Requirement",
    "Specification",
    "SpecificationError",
    "parse",
    "specification",
    "specification_path",
]

Level = Literal["MUST", "SHOULD", "MAY"]
SOURCES = ("documented", "TorchRL", "decision")

_ID = re.compile(r"[A-Z]+-[1-9][0-9]*")
_LEVEL = re.compile(r"\b(MUST NOT|MUST|SHOULD NOT|SHOULD|MAY)\b")
_CHAPTER = re.compile(r"^## (?P<title>.+?) \((?P<prefix>[A-Z]+)\)$")
_NOTE = re.compile(
    r"^> Why: (?P<why>.+?) Source: (?P<source>.+?)"
    r"(?: Raises: (?P<raises>`[^.]+`)\.)?(?: Feature: (?P<feature>`[^.]+`)\.)?\s*$"
)
_CODE = re.compile(r"`([^`]+)`")


class SpecificationError(ValueError):
    """SPEC.md is malformed; the message names the line."""


@dataclass(frozen=True)
class Requirement:
    """One numbered sentence of SPEC.md."""

    id: str
    level: Level
    sentence: str
    why: str
    source: str
    raises: tuple[type[Exception], ...]
    features: tuple[str, ...]
    line: int

    @property
    def chapter(self) -> str:
        return self.id.partition("-")[0]

    @property
    def number(self) -> int:
        return int(self.id.partition("-")[2])


@dataclass(frozen=True)
class Specification:
    """All requirements, by id, and the chapters in the order of the document."""

    version: str
    chapters: Mapping[str, str]
    requirements: Mapping[str, Requirement]
    features: tuple[str, ...]

    def ordered(self) -> list[Requirement]:
        """The requirements chapter by chapter."""
        rank = {prefix: n for n, prefix in enumerate(self.chapters)}
        return sorted(self.requirements.values(), key=lambda r: (rank[r.chapter], r.number))


def specification_path() -> Path:
    """SPEC.md inside the wheel, or at the top of the checkout of an editable install."""
    packaged = Path(__file__).with_name("SPEC.md")
    return packaged if packaged.exists() else Path(__file__).parents[2] / "SPEC.md"


@cache
def specification() -> Specification:
    """The specification that this package checks."""
    return parse(specification_path().read_text(encoding="utf-8"))


def parse(text: str) -> Specification:
    """Reads the text of a specification.

    Raises:
        SpecificationError: an id is malformed or used twice, a requirement has no sentence, no single level, no note
            with a reason and a source, names an unknown exception or feature, or stands in no known chapter.
    """
    lines = text.splitlines()
    version = _only(re.findall(r"^Version (\S+)$", text, flags=re.MULTILINE), "a line 'Version X.Y'")
    chapters = {m["prefix"]: m["title"] for line in lines if (m := _CHAPTER.match(line))}
    _, _, optional = text.partition("\n## Optional features\n")
    features = tuple(re.findall(r"^\| `(\w+)` \|", optional, flags=re.MULTILINE))
    requirements: dict[str, Requirement] = {}
    for n, line in enumerate(lines):
        if not line.startswith("#### "):
            continue
        requirement = _requirement(line[5:].strip(), lines[n + 1 :], n + 1)
        if requirement.id in requirements:
            raise SpecificationError(f"line {n + 1}: {requirement.id} is used twice")
        if requirement.chapter not in chapters:
            raise SpecificationError(f"line {n + 1}: no chapter has the prefix of {requirement.id}")
        if unknown := set(requirement.features) - set(features):
            raise SpecificationError(
                f"line {n + 1}: {requirement.id} names unknown features {sorted(unknown)}"
            )
        requirements[requirement.id] = requirement
    return Specification(version, chapters, requirements, features)


def _requirement(identifier: str, following: list[str], line: int) -> Requirement:
    def wrong(what: str) -> SpecificationError:
        return SpecificationError(f"line {line}: {identifier} {what}")

    if not _ID.fullmatch(identifier):
        raise SpecificationError(f"line {line}: {identifier!r} is no requirement id such as LEN-3")
    sentence = _paragraph(following, prefix="")
    note = _NOTE.match(_paragraph(following, prefix="> "))
    levels = _LEVEL.findall(sentence)
    if len(levels) != 1 or not sentence.endswith("."):
        raise wrong(f"needs one sentence with one MUST, SHOULD or MAY, not {levels}")
    if note is None:
        raise wrong("needs a note '> Why: ... Source: ...' and then, if any, 'Raises:' and 'Feature:'")
    if not note["source"].startswith(SOURCES):
        raise wrong(f"has a source that begins with none of {SOURCES}")
    raises = []
    for name in _CODE.findall(note["raises"] or ""):
        exception = getattr(builtins, name, None)
        if not (isinstance(exception, type) and issubclass(exception, Exception)):
            raise wrong(f"names {name}, which is no built-in exception")
        raises.append(exception)
    level: Level = (
        "MUST" if levels[0].startswith("MUST") else "SHOULD" if levels[0].startswith("SHOULD") else "MAY"
    )
    features = tuple(_CODE.findall(note["feature"] or ""))
    return Requirement(
        identifier, level, sentence, note["why"], note["source"], tuple(raises), features, line
    )


def _paragraph(lines: list[str], *, prefix: str) -> str:
    """The first paragraph before the next heading whose lines are quoted (`prefix` "> ") or not (""), on one line."""
    found: list[str] = []
    for line in lines:
        if line.startswith("#"):
            break
        if line.strip() and line.startswith("> ") == bool(prefix):
            found.append(line.removeprefix("> ").strip())
        elif found:
            break
    return prefix + " ".join(found)


def _only(found: list[str], what: str) -> str:
    if len(found) != 1:
        raise SpecificationError(f"expected {what} once, found it {len(found)} times")
    return found[0]
