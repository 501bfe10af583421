"""`python -m storage_benchmarks.memory NAME`: the resident memory of one storage in a process of its own, as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .records import SMALL

CAPACITY, FIRST = 2_000_000, 256


def resident(name: str) -> dict[str, float] | None:
    """MiB by which the process grows: ``construct``, ``first write`` of 256 rows, ``full``; ``None`` if it fails."""
    paths = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def _pages() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _measure(name: str) -> dict[str, float]:
    from storage_conformance.registry import resolve

    [backend] = resolve([name], (), folder=Path.cwd())
    with backend.context():
        _use(backend.factory(1000))  # whatever is imported and cached on first use
        batch = SMALL.make(FIRST)
        start = _pages()
        storage = backend.factory(CAPACITY)
        constructed = _pages()
        storage.set(slice(0, FIRST), batch)
        written = _pages()
        step = CAPACITY // 100
        batch = SMALL.make(step)
        filling = _pages()
        for first in range(0, CAPACITY, step):
            storage.set(slice(first, first + step), batch)
        full = _pages() - filling + written
    return {"construct": constructed - start, "first write": written - start, "full": full - start}


def _use(storage: object) -> None:
    for _ in range(2):
        storage.set(slice(0, FIRST), SMALL.make(FIRST))  # type: ignore[attr-defined]


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
