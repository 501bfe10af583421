"""Makes a failing program small: steps are left out and facts made plain while the same requirement stays violated.

Programs are data, so this takes some hundred replays of a few milliseconds; Hypothesis' shrinker, which has to draw
each candidate anew, takes up to a minute for the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import torch

from storage_conformance.attribution import model_after, play
from storage_conformance.batch import Batch
from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.recorder import Found
from storage_conformance.structure import Fields, Leaf, Node, Record, Tree
from storage_conformance.trial import Setup, Step

__all__ = ["reduced"]

Program = tuple[Setup, tuple[Step, ...]]
STRUCTURAL = frozenset({"SET-8", "SET-10", "SET-12", "DATA-9", "DATA-15", "DTYPE-6"})
"""What is wrong with the data only beside the structure of an earlier write."""

REPLAYS = 600
"""Replays that the reduction of one program may take."""


def reduced(lab: Lab, setup: Setup, steps: tuple[Step, ...], requirement: str) -> tuple[Found, Lab] | None:
    """The violation of the smallest program found, with the lab that ran it; None if it does not show again."""
    best, found = (setup, steps), _shows(lab, (setup, steps), requirement)
    if found is None:
        return None
    replays, progress = 0, True
    while progress:
        progress = False
        for candidate in _smaller(best):
            if replays >= REPLAYS:
                return found
            replays += 1
            shown = _shows(lab, candidate, requirement)
            if shown is not None:
                best, found, progress = candidate, shown, True
                break
    return found


def _shows(lab: Lab, program: Program, requirement: str) -> tuple[Found, Lab] | None:
    """Whether the last step violates the requirement; a program that makes no sense any more does not."""
    if not _sound(*program):
        return None
    attempt = lab.control(requirement)
    setup, steps = program
    try:
        play(attempt, setup, *steps)
    except Found as found:
        return (found, attempt) if found.requirement == requirement else None
    except (IndexError, KeyError, TypeError, ValueError, AssertionError):
        return None
    return None


def _sound(setup: Setup, steps: tuple[Step, ...]) -> bool:
    """Whether what has to be refused still has to be: the fault may have gone with what was made plain."""
    for number, step in enumerate(steps):
        if not step.verb.startswith("refuse") or step.verb == "refuse_load":
            continue
        try:
            model = model_after(setup, steps[:number])
        except (IndexError, KeyError, ValueError):
            return False
        index, requirement = step.arguments[0], step.arguments[-1]
        batch = step.arguments[1] if len(step.arguments) > 2 else None
        if requirement in STRUCTURAL and (model.fresh or batch is None or batch.node == setup.node):
            return False
        try:
            span = model.for_writing(index) if step.verb == "refuse_write" else model.for_reading(index)
        except (IndexError, TypeError):
            continue
        if requirement in ("CAP-4", "GET-1", "SET-17", "IDX-18"):
            return False
        if requirement in ("SET-9", "CAP-5") and batch is not None and batch.lead == span.lead:
            return False
        if requirement == "CAP-5" and setup.ndim == 1:
            return False
    return True


def _smaller(program: Program) -> Iterator[Program]:
    """Candidates, the boldest first."""
    setup, steps = program
    for size in (8, 4, 2, 1):
        for first in range(0, len(steps) - 1, size):
            if first + size < len(steps):
                yield setup, steps[:first] + steps[first + size :]
    if setup.listeners:
        yield replace(setup, listeners=0), steps
        yield replace(setup, listeners=setup.listeners - 1), steps
    if setup.device != "cpu":
        yield replace(setup, device="cpu"), steps
    structural = any(step.arguments[-1] in STRUCTURAL for step in steps if step.verb.startswith("refuse"))
    for node in () if structural else _plainer(setup.node):
        yield replace(setup, node=node), tuple(_with_node(step, setup.node, node) for step in steps)
    if setup.trailing:
        yield from _fewer_dimensions(setup, steps)
    for size in dict.fromkeys((1, 2, 3, setup.size // 2, setup.size - 1)):
        if 1 <= size < setup.size:
            yield replace(setup, size=size), steps
    for number, step in enumerate(steps):
        for plain in _plainer_steps(step, number):
            yield setup, (*steps[:number], plain, *steps[number + 1 :])


def _plainer(node: Node) -> Iterator[Node]:
    """Structures with less in them, of the same kind at the top where it may matter."""
    if isinstance(node, Leaf):
        if node.feature:
            yield Leaf(node.dtype, ())
            yield Leaf(node.dtype, node.feature[1:])
        if node.dtype != torch.float32:
            yield Leaf(torch.float32, node.feature)
    if not isinstance(node, Fields | Record | Tree):
        return
    yield Leaf()
    if isinstance(node, Fields | Record) and node.extra:
        yield replace(node, extra=())
    for number, (name, child) in enumerate(node.children):
        if isinstance(node, Fields) or (isinstance(node, Tree) and node.type != "namedtuple"):
            yield replace(node, children=node.children[:number] + node.children[number + 1 :])
        for plain in _plainer(child):
            if not (isinstance(node, Record) and isinstance(child, Record) and not isinstance(plain, Record)):
                yield replace(
                    node, children=(*node.children[:number], (name, plain), *node.children[number + 1 :])
                )


def _with_node(step: Step, before: Node, after: Node) -> Step:
    arguments = tuple(
        replace(argument, node=after) if isinstance(argument, Batch) and argument.node == before else argument
        for argument in step.arguments
    )
    return Step(step.verb, arguments)


def _fewer_dimensions(setup: Setup, steps: tuple[Step, ...]) -> Iterator[Program]:
    """The same rows with a trailing shape of one dimension less, or of smaller sizes."""
    shapes = [
        setup.trailing[1:],
        tuple(1 for _ in setup.trailing),
        tuple(min(2, size) for size in setup.trailing),
    ]
    rows = -(-setup.size // prod(setup.trailing))
    for trailing in dict.fromkeys(shapes):
        if trailing == setup.trailing:
            continue
        changed = tuple(_with_trailing(step, setup.trailing, trailing) for step in steps)
        yield replace(setup, trailing=trailing, ndim=1 + len(trailing), size=rows * prod(trailing)), changed


def _with_trailing(step: Step, before: tuple[int, ...], after: tuple[int, ...]) -> Step:
    def changed(argument: Any) -> Any:
        if isinstance(argument, Batch) and argument.lead[len(argument.lead) - len(before) :] == before:
            return argument.reshaped(argument.lead[: len(argument.lead) - len(before)] + after)
        return argument

    return Step(step.verb, tuple(changed(argument) for argument in step.arguments))


def _plainer_steps(step: Step, number: int) -> Iterator[Step]:
    for position, argument in enumerate(step.arguments):
        plainer: list[Any] = []
        if isinstance(argument, Batch):
            plain: tuple[tuple[str, Any], ...] = (
                ("form", "dense"),
                ("layout", "plain"),
                ("bits", False),
                ("device_named", False),
                ("seed", number),
            )
            if argument.layout != "meta":
                changes = [{name: value} for name, value in plain if getattr(argument, name) != value]
                plainer += [replace(argument, **change) for change in changes]
        elif argument in ("no_grad", "inference"):
            plainer.append("grad")
        elif argument in ("dump", "save", "load"):
            plainer.append("dumps" if argument != "load" else "loads")
        elif argument == "item":
            plainer.append("get")
        elif argument is True and position > 1:
            plainer.append(False)
        for value in plainer:
            yield Step(step.verb, (*step.arguments[:position], value, *step.arguments[position + 1 :]))
    if step.verb in ("write", "assign") and step.arguments and isinstance(step.arguments[0], Index):
        yield from _smaller_writes(step)


def _smaller_writes(step: Step) -> Iterator[Step]:
    """One row less, for the kinds of index that list their rows."""
    index, batch, *rest = step.arguments
    if (
        index.form in ("list", "tensor", "int32")
        and len(index.args) > 1
        and batch.lead[:1] == (len(index.args),)
    ):
        shorter = batch.reshaped((batch.lead[0] - 1, *batch.lead[1:]))
        yield Step(step.verb, (Index(index.form, index.args[:-1]), shorter, *rest))
        yield Step(step.verb, (Index(index.form, index.args[1:]), shorter, *rest))
    if (
        index.form in ("range", "slice")
        and None not in index.args[:2]
        and index.args[1] - index.args[0] > 1
        and batch.lead
    ):
        shorter = batch.reshaped((batch.lead[0] - 1, *batch.lead[1:]))
        yield Step(
            step.verb,
            (Index(index.form, (index.args[0], index.args[1] - 1, *index.args[2:])), shorter, *rest),
        )
