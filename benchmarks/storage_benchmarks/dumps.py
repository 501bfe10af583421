"""`python -m storage_benchmarks.dumps MEBIBYTES ROUNDS FOLDER`: time and memory of large dumps, as JSON.

Beside a plain copy of the same file that is flushed; all take turns, and the file is in the cache of the system. Memory
is the most that the process had meanwhile, beyond what it had before and what the rows take.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict

from lazy_tensor_storage import LazyTensorStorage

ROW = 4 * 84 * 84 + 4 * 64 + 8 + 1
"""Bytes: a frame, a state, an action and whether it ended."""
PIECE = 2**22
FILE = "storage.safetensors"


class Cost(NamedTuple):
    """Of one act: seconds, the median of some rounds, and MiB, the most of them."""

    seconds: float
    mebibytes: float


def large(mebibytes: int, rounds: int, folder: Path) -> dict[str, Cost]:
    """What dumps and loads of so many MiB cost in a process of their own."""
    paths = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, str(mebibytes), str(rounds), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    return {name: Cost(*cost) for name, cost in json.loads(done.stdout.splitlines()[-1]).items()}


def _measure(mebibytes: int, rounds: int, folder: Path) -> dict[str, Cost]:
    torch.set_num_threads(1)
    rows = mebibytes * 2**20 // ROW
    storage: Any = _filled(rows)
    storage.dumps(folder / "dump")
    dumped, piece = folder / "dump" / FILE, bytearray(PIECE)
    seconds: dict[str, list[float]] = {}
    memory: dict[str, float] = {}

    def turn(name: str, act: Callable[[], object], kept: float = 0) -> None:
        before, started = _peak(reset=True), time.perf_counter()
        act()
        seconds.setdefault(name, []).append(time.perf_counter() - started)
        memory[name] = max(memory.get(name, 0), _peak() - before - kept)

    for _ in range(rounds):
        turn("copy of the file", lambda: _copy(dumped, folder / "copy", piece))
        turn("dump", lambda: storage.dumps(folder / "dump"))
        turn("load into a used storage", lambda: storage.loads(folder / "dump"))
    storage = None
    for _ in range(rounds):
        fresh = LazyTensorStorage(rows)
        turn("load into a fresh one", lambda fresh=fresh: fresh.loads(folder / "dump"), rows * ROW / 2**20)
        del fresh
    return {name: Cost(statistics.median(times), memory[name]) for name, times in seconds.items()}


def _filled(rows: int) -> LazyTensorStorage:
    storage = LazyTensorStorage(rows)
    step = 4096
    for first in range(0, rows, step):
        count = min(step, rows - first)
        batch = TensorDict(
            frame=torch.randint(256, (count, 4, 84, 84), dtype=torch.uint8),
            state=torch.randn(count, 64),
            action=torch.randint(9, (count,)),
            done=torch.randint(2, (count,), dtype=torch.bool),
            batch_size=[count],
        )
        storage.set(slice(first, first + count), batch)
    return storage


def _copy(source: Path, target: Path, piece: bytearray) -> None:
    """As careful as a dump: into a new file that is flushed, then renamed."""
    aside = target.with_suffix(".new")
    with source.open("rb", buffering=0) as reading, aside.open("wb", buffering=0) as writing:
        while count := reading.readinto(piece):
            writing.write(memoryview(piece)[:count])
        os.fsync(writing.fileno())
    aside.replace(target)


def _peak(*, reset: bool = False) -> float:
    """The most MiB that this process had at one time (since `reset`)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
