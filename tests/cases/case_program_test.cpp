// Case files as programs: compiled kernels on emulated ranks under the memory model.
#include "emulator/cases/case_program.hpp"

#include <doctest/doctest.h>

#include <string>

#include "emulator/machine/names.hpp"
#include "emulator/ranks/executors.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/search.hpp"

using namespace ringfence;
using cases::CaseProgram;
using machine::Boundary;
using machine::FindingKind;

namespace {

const std::string kFiles = "tests/cases/files/";

schedule::SearchResult fuzz(CaseProgram& program, Boundary mode, std::uint64_t schedules,
                            double stale = 0.05) {
  const auto executor = ranks::make_inline(program);
  schedule::SearchSpec spec;
  spec.run.policy.boundary = mode;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  spec.run.strategy.stale = stale;
  spec.schedules = schedules;
  return schedule::search({executor.get()}, spec);
}

std::string found(const schedule::SearchResult& r) {
  const auto f = r.found ? schedule::failure(r.outcome) : std::nullopt;
  if (!f) return r.undecided > 0 ? "undecided" : "clean";
  return std::string(machine::name(f->kind));
}

}  // namespace

TEST_CASE("a compiled fused kernel gives the rounding-exact result on every rank and call") {
  CaseProgram program(cases::read_case(kFiles + "fused-2.toml"), {});
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  INFO(program.last_mismatch());
  CHECK(outcome.end == schedule::RunEnd::complete);
  CHECK(outcome.findings.empty());
  CHECK(program.comparisons().size() == 4);
  for (const verify::Comparison& c : program.comparisons()) CHECK(c.passed());
  CHECK(program.replica_difference().empty());
}

TEST_CASE("a compiled fused kernel with relaxed start barriers is clean in coherent mode only") {
  CaseProgram program(cases::read_case(kFiles + "fused-2.toml"), {});
  CHECK(found(fuzz(program, Boundary::coherent, 300)) == "clean");
  CHECK(found(fuzz(program, Boundary::stream, 300)) == "data-race");
  CHECK(found(fuzz(program, Boundary::strict, 300)) == "data-race");
}
