// Exchanges within a warp, and what inlined functions leave: local tables, switches, divergence.
#include <cassert>
#include <cstdint>

extern "C" __global__ void votes(const uint32_t* in, uint32_t* out) {
  const int t = threadIdx.x;
  const uint32_t x = in[t];
  uint32_t* o = out + 12 * t;
  o[0] = __ballot_sync(~0u, x & 1);
  o[1] = __any_sync(~0u, x == 5);
  o[2] = __all_sync(~0u, x < 1000);
  o[3] = __match_any_sync(~0u, x % 3);
  int same;
  o[4] = __match_all_sync(~0u, x % 1, &same);
  o[5] = same;
  o[6] = __reduce_add_sync(~0u, x);
  o[7] = __reduce_min_sync(~0u, (int)x - 50);
  o[8] = __reduce_xor_sync(~0u, x);
  o[9] = __shfl_up_sync(~0u, x, 3);
  o[10] = __shfl_down_sync(~0u, x, 5, 16);
  o[11] = __shfl_sync(~0u, x, t + 7, 8);
}

// Half the warp takes one way, half the other; each half has its own exchange, then all together.
extern "C" __global__ void diverges(const uint32_t* in, uint32_t* out) {
  const int t = threadIdx.x;
  uint32_t x = in[t];
  if (t % 2 == 0) {
    x = __reduce_add_sync(0x55555555u, x);
    for (int i = 0; i < t; ++i) x = x * 3 + i;
  } else {
    x = __reduce_max_sync(0xAAAAAAAAu, x);
    x += __popc(__activemask());
  }
  __syncwarp();
  out[t] = __reduce_or_sync(~0u, x) ^ x;
}

extern "C" __global__ void table(const uint32_t* in, uint32_t* out, int n) {
  uint32_t local[16];
  for (int i = 0; i < 16; ++i) local[i] = in[i] * 7 + threadIdx.x;
  uint32_t sum = 0;
  for (int i = 0; i < n; ++i) sum = sum * 31 + local[(sum + i) % 16];
  switch (sum % 7) {
    case 0: sum += 11; break;
    case 1: sum ^= 0x55; break;
    case 2: sum = __brev(sum); break;
    case 3: sum = __byte_perm(sum, n, 0x3561); break;
    case 4: sum = sum / (threadIdx.x + 1) + sum % (threadIdx.x + 3); break;
    case 5: sum = __funnelshift_l(sum, n, 9) + __clz(sum); break;
    default: sum = __dp4a((int)sum, (int)0x01020304, 5); break;
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void asserts(int n) { assert(n > (int)threadIdx.x); }

extern "C" __global__ void doubles(const double* in, double* out) {
  const double x = in[threadIdx.x];
  out[threadIdx.x] = sqrt(x * x + 2.5) / (x + 3.0) - fmin(x, 1.0);
}

// 128-bit product: carries.
extern "C" __global__ void wide_product(const uint64_t* in, uint64_t* out) {
  const unsigned __int128 p = (unsigned __int128)in[0] * in[1] + in[2];
  out[0] = (uint64_t)p;
  out[1] = (uint64_t)(p >> 64);
}

// A bulk copy to shared memory that completes on an mbarrier, and one back.
extern "C" __global__ void bulk(const uint32_t* in, uint32_t* out) {
  __shared__ __align__(16) uint32_t box[256];
  __shared__ __align__(8) uint64_t bar;
  const uint32_t b = (uint32_t)__cvta_generic_to_shared(&bar);
  const uint32_t s = (uint32_t)__cvta_generic_to_shared(box);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], 1024;" ::"r"(b) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                 ::"r"(s), "l"(in), "r"(b) : "memory");
  }
  uint32_t done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(b) : "memory");
  } while (done == 0);
  box[threadIdx.x] = box[threadIdx.x] * 2 + 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(out), "r"(s) : "memory");
    asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
