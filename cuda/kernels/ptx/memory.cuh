// Loads and stores by name. Inline assembly of the kernels lives in this folder only, so that what
// an access promises (order, scope, width) is read off its name and checked in one place.
//
// Names: ld|st _ order _ scope _ width. "weak" has neither. A 16-byte access is a vector of four
// 32-bit accesses, unordered among themselves: no flag may share a vector with the data it guards.
#pragma once

#include <cstdint>

namespace ringfence::cuda::ptx {

__device__ __forceinline__ uint4 ld_relaxed_sys_16(const void* address) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ uint16_t ld_relaxed_sys_2(const void* address) {
  uint16_t v;
  asm volatile("ld.relaxed.sys.global.u16 %0, [%1];" : "=h"(v) : "l"(address) : "memory");
  return v;
}

__device__ __forceinline__ void st_relaxed_sys_16(void* address, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ void st_relaxed_sys_2(void* address, uint16_t v) {
  asm volatile("st.relaxed.sys.global.u16 [%0], %1;" ::"l"(address), "h"(v) : "memory");
}

__device__ __forceinline__ uint4 ld_weak_16(const void* address) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void st_weak_16(void* address, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

/// Adds 8 bf16 to memory, each rounded to bf16, subnormals kept; nothing is returned. Eight atomic
/// operations in one instruction, unordered among themselves.
__device__ __forceinline__ void red_add_relaxed_sys_8xbf16(void* address, uint4 v) {
  asm volatile("red.relaxed.sys.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ uint64_t globaltimer_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

}  // namespace ringfence::cuda::ptx
