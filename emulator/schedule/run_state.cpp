#include "emulator/schedule/run_state.hpp"

#include <algorithm>
#include <cstring>

namespace ringfence::schedule {

RunState::RunState(Program& program, std::pmr::memory_resource* memory)
    : program_(program),
      memory_(memory),
      given_(memory),
      machine_(memory, machine::Policy{}),
      execution_(&machine_, program.ranks(), memory),
      history_(memory) {
  program_.set_up(machine_, &given_);
}

RunState::~RunState() { destroy_strategy(own_strategy_, memory_); }

void RunState::start(const RunSpec& spec) {
  destroy_strategy(own_strategy_, memory_);
  own_strategy_ = nullptr;
  StrategySpec strategy = spec.strategy;
  if (spec.free_running) strategy.kind = StrategySpec::Kind::first;
  own_strategy_ = make_strategy(strategy, spec.decisions, spec.profile, memory_);
  start(spec, *own_strategy_);
}

void RunState::start(const RunSpec& spec, Strategy& strategy) {
  machine_.reset();
  execution_.clean_pads();
  machine_.woken().clear();
  machine_.set_policy(spec.policy);
  machine_.ignore_none();
  for (const machine::FindingKind kind : spec.ignore) machine_.ignore(kind);
  machine_.set_chooser(&execution_);
  machine_.set_listener(spec.history ? this : listener_);
  history_.clear();
  trail_.clear();
  machine_.set_trail(spec.trail ? &trail_ : nullptr);
  program_.before_run(machine_);
  survive_ = spec.survive;
  // What a race that is passed over does shows only where others may step between weak accesses.
  const bool weak_points =
      spec.weak_points || passes_over_races(spec) || program_.passes_over_races();
  const bool faults =
      spec.strategy.faults.any() || std::any_of(spec.decisions.begin(), spec.decisions.end(),
                                                [](const Decision& d) { return is_fault(d.kind); });
  execution_.start(&strategy, {spec.expected_points, spec.point_limit, weak_points,
                               spec.free_running, faults, spec.take_profile});
}

Outcome RunState::collect() {
  if (execution_.end() == RunEnd::complete && !machine_.failed()) check_end();
  Outcome out;
  out.end = execution_.end();
  if (out.end == RunEnd::complete && machine_.failed()) out.end = RunEnd::finding;
  out.findings.assign(machine_.findings().begin(), machine_.findings().end());
  out.decisions.assign(execution_.decisions().begin(), execution_.decisions().end());
  out.history.assign(history_.begin(), history_.end());
  if (out.end == RunEnd::deadlock) out.stuck = stuck();
  out.faults.assign(execution_.faults().begin(), execution_.faults().end());
  out.fingerprint = trail_.fingerprint();
  trail_.each_pair([&](const machine::Trail::Pair& pair) { out.pairs.push_back(pair); });
  out.reads.assign(trail_.reads().begin(), trail_.reads().end());
  out.seen.assign(execution_.seen().begin(), execution_.seen().end());
  out.survive = survive_;
  out.points = execution_.points();
  out.steps = machine_.steps();
  out.digest = execution_.digest();
  return out;
}

void RunState::check_end() {
  std::vector<bool> lost;
  for (std::uint16_t r = 0; r < execution_.ranks(); ++r) lost.push_back(execution_.lost(r));
  program_.set_lost(std::move(lost));
  // A slot that started dirty and is as it was: the protocol did not leave it so.
  if (execution_.dirty_word_is_left()) machine_.ignore(machine::FindingKind::unrestored_signal);
  program_.after_run(machine_);
}

std::vector<StuckAgent> RunState::stuck() const {
  std::vector<StuckAgent> all;
  for (AgentId id = 0; id < execution_.agent_count(); ++id) {
    const AgentRecord& r = execution_.record(id);
    if (r.status == AgentStatus::done || r.status == AgentStatus::joining) continue;
    StuckAgent s;
    s.label = r.label;
    s.status = r.status;
    s.last_step = r.last_step;
    const auto waits_for = [&](const AwaitInfo& await) {
      s.await = await;
      std::byte there[sizeof s.value_there] = {};
      const std::size_t bytes = std::min<std::size_t>(await.access.element, sizeof there);
      machine_.peek(await.at, {there, bytes});
      std::memcpy(&s.value_there, there, sizeof there);
    };
    if (r.status == AgentStatus::awaiting && r.wait_count > 0) {
      for (std::uint32_t i = 0; i < r.wait_count; ++i) {
        waits_for(r.waits[i].await);
        s.await.wanted = r.waits[i].needs;
        s.label = r.label + r.waits[i].lane;
        all.push_back(s);
      }
      continue;
    }
    if (r.status == AgentStatus::awaiting) waits_for(r.await);
    all.push_back(s);
  }
  // Not in the order in which the schedule made them.
  std::sort(all.begin(), all.end(),
            [](const StuckAgent& a, const StuckAgent& b) { return a.label < b.label; });
  return all;
}

}  // namespace ringfence::schedule
