// The arithmetic of tokenweave on vectors of 8 elements, rounding point by rounding point; shared
// by the fused kernel and by the unfused one that it is compared with.
#pragma once

#include "cuda/kernels/element.cuh"

namespace ringfence::cuda {

/// The sum of the ranks' parts: fp32 accumulation in rank order, rounded once.
template <class T, int kWorld>
__device__ __forceinline__ uint4 sum_in_order(const uint4 (&part)[kWorld]) {
  uint4 v;
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    if constexpr (kWorld == 2) {
      pair(v, i) = add_pair<T>(pair(part[0], i), pair(part[1], i));
      continue;
    }
    float2 s = unpack<T>(pair(part[0], i));
#pragma unroll
    for (int r = 1; r < kWorld; ++r) {
      const float2 p = unpack<T>(pair(part[r], i));
      s.x = __fadd_rn(s.x, p.x);
      s.y = __fadd_rn(s.y, p.y);
    }
    pair(v, i) = pack<T>(s.x, s.y);
  }
  return v;
}

/// T(v + residual), pair by pair.
template <class T>
__device__ __forceinline__ uint4 add_rounded(uint4 v, uint4 residual) {
  uint4 z;
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) pair(z, i) = add_pair<T>(pair(v, i), pair(residual, i));
  return z;
}

/// The sum of the squares of a vector: a pair's x*x is fused onto y*y, the pairs are added in turn.
template <class T>
__device__ __forceinline__ float sum_squares(uint4 z) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    const float2 p = unpack<T>(pair(z, i));
    sum = __fadd_rn(sum, __fmaf_rn(p.x, p.x, __fmul_rn(p.y, p.y)));
  }
  return sum;
}

/// T(T(z * s) * gamma), and T(that + beta) where there is a beta.
template <class T, bool kBeta>
__device__ __forceinline__ uint4 normalise(uint4 z, float s, uint4 gamma, uint4 beta) {
  uint4 y;
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    const float2 p = unpack<T>(pair(z, i));
    const uint32_t n = pack<T>(__fmul_rn(p.x, s), __fmul_rn(p.y, s));
    pair(y, i) = multiply_pair<T>(n, pair(gamma, i));
    if constexpr (kBeta) pair(y, i) = add_pair<T>(pair(y, i), pair(beta, i));
  }
  return y;
}

/// The same by a gamma and a beta in fp32, which are not rounded: T(T(z * s) * gamma), T(that +
/// beta). They point to the vector's first element; `count` of the row's are there. One by one: the
/// kernels that take them are as lean in registers as the others.
template <class T, bool kBeta>
__device__ __forceinline__ uint4 normalise_by_fp32(uint4 z, float s, const float* gamma,
                                                   const float* beta, int count) {
  const auto at = [count](const float* row, int i) { return i < count ? row[i] : 0.0f; };
  uint4 y;
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    const float2 p = unpack<T>(pair(z, i));
    const float2 n = unpack<T>(pack<T>(__fmul_rn(p.x, s), __fmul_rn(p.y, s)));
    pair(y, i) = pack<T>(__fmul_rn(n.x, at(gamma, 2 * i)), __fmul_rn(n.y, at(gamma, 2 * i + 1)));
    if constexpr (kBeta) {
      const float2 m = unpack<T>(pair(y, i));
      pair(y, i) = pack<T>(__fadd_rn(m.x, at(beta, 2 * i)), __fadd_rn(m.y, at(beta, 2 * i + 1)));
    }
  }
  return y;
}

}  // namespace ringfence::cuda
