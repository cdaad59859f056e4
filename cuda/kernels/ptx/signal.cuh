// Atomic operations on signal pads and counters, each with its order and scope in its name.
#pragma once

#include <cstdint>

namespace ringfence::cuda::ptx {

/// The order of one access. What each operation accepts is checked at compile time.
enum class Order { relaxed, release, acquire, acq_rel };

/// Compare-and-swap at system scope; returns the value found.
template <Order kOrder>
__device__ __forceinline__ uint32_t cas_sys(uint32_t* address, uint32_t compare, uint32_t value) {
  uint32_t found;
  if constexpr (kOrder == Order::relaxed) {
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(found)
                 : "l"(address), "r"(compare), "r"(value)
                 : "memory");
  } else if constexpr (kOrder == Order::release) {
    asm volatile("atom.release.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(found)
                 : "l"(address), "r"(compare), "r"(value)
                 : "memory");
  } else if constexpr (kOrder == Order::acquire) {
    asm volatile("atom.acquire.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(found)
                 : "l"(address), "r"(compare), "r"(value)
                 : "memory");
  } else {
    asm volatile("atom.acq_rel.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(found)
                 : "l"(address), "r"(compare), "r"(value)
                 : "memory");
  }
  return found;
}

__device__ __forceinline__ void red_add_release_sys(uint32_t* address, uint32_t value) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t add_acq_rel_sys(uint32_t* address, uint32_t value) {
  uint32_t found;
  asm volatile("atom.acq_rel.sys.global.add.u32 %0, [%1], %2;"
               : "=r"(found)
               : "l"(address), "r"(value)
               : "memory");
  return found;
}

__device__ __forceinline__ uint32_t ld_acquire_sys(const uint32_t* address) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t ld_relaxed_sys(const uint32_t* address) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  return v;
}

__device__ __forceinline__ void st_relaxed_sys(uint32_t* address, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

}  // namespace ringfence::cuda::ptx
