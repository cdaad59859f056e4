"""The figures of docs/python.md: import, describing a launch, fuzz against the command line, a hundred cases in pytest.

    python python/bench.py        # with the wheel installed, and pytest and pytest-xdist
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parent / "tests"
sys.path.insert(0, str(TESTS))

HUNDRED = """
import sys
sys.path.insert(0, {tests!r})
import ringfence as rf
from conftest import EXAMPLES
import pytest

@pytest.mark.parametrize("n", range(100))
def test_case(n, ringfence):
    node = rf.Node(2)
    data = node.symmetric("data", 64, "float32", init="integers")
    pad = node.symmetric("pad", 2, "uint32")
    out = node.local("out", 64, "float32")
    k = rf.ptx(EXAMPLES / "all_reduce.ptx", "all_reduce")
    launch = k[1, 64](data.peers, pad.peers, out, rf.rank, rf.world)
    case = node.case(launch, calls=2, restored=[pad], modes="stream", expect={{out: lambda rank, inputs: sum(inputs[data])}})
    ringfence(case, schedules=50, modes="stream", seed=n + 1)
"""


def cpu() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def imported() -> None:
    def once(code: str) -> tuple[float, float]:
        begin, used = time.perf_counter(), cpu()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begin, cpu() - used

    runs = [(once("pass"), once("import ringfence"), once("import numpy")) for _ in range(15)]
    for what, at in (("wall", 0), ("processor time", 1)):
        bare, ours, numpy = (min(r[i][at] for r in runs) for i in range(3))
        print(f"import, {what}: {1e3 * (ours - bare):.0f} ms, numpy alone {1e3 * (numpy - bare):.0f} ms (least of 15)")


def described() -> None:
    import ringfence as rf
    from conftest import EXAMPLES

    node = rf.Node(4)
    data = node.symmetric("data", 64, "float32", init="integers")
    pad = node.symmetric("pad", 4, "uint32")
    out = node.local("out", 64, "float32")
    k = rf.ptx(EXAMPLES / "all_reduce.ptx", "all_reduce")
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(500):
            k[1, 64](data.peers, pad.peers, out, rf.rank, rf.world)
        times.append((time.perf_counter() - begin) / 500)
    print(f"describing a launch: {1e6 * min(times):.1f} us (least of 20 times 500)")


def fuzzed() -> None:
    import ringfence as rf
    from conftest import all_reduce

    case = all_reduce(4)
    with tempfile.TemporaryDirectory() as folder:
        file = case.save(Path(folder) / "x.toml")
        ratios, cpus, of = [], [], 2000
        for _ in range(7):
            begin, used = time.perf_counter(), cpu()
            case.fuzz(of, boundary="stream", progress=False).require_clean()
            ours, our_cpu = time.perf_counter() - begin, cpu() - used
            begin, used = time.perf_counter(), cpu()
            subprocess.run(
                [rf.program(), "fuzz", "--case", str(file), "--schedules", str(of), "--boundary", "stream",
                 "--executor", "inline"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            theirs, their_cpu = time.perf_counter() - begin, cpu() - used
            ratios.append(ours / theirs)
            cpus.append(our_cpu / their_cpu)
        print(
            f"fuzz of {of} schedules against the command line: {100 * (statistics.median(ratios) - 1):+.1f} % wall, "
            f"{100 * (statistics.median(cpus) - 1):+.1f} % processor time (medians of 7 pairs; the last {theirs:.2f} s)"
        )


def hundred() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_hundred.py").write_text(HUNDRED.format(tests=str(TESTS)))
        begin, used = time.perf_counter(), cpu()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", folder], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
        wall = time.perf_counter() - begin
        print(f"a hundred cases of 51 schedules in pytest -n 2: {wall:.1f} s, {cpu() - used:.1f} s of processor time")


if __name__ == "__main__":
    imported()
    described()
    fuzzed()
    hundred()
