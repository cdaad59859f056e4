#pragma once
// What the PTX manual leaves open and a verdict therefore has to state.

#include <cstdint>

#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

// What a kernel boundary does for other ranks; a convention, so each mode has its own verdict.
enum class Boundary : std::uint8_t {
  strict,    // nothing beyond the order of launches on one stream
  stream,    // every thread runs fence.acq_rel.sys at the start and at the end of a launch
  coherent,  // stream, and strong sys accesses go to the point of coherence
};

// Whether strong sys accesses to one replica through its multicast and its unicast address are
// morally strong. `cohere` is what every barrier in use assumes; `strict` is the manual's letter
// (distinct virtual addresses are distinct proxies).
enum class MulticastFlag : std::uint8_t { cohere, strict };

// Whether data written through one virtual alias may be read through another without
// fence.proxy.alias along the causality path.
enum class AliasData : std::uint8_t { cohere, fence_required };

// Whether a read may return a write that program order and reads-from put after it, and fence-sc
// order may run against them: PTX admits both where no dependency and no synchronisation forbids
// it. The machine executes in order; an exhaustive search explores the rest (emulator/check).
enum class LoadBuffering : std::uint8_t { off, on };

// The scope of an mbarrier's operations that say none, where threads of several blocks take part:
// the manual's default .cta, which orders nothing across blocks, or, as shipped kernels assume, the
// cluster's.
enum class MbarrierRemote : std::uint8_t { shipped, letter };

// Whether a write through the async proxy needs a fence.proxy.async behind an earlier read through
// the generic one, as it does behind a write: by the manual it does (8.6, 8.7.1), in shipped
// pipelines it stands nowhere. `note`: it is no race, but told with the verdict.
enum class AsyncWar : std::uint8_t { note, fence_required, off };

// Whether a plain store to a multicast address is a write of each replica, as multimem.st is, or a
// misuse, as the manual has it.
enum class PlainMulticast : std::uint8_t { refuse, allow };

// Whether a weak load of a line that its block has not read in this launch returns the newest write
// that precedes it in observed time, and does not race with those: a cache that does not have the
// line cannot return what is older. By the manual's letter a relaxed read orders no weak load.
enum class FreshLines : std::uint8_t { off, on };

// Whether the 8 or 16 bytes that one instruction of one thread moves are written and read as one,
// as LL protocols take it, or by elements, as the manual has it (8.2.4).
enum class VectorAccess : std::uint8_t { elements, atomic };

// Whether an aligned 128 bytes that the lanes of one instruction of a warp move together are
// written and read as one, as LL128 takes it.
enum class LineAccess : std::uint8_t { lanes, ordered };

// Whether threads may come to a barrier of their whole block from different instructions, or
// without those that have exited. `warp`: that is told with the verdict, as long as the lanes of a
// warp agree. `cuda`: it is a finding, by the letter of PTX (9.7.15.1, .aligned) and of
// __syncthreads.
enum class SyncThreads : std::uint8_t { warp, cuda };

// Which blocks of a launch make progress. `fit`: those that fit on the GPU together; another begins
// when one ends, in no given order. `letter`: by CUDA's execution model those of a cluster that has
// begun, or of a cooperative launch.
enum class Progress : std::uint8_t { fit, letter };

// Whether a loop that waits may run into a time-out that can only end in a trap or a failed
// assertion: `spared` takes what such a loop waits for to come in time, or reports what it waits
// for in vain. A time-out behind which the kernel goes on is always taken.
enum class TimeOut : std::uint8_t { spared, taken };

struct Policy {
  Boundary boundary = Boundary::coherent;
  MulticastFlag multicast_flag = MulticastFlag::cohere;
  AliasData alias_data = AliasData::cohere;
  LoadBuffering load_buffering = LoadBuffering::off;
  MbarrierRemote mbarrier_remote = MbarrierRemote::shipped;
  AsyncWar async_war = AsyncWar::note;
  // Of compiled kernels.
  PlainMulticast plain_multicast = PlainMulticast::refuse;
  FreshLines fresh_lines = FreshLines::off;
  VectorAccess vector = VectorAccess::elements;
  LineAccess line = LineAccess::lanes;
  SyncThreads syncthreads = SyncThreads::warp;
  Progress progress = Progress::fit;
  // That a thread has; 0: as the kernel says, else they are no limit.
  std::uint32_t registers = 0;
  TimeOut time_out = TimeOut::spared;
};

// Whether two virtual addresses of one location count as one, for two accesses of which both are
// strong at sys scope, or not.
constexpr bool same_address(const Policy& policy, Proxy a, Proxy b, bool strong_sys) {
  if (address_of(a) == address_of(b)) return true;
  const int multicast = address_of(Proxy::multicast);
  if (strong_sys && (address_of(a) == multicast || address_of(b) == multicast)) {
    return policy.multicast_flag == MulticastFlag::cohere;
  }
  return policy.alias_data == AliasData::cohere;
}

}  // namespace ringfence::machine
