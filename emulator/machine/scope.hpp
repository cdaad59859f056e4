#pragma once
// Orders, scopes and placements of the PTX memory model (PTX ISA, "Memory Consistency Model").

#include <algorithm>
#include <cstdint>

namespace ringfence::machine {

// Scopes form a chain: a scope contains every narrower one. `sys` reaches all ranks.
enum class Scope : std::uint8_t { cta, cluster, gpu, sys };
inline constexpr int kScopes = 4;

// Semantics of an access. `weak` is not strong: it never synchronises and races with any
// conflicting access that causality does not order. volatile is relaxed at sys scope.
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel };

constexpr bool is_strong(Order o) { return o != Order::weak; }
constexpr bool acquires(Order o) { return o == Order::acquire || o == Order::acq_rel; }
constexpr bool releases(Order o) { return o == Order::release || o == Order::acq_rel; }

// The virtual address an access goes through. Distinct virtual addresses of one location behave
// "as if using different proxies" (PTX ISA 8.6): what that means here is a Policy.
enum class Proxy : std::uint8_t { generic, multicast };

// Where a thread runs. A rank is a GPU; `cta` and `cluster` count within the rank.
struct Placement {
  std::uint16_t rank = 0;
  std::uint16_t cluster = 0;
  std::uint32_t cta = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// The narrowest scope that contains both threads (their own thread counts as cta).
constexpr Scope distance(const Placement& a, const Placement& b) {
  if (a.rank != b.rank) return Scope::sys;
  if (a.cta == b.cta) return Scope::cta;
  // Cluster 0 means "no cluster": two such blocks share only the GPU.
  if (a.cluster != 0 && a.cluster == b.cluster) return Scope::cluster;
  return Scope::gpu;
}

// Whether scope `s` of a thread at `from` includes the thread at `to`.
constexpr bool reaches(Scope s, const Placement& from, const Placement& to) {
  return s >= distance(from, to);
}

}  // namespace ringfence::machine
