"""ringfence.torch where there is no GPU: schemas, fakes, checks, what stands in for the kernels. The kernels
themselves: gpu_torch.py, on a machine that has one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import ringfence as rf  # noqa: E402
import ringfence.torch as rt  # noqa: E402
from conftest import ROOT  # noqa: E402
from ringfence.torch import _native  # noqa: E402
from torch_rows import require_rows  # noqa: E402

R, T, H, K = 4, 10, 64, 24
EPS = 1e-6
NORM, MATMUL = "fused_all_reduce_add_rms_norm", "matmul_all_reduce_add_rms_norm"


@pytest.fixture
def group() -> Any:
    return rt.virtual_ranks(R, "cpu")


def inputs(tokens: int = T, dtype: Any = torch.bfloat16, seed: int = 0) -> tuple[Any, Any, Any]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, tokens, H, generator=g).to(dtype)
    residual = torch.randn(tokens, H, generator=g).to(dtype).expand(R, tokens, H).contiguous()
    return x, residual, torch.randn(H, generator=g).to(dtype)


def operands(tokens: int = T, dtype: Any = torch.bfloat16) -> tuple[Any, Any]:
    g = torch.Generator().manual_seed(1)
    return torch.randn(R, tokens, K, generator=g).to(dtype), torch.randn(R, H, K, generator=g).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tokens", [1, 3, 4, 10])
def test_every_rank_gets_all_rows_of_out_and_its_own_of_the_residual(group: Any, tokens: int, dtype: Any) -> None:
    x, residual, weight = inputs(tokens, dtype)
    out, after = rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, group)
    require_rows(x, residual, weight, EPS, out, after)
    assert torch.equal(rt.gather_residual(after, group), torch.cat([after[r, slice(*rt.owned_rows(tokens, group, r))] for r in range(R)]))


def test_rows_that_are_wrong_by_one_rounding_too_many_are_noticed(group: Any) -> None:
    x, residual, weight = inputs()
    out, after = rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, group)
    for tensor, at in ((out, (1, 3, 5)), (after, (1, 3, 5)), (after, (1, 0, 5))):
        kept = tensor.clone()
        tensor.view(torch.int16)[at] += 2
        with pytest.raises(AssertionError):
            require_rows(x, residual, weight, EPS, out, after)
        tensor.copy_(kept)
    unscaled = (x.float().sum(0) + residual[0].float()).bfloat16()
    with pytest.raises(AssertionError, match="out of rank 0: .* elements"):
        require_rows(x, residual, weight, EPS, unscaled.expand_as(out), after)


def test_own_rows_are_split_evenly_and_cover_all(group: Any) -> None:
    assert [rt.owned_rows(10, group, r) for r in range(R)] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [rt.owned_rows(1, group, r) for r in range(R)] == [(0, 1), (1, 1), (1, 1), (1, 1)]


def test_in_place_and_out_variants_give_the_same_bits(group: Any) -> None:
    x, residual, weight = inputs()
    out, after = rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, group)
    x2, residual2 = x.clone(), residual.clone()
    rt.fused_all_reduce_add_rms_norm_(x2, residual2, weight, EPS, group)
    assert torch.equal(x2, out) and torch.equal(residual2, after)
    out3, after3 = torch.empty_like(x), residual.clone()
    rt.fused_all_reduce_add_rms_norm_out(x, residual, weight, EPS, group, out=out3, residual_out=after3)
    assert torch.equal(out3, out) and torch.equal(after3, after)
    a, w = operands()
    product = torch.bmm(a, w.transpose(1, 2))
    out, after = rt.fused_all_reduce_add_rms_norm(product, residual, weight, EPS, group)
    got = rt.matmul_all_reduce_add_rms_norm(a, w, residual, weight, EPS, group)
    assert torch.equal(got[0], out) and torch.equal(got[1], after)
    residual4 = residual.clone()
    assert torch.equal(rt.matmul_all_reduce_add_rms_norm_(a, w, residual4, weight, EPS, group), out)
    assert torch.equal(residual4, after)
    rt.matmul_all_reduce_add_rms_norm_out(a, w, residual, weight, EPS, group, out=out3, residual_out=after3)
    assert torch.equal(out3, out) and torch.equal(after3, after)


def test_tokens_may_have_several_dimensions_or_be_none(group: Any) -> None:
    x, residual, weight = inputs(10)
    flat, _ = rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, group)
    deep, _ = rt.fused_all_reduce_add_rms_norm(x.view(R, 2, 5, H), residual.view(R, 2, 5, H), weight, EPS, group)
    assert torch.equal(deep.view(R, 10, H), flat)
    empty, _ = rt.fused_all_reduce_add_rms_norm(x[:, :0], residual[:, :0], weight, EPS, group)
    assert empty.shape == (R, 0, H)


def calls(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    group = rt.virtual_ranks(R, "cpu")
    x, residual, weight = inputs()
    outs = {"out": torch.zeros_like(x), "residual_out": torch.zeros_like(residual)} if name.endswith("out") else {}
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.ringfence, base), overload or "default")
    return op, (*(operands() if base.startswith("matmul") else [x]), residual, weight, EPS, group.name), outs


@pytest.mark.parametrize("name", [b + v for b in (NORM, MATMUL) for v in ("", "_", ".out")])
def test_opcheck(name: str) -> None:
    op, args, outs = calls(name)
    result = torch.library.opcheck(op, args, outs)
    assert set(result.values()) == {"SUCCESS"} and "test_aot_dispatch_dynamic" in result


def test_a_compiled_function_has_no_graph_break_and_takes_other_sizes(group: Any) -> None:
    def layer(x: Any, residual: Any, weight: Any) -> Any:
        out, residual = rt.fused_all_reduce_add_rms_norm(x * 2, residual, weight, EPS, group)
        rt.fused_all_reduce_add_rms_norm_(out, residual, weight, EPS, group)
        return out, residual

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for tokens in (10, 7, 33):
        want = layer(*inputs(tokens))
        got = compiled(*inputs(tokens))
        assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


@pytest.mark.parametrize("name", [b + v for b in (NORM, MATMUL) for v in ("", "_", ".out")])
def test_autograd_is_refused_before_anything_is_computed(name: str) -> None:
    op, args, outs = calls(name)
    args[-3].requires_grad_()
    with pytest.raises(RuntimeError, match="has no backward, and weight requires a gradient: call it under torch.no_grad"):
        op(*args, **outs)
    with torch.no_grad():
        op(*args, **outs)
    with torch.inference_mode():
        op(*calls(name)[1], **calls(name)[2])


def test_what_is_changed_in_place_has_a_new_version(group: Any) -> None:
    x, residual, weight = inputs()
    before = x._version, residual._version
    rt.fused_all_reduce_add_rms_norm_(x, residual, weight, EPS, group)
    assert x._version > before[0] and residual._version > before[1]


WRONG = [
    ({"x": lambda t: t[..., : H // 2]}, r"x has shape \[4, 10, 32\], and residual \[4, 10, 64\]: they must be equal"),
    ({"x": lambda t: t.float()}, "x has dtype torch.float32, and residual torch.bfloat16: they must be equal"),
    ({"x": lambda t: t.float(), "residual": lambda t: t.float()}, "residual has dtype torch.float32: use torch.bfloat16 or"),
    ({"weight": lambda t: t[:-1]}, r"weight has shape \[63\]: use \[64\]"),
    ({"weight": lambda t: t.half()}, "weight has dtype torch.float16: use torch.bfloat16 or torch.float32"),
    ({"x": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1)}, r"x has strides \(64, 256, 1\) for shape .*: call .contiguous\(\)"),
    ({"residual": lambda t: t[0:1].expand(R, T, H)}, "residual has strides"),
    ({"x": lambda t: t[:2], "residual": lambda t: t[:2]}, r"residual has shape \[2, 10, 64\]: for 4 virtual ranks its first dimension is 4"),
    ({"x": lambda t: t[0, 0], "residual": lambda t: t[0, 0]}, r"residual has shape \[64\]: use \[tokens, hidden\]"),
    ({"weight": lambda t: t.to("meta")}, "weight is on meta, and the first tensor on cpu"),
]  # fmt: skip


@pytest.mark.parametrize("change, line", WRONG, ids=range(len(WRONG)))
def test_a_wrong_tensor_is_one_line_that_says_which_and_what_would_be_right(group: Any, change: Any, line: str) -> None:
    tensors = dict(zip(("x", "residual", "weight"), inputs()))
    for name, wrong in change.items():
        tensors[name] = wrong(tensors[name])
    with pytest.raises(rf._errors.InputError, match=line) as error:
        rt.fused_all_reduce_add_rms_norm(*tensors.values(), EPS, group)
    assert str(error.value).startswith(NORM + ": ") and "\n" not in str(error.value)


def test_a_product_that_does_not_fit_is_one_line(group: Any) -> None:
    _, residual, weight = inputs()
    a, w = operands()
    for x, matrix, line in (
        (a, w[..., :-1], r"w has shape \[4, 64, 23\]: use \[64, 24\]"),
        (a[:, :3], w, r"x has shape \[4, 3, 24\], and residual \[4, 10, 64\]: all dimensions but the last"),
        (a, w[0], r"w has shape \[64, 24\]: for 4 virtual ranks use \[4, hidden, inner\]"),
    ):
        with pytest.raises(ValueError, match=line):
            rt.matmul_all_reduce_add_rms_norm(x.contiguous(), matrix.contiguous(), residual, weight, EPS, group)


def test_eps_sizes_and_groups_that_cannot_be_are_one_line(group: Any) -> None:
    x, residual, weight = inputs()
    for eps in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="eps .* is not a finite number of 0 or more"):
            rt.fused_all_reduce_add_rms_norm(x, residual, weight, eps, group)
    wide = torch.zeros(1, 16385, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="hidden 16385 is not in 1 to 16384"):
        rt.fused_all_reduce_add_rms_norm(wide, wide, wide[0], EPS, group)
    for wrong, line in (
        ("nobody", "group 'nobody': torch.distributed is not initialised, and no virtual ranks have that name"),
        (None, "default group, which is not initialised"),
        (7, "group 7: use a ProcessGroup that this process is a member of, its name, or virtual_ranks"),
    ):
        with pytest.raises(ValueError, match=line):
            rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, wrong)
    with pytest.raises(ValueError, match="9 virtual ranks: use 1 to 8"):
        rt.virtual_ranks(9, "cpu")
    with pytest.raises(ValueError, match="transport 'multimem': use auto, peer or push"):
        rt.prepare(group, H, torch.bfloat16, max_tokens=8, transport="multimem")
    with pytest.raises(ValueError, match="call prepare"):
        rt.buffer(group, 8, H, torch.bfloat16)


def test_fakes_give_shapes_without_data_and_say_the_same_errors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(5, H, dtype=torch.float16, device="cuda")
        w = torch.empty(H, K, dtype=torch.float16, device="cuda")
        weight = torch.empty(H, device="cuda")
        out, after = torch.ops.ringfence.matmul_all_reduce_add_rms_norm(
            torch.empty(5, K, dtype=torch.float16, device="cuda"), w, x, weight, EPS, "anything"
        )
        assert (out.shape, after.shape, out.device.type, out.dtype) == ((5, H), (5, H), "cuda", torch.float16)
        with pytest.raises(ValueError, match="residual has dtype"):
            torch.ops.ringfence.fused_all_reduce_add_rms_norm(x.float(), x.float(), weight, EPS, "anything")


class Kernel:
    """Stands where the native workspace does: doubles what is in the buffer."""

    def __init__(self, tokens: int) -> None:
        self.max_tokens, self.handle = tokens, self
        self.buffers = [torch.zeros(tokens, H, dtype=torch.bfloat16)]

    def enqueue(self, residual: Any, residual_out: Any, weight: Any, tokens: int, eps: float) -> None:
        self.buffers[0][:tokens] *= 2
        residual_out.copy_(residual + 1)


def test_the_kernel_works_in_the_groups_buffer_and_the_residual_may_not_lie_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.torch import _groups

    group = rt.virtual_ranks(1, "cpu")
    kernel = Kernel(16)
    ws = _groups.workspace(group.name, torch.device("cpu"))
    monkeypatch.setattr(ws, "fallback", None)
    monkeypatch.setattr(ws, "native", lambda *_: kernel)
    x, residual, weight = (t[:1] if t.dim() == 3 else t for t in inputs(5))
    out, after = rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, group)
    assert torch.equal(out, x * 2) and torch.equal(after, residual + 1)
    # Partials that were written there are taken as they lie, and out is left there.
    own = kernel.buffers[0][:5].unsqueeze(0)
    own.copy_(x)
    rt.fused_all_reduce_add_rms_norm_(own, after, weight, EPS, group)
    assert torch.equal(own, x * 2)
    with pytest.raises(ValueError, match="residual_out lies in the group's buffer, where x and out are"):
        rt.fused_all_reduce_add_rms_norm_out(x, residual, weight, EPS, group, out=out, residual_out=own)
    with pytest.raises(ValueError, match="out and residual_out are the same memory"):
        rt.fused_all_reduce_add_rms_norm_out(x, residual, weight, EPS, group, out=out, residual_out=out)
    w = torch.randn(1, H, K).bfloat16()
    a = torch.randn(1, 5, K).bfloat16()
    out, _ = rt.matmul_all_reduce_add_rms_norm(a, w, residual, weight, EPS, group)
    assert torch.equal(out[0], (a[0] @ w[0].t()) * 2)


def test_a_lost_peer_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.torch import _groups

    group = rt.virtual_ranks(1, "cpu")
    kernel = Kernel(16)

    def lost(*_: Any) -> None:
        raise RuntimeError("peer-lost: rank 0 block 0 gave up waiting for rank 1 at slot 1 (start wait, value 0)")

    kernel.enqueue = kernel.check = lost  # type: ignore[method-assign, attr-defined]
    ws = _groups.workspace(group.name, torch.device("cpu"))
    monkeypatch.setattr(ws, "fallback", None)
    monkeypatch.setattr(ws, "native", lambda *_: kernel)
    monkeypatch.setattr(ws, "natives", {(): kernel})
    x, residual, weight = (t[:1] if t.dim() == 3 else t for t in inputs(5))
    for call in (lambda: rt.fused_all_reduce_add_rms_norm(x, residual, weight, EPS, group), lambda: rt.check(group)):
        with pytest.raises(rt.PeerLostError, match="^rank 0 block 0 gave up waiting for rank 1"):
            call()


BUILT = {
    "torch": torch.__version__, "cuda": torch.version.cuda, "cxx11_abi": torch.compiled_with_cxx11_abi(),
    "ringfence": _native.version(), "interface": _native.INTERFACE,
}  # fmt: skip


@pytest.mark.parametrize("key, value", [("torch", "1.0.0"), ("cuda", "1.0"), ("cxx11_abi", None), ("ringfence", "0.0.1"), ("interface", 0)])
def test_a_stale_library_refuses_to_load_and_says_what_it_was_built_for(
    key: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    assert _native.stale(BUILT, _native.version()) is None
    package = tmp_path / "ringfence_torch"
    package.mkdir()
    (package / "__init__.py").write_text((ROOT / "python/torch/src/ringfence_torch/__init__.py").read_text())
    (package / "build.json").write_text(json.dumps({**BUILT, key: value}))
    # Not even a library: loading it would be another error.
    (package / "_native.so").write_text("stale")
    code = "import ringfence.torch"
    source = Path(rf.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": f"{source}:{tmp_path}", "PATH": "/usr/bin"}
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert last.startswith(f"ImportError: ringfence-torch was built for {key} {value}, and here is {key} {BUILT[key]}: build it again")


@pytest.mark.skipif(not _native.installed(), reason="ringfence-torch is not installed: ./dev torch-test builds it")
def test_the_native_part_says_which_torch_it_is_for_and_loads() -> None:
    from importlib.metadata import metadata

    import ringfence_torch

    said = metadata("ringfence-torch")
    public, _, local = torch.__version__.partition("+")
    assert f"torch{public}" in said["Version"] and local in said["Version"]
    assert f"torch=={public}" in said.get_all("Requires-Dist")
    assert f"ringfence=={_native.version()}" in said.get_all("Requires-Dist")
    assert ringfence_torch.BUILD["torch"] == torch.__version__
    workspace = _native.load().Workspace
    with pytest.raises(RuntimeError, match="^invalid: 9 ranks: use 1 to 8$"):
        workspace(-1, 9, 0, "", torch.bfloat16, False, 8, H, "auto", 0, False, False, 1.0)
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="^no-device: device 0 is not there"):
            workspace(-1, 2, 0, "", torch.bfloat16, False, 8, H, "auto", 0, False, False, 1.0)


WORKER = """
    import sys, warnings
    import torch, torch.distributed as dist
    import ringfence.torch as rt
    rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=size)
    def inputs(r, tokens=7, hidden=32):
        g = torch.Generator().manual_seed(5)
        x = torch.randint(-8, 8, (size, tokens, hidden), generator=g).bfloat16()
        residual = torch.randint(-8, 8, (tokens, hidden), generator=g).bfloat16()
        return x[r].clone(), residual.clone(), torch.ones(hidden, dtype=torch.bfloat16)
"""


def processes(tmp_path: Path, body: str, size: int = 2) -> list[subprocess.CompletedProcess[str]]:
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER) + textwrap.dedent(body))
    import os

    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(r), str(size), str(tmp_path / "store")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": f"{Path(rf.__file__).parents[1]}:{os.environ.get('PYTHONPATH', '')}"},
        )
        for r in range(size)
    ]  # fmt: skip
    ended = []
    for p in started:
        try:
            out, err = p.communicate(timeout=120)
        finally:
            p.kill()
        ended.append(subprocess.CompletedProcess(p.args, p.returncode, out, err))
    return ended


def test_without_peer_access_a_group_falls_back_with_one_warning_and_the_same_rows(tmp_path: Path) -> None:
    body = """
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for group in (None, dist.group.WORLD, dist.group.WORLD.group_name):
                x, residual, weight = inputs(rank)
                out, after = rt.fused_all_reduce_add_rms_norm(x, residual, weight, 1e-6, group)
        assert len(seen) == 1 and "uses the all-reduce of torch.distributed and a norm: the tensors are on cpu" in str(seen[0].message), seen
        virtual = rt.virtual_ranks(size, "cpu")
        every = [inputs(r) for r in range(size)]
        want, wanted = rt.fused_all_reduce_add_rms_norm(
            torch.stack([e[0] for e in every]), torch.stack([e[1] for e in every]), weight, 1e-6, virtual)
        assert torch.equal(out, want[rank]) and torch.equal(after, rt.gather_residual(wanted, virtual))
        assert rt.owned_rows(7, None) == ((0, 4), (4, 7))[rank]
        whole = rt.gather_residual(after, None)
        assert torch.equal(whole, rt.gather_residual(wanted, virtual))
        assert rt.prepare(None, 32, torch.bfloat16, max_tokens=8, device="cpu") is False
        compiled = torch.compile(lambda *a: rt.fused_all_reduce_add_rms_norm(*a, 1e-6, dist.group.WORLD), backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(*inputs(rank))[0], out)
        print("done")
    """
    for p in processes(tmp_path, body):
        assert p.returncode == 0 and p.stdout == "done\n", p.stderr


def test_ranks_that_ask_for_different_things_are_told_and_do_not_wait(tmp_path: Path) -> None:
    body = """
        from ringfence.torch import _groups, _native
        ws = _groups.Workspace(dist.group.WORLD.group_name, torch.device("cpu"), _groups.Options(blocks=8 * rank))
        try:
            ws.grow((32, torch.bfloat16, False), 1024)
        except ValueError as error:
            print(error)
        def absent(self):
            self._gather(None)  # what the other rank gathers there
            raise ImportError("not built")
        if rank == 1:
            _groups.Workspace._obstacle = absent
        try:
            _groups.Workspace(dist.group.WORLD.group_name, torch.device("cpu"), _groups.Options())
        except ImportError as error:
            print(error)
    """
    said = [p.stdout.splitlines() for p in processes(tmp_path, body)]
    assert said[0][0].endswith(": blocks is 0 on rank 0 and 8 on rank 1: all ranks have to give the same"), said
    assert said[1][0].endswith(": blocks is 8 on rank 1 and 0 on rank 0: all ranks have to give the same"), said
    assert said[0][1] == said[1][1] == "rank 1: not built"


def test_a_process_outside_a_group_is_told_so(tmp_path: Path) -> None:
    body = """
        one = dist.new_group([1])
        x, residual, weight = inputs(rank)
        try:
            rt.fused_all_reduce_add_rms_norm(x, residual, weight, 1e-6, one)
            print("called")
        except ValueError as error:
            print(error)
        try:
            rt.fused_all_reduce_add_rms_norm(x, residual, weight, 1e-6, "other")
        except ValueError as error:
            print(error)
    """
    first, second = processes(tmp_path, body)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "use a ProcessGroup that this process is a member of" in first.stdout.splitlines()[0]
    assert second.stdout.splitlines()[0] == "called"
    assert first.stdout.splitlines()[1] == "there is no group 'other' in this process (rank 0)"
