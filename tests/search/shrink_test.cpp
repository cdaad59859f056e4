#include "emulator/schedule/shrink.hpp"

#include <doctest/doctest.h>

#include "emulator/schedule/failure.hpp"
#include "tests/search/scripted.hpp"

namespace ringfence::schedule {
namespace {

using machine::FindingKind;

Outcome failing_run(ScriptedExecutor& e, std::uint32_t decisions) {
  RunSpec spec;
  spec.strategy.kind = StrategySpec::Kind::replay;
  for (std::uint32_t i = 0; i < decisions; ++i) spec.decisions.push_back(decision(i, i));
  return e.run(spec);
}

TEST_CASE("what remains after shrinking are exactly the choices that the fault needs") {
  const std::vector<Decision> cause{decision(2, 2), decision(3, 3), decision(71, 71),
                                    decision(99, 99)};
  ScriptedExecutor e(cause);
  const Outcome found = failing_run(e, 100);
  REQUIRE(failure(found));
  const Shrunk s = shrink(e, {}, found, FindingKind::data_race);
  CHECK(s.outcome.decisions == cause);
  CHECK(s.minimal);
  CHECK(s.runs < 200);
}

TEST_CASE("a fault that needs no choice shrinks to none in one run") {
  ScriptedExecutor e({});
  const Shrunk s = shrink(e, {}, failing_run(e, 500), FindingKind::data_race);
  CHECK(s.outcome.decisions.empty());
  CHECK(s.runs == 1);
}

TEST_CASE("a run that fails with another kind is no smaller version of the finding") {
  // Without decision 1 the run fails as well, but otherwise.
  struct TwoFaults : ScriptedExecutor {
    TwoFaults() : ScriptedExecutor({}) {}
    Outcome run(const RunSpec& spec) override {
      Outcome o = ScriptedExecutor::run(spec);
      const bool both =
          std::find(o.decisions.begin(), o.decisions.end(), decision(1, 1)) != o.decisions.end();
      o.findings.front().kind = both ? FindingKind::stale_read : FindingKind::deadlock;
      return o;
    }
  } e;
  const Shrunk s = shrink(e, {}, failing_run(e, 30), FindingKind::stale_read);
  CHECK(s.outcome.decisions == std::vector<Decision>{decision(1, 1)});
}

TEST_CASE("shrinking stops at its limit of runs and says that it may not be minimal") {
  ScriptedExecutor e({decision(5, 5), decision(77, 77)});
  const Outcome found = failing_run(e, 100);
  const Shrunk s = shrink(e, {}, found, FindingKind::data_race, {.runs = 6, .seconds = 10});
  CHECK(s.runs == 6);
  CHECK_FALSE(s.minimal);
  CHECK(failure(s.outcome));
  CHECK(s.outcome.decisions.size() < 100);
}

TEST_CASE("what a fault lasts is shortened once nothing can be left out") {
  // Fails while the pause lasts 6 points and the signal comes at all late.
  struct Lasting final : Executor {
    Outcome run(const RunSpec& spec) override {
      Outcome o;
      o.decisions = spec.decisions;
      bool paused = false, late = false;
      for (const Decision& d : o.decisions) {
        if (d.kind == DecisionKind::fault) paused |= decode_step_fault(d.value)->span >= 6;
        if (d.kind == DecisionKind::late) late = true;
      }
      if (paused && late) {
        machine::Finding f;
        f.kind = FindingKind::data_race;
        o.findings.push_back(f);
        o.end = RunEnd::finding;
      }
      return o;
    }
  } e;
  RunSpec spec;
  spec.decisions = {decision(1, 1),
                    {2, 2, DecisionKind::fault, encode(StepFault{FaultKind::pause, 900}), 0},
                    {3, 3, DecisionKind::late, 400, 0}};
  const Shrunk s = shrink(e, {}, e.run(spec), FindingKind::data_race);
  REQUIRE(s.outcome.decisions.size() == 2);
  const auto pause = decode_step_fault(s.outcome.decisions[0].value);
  REQUIRE(pause);
  CHECK(pause->kind == FaultKind::pause);
  CHECK(pause->span >= 6);
  CHECK(pause->span < 12);  // by halves
  CHECK(s.outcome.decisions[1].value == 1);
}

TEST_CASE("policy and ignored kinds of the finding's run are those of every try") {
  ScriptedExecutor e({decision(5, 5)});
  RunSpec base;
  base.policy.boundary = machine::Boundary::stream;
  base.ignore = {FindingKind::lost_signal};
  shrink(e, base, failing_run(e, 9), FindingKind::data_race);
  CHECK(e.last.policy.boundary == machine::Boundary::stream);
  CHECK(e.last.ignore == base.ignore);
  CHECK(e.last.strategy.kind == StrategySpec::Kind::replay);
}

TEST_CASE("a run that was stopped is undecided, a clean one and one that is stuck are not") {
  Outcome o;
  CHECK_FALSE(undecided(o));
  o.end = RunEnd::step_limit;
  CHECK(undecided(o));
  // With a finding of it, unless it is passed over.
  o.end = RunEnd::deadlock;
  CHECK_FALSE(undecided(o));
  CHECK_FALSE(failure(o));
}

TEST_CASE("runs are the same only with equal choices, values and finding") {
  Outcome a;
  a.end = RunEnd::finding;
  a.digest = 5;
  a.findings.resize(1);
  Outcome b = a;
  CHECK(same_run(a, b));
  b.digest = 6;
  CHECK_FALSE(same_run(a, b));
  b = a;
  b.findings[0].missing = machine::Missing::strength;
  CHECK_FALSE(same_run(a, b));
  b = a;
  b.decisions.push_back(decision(1, 1));
  CHECK_FALSE(same_run(a, b));
}

}  // namespace
}  // namespace ringfence::schedule
