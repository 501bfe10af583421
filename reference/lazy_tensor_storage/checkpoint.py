"""Dumps in a folder: written aside, verified when read, free of code. See `dump_file` for the format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import dump_reading, torchrl_dump
from .dump_file import Damaged, Done
from .dump_reading import Reading
from .dump_writing import Writing
from .durable import NotPlain, folder_at, make_folder, plain_file, replacing
from .progress import Progress, reported
from .schema import Schema
from .snapshot import Snapshot, UnknownClass

FILE = "storage.safetensors"


class CheckpointError(ValueError):
    """A dump is damaged, or is none of this format."""


def write(path: str | os.PathLike[str], snapshot: Snapshot, progress: Progress = None) -> None:
    """Write a dump to the folder ``path``, whole or not at all.

    Raises:
        TypeError: a value or a key has no exact JSON form; nothing is written then.
        FileExistsError: ``path`` is a file.
        OSError: the file system refuses; an older dump stays.

    Implements: CKPT-1 to CKPT-3, CKPT-19, CKPT-21, CKPT-22, CKPT-25 to CKPT-31.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"a dump is a folder, and {str(folder)!r} is a file; nothing was written.")
    dump = Writing(snapshot)
    with reported(progress, dump.size, "dump") as done:
        make_folder(folder)
        with folder_at(folder) as opened_folder, replacing(opened_folder, FILE) as file:
            dump.to(file, done)


@contextmanager
def opened(
    path: str | os.PathLike[str], known: Schema | None, ndim: int, progress: Progress = None
) -> Iterator[tuple[Reading, Done]]:
    """A dump to read the rows of, its header verified; and what to tell how far that has come.

    Args:
        path: the folder.
        known: the schema of the storage that the rows are for; its classes need not be looked up.
        ndim: of that storage.
        progress: is told of every byte that is verified.

    Raises:
        FileNotFoundError: there is no dump.
        CheckpointError: it is damaged, or of another format; also where that shows while the rows are read.
        ValueError: it names a class that this process has not loaded.

    Implements: CKPT-14 to CKPT-18, CKPT-32, CKPT-33.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"there is nothing at {str(path)!r}.")
    if not Path(path).is_dir():
        raise NotADirectoryError(f"a dump is a folder, and {str(path)!r} is a file.")
    try:
        with ExitStack() as stack:
            folder = stack.enter_context(folder_at(Path(path)))
            if FILE not in (found := os.listdir(folder)) and torchrl_dump.FILE in found:  # noqa: PTH208 - a descriptor
                dump = torchrl_dump.opened(stack, folder, known, ndim)
            else:
                dump = dump_reading.opened(_file(stack, folder, path), known)
            yield dump, stack.enter_context(reported(progress, dump.size, "load"))
    except UnknownClass as error:
        raise ValueError(f"cannot load {str(path)!r}: {error}; nothing was changed.") from error
    except (Damaged, NotPlain) as error:
        raise CheckpointError(f"cannot load {str(path)!r}: {error}; nothing was changed.") from error


def _file(stack: ExitStack, folder: int, path: str | os.PathLike[str]) -> int:
    try:
        return stack.enter_context(plain_file(folder, FILE))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no dump in {str(path)!r}: {FILE} is missing.") from error
