"""PyTorch's one-shot and two-shot symmetric-memory all-reduce and a compiled add + RMSNorm, timed as
`ringfence gpu bench` times its methods: graphs of several calls, CUDA events, the median, the slowest
rank. Start with torchrun, a process a GPU. Multicast stays off (TORCH_SYMM_MEM_DISABLE_MULTICAST=1)."""

import os
import statistics

for name, value in (
    ("NCCL_NVLS_ENABLE", "0"),
    ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
    ("NVSHMEM_DISABLE_NVLS", "1"),
):
    if os.environ.get(name) != value:
        raise SystemExit(f"{name} must be {value}")

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

HIDDEN = 8192
TOKENS = (8, 64, 256, 1024, 4096)


def add_rmsnorm(x, residual, gamma):
    z = x + residual
    s = torch.rsqrt(z.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return (z.float() * s).to(z.dtype) * gamma, z


def time_us(work, calls):
    work()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        work()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                work()
    times = []
    for _ in range(13):
        dist.barrier()
        torch.cuda.synchronize()
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / calls)
    slowest = torch.tensor([statistics.median(times[3:])], device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def main():
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    group = dist.group.WORLD.group_name
    norm = torch.compile(add_rmsnorm)
    if dist.get_rank() == 0:
        print(f"# torch {torch.__version__}, {dist.get_world_size()} ranks, hidden {HIDDEN}, bf16, us")
        print("#  tokens    norm  one-shot  one-shot+norm  two-shot  two-shot+norm")
    for tokens in TOKENS:
        calls = 20 if tokens <= 256 else 5
        buffer = symm_mem.empty(tokens, HIDDEN, dtype=torch.bfloat16, device="cuda")
        buffer.normal_()
        symm_mem.rendezvous(buffer, group)
        residual = torch.randn(tokens, HIDDEN, dtype=torch.bfloat16, device="cuda")
        gamma = torch.ones(HIDDEN, dtype=torch.bfloat16, device="cuda")
        ops = torch.ops.symm_mem

        def one_shot():
            return ops.one_shot_all_reduce(buffer, "sum", group)

        def two_shot():
            return ops.two_shot_all_reduce_(buffer, "sum", group)

        row = [time_us(lambda: norm(residual, residual, gamma), calls)]
        for reduce in (one_shot, two_shot):
            row.append(time_us(reduce, calls))
            row.append(time_us(lambda: norm(reduce(), residual, gamma), calls))
        if dist.get_rank() == 0:
            print(f"{tokens:>9} {row[0]:7.2f} {row[1]:9.2f} {row[2]:14.2f} {row[3]:9.2f} {row[4]:14.2f}",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
