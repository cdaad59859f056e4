"""Triton kernels without a GPU: each in the idiom of shipped ones, each with twins that have to be found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ringfence as rf

pytest.importorskip("triton")
import triton  # noqa: E402
import triton_kernels as tk  # noqa: E402


def norm_case(kernel: Any, node: rf.Node, num_warps: int = 1, **constexprs: Any) -> rf.Case:
    """All-reduce + bias + RMSNorm, called twice."""
    rows, hidden, eps = 2, 128, 1e-6
    x = node.symmetric("x", (rows, hidden), "bfloat16", init="integers")
    pad = node.symmetric("pad", (rows, node.ranks), "uint32")
    bias = node.local("bias", hidden, "bfloat16", init="integers", same=True)
    gamma = node.local("gamma", hidden, "float32", init="integers", same=True)
    out = node.local("out", (rows, hidden), "bfloat16")
    k = rf.triton(kernel, num_warps=num_warps)
    launch = k[rows,](
        x.peers, pad.peers, bias, gamma, out, eps, rank=rf.rank, world=rf.world, hidden=hidden, **constexprs
    )

    def expected(rank: int, inputs: rf.Inputs) -> Any:
        total = sum(inputs[x]) + inputs[bias][rank]
        return total / np.sqrt((total**2).mean(-1, keepdims=True) + eps) * inputs[gamma][rank]

    # Of the sum, which is exact, a norm in fp32 and one rounding to bf16.
    return node.case(
        launch, calls=2, restored=[pad], modes="stream", expect={out: rf.expected(expected, rtol=0.008)},
    )  # fmt: skip


@rf.test(ranks=[2, 4], modes="stream", schedules=40)
def test_one_shot(node: rf.Node) -> rf.Case:
    return norm_case(tk.one_shot, node, LAST=True, WAIT="acquire")


@rf.test(modes="stream", schedules=40)
def test_one_shot_of_four_warps(node: rf.Node) -> rf.Case:
    return norm_case(tk.one_shot, node, num_warps=4, LAST=True, WAIT="acquire")


@rf.test(modes="stream", schedules=40, finding="data-race")
def test_one_shot_without_its_last_barrier(node: rf.Node) -> rf.Case:
    return norm_case(tk.one_shot, node, LAST=False, WAIT="acquire")


@rf.test(modes="stream", schedules=40, finding="data-race")
def test_one_shot_that_does_not_acquire(node: rf.Node) -> rf.Case:
    return norm_case(tk.one_shot, node, LAST=True, WAIT="relaxed")


@rf.test(ranks=[2, 4], modes="stream", schedules=40)
def test_two_shot(node: rf.Node) -> rf.Case:
    return norm_case(tk.two_shot, node, PUT="release", LAST=True)


@rf.test(modes="stream", schedules=40, finding="data-race")
def test_two_shot_that_does_not_release(node: rf.Node) -> rf.Case:
    return norm_case(tk.two_shot, node, PUT="relaxed", LAST=True)


@rf.test(modes="stream", schedules=100)
def test_two_shot_needs_no_last_barrier(node: rf.Node) -> rf.Case:
    # Peers write here only behind the first barrier of the next call, which this rank takes part in.
    return norm_case(tk.two_shot, node, PUT="release", LAST=False)


def gather_case(node: rf.Node, SET: str = "release", WAIT: str = "acquire") -> rf.Case:
    ranks, M, N, K, BM, BN = node.ranks, 16, 32, 32, 16, 16
    a = node.symmetric("a", (M, K), "bfloat16", init="integers")
    pad = node.symmetric("pad", (ranks, ranks), "uint32")
    gathered = node.local("gathered", (ranks * M, K), "bfloat16", init="poison")
    weight = node.local("weight", (N, K), "bfloat16", init="integers")
    out = node.local("out", (ranks * M, N), "bfloat16")
    progress = node.local("progress", ranks, "uint32")
    k = rf.triton(tk.all_gather_matmul, num_warps=1)
    launch = k[ranks + ranks * M // BM * (N // BN),](
        a.peers, pad.peers, gathered, weight, out, progress, rf.call + 1,
        rank=rf.rank, world=rf.world, M=M, N=N, K=K, BM=BM, BN=BN, SET=SET, WAIT=WAIT,
    )  # fmt: skip
    product = {out: lambda rank, inputs: np.concatenate(inputs[a]) @ inputs[weight][rank].T}
    return node.case(launch, calls=2, restored=[pad], modes="stream", expect=product)


@rf.test(modes="stream", schedules=40)
def test_all_gather_matmul(node: rf.Node) -> rf.Case:
    return gather_case(node)


@rf.test(modes="stream", schedules=40, finding="data-race")
def test_all_gather_matmul_whose_progress_is_not_released(node: rf.Node) -> rf.Case:
    return gather_case(node, SET="relaxed")


@rf.test(modes="stream", schedules=40, finding="data-race")
def test_all_gather_matmul_whose_progress_is_not_acquired(node: rf.Node) -> rf.Case:
    return gather_case(node, WAIT="relaxed")


def scatter_case(node: rf.Node, SEM: str = "release", LAST: bool = True) -> rf.Case:
    """Tensor descriptors from the host, of the own memories and of each rank's replica."""
    ranks, M, N, K, BM, BN, BK = node.ranks, 128, 64, 64, 64, 64, 32
    x = node.local("x", (M, K), "bfloat16", init="integers")
    weight = node.local("weight", (N, K), "bfloat16", init="integers")
    staged = node.symmetric("staged", (M, N), "float32", init="poison")
    tiles = M // BM * (N // BN)
    counters = node.symmetric("counters", tiles // ranks, "uint32")
    pad = node.symmetric("pad", (tiles, ranks), "uint32")
    out = node.local("out", (M // ranks, N), "bfloat16")
    k = rf.triton(tk.matmul_reduce_scatter, num_warps=4)
    launch = k[tiles,](
        x.tensor_map([BM, BK]), weight.tensor_map([BN, BK]),
        staged.tensor_map([BM, BN], of=staged.of(0)), staged.tensor_map([BM, BN], of=staged.of(1)),
        staged, counters.peers, pad.peers, out, rf.call + 1,
        rank=rf.rank, world=rf.world, M=M, N=N, K=K, BM=BM, BN=BN, BK=BK, SEM=SEM, LAST=LAST,
    )  # fmt: skip

    def expected(rank: int, inputs: rf.Inputs) -> Any:
        whole = sum(a @ b.T for a, b in zip(inputs[x], inputs[weight]))
        return np.split(whole, ranks)[rank]

    return node.case(launch, calls=2, restored=[pad], modes="stream", expect={out: expected})


@rf.test(modes="stream", schedules=20)
def test_matmul_reduce_scatter(node: rf.Node) -> rf.Case:
    return scatter_case(node)


@rf.test(modes="stream", schedules=20, finding="data-race")
def test_matmul_reduce_scatter_that_does_not_release(node: rf.Node) -> rf.Case:
    return scatter_case(node, SEM="relaxed")


@rf.test(modes="stream", schedules=20, finding="data-race")
def test_matmul_reduce_scatter_without_its_last_barrier(node: rf.Node) -> rf.Case:
    return scatter_case(node, LAST=False)


def test_a_story_names_lines_of_the_python_file() -> None:
    # A busy machine may need more than the 2 s of the default.
    result = norm_case(tk.two_shot, rf.Node(2), PUT="relaxed", LAST=True).fuzz(5, boundary="stream", remedies=60)
    found = result.require_finding()
    source = open(tk.__file__).read().splitlines()
    line = next(i for i, text in enumerate(source, 1) if "tl.store(theirs + row * hidden + own" in text)
    assert f"triton_kernels.py:{line}" in found.text
    assert any("order=release" in r for r in found.remedies), found.text


def test_each_rank_has_ptx_of_its_own_where_a_constexpr_depends_on_it() -> None:
    node = rf.Node(2)
    case = norm_case(tk.one_shot, node, LAST=True, WAIT="acquire")
    assert case.document["step"][0][1]["ptx"] == ["one_shot.rank0.ptx", "one_shot.rank1.ptx"]
    # One for all where none does.
    x, pad = node.symmetric("x2", 8, "uint64"), node.symmetric("pad2", 8, "uint32")
    k = rf.triton(tk.set_progress, num_warps=1)
    launch = k[1,](pad, 5, sem="release")
    assert len(launch.kernel.modules) == 1 and x.nbytes == 64


def test_signatures_say_the_same_as_examples() -> None:
    by_text = rf.triton(tk.set_progress, "*u32:16, i32", {"sem": "release"}, num_warps=1, ranks=1)
    by_name = rf.triton(tk.set_progress, {"flag": "*u32:16", "epoch": "i32"}, {"sem": "release"}, num_warps=1)
    node = rf.Node(1)
    flag = node.local("flag", 1, "uint32")
    by_example = rf.triton(tk.set_progress, [flag, 5], {"sem": "release"}, num_warps=1)
    by_launch = rf.triton(tk.set_progress, num_warps=1)
    by_launch[1,](flag, 5, sem="release")
    assert by_text.ptx == by_example.ptx == by_launch.ptx
    launch = by_name[1,](flag, 5)
    assert launch.kernel.ptx == by_text.ptx
    assert node.case(launch).run()[flag][0][0] == 5


def test_what_is_wrong_with_a_launch_is_told() -> None:
    node = rf.Node(2)
    flag = node.local("flag", 1, "uint32")
    k = rf.triton(tk.set_progress, num_warps=1)
    for wrong, what in [
        (lambda: k[1,](flag, sem="release"), "argument 'epoch' is missing"),
        (lambda: k[1,](flag, 5), "the constexpr sem is missing"),
        (lambda: k[1,](flag, 5, "release", 1), "4 arguments given, 3 are free"),
        (lambda: k[1,](flag, 5, semantics="release"), "no argument 'semantics'; there is flag, epoch, sem"),
        (lambda: k[1,](flag, "x", sem="release"), "a memory, an address"),
        (lambda: rf.triton(print), "expected a @triton.jit function"),
    ]:
        with pytest.raises(rf.InputError, match=what):
            wrong()
    with pytest.raises(rf.CompileError, match="set_progress"):
        k[1,](flag, 5, sem="nonsense")


def test_autotunes_configurations_are_taken_one_by_one() -> None:
    tuned = triton.autotune(
        [triton.Config({"LAST": True}, num_warps=w) for w in (1, 2)], key=["eps"], do_bench=lambda *a, **k: 0
    )(tk.one_shot)
    with pytest.raises(rf.InputError, match="rf.triton_configs"):
        rf.triton(tuned)
    node = rf.Node(2)
    x = node.symmetric("x", (1, 64), "bfloat16", init="integers")
    pad = node.symmetric("pad", 2, "uint32")
    bias = node.local("bias", 64, "bfloat16")
    gamma = node.local("gamma", 64, "float32", init="integers")
    out = node.local("out", (1, 64), "bfloat16")
    blocks = []
    for k in rf.triton_configs(tuned):
        launch = k[1,](x.peers, pad.peers, bias, gamma, out, 1e-6, rf.rank, rf.world, 64, WAIT="acquire")
        blocks.append(launch.block)
        node.case(launch, calls=2, restored=[pad]).fuzz(10, boundary="stream").require_clean()
    assert blocks == [(32,), (64,)]


def heuristic_case(tuned: Any, node: rf.Node) -> rf.Case:
    x = node.symmetric("x", (1, 64), "bfloat16", init="integers")
    pad = node.symmetric("pad", 2, "uint32")
    bias = node.local("bias", 64, "bfloat16")
    gamma = node.local("gamma", 64, "float32", init="integers")
    out = node.local("out", (1, 64), "bfloat16")
    launch = tuned[1,](x.peers, pad.peers, bias, gamma, out, 1e-6, rf.rank, rf.world, 64)
    return node.case(launch, calls=2, restored=[pad], modes="stream")


def test_heuristics_choose_as_the_jit_has_it() -> None:
    seen: list[dict[str, Any]] = []

    def last(args: dict[str, Any]) -> bool:
        seen.append(args)
        return bool(args["hidden"] >= 64)

    def wait(args: dict[str, Any]) -> str:
        return "acquire" if args["LAST"] else "relaxed"

    inner = triton.heuristics({"LAST": last, "WAIT": wait})(tk.one_shot)
    heuristic_case(rf.triton(inner, num_warps=1), rf.Node(2)).fuzz(40).require_clean()
    assert seen[-1]["hidden"] == 64 and seen[-1]["eps"] == 1e-6
    # Its twin: the one that waits chooses wrongly.
    wrong = triton.heuristics({"LAST": last, "WAIT": lambda args: "relaxed"})(tk.one_shot)
    found = heuristic_case(rf.triton(wrong, num_warps=1), rf.Node(2)).fuzz(40)
    assert found.finding is not None and found.finding.kind == "data-race"


def test_heuristics_and_configurations_go_together() -> None:
    tuned = triton.heuristics({"WAIT": lambda args: "acquire" if args["LAST"] else "relaxed"})(
        triton.autotune([triton.Config({"LAST": last}, num_warps=1) for last in (True, False)], key=["eps"],
                        do_bench=lambda *a, **k: 0)(tk.one_shot)
    )  # fmt: skip
    with pytest.raises(rf.InputError, match="rf.triton_configs"):
        rf.triton(tuned)
    with_last, without = rf.triton_configs(tuned)
    heuristic_case(with_last, rf.Node(2)).fuzz(40).require_clean()
    assert heuristic_case(without, rf.Node(2)).fuzz(40).finding is not None
