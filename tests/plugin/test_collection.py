"""What is collected and selected."""

from __future__ import annotations

import pytest

from storage_conformance.requirements import specification, specification_path

CHECKED = [r.id for r in specification().ordered() if r.level != "MAY"]


def collected(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("SPEC.md::")]


def ids(result: pytest.RunResult) -> list[str]:
    return [line.removeprefix("SPEC.md::").partition("[")[0] for line in collected(result)]


def test_one_item_for_each_requirement_in_the_order_of_the_document(conformance):
    result = conformance("stories:Good", "--collect-only", "-q")
    assert collected(result) == [f"SPEC.md::{name}[stories:Good]" for name in CHECKED]


def test_backends_come_one_after_the_other(conformance):
    result = conformance("stories:Good,stories:Bad", "--collect-only", "-q")
    assert ids(result) == CHECKED * 2
    assert all("Good" in line for line in collected(result)[: len(CHECKED)])


def test_without_paths_only_the_suite_is_collected(pytester, conformance):
    pytester.makepyfile(test_own="def test_own(): pass")
    assert ids(conformance("stories:Good", "--collect-only", "-q")) == CHECKED
    assert "test_own" not in conformance("stories:Good", "--collect-only", "-q").stdout.str()


def test_testpaths_do_not_count_as_paths(pytester, conformance):
    pytester.makeini("[pytest]\naddopts = -p fake_campaign\ntestpaths = own\n")
    pytester.mkdir("own").joinpath("test_own.py").write_text("def test_own(): pass")
    assert "test_own" not in conformance("stories:Good", "--collect-only", "-q").stdout.str()


def test_with_paths_the_suite_comes_along(pytester, conformance):
    pytester.makepyfile(test_own="def test_own(): pass")
    result = conformance("stories:Good", "test_own.py")
    assert ids(conformance("stories:Good", "test_own.py", "--collect-only", "-q")) == CHECKED
    assert "test_own.py ." in result.stdout.str()
    assert result.ret == 0


@pytest.mark.parametrize("folder", [".", "sub"])
def test_folders_as_paths_do_not_hide_the_suite(pytester, conformance, folder):
    pytester.mkdir("sub").joinpath("test_own.py").write_text("def test_own(): pass")
    assert ids(conformance("stories:Good", folder, "--collect-only", "-q")) == CHECKED


def test_a_node_id_selects_an_item(conformance):
    result = conformance("stories:Good,stories:Bad", "SPEC.md::LEN-3[stories:Bad]", "--collect-only", "-q")
    assert collected(result) == ["SPEC.md::LEN-3[stories:Bad]"]


def test_a_node_id_without_backend_selects_all_backends(conformance):
    assert (
        len(collected(conformance("stories:Good,stories:Bad", "SPEC.md::LEN-3", "--collect-only", "-q"))) == 2
    )


def test_a_node_id_beside_a_path(pytester, conformance):
    pytester.makepyfile(test_own="def test_own(): pass")
    result = conformance("stories:Good", "test_own.py", "SPEC.md::LEN-3", "--collect-only", "-q")
    assert result.outlines[:2] == ["test_own.py::test_own", "SPEC.md::LEN-3[stories:Good]"]


def test_the_document_itself_selects_the_suite(conformance):
    assert ids(conformance("stories:Good", "SPEC.md", "--collect-only", "-q")) == CHECKED


def test_an_unknown_node_id_is_a_usage_error(conformance):
    result = conformance("stories:Good", "SPEC.md::LEN-999[stories:Good]")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: not found: SPEC.md::LEN-999*"])


def test_k_with_an_id_selects_that_requirement_only(conformance):
    assert ids(conformance("stories:Good", "-k", "LEN-1", "--collect-only", "-q")) == ["LEN-1"]
    assert ids(conformance("stories:Good", "-k", "IDX-1 or len-2", "--collect-only", "-q")) == [
        "LEN-2",
        "IDX-1",
    ]


def test_k_with_a_chapter_selects_that_chapter_only(pytester, conformance):
    pytester.makepyfile(mydataset="from stories import Good")
    found = ids(conformance("mydataset:Good", "-k", "SET", "--collect-only", "-q"))
    assert found == [name for name in CHECKED if name.startswith("SET-")]


def test_k_with_nothing_exits_5(conformance):
    assert conformance("stories:Good", "-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_only_takes_patterns_and_reports_the_deselected(conformance):
    result = conformance("stories:Good", "--conformance-only=CAP-3,LEN-*", "--collect-only", "-q")
    assert ids(result) == [name for name in CHECKED if name == "CAP-3" or name.startswith("LEN-")]
    assert f"{len(CHECKED) - len(ids(result))} deselected" in result.stdout.str()


def test_only_leaves_other_tests_alone(pytester, conformance):
    pytester.makepyfile(test_own="def test_own(): pass")
    result = conformance("stories:Good", "test_own.py", "--conformance-only=CAP-3")
    result.assert_outcomes(passed=2, deselected=len(CHECKED) - 1)


def test_m_selects_by_level_and_id(conformance):
    assert ids(conformance("stories:Good", "-m", "requirement(id='LEN-1')", "--collect-only", "-q")) == [
        "LEN-1"
    ]
    should = [r.id for r in specification().ordered() if r.level == "SHOULD"]
    assert (
        ids(conformance("stories:Good", "-m", "requirement(level='SHOULD')", "--collect-only", "-q"))
        == should
    )


def test_the_marker_is_registered(conformance):
    assert "requirement(id, level)" in conformance("stories:Good", "--markers").stdout.str()


def test_strict_markers_and_warnings_as_errors_are_no_obstacle(conformance):
    assert conformance("stories:Good", "--strict-markers", "--strict-config", "-W", "error").ret == 0


def test_last_failed_runs_the_failed_requirement_only(pytester, conformance):
    pytester.makeini("[pytest]\naddopts = -p fake_campaign\n")
    pytester.makepyfile(test_own="def test_fine(): pass\ndef test_broken(): assert 0")
    assert conformance("stories:Bad", "test_own.py").ret == 1
    result = conformance("stories:Bad", "test_own.py", "--lf", "-v")
    result.assert_outcomes(failed=3)
    assert "SPEC.md::LEN-3[stories:Bad] FAILED" in result.stdout.str()


def test_x_stops_at_the_first_failure(conformance):
    result = conformance("stories:Bad", "-x")
    assert result.parseoutcomes()["failed"] == 1
    assert "not run" in result.stdout.str()


def test_an_item_is_located_at_its_line_of_the_document(conformance, pytester):
    pytester.makeconftest("""
        def pytest_collection_finish(session):
            path, line, name = session.items[0].reportinfo()
            print(f"{path}:{line}:{name}")
    """)
    result = conformance("stories:Good", "SPEC.md::LEN-3", "--collect-only", "-s")
    line = specification().requirements["LEN-3"].line - 1
    assert f"{specification_path()}:{line}:LEN-3[stories:Good]" in result.outlines


@pytest.mark.parametrize("arguments", [("-n", "2"), ("-n", "2", "--dist", "loadgroup")])
def test_xdist_gives_the_same_report(pytester, arguments):
    options = ("--conformance=stories:Good,stories:Bad", "-p", "xdist")
    one = pytester.runpytest_subprocess(*options)
    two = pytester.runpytest_subprocess(*options, *arguments)
    assert two.ret == one.ret == 1
    assert report(two) == report(one)


def report(result: pytest.RunResult) -> list[str]:
    lines = result.outlines
    start = next(n for n, line in enumerate(lines) if "conformance with SPEC" in line)
    end = next(n for n, line in enumerate(lines) if "short test summary" in line)
    return lines[start:end]
