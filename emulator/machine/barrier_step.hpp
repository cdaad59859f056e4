// What a step at a counted barrier or an mbarrier leaves there (Machine::step_of_barrier), as the
// search over executions reads it.
#pragma once

#include <cstdint>

#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

struct StepValue {
  std::uint32_t completed = 0;  // generations or phases that are complete behind it
  std::uint32_t joined = 0;     // the one that it is part of, from 1 on; 0: an init
  bool arrives = false;         // an arrival at an mbarrier
  // Makes a phase wait for more than its init says: expect_tx, or an arrival that copies make.
  bool raises = false;
};

inline constexpr std::uint64_t kStepArrives = 1ULL << 31;
inline constexpr std::uint64_t kStepRaises = 1ULL << 30;

constexpr std::uint64_t pack(const StepValue& v) {
  return std::uint64_t{v.completed} << 32 | (v.arrives ? kStepArrives : 0) |
         (v.raises ? kStepRaises : 0) | v.joined;
}

constexpr StepValue unpack(std::uint64_t value) {
  return {static_cast<std::uint32_t>(value >> 32),
          static_cast<std::uint32_t>(value & (kStepRaises - 1)), (value & kStepArrives) != 0,
          (value & kStepRaises) != 0};
}

// How a step, or a look, accesses the barrier's place.
inline Access step_access(std::uint16_t site) {
  Access how;
  how.order = Order::relaxed;
  how.scope = Scope::cluster;
  how.element = 8;
  how.site = site;
  how.of_barrier = true;
  return how;
}

// What a look waits for: a phase of that parity is over (so many are complete that the number is
// odd for 0, and even for 1), or more than `phases` are complete.
constexpr Wanted over(std::uint32_t parity) {
  return {Compare::ne, std::uint64_t{parity & 1U} << 32, std::uint64_t{1} << 32};
}
constexpr Wanted more_than(std::uint32_t phases) {
  return {Compare::gt, std::uint64_t{phases} << 32 | 0xFFFFFFFFU};
}

}  // namespace ringfence::machine
