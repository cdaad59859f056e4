// Fences, cluster barriers and mbarriers do what their words say: directions, orders, scopes, and
// the rules that a use of a barrier has to keep. Each claim has a twin that lacks the word.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "emulator/trace/verdict.hpp"
#include "tests/cases/threads.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

const std::string kWrite = "  st.global.u32 [%m], 1;\n";
const std::string kRead = "  ld.global.u32 %v1, [%m];\n";
const std::string kInit = "  mbarrier.init.shared.b64 [sm], 1;\n";
const std::string kMet = "  bar.sync 1, 64;\n";
const std::string kCluster = "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n";

std::string arrive(const std::string& words) {
  return "  mbarrier.arrive" + words + ".shared.b64 %s, [sm];\n";
}
std::string wait(const std::string& words, int parity = 0) {
  const std::string label = "$W" + std::to_string(parity);
  return label + ":\n  mbarrier.try_wait.parity" + words + ".shared.b64 %q, [sm], " +
         std::to_string(parity) + ";\n  @!%q bra " + label + ";\n";
}
// Of block 1: the address of block 0's barrier in %v2.
const std::string kMap =
    "  mov.u32 %v3, 0;\n  mov.u32 %v2, sm;\n"
    "  mapa.shared::cluster.u32 %v2, %v2, %v3;\n";

}  // namespace

TEST_CASE("fence.acquire is no release pattern, and fence.release no acquire pattern") {
  const auto flagged = [](const std::string& writer, const std::string& reader) {
    return Threads{
        {kWrite + "  fence." + writer + ".gpu;\n  st.relaxed.gpu.global.u32 [%m+64], 1;\n",
         "$S:\n  ld.relaxed.gpu.global.u32 %v1, [%m+64];\n  setp.ne.u32 %q, %v1, 1;\n"
         "  @%q bra $S;\n  fence." +
             reader + ".gpu;\n" + kRead}};
  };
  judge("clean", flagged("release", "acquire"));
  judge("clean", flagged("acq_rel", "sc"));
  judge("data-race", flagged("acquire", "acquire"));
  judge("data-race", flagged("release", "release"));
}

TEST_CASE("a relaxed arrival at a cluster's barrier orders what a release fence of it covers") {
  const auto cluster = [](const std::string& fence, const std::string& order) {
    return Threads{
        {kWrite + fence + "  barrier.cluster.arrive" + order + ";\n  barrier.cluster.wait;\n",
         "  barrier.cluster.arrive.relaxed;\n  barrier.cluster.wait.acquire;\n" + kRead},
        2};
  };
  judge("clean", cluster("", ""));
  judge("clean", cluster("", ".release"));
  judge("data-race", cluster("", ".relaxed"));
  judge("clean", cluster("  fence.acq_rel.cluster;\n", ".relaxed"));
  judge("clean", cluster("  fence.release.gpu;\n", ".relaxed"));
  judge("data-race", cluster("  fence.acq_rel.cta;\n", ".relaxed"));
  judge("data-race", cluster("  fence.acquire.cluster;\n", ".relaxed"));
}

TEST_CASE("an mbarrier's arrivals and waits have the order that is written") {
  const auto handed = [](const std::string& before, const std::string& release,
                         const std::string& acquire, const std::string& behind) {
    return Threads{
        {kInit + kMet + kWrite + before + arrive(release), kMet + wait(acquire) + behind + kRead}};
  };
  judge("clean", handed("", "", "", ""));
  judge("clean", handed("", ".release.cta", ".acquire.cta", ""));
  judge("data-race", handed("", ".relaxed.cta", ".acquire.cta", ""));
  judge("data-race", handed("", ".release.cta", ".relaxed.cta", ""));
  judge("clean", handed("  fence.release.cta;\n", ".relaxed.cta", ".acquire.cta", ""));
  judge("clean", handed("", ".release.cta", ".relaxed.cta", "  fence.acquire.cta;\n"));
}

TEST_CASE("an mbarrier of another block needs the cluster's scope on both sides") {
  const auto remote = [](const std::string& release, const std::string& acquire) {
    return Threads{{kInit + kCluster + wait(acquire) + kRead + kCluster,
                    kCluster + kMap + kWrite + "  mbarrier.arrive" + release +
                        ".shared::cluster.b64 _, [%v2];\n" + kCluster},
                   2};
  };
  judge("clean", remote(".release.cluster", ".acquire.cluster"));
  judge("data-race", remote(".release.cta", ".acquire.cta"));
  judge("data-race", remote(".release.cluster", ".acquire.cta"));
  judge("data-race", remote(".release.cta", ".acquire.cluster"));
}

TEST_CASE("what says no scope there is the cluster's as shipped, and the block's by the letter") {
  const auto remote = [](const std::string& release, const std::string& acquire) {
    return Threads{{kInit + kCluster + wait(acquire) + kRead + kCluster,
                    kCluster + kMap + kWrite + "  mbarrier.arrive" + release +
                        ".shared::cluster.b64 _, [%v2];\n" + kCluster},
                   2};
  };
  machine::Policy letter;
  letter.mbarrier_remote = machine::MbarrierRemote::letter;
  judge("clean", remote("", ""));
  judge("data-race", remote("", ""), letter);
  judge("clean", remote(".release.cluster", ".acquire.cluster"), letter);
}

TEST_CASE("a form for the own block's mbarriers on another block's is a misuse") {
  const auto other = [](const std::string& words) {
    return Threads{{kInit + kCluster + wait("") + kCluster,
                    kCluster + kMap + "  mbarrier.arrive" + words + ", [%v2];\n" + kCluster},
                   2};
  };
  judge("clean", other(".release.cluster.shared::cluster.b64 _"));
  judge("barrier-misuse", other(".shared.b64 %s"));
  judge("barrier-misuse", other(".release.cta.shared::cta.b64 %s"));
}

TEST_CASE("a phase that nobody waits for is overrun by the next one's arrivals") {
  const auto twice = [](const std::string& between) {
    return Threads{{kInit + arrive("") + between + arrive("")}};
  };
  judge("clean", twice(wait("")));
  judge("barrier-misuse", twice(""));
}

TEST_CASE("an arrival that may come before the wait for the phase before overruns it") {
  // The third warp arrives behind both arrivals of the phase, and behind a wait for it or not. In
  // the first order that is tried the waiting warp is through by then.
  const auto third = [](const std::string& waits, const std::string& tells) {
    const std::string tell = "  st.release.gpu.global.u32 [%m+64], 1;\n";
    const std::string told =
        "$S:\n  ld.acquire.gpu.global.u32 %v1, [%m+64];\n  setp.ne.u32 %q, %v1, 1;\n  @%q bra "
        "$S;\n";
    const std::string met = "  bar.sync 1, 96;\n";
    const std::string init = "  mbarrier.init.shared.b64 [sm], 2;\n";
    return Threads{{init + met + wait("") + (waits.empty() ? "" : tell),
                    met + arrive("") + arrive("") + (tells.empty() ? "" : tell),
                    met + told + arrive("")}};
  };
  judge("clean", third("tells", ""));
  judge("barrier-misuse", third("", "tells"));
}

TEST_CASE("lanes of one warp that wait and arrive apart may overrun a phase, or it is left open") {
  // Lane 1 arrives in the next phase as soon as it is told that this one is complete, whether lane
  // 0 is through its wait or not: but for the order in which a run steps the two sides.
  const auto split = [](const std::string& met) {
    const std::string side =
        "  setp.eq.u32 %q, %lane, 0;\n  @!%q bra $N;\n" + wait("") + "$N:\n" + met +
        "  setp.eq.u32 %q, %lane, 1;\n  @!%q bra $E;\n"
        "$S:\n  ld.acquire.gpu.global.u32 %v1, [%m+64];\n  setp.ne.u32 %q, %v1, 1;\n  @%q bra "
        "$S;\n" +
        arrive("") + "$E:\n";
    return Threads{
        {"all:  setp.eq.u32 %q, %lane, 0;\n  @%q mbarrier.init.shared.b64 [sm], 2;\n"
         "  bar.sync 1, 64;\n" +
             side,
         "  bar.sync 1, 64;\n" + arrive("") + arrive("") +
             "  st.release.gpu.global.u32 [%m+64], 1;\n"}};
  };
  CHECK(checked(split("  bar.warp.sync 0xffffffff;\n")) == "clean");
  CHECK(checked(split("")) != "clean");
}

TEST_CASE("what a phase is to expect may come behind the arrival that ends it") {
  // The second warp's arrival is the only one that the phase counts: nothing but an order keeps it
  // behind the count of the bytes.
  const auto counted = [](const std::string& behind, const std::string& before) {
    const std::string copy =
        "  mov.u32 %v2, 16;\n  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [sm], %v2;\n"
        "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[sm+64], [%m], %v2, [sm];\n";
    return Threads{{kInit + kMet + copy + behind + wait("") + "  ld.shared.u32 %v1, [sm+64];\n",
                    kMet + before + arrive("")}};
  };
  const std::string again = "  bar.sync 2, 64;\n";
  judge("clean", counted(again, again));
  CHECK(checked(counted("", "")) != "clean");
}

TEST_CASE("bytes that come in a phase which does not expect them are a misuse") {
  // Were the copy slower, the arrival would complete the phase without it.
  const auto counted = [](const std::string& first, const std::string& second) {
    return Threads{{kInit + "  mov.u32 %v2, 16;\n" + first +
                    "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                    "[sm+64], [%m], %v2, [sm];\n" +
                    second + wait("")}};
  };
  const std::string expect = "  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [sm], %v2;\n";
  judge("clean", counted(expect, arrive("")));
  judge("clean", counted("", expect + arrive("")));
  judge("barrier-misuse", counted("", arrive("") + expect));
}

TEST_CASE("bar.red does not meet bar.sync or bar.arrive") {
  const std::string red = "all:  setp.eq.u32 %q, %lane, 0;\n  bar.red.popc.u32 %v1, 1, 64, %q;\n";
  judge("clean", {{red, red}});
  judge("barrier-misuse", {{red, "all:  bar.sync 1, 64;\n"}});
  judge("barrier-misuse", {{red, "all:  bar.arrive 1, 64;\n"}});
}

TEST_CASE("a barrier that is used wrongly is told by its line, and by no earlier access") {
  const std::string read = "all:  ld.global.u32 %v2, [%m+64];\n";
  const std::string red = "  setp.eq.u32 %q, %lane, 0;\n  bar.red.popc.u32 %v1, 1, 64, %q;\n";
  const auto program = program_of({{read + red, read + "  bar.sync 1, 64;\n"}});
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  REQUIRE(schedule::failure(outcome));
  CHECK(schedule::failure(outcome)->kind == machine::FindingKind::barrier_misuse);
  const std::string message = trace::make_verdict(outcome, *program).message;
  CAPTURE(message);
  CHECK(message.starts_with("rank 0, block 0, thread "));
  CHECK(message.find(": barrier 1 is active with bar.red by some of its threads") !=
        std::string::npos);
  CHECK(message.find(" reads ") == std::string::npos);
  CHECK(message.find("data") == std::string::npos);
  CHECK(message.find("access") == std::string::npos);
}

TEST_CASE("what a thread does that is undefined is told as that, and not as a barrier it misses") {
  const auto told = [](const Threads& t) {
    const auto program = program_of(t);
    const auto executor = ranks::make_inline(*program);
    schedule::RunSpec spec;
    spec.strategy.kind = schedule::StrategySpec::Kind::first;
    const schedule::Outcome outcome = executor->run(spec);
    REQUIRE(schedule::failure(outcome));
    CHECK(schedule::failure(outcome)->kind == machine::FindingKind::barrier_divergence);
    return trace::make_verdict(outcome, *program).message;
  };
  const std::string beyond = told(
      {{"  mov.u32 %v1, 2;\n$T: .branchtargets $A, $B;\n  brx.idx %v1, $T;\n$A:\n$B:\n  ret;\n"}});
  const std::string twice = told({{"  bar.arrive 1, 64;\n  bar.arrive 1, 64;\n", ""}});
  for (const std::string& message : {beyond, twice}) {
    CAPTURE(message);
    CHECK(message.starts_with("rank 0, block 0, thread 0 at "));
    CHECK(message.find("take part") == std::string::npos);
    CHECK(message.find("others wait") == std::string::npos);
  }
  CHECK(beyond.ends_with(": brx.idx index 2 is beyond its 2 labels"));
  CHECK(twice.ends_with(": the warp arrives twice at barrier 1 before it completes"));
}

TEST_CASE("stores of one value to a word of shared memory are a note where nothing orders them") {
  const std::string head =
      ".visible .entry k(.param .u64 data)\n{\n  .reg .pred %p;\n  .reg .b32 %t, %v, %w;\n"
      "  .reg .b64 %m;\n  .shared .align 16 .b8 sm[64];\n  ld.param.u64 %m, [data];\n"
      "  mov.u32 %t, %tid.x;\n  setp.ge.u32 %p, %t, 32;\n";
  // Two warps, one of which stores 7.
  const auto stores = [&](const std::string& second, const std::string& rest = "") {
    return head + "  selp.b32 %v, " + second + ", 7, %p;\n  st.shared.u32 [sm], %v;\n" + rest +
           "  ret;\n}\n";
  };
  // By two instructions, as behind a lock that orders nothing.
  const std::string apart = head +
                            "  mov.u32 %v, 7;\n  @%p bra SECOND;\n  st.shared.u32 [sm], %v;\n"
                            "  ret;\nSECOND:\n  st.shared.u32 [sm], %v;\n  ret;\n}\n";
  const std::string launch =
      "ranks = 1\n[memory.data]\nkind = \"local\"\nbytes = 64\ninit = \"zero\"\n[[launch]]\n"
      "ptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [1]\nblock = [64]\nargs = [ {memory = \"data\"} ]\n";
  const auto both = [&](const std::string& kernel, const std::string& key,
                        std::vector<std::string>* told = nullptr) {
    const Written w(kernel);
    const auto program = w.open(key + launch);
    const std::string kind = found(fuzz(*program, machine::Boundary::strict, 100, {}, [&] {
      if (told != nullptr) *told = program->remarks();
    }));
    check::CheckSpec spec;
    spec.run.policy.boundary = machine::Boundary::strict;
    const check::CheckResult r = check::check([&] { return w.open(key + launch); }, spec);
    const auto f = schedule::failure(r.outcome);
    CHECK((f ? std::string(machine::name(f->kind)) : "clean") == kind);
    CHECK(r.verdict != check::Verdict::unknown);
    return kind;
  };
  const std::string race = "same_value = \"race\"\n", load = "  ld.shared.u32 %w, [sm];\n";
  for (const std::string& rest : {std::string(), "  bar.sync 0;\n" + load}) {
    std::vector<std::string> told;
    CHECK(both(stores("7", rest), "", &told) == "clean");
    CHECK(std::any_of(told.begin(), told.end(), [](const std::string& text) {
      return says(text, "store the same value") && says(text, "st.shared.u32 [sm], %v");
    }));
    CHECK(both(stores("7", rest), race) == "data-race");
  }
  // Another value; a reader that nothing puts behind the other warp's store; two instructions.
  CHECK(both(stores("8"), "") == "data-race");
  CHECK(both(stores("7", load), "") == "data-race");
  CHECK(both(apart, "") == "data-race");
  CHECK(says(Written(stores("7")).refusal("same_value = \"off\"\n" + launch), "\"note\" or"));
}
