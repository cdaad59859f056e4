#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace ringfence::ptx {

enum class FaultKind : std::uint8_t {
  out_of_bounds,
  misaligned,
  multicast_misuse,  ///< non-multimem access to a multicast address, or the reverse
  shared_race,
  barrier_divergence,
  undefined,  ///< what the manual leaves undefined: reading an inactive lane, ...
  trap,
  assertion,
  budget,  ///< instruction budget used up
  deadlock,
};
const char* name_of(FaultKind kind);

/// Something that a thread of a running kernel did wrong. what() is the bare reason; the executor
/// adds the place (see Execution).
class Fault : public std::runtime_error {
 public:
  Fault(FaultKind kind, const std::string& reason, std::uint32_t lane = 0)
      : std::runtime_error(reason), kind_(kind), lane_(lane) {}
  FaultKind kind() const { return kind_; }
  /// The first lane concerned.
  std::uint32_t lane() const { return lane_; }

 private:
  FaultKind kind_;
  std::uint32_t lane_;
};

}  // namespace ringfence::ptx
