"""A file is there whole or, as before, the old one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Writes text to a file of any folder, which is made, so that no reader ever sees half of it.

    Raises:
        OSError: it cannot be written; what was there before is there still.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            # A backend's message may hold lone surrogates, which UTF-8 has no bytes for.
            file.write(text.encode("utf-8", "backslashreplace"))
        os.chmod(aside, 0o666 & ~_umask())  # noqa: PTH101 - a name from mkstemp
        os.replace(aside, path)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)  # noqa: PTH108
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
