"""The wheel that was installed: what it needs, and what it weighs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import ringfence as rf

WHEEL = os.environ.get("RINGFENCE_WHEEL")
installed = pytest.mark.skipif(WHEEL is None, reason="no wheel: ./dev python-test builds it")


def _segments(program: bytes) -> set[int]:
    """Types of the program headers of an ELF file of 64 bits."""
    assert program[:5] == b"\x7fELF\x02"
    (at,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    return {struct.unpack_from("<I", program, at + i * size)[0] for i in range(count)}


@installed
def test_the_program_in_it_needs_no_library_and_no_loader() -> None:
    assert WHEEL is not None
    with zipfile.ZipFile(WHEEL) as wheel:
        program = wheel.read("ringfence/bin/ringfence")
        names = wheel.namelist()
    load, dynamic, interpreter = 1, 2, 3
    assert load in _segments(program)
    assert not {dynamic, interpreter} & _segments(program)
    assert "ringfence/py.typed" in names
    assert not [n for n in names if n.endswith(".so")]
    assert os.path.basename(WHEEL).endswith(("-py3-none-manylinux2014_x86_64.whl", "-py3-none-manylinux2014_aarch64.whl"))


@installed
def test_it_weighs_less_than_15_megabytes() -> None:
    assert WHEEL is not None
    assert os.path.getsize(WHEEL) < 15e6


@installed
def test_the_package_runs_its_own_program() -> None:
    assert Path(rf.program()) == Path(rf.__file__).parent / "bin" / "ringfence"
    script = Path(sys.executable).parent / "ringfence"
    done = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("ringfence ")


def test_importing_it_imports_no_compiler_and_no_framework() -> None:
    code = "import sys, ringfence; print([m for m in ('triton', 'torch', 'tqdm', 'pytest', 'ml_dtypes') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n"
