"""Every function of docs/values.md by the command line, against NumPy in double precision.

A kernel copies what NumPy computed to `out`; the case expects the expression. Its twin has one element that
is beyond any bound and must be named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from ringfence import _program, _safetensors

RANKS, ROWS, COLUMNS, GROUP = 4, 6, 16, 4
COPY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to)
{
  .reg .b64 %f, %t;
  .reg .b32 %i;
  .reg .b16 %v;
  ld.param.u64 %f, [from];
  ld.param.u64 %t, [to];
  mov.u32 %i, %tid.x;
  mad.wide.u32 %f, %i, 2, %f;
  mad.wide.u32 %t, %i, 2, %t;
  ld.global.b16 %v, [%f];
  st.global.b16 [%t], %v;
  ret;
}
"""
Array = np.ndarray[Any, Any]


def bits(x: Array) -> Array:
    """Nearest even bf16 of doubles, as its bits."""
    wide = np.asarray(x, "f8").astype("f4").view("u4").astype("u8")
    return ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype("u2")


def doubles(b: Array) -> Array:
    return (b.astype("u4") << 16).view("f4").astype("f8")


def rms(x: Array, eps: float) -> Array:
    return 1 / np.sqrt((x**2).mean(1, keepdims=True) + eps)


def layernorm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps) * gamma + beta


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def groups(x: Array) -> Array:
    return x.reshape(ROWS, COLUMNS // GROUP, GROUP)


def e4m3(x: Array) -> Array:
    """Nearest even of the 4-bit exponent, 3-bit mantissa type, saturated at 448."""
    x = np.clip(x, -448, 448)
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-20))), -6)
    step = 2.0 ** (exponent - 3)
    return np.round(x / step) * step


def parts(x: Array, rank: int) -> Array:
    return x.reshape(RANKS, -1)[rank]


# The function as docs/values.md names it, an expression, and what it is of rank r in NumPy: x has a row of
# each rank's data, y its second input; w is [8, COLUMNS], gamma and beta are rows.
Rule = Callable[[Array, Array, Array, Array, Array, int], Array]
TABLE: list[tuple[str, str, Rule]] = [
    ("sum", "sum(x)", lambda x, y, w, g, b, r: x.sum(0)),
    ("product", "product(x)", lambda x, y, w, g, b, r: x.prod(0)),
    ("max", "max(x)", lambda x, y, w, g, b, r: x.max(0)),
    ("min", "min(x)", lambda x, y, w, g, b, r: x.min(0)),
    ("concat", "concat(x)", lambda x, y, w, g, b, r: x),
    ("scatter", "scatter(x, root = 2)", lambda x, y, w, g, b, r: parts(x[2], r)),
    ("broadcast", "broadcast(x, root = 1)", lambda x, y, w, g, b, r: x[1]),
    ("all_to_all", "all_to_all(x)", lambda x, y, w, g, b, r: np.stack([parts(x[s], r) for s in range(RANKS)])),
    ("peer", "peer(x, distance = 3)", lambda x, y, w, g, b, r: x[(r + 3) % RANKS]),
    ("part", "part(sum(x))", lambda x, y, w, g, b, r: parts(x.sum(0), r)),
    ("slice", "slice(x, first = 5, count = 7)", lambda x, y, w, g, b, r: x[r].ravel()[5:12]),
    ("rows", "row_sum(rows(x, columns = 8))", lambda x, y, w, g, b, r: x[r].reshape(-1, 8).sum(1)),
    ("matmul", "matmul(x, w, inner = 16)", lambda x, y, w, g, b, r: x[r] @ w.T),
    ("matmul", "matmul(x, w, inner = 16, tiles = [2, 4, 2])", lambda x, y, w, g, b, r: x[r] @ w.T),
    ("cast", "cast(x, to = e4m3)", lambda x, y, w, g, b, r: e4m3(x[r])),
    ("maximum", "maximum(x, y)", lambda x, y, w, g, b, r: np.maximum(x[r], y[r])),
    ("minimum", "minimum(x, 0.5)", lambda x, y, w, g, b, r: np.minimum(x[r], 0.5)),
    ("abs", "abs(x)", lambda x, y, w, g, b, r: np.abs(x[r])),
    ("exp", "exp(x)", lambda x, y, w, g, b, r: np.exp(x[r])),
    ("sqrt", "sqrt(abs(x))", lambda x, y, w, g, b, r: np.sqrt(np.abs(x[r]))),
    ("rsqrt", "rsqrt(abs(x) + 1)", lambda x, y, w, g, b, r: 1 / np.sqrt(np.abs(x[r]) + 1)),
    ("silu", "silu(x)", lambda x, y, w, g, b, r: x[r] / (1 + np.exp(-x[r]))),
    ("row_sum", "row_sum(x)", lambda x, y, w, g, b, r: x[r].sum(1)),
    ("rms", "rms(x, eps = 1e-3)", lambda x, y, w, g, b, r: rms(x[r], 1e-3)),
    ("rmsnorm", "rmsnorm(x, gamma, eps = 1e-6)", lambda x, y, w, g, b, r: x[r] * rms(x[r], 1e-6) * g),
    ("layernorm", "layernorm(x, gamma, beta, eps = 1e-5)", lambda x, y, w, g, b, r: layernorm(x[r], g, b, 1e-5)),
    ("layernorm", "layernorm(x, eps = 1e-5)", lambda x, y, w, g, b, r: layernorm(x[r], g * 0 + 1, b * 0, 1e-5)),
    ("softmax", "softmax(x)", lambda x, y, w, g, b, r: softmax(x[r])),
    ("amax", "amax(x, per = tensor)", lambda x, y, w, g, b, r: np.abs(x[r]).max()),
    ("amax", "amax(x, per = row)", lambda x, y, w, g, b, r: np.abs(x[r]).max(1)),
    ("amax", "amax(x, per = 4)", lambda x, y, w, g, b, r: np.abs(groups(x[r])).max(2)),
    (
        "scale_of",
        "scale_of(x, to = e4m3, per = row, least = 0.001)",
        lambda x, y, w, g, b, r: np.maximum(np.abs(x[r]).max(1) / 448, 0.001),
    ),
    ("quantise", "quantise(x, 0.25, to = e4m3)", lambda x, y, w, g, b, r: e4m3(x[r] / 0.25)),
    ("", "(1 + gamma) * x - y / 2", lambda x, y, w, g, b, r: (1 + g) * x[r] - y[r] / 2),
    (
        "",
        "x / amax(x, per = 4)",
        lambda x, y, w, g, b, r: groups(x[r]) / np.abs(groups(x[r])).max(2, keepdims=True),
    ),
    (
        "",
        "rmsnorm(sum(x) + residual, gamma, eps = 1e-6)",
        lambda x, y, w, g, b, r: (x.sum(0) + y[0]) * rms(x.sum(0) + y[0], 1e-6) * g,
    ),
]


def outcome(folder: Path, text: str, rule: Rule, wrong: bool) -> tuple[int, str, int, int]:
    """Exit status and text of a fuzz run; with `wrong`, the element and rank that are."""
    random = np.random.default_rng(7)

    def numbers(*shape: int) -> Array:
        return bits(random.normal(size=shape))

    x, y = numbers(RANKS, ROWS, COLUMNS), numbers(RANKS, ROWS, COLUMNS)
    w, gamma, beta = numbers(8, COLUMNS), numbers(COLUMNS), numbers(COLUMNS)
    values = [doubles(t) for t in (x, y, w, gamma, beta)]
    right = [bits(np.asarray(rule(*values, r)).ravel()) for r in range(RANKS)]
    count = right[0].size
    at, rank = count // 2, RANKS - 2
    if wrong:
        right[rank][at] = bits(doubles(right[rank][at : at + 1]) * 1.5 + 1)[0]
    tensors = {"w": ("bf16", w), "gamma": ("bf16", gamma), "beta": ("bf16", beta), "residual": ("bf16", y[0])}
    for r in range(RANKS):
        tensors |= {f"x.{r}": ("bf16", x[r]), f"y.{r}": ("bf16", y[r]), f"right.{r}": ("bf16", right[r])}
    (folder / "t.safetensors").write_bytes(_safetensors.write(tensors))
    (folder / "copy.ptx").write_text(COPY)
    each = {"x": x[0].size, "y": x[0].size, "right": count}
    sizes = each | {"w": w.size, "gamma": COLUMNS, "beta": COLUMNS, "residual": x[0].size}
    case = ["version = 1", f"ranks = {RANKS}"]
    for name, n in sizes.items():
        tensor = name + (".{rank}" if name in each else "")
        case += [f"[memory.{name}]", 'kind = "local"', f"bytes = {2 * n}"]
        case += [f'init = {{ file = "t.safetensors", tensor = "{tensor}" }}']
    case += ["[memory.out]", 'kind = "local"', f"bytes = {2 * count}"]
    case += ["[[launch]]", 'ptx = "copy.ptx"', 'kernel = "copy"', "grid = [1]", f"block = [{count}]"]
    case += ['args = [ {memory = "right"}, {memory = "out"} ]']
    case += ["[check.expected.out]", f"columns = {COLUMNS}", 'dtype = "bf16"', f'value = "{text}"']
    (folder / "case.toml").write_text("\n".join(case) + "\n")
    done = _program.run(
        ["fuzz", "--case", "case.toml", "--schedules", "2", "--boundary", "stream"], folder
    )
    return done.status, done.stdout + done.stderr, at, rank


@pytest.mark.parametrize(("text", "rule"), [row[1:] for row in TABLE], ids=[row[1] for row in TABLE])
def test_an_expression_is_what_numpy_computes_and_one_wrong_element_is_named(
    tmp_path: Path, text: str, rule: Rule
) -> None:
    status, said, _, _ = outcome(tmp_path, text, rule, wrong=False)
    assert status == 0, said
    status, said, _, rank = outcome(tmp_path, text, rule, wrong=True)
    assert status == 1 and "numeric-mismatch" in said, said
    assert re.search(rf"1 of \d+ elements mismatch, first \[[\d, ]+\] of rank {rank}", said), said


def test_the_table_of_the_docs_is_the_one_that_is_tested() -> None:
    section = (ROOT / "docs" / "values.md").read_text().split("| function | gives |")[1].split("\n\n")[0]
    documented = set()
    for line in section.splitlines()[2:]:
        documented |= set(re.findall(r"`(\w+)\(", line.split("|")[1]))
    assert documented == {name for name, _, _ in TABLE if name}
