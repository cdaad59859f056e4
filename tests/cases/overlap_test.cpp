// Launches that may begin before the one ahead of them ends: each does so by itself, or does not.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "emulator/check/explorer.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace overlap {
namespace {

// What the two launches of rank 0 and those of rank 1 do behind the trigger of the first one.
struct Bodies {
  std::string first0, first1, second0, second1;
};

// Two ranks, whose second launch may overlap the first. %a is rank 0's word, %b rank 1's.
std::unique_ptr<cases::CaseProgram> program_of(const Bodies& bodies) {
  const auto kernel = [](const std::string& name, const std::string& zero, const std::string& one) {
    return ".visible .entry " + name +
           "(.param .u64 peers, .param .u32 rank)\n{\n  .reg .pred %p, %q;\n"
           "  .reg .b32 %r, %v;\n  .reg .b64 %l, %a, %b;\n  ld.param.u64 %l, [peers];\n"
           "  ld.param.u32 %r, [rank];\n  ld.global.u64 %a, [%l];\n  ld.global.u64 %b, [%l+8];\n" +
           (name == "first" ? "  griddepcontrol.launch_dependents;\n" : "") +
           "  setp.ne.u32 %p, %r, 0;\n  @%p bra ONE;\n" + zero + "  ret;\nONE:\n" + one +
           "  ret;\n}\n";
  };
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-overlap-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << ".version 8.6\n.target sm_90\n.address_size 64\n" +
                                               kernel("first", bodies.first0, bodies.first1) +
                                               kernel("second", bodies.second0, bodies.second1);
  const auto launch = [&](const std::string& name, const std::string& more) {
    return "[[launch]]\nptx = \"" + file.string() + "\"\nkernel = \"" + name +
           "\"\ngrid = [1]\nblock = [1]\n" + more + "args = [ {peers = \"data\"}, \"rank\" ]\n";
  };
  auto program = std::make_unique<cases::CaseProgram>(
      cases::parse_case(
          "version = 1\nranks = 2\n[memory.data]\nkind = \"symmetric\"\nbytes = 128\n" +
              launch("first", "") + launch("second", "dependent = true\n"),
          "overlap.toml"),
      cases::Settings{});
  std::filesystem::remove(file);
  return program;
}

check::CheckResult checked(const Bodies& bodies, Boundary mode) {
  check::CheckSpec spec;
  spec.run.policy.boundary = mode;
  spec.executions = 20000;
  return check::check([&] { return program_of(bodies); }, spec);
}

std::string fuzzed(const Bodies& bodies) {
  const auto program = program_of(bodies);
  const auto executor = ranks::make_inline(*program);
  schedule::SearchSpec spec;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  spec.schedules = 500;
  return found(schedule::search({executor.get()}, spec));
}

void judge(const std::string& expected, const Bodies& bodies) {
  for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
    CAPTURE(static_cast<int>(mode));
    const check::CheckResult r = checked(bodies, mode);
    if (expected == "clean") {
      CHECK(r.verdict == check::Verdict::pass);
    } else {
      REQUIRE(r.verdict == check::Verdict::fail);
      CHECK(r.outcome.end == schedule::RunEnd::deadlock);
    }
  }
  CHECK(fuzzed(bodies) == expected);
}

std::string store(const std::string& to) {
  return "  st.relaxed.sys.global.u32 [" + to + "], 1;\n";
}

std::string wait(const std::string& at) {
  const std::string again = "W" + at.substr(1);
  return again + ":\n  ld.relaxed.sys.global.u32 %v, [" + at +
         "];\n  setp.eq.u32 %q, %v, 0;\n  @%q bra " + again + ";\n";
}

}  // namespace

TEST_CASE("who waits for the launch behind it waits for ever where that begins late") {
  judge("deadlock", {wait("%a"), "", store("%a"), ""});
  judge("clean", {wait("%a") + store("%a"), store("%a"), "", ""});  // another rank's first launch
}

TEST_CASE(
    "two ranks, each of which waits for the other one's next launch, may both begin it late") {
  judge("deadlock", {wait("%a"), wait("%b"), store("%b"), store("%a")});
  // One of them alone does: its peer's next launch begins in any case.
  judge("clean", {wait("%a"), "", store("%b"), store("%a")});
}

TEST_CASE("one launch that begins early and another one late can be needed for a deadlock") {
  // Rank 1's first launch tells rank 0's, unless rank 1's second one was before it; then nobody but
  // rank 0's own second one does.
  const auto draw = [](const std::string& value) {
    return "  atom.relaxed.sys.global.cas.b32 %v, [%b+64], 0, " + value + ";\n";
  };
  const std::string first1 = draw("1") + "  setp.ne.u32 %q, %v, 0;\n  @%q ret;\n" + store("%a");
  judge("deadlock", {wait("%a"), first1, store("%a"), draw("2")});
  judge("clean", {wait("%a"), draw("1") + store("%a"), store("%a"), draw("2")});
}

TEST_CASE("launches that wait for none behind them cost no execution by what they may overlap") {
  const Bodies bodies{store("%b") + wait("%a"), store("%a") + wait("%b"), store("%b+4"),
                      store("%a+4")};
  for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
    const check::CheckResult r = checked(bodies, mode);
    CHECK(r.verdict == check::Verdict::pass);
    CHECK(r.complete == 1);
  }
}

}  // namespace overlap
