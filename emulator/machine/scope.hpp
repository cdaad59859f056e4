#pragma once
// Where a thread runs, and which scopes reach it (PTX ISA, "Memory Consistency Model").

#include <cstdint>

#include "emulator/machine/vocabulary.hpp"

namespace ringfence::machine {

// How an access reaches its location: by which proxy, and through which of the location's virtual
// addresses. Distinct virtual addresses of one location behave "as if using different proxies" (PTX
// ISA 8.6): what that means here is a Policy. The value holds a ProxyKind and an address; `generic`
// is the location's first address, `multicast` its address of a multicast object.
enum class Proxy : std::uint8_t { generic = 0, async = 4, readonly = 5, multicast = 31 << 3 };

// The constant, texture and surface proxies are those of Lustig, Cooksey, Giroux, "Mixed-Proxy
// Extensions for the NVIDIA PTX Memory Consistency Model" (2022).
// async is that of bulk and tensor copies and of matrix products of a warpgroup (PTX ISA 8.6).
// readonly is that of ld.global.nc, which stands outside the model (8.1).
enum class ProxyKind : std::uint8_t { generic, constant, texture, surface, async, readonly };
inline constexpr int kVirtualAddresses = 31;  // of a location, besides the multicast one

constexpr Proxy proxy_of(ProxyKind kind, int address) {
  return static_cast<Proxy>(address << 3 | static_cast<int>(kind));
}
constexpr ProxyKind kind_of(Proxy p) {
  return static_cast<ProxyKind>(static_cast<unsigned>(p) & 7u);
}
constexpr int address_of(Proxy p) { return static_cast<int>(p) >> 3; }

// Where a thread runs. A rank is a GPU; `cta` and `cluster` count within a stream of launches.
struct Placement {
  std::uint16_t rank = 0;
  std::uint16_t cluster = 0;
  std::uint32_t cta = 0;
  std::uint32_t stream = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// The narrowest scope that contains both threads (their own thread counts as cta).
constexpr Scope distance(const Placement& a, const Placement& b) {
  if (a.rank != b.rank) return Scope::sys;
  // Launches that may run side by side are on streams of their own.
  if (a.stream != b.stream) return Scope::gpu;
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
