"""The program `ringfence`: where it is, and how it is run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import InputError, ProgramError, RingfenceError


def program() -> str:
    """The wheel's own, or what RINGFENCE_PROGRAM names, or the one on the PATH."""
    named = os.environ.get("RINGFENCE_PROGRAM")
    if named:
        return named
    own = Path(__file__).parent / "bin" / "ringfence"
    if own.exists():
        return str(own)
    found = shutil.which("ringfence")
    if found is None:
        raise RingfenceError("the program ringfence is missing: install the wheel, or set RINGFENCE_PROGRAM")
    return found


@dataclass
class Done:
    """What came of one run of the program."""

    status: int
    stdout: str
    stderr: str
    json: dict[str, Any]


class _Bar:
    """tqdm where it is installed, else nothing."""

    def __init__(self, wanted: bool | None) -> None:
        self._bar: Any = None
        self._what = ""
        self._make: Any = None
        if wanted is False or (wanted is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            return
        with contextlib.suppress(ImportError):
            from tqdm.auto import tqdm

            self._make = tqdm

    def at(self, line: dict[str, Any]) -> None:
        if self._make is None:
            return
        if line["progress"] != self._what or self._bar is None:
            self.close()
            self._what = line["progress"]
            self._bar = self._make(total=line["of"] or None, desc=self._what, unit=f" {line['unit']}", leave=False)
        self._bar.n = line["done"]
        if line["more"]:
            self._bar.set_postfix_str(line["more"], refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _end(child: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C ends it, by itself; by force where it does not."""
    for how, patience in ((signal.SIGINT, 10.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, None)):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            # Its ranks are of its session: the last resort is for all of them.
            if how == signal.SIGKILL:
                os.killpg(child.pid, how)
            else:
                child.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)


@contextlib.contextmanager
def _ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        _end(child)


def run(arguments: Sequence[str], cwd: Path, *, progress: bool | None = None, ok: Sequence[int] = (0, 1, 3)) -> Done:
    """Runs the program in a folder, with --json; raises what its statuses 2, 4 and 70 mean."""
    with tempfile.TemporaryDirectory(prefix="ringfence-json-") as folder, open(
        os.path.join(folder, "stdout"), "w+b"
    ) as out:
        result = os.path.join(folder, "result.json")
        command = [program(), *arguments, "--json", result, "--progress-json"]
        bar = _Bar(progress)
        errors: list[str] = []
        # Of a session of its own: Ctrl-C on a terminal comes here first, and is handed on once.
        child = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, start_new_session=True
        )
        with _ended(child):
            assert child.stderr is not None
            try:
                for raw in child.stderr:
                    line = raw.decode(errors="replace").rstrip("\n")
                    if line.startswith('{"progress":'):
                        bar.at(json.loads(line))
                    else:
                        errors.append(line)
                child.wait()
            finally:
                bar.close()
                child.stderr.close()
        out.seek(0)
        stdout = out.read().decode(errors="replace")
        document: dict[str, Any] = {}
        if os.path.exists(result):
            document = json.loads(Path(result).read_text())
        stderr = "\n".join(errors)
        status = child.returncode
    if status in ok:
        return Done(status, stdout, stderr, document)
    if status == 2:
        raise InputError(_explained(stderr, cwd))
    if status == 4:
        raise KeyboardInterrupt
    raise ProgramError(f"{' '.join(command)}\nended with status {status}\n{stdout}{stderr}".rstrip())


def _explained(stderr: str, cwd: Path) -> str:
    """The program's line, with the line of the case file that it is about."""
    import re

    text = stderr.removeprefix("ringfence: ")
    about = re.match(r"([\w./-]+\.toml):(\d+)", text)
    if about is not None:
        with contextlib.suppress(OSError, IndexError):
            line = (cwd / about[1]).read_text().splitlines()[int(about[2]) - 1]
            text += f"\n  {about[2]} | {line}"
    return text


