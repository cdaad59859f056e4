#pragma once
// What the code of a protocol sees: one thread of a kernel (or one operation of a task graph).
//
// An agent runs on its own stack inside its rank's process. Its strong accesses, fences, waits and
// block barriers are points: there the strategy may let another agent step first. Weak accesses
// are no points: an execution without races cannot tell, and a race is found whatever the timing.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

class Execution;
class Runtime;

// bar.sync of one block: `expected` agents per generation. Private to the block's rank.
class BlockBarrier {
 public:
  explicit BlockBarrier(std::uint32_t expected) : expected_(expected) {}

 private:
  friend class Agent;
  std::uint32_t expected_;
  std::vector<AgentId> waiting_;
  std::vector<machine::ThreadId> threads_;
};

class Agent {
 public:
  Agent(Execution& execution, Runtime& runtime, AgentId id) noexcept
      : execution_(execution), runtime_(runtime), id_(id) {}
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  AgentLabel label() const;
  machine::ThreadId thread() const;

  // Accesses; see machine::Machine for their meaning. Strong ones are points.
  void read(machine::Address from, const machine::Access& access, std::span<std::byte> out);
  void write(machine::Address to, const machine::Access& access, std::span<const std::byte> in);
  void reduce(machine::Address to, const machine::Access& access,
              std::span<const std::byte> operand, machine::Combine combine);
  std::uint64_t rmw(machine::Address at, const machine::Access& access, std::uint64_t operand,
                    machine::Combine combine);
  std::uint64_t cas(machine::Address at, const machine::Access& access, std::uint64_t compare,
                    std::uint64_t value);
  void fence(machine::Machine::Fence kind, machine::Scope scope, std::uint16_t site = 0);

  // Waits: the agent is not ready until the slot can satisfy it. Nothing is spun.
  std::uint64_t await(machine::Address at, const machine::Access& access,
                      const machine::Wanted& wanted);
  // CAS compare -> value, repeated until it succeeds.
  void await_cas(machine::Address at, const machine::Access& access, std::uint64_t compare,
                 std::uint64_t value);

  // bar.sync among the block's agents.
  void sync(BlockBarrier& barrier, std::uint16_t site = 0);

  // A choice of the program's own, for example the order of a sum. 0 is the default.
  std::uint32_t choose(DecisionKind kind, std::uint32_t options);

  // Reports a finding made by the program itself (replicas differ, wrong numbers, ...): the run
  // ends here.
  void report(const machine::Finding& finding);

  // -- host agents only -------------------------------------------------------------------------
  using Body = std::function<void(Agent&)>;
  struct ChildSpec {
    Role role = Role::thread;
    std::uint32_t block = 0;  // becomes the thread's block in the launch and in the label
    std::uint32_t index = 0;
    std::uint16_t cluster = 0;
    Body body;
  };
  // One launch on `stream`: begins it, runs all children to their ends, ends it.
  void launch(machine::StreamId stream, std::uint16_t call, std::vector<ChildSpec> children,
              std::uint16_t group = 0);

  // A launch whose children are operations of a task graph: child i runs once all in
  // `predecessors[i]` ended, and their effects happen before it. Ids are indices of `children`.
  void launch_graph(machine::StreamId stream, std::uint16_t call, std::vector<ChildSpec> children,
                    std::vector<std::vector<std::uint32_t>> predecessors, std::uint16_t group = 0);

 private:
  friend class Runtime;
  void point();
  void check_stopped();
  Execution& execution_;
  Runtime& runtime_;
  AgentId id_;
};

}  // namespace ringfence::schedule
