// Who a kernel that cannot go on waits for, as the table of a deadlock says it.
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "emulator/trace/verdict.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// `calls` rounds of a counter that each of four ranks adds 1 to at every rank, with a wait for all
// of them. In the last call rank `silent` leaves out rank 1 (or nobody, for 4).
std::string counter_ptx() {
  return R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry counted(.param .u64 pads, .param .u32 rank, .param .u32 world, .param .u32 silent)
{
  .reg .pred %p<4>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd0, [pads];
  ld.param.u32 %r0, [rank];
  ld.param.u32 %r1, [world];
  ld.param.u32 %r2, [silent];
  mul.wide.u32 %rd1, %r0, 8;
  add.s64 %rd1, %rd0, %rd1;
  ld.global.u64 %rd2, [%rd1];
  ld.global.u32 %r3, [%rd2+4];
  add.u32 %r3, %r3, 1;
  st.global.u32 [%rd2+4], %r3;
  mov.u32 %r4, 0;
NEXT:
  setp.ne.u32 %p0, %r4, 1;
  setp.ne.or.u32 %p0, %r0, %r2, %p0;
  setp.ne.or.u32 %p0, %r3, 2, %p0;
  mul.wide.u32 %rd3, %r4, 8;
  add.s64 %rd3, %rd0, %rd3;
  ld.global.u64 %rd4, [%rd3];
  @%p0 red.release.sys.global.add.u32 [%rd4], 1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, %r1;
  @%p1 bra NEXT;
  mul.lo.u32 %r5, %r3, %r1;
WAIT:
  ld.acquire.sys.global.u32 %r6, [%rd2];
  setp.lt.u32 %p2, %r6, %r5;
  @%p2 bra WAIT;
  ret;
}
)";
}

std::unique_ptr<cases::CaseProgram> counted(unsigned silent) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-counted-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << counter_ptx();
  const std::string text =
      "version = 1\nranks = 4\ncalls = 2\n[memory.pad]\nkind = \"symmetric\"\n"
      "bytes = 8\n[[launch]]\nptx = \"" +
      file.string() +
      "\"\nkernel = \"counted\"\ngrid = [1]\nblock = [1]\n"
      "args = [ {peers = \"pad\"}, \"rank\", \"world\", {u32 = " +
      std::to_string(silent) + "} ]\n";
  auto program = std::make_unique<cases::CaseProgram>(cases::parse_case(text, "counted.toml"),
                                                      cases::Settings{});
  std::filesystem::remove(file);
  return program;
}

// The writers that a first run's deadlock names for places of `memory`, all of them.
std::set<std::string> writers(cases::CaseProgram& program, const std::string& memory) {
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  spec.policy.boundary = Boundary::coherent;
  const schedule::Outcome outcome = executor->run(spec);
  REQUIRE(outcome.end == schedule::RunEnd::deadlock);
  std::set<std::string> out;
  for (const trace::StuckNames& s : trace::make_verdict(outcome, program).stuck) {
    CAPTURE(s.slot);
    CAPTURE(s.writer);
    if (s.slot.rfind(memory, 0) == 0) out.insert(s.writer);
  }
  return out;
}

}  // namespace

TEST_CASE("of a counter the one rank is named that has not added to it as often as the others") {
  for (const unsigned silent : {0U, 1U, 3U}) {
    const auto program = counted(silent);
    const std::set<std::string> named = writers(*program, "pad of rank 1");
    REQUIRE(named.size() == 1);
    CHECK(*named.begin() == "r" + std::to_string(silent) + ".b0, ringfence-counted-" +
                                std::to_string(::getpid()) + ".ptx:27");
  }
  const auto complete = counted(4);
  CHECK(found(fuzz(*complete, Boundary::coherent, 20)) == "clean");
}

TEST_CASE("a rank that signals nothing is named where all others have begun") {
  const auto program = open("tests/zoo/idle-rank-fault.toml");
  CHECK(writers(*program, "pad of rank 0") ==
        std::set<std::string>{"rank 1, which has signalled nothing there"});
}

TEST_CASE("nobody is named for a slot that no rank writes anywhere") {
  // Rank 1 has a second block, which waits for one of rank 0.
  const auto program = open("tests/zoo/grids-fault.toml");
  CHECK(writers(*program, "pad of rank 1") == std::set<std::string>{""});
}

TEST_CASE("a slot of one peer names that peer, in rank processes too, with both its lines") {
  // Flags that are used twice: the second use is lost on a rank that has not seen the first.
  const auto program = open("tests/zoo/flag-reused-fault.toml");
  const auto executor = ranks::make_processes(*program);
  schedule::SearchSpec spec;
  spec.run.policy.boundary = Boundary::coherent;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  spec.run.point_limit = 1u << 16;
  spec.schedules = 300;
  const schedule::SearchResult r = schedule::search({executor.get()}, spec);
  REQUIRE(found(r) == "deadlock");
  std::size_t named = 0;
  for (const trace::StuckNames& s : trace::make_verdict(r.outcome, *program).stuck) {
    if (s.writer.empty()) continue;
    CAPTURE(s.slot);
    CAPTURE(s.writer);
    const char owner = s.slot[std::string("pad of rank ").size()];
    CHECK(s.writer.rfind(owner == '0' ? "r1.b0, zoo.ptx:" : "r0.b0, zoo.ptx:", 0) == 0);
    CHECK(s.writer.find("(zoo.cu:") != std::string::npos);
    ++named;
  }
  CHECK(named > 0);
}
