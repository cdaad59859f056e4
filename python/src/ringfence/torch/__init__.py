"""All-reduce + residual add + RMSNorm in one kernel, as operators of torch.library.

    import ringfence.torch as rt
    out, residual = rt.fused_all_reduce_add_rms_norm(partial, residual, weight, eps, group)

`group` is a ProcessGroup, its name, None for the default group, or virtual_ranks(n). Every rank calls with as
many tokens. Of the residual, a rank reads and writes its own rows alone (owned_rows), so that the next call with
as many tokens finds them; gather_residual() makes it whole. docs/torch.md says the rest.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .._errors import InputError
from . import _native
from ._groups import (
    TRANSPORTS,
    Options,
    PeerLostError,
    VirtualRanks,
    _workspaces,
    group_name,
    indexed,
    release,
    virtual_ranks,
    workspace,
)
from ._groups import owned_rows as _owned_rows
from ._operators import MATMUL, NORM

__all__ = [
    "PeerLostError", "VirtualRanks", "buffer", "check", "fused_all_reduce_add_rms_norm",
    "fused_all_reduce_add_rms_norm_", "fused_all_reduce_add_rms_norm_out", "gather_residual",
    "matmul_all_reduce_add_rms_norm", "matmul_all_reduce_add_rms_norm_", "matmul_all_reduce_add_rms_norm_out",
    "owned_rows", "prepare", "release", "virtual_ranks",
]  # fmt: skip

_ops = torch.ops.ringfence

# A stale library is told now, not at the first call.
if _native.installed():
    _native.load()


def fused_all_reduce_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: Any
) -> tuple[Tensor, Tensor]:
    """(out, residual_out), both new: z = sum of x over the ranks + residual; out = z / rms(z) * weight, all rows on
    every rank; residual_out = z in this rank's own rows, else the residual's."""
    return getattr(_ops, NORM)(x, residual, weight, eps, group_name(group))  # type: ignore[no-any-return]


def fused_all_reduce_add_rms_norm_(x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: Any) -> None:
    """The same in place: x becomes out, residual becomes residual_out."""
    getattr(_ops, NORM + "_")(x, residual, weight, eps, group_name(group))


def fused_all_reduce_add_rms_norm_out(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: Any, *, out: Tensor, residual_out: Tensor
) -> tuple[Tensor, Tensor]:
    """The same into out and into the own rows of residual_out; these may be x and residual, in either order."""
    getattr(_ops, NORM).out(x, residual, weight, eps, group_name(group), out=out, residual_out=residual_out)
    return out, residual_out


def matmul_all_reduce_add_rms_norm(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: Any
) -> tuple[Tensor, Tensor]:
    """As fused_all_reduce_add_rms_norm(x @ w.T, ...), the product written where the kernel takes it.
    x: [tokens, inner], w: [hidden, inner], both this rank's columns: a row-parallel nn.Linear."""
    return getattr(_ops, MATMUL)(x, w, residual, weight, eps, group_name(group))  # type: ignore[no-any-return]


def matmul_all_reduce_add_rms_norm_(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: Any
) -> Tensor:
    """The same with the residual updated in place; out is new."""
    return getattr(_ops, MATMUL + "_")(x, w, residual, weight, eps, group_name(group))


def matmul_all_reduce_add_rms_norm_out(
    x: Tensor, w: Tensor, residual: Tensor, weight: Tensor, eps: float, group: Any, *, out: Tensor, residual_out: Tensor
) -> tuple[Tensor, Tensor]:
    """The same into out and into the own rows of residual_out."""
    getattr(_ops, MATMUL).out(x, w, residual, weight, eps, group_name(group), out=out, residual_out=residual_out)
    return out, residual_out


def prepare(
    group: Any,
    hidden: int,
    dtype: torch.dtype,
    *,
    max_tokens: int,
    weight_dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    transport: str = "auto",
    blocks: int = 0,
    start: str = "relaxed",
    dependent_launch: bool = False,
    timeout: float = 60.0,
) -> bool:
    """Makes the group's workspace for calls of up to max_tokens; collective. Whether the kernels will be used.

    Without it, the first call does it, for 1024 tokens or the next power of two; a call that is captured into a CUDA
    graph cannot. The options hold for the group: all ranks give the same, before its first call.
    transport         "auto", "peer" (two barriers), "push" (mailboxes, for few tokens)
    blocks            a rank; 0: as many as there are rows, up to 128 (8 with virtual ranks)
    start             "relaxed" or "strict": orders of the start barrier (docs/modes.md)
    dependent_launch  starts while the kernel before still runs; not where kernels on other streams wait for peers
    timeout           seconds that a rank waits for another inside a kernel; 0: for ever
    """
    if transport not in TRANSPORTS:
        raise InputError(f"transport '{transport}': use auto, peer or push")
    if start not in ("relaxed", "strict"):
        raise InputError(f"start '{start}': use relaxed or strict")
    if max_tokens < 1:
        raise InputError(f"max_tokens {max_tokens}: use 1 or more")
    if timeout < 0:
        raise InputError(f"timeout {timeout}: use seconds, or 0 for no limit")
    name = group_name(group)
    if device is None:
        if isinstance(group, VirtualRanks):
            device = group.device
        else:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options = Options(transport, blocks, start, dependent_launch, timeout)
    ws = workspace(name, indexed(torch.device(device)), options)
    if ws.options != options:
        raise InputError(f"group '{name}' has its workspace already, with {ws.options}: release() it first")
    if ws.fallback is not None:
        return False
    key = (hidden, dtype, weight_dtype == torch.float32)
    have = ws.natives.get(key)
    if have is None or have.max_tokens < max_tokens:
        try:
            ws.grow(key, max_tokens)
        except Exception:
            if not ws.natives:
                _workspaces.pop(name)  # as if it had not been tried
            raise
    return ws.fallback is None


def buffer(group: Any, tokens: int, hidden: int, dtype: torch.dtype, weight_dtype: torch.dtype | None = None) -> Tensor:
    """The memory that the kernels work on, [tokens, hidden]: what is written here as x and read here as out is not
    copied. Every call of the group writes it. Needs prepare(); not with virtual ranks."""
    name = group_name(group)
    ws = _workspaces.get(name)
    native = ws.natives.get((hidden, dtype, weight_dtype == torch.float32)) if ws is not None else None
    if native is None or native.max_tokens < tokens:
        raise InputError(
            f"group '{name}' has no workspace of {tokens} tokens for hidden {hidden}, {dtype}: call prepare() first"
        )
    if len(native.buffers) != 1:
        raise InputError("virtual ranks have a buffer each: use tensors of your own")
    return native.buffers[0][:tokens]


def owned_rows(tokens: int, group: Any, rank: int | None = None) -> tuple[int, int]:
    """[first, last) of the rows of the residual that this rank (or another of the group) reads and writes."""
    if isinstance(group, VirtualRanks):
        return _owned_rows(tokens, group.size, 0 if rank is None else rank)
    from ._groups import _process_group

    resolved = _process_group(group_name(group))
    return _owned_rows(tokens, dist.get_world_size(resolved), dist.get_rank(resolved) if rank is None else rank)


def gather_residual(residual: Tensor, group: Any) -> Tensor:
    """The whole residual, new, from every rank's own rows; collective."""
    if isinstance(group, VirtualRanks):
        flat = residual.view(group.size, -1, residual.shape[-1])
        tokens = flat.shape[1]
        parts = []
        for r in range(group.size):
            first, last = _owned_rows(tokens, group.size, r)
            parts.append(flat[r, first:last])
        return torch.cat(parts).view(residual.shape[1:])
    from ._groups import _process_group

    resolved = _process_group(group_name(group))
    size = dist.get_world_size(resolved)
    flat = residual.reshape(-1, residual.shape[-1])
    first, last = _owned_rows(flat.shape[0], size, dist.get_rank(resolved))
    each = -(-flat.shape[0] // size)
    mine = flat.new_zeros(each, flat.shape[1])
    mine[: last - first] = flat[first:last]
    every = flat.new_empty(size * each, flat.shape[1])
    dist.all_gather_into_tensor(every, mine, group=resolved)
    return every[: flat.shape[0]].reshape(residual.shape)


def check(group: Any) -> None:
    """Waits for the device, and raises PeerLostError where a rank waited longer than the time limit. A call raises it
    too, once an earlier one has run into the limit."""
    ws = _workspaces.get(group_name(group))
    if ws is not None:
        ws.check()
