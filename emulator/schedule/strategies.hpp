#pragma once
// The strategies behind make_strategy. Internal to emulator/schedule and its tests.

#include <array>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "emulator/schedule/random.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

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

// Takes the given decisions where they apply and the defaults elsewhere.
class ReplayStrategy final : public Strategy {
 public:
  ReplayStrategy(std::span<const Decision> decisions, std::pmr::memory_resource* memory);
  void begin(std::uint32_t) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                       std::uint32_t options) override;

 private:
  const Decision* find(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                       std::uint32_t nth) const;

  std::pmr::vector<Decision> decisions_;
  std::pmr::vector<std::uint32_t> table_;  // open addressing; 1 + index of a decision, 0 is free
  std::uint64_t asked_label_ = 0;
  std::uint32_t asked_point_ = 0;
  std::uint32_t asked_[kDecisionKinds] = {};  // questions of each kind at that point
};

}  // namespace ringfence::schedule
