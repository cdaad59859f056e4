#!/usr/bin/env python3
"""Kills, limits, signals and crowds: what befalls a process is no finding, and leaves nothing behind.

  limits.py RINGFENCE [--seed N] [--slack S] [kills|limits|signals|crowd|findings ...]

Plays 110 kills (of the program and of a rank), 27 runs under limits of memory, of file sizes and of
open files, 60 signals, 20 runs at once, and 200 findings at a load of 16, all of which have to be
confirmed; each run in a folder of its own. Prints what falls short; exit status 0 if nothing does.
--slack: seconds beyond the one that is promised, for a busy machine.
"""

import argparse
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

SMALL = ["--ranks", "2", "--blocks", "1", "--tokens", "4", "--hidden", "8", "--inner", "8"]

# What runs for long, by name: a command each for the phases of the subcommands.
LONG = {
    "run": ["run", "--protocol", "pypto", "--ranks", "4", "--tokens", "512", "--inner", "512",
            "--hidden", "2048", "--calls", "4", "--output", "out.safetensors"],
    "fuzz": ["fuzz", "--ranks", "4", "--boundary", "coherent", "--time", "100", "--json", "r.json"],
    "fuzz-inline": ["fuzz", "--ranks", "4", "--boundary", "coherent", "--time", "100",
                    "--executor", "inline", "--jobs", "2"],
    "fuzz-finds": ["fuzz", "--protocol", "tokenweave", "--ranks", "4", "--blocks", "2", "--tokens",
                   "8", "--hidden", "64", "--inner", "64", "--calls", "3", "--set", "end.put=relaxed",
                   "--schedules", "100000000"],
    "check": ["check", "--protocol", "pypto", "--ranks", "4", "--blocks", "1", "--tokens", "8",
              "--hidden", "8", "--inner", "16", "--calls", "3", "--arrivals", "order",
              "--resume", "left"],
    "relax": ["relax", "--ranks", "3", "--blocks", "1", "--tokens", "6", "--hidden", "8", "--inner",
              "12", "--calls", "2"],
    "simulate": ["simulate", "--transport", "put", "--ranks", "72", "--tokens", "65536"],
    "prepare": ["run", "--ranks", "2", "--tokens", "4096", "--inner", "4096", "--hidden", "8192",
                "--payload", "normal"],
}
# Files that may be there after a run that was ended.
KEPT = {"left", "r.json", "out.safetensors"}


class Failures:
    def __init__(self):
        self.all = []
        self.runs = 0

    def check(self, right, what):
        if not right:
            self.all.append(what)
            print("FALLS SHORT:", what, flush=True)


def members(session):
    """The processes of a session, but for those that have ended."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        name_end = stat.rindex(")")
        state, _, _, of_session = stat[name_end + 2:].split()[:4]
        if int(of_session) == session and state not in "ZX":
            found.append((int(entry), stat[stat.index("(") + 1:name_end]))
    return found


def start(program, command, folder, limit=None):
    return subprocess.Popen(
        [program, *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=limit)


def left_behind(process, folder, failures, what):
    end = time.monotonic() + 5
    while members(process.pid) and time.monotonic() < end:
        time.sleep(0.02)
    failures.check(not members(process.pid), f"{what}: processes are left: {members(process.pid)}")
    files = {p.name for p in pathlib.Path(folder).rglob("*") if p.is_file()}
    strange = {f for f in files if f not in KEPT and not f.endswith(".trace.jsonl")}
    failures.check(not strange, f"{what}: files are left: {sorted(strange)}")


def end_all(process):
    for pid, _ in members(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def told_wrong(out, err):
    for words in ("rank-lost", "executors disagree", "internal error", "bug in ringfence"):
        if words in out + err:
            return words
    return None


def kills(program, rng, failures, _slack):
    for i in range(110):
        name = rng.choice(["run", "fuzz", "fuzz-finds", "check"])
        of_rank = i % 2 == 0 and name in ("run", "fuzz")
        command = [str(a) for a in LONG[name]]
        if name == "fuzz":
            command[command.index("--time") + 1] = "3"
        what = f"kill {i} of {'a rank of ' if of_rank else ''}{name}"
        failures.runs += 1
        with tempfile.TemporaryDirectory() as folder:
            process = start(program, command, folder)
            time.sleep(rng.uniform(0, 1.5))
            if of_rank:
                ranks = [pid for pid, title in members(process.pid)
                         if pid != process.pid and title]
                if ranks:
                    os.kill(rng.choice(ranks), signal.SIGKILL)
            else:
                process.kill()
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                failures.check(False, f"{what}: it does not end")
                end_all(process)
                out, err = process.communicate()
            if of_rank:
                failures.check(process.returncode in (0, 3), f"{what}: status {process.returncode}")
                wrong = told_wrong(out, err)
                failures.check(wrong is None, f"{what}: it tells of '{wrong}'")
            else:
                failures.check(process.returncode in (0, 1, 3, -signal.SIGKILL),
                               f"{what}: status {process.returncode}")
            left_behind(process, folder, failures, what)


def limits(program, _rng, failures, _slack):
    mebi = 1 << 20
    finds = ["fuzz", "--protocol", "tokenweave", *SMALL, "--boundary", "coherent",
             "--set", "end.put=relaxed"]
    clean = ["run", "--ranks", "4", "--tokens", "64", "--hidden", "1024", "--inner", "64",
             "--output", "out.safetensors"]
    search = ["check", "--protocol", "tokenweave", *SMALL, "--calls", "2"]
    rows = []
    for size in (20, 40, 80, 120, 160, 240, 400):
        for command in (finds, clean, search):
            rows.append((f"ulimit -v {size} MiB", resource.RLIMIT_AS, size * mebi, command))
    for size in (0, 512, 65536):
        for command in (finds, clean):
            rows.append((f"ulimit -f {size} bytes", resource.RLIMIT_FSIZE, size, command))
    for what, which, size, command in rows:
        what = f"{what}, {command[0]}"
        failures.runs += 1
        with tempfile.TemporaryDirectory() as folder:
            process = start(program, command, folder,
                            lambda w=which, s=size: resource.setrlimit(w, (s, s)))
            try:
                out, err = process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                failures.check(False, f"{what}: it does not end")
                end_all(process)
                out, err = process.communicate()
            status = process.returncode
            # 127: the loader itself found no memory for the program.
            failures.check(status in (0, 1, 2, 127), f"{what}: status {status}: {err[-200:]}")
            failures.check(status != 2 or len(err.splitlines()) == 1,
                           f"{what}: more than a line: {err[-300:]}")
            judged = "\nFINDING" in out or "\nFAIL in" in out
            failures.check(not judged or status == 1,
                           f"{what}: a finding was told, and the status is {status}")
            wrong = told_wrong(out, err)
            failures.check(wrong is None, f"{what}: it tells of '{wrong}'")
            left_behind(process, folder, failures, what)


def signals(program, rng, failures, slack):
    for i in range(60):
        name = list(LONG)[i % len(LONG)]
        number = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)[i % 3]
        what = f"{number.name} {i} of {name}"
        failures.runs += 1
        with tempfile.TemporaryDirectory() as folder:
            process = start(program, LONG[name], folder)
            time.sleep(rng.uniform(0.1, 3))
            began = time.monotonic()
            process.send_signal(number)
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                failures.check(False, f"{what}: it does not end")
                end_all(process)
                out, err = process.communicate()
            seconds = time.monotonic() - began
            failures.check(process.returncode in (0, 1, 4), f"{what}: status {process.returncode}")
            failures.check(seconds < 1 + slack, f"{what}: {seconds:.1f} s")
            wrong = told_wrong(out, err)
            failures.check(wrong is None, f"{what}: it tells of '{wrong}'")
            left_behind(process, folder, failures, what)


def crowd(program, _rng, failures, _slack):
    command = ["fuzz", "--protocol", "tokenweave", "--ranks", "3", "--blocks", "1", "--tokens", "6",
               "--hidden", "8", "--inner", "12", "--set", "end.put=relaxed", "--schedules", "50"]
    with tempfile.TemporaryDirectory() as root:
        runs = []
        for i in range(20):
            folder = pathlib.Path(root, str(i))
            folder.mkdir()
            runs.append((start(program, command, folder), folder))
        traces = set()
        for i, (process, folder) in enumerate(runs):
            what = f"run {i} of 20 at once"
            failures.runs += 1
            try:
                out, err = process.communicate(timeout=600)
            except subprocess.TimeoutExpired:
                failures.check(False, f"{what}: it does not end")
                end_all(process)
                continue
            failures.check(process.returncode == 1, f"{what}: status {process.returncode}")
            wrong = told_wrong(out, err)
            failures.check(wrong is None, f"{what}: it tells of '{wrong}'")
            failures.check("unconfirmed" not in out, f"{what}: not confirmed")
            traces.add(tuple(sorted((p.name, p.read_text()) for p in folder.rglob("*.trace.jsonl"))))
            left_behind(process, folder, failures, what)
        failures.check(len(traces) == 1, f"20 at once: {len(traces)} different sets of traces")


def faults():
    """Commands with a finding each, of the zoo's kernels and of the protocols."""
    zoo = pathlib.Path(__file__).resolve().parent.parent / "zoo"
    found = [["fuzz", "--case", str(case)] for case in sorted(zoo.glob("*-fault.toml"))]
    for protocol, setting in (("tokenweave", "end.put=relaxed"), ("tokenweave", "end=none"),
                              ("pypto", "signal.order=relaxed"), ("pypto", "wait.order=relaxed")):
        found.append(["fuzz", "--protocol", protocol, *SMALL, "--set", setting])
    return found


def findings(program, _rng, failures, _slack):
    """The load is made by the runs themselves: 16 of them at any time, in turns over processes and
    inline, each command with seeds of its own."""
    commands = faults()
    waiting = [(i, commands[i % len(commands)]) for i in range(200)]
    running = []
    with tempfile.TemporaryDirectory() as root:
        while waiting or running:
            while waiting and len(running) < 16:
                i, command = waiting.pop(0)
                folder = pathlib.Path(root, str(i))
                folder.mkdir()
                executor = ("processes", "inline")[i // len(commands) % 2]
                command = [*command, "--seed", str(i + 1), "--schedules", "500", "--executor", executor]
                out = open(folder.with_suffix(".out"), "w+")
                process = subprocess.Popen(
                    [program, *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=subprocess.STDOUT, text=True, start_new_session=True)
                running.append((i, command, process, folder, out))
            time.sleep(0.05)
            ended = [run for run in running if run[2].poll() is not None]
            running = [run for run in running if run not in ended]
            for i, command, process, folder, out in ended:
                out.seek(0)
                text = out.read()
                out.close()
                what = f"finding {i}, {' '.join(command[1:])}"
                failures.runs += 1
                failures.check(process.returncode == 1, f"{what}: status {process.returncode}: {text[-300:]}")
                wrong = told_wrong(text, "")
                failures.check(wrong is None, f"{what}: it tells of '{wrong}'")
                failures.check("unconfirmed" not in text, f"{what}: not confirmed")
                failures.check(any(folder.rglob("*.trace.jsonl")), f"{what}: no trace")
                left_behind(process, folder, failures, what)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ringfence")
    parser.add_argument("parts", nargs="*", help="kills, limits, signals, crowd, findings (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slack", type=float, default=0.0)
    options = parser.parse_intermixed_args()
    program = os.path.abspath(options.ringfence)
    parts = {"kills": kills, "limits": limits, "signals": signals, "crowd": crowd,
             "findings": findings}
    for part in options.parts:
        if part not in parts:
            parser.error(f"{part}: expected one of {', '.join(parts)}")
    failures = Failures()
    for name, part in parts.items():
        if options.parts and name not in options.parts:
            continue
        before = failures.runs
        part(program, random.Random(options.seed), failures, options.slack)
        print(f"{name}: {failures.runs - before} runs", flush=True)
    print(f"{failures.runs} runs, {len(failures.all)} fall short")
    return 1 if failures.all else 0


if __name__ == "__main__":
    sys.exit(main())
