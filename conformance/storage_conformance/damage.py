"""What can happen to the files of a dump, whatever their format: something is done to one of them, or all are moved."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from storage_conformance.lab import Lab

__all__ = [
    "Damage", "altered", "copied", "cut", "each_file", "files_of", "missing", "removed", "shown_file", "surroundings",
]  # fmt: skip


SHELF = 'folder / "0"'
"""The dump at slot 0, as the programs shown spell its path."""


@dataclass(frozen=True)
class Damage:
    """Something done to a file of a dump; `text` is the statement that does it, with `{}` for the path."""

    act: Callable[[Path], object]
    text: str


def files_of(dump: Path) -> list[Path]:
    """The files of a dump, which is a file or a folder, relative to it; `.` for the dump itself."""
    if dump.is_file():
        return [Path()]
    return sorted(path.relative_to(dump) for path in dump.rglob("*") if path.is_file())


def each_file(dump: Path, statement: str) -> str:
    """A statement about `f`, for each file of a dump at slot 0, in Python."""
    if dump.is_file():
        return f"[{statement} for f in [{SHELF}]]"
    return f'[{statement} for f in ({SHELF}).rglob("*") if f.is_file()]'


def shown_file(name: Path, dump: str = SHELF) -> str:
    """The path of a file of a dump, that at slot 0 if none is named, in Python."""
    return f"file_of({dump}, {name.as_posix()!r})"


def copied(lab: Lab, dump: Path) -> Path:
    """A copy of a dump; nothing, where the dump is a file that is gone."""
    copy = lab.path()
    if dump.is_dir():
        shutil.copytree(dump, copy)
    elif dump.exists():
        shutil.copy2(dump, copy)
    return copy


def removed(dump: Path) -> None:
    """Deletes a dump."""
    if dump.is_dir():
        shutil.rmtree(dump)
    else:
        dump.unlink(missing_ok=True)


def missing(_: Path) -> Iterator[Damage]:
    """A file that is not there."""
    yield Damage(lambda file: file.unlink(), "({}).unlink()")


def cut(file: Path) -> Iterator[Damage]:
    """A file that ends early: by a byte, a word, in the middle, after its head, at once."""
    size = file.stat().st_size
    for length in sorted({0, 1, 8, 64, size // 4, size // 2, 3 * size // 4, size - 8, size - 1}):
        if 0 <= length < size:
            yield Damage(lambda path, n=length: os.truncate(path, n), f"os.truncate({{}}, {length})")  # type: ignore[misc]


def altered(file: Path) -> Iterator[Damage]:
    """Single bits, digits of numbers, a zeroed stretch and swapped bytes all over a file; more at its end."""
    content = file.read_bytes()
    for more in (b"\0", content[-8:] or b"more"):
        yield _patched(content, len(content), more)
    size = len(content)
    offsets = sorted(
        {*range(min(size, 9)), *range(0, size, max(1, size // 24)), *range(max(0, size - 3), size)}
    )
    for number, offset in enumerate(offsets):
        yield _patched(content, offset, bytes([content[offset] ^ (1 << number % 8)]))
    digits = [match.start() for match in re.finditer(rb"[0-9]", content)]
    for offset in digits[:: 1 + len(digits) // 24]:
        yield _patched(content, offset, bytes([content[offset] ^ 1]))
    for offset in offsets[::6]:
        stretch = content[offset : offset + 4]
        if any(stretch):
            yield _patched(content, offset, bytes(len(stretch)))
        if stretch != stretch[::-1]:
            yield _patched(content, offset, stretch[::-1])


def _patched(content: bytes, offset: int, patch: bytes) -> Damage:
    end = offset + len(patch)
    changed = content[:offset] + patch + content[end:]
    text = f"(lambda f: f.write_bytes((b := f.read_bytes())[:{offset}] + {patch!r} + b[{end}:]))({{}})"
    return Damage(lambda path: path.write_bytes(changed), text)


def surroundings(folder: Path, apart: Path | None = None) -> dict[str, bytes | str | None]:
    """Everything in a folder, `apart` excepted: the bytes of files, where links lead, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        if path.is_symlink():
            content: bytes | str | None = str(path.readlink())
        elif not path.exists():
            continue
        else:
            content = path.read_bytes() if path.is_file() else None
        if apart is None or (path != apart and apart not in path.parents):
            found[path.relative_to(folder).as_posix()] = content
    return found
