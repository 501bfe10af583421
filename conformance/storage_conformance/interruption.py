"""How a call is made to fail midway: it is interrupted, the file system refuses, or its process is killed.

Nothing is timed. Python tells its audit hooks of each call to the file system before it makes it, so that the third one
can be made to raise, or be the last thing that a process does. What is written without Python, and the bytes within
one file, end where the system's limit on the size of files is reached; a process dies of that unless it looks away.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["EVENTS", "Moment", "calls_of", "can_kill", "can_limit", "killed", "midway"]

EVENTS = frozenset({
    "open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
    "mmap.__new__", "sqlite3.connect",
})  # fmt: skip
"""What the audit hooks call the calls that create, change, move or remove a file."""

SECONDS = 20
"""After which a process that waits for ever is killed: threads do not go with a fork, nor do their promises."""


@dataclass(frozen=True)
class Moment:
    """When a call fails: at its `call`-th call to the file system, or where its files reach `size` bytes."""

    call: int = 0
    size: int | None = None

    @property
    def code(self) -> str:
        return f"call={self.call}" if self.size is None else f"size={self.size}"


def can_limit() -> bool:
    """Whether the size of files can be limited, and a process that meets the limit looks away."""
    return hasattr(signal, "SIGXFSZ") and signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN


def can_kill() -> bool:
    """Whether there are processes to kill that have the storages of this one."""
    return hasattr(os, "fork") and can_limit()


def calls_of(act: Callable[[], object]) -> int:
    """How many calls to the file system `act` makes."""
    calls = [0]

    def count() -> None:
        calls[0] += 1

    with _watching(count):
        act()
    return calls[0]


def midway(act: Callable[[], object], moment: Moment, error: type[BaseException]) -> BaseException | None:
    """Calls `act`, which fails at a moment: by `error` at a call, or because its files cannot grow.

    Returns:
        What it raised, None if it returned all the same.
    """
    with _failing(moment, lambda: _raise(error)):
        try:
            act()
        except BaseException as raised:
            if type(raised) is KeyboardInterrupt:  # by the person at the keyboard
                raise
            return raised
    return None


def killed(act: Callable[[], object], moment: Moment, folder: Path) -> bool:
    """Calls `act` in a copy of this process, which is killed at a moment.

    Args:
        act: what to call.
        moment: when.
        folder: for the temporary files of the copy, which nobody removes after it.

    Returns:
        Whether it was; else it came to an end before.
    """
    process = os.fork()
    if process:
        return os.WIFSIGNALED(os.waitpid(process, 0)[1])
    try:
        _prepare(folder)
        with _failing(moment, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            act()
    finally:
        os._exit(0)


def _prepare(folder: Path) -> None:
    """This process dies quietly, in time, and of the limit on the size of files as well."""
    gc.disable()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    resource: Any = importlib.import_module("resource")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)


class _Interrupt(KeyboardInterrupt):
    """Ours."""


def _raise(error: type[BaseException]) -> None:
    if error is KeyboardInterrupt:
        raise _Interrupt
    raise error(errno.ENOSPC, os.strerror(errno.ENOSPC)) if issubclass(error, OSError) else error


@contextmanager
def _failing(moment: Moment, act: Callable[[], object]) -> Iterator[None]:
    if moment.size is not None:
        with _limited(moment.size):
            yield
        return
    left = [moment.call]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            act()

    with _watching(count):
        yield


@contextmanager
def _limited(size: int) -> Iterator[None]:
    resource: Any = importlib.import_module("resource")  # there is none on Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def _watching(watch: Callable[[], None]) -> Iterator[None]:
    """Calls `watch` before each call of this thread to the file system; finalizers of others have to wait."""
    watches, collects = _watches(), gc.isenabled()
    gc.disable()
    watches.append((threading.get_ident(), watch))
    try:
        yield
    finally:
        watches.pop()
        if collects:
            gc.enable()


@cache
def _watches() -> list[tuple[int, Callable[[], None]]]:
    """Made once: an audit hook cannot be taken back."""
    watches: list[tuple[int, Callable[[], None]]] = []

    def hook(event: str, _: tuple[Any, ...]) -> None:
        if watches and event in EVENTS and watches[-1][0] == threading.get_ident():
            watches[-1][1]()

    sys.addaudithook(hook)
    return watches
