#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/machine/vocabulary.hpp"
#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// The seam between the PTX executor and a model of global memory. The executor hands over one
/// warp instruction at a time; each lane is a thread of its own for the memory. It keeps no host
/// stack while an access waits: a request that is not completed is simply issued again later.

using machine::Combine;
using machine::Order;
using machine::Scope;
enum class Proxy : std::uint8_t { generic, async, alias, tensormap };

enum class Operation : std::uint8_t {
  load,                  ///< ld; also the read of a cp.async
  store,                 ///< st; also the write of a bulk copy
  atomic,                ///< atom: returns the old value
  reduce,                ///< red: returns nothing, never acquires
  multimem_load_reduce,  ///< one read a replica, combined by the policy
  multimem_store,
  multimem_reduce,
};

/// The part of an access that the instruction fixes. Vector elements are separate memory
/// operations of type `type`, consecutive in memory; a packed type is two 16-bit operations.
struct Access {
  Operation operation = Operation::load;
  Space space = Space::generic;  ///< as written; the memory only sees global addresses
  Type type = Type::b32;
  std::uint8_t elements = 1;  ///< .v2 .v4 .v8
  Order order = Order::weak;
  Scope scope = Scope::sys;
  Combine combine = Combine::none;
  Type accumulate = Type::none;  ///< .acc::f32 / .acc::f16
  bool non_coherent = false;     ///< ld.global.nc
  bool flush = false;            ///< atomics on f32 in global memory flush subnormals
  Proxy proxy = Proxy::generic;
  std::uint32_t bytes() const { return size_of(type) * elements; }
};

constexpr unsigned kLanes = 32;
constexpr unsigned kMostElements = 8;

/// Which threads act. Thread `warp * 32 + lane` of block `block` (x fastest) of launch `launch`.
struct Agents {
  std::uint32_t rank = 0;
  std::uint32_t launch = 0;  ///< chosen by whoever created the Execution
  std::uint32_t block = 0;
  std::uint32_t warp = 0;
  std::uint32_t mask = 0;
};

struct Request {
  const Access* access = nullptr;
  Agents agents;  ///< agents.mask: lanes still to do
  std::array<std::uint64_t, kLanes> address;
  /// elements[e] + lane * lane_bytes holds element e of a lane: read for stores and reductions,
  /// written for loads (zero-extended to lane_bytes, 4 or 8). For atom and red, elements[0] is the
  /// operand, compare the expected value of cas, and result where the old value goes (null for
  /// red).
  std::array<std::byte*, kMostElements> elements{};
  std::byte* compare = nullptr;
  std::byte* result = nullptr;
  std::uint32_t lane_bytes = 4;
  std::uint32_t instruction = 0;         ///< index in Function::instructions
  const std::byte* registers = nullptr;  ///< the warp's, see lane_digest; null for copies
  std::uint32_t line = 0;                ///< in the PTX text

  // Answers.
  std::uint32_t completed = 0;  ///< lanes that are done; a part splits the warp
  bool yield = false;           ///< done, but others should run before these lanes go on
};

/// What a fence instruction says.
struct Fence {
  Order order = Order::acq_rel;
  Scope scope = Scope::sys;
  Proxy proxy = Proxy::generic;  ///< other than generic: fence.proxy.*
};

/// An instance of a barrier, unique in one Execution: bar.sync, bar.warp.sync, barrier.cluster and
/// mbarrier phases. What precedes an arrival happens before what follows a departure from it.
using SyncToken = std::uint64_t;
/// Set in the tokens of mbarrier phases: any number of threads departs from one, at any time until
/// retire().
constexpr SyncToken kPhaseToken = 1ULL << 63;

class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;

  /// Performs the access for some, all or none of the lanes in request.agents.mask and says so in
  /// request.completed. Throws Fault for an access that cannot be performed at all.
  virtual void access(Request& request) = 0;
  /// A bulk copy's weak load or store of any number of bytes through the async proxy, by the one
  /// thread in agents.mask. Done when it returns; as accesses of 16 bytes at most unless a memory
  /// knows better.
  virtual void bulk(const Agents& agents, Operation operation, std::uint64_t address,
                    std::span<std::byte> data, std::uint32_t instruction, std::uint32_t line);
  virtual void fence(const Agents& agents, const Fence& fence, std::uint32_t instruction) = 0;
  virtual void arrive(SyncToken token, const Agents& agents) = 0;
  virtual void depart(SyncToken token, const Agents& agents) = 0;
  /// Nothing departs from the token any more.
  virtual void retire(SyncToken) {}
  /// A look at an mbarrier's phase that asynchronous bytes completed, by the thread in agents.mask;
  /// nobody has seen it complete yet. False: they have not come, for this look. The rest of the
  /// phase's looks find them.
  virtual bool bytes_have_come(const Agents& agents) {
    static_cast<void>(agents);
    return true;
  }
  /// griddepcontrol.wait: true once the launches before this one are complete and visible.
  virtual bool dependencies_met(const Agents& agents) = 0;
};

}  // namespace ringfence::ptx
