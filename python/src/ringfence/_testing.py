"""Cases in pytest: what rf.test decorates, and the fixture `ringfence` runs."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ._case import AnyCase, Case, LoadedCase
from ._errors import InputError
from ._memory import Node
from ._results import Finding, Result


class Runner:
    """Searches cases as the options of the command line say; a finding fails the test with its story.

    A test that failed begins, when it runs again, with the trace of its last finding, as long as the
    case is the same.
    """

    def __init__(
        self, name: str, memory: Path | None = None, schedules: int | None = None, seed: int | None = None,
        html: Path | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._memory = memory
        self._schedules = schedules
        self._seed = seed
        self._html = html
        self._count = 0

    def __call__(
        self, case: AnyCase, *, schedules: int | None = None, modes: str | Sequence[str] | None = None,
        seed: int | None = None, finding: str | None = None, check: float | None = None, **options: Any,
    ) -> Result:  # fmt: skip
        """Fuzzes it, or with `check` (seconds) checks it. `finding`: a kind that has to be found, of a broken twin."""
        self._count += 1
        if finding is None:
            self._again(case)
        if isinstance(modes, (list, tuple)) and len(modes) == 1:
            modes = modes[0]
        options = {"modes": modes, "keep": finding is None, **options}
        if check is not None:
            result = case.check(time=check, **options)
        else:
            count = self._schedules if self._schedules is not None else schedules
            first = self._seed if self._seed is not None else seed
            result = case.fuzz(count, seed=first, **options)
        if finding is not None:
            result.require_finding(finding)
            return result
        found = result.finding if result.verdict == "finding" else None
        if found is not None:
            self._remember(case, found)
            self._fail(found)
        self._forget()
        return result.require_clean()

    def _record(self) -> Path | None:
        if self._memory is None:
            return None
        key = hashlib.sha256(f"{self.name} {self._count}".encode()).hexdigest()[:24]
        return self._memory / f"{key}.json"

    def _again(self, case: AnyCase) -> None:
        """What the last run of this test found, first."""
        record = self._record()
        if record is None or not record.exists():
            return
        last = json.loads(record.read_text())
        if last["digest"] != case.digest() or not Path(last["trace"]).exists():
            return
        result = case.replay(last["trace"])
        if result.reproduced and result.finding is not None:
            found = result.finding
            found.trace = Path(last["trace"])
            self._fail(found, "again, from the trace of the last run")

    def _remember(self, case: AnyCase, found: Finding) -> None:
        record = self._record()
        if record is not None and found.trace is not None:
            record.write_text(json.dumps({"digest": case.digest(), "trace": str(found.trace), "test": self.name}))

    def _forget(self) -> None:
        record = self._record()
        if record is not None:
            record.unlink(missing_ok=True)

    def _fail(self, found: Finding, note: str = "") -> None:
        import pytest

        text = found.text.rstrip()
        if note:
            text = f"{note}:\n{text}"
        if self._html is not None:
            self._html.mkdir(parents=True, exist_ok=True)
            page = self._html / (re.sub(r"[^\w.-]+", "-", self.name).strip("-") + ".html")
            found.write_html(page)
            text += f"\npage:   {page}"
        if found.replay_command is not None and found.replay_command not in text:
            text += f"\nreplay: {found.replay_command}"
        pytest.fail(text, pytrace=False)


def test(
    ranks: int | Sequence[int] = 2, *, modes: str | Sequence[str] | None = None, schedules: int | None = None,
    seed: int | None = None, finding: str | None = None, check: float | None = None, **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """A test for pytest: a function of a node (and fixtures) that gives a case, or several; each is searched.

    For each number of ranks it is a test of its own. Options as in Case.fuzz; check=SECONDS checks in place of
    fuzzing; finding="data-race" is for a broken twin, which has to be found.
    """
    counts = [ranks] if isinstance(ranks, int) else list(ranks)

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        import pytest

        parameters = inspect.signature(fn).parameters
        if "node" not in parameters:
            raise InputError(f"{fn.__name__}: expected a function of `node`, which gives a case")

        @functools.wraps(fn)
        def run(ringfence: Runner, ranks: int, **fixtures: Any) -> None:
            if "ranks" in parameters:
                fixtures["ranks"] = ranks
            made = fn(node=Node(ranks), **fixtures)
            for case in _cases(made, fn.__name__):
                ringfence(
                    case, schedules=schedules, modes=modes, seed=seed, finding=finding, check=check, **options
                )

        kind = inspect.Parameter.KEYWORD_ONLY
        own = [p.replace(kind=kind) for n, p in parameters.items() if n not in ("node", "ranks", "ringfence")]
        added = [inspect.Parameter(n, kind) for n in ("ringfence", "ranks")]
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        del run.__wrapped__
        decorated: Callable[..., Any] = pytest.mark.parametrize(
            "ranks", counts, ids=[f"{n}-ranks" for n in counts]
        )(run)
        return decorated

    return decorate


test.__test__ = False  # type: ignore[attr-defined]


def _cases(made: Any, name: str) -> Iterable[AnyCase]:
    if isinstance(made, (Case, LoadedCase)):
        return [made]
    if isinstance(made, Iterable):
        listed = list(made)
        if listed and all(isinstance(c, (Case, LoadedCase)) for c in listed):
            return listed
    raise InputError(f"{name}: expected a case or a list of cases from a test: return node.case(...)")
