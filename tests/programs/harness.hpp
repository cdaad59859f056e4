#pragma once
// Runs of the protocols on the inline executor, for the tests of this folder.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "emulator/machine/names.hpp"
#include "emulator/programs/config.hpp"
#include "emulator/programs/operator_program.hpp"
#include "emulator/schedule/inline_executor.hpp"

namespace ringfence::programs {

inline Config small_config(const std::string& protocol,
                           const std::map<std::string, std::string>& set = {}) {
  Config c;
  c.protocol = protocol;
  c.ranks = 4;
  c.tokens = 8;
  c.hidden = 64;
  c.inner = 64;
  c.blocks = 2;
  c.set = set;
  return c;
}

// A protocol with its executor.
struct Bench {
  explicit Bench(const Config& config) : program(make_program(config)), executor(*program) {}
  OperatorProgram& op() { return dynamic_cast<OperatorProgram&>(*program); }

  schedule::Outcome run(machine::Boundary mode, std::uint64_t seed,
                        schedule::StrategySpec::Kind kind = schedule::StrategySpec::Kind::pct) {
    schedule::RunSpec spec;
    spec.policy.boundary = mode;
    spec.strategy.kind = kind;
    spec.strategy.seed = seed;
    spec.expected_points = points;
    spec.ignore = ignore;
    schedule::Outcome o = executor.run(spec);
    points = o.points;
    return o;
  }

  std::unique_ptr<schedule::Program> program;
  schedule::InlineExecutor executor;
  std::uint32_t points = 0;
  std::vector<machine::FindingKind> ignore;
};

// "clean", or the kind of what was found ("deadlock" is one of them).
inline std::string verdict(const schedule::Outcome& o) {
  if (!o.findings.empty()) return std::string(machine::name(o.findings.front().kind));
  switch (o.end) {
    case schedule::RunEnd::complete:
      return "clean";
    case schedule::RunEnd::deadlock:
      return "deadlock";
    case schedule::RunEnd::step_limit:
      return "step limit";
    default:
      return "stopped";
  }
}

// The first verdict that is not clean in `schedules` schedules, else "clean".
inline std::string search(Bench& bench, machine::Boundary mode, std::uint64_t seed,
                          std::uint32_t schedules) {
  for (std::uint32_t i = 0; i < schedules; ++i) {
    const std::string v = verdict(bench.run(mode, seed * 1'000'003 + i));
    if (v != "clean") return v;
  }
  return "clean";
}

}  // namespace ringfence::programs
