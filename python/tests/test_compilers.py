"""CUDA by nvcc and NVRTC, and what other front ends hand out: PTX text and a name."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ringfence as rf
from conftest import EXAMPLES
from ringfence import _kernel

SOURCE = """
template <int N> __device__ unsigned twice(unsigned x) { return x * N; }
extern "C" __global__ void put(unsigned* out, unsigned rank, unsigned scale) {
  out[threadIdx.x] = twice<2>(rank) + scale * threadIdx.x;
}
"""


def put_case(k: rf.Kernel) -> rf.Case:
    node = rf.Node(2)
    out = node.local("out", 32, "uint32")
    expected = {out: lambda rank, inputs: 2 * rank + 3 * np.arange(32)}
    return node.case(k[1, 32](out, rf.rank, 3), expect=expected)


needs_nvcc = pytest.mark.skipif(_kernel._nvcc() is None, reason="no nvcc")


@needs_nvcc
def test_nvcc_compiles_text_and_files() -> None:
    put_case(rf.cuda(SOURCE, "put")).run().require_clean()
    k = rf.cuda(EXAMPLES / "all_reduce.cu", "all_reduce", options=["-DNO_LAST_BARRIER"])
    assert [p.type for p in k.parameters] == ["u64", "u64", "u64", "u32", "u32"]
    with pytest.raises(rf.CompileError, match='identifier "nothing" is undefined'):
        rf.cuda('extern "C" __global__ void k() {\n nothing(); }', "k")
    with pytest.raises(rf.InputError, match="no kernel 'get'; there is: put"):
        rf.cuda(SOURCE, "get")


def test_nvrtc_compiles_text_where_its_wheel_is_installed() -> None:
    try:
        put_case(rf.cuda(SOURCE, "put", compiler="nvrtc")).run().require_clean()
    except rf.CompileError as e:
        if "pip install nvidia-cuda-nvrtc" in str(e):
            pytest.skip("no NVRTC")
        raise
    with pytest.raises(rf.CompileError, match='identifier "nothing" is undefined'):
        rf.cuda('extern "C" __global__ void k() {\n nothing(); }', "k", compiler="nvrtc")


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence import _nvrtc

    monkeypatch.setattr(_kernel, "_nvcc", lambda: None)
    monkeypatch.setattr(_nvrtc, "_folders", lambda: [])
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(rf.CompileError, match="pip install nvidia-cuda-nvrtc"):
        rf.cuda(SOURCE + "// anew", "put")


def _needs(module: str) -> Any:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"no {module}")


@_needs("numba_cuda")
def test_numba_hands_out_ptx() -> None:
    from numba import cuda, types

    def put(out, rank, scale):  # type: ignore[no-untyped-def]
        i = cuda.threadIdx.x
        out[i] = 2 * rank + scale * i

    signature = types.void(types.CPointer(types.uint32), types.uint32, types.uint32)
    text, _ = cuda.compile_ptx(put, signature, device=False, cc=(9, 0))
    put_case(rf.ptx(text, "put")).run().require_clean()


@_needs("cupy_backends")
def test_cupys_nvrtc_hands_out_ptx() -> None:
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(SOURCE, "put.cu", [], [])
    nvrtc.compileProgram(program, ["-arch=compute_90"])
    put_case(rf.ptx(nvrtc.getPTX(program), "put")).run().require_clean()


@_needs("cutlass")
def test_the_cute_dsl_hands_out_ptx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Read when cutlass is imported.
    for name, value in [("ARCH", "sm_90a"), ("KEEP_PTX", "1"), ("DUMP_DIR", str(tmp_path))]:
        monkeypatch.setenv(f"CUTE_DSL_{name}", value)
    import cute_kernels

    put_case(rf.ptx(cute_kernels.put_ptx(), "put")).run().require_clean()


def test_bytes_of_ptx_are_taken_too() -> None:
    text = textwrap.dedent((EXAMPLES / "all_reduce.ptx").read_text())
    assert rf.ptx(text.encode() + b"\0", "all_reduce").name == "all_reduce"
