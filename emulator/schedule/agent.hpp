#pragma once
// What the code of a protocol sees: one thread of a kernel (or one operation of a task graph).
//
// An agent runs on its own stack inside its rank's process. Its strong accesses, fences, waits and
// block barriers are points: there the strategy may let another agent step first. Weak accesses
// are no points: an execution without races cannot tell, and a race is found whatever the timing.

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

class Execution;
class Runtime;
struct AgentRecord;
struct LaneWait;

// bar.sync of one block: `expected` agents per generation, all of one block of one launch. Private
// to the block's rank. It has to outlive the agents that use it.
class BlockBarrier {
 public:
  explicit BlockBarrier(std::uint32_t expected) : expected_(expected) {}

 private:
  friend class Runtime;
  std::uint32_t expected_;
  std::uint32_t left_ = 0;  // of these, how many ended without it: nobody waits for them
  std::uint64_t run_ = 0;   // whose agents are waiting; leftovers of an ended run do not count
  std::vector<AgentId> waiting_;
  std::vector<machine::ThreadId> threads_;           // that arrived
  std::vector<machine::ThreadId> syncing_;           // of these, those that wait
  std::vector<machine::Machine::Arrival> arrivals_;  // of those that went on
};

// Bodies run on small stacks (kStackBytes) and may be ended at any of their calls here, by an
// exception that they must let pass: no catch (...) without a rethrow, no calls from destructors.
class Agent {
 public:
  Agent(Execution& execution, Runtime& runtime) noexcept
      : execution_(execution), runtime_(runtime) {}
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  AgentLabel label() const;
  // kNoThread for the host of a rank, which makes no accesses itself.
  machine::ThreadId thread() const;
  // Of a host: the call that it begins with. Not 0 where a fault restarted the rank in a later one.
  std::uint16_t first_call() const;

  // Accesses; see machine::Machine for their meaning. Strong ones are points.
  void read(machine::Address from, const machine::Access& access, std::span<std::byte> out);
  void write(machine::Address to, const machine::Access& access, std::span<const std::byte> in);
  void reduce(machine::Address to, const machine::Access& access,
              std::span<const std::byte> operand, machine::CombineFunction combine);
  std::uint64_t rmw(machine::Address at, const machine::Access& access, std::uint64_t operand,
                    machine::CombineFunction combine);
  std::uint64_t cas(machine::Address at, const machine::Access& access, std::uint64_t compare,
                    std::uint64_t value);
  void fence(machine::Machine::Fence kind, machine::Scope scope, std::uint16_t site = 0);
  void proxy_fence(machine::Machine::ProxyFence kind, std::uint16_t site = 0);

  // The accesses of one instruction: a single point before the first of them, which is at `first`.
  // While it lives, accesses of this agent are no points.
  class OneInstruction {
   public:
    OneInstruction(Agent& agent, const machine::Access& access, machine::AccessKind kind,
                   machine::Address first, std::uint64_t bytes)
        : agent_(agent) {
      agent.before(first, access, kind, bytes);
      agent.in_instruction_ = true;
    }
    ~OneInstruction() { agent_.in_instruction_ = false; }
    OneInstruction(const OneInstruction&) = delete;
    OneInstruction& operator=(const OneInstruction&) = delete;

   private:
    Agent& agent_;
  };

  // Waits: the agent is not ready until the slot can satisfy it. Nothing is spun. Which value ended
  // it await_value() alone tells (who looks at it only if Wanted::told).
  void await(machine::Address at, const machine::Access& access, machine::Wanted wanted);
  std::uint64_t await_value(machine::Address at, const machine::Access& access,
                            const machine::Wanted& wanted);
  // CAS compare -> value, repeated until it succeeds.
  void await_cas(machine::Address at, const machine::Access& access, std::uint64_t compare,
                 std::uint64_t value);

  // bar.sync among the block's agents. A block that can never fill it is a finding.
  void sync(BlockBarrier& barrier, std::uint16_t site = 0);
  // bar.arrive: counts for the others' sync and goes on.
  void arrive(BlockBarrier& barrier, std::uint16_t site = 0);
  // Behind its last access: the barrier waits for this agent no more, in no generation of the run.
  // That orders nothing.
  void leave(BlockBarrier& barrier);

  // -- warps: agents that act for several threads of the machine (ChildSpec::lanes) ---------------
  machine::ThreadId lane_thread(std::uint32_t lane) const { return lanes_[lane]; }
  std::span<const machine::ThreadId> lane_threads() const { return lanes_; }
  // Others may step here: before an access (`next`, if it is known); before a fence; where the
  // agent goes round a loop and others should step first.
  void point(const PendingAccess& next = {});
  void point_at_fence(machine::Machine::Fence kind);
  void yield();
  bool weak_points() const;
  // Whether in what order accesses like this one are executed shows (mode coherent).
  bool order_shows(const machine::Access& access) const;
  // Whether looks that only lead to another look are no part of the run (Strategy::drops_looks).
  bool drops_looks() const;
  // Between points, by a body that computes for long: tells the watchdog, and ends there if the run
  // is to stop.
  void still_at_it();
  // What `f(machine)` does for the lanes, as one step; a finding ends the run behind it.
  template <class F>
  void act(std::uint16_t site, F&& f) {
    begin_step();
    try {
      f(machine_of_run());
    } catch (const std::bad_alloc&) {
      break_step();
      throw;
    } catch (...) {
      end_step(site);
      throw;
    }
    end_step(site);
    check_stopped();
  }
  // Takes values that were read into the run's digest.
  void note(std::uint64_t value);
  // Blocks until one of the waits can end, or another agent of this process unparks this one; or,
  // if it may time out, until nobody else can step: then the answer is false.
  bool await_any(std::span<const LaneWait> waits, bool may_time_out = false);
  // Blocks until another agent of this process unparks this one (a barrier of the program's own).
  // For ever at an open one is a deadlock, and no divergence of the block's threads.
  void park(std::uint16_t site = 0, Parked at = Parked::block);
  // Inside act() only: after a strong write (faults.hpp, late-signal); whether a signal there has
  // not come yet; and that reads take the message before the newest meanwhile.
  void signalled(machine::Address at, std::uint64_t bytes);
  bool late(machine::Address at) const;
  void read_old(bool on);
  // Blocks until another agent of this process lets it go on: until its launch may begin or there
  // is a place for its block (`for_room`), until another launch has ended. That it never comes is
  // nobody's fault.
  void wait_turn(std::uint16_t site = 0, bool for_room = false);
  // Inside act() only. Nothing if it is not blocked.
  void let_go(Agent& other);
  // Reports what the agent cannot go on from. Returns only as the run's end unwinds it: if the
  // finding is passed over, it stops here and the others go on.
  void fail(const machine::Finding& finding);
  // Inside act() only. Nothing if it is not blocked.
  void unpark(Agent& other);
  // What a barrier of the program's own orders (Strategy::on_arrive, on_leave, on_close): this
  // agent arrived there and may go on; it left; nobody will any more. `barrier` names one
  // generation.
  void arrived(const void* barrier, std::uint32_t lanes);
  void left(const void* barrier, std::uint32_t lanes);
  void closed(const void* barrier);
  // Strategy::orders_first; and that it would have opened what another one's arrival has.
  bool orders_first(machine::Address at) const;
  void late(const void* barrier, const Late& late);
  // Lanes handed one another values.
  void exchanged(std::uint32_t lanes);

  // Nobody is picked and nothing is chosen: how steps are cut is of no matter.
  bool free_running() const;
  // A choice of the program's own, for example the order of a sum. 0 is the default.
  std::uint32_t choose(DecisionKind kind, std::uint32_t options);
  // Which part of a warp goes on; by each answer, its lanes. `fences`: which of those at a fence
  // makes it next.
  std::uint32_t choose_part(DecisionKind kind, std::span<const std::uint32_t> lanes,
                            bool fences = false);

  // Reports a finding made by the program itself (replicas differ, wrong numbers, ...): the run
  // ends here, unless it is passed over.
  void report(const machine::Finding& finding);

  // -- host agents only -------------------------------------------------------------------------
  using Body = std::function<void(Agent&)>;
  struct ChildSpec {
    Role role = Role::thread;
    std::uint32_t block = 0;  // becomes the thread's block in the launch and in the label
    std::uint32_t index = 0;
    std::uint16_t cluster = 0;
    Body body;
    // The machine's threads that the agent acts for: index, index + 1, ... of its block.
    std::uint32_t lanes = 1;
  };
  // One launch on `stream`: begins it, runs all children to their ends, ends it.
  void launch(machine::StreamId stream, std::uint16_t call, std::vector<ChildSpec> children,
              std::uint16_t group = 0);

  // A launch whose children are operations of a task graph: child i runs once all in
  // `predecessors[i]` ended, and their effects happen before it. Ids are indices of `children`.
  // Each operation is a block of its own for the machine (two are not in one cta), whatever its
  // label says.
  void launch_graph(machine::StreamId stream, std::uint16_t call, std::vector<ChildSpec> children,
                    std::vector<std::vector<std::uint32_t>> predecessors, std::uint16_t group = 0);

  // Runs several host agents at once, such as one for each stream, and waits for their ends.
  // The label of body i is this host's, with that call and group i + 1.
  void fork_hosts(std::uint16_t call, std::vector<Body> bodies);
  // A launch on `later` waits for all launches so far on `earlier`.
  void order_streams(machine::StreamId later, machine::StreamId earlier);

 private:
  bool in_instruction_ = false;
  friend class Runtime;
  template <class Change>
  void step(Change&& change);
  void begin_step();
  void end_step(std::uint16_t site);
  void break_step() noexcept;
  machine::Machine& machine_of_run();
  void point(Pending before);
  void before(machine::Address at, const machine::Access& access, machine::AccessKind kind,
              std::uint64_t bytes);
  void after(std::uint16_t site);
  void wrote(machine::Address at, const machine::Access& access, std::uint64_t bytes);
  void check_stopped();
  std::vector<machine::ThreadId> threads_of(std::uint32_t lanes) const;
  machine::ThreadId own_thread() const;
  std::uint64_t wait_for(machine::Address at, const machine::Access& access,
                         const machine::Wanted& wanted, bool by_rmw, std::uint64_t value);

  Execution& execution_;
  Runtime& runtime_;
  AgentId id_ = kNoAgent;
  AgentRecord* record_ = nullptr;
  std::vector<machine::ThreadId> lanes_;
};

}  // namespace ringfence::schedule
