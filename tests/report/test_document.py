"""The report as JSON: what is written fits the schema, and is read back as it was."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest

from storage_conformance.report import document
from storage_conformance.report.report import UnusableReport

SCHEMA = json.loads(resources.files("storage_conformance.report").joinpath("schema.json").read_text())


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("name", ["two", "hostile"])
def test_what_is_written_fits_the_schema_and_is_read_back(request, validator, name):
    report = request.getfixturevalue(name)
    text = document.write(report)
    validator.validate(json.loads(text))
    again = document.read(text, "r.json")
    assert again.runs == report.runs
    assert again.records == report.records
    assert document.write(again) == text


def test_the_schema_says_all_that_is_written_and_what_each_means(two):
    def walk(value, schema):
        if isinstance(value, dict):
            assert set(value) == set(schema["properties"]) == set(schema["required"])
            for name, inner in value.items():
                walk(inner, schema["properties"][name])
        elif isinstance(value, list) and value:
            walk(value[0], schema["items"])

    walk(json.loads(document.write(two)), SCHEMA)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(version=2),
        lambda d: d["results"][0].update(outcome="fine"),
        lambda d: d["results"][0].pop("message"),
        lambda d: d["results"][0].update(evaluations="5"),
        lambda d: d["results"][0].update(evaluations=-1),
        lambda d: d["results"][0].update(requirement="len-3"),
        lambda d: d["results"][0].update(steps="len(storage)"),
        lambda d: d["results"][0].update(steps=[1]),
        lambda d: d["backends"][0].pop("device"),
        lambda d: d["backends"][0].update(seed=True),
        lambda d: d["specification"]["requirements"][0].update(level="OUGHT"),
        lambda d: d["specification"].update(chapters=[1]),
        lambda d: d.update(results={}),
    ],
)
def test_schema_and_reader_refuse_the_same(two, validator, spoil):
    broken = json.loads(document.write(two))
    spoil(broken)
    assert not validator.is_valid(broken)
    with pytest.raises(UnusableReport, match=r"^r\.json"):
        document.read(json.dumps(broken), "r.json")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d["results"].append(d["results"][0]),
        lambda d: d["backends"].append(d["backends"][0]),
        lambda d: d["results"][0].update(backend="nobody"),
        lambda d: d["results"][0].update(requirement="LEN-99999"),
    ],
)
def test_what_a_schema_cannot_say_is_refused_too(two, spoil):
    broken = json.loads(document.write(two))
    spoil(broken)
    with pytest.raises(UnusableReport, match=r"^r\.json"):
        document.read(json.dumps(broken), "r.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", "[" * 100_000])
def test_what_is_no_report_is_refused_with_a_sentence(text):
    with pytest.raises(UnusableReport, match=r"^r\.json is no (JSON|conformance report)"):
        document.read(text, "r.json")


def test_members_of_a_later_version_are_ignored(two):
    later = json.loads(document.write(two))
    later["results"][0]["colour"] = "blue"
    assert document.read(json.dumps(later), "r.json").records == two.records


def test_an_interrupted_run_is_not_conformant(one):
    assert one().conformant(one().runs[0])
    stopped = one(run={"interrupted": True})
    assert not stopped.conformant(stopped.runs[0])
    assert stopped.sentence(stopped.runs[0]).endswith("(interrupted)")
