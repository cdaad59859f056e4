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

// Whether a plain store to a multicast address is a write of each replica, as multimem.st is, or a
// misuse, as the manual has it.
enum class PlainMulticast : std::uint8_t { refuse, allow };

// Whether a weak load of a line that its block has not read in this launch returns the newest write
// that precedes it in observed time, and does not race with those: a cache that does not have the
// line cannot return what is older. By the manual's letter a relaxed read orders no weak load.
enum class FreshLines : std::uint8_t { off, on };

struct Policy {
  Boundary boundary = Boundary::coherent;
  MulticastFlag multicast_flag = MulticastFlag::cohere;
  AliasData alias_data = AliasData::cohere;
  LoadBuffering load_buffering = LoadBuffering::off;
  // Of compiled kernels.
  PlainMulticast plain_multicast = PlainMulticast::refuse;
  FreshLines fresh_lines = FreshLines::off;
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
