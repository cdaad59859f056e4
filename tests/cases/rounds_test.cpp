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

// Block 0, two warps or more, runs `waiter`; the first thread of block 1 `writer`. Flags lie from
// byte 64 of the data on; thread 32 reads the data behind the wait.
class Rounds {
 public:
  Rounds(const std::string& waiter, const std::string& writer, unsigned threads = 64)
      : threads_(threads), written_(R"(.visible .entry k(.param .u64 data)
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
        "init = \"zero\"\n[[launch]]\nptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [2]\nblock = [" +
        std::to_string(threads_) +
        "]\n"
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
  unsigned threads_;
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

namespace {

// A round as handed_on() has it, with `counts` at its end; there %q ends it in a trap.
std::string counted(const std::string& counts, const std::string& before = "") {
  std::string round = handed_on("ld.acquire.gpu.global.u32 %v, [%m+64]");
  const std::size_t test = round.find("  setp.ne.u32 %p, %w, 1;");
  round.insert(test, counts);
  return before + round + "  bra D;\nT:\n  trap;\nD:\n";
}

}  // namespace

TEST_CASE("what only counts the rounds, or a time-out that can only trap, keeps no block awake") {
  judge(counted("  add.u32 %n, %n, 1;\n"));
  judge(counted("  add.u32 %n, %n, 1;\n  setp.gt.u32 %q, %n, 5000;\n  @%q bra T;\n"));
  const std::string clock =
      "  mov.u64 %t1, %globaltimer;\n  sub.u64 %t1, %t1, %t0;\n"
      "  setp.gt.u64 %q, %t1, 2000000000;\n  @%q bra T;\n";
  const std::string start = "  .reg .b64 %t0, %t1;\n  mov.u64 %t0, %globaltimer;\n";
  judge(counted(clock, start));
  // A pause that grows with the attempts.
  judge(
      counted("  add.u32 %n, %n, 1;\n  setp.lt.u32 %q, %n, 8;\n  @%q bra S;\n"
              "  nanosleep.u32 %n;\nS:\n  setp.gt.u32 %q, %n, 5000;\n  @%q bra T;\n"));
}

TEST_CASE("a time-out of a block's rounds is named, and taken where the policy says so") {
  const std::string wait =
      counted("  add.u32 %n, %n, 1;\n  setp.gt.u32 %q, %n, 50;\n  @%q bra T;\n");
  const auto program = Rounds(wait, kWriter).open();
  std::vector<std::string> remarks;
  CHECK(found(fuzz(*program, Boundary::stream, 200, {}, [&] { remarks = program->remarks(); })) ==
        "clean");
  REQUIRE(remarks.size() == 1);
  CHECK(says(remarks[0], "bar.sync"));
  CHECK(says(remarks[0], "not explored"));
  machine::Policy taken;
  taken.time_out = machine::TimeOut::taken;
  taken.boundary = Boundary::stream;
  const auto late = Rounds(wait, "").open();
  CHECK(found(fuzz(*late, taken, 50)) == "rank-lost");
}

TEST_CASE("rounds in which the count decides where they look are no wait") {
  // The second flag is raised, and only later rounds look there.
  const std::string writer =
      "  st.weak.global.u32 [%m], 1;\n  st.release.gpu.global.u32 [%m+68], 1;\n";
  const std::string look =
      "  cvt.u64.u32 %a, %x;\n  add.u64 %a, %m, %a;\n  mov.u32 %v, 0;\n"
      "  @%one ld.acquire.gpu.global.u32 %v, [%a];\n  setp.ne.u32 %q, %v, 0;\n"
      "  bar.red.or.pred %p, 0, %q;\n  @!%p bra L;\n  bra D;\nT:\n  trap;\nD:\n";
  const std::string count =
      "  .reg .b64 %a;\nL:\n  add.u32 %n, %n, 1;\n  setp.gt.u32 %q, %n, 5000;\n  @%q bra T;\n";
  // By the value, by a branch, and under a guard.
  const std::string by_value =
      "  shr.u32 %x, %n, 3;\n  min.u32 %x, %x, 1;\n"
      "  shl.b32 %x, %x, 2;\n  add.u32 %x, %x, 64;\n";
  const std::string by_branch =
      "  setp.gt.u32 %q, %n, 8;\n  @%q bra LATER;\n  mov.u32 %x, 64;\n  bra LOOK;\n"
      "LATER:\n  mov.u32 %x, 68;\nLOOK:\n";
  const std::string by_guard =
      "  setp.gt.u32 %q, %n, 8;\n  mov.u32 %x, 64;\n  @%q mov.u32 %x, 68;\n";
  for (const std::string& where : {by_value, by_branch, by_guard}) {
    INFO(where);
    const Rounds rounds(count + where + look, writer);
    const std::string searched = rounds.searched();
    CHECK((searched == "clean" || searched == "undecided"));
    const std::string checked = rounds.checked();
    CHECK((checked == "clean" || checked == "unknown"));
  }
}

TEST_CASE("rounds of a few attempts that can only end in a trap are not taken, by either search") {
  // The first thread of each warp looks at a flag of its warp's.
  const auto rounds = [](const std::string& most, const std::string& end) {
    return "  .reg .b64 %f;\n  .reg .pred %first;\n  and.b32 %x, %t, 31;\n"
           "  setp.eq.u32 %first, %x, 0;\n  shr.u32 %x, %t, 5;\n  mul.wide.u32 %f, %x, 4;\n"
           "  add.u64 %f, %f, %m;\nL:\n  mov.u32 %v, 1;\n"
           "  @%first ld.acquire.gpu.global.u32 %v, [%f+64];\n  setp.eq.u32 %p, %v, 1;\n"
           "  bar.red.and.pred %p, 0, %p;\n  @%p bra D;\n  add.u32 %n, %n, 1;\n"
           "  setp.lt.u32 %q, %n, " +
           most + ";\n  @%q bra L;\n" + end + "D:\n";
  };
  const auto raised = [](int flags) {
    std::string out = "  st.weak.global.u32 [%m], 1;\n";
    for (int i = 0; i < flags; ++i) {
      out += "  st.release.gpu.global.u32 [%m+" + std::to_string(64 + 4 * i) + "], 1;\n";
    }
    return out;
  };
  for (const std::string most : {"2", "3", "4", "50"}) {
    for (const int warps : {2, 4}) {
      INFO(most, warps);
      const auto of = [&](const std::string& end, int flags) {
        return Rounds(rounds(most, end), raised(flags), static_cast<unsigned>(32 * warps));
      };
      CHECK(of("  trap;\n", warps).searched() == "clean");
      CHECK(of("  trap;\n", warps).checked() == "clean");
      CHECK(of("  trap;\n", warps - 1).searched() == "deadlock");
      CHECK(of("  trap;\n", warps - 1).checked() == "deadlock");
      machine::Policy taken;
      taken.time_out = machine::TimeOut::taken;
      taken.boundary = Boundary::stream;
      CHECK(found(fuzz(*of("  trap;\n", warps).open(), taken, 200)) == "rank-lost");
      // Where they lead on they are attempts, and what follows is not ordered.
      CHECK(of("", warps).searched() == "data-race");
      if (most != "50") CHECK(of("", warps).checked() == "data-race");
      CHECK(of("  ret;\n", warps).searched() == "clean");
    }
    CHECK(Rounds(rounds(most, "  trap;\n"), raised(8), 256).searched() == "clean");
  }
}
