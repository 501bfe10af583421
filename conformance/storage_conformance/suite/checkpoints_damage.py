"""Chapter CKPT: dumps that were damaged, or made to do harm.

A damaged dump is a copy: the storage that wrote the original may still have it open. What a refused load leaves behind
is a matter of ERR-3, and looked at there.
"""

from __future__ import annotations

import base64
import io
import os
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from hypothesis import strategies as st

from storage_conformance.damage import Damage, altered, copied, cut, files_of, missing, removed, shown_file
from storage_conformance.lab import Lab
from storage_conformance.recorder import Found, Violation, error_of
from storage_conformance.structure import Node
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    MAPPING,
    NESTED,
    PAIR,
    SHAPES,
    STEP,
    TEXTS,
    TRANSITION,
    filled,
    label,
    load_aside,
    rows,
    sequel,
    setup_in,
    shelved,
)
from storage_conformance.trial import Setup, Trial, law


def structures(features: frozenset[str]) -> list[Setup]:
    """What the dumps hold that are damaged."""
    nodes: list[Node] = [
        PAIR,
        TRANSITION,
        *([MAPPING] if "pytree" in features else []),
        *([TEXTS] if "non_tensor" in features else []),
    ]
    return [
        *(setup_in(SHAPES[0], node) for node in nodes),
        setup_in(SHAPES[2], STEP),
        setup_in(SHAPES[3], NESTED),
    ]


def damages(lab: Lab, source: Trial, kinds: Callable[[Path], Iterator[Damage]]) -> Iterator[Path]:
    """Copies of the dump of `source`, each damaged in one place; the program shown says how."""
    dump, lines = source.dumps[0][0], list(source.storage.program.lines)
    for name in files_of(dump):
        for damage in kinds(dump / name):
            lab.program = source.storage.program
            lab.program.lines[:] = lines
            copy = copied(lab, dump)
            damage.act(copy / name)
            lab.program.add("{}", Literal(None, damage.text.replace("{}", shown_file(name))))
            yield copy
            removed(copy)
    source.storage.program.lines[:] = lines


def refused_or_exact(
    lab: Lab, source: Trial, kinds: Callable[[Path], Iterator[Damage]], requirement: str, *, used: bool
) -> None:
    """Damages a dump in every place: loads either raise or bring back exactly what was dumped."""
    if used:
        sequel(lab, source, source.setup, rows(source.setup, 0, 2, 20)).load(0)
    for copy in damages(lab, source, kinds):
        load_damaged(lab, source, copy, requirement, used=used)


def load_damaged(lab: Lab, source: Trial, copy: Path, requirement: str, *, used: bool) -> None:
    """A load of a damaged copy of the dump of `source` raises, or brings back exactly what was dumped."""
    trial = sequel(lab, source, source.setup, *([rows(source.setup, 0, 2, 20)] if used else []))
    with lab.checking(requirement):
        if error_of(partial(trial.storage.call, "loads", Literal(copy, label(0)))) is not None:
            return
    lab.program.precede("with refused(): ")
    trial.model.take(source.dumps[0][1])
    try:
        trial.verify(law(requirement))
    except Found as found:
        # What the storage holds now would be the wrong thing to ask of one that refuses.
        raise Found(found.requirement, Violation(found.message)) from found


def _cases(features: frozenset[str]) -> dict[str, st.SearchStrategy[Any]]:
    return {"setup": st.sampled_from(structures(features)), "used": st.booleans()}


@check("CKPT-15", examples=40, given=_cases)
def dumps_without_a_file_are_refused(lab: Lab, setup: Setup, used: bool) -> None:
    source = shelved(lab, setup, *filled(setup, "full", 3))
    load_aside(source, *source.dumps[0], "CKPT-5")
    refused_or_exact(lab, source, missing, "CKPT-15", used=used)


@check("CKPT-15")
def dumps_of_which_only_some_files_are_left_are_refused(lab: Lab) -> None:
    """A copy or a deletion that ended in between, in either order of the names."""
    setup = setup_in(SHAPES[0], NESTED)
    source = shelved(lab, setup, *filled(setup, "full", 3))
    dump, lines = source.dumps[0][0], list(source.storage.program.lines)
    load_aside(source, *source.dumps[0], "CKPT-5")
    names = files_of(dump)
    for left in (part for n in range(1, len(names)) for part in (names[:n], names[n:])):
        lab.program = source.storage.program
        lab.program.lines[:] = lines
        copy = copied(lab, dump)
        for name in names:
            if name not in left:
                (copy / name).unlink()
                lab.program.add("{}", Literal(None, f"{shown_file(name)}.unlink()"))
        load_damaged(lab, source, copy, "CKPT-15", used=False)
        removed(copy)


@check("CKPT-15", examples=40, given=_cases)
def dumps_with_a_file_cut_short_are_refused(lab: Lab, setup: Setup, used: bool) -> None:
    source = shelved(lab, setup, *filled(setup, "partial", 3))
    load_aside(source, *source.dumps[0], "CKPT-5")
    refused_or_exact(lab, source, cut, "CKPT-15", used=used)


@check("CKPT-16", examples=20, given=lambda features: {"setup": st.sampled_from(structures(features))})
def altered_bytes_are_noticed(lab: Lab, setup: Setup) -> None:
    source = shelved(lab, setup, *filled(setup, "full", 3))
    load_aside(source, *source.dumps[0], "CKPT-5")
    refused_or_exact(lab, source, altered, "CKPT-16", used=setup.ndim == 1)


class Bomb:
    """An object whose pickle makes a folder when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._marker),)


MARKER = 'folder / "marker"'
BOMB = f'type("Bomb", (), {{"__reduce__": lambda self: (os.mkdir, (str({MARKER}),))}})()'


@dataclass(frozen=True)
class Payload:
    """What a file is replaced by, and the statement that does it, with `{}` for its path."""

    content: bytes
    text: str


def harmful(marker: Path) -> list[Payload]:
    """What people may take for data: pickles as such, and inside other formats."""
    found = [
        Payload(pickle.dumps(Bomb(marker), protocol), f"({{}}).write_bytes(pickle.dumps({BOMB}, {protocol}))")
        for protocol in (0, 2, 5)
    ]
    for zipped in (True, False):
        stream = io.BytesIO()
        torch.save(Bomb(marker), stream, _use_new_zipfile_serialization=zipped)
        found.append(
            Payload(stream.getvalue(), f"torch.save({BOMB}, {{}}, _use_new_zipfile_serialization={zipped})")
        )
    stream = io.BytesIO()
    numpy.save(stream, numpy.array([Bomb(marker)], dtype=object), allow_pickle=True)
    found.append(
        Payload(stream.getvalue(), f'numpy.save(open({{}}, "wb"), numpy.array([{BOMB}], dtype=object))')
    )
    return found


_PICKLED = re.compile(rb"\x80[\x02-\x05](?:\x95|[cX}\](K])")
_ENCODED = re.compile(rb"gA[I-X][A-Za-z0-9+/]{8,}={0,2}")


def booby_trapped(content: bytes, marker: Path) -> Iterator[Payload]:
    """A file with each pickle in it replaced, where it is found as such or in base64."""
    bomb, shown = pickle.dumps(Bomb(marker), 2), f"pickle.dumps({BOMB}, 2)"
    for found in _PICKLED.finditer(content):
        start, stop = found.start(), found.start() + len(bomb)
        text = f"(lambda f: f.write_bytes((b := f.read_bytes())[:{start}] + {shown} + b[{stop}:]))({{}})"
        yield Payload(content[:start] + bomb + content[stop:], text)
        yield Payload(
            content[:start] + bomb, f"(lambda f: f.write_bytes(f.read_bytes()[:{start}] + {shown}))({{}})"
        )
    if _ENCODED.search(content):
        encoded = f'__import__("base64").b64encode({shown})'
        text = f'(lambda f: f.write_bytes(__import__("re").sub({_ENCODED.pattern!r}, {encoded}, f.read_bytes())))({{}})'
        yield Payload(_ENCODED.sub(base64.b64encode(bomb), content), text)


@check("CKPT-17", examples=40, given=_cases)
def no_pickle_of_a_dump_is_loaded(lab: Lab, setup: Setup, used: bool) -> None:
    source = shelved(lab, setup, *filled(setup, "full", 3))
    load_aside(source, *source.dumps[0], "CKPT-5")
    dump, marker, lines = source.dumps[0][0], lab.path(), list(source.storage.program.lines)
    names = files_of(dump)
    attempts = [([name], payload) for payload in harmful(marker) for name in names]
    attempts += [(names, payload) for payload in harmful(marker) if len(names) > 1]
    attempts += [
        ([name], payload) for name in names for payload in booby_trapped((dump / name).read_bytes(), marker)
    ]
    for replaced, payload in attempts:
        lab.program = source.storage.program
        lab.program.lines[:] = lines
        copy = copied(lab, dump)
        for name in replaced:
            (copy / name).write_bytes(payload.content)
            lab.program.add("{}", Literal(None, payload.text.replace("{}", shown_file(name))))
        trial = sequel(lab, source, setup, *([rows(setup, 0, 2, 20)] if used else []))
        with lab.checking("CKPT-17"):
            error_of(partial(trial.storage.call, "loads", Literal(copy, label(0))))
            lab.program.precede("with contextlib.suppress(Exception): ")
            if marker.exists():
                raise Violation(
                    "the load ran code that the dump contains",
                    claim=f"not ({MARKER}).exists()",
                    actual="False",
                )
        removed(copy)
