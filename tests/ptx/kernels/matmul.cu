// C[M, N] = A[M, K] * B[N, K]^T in bf16 with f32 sums, on tensor cores: 16 x 8 tiles a warp, A and B
// staged through shared memory by cp.async, fragments read by ldmatrix.
#include <cstdint>
#include <cuda_bf16.h>

namespace {
__device__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void copy16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
}  // namespace

// One warp a block; block (x, y) makes rows 16 y .. and columns 8 x .. of C. K is a multiple of 32.
extern "C" __global__ void __launch_bounds__(32)
matmul_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
  __shared__ __align__(16) __nv_bfloat16 tile_a[2][16][16];
  __shared__ __align__(16) __nv_bfloat16 tile_b[2][8][16];
  const int lane = threadIdx.x;
  const __nv_bfloat16* rows = a + (int64_t)blockIdx.y * 16 * k;
  const __nv_bfloat16* columns = b + (int64_t)blockIdx.x * 8 * k;
  auto fetch = [&](int buffer, int at) {
    copy16(&tile_a[buffer][lane / 2][lane % 2 * 8], rows + (int64_t)(lane / 2) * k + at + lane % 2 * 8);
    if (lane < 16) {
      copy16(&tile_b[buffer][lane / 2][lane % 2 * 8], columns + (int64_t)(lane / 2) * k + at + lane % 2 * 8);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float d[4] = {0, 0, 0, 0};
  fetch(0, 0);
  for (int at = 0; at < k; at += 16) {
    const int buffer = at / 16 % 2;
    if (at + 16 < k) {
      fetch(buffer ^ 1, at + 16);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    uint32_t fa[4], fb[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(shared_address(&tile_a[buffer][lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(fb[0]), "=r"(fb[1])
                 : "r"(shared_address(&tile_b[buffer][lane % 8][lane / 8 % 2 * 8])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    __syncwarp();
  }
  float* out = c + ((int64_t)blockIdx.y * 16 + lane / 4) * n + blockIdx.x * 8 + lane % 4 * 2;
  out[0] = d[0];
  out[1] = d[1];
  out[8 * n] = d[2];
  out[8 * n + 1] = d[3];
}
