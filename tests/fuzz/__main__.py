"""``make fuzz``: loads of damaged and hostile dumps. Exit code 1 if one of them goes wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import corrupting
import torch


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=...", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=100_000, help="random corruptions, and half as many of an enemy"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides them")
    parser.add_argument("--short", action="store_true", help="of each byte only the bits, not all values")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        fuzz = corrupting.Fuzz(Path(name))
        values = corrupting.one_bit if options.short else corrupting.all_values
        tallies = [
            corrupting.every_truncation(fuzz),
            corrupting.every_byte(fuzz, values),
            corrupting.at_random(fuzz, options.count, options.seed),
            corrupting.changed_at_random(fuzz, options.count // 2, options.seed),
            corrupting.hostile_files(fuzz),
        ]
    for tally in tallies:
        print(tally)
    print(f"a dump of {len(fuzz.whole)} bytes, {time.monotonic() - started:.0f} s")
    return 0 if all(tally.good for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
