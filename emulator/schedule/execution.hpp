#pragma once
// One run of a program: the agents' states and the turn, in memory that all rank processes see.
//
// Controlled: one agent steps at a time, and whoever holds the turn decides who is next, so no
// coordinator sits between two steps. Free-running: every rank runs its own agents, accesses are
// serialised by a lock (see Gate), and choices take their defaults.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/decision.hpp"
#include "emulator/schedule/random.hpp"
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

// What an agent stands before, for a strategy that steps by events.
enum class Pending : std::uint8_t {
  none,    // it goes on with something else than an access: it begins, left a barrier, …
  access,  // an access, or an await
  fence,
  fence_sc,
};

struct AwaitInfo {
  machine::Address at;
  machine::Access access;
  machine::Wanted wanted;
  bool by_rmw = false;
};

// What one lane of a warp waits for. A lane may wait for several places at once.
struct LaneWait {
  std::uint32_t lane = 0;  // added to the agent's label: the thread in its block
  machine::ThreadId thread = machine::kNoThread;
  AwaitInfo await;
  machine::Wanted needs;  // what people are told: await.wanted is only that the value changes
  // The last poll saw a newest message that does not end the wait, though an older one would: it
  // takes a new message to look again.
  bool missed = false;
};

struct AgentRecord {
  std::uint64_t label = 0;
  machine::ThreadId thread = machine::kNoThread;
  AgentId parent = kNoAgent;
  std::uint32_t children = 0;  // still running
  std::uint32_t point = 0;     // how often the agent came to a decision about who steps
  std::uint32_t ready_at = 0;  // position in the ready list
  std::uint32_t last_step = 0;
  std::uint16_t rank = 0;
  std::uint16_t last_site = 0;
  AgentStatus status = AgentStatus::ready;
  Pending pending = Pending::none;
  AwaitInfo await;
  // A warp's waits, in place of `await`: the first `wait_count` of them, kept from run to run.
  std::uint32_t wait_count = 0;
  std::uint32_t wait_capacity = 0;
  LaneWait* waits = nullptr;
};

// Why a run ended.
enum class RunEnd : std::uint8_t { running, complete, finding, deadlock, step_limit, stopped };

// How a run is made, besides its strategy.
struct RunLimits {
  std::uint32_t expected_points = 0;
  std::uint32_t point_limit = 1u << 22;
  bool weak_points = false;   // weak accesses are points too
  bool free_running = false;  // ready agents go to their rank's inbox; nobody is picked
};

class Execution final : public machine::Chooser, public ReadyView {
 public:
  Execution(machine::Machine* machine, std::uint16_t ranks, std::pmr::memory_resource* memory);
  ~Execution() override;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Starts a run: host agents for all ranks exist afterwards (agent r is rank r's) and `current()`
  // is decided.
  void start(Strategy* strategy, const RunLimits& limits);

  machine::Machine& machine() { return *machine_; }
  std::uint16_t ranks() const { return ranks_; }
  RunEnd end() const { return static_cast<RunEnd>(end_.load(std::memory_order_acquire)); }
  bool running() const { return end() == RunEnd::running; }
  // The first end counts.
  void finish(RunEnd end);
  // Ends the run as `stopped` at its next point; may be called from another process.
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }
  AgentId current() const { return current_; }
  std::uint16_t rank_of(AgentId id) const { return record(id).rank; }
  std::uint32_t points() const { return points_.load(std::memory_order_relaxed); }
  bool weak_points() const { return weak_points_; }
  bool free_running() const { return free_; }
  std::uint32_t agent_count() const { return agent_count_; }
  std::uint32_t unfinished() const { return unfinished_; }
  const std::pmr::vector<Decision>& decisions() const { return decisions_; }
  std::uint64_t digest() const { return digest_; }

  // -- for Agent and Runtime --------------------------------------------------------------------
  // Records keep their address for the whole run.
  AgentRecord& record(AgentId id) { return chunks_[id / kChunk][id % kChunk]; }
  const AgentRecord& record(AgentId id) const { return chunks_[id / kChunk][id % kChunk]; }
  AgentId spawn(std::uint64_t label, std::uint16_t rank, machine::ThreadId thread, AgentId parent,
                AgentStatus status);
  void set_ready(AgentId id);
  void set_blocked(AgentId id, AgentStatus status);
  // Blocks a warp until one of the waits can end; the caller watches the places.
  void set_waiting(AgentId id, std::span<const LaneWait> waits);
  // Whether one of its waits can end by what is there, misses left out.
  bool can_go_on(AgentId id) const { return can_go_on(record(id), false); }
  // The agent is done; its parent becomes ready with the last child.
  void end_agent(AgentId id);
  // Told to the strategy (see Strategy).
  void arrived(AgentId id, const void* barrier) { strategy_->on_arrive(id, barrier); }
  void met_at_barrier(std::span<const AgentId> met, const void* barrier) {
    strategy_->on_barrier(met, barrier);
  }
  void ordered(AgentId earlier, AgentId later) { strategy_->on_order(earlier, later); }
  // Decides who steps next after a point, a block or an end of `id`; sets current(), or ends the
  // run: nobody is left, nobody can step, a finding was made, or the limit is reached.
  void decide(AgentId id);
  // Puts awaiting agents whose slot can now satisfy them on the ready list.
  void drain_woken();
  // Nobody can step: names the stuck agents in a finding and ends the run.
  void deadlock();
  std::uint32_t choose_for(AgentId id, DecisionKind kind, std::uint32_t options);
  void note(std::uint64_t value) {
    digest_ = ((digest_ ^ value) * 0x9fb21c651e98df25u) ^ (digest_ >> 29);
  }
  // Fault injection and other rare work: `decide` calls `hook` once, at the first point of an
  // agent of `rank` at or after `point`. The hook is a plain function: it runs in that process.
  void set_hook(void (*hook)(), std::uint16_t rank, std::uint32_t point);

  // -- free-running -----------------------------------------------------------------------------
  // Agents of a rank that became ready and that the rank has not taken yet.
  std::pmr::vector<AgentId>& inbox(std::uint16_t rank) { return inboxes_[rank]; }
  // Ranks whose inbox received something since the caller last cleared this.
  std::pmr::vector<std::uint16_t>& rung() { return rung_; }
  // Counts an access; ends the run at the limit or when a stop was requested.
  void count_free_point();

  // machine::Chooser
  std::uint32_t choose(machine::Choice kind, machine::ThreadId who, std::uint32_t options) override;
  // ReadyView
  std::uint32_t count() const override { return static_cast<std::uint32_t>(ready_.size()); }
  AgentId at(std::uint32_t i) const override { return ready_[i]; }
  AgentId lowest() const override;
  bool is_ready(AgentId id) const override { return record(id).status == AgentStatus::ready; }
  std::uint64_t label(AgentId id) const override { return record(id).label; }
  AgentId find(std::uint64_t label) const override;

 private:
  static constexpr std::uint32_t kChunk = 1024;
  static constexpr std::uint32_t kMaxChunks = 4096;

  void record_decision(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                       std::uint64_t value, std::uint32_t nth);
  void hand_over(AgentId next, bool was_ready, std::uint64_t label, std::uint32_t point);
  bool rare_work(AgentId id);  // limits, stops, hooks; false if the run ended
  bool can_go_on(const AgentRecord& r, bool after_miss) const;

  machine::Machine* machine_;
  std::uint16_t ranks_;
  std::pmr::memory_resource* memory_;
  std::pmr::vector<AgentRecord*> chunks_;  // never grows beyond its reserve: readers need no lock
  std::uint32_t agent_count_ = 0;
  std::uint32_t unfinished_ = 0;
  std::pmr::vector<AgentId> ready_;             // dense, in no order
  std::pmr::vector<std::uint64_t> ready_bits_;  // by agent
  mutable std::uint32_t lowest_word_ = 0;       // no bit is set before this word
  std::pmr::vector<Decision> decisions_;
  Strategy* strategy_ = nullptr;
  AgentId current_ = kNoAgent;
  std::uint64_t digest_ = 0;
  std::atomic<std::uint32_t> points_{0};  // written by whoever steps, read by the watchdog
  std::uint32_t rare_at_ = 0;             // the next point with rare work
  std::uint32_t point_limit_ = 0;
  bool weak_points_ = false;
  bool free_ = false;
  // Questions of each kind that were asked at the current point; valid if there were any.
  std::array<std::uint32_t, 6> asked_{};
  std::uint32_t asked_total_ = 0;
  void (*hook_)() = nullptr;
  std::uint16_t hook_rank_ = 0;
  std::uint32_t hook_point_ = 0;
  std::pmr::vector<std::pmr::vector<AgentId>> inboxes_;
  std::pmr::vector<std::uint16_t> rung_;
  std::atomic<std::uint8_t> end_{static_cast<std::uint8_t>(RunEnd::stopped)};
  std::atomic<bool> stop_{false};
};

}  // namespace ringfence::schedule
