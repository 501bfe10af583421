"""``make crash``: what is left of a dump that did not come to its end.

The exit code is 1 if it is neither the old one nor the new one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import dumping
import torch


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make crash ARGS=...", description=__doc__)
    parser.add_argument("--random", type=int, default=400, help="processes killed at random moments")
    parser.add_argument("--sizes", type=int, default=100, help="lengths at which a file may grow no longer")
    parser.add_argument("--seed", type=int, default=0, help="decides the moments")
    options = parser.parse_args()
    torch.set_num_threads(1)  # there must be no threads to lose in a fork
    started, tallies = time.monotonic(), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if options.random:
            tallies.append(dumping.at_random(folder / "random", options.random, options.seed))
        tallies += [dumping.at_every_call(folder / way.replace(" ", "-"), way) for way in dumping.WAYS]
        tallies.append(dumping.at_every_size(folder / "sizes", options.sizes))
        with dumping.small_disk(folder / "disk") as mounted:
            if mounted:
                tallies.append(dumping.on_a_full_disk(folder / "disk"))
            else:
                print("on a full disk: skipped, this process may not mount one")
        tallies.append(dumping.without_permission(folder / "forbidden"))
    for tally in tallies:
        print(tally)
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if all(tally.good for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
