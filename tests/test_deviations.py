"""Lists of known deviations."""

from __future__ import annotations

from datetime import date

import pytest

from storage_conformance.deviations import load, shipped
from storage_conformance.errors import ConfigurationError
from storage_conformance.requirements import specification

TODAY = date(2027, 1, 31)


def read(tmp_path, text):
    tmp_path.joinpath("known.toml").write_text(text)
    return load("known.toml", specification(), folder=tmp_path, today=TODAY)


def test_entries_are_read(tmp_path):
    found = read(
        tmp_path, '["LEN-3"]\nreason = " counts writes "\nraises = "IndexError"\nuntil = 2027-01-31\n'
    )
    assert found["LEN-3"].reason == "counts writes"
    assert found["LEN-3"].raises == ("IndexError",)
    assert found["LEN-3"].until == TODAY


def test_several_exceptions_and_a_day_in_quotes(tmp_path):
    found = read(
        tmp_path, '["LEN-3"]\nreason = "x"\nraises = ["IndexError", "KeyError"]\nuntil = "2027-02-01"\n'
    )
    assert found["LEN-3"].raises == ("IndexError", "KeyError")
    assert found["LEN-3"].until == date(2027, 2, 1)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("until = 2027-01-30", "which is past"),
        ('until = "soon"', "not a day such as"),
        ("until = 2027-02-01T00:00:00", "not a day such as"),
        ("raises = 3", "not the name of an exception"),
        ("raises = []", "not the name of an exception"),
        ('raises = "Index Error"', "not the name of an exception"),
        ('reasons = "y"', "unknown keys ['reasons']"),
    ],
)
def test_wrong_entries(tmp_path, entry, told):
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, f'["LEN-3"]\nreason = "x"\n{entry}\n')
    assert told in str(caught.value)
    assert "known.toml is wrong: LEN-3" in str(caught.value)


def test_an_unknown_id_with_a_close_one(tmp_path):
    with pytest.raises(
        ConfigurationError, match=r"LEM-3 is no requirement of SPEC\.md .*Did you mean 'LEN-3'"
    ):
        read(tmp_path, '["LEM-3"]\nreason = "x"\n')


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_lists_are_right(name, tmp_path):
    load(name, specification(), folder=tmp_path, today=date.today())
