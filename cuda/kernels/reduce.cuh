// Sums over a warp and over a block, in the order that the reference and the emulator use.
#pragma once

#include "cuda/kernels/ptx/bulk.cuh"

namespace ringfence::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMaxWarps = 32;  // of a block of 1024 threads

/// Butterfly over the warp: distances 16, 8, 4, 2, 1. All lanes return the same bits, since each
/// step adds the same two numbers in both lanes and addition commutes.
__device__ __forceinline__ float warpReduceSum(float value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

/// Sums over the block of kValues values a thread, returned to every thread. The warps' sums go
/// through `shared` and are added by the same butterfly, with 0 for missing warps.
///
/// One block barrier a call. The caller alternates between two `shared` arrays: a slow warp may
/// still read this call's while a fast one writes the next call's; the barrier of that next call
/// then separates it from the one after.
template <int kValues>
__device__ __forceinline__ void blockReduceSum(float (&value)[kValues],
                                               float (&shared)[kValues][kMaxWarps]) {
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    value[i] = warpReduceSum(value[i]);
    if (lane == 0) shared[i][warp] = value[i];
  }
  __syncthreads();
  const int warps = (blockDim.x + kWarp - 1) / kWarp;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    value[i] = warpReduceSum(lane < warps ? shared[i][lane] : 0.0f);
  }
}

/// The same for one of kGroups groups of `threads` threads of a block, each of which plays kPlay
/// threads: real thread t plays t, t + threads, ... of a block of `played` threads, and the sums
/// are those of such a block, bit for bit. Groups meet at barriers of their own.
template <int kGroups, int kValues, int kPlay>
__device__ __forceinline__ void groupReduceSum(float (&value)[kValues][kPlay],
                                               float (&total)[kValues],
                                               float (&shared)[kValues][kMaxWarps], int group,
                                               int thread, int threads, int played) {
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
#pragma unroll
    for (int j = 0; j < kPlay; ++j) {
      const float sum = warpReduceSum(value[i][j]);
      if (lane == 0) shared[i][warp + j * (threads / kWarp)] = sum;
    }
  }
  if constexpr (kGroups == 1) {
    __syncthreads();
  } else {
    ptx::named_barrier(1 + group, threads);
  }
  const int warps = played / kWarp;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    total[i] = warpReduceSum(lane < warps ? shared[i][lane] : 0.0f);
  }
}

}  // namespace ringfence::cuda
