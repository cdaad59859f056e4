// What the pypto kernel does to a row's vectors of 8 once their sums have come, all in fp32, each
// operation rounded, nothing fused; and the teams of threads that do it.
#pragma once

#include "cuda/kernels/divide.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/bulk.cuh"
#include "cuda/kernels/ptx/memory.cuh"
#include "cuda/kernels/pypto.hpp"
#include "cuda/kernels/reduce.cuh"

namespace ringfence::cuda {

/// Threads of a block that do something together, with a barrier of their own.
template <int kFirstThread, int kCount, int kBarrier>
struct PyptoTeam {
  static constexpr int kThreads = kCount;
  static __device__ int thread() { return static_cast<int>(threadIdx.x) - kFirstThread; }
  static __device__ void sync() { ptx::named_barrier(kBarrier, kCount); }
  /// Sums of its warps, in turn for one reduction and the next.
  static __device__ float* warp_sums() {
    __shared__ float sums[2 * kCount / kWarp];
    return sums;
  }
  static __device__ int* flag() {
    __shared__ int value;
    return &value;
  }
};

/// Sum over a team: as blockReduceSum, with its own barrier. `parity` says which of two places the
/// warps' sums go to, in turn.
template <class Team>
__device__ __forceinline__ float team_sum(float value, int& parity) {
  constexpr int kWarps = Team::kThreads / kWarp;
  float* sums = Team::warp_sums() + parity * kWarps;
  parity ^= 1;
  value = warpReduceSum(value);
  if (Team::thread() % kWarp == 0) sums[Team::thread() / kWarp] = value;
  Team::sync();
  const int lane = Team::thread() % kWarp;
  return warpReduceSum(lane < kWarps ? sums[lane] : 0.0f);
}

/// The vectors of gamma that a thread has from `first` on, as many as there are and have room.
template <class Team, int kCount>
__device__ __forceinline__ void fetch_gamma(uint4 (&gamma)[kCount], const void* from, int first,
                                            int vectors) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int i = first + k * Team::kThreads;
    if (i < vectors) gamma[k] = ptx::ld_weak_16(static_cast<const char*>(from) + i * 16);
  }
}

/// By the root. The usual way has neither branches nor calls, so that the divisions overlap.
__device__ __forceinline__ void divide(float2 (&z)[kVector / 2], float root, float of_root,
                                       bool normal) {
  if (normal) {
#pragma unroll
    for (float2& pair : z) {
      pair = {divide_by_normal(pair.x, root, of_root), divide_by_normal(pair.y, root, of_root)};
    }
  } else {
    for (float2& pair : z) pair = {__fdiv_rn(pair.x, root), __fdiv_rn(pair.y, root)};
  }
}

__device__ __forceinline__ uint4 packed(const float2 (&z)[kVector / 2]) {
  using T = __nv_bfloat16;
  return {pack<T>(z[0].x, z[0].y), pack<T>(z[1].x, z[1].y), pack<T>(z[2].x, z[2].y),
          pack<T>(z[3].x, z[3].y)};
}

/// Pair p of a vector of sums and one of the residual, added.
__device__ __forceinline__ float2 sum_of(const uint4& sum, const uint4& add, int p) {
  const float2 a = unpack<__nv_bfloat16>(pair(sum, p));
  const float2 b = unpack<__nv_bfloat16>(pair(add, p));
  return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)};
}

/// Pair p of vector i of gamma or beta, which was loaded unless the row is in fp32.
template <bool kFp32Rows>
__device__ __forceinline__ float2 row_pair(const void* row, const uint4& loaded, int i, int p) {
  if constexpr (kFp32Rows) {
    return *reinterpret_cast<const float2*>(static_cast<const float*>(row) + i * kVector + 2 * p);
  } else {
    return unpack<__nv_bfloat16>(pair(loaded, p));
  }
}

/// By vector i of gamma, and with that of beta where there is one.
template <bool kFp32Rows>
__device__ __forceinline__ void scale(float2 (&z)[kVector / 2], const uint4& gamma,
                                      const PyptoArgs::Local& local, int i) {
  uint4 beta{};
  if (!kFp32Rows && local.beta != nullptr) {
    beta = ptx::ld_weak_16(static_cast<const char*>(local.beta) + i * 16);
  }
#pragma unroll
  for (int p = 0; p < kVector / 2; ++p) {
    const float2 g = row_pair<kFp32Rows>(local.gamma, gamma, i, p);
    z[p] = {__fmul_rn(z[p].x, g.x), __fmul_rn(z[p].y, g.y)};
    if (local.beta != nullptr) {
      const float2 b = row_pair<kFp32Rows>(local.beta, beta, i, p);
      z[p] = {__fadd_rn(z[p].x, b.x), __fadd_rn(z[p].y, b.y)};
    }
  }
}

}  // namespace ringfence::cuda
