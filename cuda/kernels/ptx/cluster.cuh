// Blocks of a cluster: one feeds the shared memory of another with the copy engine, and they tell
// one another through barriers in shared memory (sm_90).
#pragma once

#include "cuda/kernels/ptx/bulk.cuh"

namespace ringfence::cuda::ptx {

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// All threads of all blocks of the cluster.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

/// Arrives at the barrier at the same place of block `rank` of the cluster.
__device__ __forceinline__ void mbarrier_arrive_cluster(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

/// copy_box_2d into every block whose bit is set in `blocks`, at the same place of each; each one's
/// barrier at the same place is told of the bytes.
__device__ __forceinline__ void copy_box_2d_to_blocks(void* shared, const CUtensorMap* map,
                                                      uint64_t* barrier, int inner, int outer,
                                                      uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(inner), "r"(outer), "h"(blocks)
      : "memory");
}

}  // namespace ringfence::cuda::ptx
