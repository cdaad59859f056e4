#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/ptx/fault.hpp"
#include "emulator/ptx/memory.hpp"
#include "emulator/ptx/reduction.hpp"

namespace ringfence::ptx {

/// Global memory without a memory model: sequentially consistent, every access performed at once.
/// R ranks with private memory, and symmetric memory that has one replica on each rank: reachable
/// by its unicast address from every rank, and by one multicast address through multimem.
/// Strong loads and failed compare-and-swaps ask to yield, so that a spinning thread lets the one
/// that it waits for run.
class FlatMemory final : public GlobalMemory {
 public:
  explicit FlatMemory(std::uint32_t ranks, SumPolicy policy = SumPolicy::rank_order,
                      std::uint64_t seed = 0);

  struct Symmetric {
    std::vector<std::uint64_t> unicast;  ///< by rank
    std::uint64_t multicast = 0;
  };
  /// Zero-filled; addresses are aligned to 2 MiB.
  Symmetric symmetric(std::string name, std::uint64_t bytes);
  /// Memory of one rank, which others may reach as well (peer access).
  std::uint64_t allocate(std::string name, std::uint32_t rank, std::uint64_t bytes);

  /// Host pointer to `bytes` bytes at a unicast address. Throws Fault.
  std::byte* at(std::uint64_t address, std::uint64_t bytes);
  std::uint32_t ranks() const { return ranks_; }

  void access(Request& request) override;
  void fence(const Agents&, const Fence&, std::uint32_t) override {}
  void arrive(SyncToken, const Agents&, bool, const SyncOrder&) override {}
  void depart(SyncToken, const Agents&, const SyncOrder&) override {}
  bool dependencies_met(const Agents&) override { return true; }

 private:
  struct Region {
    std::string name;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    bool multicast = false;
    std::vector<std::byte*> replicas;  ///< one, or one a rank
  };
  std::uint64_t map(Region region);
  const Region* find(std::uint64_t address) const;
  /// The region that all lanes lie in, null when there are several; faults for a lane out of place.
  const Region* check(const Request& request, bool multicast) const;
  void load(Request& request, const Region& region) const;
  void store(Request& request, const Region& region, std::byte* base) const;
  void atomic(Request& request, const Region& region, std::byte* base) const;
  void load_reduce(Request& request, const Region& region);

  std::uint32_t ranks_;
  SumPolicy policy_;
  std::uint64_t seed_;
  std::uint64_t requests_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
  std::vector<Region> regions_;
  std::vector<std::int32_t> pages_;  ///< 2 MiB page -> region, -1 none
};

}  // namespace ringfence::ptx
