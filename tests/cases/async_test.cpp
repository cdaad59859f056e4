// When the bytes of a bulk copy come is the strategy's choice.
#include <doctest/doctest.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// A block of two warps: the first thread has 256 bytes copied, all meet, look at the phase, and
// read what came. `behind` follows the look, whose result is %p1.
std::unique_ptr<cases::CaseProgram> copied(const std::string& behind) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-copied-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << R"(.version 8.0
.target sm_90a
.address_size 64
.shared .align 128 .b8 sh[272];
.visible .entry copied(.param .u64 from, .param .u64 to)
{
  .reg .pred %p<4>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd0, [from];
  ld.param.u64 %rd1, [to];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, sh;
  add.u32 %r2, %r1, 256;
  mov.u32 %r3, 256;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], %r3, [%r2];
READY:
  bar.sync 0;
LOOK:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
)" << behind << R"(
  shl.b32 %r4, %r0, 2;
  add.u32 %r5, %r1, %r4;
  ld.shared.u32 %r6, [%r5];
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r6;
END:
  ret;
}
)";
  const std::string text =
      "version = 1\nranks = 1\ncalls = 2\n[memory.from]\nkind = \"local\"\n"
      "bytes = 256\ninit = { fill = 3 }\n[memory.to]\nkind = \"local\"\n"
      "bytes = 256\n[[launch]]\nptx = \"" +
      file.string() +
      "\"\nkernel = \"copied\"\ngrid = [1]\nblock = [64]\n"
      "args = [ {memory = \"from\"}, {memory = \"to\"} ]\n";
  auto program = std::make_unique<cases::CaseProgram>(cases::parse_case(text, "copied.toml"),
                                                      cases::Settings{});
  std::filesystem::remove(file);
  return program;
}

}  // namespace

TEST_CASE(
    "one look at a phase where a loop is due is a race in some schedules, but not by default") {
  const auto program = copied("");
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  CHECK(executor->run(spec).end == schedule::RunEnd::complete);
  schedule::SearchSpec search;
  search.run.policy.boundary = Boundary::coherent;
  search.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  search.schedules = 300;
  const schedule::SearchResult r = schedule::search({executor.get()}, search);
  CHECK(found(r) == "data-race");
  const auto f = schedule::failure(r.outcome);
  REQUIRE(f);
  CHECK(f->missing == machine::Missing::completion);
  CHECK(program->site_name(f->first.site).find("cp.async.bulk") != std::string::npos);
  CHECK(program->site_name(f->second.site).find("ld.shared") != std::string::npos);
}

TEST_CASE("a loop of looks misses what it likes and goes on") {
  CHECK(found(fuzz(*copied("  @!%p1 bra LOOK;\n"), Boundary::coherent, 300)) == "clean");
}

TEST_CASE("who gives up where a look fails is found to do so") {
  CHECK(found(fuzz(*copied("  @!%p1 trap;\n"), Boundary::coherent, 300)) == "rank-lost");
}

TEST_CASE("what one thread has seen to be there, no thread behind it misses") {
  // The first warp waits; all others look once, behind a barrier.
  CHECK(found(fuzz(*copied("  setp.lt.u32 %p2, %r0, 32;\n  @!%p2 bra MET;\n  @!%p1 bra LOOK;\n"
                           "MET:\n  bar.sync 0;\n"
                           "  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n"
                           "  @!%p1 trap;\n"),
                   Boundary::coherent, 300)) == "clean");
}
