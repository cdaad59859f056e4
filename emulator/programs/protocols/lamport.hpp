#pragma once
// All-reduce by Lamport's rule: data that says by its value that it has come. No barrier at all.
//
// Each rank has three buffers of R parts. In call f a rank
//   1. pushes its partials (a -0.0 in them made +0.0) into buffer f mod 3 of every rank;
//   2. clears its own buffer of the call before with the sentinel -0.0, as many rows as that had;
//   3. polls its own buffer f mod 3, word by word, until no word is the sentinel; sums, norms.
// A peer pushes into the buffer cleared in call f again only in call f + 2, after it saw what this
// rank pushed in call f + 1, behind the clearing. Two buffers lose what comes between.

#include "emulator/programs/exchange.hpp"

namespace ringfence::programs {

class Lamport final : public Exchange {
 public:
  explicit Lamport(const Config& config);

  void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) override;

 protected:
  void kernel(Lane& lane) override;
  std::string own_site_name(std::uint16_t site) const override;
  schedule::SlotName slot_of(const RegionInfo&, std::uint64_t) const override { return {}; }

 private:
  static constexpr std::uint16_t kSentinelHalf = 0x8000;
  static constexpr std::uint32_t kSentinel = 0x80008000;
  enum OwnSite : std::uint16_t { kLoadInput = kFirstOwn, kPush, kClear, kPoll };
  machine::Address part(std::uint32_t rank, std::uint32_t buffer, std::uint32_t from,
                        std::int64_t row) const;

  std::uint64_t part_bytes_;
  std::vector<std::uint32_t> mailbox_;  // regions, by rank
};

}  // namespace ringfence::programs
