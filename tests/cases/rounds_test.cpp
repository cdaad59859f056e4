// Loops in which a whole block waits: each form by schedules and by the exhaustive search, with a
// twin that does not acquire and one whose flag nobody raises.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emulator/check/explorer.hpp"
#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// Block 0, two warps, runs `waiter`; the first thread of block 1 `writer`. Flags lie from byte 64
// of the data on; thread 32 reads the data behind the wait.
class Rounds {
 public:
  Rounds(const std::string& waiter, const std::string& writer)
      : written_(R"(.visible .entry k(.param .u64 data)
{
  .reg .pred %p, %q, %one, %two;
  .reg .b32 %v, %w, %x, %n, %t, %id;
  .reg .b64 %m;
  .shared .align 16 .b8 sm[64];
  ld.param.u64 %m, [data];
  mov.u32 %t, %tid.x;
  setp.eq.u32 %one, %t, 0;
  setp.eq.u32 %two, %t, 32;
  mov.u32 %n, 0;
  mov.u32 %v, 0;
  mov.u32 %id, %ctaid.x;
  setp.eq.u32 %p, %id, 1;
  @%p bra WRITER;
)" + waiter + R"(
  @%two ld.weak.global.u32 %x, [%m];
  ret;
WRITER:
  @!%one ret;
)" + writer + R"(
  ret;
}
)") {}

  std::unique_ptr<cases::CaseProgram> open() const {
    return written_.open(
        "ranks = 1\ncalls = 1\nbudget = 20000\n[memory.data]\nkind = \"local\"\nbytes = 1024\n"
        "init = \"zero\"\n[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [2]\nblock = [64]\n"
        "args = [ {memory = \"data\"} ]\n");
  }
  std::string searched(std::vector<machine::FindingKind> ignore = {}) const {
    const auto program = open();
    return found(fuzz(*program, Boundary::stream, 200, std::move(ignore)));
  }
  std::string checked(std::vector<machine::FindingKind> ignore = {}) const {
    check::CheckSpec spec;
    spec.run.policy.boundary = Boundary::stream;
    spec.run.ignore = std::move(ignore);
    spec.executions = 2000;
    spec.fingerprints = true;
    const check::CheckResult r = check::check([&] { return open(); }, spec);
    CHECK(r.repeated == 0);
    if (r.verdict == check::Verdict::unknown) return "unknown";
    if (r.verdict == check::Verdict::pass) return "clean";
    const auto f = schedule::failure(r.outcome);
    return f ? std::string(machine::name(f->kind)) : "no finding";
  }

 private:
  Written written_;
};

const std::string kWriter =
    "  st.weak.global.u32 [%m], 1;\n  st.release.gpu.global.u32 [%m+64], 1;\n";

std::string relaxed(std::string text) {
  for (std::size_t at; (at = text.find("acquire")) != std::string::npos;) {
    text.replace(at, 7, "relaxed");
  }
  return text;
}

void judge(const std::string& wait, const std::string& writer = kWriter) {
  INFO(wait);
  CHECK(Rounds(wait, writer).searched() == "clean");
  CHECK(Rounds(wait, writer).checked() == "clean");
  CHECK(Rounds(relaxed(wait), writer).searched() == "data-race");
  CHECK(Rounds(relaxed(wait), writer).checked() == "data-race");
  // Nobody raises the flag.
  CHECK(Rounds(wait, "").searched() == "deadlock");
  CHECK(Rounds(wait, "").checked() == "deadlock");
}

// What the first thread found reaches the others through shared memory.
std::string handed_on(const std::string& look, const std::string& space = "shared") {
  return "L:\n  mov.u32 %v, 0;\n  @%one " + look + ";\n  bar.sync 0;\n  @%one st." + space +
         ".u32 [sm], %v;\n  bar.sync 0;\n  ld." + space +
         ".u32 %w, [sm];\n  setp.ne.u32 %p, %w, 1;\n  @%p bra L;\n";
}

}  // namespace

TEST_CASE("a block waits for what one of its threads looks for and hands on by shared memory") {
  judge(handed_on("ld.acquire.gpu.global.u32 %v, [%m+64]"));
  judge(handed_on("atom.global.acquire.gpu.cas.b32 %v, [%m+64], 1, 1"));
  judge(handed_on("atom.global.acquire.gpu.add.u32 %v, [%m+64], 0"));
  judge(handed_on("ld.acquire.gpu.global.u32 %v, [%m+64]", "volatile.shared"));
}

TEST_CASE("a block waits for what a barrier's reduction tells") {
  judge(
      "L:\n  @%one ld.acquire.gpu.global.u32 %v, [%m+64];\n  setp.ne.u32 %q, %v, 0;\n"
      "  bar.red.or.pred %p, 0, %q;\n  @!%p bra L;\n");
}

TEST_CASE("a block waits for flags that two of its warps look at") {
  const std::string two =
      "L:\n  @%one ld.acquire.gpu.global.u32 %v, [%m+64];\n"
      "  @%two ld.acquire.gpu.global.u32 %v, [%m+68];\n  setp.ne.u32 %q, %v, 0;\n"
      "  bar.red.popc.u32 %w, 0, %q;\n  setp.ne.u32 %p, %w, 2;\n  @%p bra L;\n";
  judge(two, kWriter + "  st.relaxed.gpu.global.u32 [%m+68], 1;\n");
  // One of them stays down.
  CHECK(Rounds(two, kWriter).searched() == "deadlock");
  CHECK(Rounds(two, kWriter).checked() == "deadlock");
}

TEST_CASE("a wait of a block goes on past races, where shared memory is the model's") {
  const std::vector<machine::FindingKind> races = {machine::FindingKind::data_race};
  const std::string wait = handed_on("ld.acquire.gpu.global.u32 %v, [%m+64]");
  CHECK(Rounds(wait, kWriter).searched(races) == "clean");
  CHECK(Rounds(wait, "").searched(races) == "deadlock");
  CHECK(Rounds(wait, "").checked(races) == "deadlock");
}

TEST_CASE("rounds that come to an end by what they count are no wait") {
  const std::string look = "  @%one ld.relaxed.gpu.global.u32 %v, [%m+64];\n";
  // In a register, in shared memory, and in a word of it that is the model's.
  const std::string by_register = "L:\n" + look +
                                  "  bar.sync 0;\n  add.u32 %n, %n, 1;\n"
                                  "  setp.lt.u32 %p, %n, 9;\n  @%p bra L;\n";
  const auto by_shared = [&](const std::string& space) {
    return "  @%one st." + space + ".u32 [sm], 0;\n  bar.sync 0;\nL:\n" + look + "  ld." + space +
           ".u32 %w, [sm];\n  bar.sync 0;\n  add.u32 %w, %w, 1;\n  @%one st." + space +
           ".u32 [sm], %w;\n  bar.sync 0;\n  setp.lt.u32 %p, %w, 9;\n  @%p bra L;\n";
  };
  for (const std::string& rounds :
       {by_register, by_shared("shared"), by_shared("volatile.shared")}) {
    INFO(rounds);
    CHECK(Rounds(rounds, "").searched() == "clean");
    CHECK(Rounds(rounds, "").checked() == "clean");
  }
}

TEST_CASE("rounds that look at a clock are no wait without an end") {
  // They give up after a while: nobody raises the flag.
  const std::string rounds =
      "  .reg .b64 %t0, %t1;\n  mov.u64 %t0, %globaltimer;\nL:\n"
      "  @%one ld.acquire.gpu.global.u32 %v, [%m+64];\n  setp.ne.u32 %q, %v, 0;\n"
      "  bar.red.or.pred %p, 0, %q;\n  @%p bra D;\n  mov.u64 %t1, %globaltimer;\n"
      "  sub.u64 %t1, %t1, %t0;\n  setp.lt.u64 %p, %t1, 1000;\n  @%p bra L;\nD:\n";
  CHECK(Rounds(rounds, "").searched() != "deadlock");
  CHECK(Rounds(rounds, "").checked() != "deadlock");
}

TEST_CASE("a block that reads nothing and comes back to a barrier is a livelock") {
  const std::string rounds = "L:\n  @%one st.shared.u32 [sm], 1;\n  bar.sync 0;\n  bra L;\n";
  CHECK(Rounds(rounds, "").searched() == "livelock");
  CHECK(Rounds(rounds, "").checked() == "livelock");
}

TEST_CASE("rounds that no state repeats in are no livelock while others can act") {
  // They count, to no end: the budget ends them where the writer is late.
  const std::string rounds = "L:\n  add.u32 %n, %n, 1;\n" +
                             handed_on("ld.acquire.gpu.global.u32 %v, [%m+64]").substr(3) +
                             "  @%one st.weak.global.u32 [%m+128], %n;\n";
  const auto program = Rounds(rounds, kWriter).open();
  std::vector<std::string> named;
  const std::string verdict =
      found(fuzz(*program, Boundary::stream, 200, {}, [&] { named = program->unexplored(); }));
  CHECK((verdict == "clean" || verdict == "undecided"));
  CHECK(named.empty() == (verdict == "clean"));
  for (const std::string& text : named) CHECK(says(text, "budget of 20000"));
  CHECK(Rounds(rounds, kWriter).checked() != "livelock");
}
