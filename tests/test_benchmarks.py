"""The benchmarks can be run, and say what was measured."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from storage_benchmarks.cursors import CONTIGUOUS, SCATTERED, WRAPPING, cursors
from storage_benchmarks.floor import Floor
from storage_benchmarks.goal import at_least, at_most
from storage_benchmarks.plot import throughput
from storage_benchmarks.records import RECORDS, SMALL, leaves
from storage_benchmarks.rounds import WARM_UP, medians
from storage_benchmarks.table import Timing, comparison

ROOT = Path(__file__).parents[1]


def timing(subject, median, **info):
    known = {"what": "write", "record": "64 floats", "batch": 256, "cursor": "slice", "device": "cpu"}
    return Timing(known | {"rows": 10, "capacity": 10, "bytes": 65536, "subject": subject} | info, median)


def test_every_operation_has_its_turn_in_every_round():
    called = []
    times = medians(
        {"one": lambda turn: called.append(("one", turn)), "two": lambda turn: called.append(("two", turn))},
        9,
    )
    assert sorted(called) == [(name, turn) for name in ("one", "two") for turn in range(-WARM_UP, 9)]
    assert len({name for name, turn in called[::2]}) == 2
    assert times.keys() == {"one", "two"}


def test_a_goal_is_met_on_one_side_of_its_bound():
    assert at_most("", ours=2.4, others=2, bound=1.25).met
    assert not at_most("", ours=2.6, others=2, bound=1.25).met
    assert at_least("", ours=1, others=4, bound=4).met
    assert not at_least("", ours=1, others=3.9, bound=4).met
    assert str(at_least("quick", ours=1, others=2, bound=4)) == "FAIL     2.00 >= 4     quick"


@pytest.mark.parametrize("kind", [*CONTIGUOUS, *WRAPPING, SCATTERED])
def test_cursors_address_as_many_rows_as_they_say(kind):
    for index in cursors(kind, 50, 8, seed="x"):
        rows = torch.arange(50)[index if not isinstance(index, range) else list(index)].tolist()
        assert len(set(rows)) == 8
        steps = {(b - a) % 50 for a, b in pairwise(rows)}
        assert (steps == {1}) == (kind != SCATTERED)
        assert (rows != sorted(rows)) == (kind in (*WRAPPING, SCATTERED))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_bare_tensors_are_written_and_read_as_they_should_be(record):
    floor, given, rows = Floor(record, 9), leaves(record.make(3)), torch.tensor([7, 0, 4])
    for scatter in floor.scatters().values():
        for tensor in floor.tensors:
            tensor.zero_()
        scatter(rows, given)
        for gather in floor.gathers().values():
            assert all(torch.equal(found, leaf) for found, leaf in zip(gather(rows), given, strict=True))
    floor.copy_twice(torch.tensor([8, 0, 1]), given)
    assert all(
        torch.equal(tensor[[8, 0, 1]], leaf) for tensor, leaf in zip(floor.tensors, given, strict=True)
    )


def test_the_table_has_a_line_for_each_case_and_a_column_for_each_subject():
    found = [
        timing("reference", 5.123),
        timing("other", 1234.5),
        timing("other", 7.0, cursor="row", batch=1, rows=5),
        timing("bandwidth", 1.0, what="copy"),
    ]
    assert comparison(found).splitlines() == [
        "| median, microseconds | reference | other |",
        "| --- | ---: | ---: |",
        "| write 256 rows of 64 floats, slice | 5.1 | 1,234 |",
        "| write one item of 64 floats, 50 % full |  | 7.0 |",
    ]


def test_the_plot_is_a_line_for_each_storage_and_one_for_the_bandwidth():
    found = [
        timing("reference", 5.0),
        timing("reference", 9.0, bytes=2**20),
        timing("a<b", 50.0),
        timing("cpprb 11.0", 1.0),
        timing("bandwidth", 3000.0, what="copy", bytes=2**26),
    ]
    drawn = ElementTree.fromstring(throughput(found))
    names = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert names == ["reference, slice", "a<b, slice"]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 3


def test_small_writes_and_reads_are_measured_beside_bare_tensors():
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "benchmarks",
                "--benchmark-disable",
                "--storages=reference",
                "-rA",
            ),
            *("-p", "no:cacheprovider", "-q", "-k", f"(write or read) and {SMALL.name}-16"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for subject in ("reference", "bare torch"):
        for case in (
            "test_write[%s-small-16-slice]",
            "test_write[%s-small-16-scattered]",
            "test_read[%s-small-16]",
        ):
            assert f"PASSED benchmarks/test_rows.py::{case % subject}" in done.stdout
    assert "cpprb 11.0 is measured with 256 small rows" in done.stdout
