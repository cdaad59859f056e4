// bf16 and fp16 as pairs in 32-bit registers and as vectors of 8 in 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ringfence::cuda {

/// How many elements one 16-byte access moves.
inline constexpr int kVector = 8;
static_assert(sizeof(__nv_bfloat16) * kVector == sizeof(uint4));
static_assert(sizeof(__half) * kVector == sizeof(uint4));

/// The two elements of a pair in fp32, the one at the lower address in x.
template <class T>
__device__ float2 unpack(uint32_t pair);

template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t pair) {
  // A bf16 is the upper half of the fp32 of the same value.
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

template <>
__device__ __forceinline__ float2 unpack<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

/// Rounds both to nearest even.
template <class T>
__device__ uint32_t pack(float x, float y);

template <>
__device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float x, float y) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&v);
}

template <>
__device__ __forceinline__ uint32_t pack<__half>(float x, float y) {
  const __half2 v = __floats2half2_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&v);
}

/// a + b and a * b, pair by pair, rounded once to nearest even. The same bits as in fp32 with the
/// result rounded to T, in half a dozen instructions less. A sum: fp32 has the 2 p + 2 bits that
/// make its own rounding harmless, for p = 8 and 11. A product has 2 p bits, which fp32 holds;
/// where it does not (bf16 below 2^-126), what it cuts off lies too far below the place where T
/// rounds for the product to reach both. tests/cuda looks at every pair of operands.
template <class T>
__device__ uint32_t add_pair(uint32_t a, uint32_t b);
template <class T>
__device__ uint32_t multiply_pair(uint32_t a, uint32_t b);

template <class Two>
__device__ __forceinline__ Two two_of(uint32_t pair) {
  return *reinterpret_cast<const Two*>(&pair);
}
template <class Two>
__device__ __forceinline__ uint32_t pair_of(Two two) {
  return *reinterpret_cast<const uint32_t*>(&two);
}

template <>
__device__ __forceinline__ uint32_t add_pair<__nv_bfloat16>(uint32_t a, uint32_t b) {
  return pair_of(__hadd2_rn(two_of<__nv_bfloat162>(a), two_of<__nv_bfloat162>(b)));
}
template <>
__device__ __forceinline__ uint32_t add_pair<__half>(uint32_t a, uint32_t b) {
  return pair_of(__hadd2_rn(two_of<__half2>(a), two_of<__half2>(b)));
}
template <>
__device__ __forceinline__ uint32_t multiply_pair<__nv_bfloat16>(uint32_t a, uint32_t b) {
  return pair_of(__hmul2_rn(two_of<__nv_bfloat162>(a), two_of<__nv_bfloat162>(b)));
}
template <>
__device__ __forceinline__ uint32_t multiply_pair<__half>(uint32_t a, uint32_t b) {
  return pair_of(__hmul2_rn(two_of<__half2>(a), two_of<__half2>(b)));
}

/// Pair i (0..3) of a vector. i must be a constant after unrolling, or the vector leaves its
/// registers.
__device__ __forceinline__ uint32_t& pair(uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
__device__ __forceinline__ uint32_t pair(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

}  // namespace ringfence::cuda
