// Accesses through a multicast address (NVLink SHARP). One element type, one instruction: a type
// without a specialisation does not compile. A multicast address takes no other access.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ringfence::cuda::ptx {

/// The sum of 8 elements over all replicas, added up in fp32 inside the switch, rounded once.
template <class T>
__device__ uint4 multimem_ld_reduce_relaxed_sys_16(const void* multicast);

template <>
__device__ __forceinline__ uint4
multimem_ld_reduce_relaxed_sys_16<__nv_bfloat16>(const void* multicast) {
  uint4 v;
  asm volatile(
      "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(multicast)
      : "memory");
  return v;
}

template <>
__device__ __forceinline__ uint4 multimem_ld_reduce_relaxed_sys_16<__half>(const void* multicast) {
  uint4 v;
  asm volatile(
      "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(multicast)
      : "memory");
  return v;
}

/// Stores 8 elements to every replica.
template <class T>
__device__ void multimem_st_relaxed_sys_16(void* multicast, uint4 v);

template <>
__device__ __forceinline__ void multimem_st_relaxed_sys_16<__nv_bfloat16>(void* multicast,
                                                                          uint4 v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(multicast),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

template <>
__device__ __forceinline__ void multimem_st_relaxed_sys_16<__half>(void* multicast, uint4 v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(multicast),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace ringfence::cuda::ptx
