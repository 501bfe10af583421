"""A storage under test, with every call written down.

Calls go through here for three reasons: an exception of the backend is told from one of the suite, the program that a
failure shows is what was really called, and only the public interface of SPEC.md is used.
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from storage_conformance.backend import Backend
from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.recorder import Raised

__all__ = ["Given", "Literal", "Program", "Subject", "code_of", "in_mode"]


@dataclass(frozen=True)
class Literal:
    """Any object, with the Python expression that makes it."""

    value: Any
    text: str


@dataclass(frozen=True)
class Given:
    """Data already built from a batch, which the caller changes later and therefore gives a `name`."""

    batch: Batch
    value: Any
    name: str = ""


@dataclass
class Program:
    """The calls made so far; rendered only when a failure has to be shown."""

    lines: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def add(self, template: str, *arguments: Any) -> None:
        self.lines.append((template, arguments))

    def precede(self, text: str) -> None:
        """Puts a text before the last line, on the same one."""
        if self.lines:
            template, arguments = self.lines[-1]
            self.lines[-1] = text + template, arguments

    def before_last(self, text: str) -> None:
        """Puts a line before the last call of a storage."""
        number = len(self.lines) - 1
        while number > 0 and self.lines[number][0].startswith("change("):
            number -= 1
        self.lines.insert(max(number, 0), (text, ()))

    def mark(self, remark: str) -> None:
        """Appends a remark to the last line."""
        self.follow(f"  # {remark}")

    def follow(self, text: str) -> None:
        """Puts a text after the last line, on the same one."""
        template, arguments = self.lines[-1]
        self.lines[-1] = template + text, arguments

    def render(self) -> tuple[str, ...]:
        return tuple(template.format(*map(code_of, arguments)) for template, arguments in self.lines)


def code_of(argument: Any) -> str:
    """A Python expression for an argument of a call."""
    if isinstance(argument, Literal):
        return argument.text
    if isinstance(argument, Given):
        return f"{argument.name} := {argument.batch.code()}" if argument.name else argument.batch.code()
    if isinstance(argument, Index | Batch):
        return argument.code()
    return f'"{argument}"' if isinstance(argument, Path) else repr(argument)


def in_mode(mode: str) -> AbstractContextManager[object]:
    """The autograd mode "grad", "no_grad" or "inference"."""
    if mode == "grad":
        return nullcontext()
    return torch.no_grad() if mode == "no_grad" else torch.inference_mode()


_MODES = {"grad": "", "no_grad": "with torch.no_grad(): ", "inference": "with torch.inference_mode(): "}


def _value(argument: Any) -> Any:
    if isinstance(argument, Literal | Given):
        return argument.value
    if isinstance(argument, Index):
        return argument.value()
    return argument.data() if isinstance(argument, Batch) else argument


class Subject:
    """One storage of a backend, under a variable name of the program."""

    def __init__(self, storage: Any, name: str, program: Program) -> None:
        self.raw = storage
        self.name = name
        self.program = program

    @classmethod
    def make(
        cls, backend: Backend, program: Program, max_size: Any, *, name: str = "storage", **options: Any
    ) -> Subject:
        """A fresh storage, which the program calls by `name`.

        Raises:
            Raised: the factory raised.
        """
        text = "".join(f", {key}={{}}" for key in options)
        program.add(f"{name} = make({{}}{text})", max_size, *options.values())
        arguments = {key: _value(value) for key, value in options.items()}
        return cls(
            _guard(lambda: backend.factory(_value(max_size), **arguments), "the constructor"), name, program
        )

    def set(self, index: Any, data: Any, mode: str = "grad") -> Any:
        self.program.add(f"{_MODES[mode]}{self.name}.set({{}}, {{}})", index, data)
        given, values = _value(index), _value(data)
        with in_mode(mode):
            return _guard(lambda: self.raw.set(given, values), "set")

    def assign(self, index: Any, data: Any, mode: str = "grad") -> None:
        if (
            isinstance(data, Given) and data.name
        ):  # a named value on the right of an assignment is its second target
            self.program.add(
                f"{_MODES[mode]}{data.name} = {self.name}[{{}}] = {{}}", index, Given(data.batch, data.value)
            )
        else:
            self.program.add(f"{_MODES[mode]}{self.name}[{{}}] = {{}}", index, data)
        given, values = _value(index), _value(data)
        with in_mode(mode):
            _guard(lambda: operator.setitem(self.raw, given, values), "[]=")

    def get(self, index: Any, mode: str = "grad", name: str = "") -> Any:
        target = f"{name} = " if name else ""
        self.program.add(f"{_MODES[mode]}{target}{self.name}.get({{}})", index)
        given = _value(index)
        with in_mode(mode):
            return _guard(lambda: self.raw.get(given), "get")

    def item(self, index: Any, name: str = "") -> Any:
        target = f"{name} = " if name else ""
        self.program.add(f"{target}{self.name}[{{}}]", index)
        given = _value(index)
        return _guard(lambda: self.raw[given], "[]")

    def peek(self, index: Any) -> Any:
        """`get`, not written down: for the verification after each step."""
        given = _value(index)
        return _guard(lambda: self.raw.get(given), "get", f"{self.name}.get({code_of(index)})")

    def length(self) -> Any:
        return _guard(lambda: len(self.raw), "len", f"len({self.name})")

    def attribute(self, name: str) -> Any:
        return _guard(lambda: getattr(self.raw, name), name, f"{self.name}.{name}")

    def call(self, method: str, *arguments: Any) -> Any:
        """Any other method: `dumps`, `loads`, `attach`, `clear`, ..."""
        self.program.add(f"{self.name}.{method}({', '.join('{}' for _ in arguments)})", *arguments)
        values = [_value(argument) for argument in arguments]
        return _guard(lambda: getattr(self.raw, method)(*values), method)

    def evaluate(self, text: str, act: Callable[[Any], Any], *, shown: bool = True) -> Any:
        """Anything else that Python does with a storage: `iter`, `in`, `repr`, ...; `text` has a `{}` for it."""
        code = text.replace("{}", self.name)
        if shown:
            self.program.add(code.replace("{", "{{").replace("}", "}}"))
        return _guard(lambda: act(self.raw), code, "" if shown else code)

    def deepcopy(self, name: str) -> Subject:
        self.program.add(f"{name} = copy.deepcopy({self.name})")
        return Subject(_guard(lambda: copy.deepcopy(self.raw), "copy.deepcopy"), name, self.program)

    def repickled(self, name: str) -> Subject:
        self.program.add(f"{name} = pickle.loads(pickle.dumps({self.name}))")
        return Subject(_guard(lambda: pickle.loads(pickle.dumps(self.raw)), "pickle"), name, self.program)


def _guard(act: Callable[[], Any], call: str, code: str = "") -> Any:
    try:
        return act()
    except Exception as error:
        raise Raised(error, call, code) from error
