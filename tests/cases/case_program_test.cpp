// Case files as programs: compiled kernels on emulated ranks under the memory model.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "emulator/ptx/error.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using cases::CaseProgram;
using machine::Boundary;

namespace {

const std::string kFused = "tests/cases/files/fused-2.toml";

schedule::Outcome run(CaseProgram& program, bool processes,
                      schedule::StrategySpec::Kind kind = schedule::StrategySpec::Kind::first) {
  const auto executor = processes ? ranks::make_processes(program) : ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.seed = 7;
  const schedule::Outcome outcome = executor->run(spec);
  // Results live as long as the executor.
  if (outcome.end == schedule::RunEnd::complete && program.file().check.reference) {
    INFO(program.last_mismatch());
    for (const verify::Comparison& c : program.comparisons()) CHECK(c.passed());
    CHECK(program.replica_difference().empty());
  }
  return outcome;
}

// What a case is refused with, after one edit of its file's data.
template <class Edit>
std::string refusal(Edit edit) {
  cases::CaseFile file = cases::read_case(kFused);
  edit(file);
  try {
    CaseProgram program(std::move(file), {});
  } catch (const cases::CaseError& e) {
    return e.what();
  } catch (const ptx::Error& e) {
    return e.what();
  }
  return "accepted";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a compiled fused kernel gives the rounding-exact result on every rank and call") {
  const auto program = open(kFused);
  const schedule::Outcome outcome = run(*program, false);
  CHECK(outcome.end == schedule::RunEnd::complete);
  CHECK(outcome.findings.empty());
}

TEST_CASE("rank processes and the inline executor run a case alike, bit for bit") {
  const auto inline_program = open(kFused);
  const auto process_program = open(kFused);
  const auto pct = schedule::StrategySpec::Kind::pct;
  const schedule::Outcome a = run(*inline_program, false, pct);
  const schedule::Outcome b = run(*process_program, true, pct);
  CHECK(a.end == schedule::RunEnd::complete);
  CHECK(schedule::same_run(a, b));
}

TEST_CASE("a compiled fused kernel with relaxed start barriers is clean in coherent mode only") {
  const auto program = open(kFused);
  CHECK(found(fuzz(*program, Boundary::coherent, 200)) == "clean");
  CHECK(found(fuzz(*program, Boundary::stream, 200)) == "data-race");
  CHECK(found(fuzz(*program, Boundary::strict, 200)) == "data-race");
}

TEST_CASE("every summation policy gives the exact payload's one result") {
  for (const auto policy : {verify::Summation::fp32_given_order, verify::Summation::exact_once,
                            verify::Summation::each_step, verify::Summation::fp32_truncated}) {
    cases::Settings settings;
    settings.summation = policy;
    settings.calls = 1;
    const auto program = open(kFused, settings);
    CHECK(run(*program, false).end == schedule::RunEnd::complete);
  }
}

TEST_CASE("a finding names the line of the PTX and of the CUDA source") {
  const auto program = open("tests/zoo/scope-fault.toml");
  const schedule::SearchResult r = fuzz(*program, Boundary::coherent, 50);
  REQUIRE(r.found);
  const auto f = schedule::failure(r.outcome);
  const std::string line = program->site_name(f->second.site);
  CHECK(says(line, "zoo.ptx:"));
  CHECK(says(line, "(zoo.cu:"));
  CHECK(says(line, ".gpu"));
}

TEST_CASE("arguments that do not fit the kernel are refused, with the place and what is due") {
  const auto args = [](cases::CaseFile & f) -> auto& { return f.launches[0].args; };
  CHECK(says(refusal([&](auto& f) { args(f).pop_back(); }), "takes 9 arguments, args has 8"));
  CHECK(says(refusal([&](auto& f) { args(f)[6].bytes.resize(8); }),
             "argument 7 of kernel 'fused_rs_ln_ag' has 4 bytes, args gives 8"));
  CHECK(says(refusal([](auto& f) { f.launches[0].kernel = "no_such"; }), "no_such"));
  CHECK(says(refusal([](auto& f) { f.launches[0].ptx = "no.ptx"; }), "no.ptx: cannot be read"));
  CHECK(refusal([](auto&) {}) == "accepted");
}

TEST_CASE("memory too small for what a kernel touches is a finding that names both lines") {
  cases::CaseFile file = cases::read_case(kFused);
  for (cases::Memory& m : file.memories) {
    if (m.name == "pad") m.bytes = 8;  // two ranks and one block; the grid has two
  }
  CaseProgram program(std::move(file), {});
  const schedule::SearchResult r = fuzz(program, Boundary::coherent, 1);
  CHECK(found(r) == "out-of-bounds");
  const std::string what = program.last_mismatch();
  CHECK(says(what, "'pad of rank"));
  CHECK(says(what, "fused.ptx:"));
  CHECK(says(what, "fused.cu:"));
}

TEST_CASE("a loop without an end is a livelock once the budget of instructions is used up") {
  cases::CaseFile file = cases::read_case(kFused);
  file.budget = 20;
  CaseProgram program(std::move(file), {});
  CHECK(found(fuzz(program, Boundary::coherent, 1)) == "livelock");
}
