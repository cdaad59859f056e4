// One-shot all-reduce, residual add and RMSNorm in bf16, whose roundings are a parameter.
// nvcc -ptx -arch=sm_90 -o norms.ptx norms.cu
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

__device__ void barrier(uint32_t* const* pad, int rank, int world, int slot) {
  __syncthreads();
  if (threadIdx.x < world) {
    uint32_t old;
    do {
      asm volatile("atom.release.sys.global.cas.b32 %0, [%1], 0, 1;"
                   : "=r"(old)
                   : "l"(pad[threadIdx.x] + slot + rank)
                   : "memory");
    } while (old != 0);
    do {
      asm volatile("atom.acquire.sys.global.cas.b32 %0, [%1], 1, 0;"
                   : "=r"(old)
                   : "l"(pad[rank] + slot + threadIdx.x)
                   : "memory");
    } while (old != 1);
  }
  __syncthreads();
}

enum Flag {
  round_sum = 1,
  round_residual = 2,
  round_scaled = 4,
  eps_outside = 8,  // 1/sqrt(mean) + eps
  gamma_is_fp32 = 16,
};

__device__ float rounded(float x, bool really) {
  return really ? __bfloat162float(__float2bfloat16_rn(x)) : x;
}

// A warp a row; hidden is 64.
extern "C" __global__ void fused_norm(bf16* const* data, uint32_t* const* pad, const bf16* residual,
                                      const void* gamma, bf16* out, bf16* residual_out, int rank,
                                      int world, int hidden, float eps, int flags) {
  const int row = blockIdx.x;
  barrier(pad, rank, world, row * world);
  float z[2];
  float squares = 0;
  for (int i = 0; i < 2; ++i) {
    const int at = row * hidden + i * 32 + threadIdx.x;
    float sum = 0;
    for (int r = 0; r < world; ++r) sum += __bfloat162float(data[r][at]);
    sum = rounded(sum, flags & round_sum);
    const float total = sum + __bfloat162float(residual[at]);
    z[i] = rounded(total, flags & round_residual);
    residual_out[at] = __float2bfloat16_rn(total);
    squares += z[i] * z[i];
  }
  for (int o = 16; o != 0; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
  const float mean = squares / hidden;
  const float scale = flags & eps_outside ? rsqrtf(mean) + eps : rsqrtf(mean + eps);
  for (int i = 0; i < 2; ++i) {
    const int column = i * 32 + threadIdx.x;
    const float g = flags & gamma_is_fp32
                        ? static_cast<const float*>(gamma)[column]
                        : __bfloat162float(static_cast<const bf16*>(gamma)[column]);
    out[row * hidden + column] =
        __float2bfloat16_rn(rounded(z[i] * scale, flags & round_scaled) * g);
  }
  barrier(pad, rank, world, row * world);
}
