#pragma once
// One run of a program: the agents' states and the turn, in memory that all rank processes see.
//
// Controlled: one agent steps at a time, and whoever holds the turn decides who is next, so no
// coordinator sits between two steps. Free-running: every rank runs its own agents, accesses are
// serialised by a lock, and choices take their defaults.

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

enum class AgentStatus : std::uint8_t {
  ready,
  awaiting,
  at_barrier,
  joining,
  blocked_by_graph,
  done
};

struct AwaitInfo {
  machine::Address at;
  machine::Access access;
  machine::Wanted wanted;
  bool by_rmw = false;
};

struct AgentRecord {
  std::uint64_t label = 0;
  machine::ThreadId thread = machine::kNoThread;
  AgentId parent = kNoAgent;
  std::uint32_t children = 0;  // still running
  std::uint32_t point = 0;
  std::uint32_t ready_at = 0;  // position in its rank's ready list
  std::uint32_t last_step = 0;
  std::uint16_t rank = 0;
  std::uint16_t last_site = 0;
  AgentStatus status = AgentStatus::ready;
  AwaitInfo await;
};

// Why a run ended.
enum class RunEnd : std::uint8_t { running, complete, finding, deadlock, step_limit, stopped };

class Execution : public machine::Chooser, public ReadyView {
 public:
  Execution(machine::Machine* machine, std::uint16_t ranks, std::pmr::memory_resource* memory);

  // Starts a run: host agents for all ranks exist afterwards and `current()` is decided.
  void start(Strategy* strategy, std::uint32_t expected_points, std::uint32_t point_limit);

  machine::Machine& machine() { return *machine_; }
  std::uint16_t ranks() const { return ranks_; }
  RunEnd end() const { return static_cast<RunEnd>(end_.load(std::memory_order_acquire)); }
  bool running() const { return end() == RunEnd::running; }
  void finish(RunEnd end);
  AgentId current() const { return current_; }
  std::uint16_t rank_of(AgentId id) const { return agents_[id].rank; }
  std::uint32_t points() const { return points_; }
  const std::pmr::vector<AgentRecord>& agents() const { return agents_; }
  const std::pmr::vector<Decision>& decisions() const { return decisions_; }

  // -- for Agent and Runtime --------------------------------------------------------------------
  AgentId spawn(std::uint64_t label, std::uint16_t rank, machine::ThreadId thread, AgentId parent,
                AgentStatus status);
  AgentRecord& record(AgentId id) { return agents_[id]; }
  void set_ready(AgentId id);
  void set_blocked(AgentId id, AgentStatus status);
  // Decides who steps next after a point, a block or an end of `id`; sets current().
  void decide(AgentId id);
  // Puts awaiting agents whose slot can now satisfy them on the ready list.
  void drain_woken();
  std::uint32_t choose_for(AgentId id, DecisionKind kind, std::uint32_t options);

  // machine::Chooser
  std::uint32_t choose(machine::Choice kind, machine::ThreadId who, std::uint32_t options) override;
  // ReadyView
  std::uint32_t count() const override { return ready_count_; }
  AgentId at(std::uint32_t i) const override;
  AgentId lowest() const override;
  bool is_ready(AgentId id) const override { return agents_[id].status == AgentStatus::ready; }
  std::uint64_t label(AgentId id) const override { return agents_[id].label; }
  AgentId find(std::uint64_t label) const override;

 private:
  void record_decision(AgentId at, DecisionKind kind, std::uint64_t value);

  machine::Machine* machine_;
  std::uint16_t ranks_;
  std::pmr::vector<AgentRecord> agents_;
  std::pmr::vector<AgentId> ready_;  // dense
  std::pmr::vector<std::uint64_t> ready_bits_;
  std::uint32_t ready_count_ = 0;
  std::uint32_t unfinished_ = 0;
  std::pmr::vector<Decision> decisions_;
  Strategy* strategy_ = nullptr;
  AgentId current_ = kNoAgent;
  std::uint32_t points_ = 0;
  std::uint32_t point_limit_ = 0;
  std::atomic<std::uint8_t> end_{0};
};

}  // namespace ringfence::schedule
