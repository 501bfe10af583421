"""`storage-conformance merge` and `storage-conformance diff`, on reports that are files already."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from storage_conformance.report import document
from storage_conformance.report.files import write_whole
from storage_conformance.report.formats import FORMATS, UnknownFormat, require_format, text_of
from storage_conformance.report.joining import Change, Comparison, compare, merge
from storage_conformance.report.report import Report, UnusableReport

__all__ = ["main"]

_WORSE = 1
_UNHEARD = 141  # as of a program that SIGPIPE ends: no verdict was read to its end
_UNUSABLE = 2  # argparse's own code for mistakes


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        The exit code: 0; 1 where `diff` finds that something no longer conforms; 2 for a mistake; 141 where nobody
        reads what is said.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        code = _merge(given) if given.command == "merge" else _diff(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has read enough; the files are there by then. Without this Python complains as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNHEARD
    except (UnusableReport, UnknownFormat, OSError) as error:
        sys.stderr.write(f"storage-conformance {given.command}: {_printable(str(error))}\n")
        return _UNUSABLE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="storage-conformance",
        description="Joins and compares the reports that pytest --conformance=BACKEND --conformance-report=FILE.json "
        "writes.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    joins = commands.add_parser("merge", help="one report of several, side by side")
    joins.add_argument("reports", nargs="+", type=Path, metavar="REPORT.json")
    joins.add_argument(
        "-o",
        "--output",
        action="append",
        required=True,
        type=Path,
        help=f"where to write; the suffix is one of {', '.join(FORMATS)}; repeatable",
    )
    differs = commands.add_parser(
        "diff", help="what no longer conforms (exit code 1 if anything), and what got better"
    )
    differs.add_argument("old", type=Path, metavar="OLD.json")
    differs.add_argument("new", type=Path, metavar="NEW.json")
    return parser


def _merge(given: argparse.Namespace) -> int:
    for path in given.output:
        require_format(path)
    merged = merge([(str(path), _read(path)) for path in given.reports])
    texts = [(path, text_of(merged, path)) for path in given.output]
    for path, text in texts:
        write_whole(path, text)
    for run in merged.runs:
        _say(merged.sentence(run))
    return 0


def _diff(given: argparse.Namespace) -> int:
    found = compare(_read(given.old), _read(given.new))
    for note in found.notes:
        _say(f"note: {note}")
    if found.gone:
        _say(f"note: no longer in SPEC.md: {', '.join(found.gone)}")
    _list("no longer conforms", found.worse)
    _list("got better", found.better)
    _list("changed otherwise", found.other)
    _say(_verdict(found))
    return _WORSE if found.worse else 0


def _list(title: str, changes: Sequence[Change]) -> None:
    if not changes:
        return
    _say(f"{title} ({len(changes)})")
    for change in changes:
        first = change.message.strip().partition("\n")[0]
        said = f": {first}" if first and change.after != "pass" else ""
        _say(f"  {change.requirement}  {change.backend}  {change.before} -> {change.after}{said}")


def _verdict(found: Comparison) -> str:
    if not (found.worse or found.better or found.other):
        return "no requirement changed"
    return f"{len(found.worse)} no longer conform, {len(found.better)} got better"


def _read(path: Path) -> Report:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UnusableReport(f"{path} is no JSON: it is not UTF-8.") from None
    return document.read(text, str(path))


def _say(line: str) -> None:
    sys.stdout.write(f"{_printable(line)}\n")


def _printable(text: str) -> str:
    """Without what would move the cursor of a terminal, or what its encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


if __name__ == "__main__":
    sys.exit(main())
