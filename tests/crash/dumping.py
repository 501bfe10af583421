"""Dumps of the reference that do not come to their end, and what a load finds afterwards.

Each attempt is a fork of this process that dumps new rows over an older dump. It is killed (SIGKILL) at a moment drawn
at random, or right before, amid or after its n-th call to the file system, for every n; or one of these calls raises
an error, or writes half and raises; or a disk is really full. The reference writes through Python's `os` and nothing
else, so that its functions, replaced here, are all the calls there are.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict

from lazy_tensor_storage import LazyTensorStorage

CALLS = ("open", "mkdir", "write", "lseek", "fsync", "replace", "unlink", "close")
"""What the reference calls in `os` while it dumps."""
WAYS = ("killed before", "killed amid", "killed after", "refused", "refused half done")
ROWS = 300
UNTOUCHED = 3
"""Exit code of a fork in which nothing has ended the dump."""


@dataclass
class Tally:
    """What loads found after attempts of one kind."""

    what: str
    found: Counter[str] = field(default_factory=Counter)
    leftovers: int = 0

    @property
    def good(self) -> bool:
        """Whether each load found the old rows or the new ones, and the next dump left nothing else in the folder."""
        return bool(self.found) and set(self.found) <= {"old", "new"} and not self.leftovers

    def __str__(self) -> str:
        found = ", ".join(f"{count} {name}" for name, count in sorted(self.found.items()))
        return f"{self.what:<44} {self.found.total():>6} attempts: {found}; left behind: {self.leftovers}"


def storage_of(number: int, rows: int = ROWS) -> LazyTensorStorage:
    """A storage of which every row tells its number."""
    storage = LazyTensorStorage(ROWS * 4)
    data = TensorDict(
        a=torch.full((rows, 50), float(number)),
        b=torch.full((rows,), number),
        s=NonTensorData(f"dump {number}", batch_size=[rows]),
        batch_size=[rows],
    )
    storage.set(range(rows), data)
    return storage


def number_in(folder: Path) -> int | str:
    """The number that all rows of a dump tell, or what is wrong."""
    storage = LazyTensorStorage(ROWS * 4)
    try:
        storage.loads(folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    rows = storage[:]
    number = int(rows["b"][0])
    expected = storage_of(number, len(storage))
    same = torch.equal(rows["a"], expected[:]["a"]) and torch.equal(rows["b"], expected[:]["b"])
    if not same or {item["s"] for item in storage} != {f"dump {number}"} or len(storage) != rows_of(number):
        return "a mixture"
    return number


def rows_of(number: int) -> int:
    """Dumps of two lengths take turns."""
    return ROWS - 100 * (number % 2)


class Attempts:
    """One folder, dumped to again and again.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self._dump()

    def _dump(self) -> None:
        self.number += 1
        storage_of(self.number, rows_of(self.number)).dumps(self.folder)

    def attempt(
        self,
        tally: Tally,
        ends: Callable[[], object] = lambda: None,
        *,
        delay: float | None = None,
        then: Callable[[], object] = lambda: None,
    ) -> bool:
        """Dumps the next number in a fork.

        Args:
            tally: is told what a load finds.
            ends: called in the fork before; what it returns last says whether anything has ended the dump.
            delay: seconds, after which a fork that dumps without a pause is killed.
            then: called before the dump that has to clean up.

        Returns:
            Whether the dump was interfered with.
        """
        storage = storage_of(self.number + 1, rows_of(self.number + 1))
        child = os.fork()
        if not child:
            leave, reached = os._exit, lambda: True
            with suppress(OSError):
                reached = ends() or reached
                storage.dumps(self.folder)
                while delay is not None:
                    storage.dumps(self.folder)
            leave(0 if reached() else UNTOUCHED)
        if delay is not None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found = number_in(self.folder)
        names = {self.number: "old", self.number + 1: "new"}
        tally.found[names.get(found, str(found)) if isinstance(found, int) else found] += 1
        then()
        self._dump()
        tally.leftovers += len(os.listdir(self.folder)) - 1  # noqa: PTH208
        return status != UNTOUCHED << 8


def at_random(folder: Path, count: int, seed: int = 0) -> Tally:
    """A process that dumps without a pause is killed."""
    attempts, draw = Attempts(folder), random.Random(seed)
    tally = Tally("killed at a random moment")
    for _ in range(count):
        attempts.attempt(tally, lambda: None, delay=draw.uniform(0, 0.02))
    return tally


def at_every_call(folder: Path, way: str) -> Tally:
    """A dump ends at its n-th call to the file system, for every n until there are no more."""
    attempts, tally = Attempts(folder), Tally(f"{way} at every call")
    number = 1
    while attempts.attempt(tally, lambda number=number: _ends_at(number, way)):
        number += 1
    return tally


def _ends_at(number: int, way: str) -> Callable[[], bool]:
    """Lets the `number`-th call from now on end this process, or fail; gives what tells whether it has come to that."""
    count = 0

    def replaced(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count != number:
                return real(*arguments, **named)
            if way == "killed before":
                os.kill(os.getpid(), signal.SIGKILL)
            if way in ("killed amid", "refused half done") and name == "write":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            elif way == "killed after" or name == "close":  # a descriptor is gone whatever close says
                real(*arguments, **named)
            if way.startswith("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call

    for name in CALLS:
        setattr(os, name, replaced(name, getattr(os, name)))
    return lambda: count >= number


def at_every_size(folder: Path, steps: int) -> Tally:
    """The file system takes no file longer than so many bytes: as on a full disk, in the middle of a write."""
    attempts, tally = Attempts(folder), Tally("no file longer than so many bytes")
    size = max(path.stat().st_size for path in folder.iterdir())

    def limited(limit: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    for limit in range(0, size, max(1, size // steps)):
        attempts.attempt(tally, lambda limit=limit: limited(limit))
    return tally


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of 256 KiB; false where this process may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def on_a_full_disk(disk: Path) -> Tally:
    """Beside the old dump there is room for less and less of the new one."""
    attempts, tally = Attempts(disk / "dump"), Tally("on a full disk")
    other = disk / "other"

    def filled(size: int) -> None:
        with suppress(OSError), other.open("wb") as file:
            file.write(bytes(size))

    for size in range(0, 256 * 1024, 16 * 1024):
        attempts.attempt(tally, lambda size=size: filled(size), then=lambda: other.unlink(missing_ok=True))
    return tally


def without_permission(folder: Path) -> Tally:
    """The folder may not be written to: by its mode, which says nothing to root, who becomes nobody for it."""
    attempts, tally = Attempts(folder), Tally("in a folder that may not be written to")

    def nobody() -> None:
        folder.chmod(0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)

    for _ in range(2):
        attempts.attempt(tally, nobody, then=lambda: folder.chmod(0o755))
    return tally
