#pragma once
// The agents of the ranks that live in this process: their bodies and stacks. All else about them
// is in the Execution, which other processes see too.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "emulator/schedule/agent.hpp"
#include "emulator/schedule/errors.hpp"
#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/fiber_pool.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::schedule {

// What a watchdog looks at; written here, read by another process.
struct Progress {
  std::atomic<std::uint32_t> beat{0};  // moves with every access, and while a kernel computes
  std::atomic<AgentId> last_agent{kNoAgent};
};

// How the ranks of a free run share the machine: everything that touches it or the Execution
// happens between enter and leave.
class Gate {
 public:
  virtual ~Gate() = default;
  virtual void enter() = 0;
  virtual void leave() = 0;  // wakes the ranks in Execution::rung()
};

class Runtime final : private FiberWork {
 public:
  // `first` .. `first + count - 1` are the ranks of this process.
  Runtime(Execution& execution, Program& program, std::uint16_t first_rank,
          std::uint16_t rank_count);

  // After Execution::start, before anything else of the run: forgets the run before.
  void begin_run(Progress* progress, Gate* gate = nullptr);
  // Controlled: steps agents until the turn goes to another process, or the run ends.
  void run_turn();
  // Free-running: lets one ready agent run until it blocks or ends.
  void resume(AgentId id);
  // For bodies with bounds of their own. Whether no other agent can step, and no read of the run
  // returned what was old by then; in a free run nobody knows. The second ends the run without a
  // verdict, as at the limit of points.
  static bool alone(const Agent& agent);
  static void give_up(Agent& agent);
  // Ends all agents that are in the middle of their bodies. Needed after a run that did not end as
  // `complete`.
  void unwind();
  // What a body threw in this run, with its agent's name; empty if nothing.
  const std::string& error() const { return error_; }
  // Of which kind it was. Where memory ran out the machine's state is not to be trusted.
  Thrown thrown() const { return thrown_; }

 private:
  friend class Agent;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr machine::StreamId kNoStream = ~machine::StreamId{0};
  static constexpr std::uint32_t kPollBeats = 256;

  // Thrown through bodies to unwind them.
  struct Stopped {};
  // Agents of one block of one launch.
  struct Block {
    std::uint32_t total = 0;
    std::uint32_t unfinished = 0;
    std::vector<BlockBarrier*> waited;  // barriers at which some of them wait
  };
  // A launch_graph in progress.
  struct Graph {
    AgentId first = kNoAgent;
    std::vector<std::vector<std::uint32_t>> successors;
    std::vector<std::uint32_t> pending;
  };
  struct Local {
    Local(Execution& execution, Runtime& runtime) : agent(execution, runtime) {}
    Agent agent;
    Agent::Body body;
    Fiber* fiber = nullptr;
    std::uint32_t block = kNone;  // in blocks_
    std::uint32_t graph = kNone;  // in graphs_
    // Of a host: the stream of its latest launch, and whether it is in that.
    machine::StreamId stream = kNoStream;
    bool launching = false;
  };
  struct BlockAt {
    std::uint64_t launch = 0;
    std::uint32_t index = 0;  // in blocks_
  };

  Local* local(AgentId id) { return id < local_of_.size() ? local_of_[id] : nullptr; }
  Local& add_local(AgentId id);
  void work(Fiber& on) noexcept override;
  Fiber& next_fiber();
  Fiber* fiber_of(Local& l) noexcept;
  void run_body(Local& l) noexcept;
  void finished(Local& l);
  void fail(const Local& l, const char* what, Thrown kind) noexcept;
  void check_divergence(const Block& block, const Agent& ended);
  // A rank of this process fell: its agents are unwound, and its new host made.
  void bury();
  void unwind_local(Local& l);

  // For Agent.
  void suspend(Agent& agent);   // until it is the agent's turn again
  void give_way(Agent& agent);  // decides who steps; returns when `agent` is to go on
  void launch(Agent& host, machine::StreamId stream, std::uint16_t call,
              std::vector<Agent::ChildSpec>& children, std::uint16_t group,
              const std::vector<std::vector<std::uint32_t>>* predecessors);
  void fork_hosts(Agent& host, std::uint16_t call, std::vector<Agent::Body>& bodies);
  std::uint32_t block_of(std::uint32_t number);
  void sync(Agent& agent, BlockBarrier& barrier, std::uint16_t site, bool wait);
  void leave(Agent& agent, BlockBarrier& barrier);
  void of_this_run(const Agent& agent, BlockBarrier& barrier) const;
  void complete(Agent& agent, BlockBarrier& barrier, std::uint16_t site, bool went_on);
  void enter() {
    if (gate_ != nullptr) enter_gate();
  }
  void enter_gate();
  void leave() {
    if (gate_ != nullptr) leave_gate();
  }
  void leave_gate();
  // What `f` does to the machine or the execution, which are this process's meanwhile. (By try, not
  // by a guard that asks std::uncaught_exceptions(): that costs 4 % of a run.)
  template <class F>
  void change(F&& f) {
    enter();
    try {
      f();
    } catch (...) {
      broken();
      leave();
      throw;
    }
    leave();
  }
  void beat() {
    const std::uint32_t beat = progress_->beat.load(std::memory_order_relaxed) + 1;
    progress_->beat.store(beat, std::memory_order_relaxed);
    if (beat % kPollBeats == 0) execution_.poll_stop();
  }
  // What was done to the machine came to no end: nobody may touch it again.
  void broken() noexcept;

  Execution& execution_;
  Program& program_;
  std::uint16_t first_rank_, rank_count_;
  Progress own_progress_;
  Progress* progress_ = &own_progress_;
  Gate* gate_ = nullptr;
  bool stopping_ = false;
  Thrown thrown_ = Thrown::nothing;
  std::string error_;
  std::uint64_t run_ = 0;
  Local* starting_ = nullptr;     // for the fiber that is switched to next
  std::vector<Local*> local_of_;  // by AgentId; null: another process's
  std::deque<Local> locals_;      // the first locals_used_ are this run's
  std::uint32_t locals_used_ = 0;
  std::deque<Block> blocks_;
  std::uint32_t blocks_used_ = 0;
  std::vector<Graph> graphs_;
  std::vector<machine::ThreadId> following_;  // of the operation that ends
  // Left by agents that have arrived in the generation at hand: they are missing in the next.
  std::vector<const BlockBarrier*> leaving_;
  std::uint64_t launches_ = 0;
  std::vector<BlockAt> block_at_;  // by block number, for the launch being made
  FiberPool fibers_{*this};
};

}  // namespace ringfence::schedule
