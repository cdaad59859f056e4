"""What tests share: kernels of the repository, and folders of their own for what is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import ringfence as rf

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(autouse=True)
def _findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_FINDINGS", str(tmp_path / "findings"))


def all_reduce(ranks: int = 4, broken: bool = False, calls: int = 2, **options: object) -> rf.Case:
    """docs/examples/all_reduce.toml, from Python."""
    node = rf.Node(ranks)
    data = node.symmetric("data", 64, "float32", init="integers")
    pad = node.symmetric("pad", ranks, "uint32")
    out = node.local("out", 64, "float32")
    k = rf.ptx(EXAMPLES / ("all_reduce_broken.ptx" if broken else "all_reduce.ptx"), "all_reduce")
    options.setdefault("expect", {out: lambda rank, inputs: sum(inputs[data])})
    return node.case(
        k[1, 64](data.peers, pad.peers, out, rf.rank, rf.world),
        calls=calls, restored=[pad], modes="stream", name="all_reduce", **options,
    )  # fmt: skip


# A kernel of one thread that adds its three numbers and its rank to a memory's words.
NUMBERS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry numbers(.param .u64 out, .param .s32 a, .param .f32 b, .param .b64 c)
{
  .reg .b64 %d, %c;
  .reg .b32 %a;
  .reg .f32 %b;
  ld.param.u64 %d, [out];
  ld.param.s32 %a, [a];
  ld.param.f32 %b, [b];
  ld.param.b64 %c, [c];
  st.global.u32 [%d], %a;
  st.global.f32 [%d+4], %b;
  st.global.b64 [%d+8], %c;
  ret;
}
.visible .entry nothing(.param .u64 from, .param .u64 to)
{
  ret;
}
.visible .entry ticket(.param .u64 word, .param .u64 out)
{
  .reg .b64 %w, %o;
  .reg .b32 %v;
  ld.param.u64 %w, [word];
  ld.param.u64 %o, [out];
  atom.global.relaxed.sys.add.u32 %v, [%w], 1;
  st.global.u32 [%o], %v;
  ret;
}
"""
