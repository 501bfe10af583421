"""Which requirement answers for a violation: found out by control experiments.

A row that reads back wrong may be the fault of the index, of the dtype, of the container or of writing as such. The
program is replayed with one of these made plain at a time; the first one without which the violation goes away is to
blame. Costs a few replays for each failure, and nothing while a storage conforms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from storage_conformance.batch import Batch
from storage_conformance.concern import (
    FORM_REQUIREMENTS,
    LAYOUT_REQUIREMENTS,
    dtype_requirement,
    index_requirement,
    structure_requirements,
)
from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Found
from storage_conformance.steps import Setup, Step
from storage_conformance.structure import Absent, Fields, Leaf, Node, Record, Text, Tree, leaves, relabel
from storage_conformance.trial import Trial

__all__ = ["attribute", "model_after", "play"]

GENERAL = frozenset({"SET-1", "SET-2", "SET-13", "SET-14", "SET-16", "GET-2", "IDX-20"})
"""Requirements so general that something more specific may answer."""

STATE = GENERAL | {"LEN-7", "CAP-1", "CAP-2", "LAZY-1", "LAZY-4", "DEV-2"}
"""Requirements about the state after a write, which a misread index upsets."""

DEVICE = frozenset({"DEV-5", "DEV-6", "DEV-9"})
"""Requirements that may only be met in another way on a storage that names its device."""

COPIES = ("deepcopy", "pickle", "transfer", "rewind", "load", "load_elsewhere")
"""Steps that have to keep the device, "auto" included."""

ALIASES = {"dump": "dumps", "save": "dumps", "load": "loads"}
"""Verbs that have to do the same as another one (CKPT-1)."""

Program = tuple[Setup, list[Step]]


def attribute(lab: Lab, setup: Setup, steps: list[Step], found: Found) -> str:
    """The requirement to blame for `found`, met in the last of `steps`."""
    if not steps:
        return found.requirement
    for requirement, control in _controls(setup, steps, found):
        if not _violates(lab, control, found):
            return requirement
    return found.requirement


def play(lab: Lab, setup: Setup, *steps: Step) -> Trial:
    """Runs a written program, for a check that tells a story of its own; violations go to the requirement to blame."""
    done: list[Step] = []

    def attributed(found: Found) -> Found:
        program = lab.program
        requirement = attribute(lab, setup, done, found)
        lab.program = program
        return Found(requirement, found.cause)

    noted = lab.noted
    if noted is not None:
        lab.noted = lambda found: noted(attributed(found))
    try:
        trial = Trial(lab, setup)
        for step in steps:
            done.append(step)
            step.perform(trial)
    except Found as found:
        raise attributed(found) from found
    finally:
        lab.noted = noted
    return trial


def _violates(lab: Lab, program: Program, found: Found) -> bool:
    """Whether the control shows the same violation in its last step, or does not get that far."""
    setup, steps = program
    control = lab.control(found.requirement)
    done = 0
    try:
        trial = Trial(control, setup)
        for step in steps:
            step.perform(trial)
            done += 1
    except Found as other:
        alike = {other.requirement, found.requirement} <= GENERAL or other.requirement == found.requirement
        return alike or done < len(steps) - 1
    return False


def _controls(setup: Setup, steps: list[Step], found: Found) -> Iterator[tuple[str, Program]]:
    """Variants of the program with one thing made plain, and who answers if that mends it.

    The autograd mode and the spelling of the device are never the point of another requirement, so they come first and
    are asked of every violation; the rest only of violations of the general requirements.
    """
    *before, last = steps
    arguments = last.arguments
    if any(
        argument in ("no_grad", "inference")
        for step in steps
        for argument in step.arguments
        if isinstance(argument, str)
    ):
        yield "SET-5", (setup, [_in_grad_mode(step) for step in steps])
    if any(step.arguments[-1] in ALIASES for step in steps if step.verb in ("dump", "load")):
        yield "CKPT-1", (setup, [_without_alias(step) for step in steps])
    for layout, requirement in LAYOUT_REQUIREMENTS.items():
        if any(batch.layout == layout for batch in _batches(steps)):
            plain = partial(_without_layout, layout)
            yield requirement, (setup, [_each_batch(step, plain) for step in steps])
    if any(batch.device for batch in _batches(steps)):
        yield "DEV-10", (setup, [_each_batch(step, _on_the_cpu) for step in steps])
    if setup.device == "auto" and found.requirement not in DEVICE and last.verb not in COPIES:
        yield "DEV-5", (replace(setup, device="cpu"), steps)
    if found.requirement not in STATE or last.verb not in ("write", "assign", "read"):
        return
    index = arguments[0]
    batch = arguments[1] if isinstance(arguments[1], Batch) else None
    if batch is not None and found.requirement in GENERAL and False not in arguments:
        yield "SET-3", (setup, [*before, Step(last.verb, (*arguments[:2], "grad", False))])
    yield from _form_controls(setup, steps)
    yield from _index_controls(setup, before, last, index, batch)
    if found.requirement not in GENERAL:
        return
    if found.requirement == "IDX-20":  # where one row reads right, it is the reading of none that does not
        one = Index("slice", (0, 1, None))
        yield "IDX-20", (setup, [*before, Step("read", (one, *arguments[1:]))])
    for axis, requirement in _batch_axes(steps):
        yield requirement, (setup, [_each_batch(step, axis) for step in steps])
    yield from _structure_controls(setup, steps)
    if "item" in arguments:
        yield "GET-3", (setup, [*before, Step("read", (index, *arguments[1:2]))])


def _in_grad_mode(step: Step) -> Step:
    return Step(
        step.verb,
        tuple("grad" if isinstance(a, str) and a in ("no_grad", "inference") else a for a in step.arguments),
    )


def _on_the_cpu(batch: Batch) -> Batch:
    return replace(batch, device="")


def _batches(steps: list[Step]) -> list[Batch]:
    return [argument for step in steps for argument in step.arguments if isinstance(argument, Batch)]


def _batch_axes(steps: list[Step]) -> list[tuple[Callable[[Batch], Batch], str]]:
    """What can be made plain of the data, in all steps."""
    found: dict[str, Callable[[Batch], Batch]] = {}
    for batch in reversed(_batches(steps)):
        if batch.layout not in ("plain", *LAYOUT_REQUIREMENTS):
            found.setdefault("SET-6", partial(_without_layout, batch.layout))
        if batch.bits:
            found.setdefault("DTYPE-4", _with_whole_numbers)
    return [(axis, requirement) for requirement, axis in found.items()]


def _without_layout(layout: str, batch: Batch) -> Batch:
    return replace(batch, layout="plain") if batch.layout == layout else batch


def _form_controls(setup: Setup, steps: list[Step]) -> Iterator[tuple[str, Program]]:
    """Dense data in place of lists of items and of lazy stacks, under the same index."""
    for form, requirement in FORM_REQUIREMENTS.items():
        if any(batch.form == form for batch in _batches(steps)):
            dense = partial(_in_dense_form, form)
            yield requirement, (setup, [_each_batch(step, dense) for step in steps])


def _in_dense_form(form: str, batch: Batch) -> Batch:
    return replace(batch, form="dense") if batch.form == form else batch


def _dense(batch: Batch) -> Batch:
    return replace(batch, form="dense") if batch.form in FORM_REQUIREMENTS else batch


def _without_alias(step: Step) -> Step:
    if step.verb not in ("dump", "load"):
        return step
    return Step(step.verb, tuple(ALIASES.get(argument, argument) for argument in step.arguments))


def _with_whole_numbers(batch: Batch) -> Batch:
    return replace(batch, bits=False)


def _structure_controls(setup: Setup, steps: list[Step]) -> Iterator[tuple[str, Program]]:
    node = setup.node
    wanted = structure_requirements(node)
    if any(isinstance(leaf, Text) for _, leaf in leaves(node)):
        yield (
            "DATA-17" if isinstance(node, Record) else "DATA-16",
            _with_node(setup, steps, _without_text(node)),
        )
    if "DTYPE-5" in wanted:
        empty = [leaf for leaf in _tensor_leaves(node) if 0 in leaf.feature]
        filled: dict[Node, Node] = {
            leaf: Leaf(leaf.dtype, tuple(size or 1 for size in leaf.feature)) for leaf in empty
        }
        scalar: dict[Node, Node] = {leaf: Leaf(leaf.dtype) for leaf in _tensor_leaves(node)}
        # Neither the form of the data nor the device alone has mended it.
        named, dense = replace(setup, device="cpu"), [_each_batch(step, _dense) for step in steps]
        yield "DTYPE-5", _with_node(named, dense, relabel(node, filled))
        yield "DTYPE-5", _with_node(named, dense, relabel(node, scalar))
    for dtype in dict.fromkeys(leaf.dtype for leaf in _tensor_leaves(node)):
        if dtype != torch.float32:
            plain: dict[Node, Node] = {
                leaf: Leaf(torch.float32, leaf.feature)
                for leaf in _tensor_leaves(node)
                if leaf.dtype == dtype
            }
            yield dtype_requirement(dtype), _with_node(setup, steps, relabel(node, plain))
    for requirement in ("DATA-3", "DATA-4"):
        if requirement in wanted:
            yield requirement, _with_node(setup, steps, _without_extra(node))
    flat = Fields(tuple((f"leaf{n}", leaf) for n, leaf in enumerate(_tensor_leaves(node))))
    if not isinstance(node, Fields) or any(not isinstance(child, Leaf) for _, child in node.children):
        kinds = [r for r in ("DATA-7", "DATA-8", "DATA-6", "DATA-14", "DATA-1", "DATA-2") if r in wanted]
        yield kinds[0], _with_node(setup, steps, flat)


def _tensor_leaves(node: Node) -> list[Leaf]:
    if isinstance(node, Leaf):
        return [node]
    return [leaf for _, child in getattr(node, "children", ()) for leaf in _tensor_leaves(child)]


def _without_text(node: Node) -> Node:
    if isinstance(node, Record):
        return Record("Masked", (node.children[0], ("mask", Absent())), node.extra)
    if isinstance(node, Fields | Tree):
        return replace(
            node, children=tuple((n, _without_text(c)) for n, c in node.children if not isinstance(c, Text))
        )
    return node


def _without_extra(node: Node) -> Node:
    if isinstance(node, Fields | Record):
        return replace(node, extra=(), children=tuple((n, _without_extra(c)) for n, c in node.children))
    return node


def _with_node(setup: Setup, steps: list[Step], node: Node) -> Program:
    return replace(setup, node=node), [
        _each_batch(step, lambda batch: _with_structure(batch, setup.node, node)) for step in steps
    ]


def _with_structure(batch: Batch, before: Node, after: Node) -> Batch:
    return replace(batch, node=after) if batch.node == before else batch


def _each_batch(step: Step, change: Callable[[Batch], Batch]) -> Step:
    arguments = tuple(
        change(argument) if isinstance(argument, Batch) else argument for argument in step.arguments
    )
    return Step(step.verb, arguments)


def _index_controls(
    setup: Setup, before: list[Step], last: Step, index: Index, batch: Batch | None
) -> Iterator[tuple[str, Program]]:
    if index.form == "cells" and last.verb == "assign":
        return  # IDX-13 speaks of reading; an assignment answers to SET-16
    model = model_after(setup, before)
    span = model.for_writing(index) if last.verb == "write" else model.for_reading(index)
    plain, lead = index.plain(span)
    arguments: tuple[Any, ...] = last.arguments[1:]
    if batch is not None:
        several = batch.reshaped(lead)
        arguments = (replace(several, form="dense") if plain.form == "tuple" else several, *arguments[1:])
    yield index_requirement(index), (setup, [*before, Step(last.verb, (plain, *arguments))])


def model_after(setup: Setup, steps: Sequence[Step]) -> Model:
    """The model after the steps, told without a storage."""
    model = Model(setup.size, setup.ndim, setup.trailing, setup.node)
    dumps: dict[int, Model] = {}
    for step in steps:
        first: Any = step.arguments[0] if step.arguments else None
        if step.verb == "write":
            model.set(model.for_writing(first), step.arguments[1])
        elif step.verb == "assign":
            model.assign(model.for_reading(first), step.arguments[1])
        elif step.verb == "rewind":
            continue
        elif step.verb == "clear":
            model.clear()
        elif step.verb in ("dump", "dump_midway", "dump_killed"):
            dumps[first] = model.copy()
        elif step.verb == "load":
            model.take(dumps[first])
        elif step.verb == "load_elsewhere":
            model, dumped = Model(step.arguments[1], setup.ndim, setup.trailing, setup.node), dumps[first]
            model.take(dumped)
        elif step.verb == "transfer" and first is not None:
            source, model = model, Model(first, setup.ndim, setup.trailing, setup.node)
            model.take(source)
    return model
