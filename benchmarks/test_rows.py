"""Writing and reading rows: records, batch sizes, kinds of cursor, fill levels, devices."""

import pytest
from storage_benchmarks.cursors import CONTIGUOUS, WRAPPING
from storage_benchmarks.records import FRAMES, RECORDS, SMALL
from storage_benchmarks.subjects import Case

SIZES = [
    (record, batch)
    for record in RECORDS
    for batch in (1, 16, 256, 4096)
    if batch <= record.capacity // 2  # a batch is not the whole storage
]


@pytest.mark.parametrize("cursor", ["slice", "scattered"])
@pytest.mark.parametrize(("record", "batch"), SIZES, ids=lambda value: getattr(value, "name", value))
def test_write(measure, record, batch, cursor):
    measure(Case(record, batch, cursor), "write")


@pytest.mark.parametrize(("record", "batch"), SIZES, ids=lambda value: getattr(value, "name", value))
def test_read(measure, record, batch):
    measure(Case(record, batch, "scattered"), "read")


@pytest.mark.parametrize("cursor", ["row", *CONTIGUOUS[1:], *WRAPPING])
@pytest.mark.parametrize("record", [SMALL, FRAMES], ids=lambda record: record.name)
def test_cursors(measure, record, cursor):
    measure(Case(record, 1 if cursor == "row" else 256, cursor), "write")


@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("what", ["write", "read"])
def test_storages_that_are_not_full(measure, share, what):
    measure(Case(SMALL, 256, "scattered", rows=int(share * SMALL.capacity)), what)


@pytest.mark.parametrize("what", ["write", "read"])
@pytest.mark.parametrize("record", [SMALL, FRAMES], ids=lambda record: record.name)
def test_on_cuda(measure, record, what):
    measure(Case(record, 256, "scattered", device="cuda"), what)
