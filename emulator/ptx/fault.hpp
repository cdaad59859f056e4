#pragma once

#include <cstdint>
#include <optional>
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
  budget,   ///< instruction budget used up
  endless,  ///< a loop that nothing can end
  deadlock,
  uninitialised_barrier,  ///< an mbarrier is used while nothing orders its init before
  barrier_misuse,         ///< a barrier is used against its rules, whatever the order of steps
  cluster_entry,          ///< shared memory of a block of the cluster that may not have begun
  cluster_exit,           ///< the same of one that may have ended
};
const char* name_of(FaultKind kind);

/// The earlier one of two accesses that a fault is about.
struct OtherAccess {
  std::uint32_t block = 0;   ///< linear in the grid
  std::uint32_t thread = 0;  ///< within it
  std::uint32_t instruction = 0;
  enum class Kind : std::uint8_t { read, write, none } kind = Kind::read;
  bool later_is_access = true;  ///< else the later one is none
  std::uint64_t place = 0;      ///< of both that are: shared_place() (memory.hpp)
};

/// Bytes of a block's shared memory that an access names; not all of them need to exist.
struct SharedBytes {
  std::uint32_t block = 0;  ///< linear in the grid
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

/// Something that a thread of a running kernel did wrong. what() is the bare reason; the executor
/// adds the place (see Execution).
class Fault : public std::runtime_error {
 public:
  Fault(FaultKind kind, const std::string& reason, std::uint32_t lane = 0)
      : std::runtime_error(reason), kind_(kind), lane_(lane) {}
  FaultKind kind() const { return kind_; }
  /// The first lane concerned.
  std::uint32_t lane() const { return lane_; }
  const std::optional<OtherAccess>& other() const { return other_; }
  void set_other(const OtherAccess& other) { other_ = other; }
  /// The bytes concerned, where they are shared memory's.
  const std::optional<SharedBytes>& shared() const { return shared_; }
  void set_shared(const SharedBytes& bytes) { shared_ = bytes; }
  /// The instruction concerned, where it is an earlier one than that which runs: a copy's.
  const std::optional<std::uint32_t>& instruction() const { return instruction_; }
  void set_instruction(std::uint32_t instruction) { instruction_ = instruction; }
  /// Of the later one, where that is not what the warp at hand does: a thread of its block.
  struct Place {
    std::uint32_t thread = 0;
    std::uint32_t instruction = 0;
  };
  const std::optional<Place>& place() const { return place_; }
  void set_place(const Place& place) { place_ = place; }

 private:
  FaultKind kind_;
  std::uint32_t lane_;
  std::optional<OtherAccess> other_;
  std::optional<SharedBytes> shared_;
  std::optional<std::uint32_t> instruction_;
  std::optional<Place> place_;
};

}  // namespace ringfence::ptx
