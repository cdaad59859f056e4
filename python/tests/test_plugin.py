"""rf.test and the fixture, in runs of pytest of their own."""

from __future__ import annotations

import pytest
from conftest import ROOT

_HEAD = f"""
import sys
sys.path.insert(0, {str(ROOT / "python" / "tests")!r})
import ringfence as rf
from conftest import EXAMPLES
BROKEN = False

def case(node):
    ranks = node.ranks
    data = node.symmetric("data", 64, "float32", init="integers")
    pad = node.symmetric("pad", ranks, "uint32")
    out = node.local("out", 64, "float32")
    k = rf.ptx(EXAMPLES / ("all_reduce_broken.ptx" if BROKEN else "all_reduce.ptx"), "all_reduce")
    launch = k[1, 64](data.peers, pad.peers, out, rf.rank, rf.world)
    return node.case(launch, calls=2, restored=[pad], modes="stream", expect={{out: "sum"}}, name="all_reduce")

@rf.test(ranks=[2, 4], modes="stream", schedules=20)
def test_all_reduce(node):
    return case(node)
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("RINGFENCE_FINDINGS")
    pytester.makepyfile(test_it=_HEAD)
    return pytester


def test_each_number_of_ranks_is_a_test(folder: pytest.Pytester) -> None:
    result = folder.runpytest_subprocess("-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_all_reduce?2-ranks? PASSED*", "*test_all_reduce?4-ranks? PASSED*"])


def test_a_failure_prints_the_story_and_a_rerun_begins_with_its_trace(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_it=_HEAD.replace("BROKEN = False", "BROKEN = True"))
    result = folder.runpytest_subprocess("--ringfence-html", "pages")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["data-race in boundary mode stream: *", "*all_reduce.cu:40*",
         "replay: python -m ringfence replay ringfence-findings/all_reduce-*/data-race.stream.*.trace.jsonl"]
    )  # fmt: skip
    pages = [p.name for p in (folder.path / "pages").iterdir()]
    assert sorted(pages) == ["test_it.py-test_all_reduce-2-ranks.html", "test_it.py-test_all_reduce-4-ranks.html"]
    again = folder.runpytest_subprocess()
    again.assert_outcomes(failed=2)
    again.stdout.fnmatch_lines(["again, from the trace of the last run:", "data-race in boundary mode stream: *"])
    # Mended, it is another case, which is searched; then nothing is left to begin with.
    folder.makepyfile(test_it=_HEAD)
    folder.runpytest_subprocess().assert_outcomes(passed=2)
    assert list((folder.path / ".pytest_cache" / "d" / "ringfence").iterdir()) == []


def test_a_broken_twin_has_to_be_found(folder: pytest.Pytester) -> None:
    twin = """
@rf.test(ranks=[2], modes="stream", schedules=20, finding="{kind}")
def test_twin(node):
    global BROKEN
    BROKEN = {broken}
    try:
        return case(node)
    finally:
        BROKEN = False
"""
    folder.makepyfile(test_it=_HEAD + twin.format(kind="data-race", broken=True))
    folder.runpytest_subprocess("-k", "twin").assert_outcomes(passed=1)
    assert not (folder.path / "ringfence-findings").exists()
    folder.makepyfile(test_it=_HEAD + twin.format(kind="deadlock", broken=True))
    folder.runpytest_subprocess("-k", "twin").assert_outcomes(failed=1)
    folder.makepyfile(test_it=_HEAD + twin.format(kind="data-race", broken=False))
    folder.runpytest_subprocess("-k", "twin").assert_outcomes(failed=1)


def test_the_command_line_sets_schedules_and_seed(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        test_it=_HEAD
        + """
def test_by_fixture(ringfence):
    result = ringfence(case(rf.Node(2)), schedules=20, modes="stream")
    assert result.executions == 8 and result.json["seed"] == 33

@rf.test(2, check=60, modes="stream")
def test_checked(node, tmp_path):
    assert tmp_path.exists()
    return [case(node)]
"""
    )
    folder.runpytest_subprocess("--ringfence-schedules=7", "--ringfence-seed=33").assert_outcomes(passed=4)


def test_a_function_that_gives_no_case_fails(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_it=_HEAD + "\n@rf.test()\ndef test_none(node):\n    pass\n")
    result = folder.runpytest_subprocess("-k", "none")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_none: expected a case or a list of cases from a test*"])


def test_it_works_under_xdist(folder: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    folder.makepyfile(test_it=_HEAD.replace("BROKEN = False", "BROKEN = True"))
    result = folder.runpytest_subprocess("-n", "2")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["data-race in boundary mode stream: *"])
    folder.runpytest_subprocess("-n", "2").stdout.fnmatch_lines(["again, from the trace of the last run:"])
