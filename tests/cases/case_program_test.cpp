// Case files as programs: compiled kernels on emulated ranks under the memory model.
#include <doctest/doctest.h>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "emulator/ptx/error.hpp"
#include "tests/cases/harness.hpp"
#include "tests/support/says.hpp"

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
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  REQUIRE(schedule::failure(outcome));
  CHECK(schedule::failure(outcome)->kind == machine::FindingKind::out_of_bounds);
  const std::string what = program.last_mismatch();
  CHECK(says(what, "'pad of rank"));
  CHECK(says(what, "fused.ptx:"));
  CHECK(says(what, "fused.cu:"));
}

TEST_CASE("a pointer to one peer is the replica so many ranks on, and a local memory has none") {
  // Each rank signals through `theirs` and waits for the signal of the rank `step` before it.
  const std::string ptx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 mine, .param .u64 theirs, .param .u32 rank, .param .u32 world,
                     .param .u32 step)
{
  .reg .pred %p0;
  .reg .b32 %r<6>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [mine];
  ld.param.u64 %rd1, [theirs];
  ld.param.u32 %r0, [rank];
  ld.param.u32 %r1, [world];
  ld.param.u32 %r2, [step];
  add.u32 %r3, %r0, 1;
  st.release.sys.global.u32 [%rd1], %r3;
  add.u32 %r4, %r0, %r1;
  sub.u32 %r4, %r4, %r2;
  rem.u32 %r4, %r4, %r1;
  add.u32 %r4, %r4, 1;
WAIT:
  ld.acquire.sys.global.u32 %r5, [%rd0];
  setp.ne.u32 %p0, %r5, %r4;
  @%p0 bra WAIT;
  ret;
}
)";
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-ring-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << ptx;
  const auto text = [&](const std::string& kind, const std::string& peer, int step) {
    return "version = 1\nranks = 3\n[memory.pad]\nkind = \"" + kind +
           "\"\nbytes = 4\n[[launch]]\nptx = \"" + file.string() +
           "\"\nkernel = \"ring\"\ngrid = [1]\nblock = [1]\nargs = [ {memory = \"pad\"}, "
           "{memory = \"pad\", peer = " +
           peer + "}, \"rank\", \"world\", {u32 = " + std::to_string(step) + "} ]\n";
  };
  const auto end = [&](const std::string& peer, int step) {
    CaseProgram program(cases::parse_case(text("symmetric", peer, step), "ring.toml"), {});
    return run(program, false).end;
  };
  const auto refused = [&](const std::string& kind, const std::string& peer) -> std::string {
    try {
      cases::parse_case(text(kind, peer, 1), "ring.toml");
    } catch (const cases::CaseError& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(end("1", 1) == schedule::RunEnd::complete);
  CHECK(end("2", 2) == schedule::RunEnd::complete);
  CHECK(end("1", 2) == schedule::RunEnd::deadlock);
  CHECK(end("2", 1) == schedule::RunEnd::deadlock);
  CHECK(says(refused("local", "1"), "make it symmetric"));
  CHECK(says(refused("symmetric", "0"), "peer"));
  std::filesystem::remove(file);
}
