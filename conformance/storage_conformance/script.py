"""A counterexample as a stand-alone Python script: torch, tensordict and the backend, nothing of ours."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from storage_conformance.recorder import Found, Raised
from storage_conformance.requirements import Requirement
from storage_conformance.script_helpers import CONSTANTS, HELPERS, STANDARD, TENSORDICT
from storage_conformance.tensorclasses import SOURCES

__all__ = ["Counterexample", "importable", "prelude", "stand_alone", "state"]


@dataclass(frozen=True)
class Counterexample:
    """A program that shows a violation.

    Attributes:
        calls: the calls made, each a line of Python; the last one may be the one that goes wrong.
        message: actual against expected.
        claim: a Python expression that should hold after the calls, "" if there is none.
        actual: what the claim's left side was instead, if that is all there is to say.
        call: one more call, which goes wrong, "" if it is among `calls` or there is none.
    """

    calls: tuple[str, ...]
    message: str
    claim: str = ""
    actual: str = ""
    call: str = ""

    @classmethod
    def of(cls, calls: tuple[str, ...], found: Found) -> Counterexample:
        """What a violation says, after the calls that led to it."""
        cause = found.cause
        message = " ".join(found.message.split())
        if isinstance(cause, Raised):
            return cls(calls, message, call=cause.code)
        return cls(calls, message, claim=cause.claim, actual=" ".join(cause.actual.split()))

    def after(self, calls: tuple[str, ...]) -> Counterexample:
        """The same ending after other calls."""
        return replace(self, calls=calls)

    @property
    def shown(self) -> tuple[str, ...]:
        """The program as a report shows it, with what came of it said once, in a comment."""
        if self.claim:
            remark = f"was {self.actual}" if self.actual else self.message
            return (*self.calls, f"assert {self.claim}  # {remark}")
        if self.call:
            return (*self.calls, f"{self.call}  # {self.message}")
        return (
            *self.calls[:-1],
            f"{self.calls[-1]}  # {self.message}" if self.calls else f"# {self.message}",
        )

    @property
    def code(self) -> tuple[str, ...]:
        """The program as a script runs it: it raises where the requirement is violated."""
        if self.claim:
            return (*self.calls, f"assert {self.claim}, {self.message!r}")
        return (*self.calls, self.call) if self.call else self.calls


def importable(factory: Callable[..., Any]) -> str:
    """The line that imports a factory as `make`, or a remark where it has no importable name."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if module and name and "<" not in name:
        first, _, rest = name.partition(".")
        return (
            f"from {module} import {first} as make"
            if not rest
            else f"import {module}\n\nmake = {module}.{name}"
        )
    return f"make = ...  # the factory of the backend: {factory!r}"


def stand_alone(
    program: Counterexample, *, make: str, requirement: Requirement, backend: str, seed: int
) -> str:
    """The text of a script that fails on the faulty storage and passes on one that conforms."""
    lines = [
        f'"""{requirement.id}: {requirement.sentence}',
        "",
        f'Found on {backend} with seed {seed}. Raises where the requirement is violated.\n"""',
        "",
        prelude(program, make),
        state(program),
        "",
        *program.code,
        "",
    ]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines))


def prelude(program: Counterexample, make: str) -> str:
    """Imports, classes and functions that a program uses; `make` is the line that imports the factory."""
    free = _free(program)
    classes = "\n\n".join(SOURCES[name].rstrip("\n") + "\n" for name in SOURCES if name in free)
    helpers = "\n".join(_needed(free))
    words = _words("\n".join((*program.code, classes, helpers)))
    free |= words & {"SimpleNamespace"}
    imports = [f"import {module}" for module in STANDARD if module in words]
    imports += ["import pathlib", "import tempfile"] if "folder" in free else []
    typing = [name for name in ("NamedTuple", "Optional") if name in words]
    tensordict = [name for name in TENSORDICT if name in words]
    lines = [
        *sorted(set(imports)),
        *([f"from typing import {', '.join(typing)}"] if typing else []),
        *(CONSTANTS[name] for name in CONSTANTS if name in free),
        "",
        *(["import numpy"] if "numpy" in words else []),
        "import torch",
        *([f"from tensordict import {', '.join(tensordict)}"] if tensordict else []),
        "",
        make,
        helpers,
        classes,
    ]
    return "\n".join(lines)


def state(program: Counterexample) -> str:
    """What a program has to find before its first call."""
    return "folder = pathlib.Path(tempfile.mkdtemp())" if "folder" in _free(program) else ""


def _needed(free: set[str]) -> list[str]:
    """The helpers that a program calls, and those that they call."""
    found: dict[str, str] = {}
    about_entities = {"told", "told_in_order", "forget"}

    def add(names: set[str]) -> None:
        for name in HELPERS:
            if name in names and name not in found:
                found[name] = HELPERS[name]
                add(_words(HELPERS[name]) - {name})

    add(free | ({"Entity"} if free & about_entities else set()))
    return [found[name] for name in HELPERS if name in found]


def _free(program: Counterexample) -> set[str]:
    """Names that a program uses and does not assign."""
    used: set[str] = set()
    stored: set[str] = set()
    try:
        tree = ast.parse("\n".join(program.code))
    except SyntaxError:  # of a line that is no Python, of which the script then complains itself
        return _words("\n".join(program.code))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else stored).add(node.id)
    return used - stored - set(dir(builtins))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))
