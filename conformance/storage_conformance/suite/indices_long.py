"""Chapter IDX: indices of every length, up to a few hundred rows: short cuts begin and end anywhere."""

from __future__ import annotations

from storage_conformance.index import Index
from storage_conformance.lab import Lab
from storage_conformance.structure import Leaf
from storage_conformance.suite.bench import Bench
from storage_conformance.suite.check import check
from storage_conformance.suite.grounds import Ground
from storage_conformance.suite.turns import every, in_turn, reading

ROWS = 300
WIDE = Ground(ROWS, (), ROWS)
LENGTHS = (*range(5, 36), 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257, ROWS)
FEWER = (9, 17, 33, 65, 129, 257)
"""One above each power of two: writing is compared row by row, which takes its time."""
_SCATTER = 131
"""Has no factor in common with `ROWS`, so that its multiples come by each row once."""

FORMS = ("slice", "range", "list", "tensor", "int32", "grid", "mask")
ANSWERS: dict[str, str] = dict(
    zip(FORMS, ("IDX-5", "IDX-6", "IDX-7", "IDX-8", "IDX-8", "IDX-9", "IDX-10"), strict=True)
)


def of_length(form: str, length: int) -> Index:
    """An index of this form that names `length` different rows."""
    scattered = tuple(number * _SCATTER % ROWS for number in range(length))
    if form == "slice":
        return Index(form, (ROWS - length, None, None))
    if form == "range":
        return Index(form, (length - 1, -1, -1))
    if form == "grid":
        return Index(form, ((1, length), scattered))
    if form == "mask":
        return Index(form, tuple(row in scattered for row in range(ROWS)))
    return Index(form, scattered)


@check("IDX-5", "IDX-6", "IDX-7", "IDX-8", "IDX-9", "IDX-10")
def an_index_of_any_length_reads_its_rows(lab: Lab) -> None:
    for form in FORMS:
        lab.start()
        acts = (reading(ANSWERS[form], of_length(form, length)) for length in LENGTHS)
        in_turn(lambda: Bench(lab, WIDE, Leaf()), acts)


@check("IDX-5", "IDX-6", "IDX-7", "IDX-8", "IDX-9", "IDX-10")
def an_index_of_any_length_writes_its_rows(lab: Lab) -> None:
    def write(form: str) -> None:
        bench = Bench(lab, WIDE, Leaf())
        for length in FEWER:
            index = of_length(form, length)
            bench.assign(ANSWERS[form], index, addressed_only=True)
            bench.set(ANSWERS[form], index, addressed_only=True)

    for form in FORMS:
        every(lab, ANSWERS[form], (form,), write)
