"""A tensor-parallel transformer layer before and after ringfence.torch.

    torchrun --nproc-per-node 2 docs/examples/torch_layer.py      (or without torchrun: two processes)

On one GPU, or on the CPU, both processes use that; a CPU falls back to the all-reduce of torch.distributed.
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

import ringfence.torch as rt

HIDDEN, HEADS, INNER, TOKENS, EPS = 512, 8, 1024, 24, 1e-6


class Before(nn.Module):
    """Each rank has its part of the heads and of the inner columns."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = HEADS // size
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN // size, bias=False)
        self.o = nn.Linear(HIDDEN // size, HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, INNER // size, bias=False)
        self.down = nn.Linear(INNER // size, HIDDEN, bias=False)
        self.norm_mlp = nn.RMSNorm(HIDDEN, EPS)
        self.norm_next = nn.RMSNorm(HIDDEN, EPS)

    def attention(self, h: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(h).view(h.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(h.shape[0], -1)

    def forward(self, h: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.o(self.attention(h))
        dist.all_reduce(h)
        residual = residual + h
        h = self.norm_mlp(residual)
        h = self.down(F.silu(self.up(h)))
        dist.all_reduce(h)
        residual = residual + h
        return self.norm_next(residual), residual


class After(Before):
    def forward(self, h: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h, residual = rt.matmul_all_reduce_add_rms_norm(
            self.attention(h), self.o.weight, residual, self.norm_mlp.weight, EPS, dist.group.WORLD
        )
        return rt.matmul_all_reduce_add_rms_norm(
            F.silu(self.up(h)), self.down.weight, residual, self.norm_next.weight, EPS, dist.group.WORLD
        )


@torch.no_grad()
def work(rank: int, size: int, store: str) -> None:
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", rank % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    # NCCL wants a GPU a rank; ringfence.torch takes what group there is to set up by.
    dist.init_process_group("nccl" if gpus >= size else "gloo", init_method=store, rank=rank, world_size=size)
    torch.manual_seed(rank)
    before = Before(size).to(device, torch.bfloat16)
    after = After(size).to(device, torch.bfloat16)
    after.load_state_dict(before.state_dict())
    torch.manual_seed(1000)
    h = torch.randn(TOKENS, HIDDEN).to(device, torch.bfloat16)
    want, whole = before(h, h)
    got, residual = after(h, h)
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
    # A rank's own rows are what the next layer's call reads; whoever wants the others gathers them.
    first, last = rt.owned_rows(TOKENS, dist.group.WORLD)
    torch.testing.assert_close(residual[first:last], whole[first:last], rtol=0.02, atol=0.02)
    rt.check(dist.group.WORLD)
    if rank == 0:
        print(f"{size} ranks on {device.type}: before and after agree within {(got - want).abs().max().item():.3g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://")
    else:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(work, (2, f"file://{folder}/store"), nprocs=2)
