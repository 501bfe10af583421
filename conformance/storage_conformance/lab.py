"""Where a check works: the backend, the recorder, folders, and what every check asks of a refusal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import torch

from storage_conformance.backend import Backend
from storage_conformance.recorder import Found, Raised, Recorder, Violation
from storage_conformance.requirements import specification
from storage_conformance.subject import Program, Subject

__all__ = ["Lab", "poisoned_memory"]


class Lab:
    """What a check needs to try something on a backend.

    Attributes:
        backend: the storage under test.
        device: where the storages of this run live.
        program: the calls made since the last `start`.
        noted: told of violations under `noting`; the program goes on if it answers True.
    """

    _numbers = count()
    """Of all labs: they share folders."""

    def __init__(self, backend: Backend, recorder: Recorder, folder: Path, device: str = "cpu") -> None:
        self.backend = backend
        self.recorder = recorder
        self.folder = folder
        self.device = device
        self.program = Program()
        self.noted: Callable[[Found], bool] | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """Where data may come from: the CPU, and each of the first two devices of the type of this run."""
        kind = self.device.partition(":")[0]
        if kind == "cpu":
            return ("cpu",)
        count = min(2, torch.get_device_module(kind).device_count())
        return ("cpu", self.device, *(f"{kind}:{n}" for n in range(count) if f"{kind}:{n}" != self.device))

    def control(self, requirement: str = "") -> Lab:
        """Another lab for trying things, whose evaluations nobody counts.

        Of the violations that a hunt only notes, it raises those of `requirement` and passes over the others.
        """
        lab = Lab(self.backend, Recorder(), self.folder, self.device)
        lab.noted = lambda found: found.requirement != requirement
        return lab

    def start(self) -> None:
        """Begins a new program."""
        self.program = Program()

    def claims(self, feature: str) -> bool:
        return feature in self.backend.features

    def make(self, max_size: Any, *, name: str = "storage", **options: Any) -> Subject:
        """A fresh storage; `device` is passed on only if it is given or the run has another than the CPU."""
        if self.device != "cpu":
            options.setdefault("device", self.device)
        return Subject.make(self.backend, self.program, max_size, name=name, **options)

    def path(self) -> Path:
        """A path in an existing folder at which nothing is yet."""
        return self.folder / f"dump-{next(self._numbers)}"

    def checking(self, requirement: str) -> Any:
        return self.recorder.checking(requirement)

    @contextmanager
    def noting(self, requirement: str) -> Iterator[None]:
        """Like `checking`, for what leaves storage and model together: the program goes on if the hunt takes note."""
        try:
            with self.checking(requirement):
                yield
        except Found as found:
            if not self.note(found):
                raise

    def note(self, found: Found) -> bool:
        """Whether the hunt takes note of a violation, so that the program can go on."""
        return self.noted is not None and self.noted(found)

    def refused(self, requirement: str, act: Callable[[], Any], *, what: str = "the call") -> None:
        """Checks under `requirement` that `act` is refused, with an exception that SPEC.md allows.

        The caller checks that nothing changed.
        """
        raises = specification().requirements[requirement].raises
        error: Exception | None = None
        with self.checking(requirement):
            program, before = self.program, len(self.program.lines)
            try:
                act()
            except Raised as raised:
                error = raised.error
            if self.program is not program or len(self.program.lines) > before:
                self.program.precede(f"with refused({', '.join(e.__name__ for e in raises)}): ")
            if error is None:
                raise Violation(f"{what} was accepted; it has to be refused", aspect="accepted")
            if raises and not isinstance(error, raises):
                raise Violation(f"expected {_names(raises)}, got {type(error).__name__}: {str(error)[:200]}")
        self.allowed(error)

    def allowed(self, error: Exception) -> None:
        """Checks under ERR-5 that a refusal raised an exception of its list."""
        raises = specification().requirements["ERR-5"].raises
        with self.checking("ERR-5"):
            if not isinstance(error, raises):
                raise Violation(
                    f"expected one of {_names(raises)}, got {type(error).__name__}: {str(error)[:200]}"
                )


def _names(exceptions: tuple[type[Exception], ...]) -> str:
    return " or ".join(exception.__name__ for exception in exceptions)


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Uninitialised memory holds NaN or the largest integer, so that reads of it are caught and not luck."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for dumps, in memory where the system offers that: a campaign writes thousands of small ones."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(
        prefix="storage-conformance-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
