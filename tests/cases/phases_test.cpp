// Loops around a look at an mbarrier's phase: a loop waits only if a whole iteration repeats, and
// then for all that it read. Each claim by the exhaustive search and by schedules, with a broken
// twin.

#include <doctest/doctest.h>

#include <string>

#include "tests/cases/threads.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

const std::string kMetTwo = "  bar.sync 1, 64;\n";
const std::string kMetThree = "  bar.sync 1, 96;\n";
const std::string kInitPhase = "  mbarrier.init.shared.b64 [sm], 1;\n";
const std::string kArrivePhase = "  mbarrier.arrive.shared.b64 %s, [sm];\n";
const std::string kWriteData = "  st.global.u32 [%m], 1;\n";
const std::string kReadData = "  ld.global.u32 %v8, [%m];\n";
const std::string kSetFlag = "  st.release.gpu.global.u32 [%m+128], 1;\n";
const std::string kSharedFlag = "  st.release.cta.shared.u32 [sm+128], 1;\n";

std::string look_at(const std::string& into, const std::string& at = "[sm]",
                    const std::string& phase = "0") {
  return "  mbarrier.test_wait.parity.shared.b64 " + into + ", " + at + ", " + phase + ";\n";
}

// Until the phase is complete, the flag is set, or both.
std::string loop_until(const std::string& how,
                       const std::string& flag = "gpu.global.u32 %v1, [%m+128]") {
  return "$W:\n" + look_at("%q") + "  ld.acquire." + flag + ";\n  setp.ne.u32 %r, %v1, 0;\n  " +
         how + ".pred %r, %r, %q;\n  @!%r bra $W;\n";
}

// Three looks at most; %q: the last one's answer.
std::string attempts_at(const std::string& most = "3") {
  return "  mov.u32 %v3, 0;\n$W:\n" + look_at("%q") +
         "  @%q bra $D;\n  add.u32 %v3, %v3, 1;\n  setp.lt.u32 %r, %v3, " + most +
         ";\n  @%r bra $W;\n$D:\n";
}

const std::string kTrapsMissed = "  @!%q trap;\n";

}  // namespace

TEST_CASE("a loop that looks at a phase and at a flag ends by either") {
  const std::string shared = "cta.shared.u32 %v1, [sm+128]";
  const std::string zero = "  st.shared.u32 [sm+128], 0;\n";
  judge("clean", {{kInitPhase + kMetTwo + loop_until("or"), kMetTwo + kSetFlag}});
  judge("clean", {{kInitPhase + kMetTwo + loop_until("or"), kMetTwo + kArrivePhase}});
  judge("clean", {{kInitPhase + zero + kMetTwo + loop_until("or", shared), kMetTwo + kSharedFlag}});
  judge("deadlock", {{kInitPhase + kMetTwo + loop_until("and"), kMetTwo + kSetFlag}});
  judge("deadlock", {{kInitPhase + kMetTwo + loop_until("and"), kMetTwo + kArrivePhase}});
  judge("deadlock",
        {{kInitPhase + zero + kMetTwo + loop_until("and", shared), kMetTwo + kSharedFlag}});
}

TEST_CASE("and whoever leaves it by the flag has not seen what the phase publishes") {
  const auto left = [](const std::string& how) {
    return Threads{{kInitPhase + kMetThree + loop_until(how) + kReadData,
                    kMetThree + kWriteData + kArrivePhase,
                    kMetThree + "  st.relaxed.gpu.global.u32 [%m+128], 1;\n"}};
  };
  judge("data-race", left("or"));
  judge("clean", left("and"));
}

TEST_CASE("attempts to see a phase complete may all be in vain") {
  const auto tried = [](const std::string& then) {
    return Threads{{kInitPhase + kMetTwo + attempts_at() + then, kMetTwo + kArrivePhase}};
  };
  judge("rank-lost", tried(kTrapsMissed));
  judge("clean", tried(""));
  CHECK(executions(tried("")) == 4);
  // Or one of them is not.
  judge("rank-lost", tried("  @%q trap;\n"));
  // Nobody arrives.
  judge("clean", {{kInitPhase + attempts_at()}});
  judge("rank-lost", {{kInitPhase + attempts_at() + kTrapsMissed}});
  // What is left of the attempts when the phase is complete.
  judge("rank-lost", tried("  setp.eq.and.u32 %r, %v3, 1, %q;\n  @%r trap;\n"));
  judge("clean", tried("  setp.eq.and.u32 %r, %v3, 3, %q;\n  @%r trap;\n"));
}

TEST_CASE("attempts that are never counted to an end are a wait") {
  const std::string forever =
      "  mov.u32 %v3, 0;\n$W:\n" + look_at("%q") + "  add.u32 %v3, %v3, 1;\n  @!%q bra $W;\n";
  const Threads waits{
      {kInitPhase + kMetTwo + forever + kReadData, kMetTwo + kWriteData + kArrivePhase}};
  judge("clean", waits);
  CHECK(executions(waits) == 1);
  judge("deadlock", {{kInitPhase + kMetTwo + forever, kMetTwo + kWriteData}});
}

TEST_CASE("and so may attempts that look for bytes") {
  const auto copied = [](const std::string& most, const std::string& then) {
    return Threads{{kInitPhase +
                    "  mbarrier.arrive.expect_tx.shared.b64 %s, [sm], 16;\n"
                    "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                    "[sm+16], [%m], 16, [sm];\n" +
                    attempts_at(most) + then + "$V:\n" + look_at("%q") + "  @!%q bra $V;\n"}};
  };
  const std::string third = "  setp.ge.u32 %r, %v3, 2;\n  @%r trap;\n";
  judge("rank-lost", copied("3", third));
  judge("clean", copied("2", "  setp.ge.u32 %r, %v3, 3;\n  @%r trap;\n"));
}

TEST_CASE("a loop over two phases waits for both") {
  const auto both = [](const std::string& how) {
    return Threads{{"  mbarrier.init.shared.b64 [sm+8], 1;\n" + kInitPhase + kMetThree + "$W:\n" +
                        look_at("%q") + look_at("%r", "[sm+8]") + "  " + how +
                        ".pred %p, %q, %r;\n  @!%p bra $W;\n" + kReadData +
                        "  ld.global.u32 %v8, [%m+64];\n",
                    kMetThree + kWriteData + kArrivePhase,
                    kMetThree + "  st.global.u32 [%m+64], 1;\n"
                                "  mbarrier.arrive.shared.b64 %s, [sm+8];\n"}};
  };
  judge("clean", both("and"));
  CHECK(executions(both("and")) <= 4);
  judge("data-race", both("or"));
}

TEST_CASE("a loop that was a wait once is none where its registers lead elsewhere") {
  // First for phase 0 alone, then for phase 1 or the flag.
  const auto twice = [](const std::string& before) {
    return Threads{{kInitPhase + kMetTwo + "  mov.u32 %v2, 0;\n$A:\n$W:\n" +
                        look_at("%q", "[sm]", "%v2") + "  @%q bra $D;\n  setp.lt.u32 %r, %v2, " +
                        before +
                        ";\n  @%r bra $W;\n  ld.acquire.gpu.global.u32 %v1, [%m+128];\n"
                        "  setp.eq.u32 %r, %v1, 0;\n  @%r bra $W;\n$D:\n  add.u32 %v2, %v2, 1;\n"
                        "  setp.lt.u32 %r, %v2, 2;\n  @%r bra $A;\n",
                    kMetTwo + kArrivePhase + kSetFlag}};
  };
  judge("clean", twice("1"));
  judge("deadlock", twice("2"));
}
