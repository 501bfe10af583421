"""Chapter QRY: iteration and `in` tell which rows can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import numpy
import torch

from storage_conformance.batch import Batch
from storage_conformance.index import Index, at
from storage_conformance.lab import Lab
from storage_conformance.recorder import Raised, Violation
from storage_conformance.structure import Fields, Node
from storage_conformance.subject import Literal, Subject
from storage_conformance.suite.check import check
from storage_conformance.suite.data import SCALAR, step
from storage_conformance.suite.data_optional import TREES
from storage_conformance.suite.picture import contents
from storage_conformance.suite.states import Shape, holds, states
from storage_conformance.suite.stories import SHAPES, all_of
from storage_conformance.trial import Setup, Trial


@check("QRY-2")
def iteration_gives_all_rows_and_stops(lab: Lab) -> None:
    def iterate(shape: Shape, prepare: Callable[[], Subject]) -> None:
        lab.start()
        storage = prepare()
        with lab.checking("LEN-7"):
            found = storage.attribute("shape")
            rows = 0 if found is None else int(found[0])
        with lab.checking("GET-2"):
            expected = [contents(storage.get(at(row))) for row in range(rows)]
        with lab.checking("QRY-2"):
            for _ in range(2):
                items = storage.evaluate("list({})", lambda raw: list(islice(iter(raw), rows + 3)))
                if len(items) != rows:
                    claim = f"len(list(storage)) == {rows}"
                    raise Violation(
                        f"iteration gave {len(items)} items of {rows} rows",
                        claim=claim,
                        actual=str(len(items)),
                    )
                if [contents(item) for item in items] != expected:
                    raise Violation(
                        "iteration gave other items than get(0), get(1), ...",
                        claim="[*map(str, storage)] == [str(storage.get(row)) for row in range(storage.shape[0])]",
                    )
            pairs = storage.evaluate(
                "list(zip({0}, {0}))".replace("{0}", "{}"),
                lambda raw: list(islice(zip(raw, raw, strict=False), rows + 3)),
            )
            if [contents(second) for _, second in pairs] != expected:
                raise Violation(
                    "two iterations at the same time disturb each other",
                    claim="all(str(one) == str(other) for one, other in zip(storage, storage))",
                )

    all_of(
        lab,
        "QRY-2",
        [partial(iterate, shape, prepare) for shape in SHAPES for prepare in states(lab, shape)],
    )


@check("QRY-2", "QRY-3")
def every_kind_of_item_is_iterated(lab: Lab) -> None:
    nodes: list[Node] = [SCALAR, step(), Fields(())]
    if lab.claims("pytree"):
        nodes.append(TREES[0])
    for shape in SHAPES:
        for node in nodes:
            trial = Trial(lab, Setup(shape[0], 1 + len(shape[1]), shape[1], node))
            for index in (at(0), Index("range", (0, trial.model.capacity))):
                trial.write(index, Batch(node, trial.model.for_writing(index).lead))
                trial.look()


def _integers(rows: int) -> Iterable[int]:
    return sorted({*range(-rows - 2, rows + 3), 10**6, -(10**6), 2**70, -(2**70), 2**31, 2**63})


@check("QRY-3")
def a_row_is_in_the_storage_if_it_can_be_read(lab: Lab) -> None:
    def ask(shape: Shape, prepare: Callable[[], Subject]) -> None:
        lab.start()
        storage = prepare()
        with lab.checking("LEN-7"):
            found = storage.attribute("shape")
            rows = 0 if found is None else int(found[0])
        with lab.checking("QRY-3"):
            for row in _integers(rows):
                inside, expected = holds(storage, Literal(row, str(row))), -rows <= row < rows
                if inside is not expected:
                    claim = f"({row} in storage) is {expected}"
                    raise Violation(
                        f"{row} in storage is {inside} with {rows} readable rows",
                        claim=claim,
                        actual=str(inside),
                    )
            for stranger in (
                Literal("0", "'0'"),
                Literal(0.5, "0.5"),
                Literal(None, "None"),
                Literal(float("nan"), "float('nan')"),
            ):
                if _affirmed(storage, stranger):
                    raise Violation(
                        f"{stranger.text} in storage is True",
                        claim=f"{stranger.text} not in storage",
                        actual="True",
                    )

    all_of(lab, "QRY-3", [partial(ask, shape, prepare) for shape in SHAPES for prepare in states(lab, shape)])


def _affirmed(storage: Subject, stranger: Literal) -> bool:
    """Whether something that is no integer is said to be in the storage; to raise is another way to say no."""
    try:
        return holds(storage, stranger)
    except Raised:
        storage.program.precede("with contextlib.suppress(Exception): ")
        return False


@check("QRY-4")
def integers_of_every_type_are_asked_alike(lab: Lab) -> None:
    def ask(shape: Shape, prepare: Callable[[], Subject]) -> None:
        lab.start()
        storage = prepare()
        with lab.checking("LEN-7"):
            found = storage.attribute("shape")
            rows = 0 if found is None else int(found[0])
        with lab.checking("QRY-4"):
            for row in range(-rows - 2, rows + 2):
                for spelled in _spellings(row):
                    inside, expected = holds(storage, spelled), -rows <= row < rows
                    if inside is not expected:
                        claim = f"({spelled.text} in storage) is {expected}"
                        message = f"{spelled.text} in storage is {inside} with {rows} readable rows"
                        raise Violation(message, claim=claim, actual=str(inside))

    all_of(lab, "QRY-4", [partial(ask, shape, prepare) for shape in SHAPES for prepare in states(lab, shape)])


def _spellings(row: int) -> Iterator[Literal]:
    for kind in ("int64", "int32", "int8", *(("uint8", "uint64") if row >= 0 else ())):
        yield Literal(getattr(numpy, kind)(row), f"numpy.{kind}({row})")
    for name in ("int64", "int32"):
        yield Literal(
            torch.tensor(row, dtype=getattr(torch, name)), f"torch.tensor({row}, dtype=torch.{name})"
        )
