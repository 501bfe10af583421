"""`python benchmarks/dumps.py`: what large dumps and loads of the reference cost beside a plain copy of the file.

Prints a line for each, writes the table of the documents if asked to, and ends with exit code 1 where time or memory
goes beyond its bound.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from report import HERE, filled_in, machine
from storage_benchmarks.dumps import large
from storage_benchmarks.table import markdown

TIMES = 1.3
"""What a dump or a load may take, in copies of the file that are flushed."""
MEBIBYTES = 64
"""What it may take of memory besides the rows."""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=4096, help="of the rows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--folder", type=Path, help="on the file system to be measured; has twice the bytes to spare"
    )
    parser.add_argument("--document", action="store_true", help="write the table in benchmarks/README.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        costs = large(options.mebibytes, options.rounds, Path(name))
    copy = costs.pop("copy of the file")
    lines = [["copy of the file, flushed", f"{copy.seconds:.2f}", "1", ""]]
    met = True
    for what, cost in costs.items():
        times = cost.seconds / copy.seconds
        good = times <= TIMES and cost.mebibytes <= MEBIBYTES
        met = met and good
        lines.append([what, f"{cost.seconds:.2f}", f"{times:.2f}", f"{cost.mebibytes:.0f}"])
        bounds = f"{times:.2f} <= {TIMES} copies, {cost.mebibytes:.0f} <= {MEBIBYTES} MiB"
        print(f"{'pass' if good else 'FAIL'}  {bounds}  {what}")
    table = markdown(
        [f"{options.mebibytes:,} MiB of rows", "seconds", "copies", "MiB besides the rows"], lines
    )
    print(table)
    if options.document:
        filled_in(HERE / "README.md", {"dumps": f"{machine()}\n\n{table}"})
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
