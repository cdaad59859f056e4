// How a fused kernel reads the sum of all ranks' partials and writes a row to all ranks. The
// kernels' bodies are written over this interface; what one node cannot run differs from what it
// can in the few lines of one class:
//
//   world_of(world)     the number of ranks, a constant where the class knows it
//   kParts              how many 16-byte vectors a Fragment holds, about
//   Fragment            what is in flight between load and sum, in registers; {} is zeros
//   kHolds              whether a Fragment holds the parts; else sum() loads them
//   load(f, at, n)      issues the loads of the 8 elements (n of them exist) at a place
//   load_own(f, at, rank), load_others(f, at, n, rank)   load in two halves: what needs no peer, if
//                       the class can tell it apart, and the rest
//   sum(f)              their sum over the ranks: fp32 accumulation, rounded once to T
//   store(at, v, n)     stores to that place on every rank
//
// Order and scope: all of these are relaxed.sys but load_own. A start barrier that is relaxed gives
// a weak load of another rank's partials no happens-before, so weak accesses would race in every
// mode. The own partials were written by an earlier launch of the same stream.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/limits.hpp"
#include "cuda/kernels/ptx/memory.cuh"
#include "cuda/kernels/ptx/multimem.cuh"
#include "cuda/kernels/tokenweave_math.cuh"

namespace ringfence::cuda {

/// Where a vector lies in a [rows, hidden] tensor. Aligned rows: its index among the tensor's
/// 16-byte vectors, in 32 bits to save registers (the host refuses larger tensors). Else the index
/// of its first element.
template <bool kAligned>
using Place = std::conditional_t<kAligned, uint32_t, int64_t>;

template <bool kAligned>
__device__ __forceinline__ char* address_of(const void* base, Place<kAligned> at) {
  // The cast away from const is undone by the loads, which take const void*.
  char* bytes = static_cast<char*>(const_cast<void*>(base));
  return bytes + static_cast<uint64_t>(at) * (kAligned ? 16 : 2);
}

/// Local tensors: weak accesses, 16 bytes where rows are aligned, else element by element.
template <bool kAligned>
__device__ __forceinline__ uint4 load_local(const void* base, Place<kAligned> at, int count) {
  const char* p = address_of<kAligned>(base, at);
  if constexpr (kAligned) return ptx::ld_weak_16(p);
  uint4 v{0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) {
      pair(v, i / 2) |= static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(p)[i])
                        << (16 * (i % 2));
    }
  }
  return v;
}

template <bool kAligned>
__device__ __forceinline__ void store_local(void* base, Place<kAligned> at, uint4 v, int count) {
  char* p = address_of<kAligned>(base, at);
  if constexpr (kAligned) {
    ptx::st_weak_16(p, v);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < count) {
        reinterpret_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(pair(v, i / 2) >> (16 * (i % 2)));
      }
    }
  }
}

/// Unicast: loads from and stores to each rank's replica, over NVLink, PCIe or in the same memory.
/// The sum runs in rank order. kAhead: the loads are issued by load(), else by sum(), where there
/// are no registers to have them in flight.
template <class T, int kWorld, bool kAhead>
class PeerTransport {
 public:
  static constexpr bool kAligned = true;
  static constexpr int kParts = kAhead ? kWorld : 1;
  static constexpr bool kHolds = kAhead;
  /// The own part among many is not worth the registers that tell it apart.
  static constexpr bool kTellsOwn = kAhead && kWorld <= 4;
  static_assert(kWorld >= 1 && kWorld <= kMaxRanks);
  static __device__ constexpr int world_of(int /*world*/) { return kWorld; }
  struct Parts {
    uint4 part[kWorld];
  };
  struct Later {
    Place<true> at;
  };
  using Fragment = std::conditional_t<kAhead, Parts, Later>;

  __device__ PeerTransport(void* const* replica, void* /*multicast*/, int /*world*/)
      : replica_(replica) {}

  __device__ __forceinline__ void load(Fragment& f, Place<true> at, int /*count*/) const {
    if constexpr (kAhead) {
      fetch(f, at);
    } else {
      f.at = at;
    }
  }

  __device__ __forceinline__ void load_own(Fragment& f, Place<true> at, int rank) const {
    if constexpr (kTellsOwn) {
#pragma unroll
      for (int r = 0; r < kWorld; ++r) {
        if (r == rank) f.part[r] = ptx::ld_weak_16(address_of<true>(replica_[r], at));
      }
    }
  }
  __device__ __forceinline__ void load_others(Fragment& f, Place<true> at, int count,
                                              int rank) const {
    if constexpr (kTellsOwn) {
#pragma unroll
      for (int r = 0; r < kWorld; ++r) {
        if (r != rank) f.part[r] = ptx::ld_relaxed_sys_16(address_of<true>(replica_[r], at));
      }
    } else {
      load(f, at, count);
    }
  }

  __device__ __forceinline__ uint4 sum(const Fragment& f) const {
    if constexpr (kAhead) {
      return sum_in_order<T, kWorld>(f.part);
    } else {
      Parts parts;
      fetch(parts, f.at);
      return sum_in_order<T, kWorld>(parts.part);
    }
  }

  __device__ __forceinline__ void store(Place<true> at, uint4 v, int /*count*/) const {
#pragma unroll
    for (int r = 0; r < kWorld; ++r) ptx::st_relaxed_sys_16(address_of<true>(replica_[r], at), v);
  }

 private:
  __device__ __forceinline__ void fetch(Parts& parts, Place<true> at) const {
#pragma unroll
    for (int r = 0; r < kWorld; ++r) {
      parts.part[r] = ptx::ld_relaxed_sys_16(address_of<true>(replica_[r], at));
    }
  }

  void* const* replica_;
};

/// Unicast with rows that do not begin on 16 bytes: element by element, nothing in flight ahead.
/// For odd shapes, where being right matters and time does not.
template <class T>
class ScalarPeerTransport {
 public:
  static constexpr bool kAligned = false;
  static constexpr int kParts = 1;
  static constexpr bool kHolds = false;
  static __device__ constexpr int world_of(int world) { return world; }
  struct Fragment {
    Place<false> at;
    int count;
  };

  __device__ ScalarPeerTransport(void* const* replica, void* /*multicast*/, int world)
      : replica_(replica), world_(world) {}

  __device__ __forceinline__ void load(Fragment& f, Place<false> at, int count) const {
    f = {at, count};
  }
  __device__ __forceinline__ void load_own(Fragment&, Place<false>, int /*rank*/) const {}
  __device__ __forceinline__ void load_others(Fragment& f, Place<false> at, int count,
                                              int /*rank*/) const {
    load(f, at, count);
  }

  __device__ __forceinline__ uint4 sum(const Fragment& f) const {
    uint4 v{0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      float s = 0.0f;
      if (i < f.count) {
        for (int r = 0; r < world_; ++r) {
          const uint16_t bits = ptx::ld_relaxed_sys_2(address_of<false>(replica_[r], f.at + i));
          const float p = unpack<T>(bits).x;
          s = r == 0 ? p : __fadd_rn(s, p);
        }
      }
      pair(v, i / 2) |= (pack<T>(s, 0.0f) & 0xffffu) << (16 * (i % 2));
    }
    return v;
  }

  __device__ __forceinline__ void store(Place<false> at, uint4 v, int count) const {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const uint16_t bits = static_cast<uint16_t>(pair(v, i / 2) >> (16 * (i % 2)));
      if (i < count) {
        for (int r = 0; r < world_; ++r) {
          ptx::st_relaxed_sys_2(address_of<false>(replica_[r], at + i), bits);
        }
      }
    }
  }

 private:
  void* const* replica_;
  int world_;
};

/// NVLink SHARP: one access to a multicast address stands for all replicas. Rows must be aligned:
/// there is no multimem access of a single 16-bit element.
template <class T>
class MultimemTransport {
 public:
  static constexpr bool kAligned = true;
  static constexpr int kParts = 1;
  static constexpr bool kHolds = true;
  static __device__ constexpr int world_of(int world) { return world; }
  struct Fragment {
    uint4 total;
  };

  __device__ MultimemTransport(void* const* /*replica*/, void* multicast, int /*world*/)
      : multicast_(multicast) {}

  __device__ __forceinline__ void load(Fragment& f, Place<true> at, int /*count*/) const {
    f.total = ptx::multimem_ld_reduce_relaxed_sys_16<T>(address_of<true>(multicast_, at));
  }
  __device__ __forceinline__ void load_own(Fragment&, Place<true>, int /*rank*/) const {}
  __device__ __forceinline__ void load_others(Fragment& f, Place<true> at, int count,
                                              int /*rank*/) const {
    load(f, at, count);
  }
  __device__ __forceinline__ uint4 sum(const Fragment& f) const { return f.total; }
  __device__ __forceinline__ void store(Place<true> at, uint4 v, int /*count*/) const {
    ptx::multimem_st_relaxed_sys_16<T>(address_of<true>(multicast_, at), v);
  }

 private:
  void* multicast_;
};

}  // namespace ringfence::cuda
