"""How far a long dump or load has come, for a callback or a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Progress: TypeAlias = Callable[[int, int], object] | bool | None
"""A function of the bytes done and the bytes in all; ``True`` for a bar of tqdm; ``None`` for neither."""


@contextmanager
def reported(progress: Progress, total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with each number of bytes that were just done.

    What the callback raises ends the dump or the load that it watches.

    Raises:
        ImportError: a bar is asked for, and tqdm is not installed.
        TypeError: ``progress`` is something else.
    """
    if progress is None or progress is False:
        yield lambda _: None
    elif progress is True:
        with _bar(total, what) as bar:
            yield bar.update
    elif callable(progress):
        done = 0

        def report(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        yield report
    else:
        raise TypeError(f"progress is a callable, True or None, not a {type(progress).__name__}.")


def _bar(total: int, what: str) -> Any:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ImportError(
            "progress=True draws a bar with tqdm, which is not installed: "
            "pip install 'lazy-tensor-storage[progress]', or pass a function of (bytes done, bytes in all)."
        ) from None
    return tqdm(total=total, desc=what, unit="B", unit_scale=True, unit_divisor=1024)
