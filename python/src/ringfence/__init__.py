"""Multi-GPU kernels under the PTX memory model, without a GPU.

>>> import ringfence as rf
>>> node = rf.Node(ranks=2)
>>> x = node.symmetric("x", 64, "float32", init="integers")
>>> out = node.local("out", 64, "float32")
>>> k = rf.cuda("kernel.cu", "all_reduce")                          # doctest: +SKIP
>>> case = node.case(k[1, 64](x.peers, out, rf.rank, rf.world), expect={out: "sum"})  # doctest: +SKIP
>>> case.fuzz(schedules=2000).require_clean()                       # doctest: +SKIP
"""

from __future__ import annotations

from ._arguments import f32, f64, s8, s16, s32, s64, struct, u8, u16, u32, u64
from ._case import Case, LoadedCase, findings_folder, load
from ._errors import CompileError, FindingError, InputError, ProgramError, RingfenceError, UnknownError
from ._expected import Expected, Inputs, expected
from ._formula import Formula, call, rank, world
from ._kernel import Kernel, Launch, copy, cuda, memset, ptx, record, wait_event, wait_value, write_value
from ._memory import Memory, Node
from ._program import program
from ._results import Finding, RelaxResult, ReplayResult, Result, RunResult, Site
from ._testing import test
from ._triton import TritonKernel, triton, triton_configs

__all__ = [
    "Case", "CompileError", "Expected", "Finding", "FindingError", "Formula", "InputError", "Inputs", "Kernel",
    "Launch", "LoadedCase", "Memory", "Node", "ProgramError", "RelaxResult", "ReplayResult", "Result",
    "RingfenceError", "RunResult", "Site", "TritonKernel", "UnknownError", "call", "copy", "cuda", "expected", "f32", "f64",
    "findings_folder", "load", "memset", "program", "ptx", "rank", "record", "s16", "s32", "s64", "s8", "struct", "test", "triton", "triton_configs",
    "u16", "u32", "u64", "u8", "wait_event", "wait_value", "world", "write_value",
]  # fmt: skip
