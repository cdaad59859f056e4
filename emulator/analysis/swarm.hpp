#pragma once
// Swarm testing (Groce et al., ISSTA 2012): each unit of a campaign draws its configuration too, so
// that faults which need an unusual one are met.

#include <cstdint>

#include "emulator/programs/config.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::analysis {

struct SwarmChoice {
  programs::Config config;
  schedule::StrategySpec strategy;  // kind, depth, stale and faults; the seed is the unit's
};

// What unit `seed` runs. Its faults are some of `strategy`'s; if there are none, some of those
// after which any correct protocol completes or stops with its waits named. Legal, and small enough
// for thousands of schedules. `draw_protocol`: the protocol is drawn as well; else it and its
// switches are the base's.
SwarmChoice draw_swarm(const programs::Config& base, const schedule::StrategySpec& strategy,
                       std::uint64_t seed, bool draw_protocol);

}  // namespace ringfence::analysis
