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

/// The same butterfly for kValues values a lane at once, a power of two. Lane l returns the total
/// of value l / (32 / kValues): in the first steps a lane keeps one half of the values and gives
/// the other to its partner, so that 1 value takes 5 shuffles, 2 take 5 and 4 take 6. Each total is
/// the sum of the same two numbers at each step as in warpReduceSum, so it has the same bits.
template <int kValues>
__device__ __forceinline__ float warpReduceSums(const float (&value)[kValues], int lane) {
  static_assert(kValues > 0 && kValues <= kWarp && (kValues & (kValues - 1)) == 0);
  if constexpr (kValues == 1) {
    return warpReduceSum(value[0]);
  } else {
    float v[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) v[i] = value[i];
    int distance = kWarp / 2;
#pragma unroll
    for (int left = kValues / 2; left > 0; left /= 2) {
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int i = 0; i < left; ++i) {
        const float kept = upper ? v[i + left] : v[i];
        const float given = upper ? v[i] : v[i + left];
        v[i] = kept + __shfl_xor_sync(0xffffffffu, given, distance);
      }
      distance /= 2;
    }
#pragma unroll
    for (; distance > 0; distance /= 2) v[0] += __shfl_xor_sync(0xffffffffu, v[0], distance);
    return v[0];
  }
}

/// blockReduceSum for one of kGroups groups of `threads` threads of a block, each of which plays
/// kPlay threads: real thread t plays t, t + threads, ... of a block of `played` threads, and the
/// sums are those of such a block, bit for bit. Groups meet at barriers of their own.
template <int kGroups, int kPlay, int kValues>
__device__ __forceinline__ void groupReduceSum(const float (&value)[kValues * kPlay],
                                               float (&total)[kValues],
                                               float (&shared)[kValues][kMaxWarps], int group,
                                               int thread, int threads, int played) {
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  constexpr int kShare = kWarp / (kValues * kPlay);  // lanes that have the same total
  const float sum = warpReduceSums(value, lane);
  if (lane % kShare == 0) {
    const int which = lane / kShare;
    shared[which / kPlay][warp + which % kPlay * (threads / kWarp)] = sum;
  }
  if constexpr (kGroups == 1) {
    __syncthreads();
  } else {
    ptx::named_barrier(1 + group, threads);
  }
  const int warps = played / kWarp;
  float of_warp[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) of_warp[i] = lane < warps ? shared[i][lane] : 0.0f;
  const float mine = warpReduceSums(of_warp, lane);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    total[i] = kValues == 1 ? mine : __shfl_sync(0xffffffffu, mine, i * (kWarp / kValues));
  }
}

}  // namespace ringfence::cuda
