"""A claim for a counterexample whose check could not put into one expression what it saw.

The program is run beside the same program on a storage that conforms; the last thing in which the two differ, among
what the program reads and what can be read afterwards, is what the script asserts. The verdict is the check's alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass
from tensordict.utils import is_non_tensor

from storage_conformance.batch import tensor_code
from storage_conformance.script import Counterexample
from storage_conformance.structure import tensor_bytes

__all__ = ["Aspect", "aspects", "claimed"]

LARGEST = 4096
"""Bytes of the largest tensor that a claim spells out."""

Names = dict[str, Any]


@dataclass(frozen=True)
class Aspect:
    """One thing that can be said of a value: `claim` holds of it, `key` tells it from other values."""

    claim: str
    key: Any


def claimed(program: Counterexample, faulty: Names, sound: Names) -> Counterexample | None:
    """The program with a claim in which the two runs differ, None if they do not.

    Args:
        program: without a claim.
        faulty: the names that it finds before its first call, `make` among them.
        sound: the same for a storage that conforms.
    """
    best: Counterexample | None = None
    for number, line in enumerate(program.calls):
        with suppress(Exception):
            expression = _expression(line)
            if expression and (claim := _difference(expression, faulty, sound)):
                best = replace(program, calls=program.calls[:number], claim=claim)
                continue
        survived = _survives(line, faulty), _survives(line, sound)
        if not all(survived):
            return best
    for expression in _probes(program, sound):
        if claim := _difference(expression, faulty, sound):
            return replace(program, claim=claim)
    return best


def _survives(line: str, names: Names) -> bool:
    try:
        exec(line, names)
    except Exception:
        return False
    return True


def _expression(line: str) -> str:
    """The text of a line that is an expression and no call that changes something, "" for any other."""
    body = ast.parse(line).body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        return ""
    changes = (
        "set",
        "attach",
        "detach",
        "dumps",
        "dump",
        "save",
        "loads",
        "load",
        "load_state_dict",
        "clear",
    )
    call = body[0].value
    if isinstance(call, ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in changes or not name:
            return ""
    return line


def _probes(program: Counterexample, names: Names) -> Iterator[str]:
    """What can be read after the last call."""
    assigned = [
        node.id
        for node in ast.walk(ast.parse("\n".join(program.calls)))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    storages = [name for name in dict.fromkeys(assigned) if hasattr(names.get(name), "max_size")]
    yield from (
        name for name in dict.fromkeys(assigned) if name not in storages and name not in ("data", "state")
    )
    for name in reversed(storages):
        yield from (f"len({name})", f"{name}.shape")
        rows = (names[name].shape or (0,))[0]
        yield from (f"{name}.get({row})" for row in range(min(rows, 400)))
        yield from (f"{name}[{row}]" for row in range(min(rows, 400)))
        if rows:
            yield from (
                f"{name}.get(slice(0, {rows}))",
                f"{name}.get([])",
                f"{name}.get(list(range({rows})))",
            )
        yield from (f"{name}.{attribute}" for attribute in ("max_size", "device", "last_row"))


def _difference(expression: str, faulty: Names, sound: Names) -> str:
    """A claim about an expression that holds in the second run only, "" if there is none."""
    try:
        right = [*aspects(expression, eval(expression, sound))]
    except Exception:
        return ""
    try:
        wrong = {aspect.claim: aspect.key for aspect in aspects(expression, eval(expression, faulty))}
    except Exception:  # it has to be read, whatever it is
        return right[0].claim if right else ""
    return next((aspect.claim for aspect in right if wrong.get(aspect.claim, ...) != aspect.key), "")


def aspects(expression: str, value: Any) -> Iterator[Aspect]:
    """What can be said of a value, from the outside to the inside."""
    if is_non_tensor(value):
        yield from aspects(f"{expression}.tolist()", value.tolist())
    elif isinstance(value, TensorDictBase) or is_tensorclass(value):
        kind = type(value).__name__ if is_tensorclass(value) else "TensorDict"
        yield Aspect(f"type({expression}).__name__ == {kind!r}", type(value).__name__)
        yield Aspect(f"{expression}.batch_size == torch.Size({list(value.batch_size)})", value.batch_size)
        keys = [*map(str, value.keys())]
        yield Aspect(f"sorted({expression}.keys()) == {sorted(keys)}", sorted(keys))
        yield Aspect(f"list({expression}.keys()) == {keys}", keys)
        for key in keys:
            inner = f"{expression}.{key}" if is_tensorclass(value) else f"{expression}[{key!r}]"
            yield from aspects(inner, getattr(value, key) if is_tensorclass(value) else value.get(key))
    elif isinstance(value, torch.Tensor):
        yield from _aspects_of_tensor(expression, value)
    elif isinstance(value, dict):
        yield Aspect(f"type({expression}) is dict and list({expression}) == {list(value)}", [*value])
        for key, entry in value.items():
            yield from aspects(f"{expression}[{key!r}]", entry)
    elif (
        isinstance(value, list | tuple) and not isinstance(value, torch.Size) and any(map(_holds_more, value))
    ):
        yield Aspect(f"type({expression}).__name__ == {type(value).__name__!r}", type(value).__name__)
        yield Aspect(f"len({expression}) == {len(value)}", len(value))
        for number, entry in enumerate(value):
            yield from aspects(f"{expression}[{number}]", entry)
    elif isinstance(value, torch.device):
        yield Aspect(f"{expression} == torch.device({str(value)!r})", value)
    elif value is None or isinstance(value, bool):
        yield Aspect(f"{expression} is {value}", value)
    elif isinstance(value, int | float | str | bytes | tuple | list):
        yield Aspect(f"type({expression}).__name__ == {type(value).__name__!r}", type(value).__name__)
        shown = tuple(value) if isinstance(value, torch.Size) else value
        yield Aspect(f"{expression} == {shown!r}", value)


def _holds_more(value: Any) -> bool:
    return isinstance(value, torch.Tensor | TensorDictBase | dict | list | tuple) or is_tensorclass(value)


def _aspects_of_tensor(expression: str, value: torch.Tensor) -> Iterator[Aspect]:
    yield Aspect(f"{expression}.dtype == {value.dtype}", value.dtype)
    yield Aspect(f"{expression}.shape == {tuple(value.shape)}", value.shape)
    if not value.requires_grad:
        yield Aspect(f"not {expression}.requires_grad", value.requires_grad)
    content = tensor_bytes(value)
    if len(content) <= LARGEST:
        exact = value.dtype != torch.bool and tensor_bytes(_spelled(value)) != content
        yield Aspect(
            f"same({expression}, {tensor_code(value.detach(), bits=exact)})",
            (value.dtype, value.shape, content),
        )


def _spelled(value: torch.Tensor) -> torch.Tensor:
    try:
        return torch.tensor(value.tolist(), dtype=value.dtype)
    except (RuntimeError, TypeError, ValueError):
        return torch.empty(0)
