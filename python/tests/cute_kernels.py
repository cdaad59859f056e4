"""A kernel in the CuTe DSL, compiled without a GPU."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_ptr


@cute.kernel
def put(out: cute.Pointer, rank: cutlass.Uint32, scale: cutlass.Uint32):
    i, _, _ = cute.arch.thread_idx()
    words = cute.make_tensor(out, cute.make_layout(32))
    words[i] = 2 * rank + scale * cutlass.Uint32(i)


@cute.jit
def launch(out: cute.Pointer, rank: cutlass.Uint32, scale: cutlass.Uint32):
    put(out, rank, scale).launch(grid=(1, 1, 1), block=(32, 1, 1))


def put_ptx() -> str:
    out = make_ptr(cutlass.Uint32, 16, cute.AddressSpace.gmem, assumed_align=16)
    return str(cute.compile(launch, out, cutlass.Uint32(0), cutlass.Uint32(3)).__ptx__)
