// Barriers between ranks and within blocks, each with a sum at the end that is right only when
// everything before it was seen.
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cuda/atomic>

namespace cg = cooperative_groups;

// Every rank adds to its peers' counters, waits for its own, then sums what all peers wrote.
extern "C" __global__ void all_to_all(uint32_t* const* counters, uint32_t* const* data, uint32_t* out,
                                      int rank, int world) {
  const int t = threadIdx.x;
  for (int peer = 0; peer < world; ++peer) {
    data[peer][(rank * gridDim.x + blockIdx.x) * blockDim.x + t] = rank * 1000 + blockIdx.x * 100 + t;
  }
  __syncthreads();
  if (t < world) {
    cuda::atomic_ref<uint32_t, cuda::thread_scope_system> flag(counters[t][blockIdx.x]);
    flag.fetch_add(1, cuda::memory_order_release);
    cuda::atomic_ref<uint32_t, cuda::thread_scope_system> own(counters[rank][blockIdx.x]);
    while (own.load(cuda::memory_order_acquire) < (uint32_t)world) __nanosleep(20);
  }
  __syncthreads();
  uint32_t sum = 0;
  for (int peer = 0; peer < world; ++peer) {
    sum += data[rank][(peer * gridDim.x + blockIdx.x) * blockDim.x + t];
  }
  out[blockIdx.x * blockDim.x + t] = sum;
}

// A counter of this rank, kept in a module variable, that the last block to finish reads.
__device__ uint32_t finished;
extern "C" __global__ void last_block(uint32_t* out) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&finished, 1) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) out[0] = 1000 + *(volatile uint32_t*)&finished;
}

// Lanes of one warp wait for each other: lane 0 takes a lock that lane 1 holds.
extern "C" __global__ void intra_warp_spin(uint32_t* flag, uint32_t* out) {
  if (threadIdx.x == 0) {
    while (*(volatile uint32_t*)flag == 0) {
    }
    out[0] = 7;
  } else if (threadIdx.x == 1) {
    out[1] = 8;
    __threadfence();
    *(volatile uint32_t*)flag = 1;
  }
}

// Named barriers: warp 0 produces, warp 1 consumes.
extern "C" __global__ void named(uint32_t* out) {
  __shared__ uint32_t box[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    box[lane] = lane * lane;
    asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
  } else {
    asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
    out[lane] = box[31 - lane];
  }
}

// The same without the barrier: a race that must be found.
extern "C" __global__ void unnamed(uint32_t* out) {
  __shared__ uint32_t box[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    box[lane] = lane * lane;
  } else {
    out[lane] = box[31 - lane];
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_swap(uint32_t* out) {
  __shared__ uint32_t box[64];
  cg::cluster_group cluster = cg::this_cluster();
  box[threadIdx.x] = cluster.block_rank() * 100 + threadIdx.x;
  cluster.sync();
  const uint32_t* other = cluster.map_shared_rank(box, cluster.block_rank() ^ 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = other[threadIdx.x];
  cluster.sync();
}

extern "C" __global__ void times_out(unsigned long long limit, uint32_t* flag, uint32_t* out) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (;;) {
    if (*(volatile uint32_t*)flag != 0) {
      out[0] = 1;
      return;
    }
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begin > limit) break;
  }
  out[0] = 2;
}

extern "C" __global__ void prints(int n) {
  if (threadIdx.x < 2) printf("thread %d of %u: %s %5.2f %llx\n", threadIdx.x, blockDim.x, "text", n * 0.5, 0x123456789abcULL);
}
