"""The examples of the documentation run, and what it refers to exists."""

import doctest
import re
from pathlib import Path

import torch
from tensordict import TensorDict, tensorclass

import lazy_tensor_storage
from lazy_tensor_storage import storage

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "reference").rglob("*.py"))


def requirement_ids():
    return set(
        re.findall(r"^#### ([A-Z]+-\d+)$", (ROOT / "SPEC.md").read_text(encoding="utf-8"), re.MULTILINE)
    )


def cited():
    """Requirement ids named after ``Implements:``, ranges spelled out."""
    for source in SOURCES:
        for passage in re.findall(
            r"Implements:([^\"]*?)(?:\n\s*\n|\"\"\"|\.\n|\. )", source.read_text(encoding="utf-8") + "\n\n"
        ):
            for chapter, first, last in re.findall(r"([A-Z]+)-(\d+)(?: to [A-Z]+-(\d+))?", passage):
                yield from (f"{chapter}-{number}" for number in range(int(first), int(last or first) + 1))


def test_the_documented_examples_run():
    names = {"torch": torch, "TensorDict": TensorDict, "tensorclass": tensorclass}
    result = doctest.testmod(storage, extraglobs=names)
    assert result.attempted > 10
    assert result.failed == 0


def test_every_requirement_that_the_code_names_exists():
    assert set(cited()) - requirement_ids() == set()


def test_every_requirement_is_named_where_it_is_met():
    assert requirement_ids() - set(cited()) == set()


def test_the_public_names_are_few():
    assert sorted(lazy_tensor_storage.__all__) == ["CheckpointError", "LazyTensorStorage", "__version__"]
