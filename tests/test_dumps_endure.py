"""Short runs of `make crash` and `make fuzz`, and a look at whether these can fail at all.

Each in a process of its own with one thread: threads are lost in a fork.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

IN_PLACE = """
import os, sys
from contextlib import contextmanager
from lazy_tensor_storage import checkpoint

@contextmanager
def in_place(folder, name):
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666, dir_fd=folder)
    yield file
    os.close(file)

checkpoint.replacing = in_place
"""
UNVERIFIED = """
from lazy_tensor_storage import dump_reading

real = dump_reading.Reading.pour

def unverified(self, leaves, done):
    self.places = {
        name: place._replace(checksum=None) if name != "values" else place for name, place in self.places.items()
    }
    return real(self, leaves, done)

dump_reading.Reading.pour = unverified
"""


def run(tool, *arguments, fault=""):
    program = (
        f"{fault}\nimport runpy, sys\n"
        f"sys.argv[1:] = {arguments!r}\n"
        f"runpy.run_path({str(HERE / tool)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_dump_that_does_not_end_leaves_the_old_one_or_the_new_one(tmp_path):
    done = run("crash", "--random", "10", "--sizes", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("killed at a random moment", "killed amid", "refused half done", "no file longer"):
        assert kind in done.stdout


@pytest.mark.slow
def test_a_dump_in_place_is_found_out():
    done = run("crash", "--random", "0", "--sizes", "8", fault=IN_PLACE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "CheckpointError" in done.stdout


@pytest.mark.slow
def test_damaged_dumps_are_refused():
    done = run("fuzz", "--short", "--count", "2000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_load_that_verifies_nothing_is_found_out():
    done = run("fuzz", "--short", "--count", "10", fault=UNVERIFIED)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "loaded something else" in done.stdout
