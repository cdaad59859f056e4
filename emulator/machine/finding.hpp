#pragma once
// What the machine and the checks around it can find, as plain data.

#include <cstdint>
#include <string>

#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

enum class FindingKind : std::uint8_t {
  data_race,
  stale_read,
  deadlock,
  livelock,
  lost_signal,
  unrestored_signal,
  barrier_divergence,
  out_of_bounds,
  misaligned,
  uninitialised_read,
  multicast_misuse,
  replica_mismatch,
  numeric_mismatch,
  rank_lost,
  uninitialised_barrier,  // an mbarrier is used while nothing orders its init before
  barrier_misuse,         // a barrier is used against its rules (phases, forms, mixed kinds)
  incoherent_read,        // ld.global.nc of data that changes while the kernel runs
  cluster_entry,          // shared memory of a block of the cluster that may not have begun
  cluster_exit,           // the same of one that may have ended
  residency,              // blocks wait for others for which there is no room on the GPU
};
inline constexpr int kFindingKinds = 20;

// `none`: a thread came to a line that accesses no memory.
enum class AccessKind : std::uint8_t { read, write, rmw, none };

// One side of a finding. `label` is the caller's name for the thread (an agent's packed name);
// `step` counts the machine's accesses of the whole run, so a replay finds the same one.
struct AccessInfo {
  AccessKind kind = AccessKind::read;
  Order order = Order::weak;
  Scope scope = Scope::cta;
  Proxy proxy = Proxy::generic;
  std::uint64_t label = 0;
  std::uint32_t step = 0;
  std::uint16_t site = 0;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

// Why two conflicting accesses are unordered: the ingredient that a fix has to add.
enum class Missing : std::uint8_t {
  none,
  synchronisation,   // no chain of release and acquire leads from one to the other
  first_scope,       // both are strong; the first one's scope does not reach the second
  second_scope,      // the second one's scope does not reach the first
  strength,          // the later one observed the earlier's rank in time, but only relaxed
  complete_overlap,  // both are strong but of different sizes
  same_proxy,        // both are strong but through different virtual addresses
  proxy_fence,       // ordered, but no fence.proxy.async leads to the second one's proxy
  completion,  // the first one is an asynchronous operation's, whose end nobody has waited for
  one_proxy,   // both are strong, one through the async proxy and one through the generic
};

struct Finding {
  FindingKind kind = FindingKind::data_race;
  AccessInfo first, second;  // second is the later one in the run
  bool has_first = false, has_second = false;
  Missing missing = Missing::none;
  bool same_value = false;  // a race of two writes of one value
  // The run had read a part of what a policy takes for one (AsOne), so that it is none by that
  // policy. Only an exhaustive search has such runs.
  bool torn = false;
};

// What passes over findings that are known (Machine::passes_over).
class FindingFilter {
 public:
  virtual ~FindingFilter() = default;
  virtual bool passes_over(const Finding& finding) = 0;
};

}  // namespace ringfence::machine
