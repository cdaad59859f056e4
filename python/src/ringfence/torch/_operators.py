"""The operators: schemas, checks, fakes, what a call does.

In each: x are partial sums (or, with a matmul, the operand whose product they are), out is RMSNorm of their sum
over the ranks plus the residual. A rank reads and writes its own rows of the residual alone; a next call with
as many tokens reads the same rows.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import Tensor

from .._errors import InputError
from ._groups import MAX_HIDDEN, Workspace, owned_rows, translated, workspace


_library = torch.library.Library("ringfence", "DEF")

NORM = "fused_all_reduce_add_rms_norm"
MATMUL = "matmul_all_reduce_add_rms_norm"
_SCHEMAS = {
    NORM: "(Tensor x, Tensor residual, Tensor weight, float eps, str group) -> (Tensor, Tensor)",
    NORM + "_": "(Tensor(a!) x, Tensor(b!) residual, Tensor weight, float eps, str group) -> ()",
    NORM + ".out": "(Tensor x, Tensor residual, Tensor weight, float eps, str group, *, "
    "Tensor(a!) out, Tensor(b!) residual_out) -> ()",
    MATMUL: "(Tensor x, Tensor w, Tensor residual, Tensor weight, float eps, str group) -> (Tensor, Tensor)",
    MATMUL + "_": "(Tensor x, Tensor w, Tensor(a!) residual, Tensor weight, float eps, str group) -> Tensor",
    MATMUL + ".out": "(Tensor x, Tensor w, Tensor residual, Tensor weight, float eps, str group, *, "
    "Tensor(a!) out, Tensor(b!) residual_out) -> ()",
}


def _shape(t: Tensor) -> str:
    return "[" + ", ".join(str(s) for s in t.shape) + "]"


def _need(condition: bool, name: str, says: Callable[[], str]) -> None:
    if not condition:
        raise InputError(f"{name}: {says()}")


def _check_layout(op: str, tensors: dict[str, Tensor]) -> None:
    """Devices and strides: what all tensors of a call have in common."""
    device = next(iter(tensors.values())).device
    for name, t in tensors.items():
        _need(t.device == device, op, lambda: f"{name} is on {t.device}, and the first tensor on {device}")
        _need(
            t.is_contiguous(), op,
            lambda: f"{name} has strides {tuple(t.stride())} for shape {_shape(t)}: it must be contiguous: call .contiguous()",
        )  # fmt: skip


def _check_norm(op: str, residual: Tensor, weight: Tensor, eps: float, like: dict[str, Tensor]) -> None:
    """Shapes and dtypes of a norm of tensors like `residual`."""
    _need(
        residual.dtype in (torch.bfloat16, torch.float16), op,
        lambda: f"residual has dtype {residual.dtype}: use torch.bfloat16 or torch.float16",
    )  # fmt: skip
    _need(
        residual.dim() >= 2, op,
        lambda: f"residual has shape {_shape(residual)}: use [tokens, hidden], or more dimensions of tokens before them",
    )  # fmt: skip
    hidden = residual.shape[-1]
    _need(1 <= hidden <= MAX_HIDDEN, op, lambda: f"hidden {hidden} is not in 1 to {MAX_HIDDEN}")
    for name, t in like.items():
        _need(
            t.shape == residual.shape, op,
            lambda: f"{name} has shape {_shape(t)}, and residual {_shape(residual)}: they must be equal",
        )  # fmt: skip
        _need(
            t.dtype == residual.dtype, op,
            lambda: f"{name} has dtype {t.dtype}, and residual {residual.dtype}: they must be equal",
        )  # fmt: skip
    _need(
        weight.dim() == 1 and weight.shape[0] == hidden, op,
        lambda: f"weight has shape {_shape(weight)}: use [{hidden}], as residual has shape {_shape(residual)}",
    )  # fmt: skip
    _need(
        weight.dtype in (residual.dtype, torch.float32), op,
        lambda: f"weight has dtype {weight.dtype}: use {residual.dtype} or torch.float32",
    )  # fmt: skip
    _need(0 <= eps < 3.4e38, op, lambda: f"eps {eps} is not a finite number of 0 or more")


def check_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, **outs: Tensor) -> None:
    _check_norm(NORM, residual, weight, eps, {"x": x, **outs})
    _check_layout(NORM, {"x": x, "residual": residual, "weight": weight, **outs})


def check_matmul(x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, **outs: Tensor) -> None:
    op = MATMUL
    _check_norm(op, residual, weight, eps, outs)
    for name, t in (("x", x), ("w", w)):
        _need(
            t.dtype == residual.dtype, op,
            lambda: f"{name} has dtype {t.dtype}, and residual {residual.dtype}: they must be equal",
        )  # fmt: skip
    _need(
        x.dim() == residual.dim() and x.shape[:-1] == residual.shape[:-1], op,
        lambda: f"x has shape {_shape(x)}, and residual {_shape(residual)}: all dimensions but the last must be equal",
    )  # fmt: skip
    _need(
        w.dim() in (2, 3) and w.shape[-2] == residual.shape[-1] and w.shape[-1] == x.shape[-1], op,
        lambda: f"w has shape {_shape(w)}: use [{residual.shape[-1]}, {x.shape[-1]}] ([hidden, inner], as nn.Linear has it)",
    )  # fmt: skip
    _check_layout(op, {"x": x, "w": w, "residual": residual, "weight": weight, **outs})


def _by_rank(ws: Workspace, op: str, name: str, t: Tensor) -> list[Tensor]:
    """Each member's part, [tokens, columns]."""
    if ws.virtual is None:
        if t.dim() == 2:
            return [t]
        parts = [t]
    else:
        _need(
            t.dim() > 2 and t.shape[0] == ws.size, op,
            lambda: f"{name} has shape {_shape(t)}: for {ws.size} virtual ranks its first dimension is {ws.size}",
        )  # fmt: skip
        parts = list(t.unbind(0))
    return [p.view(p.numel() // p.shape[-1], p.shape[-1]) for p in parts]


def _norm(z: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm in tokenweave's roundings: of z * s, and of that times the weight."""
    wide = z.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return ((wide * scale).to(z.dtype).float() * weight.float()).to(z.dtype)


def _sum_of_ranks(ws: Workspace, partials: list[Tensor]) -> Tensor:
    if ws.virtual is None:
        total = partials[0].clone()
        dist.all_reduce(total, group=ws.group)
        return total
    wide = partials[0].float()
    for p in partials[1:]:
        wide = wide + p.float()
    return wide.to(partials[0].dtype)


def _without_kernels(
    ws: Workspace, partials: list[Tensor], residual: list[Tensor], weight: Tensor, eps: float,
    out: list[Tensor], residual_out: list[Tensor],
) -> None:  # fmt: skip
    total = _sum_of_ranks(ws, partials)
    if ws.virtual is None:
        # The all-reduce gives every rank all rows, so all rows of the residual are kept: the next call reads them.
        if (
            total.is_cuda and total.shape[-1] % 8 == 0 and weight.dtype == total.dtype
            and all(t.data_ptr() % 16 == 0 for t in (residual[0], weight, out[0], residual_out[0]))
        ):  # fmt: skip
            torch.ops.ringfence_native.add_rms_norm(total, residual[0], weight, out[0], residual_out[0], eps)
            return
        z = total + residual[0]
        out[0].copy_(_norm(z, weight, eps))
        residual_out[0].copy_(z)
        return
    # As the kernels: a rank's own rows make the whole of the residual, and are all that it writes.
    own = [slice(*owned_rows(total.shape[0], ws.size, r)) for r in range(ws.size)]
    z = total + torch.cat([residual[r][rows] for r, rows in enumerate(own)])
    for r, rows in enumerate(own):
        residual_out[r][rows] = z[rows]
    normed = _norm(z, weight, eps)
    for o in out:
        o.copy_(normed)


def _on_16_bytes(op: str, **tensors: Tensor) -> None:
    for name, t in tensors.items():
        _need(t.data_ptr() % 16 == 0, op, lambda: f"{name} does not begin on 16 bytes (a view?): call .clone()")


def _outside(op: str, residual_out: Tensor, buffers: list[Tensor]) -> None:
    _need(
        residual_out.untyped_storage().data_ptr() not in [b.untyped_storage().data_ptr() for b in buffers], op,
        lambda: "residual_out lies in the group's buffer, where x and out are: use memory of your own",
    )  # fmt: skip


def _call(
    op: str, fill: Callable[[Workspace, list[Tensor] | None], list[Tensor]], residual: Tensor, weight: Tensor,
    eps: float, group: str, out: Tensor, residual_out: Tensor,
) -> None:  # fmt: skip
    """One call. `fill` puts the members' partials into the buffers it is given, or hands them out."""
    hidden = residual.shape[-1]
    ws = workspace(group, residual.device)
    residuals, outs = _by_rank(ws, op, "residual", residual), _by_rank(ws, op, "out", out)
    tokens = residuals[0].shape[0]
    if tokens == 0:
        return
    _need(
        out.data_ptr() != residual_out.data_ptr(), op,
        lambda: "out and residual_out are the same memory: they are two results",
    )  # fmt: skip
    native = None
    if ws.fallback is None:
        if hidden % 8 == 0:
            _on_16_bytes(op, residual=residual, residual_out=residual_out, weight=weight)
        native = ws.native(hidden, residual.dtype, weight.dtype == torch.float32, tokens)
    if native is None:
        partials = fill(ws, None)
        _without_kernels(ws, partials, residuals, weight, eps, outs, _by_rank(ws, op, "residual_out", residual_out))
        return
    _outside(op, residual_out, native.buffers)
    buffers = [b[:tokens] for b in native.buffers]
    fill(ws, buffers)
    try:
        native.handle.enqueue(residual, residual_out, weight, tokens, eps)
    except RuntimeError as error:
        raise translated(error) from None
    for buffer, o in zip(buffers, outs):
        if o.data_ptr() != buffer.data_ptr():
            o.copy_(buffer)


def _call_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str, out: Tensor, residual_out: Tensor
) -> None:
    def fill(ws: Workspace, buffers: list[Tensor] | None) -> list[Tensor]:
        parts = _by_rank(ws, NORM, "x", x)
        if buffers is None:
            return parts
        for part, buffer in zip(parts, buffers):
            if part.data_ptr() != buffer.data_ptr():
                buffer.copy_(part)
        return buffers

    _call(NORM, fill, residual, weight, eps, group, out, residual_out)


def _call_matmul(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str, out: Tensor, residual_out: Tensor
) -> None:
    def fill(ws: Workspace, buffers: list[Tensor] | None) -> list[Tensor]:
        parts = _by_rank(ws, MATMUL, "x", x)
        if ws.virtual is None:
            _need(w.dim() == 2, MATMUL, lambda: f"w has shape {_shape(w)}: use [hidden, inner]")
            weights = [w]
        else:
            _need(
                w.dim() == 3 and w.shape[0] == ws.size, MATMUL,
                lambda: f"w has shape {_shape(w)}: for {ws.size} virtual ranks use [{ws.size}, hidden, inner]",
            )  # fmt: skip
            weights = list(w.unbind(0))
        if buffers is None:
            return [p @ m.t() for p, m in zip(parts, weights)]
        for part, matrix, buffer in zip(parts, weights, buffers):
            torch.mm(part, matrix.t(), out=buffer)
        return buffers

    _call(MATMUL, fill, residual, weight, eps, group, out, residual_out)


def _norm_new(x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> tuple[Tensor, Tensor]:
    check_norm(x, residual, weight, eps)
    out, residual_out = torch.empty_like(x), residual.clone()
    _call_norm(x, residual_out, weight, eps, group, out, residual_out)
    return out, residual_out


def _norm_in_place(x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> None:
    check_norm(x, residual, weight, eps)
    _call_norm(x, residual, weight, eps, group, x, residual)


def _norm_out(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str, *, out: Tensor, residual_out: Tensor
) -> None:
    check_norm(x, residual, weight, eps, out=out, residual_out=residual_out)
    _call_norm(x, residual, weight, eps, group, out, residual_out)


def _matmul_new(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str
) -> tuple[Tensor, Tensor]:
    check_matmul(x, w, residual, weight, eps)
    out, residual_out = torch.empty_like(residual), residual.clone()
    _call_matmul(x, w, residual_out, weight, eps, group, out, residual_out)
    return out, residual_out


def _matmul_in_place(x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> Tensor:
    check_matmul(x, w, residual, weight, eps)
    out = torch.empty_like(residual)
    _call_matmul(x, w, residual, weight, eps, group, out, residual)
    return out


def _matmul_out(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str, *, out: Tensor, residual_out: Tensor
) -> None:
    check_matmul(x, w, residual, weight, eps, out=out, residual_out=residual_out)
    _call_matmul(x, w, residual, weight, eps, group, out, residual_out)


def _fake_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> tuple[Tensor, Tensor]:
    check_norm(x, residual, weight, eps)
    return torch.empty_like(x), torch.empty_like(residual)


def _fake_norm_in_place(x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> None:
    check_norm(x, residual, weight, eps)


def _fake_norm_out(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str, *, out: Tensor, residual_out: Tensor
) -> None:
    check_norm(x, residual, weight, eps, out=out, residual_out=residual_out)


def _fake_matmul(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str
) -> tuple[Tensor, Tensor]:
    check_matmul(x, w, residual, weight, eps)
    return torch.empty_like(residual), torch.empty_like(residual)


def _fake_matmul_in_place(x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> Tensor:
    check_matmul(x, w, residual, weight, eps)
    return torch.empty_like(residual)


def _fake_matmul_out(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str, *, out: Tensor, residual_out: Tensor
) -> None:
    check_matmul(x, w, residual, weight, eps, out=out, residual_out=residual_out)


def _no_backward(name: str) -> Callable[..., Any]:
    """The operator for autograd's dispatch keys: it has no backward, and says so before it computes."""
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.ringfence, base), overload or "default")
    names = [a.name for a in op._schema.arguments]
    mutated = [
        (a.name, i) for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    ]

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            for argument, value in (*zip(names, args), *kwargs.items()):
                if isinstance(value, Tensor) and value.requires_grad:
                    raise RuntimeError(
                        f"ringfence::{base} has no backward, and {argument} requires a gradient: call it under "
                        "torch.no_grad() or torch.inference_mode()"
                    )
        for argument, place in mutated:
            torch.autograd.graph.increment_version(args[place] if place < len(args) else kwargs[argument])
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return call


def _register() -> None:
    real = {
        NORM: _norm_new, NORM + "_": _norm_in_place, NORM + ".out": _norm_out,
        MATMUL: _matmul_new, MATMUL + "_": _matmul_in_place, MATMUL + ".out": _matmul_out,
    }  # fmt: skip
    fake = {
        NORM: _fake_norm, NORM + "_": _fake_norm_in_place, NORM + ".out": _fake_norm_out,
        MATMUL: _fake_matmul, MATMUL + "_": _fake_matmul_in_place, MATMUL + ".out": _fake_matmul_out,
    }  # fmt: skip
    for name, schema in _SCHEMAS.items():
        _library.define(name + schema)
        for key in ("CPU", "CUDA"):
            _library.impl(name, real[name], key)
        torch.library.register_fake(f"ringfence::{name}", fake[name], lib=_library)
        _library.impl(name, _no_backward(name), "Autograd")


_register()
