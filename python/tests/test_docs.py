"""docs/python.md and docs/python.ipynb do what they say."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text()


def _blocks() -> list[str]:
    """Indented blocks of the page."""
    out: list[list[str]] = [[]]
    for line in PAGE.splitlines():
        if line.startswith("    ") or (not line and out[-1]):
            out[-1].append(line)
        elif out[-1]:
            out.append([])
    return [textwrap.dedent("\n".join(b)).strip("\n") for b in out if b]


def test_the_ten_minutes_of_the_page(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.delenv("RINGFENCE_FINDINGS")
    blocks = _blocks()
    example = next(b for b in blocks if "def test_all_reduce" in b)
    mended = next(b for b in blocks if b.startswith("tl.debug_barrier()"))
    story = next(b for b in blocks if b.startswith("data-race")).splitlines()
    (pytester.path / "test_mine.py").write_text(example)
    result = pytester.runpytest_subprocess("test_mine.py")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([story[0].replace("...", "*"), "*(test_mine.py:*", story[-1].replace("...", "*")])
    last = "    tl.store(out + i, total)\n"
    assert last in example
    text = example.replace(last, last + textwrap.indent(mended, "    ") + "\n")
    (pytester.path / "test_mine.py").write_text(text)
    pytester.runpytest_subprocess("test_mine.py").assert_outcomes(passed=2)


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    notebook = nbformat.read(ROOT / "docs" / "python.ipynb", as_version=4)
    assert not any(c.get("outputs") for c in notebook.cells), "kept without its outputs"
    done: Any = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "docs")}}
    ).execute()
    shown = [json.dumps(c.outputs) for c in done.cells if c.cell_type == "code"]
    assert "clean (except load buffering)" in shown[1]
    assert "True" in shown[2]
    assert "data-race in boundary mode stream" in shown[3] and "<iframe" in shown[3]
    assert "True" in shown[4]
    assert "pass" in shown[5] and "acquire" in shown[5]
