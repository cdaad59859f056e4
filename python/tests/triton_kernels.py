"""Triton kernels over symmetric memory, in the idiom of shipped ones. Constexprs make their broken twins."""

import triton
import triton.language as tl


@triton.jit
def exchange_slot(addresses, sem: tl.constexpr, there: tl.constexpr, to: tl.constexpr):
    """Each slot goes from one value to another, once it is there."""
    tl.inline_asm_elementwise(
        """
        {
            .reg .u32 %seen;
            .reg .pred %again;
        again:
            atom.global."""
        + sem
        + ".sys.cas.b32 %seen, [$1], "
        + there
        + ", "
        + to
        + """;
            setp.ne.u32 %again, %seen, """
        + there
        + """;
            @%again bra again;
        }
        """,
        "=r,l",
        [addresses],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def put_signal(addresses, sem: tl.constexpr):
    """A slot of each peer's pad goes from 0 to 1."""
    exchange_slot(addresses, sem, "0", "1")


@triton.jit
def wait_signal(addresses, sem: tl.constexpr):
    """A slot of the own pad goes back from 1 to 0."""
    exchange_slot(addresses, sem, "1", "0")


@triton.jit
def thread_of_block():
    return tl.inline_asm_elementwise("mov.u32 $0, %tid.x;", "=r", [], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def barrier(pads, block, rank: tl.constexpr, world: tl.constexpr, put: tl.constexpr, wait: tl.constexpr):
    """Of the blocks of one number on all ranks. `put`, `wait`: release or relaxed, acquire or relaxed."""
    peers = tl.arange(0, world)
    theirs = tl.load(pads + peers).to(tl.pointer_type(tl.uint32)) + block * world + rank
    own = tl.load(pads + rank).to(tl.pointer_type(tl.uint32)) + block * world + peers
    tl.debug_barrier()
    if thread_of_block() < world:
        put_signal(theirs, put)
        wait_signal(own, wait)
    tl.debug_barrier()


@triton.jit
def one_shot(
    x, pads, bias, gamma, out, eps,
    rank: tl.constexpr, world: tl.constexpr, hidden: tl.constexpr,
    LAST: tl.constexpr, WAIT: tl.constexpr,
):  # fmt: skip
    """A row a block: all ranks' rows are added, then bias and RMSNorm."""
    row = tl.program_id(0)
    columns = tl.arange(0, hidden)
    barrier(pads, row, rank, world, "relaxed", WAIT)
    total = tl.load(bias + columns).to(tl.float32)
    for peer in tl.static_range(world):
        theirs = tl.load(x + peer).to(tl.pointer_type(tl.bfloat16))
        theirs = tl.multiple_of(theirs, 16)
        total += tl.load(theirs + row * hidden + columns).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(total * total, 0) / hidden + eps)
    tl.store(out + row * hidden + columns, (total * scale * tl.load(gamma + columns)).to(tl.bfloat16))
    if LAST:
        barrier(pads, row, rank, world, "release", "relaxed")


@triton.jit
def two_shot(
    x, pads, bias, gamma, out, eps,
    rank: tl.constexpr, world: tl.constexpr, hidden: tl.constexpr,
    PUT: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """A row a block: each rank adds its part of the columns and hands it to all; then bias and RMSNorm."""
    row = tl.program_id(0)
    part: tl.constexpr = hidden // world
    own = rank * part + tl.arange(0, part)
    columns = tl.arange(0, hidden)
    barrier(pads, row, rank, world, "relaxed", "acquire")
    total = tl.zeros((part,), tl.float32)
    for peer in tl.static_range(world):
        theirs = tl.multiple_of(tl.load(x + peer).to(tl.pointer_type(tl.bfloat16)), 16)
        total += tl.load(theirs + row * hidden + own).to(tl.float32)
    for peer in tl.static_range(world):
        theirs = tl.multiple_of(tl.load(x + peer).to(tl.pointer_type(tl.bfloat16)), 16)
        tl.store(theirs + row * hidden + own, total.to(tl.bfloat16))
    barrier(pads, row, rank, world, PUT, "acquire")
    mine = tl.multiple_of(tl.load(x + rank).to(tl.pointer_type(tl.bfloat16)), 16)
    whole = tl.load(mine + row * hidden + columns).to(tl.float32) + tl.load(bias + columns).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(whole * whole, 0) / hidden + eps)
    tl.store(out + row * hidden + columns, (whole * scale * tl.load(gamma + columns)).to(tl.bfloat16))
    if LAST:
        barrier(pads, row, rank, world, "release", "relaxed")


@triton.jit
def set_progress(flag, epoch, sem: tl.constexpr):
    tl.debug_barrier()
    tl.atomic_xchg(flag, epoch, sem=sem, scope="gpu")


@triton.jit
def wait_progress(flag, value, sem: tl.constexpr, scope: tl.constexpr):
    """Until one thread has seen the value; then all of the block go on."""
    if thread_of_block() == 0:
        tl.inline_asm_elementwise(
            """
            {
                .reg .pred %again;
            again:
                ld.global."""
            + sem
            + "."
            + scope
            + """.u32 $0, [$1];
                setp.ne.u32 %again, $0, $2;
                @%again bra again;
            }
            """,
            "=&r,l,r",
            [flag, value],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    tl.debug_barrier()


@triton.jit
def all_gather_matmul(
    a, pads, gathered, weight, out, progress, epoch,
    rank: tl.constexpr, world: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SET: tl.constexpr, WAIT: tl.constexpr,
):  # fmt: skip
    """Blocks 0 to world - 1 each fetch a peer's rows; the others multiply tiles of what has arrived.

    a: [M, K] a rank; gathered: [world * M, K]; weight: [N, K]; out: [world * M, N].
    """
    block = tl.program_id(0)
    k = tl.arange(0, K)
    if block < world:
        peer = (rank + block) % world
        barrier(pads, block, rank, world, "relaxed", "acquire")
        rows = tl.arange(0, M)
        theirs = tl.multiple_of(tl.load(a + peer).to(tl.pointer_type(tl.bfloat16)), 16)
        chunk = tl.load(theirs + rows[:, None] * K + k[None, :])
        tl.store(gathered + (peer * M + rows)[:, None] * K + k[None, :], chunk)
        set_progress(progress + peer, epoch, SET)
        barrier(pads, block, rank, world, "release", "relaxed")
    else:
        tile = block - world
        first = (tile // (N // BN)) * BM
        rows = first + tl.arange(0, BM)
        columns = (tile % (N // BN)) * BN + tl.arange(0, BN)
        wait_progress(progress + first // M, epoch, WAIT, "gpu")
        x = tl.load(gathered + rows[:, None] * K + k[None, :])
        w = tl.load(weight + columns[:, None] * K + k[None, :])
        product = tl.dot(x, w.T)
        tl.store(out + rows[:, None] * N + columns[None, :], product.to(tl.bfloat16))


@triton.jit
def matmul_reduce_scatter(
    x, weight, staged0, staged1, own, counters, pads, out, epoch,
    rank: tl.constexpr, world: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SEM: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Each rank multiplies its part of K, and puts each tile where the rank that owns its rows adds them.

    x: [M, K] and weight: [N, K] of this rank; staged: [world * M / world, N], a part for each source;
    out: [M / world, N]. One block for each tile of the product; those of the own rows wait and add.
    """
    part: tl.constexpr = M // world
    tile = tl.program_id(0)
    row = (tile // (N // BN)) * BM
    column = (tile % (N // BN)) * BN
    owner = row // part
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(x.load([row, k]), weight.load([column, k]).T, total)
    at = rank * part + row - owner * part
    if owner == 0:
        staged0.store([at, column], total)
    else:
        staged1.store([at, column], total)
    tl.debug_barrier()
    counter = tl.load(counters + owner).to(tl.pointer_type(tl.uint32)) + (tile % (part // BM * (N // BN)))
    tl.atomic_add(counter, 1, sem=SEM, scope="sys")
    if owner == rank:
        wait_progress(counter, epoch * world, "acquire", "sys")
        rows = row - owner * part + tl.arange(0, BM)
        columns = column + tl.arange(0, BN)
        whole = tl.zeros((BM, BN), tl.float32)
        for source in tl.static_range(world):
            whole += tl.load(own + (source * part + rows)[:, None] * N + columns[None, :])
        tl.store(out + rows[:, None] * N + columns[None, :], whole.to(tl.bfloat16))
    if LAST:  # before the next call puts its parts where these are read
        barrier(pads, tile, rank, world, "release", "relaxed")
