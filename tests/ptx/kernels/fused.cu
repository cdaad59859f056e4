// Reduce-scatter, residual add, RMSNorm and all-gather in one pass over a symmetric buffer, written
// from section 1 of the design. Each rank owns a slice of the token rows; block b walks rows
// b, b + B, ... of it; a thread moves 8 elements at a time. Every f32 operation is spelled with its
// rounding, so that the compiler leaves no choice between a fused and a separate multiply-add.
#include <cstdint>
#include <cuda_bf16.h>

namespace {

__device__ void put(uint32_t* slot) {
  uint32_t old;
  do asm volatile("atom.global.relaxed.sys.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(slot) : "memory");
  while (old != 0);
}
__device__ void put_release(uint32_t* slot) {
  uint32_t old;
  do asm volatile("atom.global.release.sys.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(slot) : "memory");
  while (old != 0);
}
__device__ void wait(uint32_t* slot) {
  uint32_t old;
  do asm volatile("atom.global.relaxed.sys.cas.b32 %0, [%1], 1, 0;" : "=r"(old) : "l"(slot) : "memory");
  while (old != 1);
}
__device__ void wait_acquire(uint32_t* slot) {
  uint32_t old;
  do asm volatile("atom.global.acquire.sys.cas.b32 %0, [%1], 1, 0;" : "=r"(old) : "l"(slot) : "memory");
  while (old != 1);
}
__device__ uint4 load_reduce(const void* multicast) {
  uint4 v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(multicast) : "memory");
  return v;
}
__device__ void store_all(void* multicast, uint4 v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(multicast),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

union Pack {
  uint4 bits;
  __nv_bfloat162 pair[4];
};

__device__ float butterfly(float x) {
  for (int step = 16; step > 0; step >>= 1) x = __fadd_rn(x, __shfl_xor_sync(0xFFFFFFFFU, x, step));
  return x;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(1024)
fused_rs_ln_ag(__nv_bfloat16* multicast, __nv_bfloat16* residual, const __nv_bfloat16* gamma,
               uint32_t* const* pads, int rank, int world, int tokens, int hidden, float eps) {
  __shared__ float sums[32];
  __shared__ float scale;
  const int t = threadIdx.x;
  const int vectors = hidden / 8;
  if (t < world) {
    put(pads[t] + blockIdx.x * world + rank);
    wait(pads[rank] + blockIdx.x * world + t);
  }
  __syncthreads();
  const int slice = tokens / world;
  for (int row = blockIdx.x; row < slice; row += gridDim.x) {
    uint4* shared_row = reinterpret_cast<uint4*>(multicast + (int64_t)(rank * slice + row) * hidden);
    uint4* own_row = reinterpret_cast<uint4*>(residual + (int64_t)row * hidden);
    float sum = 0.0f;
    for (int v = t; v < vectors; v += blockDim.x) {
      Pack z, r;
      z.bits = load_reduce(shared_row + v);
      r.bits = own_row[v];
      for (int i = 0; i < 4; ++i) {
        z.pair[i] = __hadd2_rn(z.pair[i], r.pair[i]);
        const float2 f = __bfloat1622float2(z.pair[i]);
        sum = __fadd_rn(sum, __fmaf_rn(f.x, f.x, __fmul_rn(f.y, f.y)));
      }
      own_row[v] = z.bits;
    }
    sum = butterfly(sum);
    if (t % 32 == 0) sums[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
      float all = butterfly(t < blockDim.x / 32 ? sums[t] : 0.0f);
      if (t == 0) scale = rsqrtf(__fadd_rn(__fdiv_rn(all, (float)hidden), eps));
    }
    __syncthreads();
    for (int v = t; v < vectors; v += blockDim.x) {
      Pack z, g, y;
      z.bits = own_row[v];
      g.bits = reinterpret_cast<const uint4*>(gamma)[v];
      for (int i = 0; i < 4; ++i) {
        const float2 f = __bfloat1622float2(z.pair[i]);
        const __nv_bfloat162 n = __floats2bfloat162_rn(__fmul_rn(f.x, scale), __fmul_rn(f.y, scale));
        y.pair[i] = __hmul2_rn(n, g.pair[i]);
      }
      store_all(shared_row + v, y.bits);
    }
    __syncthreads();
  }
  __syncthreads();
  if (t < world) {
    put_release(pads[t] + blockIdx.x * world + rank);
    wait_acquire(pads[rank] + blockIdx.x * world + t);
  }
}
