"""Files that are replaced whole or not at all, whatever happens to the process or to the machine meanwhile.

A file is written aside in its own folder, flushed, renamed over the old one, and the folder flushed. Everything is done
relative to one open folder, and nothing follows a symbolic link in it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

_ASIDE = "tmp"


def make_folder(path: Path) -> None:
    """Creates ``path`` and its parents, each of them flushed into the folder that it is in.

    Raises:
        FileExistsError: ``path`` is a file.
        OSError: the file system refuses.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process may be quicker
            folder.mkdir()
        if not folder.is_dir():
            raise FileExistsError(errno.EEXIST, "a dump is a folder, and this is a file", str(folder))
        _flush_folder(folder.parent)


@contextmanager
def folder_at(path: Path) -> Iterator[int]:
    """A descriptor of the folder ``path``. Raises: ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def replacing(folder: int, name: str) -> Iterator[int]:
    """A descriptor to write the new content of the file ``name`` to; it takes the file's place at the end.

    Where the block raises, or this process is killed, the file stays as it was. What killed processes have left behind
    is removed first, what living ones are writing is not.

    Raises:
        OSError: the file system refuses; the file stays as it was.
    """
    _remove_leftovers(folder, name)
    aside, descriptor = _new_file(folder, name)
    try:
        yield descriptor
        os.fsync(descriptor)
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)
    os.fsync(folder)


def plain_file(folder: int, name: str) -> AbstractContextManager[int]:
    """A descriptor to read the file ``name`` from.

    Raises:
        FileNotFoundError: there is none.
        NotPlain: it is a symbolic link, a folder, a pipe or a device.
        OSError: the file system refuses.
    """
    return _plain(folder, name, os.O_NONBLOCK, stat.S_ISREG)  # a pipe would wait for a writer


def plain_folder(folder: int, name: str) -> AbstractContextManager[int]:
    """A descriptor of the folder ``name``; raises as `plain_file`."""
    return _plain(folder, name, os.O_DIRECTORY, stat.S_ISDIR)


@contextmanager
def _plain(folder: int, name: str, flag: int, is_right: Callable[[int], bool]) -> Iterator[int]:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flag, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK, errno.ENOTDIR):
            raise NotPlain(f"{name} is a symbolic link or no file") from error
        raise
    try:
        if not is_right(os.fstat(descriptor).st_mode):
            raise NotPlain(f"{name} is no file")
        yield descriptor
    finally:
        os.close(descriptor)


class NotPlain(ValueError):
    """What should be a file is something else, which may lead out of its folder or never end."""


def _new_file(folder: int, name: str) -> tuple[str, int]:
    """A file beside ``name`` that is locked for as long as this process lives, and its name."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        aside = f".{name}.{secrets.token_hex(8)}.{_ASIDE}"
        descriptor = os.open(aside, flags, 0o666, dir_fd=folder)
        try:
            with suppress(OSError):  # a file system without locks: then nobody removes leftovers either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(folder, aside, descriptor):
                return aside, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another process took it for a leftover before it was locked


def _remove_leftovers(folder: int, name: str) -> None:
    for entry in os.listdir(folder):
        if not (entry.startswith(f".{name}.") and entry.endswith(f".{_ASIDE}")):
            continue
        try:
            descriptor = os.open(
                entry, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
            )
        except OSError:
            continue
        try:
            # The writer of a file holds its lock until it has died or the file has got its name.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and _is_at(folder, entry, descriptor):
                os.unlink(entry, dir_fd=folder)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _is_at(folder: int, name: str, descriptor: int) -> bool:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _flush_folder(path: Path) -> None:
    with folder_at(path) as descriptor:
        os.fsync(descriptor)
