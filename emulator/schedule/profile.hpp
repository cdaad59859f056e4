#pragma once
// Who accesses what: the events of one run, by which others weigh agents.

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/machine/access.hpp"

namespace ringfence::schedule {

// An access that an agent stood before.
struct SeenAccess {
  std::uint64_t label = 0;
  machine::Address at;
  bool writes = false;
};

// A place as a number: accesses that begin in one word of 4 bytes are at one place.
constexpr std::uint64_t place_key(machine::Address at) {
  return std::uint64_t{at.region} << 40 ^ at.offset / 4;
}

// The places that more than one agent accessed and some agent wrote, and how often each agent
// accessed them.
class Profile {
 public:
  struct Count {
    std::uint64_t label = 0;
    std::uint32_t accesses = 0;
  };
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t first = 0, agents = 0;  // in `counts`
  };

  Profile() = default;
  explicit Profile(std::vector<SeenAccess> seen);

  bool empty() const { return places_.empty(); }
  std::span<const Place> places() const { return places_; }
  std::span<const Count> counts(const Place& p) const {
    return std::span(counts_).subspan(p.first, p.agents);
  }

 private:
  std::vector<Place> places_;  // by key
  std::vector<Count> counts_;
};

}  // namespace ringfence::schedule
