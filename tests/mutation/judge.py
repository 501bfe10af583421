"""Whether the conformance suite, and it alone, notices that the reference has been changed.

A child process takes the changed source in place of the reference and runs a campaign on it, which ends with the first
requirement that is violated: the quick profile, then the default one, at last the quick one on the fake accelerator.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

PACKAGE = "lazy_tensor_storage"
FIRST = ("SET", "GET", "IDX", "LEN", "DATA", "CAP", "ERR", "CKPT", "COPY")
"""The chapters that most changes show in."""


@dataclass(frozen=True)
class Verdict:
    """What came of one change.

    Attributes:
        by: what noticed it: a requirement, "import", "time", "crash", or "" if nothing did.
        seconds: of this process, from the beginning.
    """

    by: str
    seconds: float


@contextmanager
def replaced(package: Path, module: str, source: str) -> Iterator[Path]:
    """A folder in which the package lies with another source for one of its modules."""
    with tempfile.TemporaryDirectory() as folder:
        copytree(package, Path(folder) / PACKAGE, ignore=lambda *_: {"__pycache__"})
        (Path(folder) / PACKAGE / module).write_text(source, encoding="utf-8")
        yield Path(folder)


def judged(package: Path, module: str, source: str, *, limit: int, stages: tuple[str, ...]) -> Verdict:
    """Runs the campaigns in a child.

    Args:
        package: the folder of the unchanged package.
        module: file name of the module that is changed.
        source: its source.
        limit: seconds of processor time for each stage, after which a change counts as noticed: it hangs.
        stages: of `STAGES`, in this order, until one notices.
    """
    started = time.monotonic()
    with replaced(package, module, source) as folder:
        for stage in stages:
            if by := _in_a_child(folder, stage, limit):
                return Verdict(by, time.monotonic() - started)
    return Verdict("", time.monotonic() - started)


def _in_a_child(folder: Path, stage: str, limit: int) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.alarm(20 * limit)  # one that sleeps
        try:
            said = _first_violation(folder, stage)
        except BaseException:
            said = "crash"
        os.write(writing, said.encode() or b"-")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if said:
        return said.strip("-")
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return "time" if ended_by in (signal.SIGPROF, signal.SIGALRM) else "crash"


def _first_violation(folder: Path, stage: str) -> str:
    from storage_conformance.backend import Backend
    from storage_conformance.campaign import Campaign
    from storage_conformance.profile import PROFILES
    from storage_conformance.requirements import specification

    profile, device = STAGES[stage]
    if device != "cpu":
        from storage_conformance import accelerator

        accelerator.install()
    try:
        factory = _load(folder)
    except Exception:
        return "import"
    known = specification().requirements
    features = frozenset(specification().features) - {"accelerator"}
    backend = Backend("changed", factory, features=features)
    selected = frozenset(known) if device == "cpu" else frozenset(i for i in known if _concerns_devices(i))
    order = sorted(selected, key=lambda i: (_rank(i), i))
    with Campaign(
        backend,
        selected=selected,
        profile=PROFILES[profile],
        seed=0,
        expected=frozenset(known),
        device=device,
    ) as campaign:
        for requirement in order:
            campaign.finding(requirement)
            if failed := [i for i in campaign.failures if known[i].level == "MUST"]:
                return failed[0]
    return ""


STAGES = {"quick": ("quick", "cpu"), "default": ("default", "cpu"), "accelerator": ("quick", "fake:0")}


def _concerns_devices(requirement: str) -> bool:
    return requirement.startswith(("DEV-", "LAZY-", "SET-", "IDX-", "CKPT-", "COPY-"))


def _rank(requirement: str) -> int:
    chapter = requirement.partition("-")[0]
    return FIRST.index(chapter) if chapter in FIRST else len(FIRST)


def _load(folder: Path) -> Any:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    found = importlib.import_module(PACKAGE)
    assert found.__file__ is not None
    assert Path(found.__file__).is_relative_to(folder)
    return found.LazyTensorStorage
