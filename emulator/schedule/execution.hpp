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
#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/profile.hpp"
#include "emulator/schedule/random.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

enum class AgentStatus : std::uint8_t {
  ready,
  awaiting,
  at_barrier,
  joining,
  blocked_by_graph,
  held,     // could step, but a fault keeps it from it
  stopped,  // met what it cannot go on from, and the finding was passed over
  done      // also an agent of a rank that a fault killed
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
  // One of the reads of a whole iteration of a loop that repeats: see Strategy::drops_looks.
  bool of_iteration = false;
  // Any new message ends it: what of them do is known to the process of the agent alone.
  bool any_news = false;
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
  std::uint16_t first_call = 0;  // a restarted rank's host: the call to begin with
  AgentStatus status = AgentStatus::ready;
  Pending pending = Pending::none;
  PendingAccess access;
  Parked parked = Parked::block;  // at a barrier
  bool lacks_room = false;        // blocked: until there is a place for its block
  bool may_time_out = false;      // awaiting: it goes on where nobody else can
  bool timed_out = false;         // it has
  AwaitInfo await;
  // A warp's waits, in place of `await`: the first `wait_count` of them, kept from run to run.
  std::uint32_t wait_count = 0;
  std::uint32_t wait_capacity = 0;
  LaneWait* waits = nullptr;
};

// Why a run ended. `deadlock`: nobody can go on; there is no finding of it if it is passed over, or
// if an agent has stopped. `lost`: a rank's process ended or stalled, which says nothing of the
// program.
enum class RunEnd : std::uint8_t {
  running,
  complete,
  finding,
  deadlock,
  step_limit,
  stopped,
  lost
};

// How a run is made, besides its strategy.
struct RunLimits {
  std::uint32_t expected_points = 0;
  std::uint32_t point_limit = 1u << 22;
  bool weak_points = false;   // weak accesses are points too
  bool free_running = false;  // ready agents go to their rank's inbox; nobody is picked
  bool faults = false;        // the strategy is asked for faults
  bool profile = false;       // keep what agents stood before
};

// A rank that a fault killed, until its process has unwound its agents.
struct Fall {
  std::uint16_t rank = 0;
  AgentId host = kNoAgent;  // of the new incarnation; kNoAgent if there is none
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
  // Ends the run as `stopped` soon; may be called from another process.
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }
  // Whether that, or must_stop(), ended it.
  bool poll_stop();
  AgentId current() const { return current_; }
  std::uint16_t rank_of(AgentId id) const { return record(id).rank; }
  std::uint32_t points() const { return points_.load(std::memory_order_relaxed); }
  bool weak_points() const { return weak_points_; }
  // Noted among the decisions once an agent asks.
  bool drops_looks(AgentId id);
  bool free_running() const { return free_; }
  std::uint32_t agent_count() const { return agent_count_; }
  std::uint32_t unfinished() const { return unfinished_; }
  const std::pmr::vector<Decision>& decisions() const { return decisions_; }
  std::uint64_t digest() const { return digest_; }
  const std::pmr::vector<AppliedFault>& faults() const { return faults_; }
  const std::pmr::vector<SeenAccess>& seen() const { return seen_; }
  bool lost(std::uint16_t rank) const { return ranks_state_[rank].lost; }

  // -- for Agent and Runtime --------------------------------------------------------------------
  // Records keep their address for the whole run.
  AgentRecord& record(AgentId id) { return chunks_[id / kChunk][id % kChunk]; }
  const AgentRecord& record(AgentId id) const { return chunks_[id / kChunk][id % kChunk]; }
  AgentId spawn(std::uint64_t label, std::uint16_t rank, machine::ThreadId thread, AgentId parent,
                AgentStatus status);
  void set_ready(AgentId id);
  void set_blocked(AgentId id, AgentStatus status);
  // Blocks a warp until one of the waits can end; the caller watches the places.
  void set_waiting(AgentId id, std::span<const LaneWait> waits, bool may_time_out);
  // Whether one of its waits can end by what is there, misses left out.
  bool can_go_on(AgentId id) const { return can_go_on(record(id), false); }
  // The agent is done; its parent becomes ready with the last child.
  void end_agent(AgentId id);
  // Told to the strategy (see Strategy).
  void arrived(AgentId id, const void* barrier) { strategy_->on_arrive(id, barrier); }
  void gone(AgentId id, const void* barrier) { strategy_->on_gone(id, barrier); }
  void left(AgentId id, const void* barrier) { strategy_->on_leave(id, barrier); }
  void closed(const void* barrier) { strategy_->on_close(barrier); }
  Strategy& strategy() { return *strategy_; }
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
  const AgentRecord* diverged() const;
  void deadlock();
  std::uint32_t choose_for(AgentId id, DecisionKind kind, std::uint32_t options);
  void note(std::uint64_t value) {
    digest_ = ((digest_ ^ value) * 0x9fb21c651e98df25u) ^ (digest_ >> 29);
  }
  // -- faults -----------------------------------------------------------------------------------
  // What the process of the rank that fell has to do before anybody steps.
  bool fell() const { return fell_; }
  Fall take_fall() {
    fell_ = false;
    return fall_;
  }
  // Counts the restarts of a rank in this run.
  std::uint32_t incarnation(std::uint16_t rank) const { return ranks_state_[rank].incarnation; }
  // After an agent's strong write of a place that can be a signal: it may come late.
  void signalled(AgentId id, machine::Address at, std::uint64_t bytes) {
    if (faults_on_) draw_late(id, at, bytes);
  }
  bool late(machine::Address at) const { return late_count_ > 0 && is_late(at); }
  // While set, reads take the message before the newest, as far as causality admits.
  void read_old(bool on) { read_old_ = on; }
  // Gives words that were dirty their content back; for the machine's owner, between its reset and
  // the next start.
  void clean_pads();
  // Whether a word that was dirty is as it was at the start.
  bool dirty_word_is_left() const;

  // Injected losses of processes and other rare work: `decide` calls `hook` once, at the first
  // point of an agent of `rank` at or after `point`. The hook is a plain function: it runs in that
  // process.
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
  Pending pending(AgentId id) const override { return record(id).pending; }
  const PendingAccess& pending_access(AgentId id) const override { return record(id).access; }

 private:
  static constexpr std::uint32_t kChunk = 1024;
  static constexpr std::uint32_t kMaxChunks = 4096;

  void record_decision(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                       std::uint64_t value, std::uint32_t nth);
  void hand_over(AgentId next, bool was_ready, std::uint64_t label, std::uint32_t point);
  bool rare_work(AgentId id);  // limits, stops, hooks; false if the run ended
  bool can_go_on(const AgentRecord& r, bool after_miss) const;
  bool can_end(machine::ThreadId thread, const AwaitInfo& await) const;

  // What a fault keeps from going on, until the run has passed `until` points.
  struct Hold {
    FaultKind kind;  // pause: `rank`; delay: `agent`; late_signal: `at`
    std::uint32_t until = 0;
    std::uint16_t rank = 0;
    AgentId agent = kNoAgent;
    machine::Address at;
    std::uint64_t bytes = 0;
  };
  struct RankState {
    bool lost = false;
    bool paused = false;
    std::uint32_t incarnation = 0;
    AgentId host = kNoAgent;
  };
  struct WasClean {
    machine::Address at;
    std::uint32_t before = 0, dirty = 0;
  };
  bool befall(AgentId id, const StepFault& fault);
  void faults_at(AgentId id);
  std::uint32_t ask_fault(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                          std::uint32_t options, std::uint32_t& nth);
  void took_fault(std::uint64_t label, std::uint32_t point, DecisionKind kind, std::uint32_t answer,
                  std::uint32_t nth);
  void end_rank(std::uint16_t rank);
  void restart_rank(std::uint16_t rank);
  void hold(const Hold& hold);
  void release(std::size_t i);
  bool release_next();   // the hold that ends first; false: there is none
  bool wake_next();      // the first agent that the newest value of what it waits for ends
  bool time_out_next();  // the first agent whose wait may time out
  void draw_late(AgentId id, machine::Address at, std::uint64_t bytes);
  void draw_dirty(std::uint16_t rank);
  bool is_late(machine::Address at) const;
  void note_fault(const AppliedFault& fault);

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
  bool looks_told_ = false;
  // Questions of each kind that were asked at the current point; valid if there were any.
  std::array<std::uint32_t, kDecisionKinds> asked_{};
  std::uint32_t asked_total_ = 0;
  void (*hook_)() = nullptr;
  std::uint16_t hook_rank_ = 0;
  std::uint32_t hook_point_ = 0;
  bool faults_on_ = false;
  bool profile_ = false;
  bool fell_ = false;
  bool read_old_ = false;
  Fall fall_;
  std::uint32_t late_count_ = 0;
  std::pmr::vector<RankState> ranks_state_;
  std::pmr::vector<Hold> holds_;
  std::pmr::vector<AppliedFault> faults_;
  std::pmr::vector<WasClean> dirty_;
  std::pmr::vector<SeenAccess> seen_;
  std::pmr::vector<std::pmr::vector<AgentId>> inboxes_;
  std::pmr::vector<std::uint16_t> rung_;
  std::atomic<std::uint8_t> end_{static_cast<std::uint8_t>(RunEnd::stopped)};
  std::atomic<bool> stop_{false};
};

}  // namespace ringfence::schedule
