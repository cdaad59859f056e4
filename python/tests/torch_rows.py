"""What a call of ringfence.torch's operator may give, worked out here in plain arithmetic: no value comes from the
package or from another run."""

from __future__ import annotations

from typing import Any

import torch

# The mean of squares is a sum in fp32 whose order is the kernel's: a thread adds up to 16 elements and the threads'
# sums meet in a tree of at most 10 levels, so at most 32 roundings of 2^-24; the root halves that, and adds the
# division and rsqrt's 2^-22. The scale is within 2^-18 of the exact one.
SCALE = 2.0**-18


def require_rows(x: Any, residual: Any, weight: Any, eps: float, out: Any, after: Any) -> None:
    """x, residual, out, after: [ranks, tokens, hidden]. The residual's rows bit for bit, each element of out one of
    the values that a scale within its bound can round to."""
    size, tokens, _ = x.shape
    total = x[0].float()
    for part in x[1:]:
        total = total + part.float()
    each = -(-tokens // size)
    z = torch.empty_like(x[0])
    expected = residual.clone()
    for r in range(size):
        own = slice(min(each * r, tokens), min(each * (r + 1), tokens))
        z[own] = (total[own].to(x.dtype).float() + residual[r, own].float()).to(x.dtype)
        expected[r, own] = z[own]
    assert torch.equal(after.view(torch.int16), expected.view(torch.int16)), "residual_out"
    exact = z.double() * torch.rsqrt(z.double().square().mean(-1, keepdim=True) + eps)
    ends = []
    for factor in (1 - SCALE, 1 + SCALE):
        # fp32 on the way, as the kernel multiplies; the bound is far wider than that rounding.
        ends.append(((exact * factor).to(x.dtype).float() * weight.float()).to(x.dtype).float())
    low, high = torch.minimum(*ends), torch.maximum(*ends)
    for r in range(size):
        got = out[r].float()
        wrong = ~((got >= low) & (got <= high))
        if wrong.any():
            row, column = (int(i) for i in wrong.nonzero()[0])
            raise AssertionError(
                f"out of rank {r}: {int(wrong.sum())} elements; [{row}, {column}] is {got[row, column].item()}, and may be "
                f"{low[row, column].item()} to {high[row, column].item()}"
            )
    assert torch.equal(out[0].expand_as(out).contiguous().view(torch.int16), out.contiguous().view(torch.int16)), "replicas"
