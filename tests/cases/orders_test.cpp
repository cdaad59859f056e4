// What decides an order is explored, and shared memory is memory of the model: each claim by the
// exhaustive search and by schedules, and each with a twin that lacks the fault.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/cases/threads.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

const std::string kWrite = "  st.global.u32 [%m], 1;\n";
const std::string kRead = "  ld.global.u32 %v1, [%m];\n";
const std::string kInit = "  mbarrier.init.shared.b64 [sm], 1;\n";
const std::string kArrive = "  mbarrier.arrive.shared.b64 %s, [sm];\n";
std::string wait(int parity) {
  return "$W" + std::to_string(parity) + ":\n  mbarrier.test_wait.parity.shared.b64 %q, [sm], " +
         std::to_string(parity) + ";\n  @!%q bra $W" + std::to_string(parity) + ";\n";
}

}  // namespace

TEST_CASE("which warps meet at a counted barrier is explored") {
  const auto four = [](const std::string& count) {
    const std::string bar = "  bar.sync 1, " + count + ";\n";
    return Threads{{"all:  setp.eq.u32 %q, %lane, 0;\n  @%q st.global.u32 [%m], 1;\n" + bar,
                    "all:" + bar + "  ld.global.u32 %v1, [%m];\n", "all:" + bar, "all:" + bar}};
  };
  judge("data-race", four("64"));
  judge("clean", four("128"));
}

TEST_CASE("a barrier that all its warps have to reach costs no execution") {
  const std::string twice = "all:  bar.sync 1, 64;\n  bar.sync 1, 64;\n";
  const std::string other = "all:  bar.sync 2, 64;\n  bar.sync 2, 64;\n";
  CHECK(executions({{twice, twice, other, other}}) == 1);
}

TEST_CASE("who arrives and goes on may come again too early, also where all warps have to come") {
  const auto twice = [](const std::string& how) {
    return "all:  bar." + how + " 1, 64;\n  bar." + how + " 1, 64;\n";
  };
  judge("barrier-divergence", {{twice("sync"), twice("arrive")}});
  judge("clean", {{twice("sync"), twice("sync")}});
  // By another count, before the first barrier is complete or behind it.
  const auto pair = [](const std::string& more) {
    return Threads{{"all:  bar.sync 1, 96;\n", "all:  bar.sync 1, 64;\n  bar.sync 1, 96;\n",
                    "all:  bar.sync 1, 64;\n" + more}};
  };
  judge("barrier-divergence", pair("  bar.sync 1, 96;\n"));
}

TEST_CASE("a barrier's number is read when the barrier is reached") {
  const std::string first = "all:  mov.u32 %v2, 1;\n  bar.sync %v2, 64;\n";
  const auto second = [](int number) {
    return "all:  mov.u32 %v2, " + std::to_string(number) + ";\n  bar.sync %v2, 64;\n";
  };
  judge("clean", {{first, second(1)}});
  judge("deadlock", {{first, second(2)}});  // each counts to two warps, and one comes
}

TEST_CASE("bar.arrive orders only what precedes it") {
  const std::string arrive = "  bar.arrive 1, 64;\n", sync = "  bar.sync 1, 64;\n" + kRead;
  judge("data-race", {{arrive + kWrite, sync}});
  judge("clean", {{kWrite + arrive, sync}});
}

TEST_CASE("an mbarrier's use that nothing orders after its init is a finding of its own") {
  judge("uninitialised-barrier", {{kInit, kArrive}});
  judge("clean", {{kInit + "  bar.sync 1, 64;\n", "  bar.sync 1, 64;\n" + kArrive}});
}

TEST_CASE("nor may an inval be unordered with a use") {
  const std::string met = "  bar.sync 1, 64;\n", inval = "  mbarrier.inval.shared.b64 [sm];\n";
  judge("uninitialised-barrier", {{kInit + met + inval, met + kArrive}});
  judge("clean", {{kInit + met + met + inval, met + kArrive + met}});
}

TEST_CASE("an mbarrier's arrival orders only what precedes it, and a wait takes it in") {
  const std::string met = "  bar.sync 1, 64;\n";
  judge("data-race", {{kInit + met + kArrive + kWrite, met + wait(0) + kRead}});
  judge("clean", {{kInit + met + kWrite + kArrive, met + wait(0) + kRead}});
  judge("data-race", {{kInit + met + kWrite + kArrive, met + kRead + wait(0)}});
}

TEST_CASE("which arrivals complete a phase is explored") {
  const std::string met = "  bar.sync 1, 128;\n";
  const auto of = [&](const std::string& count) {
    return Threads{{"  mbarrier.init.shared.b64 [sm], " + count + ";\n" + met + kWrite + kArrive,
                    met + kArrive, met + kArrive, met + wait(0) + kRead}};
  };
  // One of them is left over, and comes to a phase before any wait has seen the one before; where
  // that is passed over, the arrival behind the write may be the one.
  judge("barrier-misuse", of("2"));
  const auto program = program_of(of("2"));
  CHECK(found(fuzz(*program, Boundary::strict, 300, {machine::FindingKind::barrier_misuse})) ==
        "data-race");
  judge("clean", of("3"));
}

TEST_CASE("a pipeline of one stage is clean in one execution, and one arrival too few is a race") {
  const std::string met = "  bar.sync 1, 96;\n";
  const auto pipe = [&](const std::string& consumers) {
    const std::string consumer =
        met + wait(0) + kRead + "  mbarrier.arrive.shared.b64 %s, [sm+8];\n";
    return Threads{
        {kInit + "  mbarrier.init.shared.b64 [sm+8], " + consumers + ";\n" + met + kWrite +
             kArrive +
             "$E:\n  mbarrier.test_wait.parity.shared.b64 %q, [sm+8], 0;\n  @!%q bra $E;\n" +
             kWrite,
         consumer, consumer}};
  };
  judge("clean", pipe("2"));
  CHECK(executions(pipe("2")) == 1);
  judge("data-race", pipe("1"));
}

TEST_CASE("a look before a loop over the same phase is no part of it if its answer is kept") {
  const std::string met = "  bar.sync 1, 64;\n", init = kInit + met;
  const std::string look = "  mbarrier.test_wait.parity.shared.b64 %r, [sm], 0;\n";
  const std::string kept = "  @!%r trap;\n";
  judge("rank-lost", {{init + kArrive, met + look + wait(0) + kept}});
  judge("clean", {{init + kArrive, met + wait(0) + look + kept}});
  // The loop's own first iteration.
  const std::string peeled =
      "  mbarrier.test_wait.parity.shared.b64 %q, [sm], 0;\n  @%q bra $D;\n" + wait(0) + "$D:\n";
  judge("clean", {{init + kWrite + kArrive, met + peeled + kRead}});
  CHECK(executions({{init + kWrite + kArrive, met + peeled + kRead}}) == 1);
}

TEST_CASE("a look behind the looker's own arrival may come before the others'") {
  const std::string met = "  bar.sync 1, 64;\n";
  const std::string look = "  mbarrier.test_wait.parity.shared.b64 %r, [sm], 0;\n  @!%r trap;\n";
  const std::string init = "  mbarrier.init.shared.b64 [sm], 2;\n" + met + kArrive;
  judge("rank-lost", {{init, met + kArrive + look}});
  judge("clean", {{init, met + kArrive + wait(0) + look}});
}

TEST_CASE("a wait for a phase that nobody completes is a deadlock") {
  const std::string met = "  bar.sync 1, 64;\n";
  judge("deadlock", {{"  mbarrier.init.shared.b64 [sm], 2;\n" + met + kArrive, met + wait(0)}});
}

TEST_CASE("barrier.cluster.arrive orders only what precedes it") {
  const std::string arrive = "all:  setp.eq.u32 %q, %lane, 0;\n";
  const std::string a = "  barrier.cluster.arrive;\n", w = "  barrier.cluster.wait;\n";
  const std::string st = "  @%q st.global.u32 [%m], 1;\n", ld = "  @%q ld.global.u32 %v1, [%m];\n";
  judge("data-race", {{arrive + a + st + w, arrive + a + w + ld}, 2});
  judge("clean", {{arrive + st + a + w, arrive + a + w + ld}, 2});
}

TEST_CASE("accesses of shared memory that another warp can see are explored") {
  const std::string clear =
      "  st.shared.u32 [sm], 0;\n  st.shared.u32 [sm+64], 0;\n  bar.sync 1, 64;\n";
  const std::string met = "  bar.sync 1, 64;\n";
  // The second to add finds a 1.
  const std::string add = "  atom.shared.add.u32 %v1, [sm], 1;\n";
  judge("rank-lost", {{clear + add, met + add + "  setp.eq.u32 %q, %v1, 1;\n  @%q trap;\n"}});
  judge("clean", {{clear + add, met + add + "  setp.eq.u32 %q, %v1, 2;\n  @%q trap;\n"}});
  // A race in global memory behind a flag in shared memory.
  const std::string flagged =
      met + "  ld.relaxed.cta.shared.u32 %v1, [sm];\n  setp.eq.u32 %q, %v1, 1;\n  @!%q bra $N;\n" +
      kRead + "$N:\n";
  judge("data-race", {{clear + kWrite + "  st.relaxed.cta.shared.u32 [sm], 1;\n", flagged}});
}

TEST_CASE(
    "a release in shared memory publishes global data to its acquire, a relaxed flag nothing") {
  const std::string clear = "  st.shared.u32 [sm], 0;\n  bar.sync 1, 64;\n";
  const auto flag = [&](const std::string& release, const std::string& acquire) {
    return Threads{{clear + kWrite + "  st" + release + ".shared.u32 [sm], 1;\n",
                    "  bar.sync 1, 64;\n$S:\n  ld" + acquire +
                        ".shared.u32 %v1, [sm];\n  setp.ne.u32 %q, %v1, 1;\n  @%q bra $S;\n" +
                        kRead}};
  };
  judge("clean", flag(".release.cta", ".acquire.cta"));
  judge("data-race", flag(".relaxed.cta", ".acquire.cta"));
  judge("data-race", flag(".release.cta", ".relaxed.cta"));
  judge("data-race", flag(".volatile", ".volatile"));
}

TEST_CASE("and weak data in shared memory beside it") {
  const auto flag = [&](const std::string& release) {
    return Threads{
        {"  st.shared.u32 [sm], 0;\n  bar.sync 1, 64;\n  st.shared.u32 [sm+64], 7;\n  st" +
             release + ".shared.u32 [sm], 1;\n",
         "  bar.sync 1, 64;\n$S:\n  ld.acquire.cta.shared.u32 %v1, [sm];\n"
         "  setp.ne.u32 %q, %v1, 1;\n  @%q bra $S;\n  ld.shared.u32 %v2, [sm+64];\n"
         "  setp.ne.u32 %q, %v2, 7;\n  @%q trap;\n"}};
  };
  judge("clean", flag(".release.cta"));
  judge("data-race", flag(".relaxed.cta"));
}

TEST_CASE("store buffering in shared memory is reachable, and fence.sc forbids it") {
  const auto side = [](const std::string& before, const std::string& mine, const std::string& other,
                       const std::string& fence) {
    return before + "  bar.sync 1, 64;\n  st.relaxed.cta.shared.u32 [" + mine + "], 1;\n" + fence +
           "  ld.relaxed.cta.shared.u32 %v1, [" + other +
           "];\n  setp.ne.u32 %q, %v1, 0;\n  @%q bra $N;\n"
           "  atom.relaxed.gpu.global.add.u32 %v2, [%m+64], 1;\n  setp.eq.u32 %q, %v2, 1;\n"
           "  @%q trap;\n$N:\n";
  };
  const std::string clear = "  st.shared.u32 [sm], 0;\n  st.shared.u32 [sm+64], 0;\n";
  const auto both = [&](const std::string& fence) {
    return Threads{{side(clear, "sm", "sm+64", fence), side("", "sm+64", "sm", fence)}};
  };
  judge("rank-lost", both(""));
  judge("clean", both("  fence.sc.cta;\n"));
}

TEST_CASE("votes and shuffles order no memory, bar.warp.sync does") {
  const auto lanes = [](const std::string& between) {
    return Threads{{"all:  setp.eq.u32 %q, %lane, 0;\n  @%q st.shared.u32 [sm], 1;\n" + between +
                    "  setp.eq.u32 %q, %lane, 1;\n  @%q ld.shared.u32 %v1, [sm];\n"}};
  };
  judge("data-race", lanes("  vote.sync.any.pred %r, %q, 0xffffffff;\n"));
  judge("data-race", lanes("  shfl.sync.idx.b32 %v2, %v0, 0, 31, 0xffffffff;\n"));
  judge("clean", lanes("  bar.warp.sync 0xffffffff;\n"));
}

TEST_CASE("which lane's atomic comes first at one word is explored where that can be told") {
  const std::string two = "all:  setp.ge.u32 %q, %lane, 2;\n  @%q bra $X;\n";
  const auto seen = [&](int value) {
    return Threads{{two +
                    "  atom.global.exch.b32 %v1, [%m], %lane;\n  setp.eq.u32 %q, %lane, 0;\n"
                    "  setp.eq.and.u32 %q, %v1, " +
                    std::to_string(value) + ", %q;\n  @%q trap;\n$X:\n"}};
  };
  judge("rank-lost", seen(1));
  judge("clean", seen(2));
  // Nor does it cost anything else.
  CHECK(executions({{"all:  red.global.add.u32 [%m], 1;\n"}}) == 1);
  CHECK(executions({{two + "  mul.wide.u32 %s, %lane, 4;\n  add.u64 %t, %m, %s;\n"
                           "  atom.global.add.u32 %v1, [%t], 1;\n$X:\n"}}) == 1);
}

TEST_CASE("eight lanes at one word come in any order, of nine it is left out by name") {
  // Lane 0 as the last.
  const auto draws = [](int n) {
    const std::string most = std::to_string(n), last = std::to_string(n - 1);
    return Threads{{"all:  setp.ge.u32 %q, %lane, " + most +
                    ";\n  @%q bra $X;\n  atom.relaxed.gpu.global.add.u32 %v1, [%m], 1;\n"
                    "  setp.eq.u32 %q, %lane, 0;\n  setp.eq.and.u32 %q, %v1, " +
                    last + ", %q;\n  @%q trap;\n$X:\n"}};
  };
  CHECK(checked(draws(8)) == "rank-lost");
  CHECK(checked(draws(9)) == "unknown");
}

TEST_CASE("the order of adds to a float is explored where it is asked for, and only there") {
  const auto add = [](const char* bits) {
    return "  mov.b32 %f1, " + std::string(bits) +
           ";\n  red.relaxed.gpu.global.add.f32 [%m], %f1;\n"
           "  red.release.gpu.global.add.u32 [%m+64], 1;\n";
  };
  const auto verdict = [&](const char* trapping, bool sets) {
    const Threads t{
        {add("0x4cbebc20"), add("0x3f800000"), add("0xccbebc20"),  // 1e8, 1, -1e8
         "$L:\n  ld.acquire.gpu.global.u32 %v2, [%m+64];\n  setp.ne.u32 %p, %v2, 3;\n"
         "  @%p bra $L;\n  ld.relaxed.gpu.global.u32 %v1, [%m];\n  setp.eq.u32 %q, %v1, " +
             std::string(trapping) + ";\n  @%q trap;\n"}};
    check::CheckSpec spec;
    spec.run.policy.boundary = Boundary::strict;
    spec.sets = sets;
    return check::check([&] { return program_of(t); }, spec).verdict;
  };
  // 1e8 + 1 - 1e8 is 0, and 1e8 - 1e8 + 1 is 1.
  CHECK(verdict("0", false) == check::Verdict::fail);
  CHECK(verdict("0x3f800000", false) == check::Verdict::fail);
  CHECK(verdict("0x40000000", false) == check::Verdict::pass);
  CHECK((verdict("0", true) == check::Verdict::fail) !=
        (verdict("0x3f800000", true) == check::Verdict::fail));
}

TEST_CASE("of %smid and of the clock at a point one value is known, as docs/limits.md says") {
  const auto decides = [](const std::string& reads) { return Threads{{reads + "  @%q trap;\n"}}; };
  const auto smid = [&](int traps) {
    return decides("  mov.u32 %v1, %smid;\n  setp.eq.u32 %q, %v1, " + std::to_string(traps) +
                   ";\n");
  };
  judge("rank-lost", smid(0));  // the block's number
  judge("clean", smid(5));
  const auto clock = [&](int traps) {
    return decides("  mov.u64 %t, %globaltimer;\n  and.b64 %t, %t, 1;\n  setp.eq.u64 %q, %t, " +
                   std::to_string(traps) + ";\n");
  };
  CHECK((checked(clock(0)) == "rank-lost") != (checked(clock(1)) == "rank-lost"));
}

TEST_CASE("a red of one lane need not come before another lane's atomic") {
  const auto lanes = [](const std::string& between) {
    return Threads{
        {"all:  setp.ge.u32 %q, %lane, 2;\n  @%q bra $X;\n"
         "  red.relaxed.gpu.global.add.u32 [%m], 1;\n" +
         between +
         "  setp.ne.u32 %q, %lane, 0;\n  @%q bra $X;\n"
         "  atom.relaxed.gpu.global.add.u32 %v1, [%m], 0;\n"
         "  setp.eq.u32 %q, %v1, 1;\n  @%q trap;\n$X:\n"}};
  };
  judge("rank-lost", lanes(""));
  judge("clean", lanes("  bar.warp.sync 3;\n"));
}

TEST_CASE(
    "a look that adds nothing is a write, and races with a weak read before the wait is over") {
  const auto poll = [](const std::string& look) {
    return "$W:\n  " + look + ";\n  setp.ne.u32 %q, %v1, 6;\n  @%q bra $W;\n";
  };
  const std::string add = poll("atom.acquire.gpu.global.add.u32 %v1, [%m], 0");
  const std::string read = "  ld.weak.global.u32 %v2, [%m];\n";
  const std::string raise = "  st.release.gpu.global.u32 [%m], 6;\n";
  // The one that ends the wait is behind the read, no other one is.
  judge("data-race", {{add, read + raise}});
  judge("clean", {{poll("ld.acquire.gpu.global.u32 %v1, [%m]"), read + raise}});
  judge("clean", {{poll("atom.acquire.gpu.global.cas.b32 %v1, [%m], 6, 6"), read + raise}});
  judge("clean", {{add, "  ld.relaxed.gpu.global.u32 %v2, [%m];\n" + raise}});
  // Nor where the wait begins behind it.
  const std::string first =
      "$V:\n  ld.acquire.gpu.global.u32 %v3, [%m+64];\n"
      "  setp.ne.u32 %q, %v3, 1;\n  @%q bra $V;\n";
  judge("clean", {{first + add, read + "  st.release.gpu.global.u32 [%m+64], 1;\n" + raise}});
}

TEST_CASE("what comes behind a reduction need not come behind others of the same place") {
  const std::string red = "  red.relaxed.gpu.global.add.u32 [%m], 1;\n";
  const auto look = [&](const std::string& how) {
    return red + "  ld." + how + ".global.u32 %v1, [%m];\n";
  };
  // Whichever of the two the search makes first.
  judge("data-race", {{look("weak"), red}});
  judge("data-race", {{red, look("weak")}});
  judge("clean", {{red, look("relaxed.gpu")}});
  // Who has waited for all of them has them in its past.
  const std::string wait =
      "$W:\n  ld.relaxed.gpu.global.u32 %v1, [%m];\n  setp.ne.u32 %q, %v1, 2;\n  @%q bra $W;\n";
  judge("clean", {{red, red + wait + "  ld.weak.global.u32 %v1, [%m];\n"}});
  // What one takes over from another depends on their order as well.
  const std::string data = "  st.weak.global.u32 [%m+64], 1;\n";
  const std::string add = "  atom.acq_rel.gpu.global.add.u32 %v2, [%m], 1;\n";
  judge("data-race", {{data + add, add + data}});
  judge("data-race", {{add + data, data + add}});
}

TEST_CASE("who saw old values twice and sleeps sees the newest when nothing else happens") {
  const std::string look = "  atom.acquire.gpu.global.cas.b32 %v2, [%m], 3, 4;\n";
  const auto program = program_of(
      {{"  red.relaxed.gpu.global.add.u32 [%m], 16;\n"
        "  atom.relaxed.gpu.global.exch.b32 %v2, [%m], 3;\n  st.global.u32 [%m+64], %v2;\n",
        "$L:\n  mov.u32 %v1, 1;\n" + look + "  setp.eq.u32 %q, %v2, 3;\n  @%q bra $X;\n" +
            "  mov.u32 %v1, 2;\n" + look + "  setp.ne.u32 %q, %v2, 3;\n  @%q bra $L;\n$X:\n" +
            "  st.global.u32 [%m+128], %v1;\n"}});
  const auto executor = ranks::make_inline(*program);
  schedule::SearchSpec spec;
  spec.run.policy.boundary = machine::Boundary::strict;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::random;
  spec.schedules = 6000;
  CHECK(found(schedule::search({executor.get()}, spec)) == "clean");
}

namespace {

// Reads a flag, does `more`, and must not have read 6.
Threads reads_six(const std::string& more, int written = 6) {
  const std::string read = "  ld.relaxed.gpu.global.u32 %v1, [%m+128];\n";
  return {{read + more + "  setp.eq.u32 %q, %v1, 6;\n  @%q trap;\n",
           "  st.relaxed.gpu.global.u32 [%m+128], " + std::to_string(written) + ";\n"}};
}

}  // namespace

TEST_CASE("a wait directly behind a plain store leaves the reads before both as they are") {
  const std::string store = "  st.global.u32 [%m], 1;\n";
  const std::vector<std::string> waits = {
      "$L:\n  ld.relaxed.gpu.global.u32 %v2, [%m];\n  setp.ne.u32 %q, %v2, 1;\n  @%q bra $L;\n",
      "$L:\n  atom.acquire.gpu.global.cas.b32 %v2, [%m], 1, 2;\n  setp.ne.u32 %q, %v2, 1;\n"
      "  @%q bra $L;\n"};
  for (const std::string& wait : waits) {
    CAPTURE(wait);
    judge("rank-lost", reads_six(store + wait));
    judge("clean", reads_six(store + wait, 5));
  }
  // A lock, opened by a plain store and taken again.
  const auto lock = [](const std::string& name) {
    return "$" + name + ":\n  atom.acquire.gpu.global.cas.b32 %v2, [%m], 0, 1;\n" +
           "  setp.ne.u32 %q, %v2, 0;\n  @%q bra $" + name + ";\n  st.global.u32 [%m], 0;\n";
  };
  judge("rank-lost", reads_six(lock("A") + lock("B")));
  judge("clean", reads_six(lock("A") + lock("B"), 5));
}

TEST_CASE("a place that is accessed by narrower ones later leaves reads before both as they are") {
  const std::string narrow = "  st.global.u32 [%m], 5;\n";
  const std::vector<std::string> both = {
      "  atom.relaxed.gpu.global.exch.b64 %s, [%m], 3;\n" + narrow,
      "  st.relaxed.gpu.global.u64 [%m], 3;\n" + narrow,
      "  ld.relaxed.gpu.global.u64 %s, [%m];\n" + narrow,
      "  ld.relaxed.gpu.global.v2.u64 {%s, %t}, [%m];\n" + narrow,
      "  atom.relaxed.cta.shared.exch.b32 %v2, [sm], 3;\n  st.shared.u8 [sm], %v2;\n",
      // Cut twice, and read in between.
      "  atom.relaxed.gpu.global.exch.b64 %s, [%m], 3;\n" + narrow +
          "  atom.relaxed.gpu.global.exch.b32 %v2, [%m], 4;\n  st.global.u8 [%m], %v2;\n"};
  for (const std::string& more : both) {
    CAPTURE(more);
    judge("rank-lost", reads_six(more));
    judge("clean", reads_six(more, 5));
  }
  // Of a part alone that is not the first.
  const std::string upper =
      "  atom.relaxed.gpu.global.exch.b64 %s, [%m], 3;\n  st.global.u32 [%m+4], 5;\n";
  judge("rank-lost", reads_six(upper));
  judge("clean", reads_six(upper, 5));
}

TEST_CASE("more writes of a place than are kept leave reads before them as they are, or unknown") {
  const auto times = [](int n, const std::string& write) {
    return "  mov.u32 %v3, 0;\n$L:\n" + write + "  add.u32 %v3, %v3, 1;\n  setp.lt.u32 %q, %v3, " +
           std::to_string(n) + ";\n  @%q bra $L;\n";
  };
  const std::string exchange = "  atom.relaxed.gpu.global.exch.b32 %v2, [%m], %v3;\n";
  const std::string weak = "  st.global.u32 [%m], %v3;\n";
  CHECK(checked(reads_six(exchange + times(70, weak))) == "rank-lost");
  CHECK(checked(reads_six(exchange + times(70, weak), 5)) == "clean");
  CHECK(checked(reads_six(times(60, exchange))) == "rank-lost");
  CHECK(checked(reads_six(times(70, exchange), 5)) == "unknown");
  // Who lives has heard of the next ones; and reductions are a set.
  CHECK(checked({{"all:" + times(70, "  setp.eq.u32 %r, %lane, 0;\n  @%r" + exchange.substr(1) +
                                         "  bar.warp.sync 0xffffffff;\n")}}) == "clean");
  CHECK(checked({{times(70, "  red.relaxed.gpu.global.add.u32 [%m], 1;\n"),
                  times(70, "  red.relaxed.gpu.global.add.u32 [%m], 1;\n")}}) == "clean");
}

TEST_CASE("an order of a warp's lanes that is left out and could be told is no PASS") {
  const std::string read =
      "  setp.eq.u32 %q, %lane, 0;\n  @%q ld.relaxed.gpu.global.u32 %v1, [%m];\n";
  const std::string write =
      "  setp.eq.u32 %r, %lane, 1;\n  @%r st.relaxed.gpu.global.u32 [%m], 1;\n";
  CHECK(checked({{"all:" + read + write}}) == "unknown");
  // Another place; a vote that needs what was read; a barrier of the warp.
  CHECK(checked({{"all:" + read +
                  "  setp.eq.u32 %r, %lane, 1;\n"
                  "  @%r st.relaxed.gpu.global.u32 [%m+64], 1;\n"}}) == "clean");
  CHECK(checked({{"all:" + read + "  vote.sync.any.pred %p, %q, 0xffffffff;\n" + write}}) ==
        "clean");
  CHECK(checked({{"all:" + read + "  bar.warp.sync 0xffffffff;\n" + write}}) == "clean");
  // By way of another warp: what it writes because of the write of one lane could be read by
  // another one.
  const std::string flag =
      "  setp.eq.u32 %r, %lane, 1;\n"
      "  @%r st.relaxed.gpu.global.u32 [%m+64], 1;\n";
  const std::string other =
      "  ld.relaxed.gpu.global.u32 %v1, [%m+64];\n  st.relaxed.gpu.global.u32 [%m], 1;\n";
  CHECK(checked({{"all:" + read + flag, other}}) == "unknown");
  CHECK(checked({{"all:" + read + "  bar.warp.sync 0xffffffff;\n" + flag, other}}) == "clean");
  // 32 lanes that draw numbers: all their orders are too many.
  CHECK(checked({{"all:  atom.global.add.u32 %v1, [%m], 1;\n"}}) == "unknown");
}

TEST_CASE(
    "asynchronous reductions of one word do not race, and with a plain store before them do") {
  const std::string meet = "  barrier.cluster.arrive.release;\n  barrier.cluster.wait.acquire;\n";
  const std::string init =
      "  mbarrier.init.shared.b64 [sm], 1;\n"
      "  mbarrier.arrive.expect_tx.shared::cta.b64 %t, [sm], 8;\n";
  const std::string clear = "  st.shared.u32 [sm+64], 0;\n";
  const std::string sum =
      "$W:\n  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [sm], 0;\n"
      "  @!%q bra $W;\n  ld.shared.u32 %v1, [sm+64];\n"
      "  setp.ne.u32 %q, %v1, 3;\n  @%q trap;\n";
  const std::string to = "  mov.u32 %v5, sm;\n  mapa.shared::cluster.u32 %v6, %v5, 0;\n";
  const auto add = [](const std::string& n) {
    return "  mov.u32 %v1, " + n +
           ";\n  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
           "[%v6+64], %v1, [%v6];\n";
  };
  const std::string both = meet + to + add("1") + add("2");
  judge("clean", {{init + clear + meet + sum, both}, 2});
  judge("data-race", {{init + meet + clear + sum, both}, 2});
  judge("data-race", {{init + clear + meet + "  ld.shared.u32 %v1, [sm+64];\n" + sum, both}, 2});
}

TEST_CASE("fences of two lanes with another warp's between them are explored, or unknown") {
  const auto side = [](const std::string& x, const std::string& u, const std::string& result) {
    return "  st.relaxed.gpu.global.u32 [%m+" + x +
           "], 1;\n  fence.sc.gpu;\n  ld.relaxed.gpu.global.u32 %v1, [%m+" + u +
           "];\n  st.global.u32 [%m+" + result + "], %v1;\n";
  };
  const std::string a = side("0", "64", "512"), b = side("128", "192", "576");
  const std::string lanes =
      "all:  setp.gt.u32 %q, %lane, 1;\n  @%q bra $E;\n"
      "  setp.eq.u32 %q, %lane, 0;\n  @%q bra $A;\n" +
      b + "  bra $E;\n$A:\n" + a + "$E:\n  bar.sync 0;\n";
  const auto alone = [](const std::string& body) {
    return "all:  setp.ne.u32 %r, %lane, 0;\n  @%r bra $E;\n" + body + "$E:\n  bar.sync 0;\n";
  };
  // The values of the two lanes and of the other warp's two loads that are a trap.
  const auto third = [&](const std::string& fence, std::array<int, 4> values) {
    std::string out =
        alone(
            "  st.relaxed.gpu.global.u32 [%m+64], 1;\n"
            "  st.relaxed.gpu.global.u32 [%m+192], 1;\n" +
            fence +
            "  ld.relaxed.gpu.global.u32 %v3, [%m];\n"
            "  ld.relaxed.gpu.global.u32 %v4, [%m+128];\n") +
        "  @%r ret;\n  ld.global.u32 %v1, [%m+512];\n  ld.global.u32 %v2, [%m+576];\n";
    for (std::size_t i = 0; i < 4; ++i) {
      out += "  setp.ne.u32 %q, %v" + std::to_string(i + 1) + ", " + std::to_string(values[i]) +
             ";\n  @%q ret;\n";
    }
    return out + "  trap;\n";
  };
  const std::string fence = "  fence.sc.gpu;\n";
  constexpr std::array<int, 4> kFirstBefore{0, 1, 1, 0}, kSecondBefore{1, 0, 0, 1};
  // One lane's is before, the other's behind: the run has one way; of the other nothing is known.
  std::vector<std::string> said;
  for (const auto& values : {kFirstBefore, kSecondBefore}) {
    said.push_back(checked({{lanes, third(fence, values)}}));
    CHECK(checked({{alone(a), alone(b), third(fence, values)}}) == "rank-lost");
  }
  std::sort(said.begin(), said.end());
  CHECK(said == std::vector<std::string>{"rank-lost", "unknown"});
  // Nobody's fence is between them.
  CHECK(checked({{lanes, third("", {2, 2, 2, 2})}}) == "clean");
}

TEST_CASE("lanes that wait apart for values of one place may miss them, in whatever order") {
  const auto wait = [](const std::string& name, int value) {
    return "$" + name + ":\n  ld.acquire.gpu.global.u32 %v2, [%m];\n  setp.ne.u32 %q, %v2, " +
           std::to_string(value) + ";\n  @%q bra $" + name + ";\n";
  };
  const std::string ack = "  st.release.gpu.global.u32 [%m+64], 1;\n";
  const std::string acked =
      "$W:\n  ld.acquire.gpu.global.u32 %v2, [%m+64];\n  setp.ne.u32 %q, %v2, 1;\n  @%q bra $W;\n";
  const std::string sees =
      "  ld.relaxed.gpu.global.u32 %v1, [%m+64];\n  setp.eq.u32 %q, %v1, 0;\n  @%q trap;\n";
  // One lane waits for 1 and tells, another one waits for 2.
  const auto lanes = [&](int first, const std::string& then = "") {
    return "all:  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %q, %lane, " +
           std::to_string(first) + ";\n  @%q bra $A;\n" + wait("T", 2) + then + "  ret;\n$A:\n" +
           wait("O", 1) + ack;
  };
  const auto writer = [](const std::string& between, const std::string& how = "release") {
    return "  st.release.gpu.global.u32 [%m], 1;\n" + between + "  st." + how +
           ".gpu.global.u32 [%m], 2;\n";
  };
  for (const int first : {0, 1}) {
    judge("deadlock", {{lanes(first), writer("")}});
    judge("clean", {{lanes(first), writer(acked)}});
    judge("clean", {{writer(acked), lanes(first)}});
    // Behind its wait a lane loads what the other one stored behind its own.
    judge("clean", {{lanes(first, sees), writer(acked)}});
    judge("rank-lost", {{lanes(first, sees), writer(acked, "relaxed")}});
  }
  // In warps of their own.
  judge("deadlock", {{wait("O", 1) + ack, wait("T", 2), writer("")}});
  judge("clean", {{wait("O", 1) + ack, wait("T", 2), writer(acked)}});
}

TEST_CASE("fences of two lanes at one instruction come in either order") {
  // Each stores to a place of its own, and loads what another one stored.
  const auto lanes = [](const std::string& count, const std::string& between,
                        const std::string& fence, const std::string& tells) {
    return Threads{{"all:  setp.ge.u32 %q, %lane, " + count +
                    ";\n  @%q ret;\n  mul.wide.u32 %s, %lane, 64;\n  add.u64 %s, %s, %m;\n"
                    "  add.u32 %v1, %lane, 1;\n  rem.u32 %v1, %v1, " +
                    count +
                    ";\n  mul.wide.u32 %t, %v1, 64;\n  add.u64 %t, %t, %m;\n"
                    "  st.relaxed.gpu.global.u32 [%s], 1;\n" +
                    between + "  fence." + fence +
                    ".gpu;\n  ld.relaxed.gpu.global.u32 %v2, [%t];\n"
                    "  setp.eq.u32 %r, %v2, 0;\n" +
                    tells}};
  };
  const auto by_one = [](int lane) {
    return "  setp.eq.and.u32 %q, %lane, " + std::to_string(lane) + ", %r;\n  @%q trap;\n";
  };
  const std::string by_both = "  vote.sync.all.pred %q, %r, 3;\n  @%q trap;\n";
  for (const int lane : {0, 1}) {
    judge("rank-lost", lanes("2", "", "sc", by_one(lane)));
    judge("clean", lanes("2", "  bar.warp.sync 3;\n", "sc", by_one(lane)));
    // A vote orders no memory.
    CHECK(checked(lanes("2", "  vote.sync.any.pred %p, %p, 3;\n", "sc", by_one(lane))) ==
          "rank-lost");
  }
  judge("clean", lanes("2", "", "sc", by_both));
  judge("rank-lost", lanes("2", "", "acq_rel", by_both));
  const std::string by_all = "  vote.sync.all.pred %q, %r, 7;\n  @%q trap;\n";
  CHECK(checked(lanes("3", "", "sc", by_all)) == "clean");
  CHECK(checked(lanes("3", "", "acq_rel", by_all)) == "rank-lost");
  // Of more than four lanes it is left out.
  CHECK(checked(lanes("5", "", "sc", by_one(4))) == "unknown");
  // On two sides of a branch it is left out, or found.
  const auto sides = [](int traps) {
    const auto side = [&](int lane) {
      const std::string own = std::to_string(64 * lane), other = std::to_string(64 * (1 - lane));
      return "  st.relaxed.gpu.global.u32 [%m+" + own +
             "], 1;\n  fence.sc.gpu;\n  ld.relaxed.gpu.global.u32 %v2, [%m+" + other + "];\n" +
             (lane == traps ? "  setp.eq.u32 %r, %v2, 0;\n  @%r trap;\n" : "");
    };
    return Threads{
        {"all:  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %q, %lane, 0;\n"
         "  @%q bra $A;\n" +
         side(1) + "  ret;\n$A:\n" + side(0)}};
  };
  for (const int traps : {0, 1}) {
    CHECK(checked(sides(traps)) != "clean");
    CHECK(found(fuzz(*program_of(sides(traps)), machine::Boundary::coherent, 3000)) == "rank-lost");
  }
  // What one lane has of a third one, and what a third one has of the other lane.
  const std::string three = "all:  setp.gt.u32 %q, %lane, 2;\n  @%q ret;\n";
  const auto only = [](int lane, const std::string& what) {
    return "  setp.eq.u32 %q, %lane, " + std::to_string(lane) + ";\n  @%q " + what + ";\n";
  };
  const auto but = [](int lane, const std::string& what) {
    return "  setp.ne.u32 %q, %lane, " + std::to_string(lane) + ";\n  @%q " + what + ";\n";
  };
  const std::string fence = "  fence.sc.gpu;\n";
  const auto sees = [](int lane, const std::string& where = "[%m]") {
    return "  ld.relaxed.gpu.global.u32 %v2, " + where + ";\n  setp.eq.u32 %q, %lane, " +
           std::to_string(lane) + ";\n  setp.eq.and.u32 %q, %v2, 0, %q;\n  @%q trap;\n";
  };
  for (const int reader : {0, 1}) {
    const int other = 1 - reader;
    const std::string pair = std::to_string(4 | 1 << other),
                      later = std::to_string(4 | 1 << reader);
    const std::string third = three + only(2, "st.relaxed.gpu.global.u32 [%m], 1") +
                              but(reader, "bar.warp.sync " + pair) + but(2, fence.substr(2, 12));
    CHECK(checked({{third + sees(reader)}}) != "clean");
    CHECK(checked({{third + sees(other)}}) == "clean");
    const std::string told = three + only(other, "st.relaxed.gpu.global.u32 [%m], 1") +
                             but(2, fence.substr(2, 12)) + but(other, "bar.warp.sync " + later);
    CHECK(checked({{told + sees(2)}}) != "clean");
    // Another warp hears of one of the fences, or of both.
    const auto hears = [&](int from, const std::string& synced,
                           const std::string& how = "relaxed") {
      return Threads{{"all:  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n" +
                          only(other, "st.relaxed.gpu.global.u32 [%m], 1") + fence + synced +
                          only(from, "st." + how + ".gpu.global.u32 [%m+64], 1"),
                      "$L:\n  ld.acquire.gpu.global.u32 %v2, [%m+64];\n  setp.ne.u32 %q, %v2, 1;\n"
                      "  @%q bra $L;\n" +
                          sees(0)}};
    };
    CHECK(checked(hears(reader, "")) == "rank-lost");
    judge("clean", hears(other, ""));
    judge("clean", hears(reader, "  bar.warp.sync 3;\n", "release"));
    // A store publishes what was before its fence.
    CHECK(checked(hears(reader, "  bar.warp.sync 3;\n")) == "rank-lost");
    // Where a store lands.
    CHECK(checked({{"all:  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n" +
                    only(other, "st.relaxed.gpu.global.u32 [%m], 1") + fence +
                    only(reader, "st.relaxed.gpu.global.u32 [%m], 2") +
                    "  bar.warp.sync 3;\n  ld.relaxed.gpu.global.u32 %v2, [%m];\n"
                    "  setp.eq.u32 %q, %v2, 1;\n  @%q trap;\n"}}) == "rank-lost");
  }
  // Behind a barrier of all lanes nothing tells, however many they are.
  const std::string places =
      "all:  mul.wide.u32 %s, %lane, 4;\n  add.u64 %s, %s, %m;\n  xor.b32 %v1, %lane, 5;\n"
      "  mul.wide.u32 %t, %v1, 4;\n  add.u64 %t, %t, %m;\n"
      "  st.relaxed.gpu.global.u32 [%s], 1;\n";
  const std::string all =
      "  ld.relaxed.gpu.global.u32 %v2, [%t];\n  setp.eq.u32 %q, %v2, 0;\n"
      "  setp.eq.and.u32 %q, %lane, 31, %q;\n  @%q trap;\n";
  judge("clean", {{places + fence + "  bar.warp.sync 0xffffffff;\n" + all}});
  judge("clean", {{places + fence + "  bar.sync 0;\n" + all}});
  CHECK(checked({{places + fence + all}}) == "unknown");
  // Nor where one of them tells another warp.
  const std::string hears_all =
      "$L:\n  ld.acquire.gpu.global.u32 %v2, [%m+256];\n  setp.ne.u32 %q, %v2, 1;\n  @%q bra $L;\n"
      "  ld.relaxed.gpu.global.u32 %v2, [%m+120];\n  setp.eq.u32 %q, %v2, 0;\n  @%q trap;\n";
  judge("clean", {{places + fence + "  bar.warp.sync 0xffffffff;\n" +
                       only(0, "st.release.gpu.global.u32 [%m+256], 1"),
                   hears_all}});
  // Nothing tells their order.
  CHECK(executions({{"all:  fence.sc.gpu;\n  mul.wide.u32 %s, %lane, 4;\n  add.u64 %s, %s, %m;\n"
                     "  st.relaxed.gpu.global.u32 [%s], 1;\n  fence.sc.gpu;\n"}}) == 1);
}

TEST_CASE("a plain store that ends a poll which came later is a race, whoever comes first") {
  const auto lock = [](const std::string& how, const std::string& unlock) {
    return "$L:\n  atom.acquire.gpu.global." + how +
           " %v1, [%m], 0, 1;\n  setp.ne.u32 %q, %v1, 0;\n  @%q bra $L;\n" + unlock;
  };
  const std::string strong = "  st.release.gpu.global.u32 [%m], 0;\n";
  const std::string weak = "  st.global.u32 [%m], 0;\n";
  const std::string cas = "cas.b32";
  judge("clean", {{lock(cas, strong), lock(cas, strong)}});
  judge("data-race", {{lock(cas, strong), lock(cas, weak)}});
  judge("data-race", {{lock(cas, weak), lock(cas, strong)}});
  // The same where the poll exchanges, or loads.
  const std::string exchange =
      "$L:\n  atom.acquire.gpu.global.exch.b32 %v1, [%m], 1;\n"
      "  setp.ne.u32 %q, %v1, 0;\n  @%q bra $L;\n";
  judge("clean", {{exchange + strong, exchange + strong}});
  judge("data-race", {{exchange + strong, exchange + weak}});
  const std::string load =
      "$L:\n  ld.acquire.gpu.global.u32 %v1, [%m];\n"
      "  setp.ne.u32 %q, %v1, 0;\n  @%q bra $L;\n";
  const std::string set = "  atom.acquire.gpu.global.exch.b32 %v1, [%m], 1;\n";
  judge("clean", {{load, set + strong}});
  judge("data-race", {{load, set + weak}});
  // One that does not end the poll, which waits for ever then.
  const std::string two =
      "$L:\n  ld.acquire.gpu.global.u32 %v1, [%m];\n"
      "  setp.ne.u32 %q, %v1, 2;\n  @%q bra $L;\n";
  // (Schedules make looks in vain, and these race.)
  const Threads stuck{{two, set + "  st.global.u32 [%m], 3;\n"}};
  CHECK(checked(stuck) == "deadlock");
  CHECK(found(fuzz(*program_of(stuck), machine::Boundary::strict, 300)) == "data-race");
  judge("clean", {{two, set + "  mov.u32 %v1, 2;\n  st.release.gpu.global.u32 [%m], %v1;\n"}});
  // Behind a barrier the store is no race, and what the poll finds.
  judge("clean", {{"all:  bar.sync 1, 64;\n  setp.ne.u32 %q, %lane, 0;\n  @%q ret;\n" + load,
                   "all:  setp.ne.u32 %q, %lane, 0;\n  @%q bra $E;\n" + set + weak +
                       "$E:\n  bar.sync 1, 64;\n"}});
}

TEST_CASE("check does not speak for other answers of activemask, and says so with its line") {
  const auto left_out = [](const std::string& body) {
    return program_of(Threads{{body}})->left_out();
  };
  const auto said = left_out("  activemask.b32 %v1;\n  st.global.u32 [%m], %v1;\n");
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("activemask.b32") != std::string::npos);
  CHECK(left_out("  vote.sync.ballot.b32 %v1, %p, 1;\n  st.global.u32 [%m], %v1;\n").empty());
}

TEST_CASE("the arrival of one lane does not speak for what the others read") {
  const std::string met = "  bar.sync 1, 64;\n";
  const auto reader = [&](const std::string& between) {
    return Threads{
        {"all:  setp.eq.u32 %q, %lane, 0;\n  @%q mbarrier.init.shared.b64 [sm], 1;\n"
         "  @%q st.shared.u32 [sm+64], 1;\n" +
             met + "  ld.shared.u32 %v1, [sm+64];\n" + between +
             "  @%q mbarrier.arrive.shared.b64 %s, [sm];\n",
         "all:" + met + wait(0) +
             "  setp.eq.u32 %q, %lane, 0;\n"
             "  @%q st.shared.u32 [sm+64], 2;\n"}};
  };
  judge("data-race", reader(""));
  judge("clean", reader("  bar.warp.sync 0xffffffff;\n"));
}

TEST_CASE("a race in shared memory is told by its two accesses and their lines") {
  const auto program =
      program_of({{"  st.shared.u32 [sm+8], 1;\n", "  ld.shared.u32 %v1, [sm+8];\n"}});
  const auto r = fuzz(*program, Boundary::strict, 100);
  const auto f = schedule::failure(r.outcome);
  REQUIRE(f);
  CHECK(f->kind == machine::FindingKind::data_race);
  REQUIRE(f->has_first);
  CHECK(program->site_name(f->first.site).find("sm+8") != std::string::npos);
  CHECK(program->site_name(f->second.site).find("sm+8") != std::string::npos);
  CHECK(program->region_name(f->second.region) == "shared memory of block 0 of rank 0");
  CHECK(f->second.offset == 8);
}

TEST_CASE("an access of several elements has to be aligned to all of its bytes") {
  judge("misaligned", {{"  ld.global.v2.u32 {%v1, %v2}, [%m+4];\n"}});
  judge("misaligned", {{"  st.global.v4.u32 [%m+8], {%v1, %v1, %v1, %v1};\n"}});
  judge("clean", {{"  ld.global.v2.u32 {%v1, %v2}, [%m+8];\n"}});
}
