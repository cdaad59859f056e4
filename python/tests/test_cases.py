"""Cases that the program runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import ringfence as rf
from conftest import EXAMPLES, NUMBERS, ROOT, all_reduce
from ringfence import _program


def test_a_right_kernel_is_clean_by_numpys_sums() -> None:
    case = all_reduce()
    result = case.fuzz(schedules=50, boundary="stream")
    assert result.require_clean() is result and result.clean and bool(result)
    assert result.modes == {"stream": "pass"} and result.executions == 51 and result.notes == {}


def test_a_missing_barrier_is_found_told_kept_and_replays() -> None:
    case = all_reduce(broken=True)
    result = case.fuzz(schedules=50, boundary="stream")
    with pytest.raises(rf.FindingError) as caught:
        result.require_clean()
    found = result.require_finding("data-race")
    assert str(caught.value) == found.text
    assert "all_reduce.cu:40" in found.text and "a release by the first that the second acquires" in found.text
    assert found.confirmed and found.trace is not None and found.trace.exists()
    assert f"replay: {found.replay_command}" in found.text
    # As the story says it, from where the test runs.
    command = [sys.executable, *found.replay_command.split()[1:]]
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1 and "the recorded run, bit for bit" in again.stdout
    for trace in (found, found.trace, found.token):
        replayed = case.replay(trace)
        assert replayed.reproduced and replayed.finding.kind == "data-race"


def test_only_the_case_that_a_trace_is_of_replays_it() -> None:
    found = all_reduce(broken=True).fuzz(schedules=5, boundary="stream").require_finding()
    with pytest.raises(rf.InputError, match="is not that of the trace"):
        all_reduce().replay(found)
    with pytest.raises(rf.InputError, match="cannot be read"):
        all_reduce().replay("none.trace.jsonl")


def test_a_finding_shows_as_text_and_as_a_page() -> None:
    result = all_reduce(broken=True).fuzz(schedules=5, boundary="stream")
    page = result._repr_html_()
    assert "<iframe" in page and "srcdoc=" in page and "data-race" in page
    assert "<html" in result.finding.html and "</html>" in result.finding.html
    assert all_reduce().fuzz(schedules=5, boundary="stream")._repr_html_().startswith("<pre>")


def test_a_wrong_expectation_is_a_mismatch() -> None:
    node = rf.Node(2)
    case = all_reduce(2, expect={"out": lambda rank, inputs: sum(inputs["data"]) + (rank == 1)})
    found = case.fuzz(schedules=5, boundary="stream").require_finding("numeric-mismatch")
    assert "64 of 64 elements mismatch, first [0] of rank 1" in found.text
    del node


def test_expected_values_know_the_call_and_may_be_arrays() -> None:
    node = rf.Node(2)
    out = node.local("out", 4, "uint32")
    k = rf.ptx(NUMBERS, "numbers")

    def case(expect: object) -> rf.Case:
        launch = k[1, 1](out, rf.call + 1, 0.0, lambda rank, call: (rank + 1) * 1000 + (call == 2) * 7)
        return node.case(launch, calls=4, expect={out: expect})

    def right(rank: int, inputs: object, call: int) -> list[int]:
        return [call + 1, 0, (rank + 1) * 1000 + (call == 2) * 7, 0]

    case(right).run().require_clean()
    case(lambda rank, call: right(rank, None, call)).run().require_clean()
    wrong = case(lambda rank, call: right(rank, None, 0)).fuzz(5, boundary="stream")
    assert "call 1" in wrong.require_finding("numeric-mismatch").text
    last = [np.array(right(r, None, 3), "u4") for r in range(2)]
    case(rf.expected(last, calls=[3])).run().require_clean()
    case(rf.expected(last, calls=[2])).fuzz(5, boundary="stream").require_finding("numeric-mismatch")


def test_scalars_arrive_as_their_types() -> None:
    node = rf.Node(2)
    out = node.local("out", 4, "uint32")
    k = rf.ptx(NUMBERS, "numbers")
    result = node.case(k[1, 1](out, -5, 0.1, 2**64 - 3)).run()
    assert result[out].shape == (2, 4)
    assert result[out][0].view("i4")[0] == -5
    assert result["out"][1].view("f4")[1] == np.float32(0.1)
    assert result[out][1][2:].view("u8")[0] == 2**64 - 3
    result = node.case(k[1, 1](out, lambda r: -r, lambda r, c: r + 0.5, rf.f64(0.25)), calls=2).run()
    assert [result[out][r].view("i4")[0] for r in range(2)] == [0, -1]
    assert [result[out][r].view("f4")[1] for r in range(2)] == [0.5, 1.5]
    assert result[out][0][2:].view("f8")[0] == 0.25


def test_memories_after_a_run_are_arrays_of_their_shape() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    node = rf.Node(2)
    x = node.symmetric("x", (2, 3), "bfloat16", init=[np.arange(6).reshape(2, 3) * (r + 1) for r in range(2)])
    pad = node.local("pad", 4, "uint8", init=7)
    result = node.case(rf.ptx(NUMBERS, "nothing")[1, 1](x, pad)).run().require_clean()
    assert result[x].dtype == ml_dtypes.bfloat16 and result[x].shape == (2, 2, 3)
    np.testing.assert_array_equal(result[x].astype("f4")[1], np.arange(6).reshape(2, 3) * 2)
    np.testing.assert_array_equal(result[pad], np.full((2, 4), 7, "u1"))


def test_check_proves_and_relax_tells_what_is_needed() -> None:
    case = all_reduce(2, calls=1)
    proved = case.check(boundary="stream", time=60)
    assert proved.verdict == "pass", proved.text
    node = rf.Node(3)
    word, out = node.symmetric("word", 1, "uint32"), node.local("out", 1, "uint32")
    tickets = node.case(rf.ptx(NUMBERS, "ticket")[1, 1](word.of(0), out))
    assert tickets.check(boundary="stream").require_clean().executions >= 6  # orders of three
    with pytest.raises(rf.UnknownError):
        tickets.check(boundary="stream", executions=2).require_clean()
    table = case.relax(boundary="stream", fuzz=50)
    sites = table["stream"]
    assert sites and all(s.present for s in sites)
    needed = [s for s in sites if "acquire" in s.present and s.needed]
    assert needed, str(table)


def test_a_free_run_that_fails_tells_the_story_and_has_no_trace() -> None:
    node = rf.Node(2)
    out = node.local("out", 1, "uint32")
    result = node.case(rf.ptx(NUMBERS, "numbers")[1, 1](out, 1, 2.0, 3)).run()
    assert result.kind == "out-of-bounds" and result.finding.trace is None
    assert "out-of-bounds" in result.finding.text
    with pytest.raises(rf.InputError, match="no trace"):
        node.case(rf.ptx(NUMBERS, "numbers")[1, 1](out, 1, 2.0, 3)).replay(result.finding)
    with pytest.raises(KeyError):
        result[out]


# One format, two doors.


def _digest(path: Path) -> str:
    done = _program.run(["fuzz", "--case", path.name, "--schedules", "1", "--boundary", "stream"], path.parent)
    digest: str = done.json["configuration"]["case_digest"]
    return digest


def test_a_saved_case_is_the_same_to_the_command_line(tmp_path: Path) -> None:
    case = all_reduce()
    path = case.save(tmp_path / "saved" / "x.toml")
    assert sorted(os.listdir(path.parent)) == ["all_reduce.ptx", "inputs.safetensors", "x.toml"]
    inner = case.fuzz(schedules=1, boundary="stream").json["configuration"]["case_digest"]
    assert _digest(path) == inner
    loaded = rf.load(path)
    assert loaded.fuzz(schedules=20, boundary="stream").require_clean().json["configuration"]["case_digest"] == inner
    assert loaded.run()["out"].shape == (4, 64)
    assert loaded.digest() == rf.load(loaded.save(tmp_path / "again" / "x.toml")).digest()


@pytest.mark.parametrize("name", ["docs/examples/all_reduce_broken.toml", "tests/cases/files/flag-scope.toml"])
def test_case_files_of_the_command_line_are_loaded_searched_and_copied(name: str, tmp_path: Path) -> None:
    case = rf.load(ROOT / name)
    found = case.fuzz(schedules=20, boundary="stream").require_finding()
    assert case.replay(found).reproduced
    copied = rf.load(case.save(tmp_path / "copy" / "case.toml"))
    assert copied.fuzz(schedules=20, boundary="stream").require_finding().kind == found.kind


def test_what_the_program_refuses_is_an_input_error_with_its_line(tmp_path: Path) -> None:
    path = all_reduce().save(tmp_path / "x.toml")
    path.write_text(path.read_text().replace('kind = "local"', 'kind = "far"'))
    with pytest.raises(rf.InputError, match="kind 'far'; known: symmetric, local\\n.*\\| kind = \"far\""):
        rf.load(path).fuzz(schedules=1)
    path.write_text("ranks = [")
    with pytest.raises(rf.InputError, match="x.toml: "):
        rf.load(path)
    with pytest.raises(rf.InputError, match="sumation"):
        all_reduce().fuzz(schedules=1, policy={"sumation": "x"})


# The child process.


def _children(pid: int) -> list[int]:
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(p) for p in out.split()]


_LONG = f"""
import sys
sys.path.insert(0, {str(ROOT / "python" / "tests")!r})
from conftest import all_reduce
import ringfence as rf
print("ready", flush=True)
all_reduce().fuzz(time=600, boundary="stream", executor=sys.argv[1])
"""


@pytest.mark.parametrize("executor", ["inline", "processes"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(executor: str, how: int, tmp_path: Path) -> None:
    """Ctrl-C ends the search with KeyboardInterrupt; a Python that is killed takes its search with it."""
    child = subprocess.Popen(
        [sys.executable, "-c", _LONG, executor], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 60
    programs: list[int] = []
    while time.monotonic() < deadline and not programs:
        programs = _children(child.pid)
        time.sleep(0.05)
    assert programs
    ranks: list[int] = []
    while executor == "processes" and not ranks and time.monotonic() < deadline:
        ranks = _children(programs[0])
        time.sleep(0.05)
    assert bool(ranks) == (executor == "processes")
    time.sleep(1)  # it searches
    child.send_signal(how)
    _, errors = child.communicate(timeout=60)
    if how == signal.SIGINT:
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert [n for n in os.listdir(tmp_path) if n.startswith("ringfence")] == []
    deadline = time.monotonic() + 30
    left = [p for p in programs + ranks if os.path.exists(f"/proc/{p}")]
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = [p for p in left if os.path.exists(f"/proc/{p}")]
    assert left == []


def test_progress_goes_to_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(_program._Bar, "at", lambda self, line: seen.append(line))
    all_reduce().fuzz(schedules=10**8, time=3, boundary="stream").require_clean()
    assert seen and {s["progress"] for s in seen} == {"stream"} and all(s["of"] == 10**8 for s in seen)
    done = [int(str(s["done"])) for s in seen]
    assert done == sorted(done)


def test_python_m_ringfence_is_the_command_line() -> None:
    command = [sys.executable, "-m", "ringfence"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and version.stdout.startswith("ringfence ")
    wrong = subprocess.run([*command, "fly"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "unknown subcommand 'fly'" in wrong.stderr
    done = subprocess.run([*command, "ptx", str(EXAMPLES / "all_reduce.ptx")], capture_output=True, text=True)
    assert done.returncode == 0 and "unsupported: none" in done.stdout


def test_remedies_are_looked_for_as_long_as_asked() -> None:
    case = all_reduce(2)
    relaxed = {"all_reduce.ptx:80/order": "relaxed"}
    found = case.fuzz(5, boundary="stream", set=relaxed, remedies=60).require_finding()
    assert "without all_reduce.ptx:80/order" in found.remedies, found.text
    assert not case.fuzz(5, boundary="stream", set=relaxed, remedies=False).require_finding().remedies
    with pytest.raises(rf.InputError, match="expected True, False or seconds above 0"):
        case.fuzz(5, remedies=-1.0)
