// One-shot collectives over peer memory, and their twins: with `drop`, one element of the last rank
// lacks its last term. nvcc -ptx -arch=sm_90 -o collectives.ptx collectives.cu
#include <cuda_bf16.h>

#include <cstdint>

__device__ void put(uint32_t* p, uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ uint32_t get(uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// Slots of the pad count the barriers, as it is not cleared.
__device__ void barrier(uint32_t** pad, int rank, int world, uint32_t epoch) {
  __syncthreads();
  if (threadIdx.x < world) {
    put(pad[threadIdx.x] + rank, epoch);
    while (get(pad[rank] + threadIdx.x) < epoch) {
    }
  }
  __syncthreads();
}

enum Op { sum, maximum, minimum, product, concat, scatter, all_to_all, reduce_scatter, broadcast };

template <typename T, typename A>
__device__ void collective(T** data, T* out, uint32_t** pad, int rank, int world, int n, int op,
                           int drop, int epoch) {
  barrier(pad, rank, world, epoch);
  const int part = n / world;
  const int all = op == concat ? n * world : op == scatter || op == reduce_scatter ? part : n;
  for (int i = threadIdx.x; i < all; i += blockDim.x) {
    const bool dropped = drop != 0 && rank == world - 1 && i == 5;
    if (op >= concat && op != reduce_scatter) {
      const int from = op == concat ? i / n : op == all_to_all ? i / part : 0;
      const int at = op == concat       ? i % n
                     : op == scatter    ? rank * part + i
                     : op == all_to_all ? rank * part + i % part
                                        : i;
      if (!dropped) out[i] = data[from][at];
      continue;
    }
    const int at = op == reduce_scatter ? rank * part + i : i;
    A value = static_cast<A>(data[0][at]);
    for (int r = 1; r < (dropped ? world - 1 : world); ++r) {
      const A x = static_cast<A>(data[r][at]);
      value = op == maximum   ? (value < x ? x : value)
              : op == minimum ? (x < value ? x : value)
              : op == product ? value * x
                              : value + x;
    }
    out[i] = static_cast<T>(value);
  }
  barrier(pad, rank, world, epoch + 1);
}

#define COLLECTIVE(NAME, T, A)                                                                  \
  extern "C" __global__ void NAME(T** data, T* out, uint32_t** pad, int rank, int world, int n, \
                                  int op, int drop, int* epoch) {                               \
    const int e = *epoch;                                                                       \
    collective<T, A>(data, out, pad, rank, world, n, op, drop, e + 1);                          \
    if (threadIdx.x == 0) *epoch = e + 2;                                                       \
  }
COLLECTIVE(of_u32, uint32_t, uint32_t)
COLLECTIVE(of_s32, int32_t, int32_t)
COLLECTIVE(of_u8, uint8_t, uint8_t)
COLLECTIVE(of_s64, int64_t, int64_t)
COLLECTIVE(of_f32, float, float)
COLLECTIVE(of_f64, double, double)
COLLECTIVE(of_bf16, __nv_bfloat16, float)
