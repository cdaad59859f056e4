"""What a search, a run or a replay came to."""

from __future__ import annotations

import html
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from . import _program
from ._dtypes import Array
from ._errors import FindingError, UnknownError

if TYPE_CHECKING:
    from ._memory import Memory

Self = TypeVar("Self", bound="Result")


def replay_command(trace: Path) -> str:
    return f"python -m ringfence replay {shlex.quote(os.path.relpath(trace))}"


@dataclass
class Finding:
    """A run that goes wrong, and that replays."""

    kind: str
    mode: str
    judged: bool
    message: str
    text: str  # the story
    trace: Path | None
    confirmed: bool
    token: str
    seed: int | None
    remedies: list[str]
    json: dict[str, Any] = field(repr=False)

    @property
    def story(self) -> str:
        return self.text

    @property
    def replay_command(self) -> str | None:
        return replay_command(self.trace) if self.trace is not None else None

    @cached_property
    def html(self) -> str:
        """The page of the run, self-contained."""
        if self.trace is None:
            return f"<pre>{html.escape(self.text)}</pre>"
        with tempfile.TemporaryDirectory(prefix="ringfence-page-") as folder:
            page = os.path.join(folder, "page.html")
            arguments = ["replay", str(self.trace.resolve()), "--no-remedies", "--executor", "inline", "--html", page]
            _program.run(arguments, self.trace.parent, ok=(0, 1, 5), progress=False)
            return Path(page).read_text()

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        out = Path(path)
        out.write_text(self.html)
        return out

    def _repr_html_(self) -> str:
        return (
            f"<pre>{html.escape(self.text)}</pre>"
            f'<iframe style="width:100%;height:640px;border:1px solid #ccc" sandbox="allow-scripts" '
            f'srcdoc="{html.escape(self.html, quote=True)}"></iframe>'
        )

    def __str__(self) -> str:
        return self.text


@dataclass
class Result:
    """Of fuzz, check, run or replay. `verdict`: pass, finding or unknown."""

    command: str
    verdict: str
    text: str  # what the command line prints
    json: dict[str, Any] = field(repr=False)
    findings: list[Finding] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.verdict == "pass"

    @property
    def finding(self) -> Finding | None:
        """The first that counts, else the first in a mode that is not judged."""
        for f in sorted(self.findings, key=lambda f: not f.judged):
            return f
        return None

    @property
    def modes(self) -> dict[str, str]:
        """The verdict in each boundary mode."""
        return dict(self.json.get("modes", {}))

    @property
    def executions(self) -> int:
        return int(self.json.get("executions", 0))

    @property
    def seconds(self) -> float:
        return float(self.json.get("seconds", 0.0))

    @property
    def notes(self) -> dict[str, list[str]]:
        """What is told with the verdict and does not change it."""
        keys = ("values_not_judged", "never_written", "unused_suppressions", "remarks", "left_out")
        return {k: list(self.json[k]) for k in keys if self.json.get(k)}

    def require_clean(self: Self) -> Self:
        """Itself where nothing was found; raises FindingError with the story, or UnknownError."""
        if self.verdict == "finding":
            raise FindingError(self, self.finding)
        if self.verdict != "pass":
            raise UnknownError(self)
        return self

    def require_finding(self, kind: str | None = None) -> Finding:
        """The finding, for a kernel that has to be caught; AssertionError where there is none of that kind."""
        found = self.finding if self.verdict == "finding" else None
        if found is None:
            raise AssertionError(f"nothing was found:\n{self.text}")
        if kind is not None and found.kind != kind:
            raise AssertionError(f"{kind} was due, {found.kind} was found:\n{found.text}")
        return found

    def __bool__(self) -> bool:
        return self.clean

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        found = self.finding if self.verdict == "finding" else None
        if found is not None:
            return found._repr_html_()
        return f"<pre>{html.escape(self.text)}</pre>"


@dataclass
class RunResult(Result):
    """Of run: also the memories afterwards, one array for all ranks, the rank first."""

    memories: dict[str, Array] = field(default_factory=dict, repr=False)

    def __getitem__(self, memory: Union[Memory, str]) -> Array:
        name = memory if isinstance(memory, str) else memory.name
        if name not in self.memories:
            raise KeyError(f"{name}: the run did not complete, or there is no such memory")
        return self.memories[name]

    @property
    def kind(self) -> str | None:
        return self.json.get("kind")

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """How each judged memory compares with what is expected."""
        return list(self.json.get("tensors", []))


@dataclass
class ReplayResult(Result):
    @property
    def reproduced(self) -> bool:
        return bool(self.json.get("reproduced"))


@dataclass(frozen=True)
class Site:
    """An instruction that orders something, and how weak it may be."""

    site: str
    where: str
    present: str
    alone: str
    jointly: str
    exhaustive: bool
    why: str

    @property
    def needed(self) -> bool:
        return self.alone == self.present


@dataclass
class RelaxResult(Mapping[str, Union[list[Site], None]]):
    """A table for each boundary mode; None where the case fails as it is."""

    tables: dict[str, list[Site] | None]
    text: str
    json: dict[str, Any] = field(repr=False)

    def __getitem__(self, mode: str) -> list[Site] | None:
        return self.tables[mode]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"
