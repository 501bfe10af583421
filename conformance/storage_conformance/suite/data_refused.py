"""Chapter DATA: what is no data is refused."""

from __future__ import annotations

from functools import cache, partial

import torch
from tensordict import TensorDict

from storage_conformance.batch import Batch
from storage_conformance.lab import Lab
from storage_conformance.structure import Fields, Node
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.data import SCALAR, VECTOR, step
from storage_conformance.suite.data_optional import CAPTIONED, TEXTS, TREES
from storage_conformance.suite.stories import refused_everywhere
from storage_conformance.trial import Setup

NO_DATA = (
    Literal(3.5, "3.5"), Literal(1, "1"), Literal(True, "True"), Literal(1j, "1j"), Literal("text", "'text'"),
    Literal("", "''"), Literal(b"\x01", "b'\\x01'"), Literal(None, "None"), Literal(object(), "object()"),
    Literal(torch.float32, "torch.float32"), Literal(torch.Tensor, "torch.Tensor"), Literal(..., "..."),
    Literal({1.0}, "{1.0}"), Literal({"a": 3.5}, "{'a': 3.5}"), Literal((1.0, "b"), "(1.0, 'b')"),
    Literal(lambda: torch.ones(2), "lambda: torch.ones(2)"),
)  # fmt: skip


def _whatever_the_index(given: Literal, lead: tuple[int, ...]) -> Literal:
    return given


@check("DATA-18")
def what_is_no_data_is_refused(lab: Lab) -> None:
    held: tuple[Node, ...] = (SCALAR, Fields((("a", SCALAR), ("b", VECTOR))))
    for given in NO_DATA:
        for size, trailing in ((1, ()), (3, ()), (5, (3,))):
            setup = Setup(size, 1 + len(trailing), trailing, held[0])
            refused_everywhere(lab, "DATA-18", setup, partial(_whatever_the_index, given))
        for node in held:
            setup = Setup(2, 1, (), node)
            refused_everywhere(lab, "DATA-18", setup, partial(_whatever_the_index, given), first=node)


@check("DATA-18")
def data_of_a_refused_feature_are_refused(lab: Lab) -> None:
    refused: list[Node] = []
    if "pytree" in lab.backend.refuses:
        refused += TREES
    if "non_tensor" in lab.backend.refuses:
        refused += [*TEXTS, CAPTIONED]
    for node in refused:
        setup = Setup(3, 1, (), node)
        refused_everywhere(lab, "DATA-18", setup, partial(Batch, node))
    for node in refused:
        for held in (SCALAR, Fields((("a", SCALAR),)), step()):
            setup = Setup(3, 1, (), held)
            refused_everywhere(lab, "DATA-18", setup, partial(Batch, node), first=held)


@cache  # torch keeps a record of every jagged tensor that was ever made
def _ragged(lead: tuple[int, ...]) -> list[tuple[torch.Tensor, str]]:
    """Tensors without dense rows, whose shape would fit if they were dense."""
    shape = (*lead, 2)
    ones = f"torch.ones({list(shape)})"
    parts = max(1, lead[0] if lead else 2)
    rows = [torch.ones(2) for _ in range(parts)]
    found = [
        (torch.ones(shape).to_sparse(), f"{ones}.to_sparse()"),
        (torch.nested.nested_tensor(rows), f"torch.nested.nested_tensor([torch.ones(2)] * {parts})"),
        (
            torch.nested.nested_tensor(rows, layout=torch.jagged),
            f"torch.nested.nested_tensor([torch.ones(2)] * {parts}, layout=torch.jagged)",
        ),
    ]
    if len(shape) == 2:
        found.append((torch.ones(shape).to_sparse_csr(), f"{ones}.to_sparse_csr()"))
    return found


@check("DATA-19")
def sparse_and_nested_tensors_are_refused(lab: Lab) -> None:
    for size, trailing in ((3, ()), (1, ()), (4, (2,))):
        for held in (None, VECTOR):
            for number in range(4):
                setup = Setup(size, 1 + len(trailing), trailing, VECTOR)

                def bad(lead: tuple[int, ...], number: int = number) -> Literal:
                    found = _ragged(lead)
                    return Literal(*found[number % len(found)])

                refused_everywhere(lab, "DATA-19", setup, bad, first=held)


def _sparse_leaf(lead: tuple[int, ...]) -> Literal:
    data = TensorDict({"a": torch.ones(lead), "b": torch.ones(*lead, 2).to_sparse()}, batch_size=lead)
    dense, sparse = f"torch.ones({list(lead)})", f"torch.ones({[*lead, 2]}).to_sparse()"
    return Literal(data, f"TensorDict({{'a': {dense}, 'b': {sparse}}}, batch_size={list(lead)})")


@check("DATA-19")
def sparse_leaves_are_refused(lab: Lab) -> None:
    flat = Fields((("a", SCALAR), ("b", VECTOR)))
    for held in (None, flat):
        refused_everywhere(lab, "DATA-19", Setup(3, 1, (), flat), _sparse_leaf, first=held)
