#pragma once
// The strategies behind make_strategy. Internal to emulator/schedule and its tests.

#include <array>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "emulator/schedule/profile.hpp"
#include "emulator/schedule/random.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

// Entries of a heap of agents: the highest priority first, then who was made first.
inline std::uint64_t entry_of(std::uint32_t priority, AgentId id) {
  return std::uint64_t{priority} << 32 | static_cast<std::uint32_t>(~id);
}
inline AgentId id_of(std::uint64_t entry) { return ~static_cast<AgentId>(entry); }
inline std::uint32_t priority_of(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry >> 32);
}

// Takes every default: the one run that needs no decision.
class FirstStrategy final : public Strategy {
 public:
  void begin(std::uint32_t) override {}
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t,
               std::uint32_t) override {
    return default_pick(ready, current, current_ready);
  }
  std::uint32_t choose(DecisionKind, std::uint64_t, std::uint32_t, std::uint32_t) override {
    return 0;
  }
};

// How often, and how many times, the choices of one run leave their defaults. Drawn once a run, so
// that some runs have no stale read at all, some have one, and some have them everywhere: most
// faults need a single old message, and others hide it.
class Deviations {
 public:
  // `length`: the points of a run, as far as known. Without faults nothing is drawn for them.
  void draw(Random& random, double stale, const FaultSpec& faults, std::uint32_t length);
  std::uint32_t choose(Random& random, DecisionKind kind, std::uint32_t options);

 private:
  // A fault that is to come at the question number `at` of its kind.
  struct Planned {
    std::uint32_t at;
    FaultKind kind;
  };
  void draw_faults(Random& random, const FaultSpec& faults, std::uint32_t length);
  std::uint32_t step_fault(Random& random);
  std::uint32_t span(Random& random) const;
  // Whether a fault that has no question at every point happens at this one.
  bool happens(Random& random, FaultKind kind);

  std::uint64_t chance_[kDecisionKinds] = {};  // by DecisionKind
  Random behind_{0};                           // a source of its own: nothing else is drawn from it
  // Fixed room: a strategy lives in shared memory.
  std::array<Planned, FaultSpec::kMostOfAKind * kFaultKinds> planned_{};  // ascending
  std::uint32_t planned_count_ = 0, next_planned_ = 0;
  std::uint32_t step_questions_ = 0;
  std::array<std::uint64_t, kFaultKinds> fault_chance_{};
  std::array<std::uint32_t, kFaultKinds> faults_left_{};
  std::uint32_t span_bits_ = 0;
  std::uint32_t left_ = 0;
  bool oldest_ = false;  // deviate to the oldest message, not to any
  bool sums_ = false;
};

// A uniform choice among the ready agents, taken at a share of the points that each run draws.
class RandomStrategy final : public Strategy {
 public:
  explicit RandomStrategy(const StrategySpec& spec)
      : random_(spec.seed), stale_(spec.stale), faults_(spec.faults) {}
  void begin(std::uint32_t expected_points) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t, std::uint32_t,
                       std::uint32_t options) override {
    return deviations_.choose(random_, kind, options);
  }

 private:
  Random random_;
  double stale_;
  FaultSpec faults_;
  std::uint64_t switch_chance_ = 0;
  Deviations deviations_;
};

// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): random priorities, the
// highest ready one steps, and at depth-1 random points the running agent drops below all others.
// A fault that needs d ordered steps is met with probability >= 1 / (n k^(d-1)).
class PctStrategy final : public Strategy {
 public:
  PctStrategy(const StrategySpec& spec, std::pmr::memory_resource* memory);
  void begin(std::uint32_t expected_points) override;
  void on_spawn(AgentId id, std::uint64_t label) override;
  void on_ready(AgentId id) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t, std::uint32_t,
                       std::uint32_t options) override {
    return deviations_.choose(random_, kind, options);
  }

 private:
  // Whether priorities are drawn for each agent alone, or first for its block or its rank: then
  // whole blocks and ranks run ahead of others, which independent priorities hardly ever give.
  enum class Grain : std::uint8_t { agent, block, rank };

  void push(AgentId id);

  Random random_;
  double stale_;
  FaultSpec faults_;
  std::uint32_t depth_;
  Grain grain_ = Grain::agent;
  std::uint64_t grain_seed_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t next_change_ = 0;
  Deviations deviations_;
  std::pmr::vector<std::uint32_t> changes_;   // points of this run, ascending
  std::pmr::vector<std::uint32_t> priority_;  // by agent
  std::pmr::vector<std::uint8_t> queued_;     // by agent: its current entry is in the heap
  // priority << 32 | ~id. Entries of agents that blocked, or whose priority changed, are dropped
  // when they reach the top: so a point where the top runs on costs one comparison.
  std::pmr::vector<std::uint64_t> heap_;
};

// The places whose accesses are events to a strategy: all, until some are added.
class Events {
 public:
  explicit Events(std::pmr::memory_resource* memory) : table_(memory) {}
  void add(const Profile& profile);
  bool add(std::uint64_t key);  // whether it is new
  bool has(machine::Address at) const { return table_.empty() || find(place_key(at) + 1); }

 private:
  bool find(std::uint64_t entry) const {
    for (std::size_t i = mix64(entry) & (table_.size() - 1); table_[i] != 0;
         i = (i + 1) & (table_.size() - 1)) {
      if (table_[i] == entry) return true;
    }
    return false;
  }
  std::pmr::vector<std::uint64_t> table_;  // open addressing; 1 + key, 0 is free
  std::size_t used_ = 0;
};

// Partial order sampling (Yuan, Yang, Gu, CAV 2018): each pending access has a random priority, the
// highest steps, and those that conflict with it draw theirs again. So each order of conflicting
// accesses has a chance that the number of other accesses does not diminish. Half of the runs keep
// their first draws, as that paper's basic form does: then an access can wait for a long time.
class PosStrategy final : public Strategy {
 public:
  PosStrategy(const StrategySpec& spec, const Profile* profile, std::pmr::memory_resource* memory);
  void begin(std::uint32_t expected_points) override;
  void on_spawn(AgentId id, std::uint64_t label) override;
  void on_ready(AgentId id) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t, std::uint32_t,
                       std::uint32_t options) override {
    return deviations_.choose(random_, kind, options);
  }
  // Another agent steps than the one that was picked.
  void took(AgentId id);

 private:
  static constexpr std::size_t kBuckets = 128;
  struct Agent {
    std::uint32_t priority = 0;
    bool queued = false;     // its current entry is in the heap
    bool at_access = false;  // is in the list of its access's line
    std::uint32_t rank = 0;
    AgentId next = kNoAgent, previous = kNoAgent;
    PendingAccess access;
  };
  static std::size_t bucket(const PendingAccess& access);
  std::uint32_t draw();
  void push(AgentId id);
  void set_priority(AgentId id, std::uint32_t priority);
  void link(AgentId id, const PendingAccess& access);
  void unlink(AgentId id);
  void redraw(const PendingAccess& made, const ReadyView& ready);
  AgentId take_at_once(std::uint32_t rank, const ReadyView& ready);

  Random random_;
  double stale_;
  FaultSpec faults_;
  Deviations deviations_;
  Events events_;
  bool redraws_ = true;
  AgentId stepped_ = kNoAgent;
  std::array<AgentId, kBuckets> heads_{};  // agents before an access, by its line
  std::pmr::vector<Agent> agents_;
  std::pmr::vector<std::uint64_t> heap_;  // as PctStrategy's
  // By rank: who stands before no event of the order. Likewise with entries that are of no more
  // use.
  std::pmr::vector<std::pmr::vector<AgentId>> at_once_;
  std::size_t at_once_count_ = 0;
};

// Selectively uniform random walk (Zhao, Wolff, Mathur, Roychoudhury, ASPLOS 2025): of the accesses
// to some places, drawn for each run, every interleaving is about as likely as any other. Whose
// access is next is drawn by how many of them each agent still has to make, as counted in an
// earlier run; others stop before theirs meanwhile. All else goes on in any order.
class SurwStrategy final : public Strategy {
 public:
  SurwStrategy(const StrategySpec& spec, const Profile* profile, std::pmr::memory_resource* memory);
  void begin(std::uint32_t expected_points) override;
  void on_spawn(AgentId id, std::uint64_t label) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t, std::uint32_t,
                       std::uint32_t options) override {
    return deviations_.choose(random_, kind, options);
  }

 private:
  struct Agent {
    std::uint32_t rank = 0;
    std::uint32_t left = 0;      // events that it has to make yet
    std::uint32_t maker_at = 0;  // in makers_, if that is not 0
    bool at_event = false, yields = false;
  };
  struct Weight {
    std::uint64_t label = 0;
    std::uint32_t count = 0;
    bool used = false;
  };
  void weigh(const Profile& profile, const Profile::Place& place);
  std::uint32_t& weight(std::uint64_t label);
  std::uint32_t weight_of(std::uint64_t label) const;
  void made(AgentId id);
  AgentId draw_next();
  AgentId pick_blocked(const ReadyView& ready);
  AgentId next(const ReadyView& ready, AgentId current, bool current_ready);
  bool may_step(AgentId id) const {
    return !agents_[id].yields && (!agents_[id].at_event || id == intended_);
  }

  Random random_;
  double stale_;
  FaultSpec faults_;
  Deviations deviations_;
  Events events_;
  std::uint64_t switch_chance_ = 0;
  AgentId stepped_ = kNoAgent;   // the last one picked
  AgentId intended_ = kNoAgent;  // whose event is next; kNoAgent: of somebody who is not there yet
  std::pmr::vector<Weight> weights_;  // by label, open addressing
  std::size_t weighed_ = 0;
  std::pmr::vector<std::uint64_t> due_, left_;          // by rank: of a run; not made yet
  std::pmr::vector<std::pmr::vector<AgentId>> makers_;  // by rank: agents with events left
  std::pmr::vector<Agent> agents_;
};

// Takes the given decisions where they apply and the defaults elsewhere.
class ReplayStrategy final : public Strategy {
 public:
  ReplayStrategy(std::span<const Decision> decisions, std::pmr::memory_resource* memory);
  void begin(std::uint32_t) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                       std::uint32_t options) override;
  // Decisions up to the last one taken, in the order given.
  std::size_t taken() const { return taken_; }
  bool drops_looks() const override { return drops_looks_; }

 private:
  void ask_at(std::uint64_t label, std::uint32_t point);
  const Decision* take(const Decision* d) {
    if (d != nullptr) taken_ = static_cast<std::size_t>(d - decisions_.data()) + 1;
    return d;
  }
  const Decision* find(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                       std::uint32_t nth) const;

  std::pmr::vector<Decision> decisions_;
  std::pmr::vector<std::uint32_t> table_;  // open addressing; 1 + index of a decision, 0 is free
  bool drops_looks_ = false;
  std::uint64_t asked_label_ = 0;
  std::uint32_t asked_point_ = 0;
  std::uint32_t asked_[kDecisionKinds] = {};  // questions of each kind at that point
  std::size_t taken_ = 0;
};

// A schedule that was run before, changed: it goes another way from somewhere on, leaves some
// decisions out, or lets another agent step once.
class MutantStrategy final : public Strategy {
 public:
  MutantStrategy(const StrategySpec& spec, std::span<const Decision> decisions,
                 const Profile* profile, std::pmr::memory_resource* memory);
  void begin(std::uint32_t expected_points) override;
  void on_spawn(AgentId id, std::uint64_t label) override {
    if (by_pos_) pos_.on_spawn(id, label);
  }
  void on_ready(AgentId id) override {
    if (by_pos_) pos_.on_ready(id);
  }
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                       std::uint32_t options) override;

 private:
  enum class Change : std::uint8_t { other_end, fewer, one_more };
  static std::pmr::vector<Decision> changed(std::span<const Decision> decisions, Random& random,
                                            Change& change, std::pmr::memory_resource* memory);

  Random random_;
  Change change_ = Change::other_end;
  std::pmr::vector<Decision> decisions_;
  ReplayStrategy replay_;
  // The other end: one of the two.
  bool by_pos_ = false;
  RandomStrategy walk_;
  PosStrategy pos_;
  std::uint32_t more_at_ = 0, step_ = 0;
};

}  // namespace ringfence::schedule
