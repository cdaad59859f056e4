// Asynchronous operations are in no thread's program order, and bulk copies go through the async
// proxy: what is ordered with them is what a wait for their end or a fence.proxy.async orders. Each
// claim by the exhaustive search and by schedules, with a twin that lacks the wait or the fence.

#include <doctest/doctest.h>

#include <string>

#include "tests/cases/threads.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

const std::string kFence = "  fence.proxy.async.shared::cta;\n";
const std::string kMet = "  bar.sync 1, 64;\n";
const std::string kInit = "  mbarrier.init.shared.b64 [sm+128], 1;\n";
const std::string kCommit = "  cp.async.bulk.commit_group;\n";
const std::string kEnd = "  cp.async.bulk.wait_group 0;\n";
const std::string kRead = "  cp.async.bulk.wait_group.read 0;\n";
const std::string kFlag = "  st.release.gpu.global.u32 [%m+512], 1;\n";
const std::string kSpin =
    "$S:\n  ld.acquire.gpu.global.u32 %v1, [%m+512];\n  setp.ne.u32 %q, %v1, 1;\n  @%q bra $S;\n";
const std::string kStore =
    "  cp.async.bulk.global.shared::cta.bulk_group [%m], [sm], 16;\n" + kCommit;
const std::string kExpect = "  mbarrier.arrive.expect_tx.shared.b64 %s, [sm+128], 16;\n";
const std::string kLoad =
    "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%m], 16, "
    "[sm+128];\n";
std::string wait(int parity = 0) {
  const std::string label = "$W" + std::to_string(parity);
  return label + ":\n  mbarrier.try_wait.parity.shared.b64 %q, [sm+128], " +
         std::to_string(parity) + ";\n  @!%q bra " + label + ";\n";
}

}  // namespace

TEST_CASE("a flag publishes a bulk store only behind a full wait for its group") {
  const auto stored = [](const std::string& between) {
    return Threads{{"  st.shared.u32 [sm], 7;\n" + kFence + kStore + between + kFlag + kEnd,
                    kSpin + "  ld.global.u32 %v1, [%m];\n"}};
  };
  judge("clean", stored(kEnd));
  judge("data-race", stored(kRead));
  judge("data-race", stored(""));
}

TEST_CASE("what threads write in shared memory needs a proxy fence before a bulk store reads it") {
  const auto stored = [](const std::string& mine, const std::string& issuers) {
    return Threads{{"  st.shared.u32 [sm], 7;\n" + mine + kMet, kMet + issuers + kStore + kEnd}};
  };
  judge("clean", stored(kFence, ""));
  judge("clean", stored("", kFence));
  judge("data-race", stored("", ""));
  judge("data-race", stored("", "  fence.proxy.async.global;\n"));
}

TEST_CASE("and what they write in global memory before a bulk load reads it") {
  const auto loaded = [](const std::string& fence) {
    return Threads{{kInit + "  st.global.u32 [%m], 7;\n" + fence + kExpect + kLoad + wait()}};
  };
  judge("clean", loaded("  fence.proxy.async;\n"));
  judge("clean", loaded("  fence.proxy.async.global;\n"));
  judge("data-race", loaded(""));
  judge("data-race", loaded(kFence));
}

TEST_CASE("a source may be written again behind .read, the destination only behind the full wait") {
  const auto again = [](const std::string& wait, const std::string& write) {
    return Threads{{kStore + wait + write + kEnd}};
  };
  judge("clean", again(kRead, "  st.shared.u32 [sm], 1;\n"));
  judge("data-race", again("", "  st.shared.u32 [sm], 1;\n"));
  judge("data-race", again(kRead, "  st.global.u32 [%m], 1;\n"));
  judge("clean", again(kEnd, "  st.global.u32 [%m], 1;\n"));
}

TEST_CASE("a group is waited for by the thread that committed it") {
  const auto reused = [](const std::string& issuer, const std::string& other) {
    return Threads{{kStore + issuer + kMet + kEnd, other + kMet + "  st.shared.u32 [sm], 1;\n"}};
  };
  judge("clean", reused(kRead, ""));
  judge("data-race", reused("", kRead));
}

TEST_CASE("a bulk load's bytes are there for who has seen its mbarrier's phase") {
  const auto loaded = [](const std::string& reader) {
    return Threads{{kInit + kMet + kExpect + kLoad, kMet + reader}};
  };
  const std::string read = "  ld.shared.u32 %v1, [sm];\n";
  judge("clean", loaded(wait() + read));
  judge("data-race", loaded(read + wait()));
  // The next load into the stage comes behind the wait as well.
  judge("clean", {{kInit + kExpect + kLoad + wait() + kExpect + kLoad + wait(1)}});
}

TEST_CASE("a load into a stage that was read needs a proxy fence by the letter: noted, or a race") {
  const auto says = [](const std::vector<std::string>& remarks, const std::string& text) {
    return remarks.size() == 1 && remarks[0].find(text) != std::string::npos;
  };
  machine::Policy letter, off;
  letter.async_war = machine::AsyncWar::fence_required;
  off.async_war = machine::AsyncWar::off;
  const std::string read = "  ld.shared.u32 %v1, [sm];\n";
  // By one thread, and by another one whose barrier comes before the load.
  const auto own = [&](const std::string& fence) {
    return Threads{{kInit + kExpect + kLoad + wait() + read + fence + kExpect + kLoad + wait(1)}};
  };
  const auto others = [&](const std::string& fence) {
    return Threads{{kInit + kMet + kExpect + kLoad + wait() + kMet + kExpect + kLoad + wait(1),
                    kMet + wait() + read + fence + kMet}};
  };
  for (const bool alone : {true, false}) {
    CAPTURE(alone);
    const auto staged = [&](const std::string& fence) {
      return alone ? own(fence) : others(fence);
    };
    CHECK(says(judge("clean", staged(""), machine::Policy{}), "ld.shared.u32"));
    CHECK(judge("clean", staged(""), off).empty());
    judge("data-race", staged(""), letter);
    CHECK(judge("clean", staged(kFence), machine::Policy{}).empty());
    CHECK(judge("clean", staged(kFence), letter).empty());
  }
}

TEST_CASE("a thread that ends without a wait for what its bulk store reads is noted") {
  const auto stored = [](const std::string& end) {
    return Threads{{"  st.shared.u32 [sm], 7;\n" + kFence +
                    "  cp.async.bulk.global.shared::cta.bulk_group [%m], [sm], 16;\n" + end}};
  };
  for (const std::string& end : {std::string(), kCommit}) {
    const auto remarks = judge("clean", stored(end), machine::Policy{});
    REQUIRE(remarks.size() == 1);
    CHECK(remarks[0].find("cp.async.bulk.wait_group.read before the exit") != std::string::npos);
  }
  CHECK(judge("clean", stored(kCommit + kRead), machine::Policy{}).empty());
  CHECK(judge("clean", stored(kCommit + kEnd), machine::Policy{}).empty());
}

TEST_CASE("fences that the model has no rule for are named") {
  const auto left_out = [](const std::string& fence) {
    return program_of(Threads{{fence}})->left_out();
  };
  for (const std::string fence :
       {"fence.proxy.tensormap::generic.release.gpu",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster"}) {
    const std::vector<std::string> named = left_out("  " + fence + ";\n");
    REQUIRE(named.size() == 1);
    CHECK(named[0].find(fence) != std::string::npos);
  }
  for (const std::string fence : {"fence.proxy.async", "fence.proxy.async.shared::cta",
                                  "fence.acq_rel.gpu", "fence.mbarrier_init.release.cluster"}) {
    CHECK(left_out("  " + fence + ";\n").empty());
  }
}

TEST_CASE("bytes come at any time: one look may miss its copy, and the next one not") {
  const auto copied = [](int stage) {
    const std::string barrier = "[sm+" + std::to_string(128 + 8 * stage) + "]";
    return "  mbarrier.init.shared.b64 " + barrier +
           ", 1;\n  mbarrier.arrive.expect_tx.shared.b64 %s, " + barrier +
           ", 16;\n  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+" +
           std::to_string(16 * stage) + "], [%m], 16, " + barrier + ";\n";
  };
  const auto look = [](const std::string& p, int stage) {
    return "  mbarrier.test_wait.parity.shared.b64 " + p + ", [sm+" +
           std::to_string(128 + 8 * stage) + "], 0;\n";
  };
  const std::string both = copied(0) + copied(1) + look("%p", 0) + look("%q", 1);
  const std::string end =
      "$W:\n" + look("%r", 0) + "  @!%r bra $W;\n$V:\n" + look("%r", 1) + "  @!%r bra $V;\n";
  judge("rank-lost", {{both + "  not.pred %r, %p;\n  and.pred %r, %r, %q;\n  @%r trap;\n" + end}});
  judge("rank-lost", {{both + "  not.pred %r, %q;\n  and.pred %r, %r, %p;\n  @%r trap;\n" + end}});
  // A look that has seen it is not followed by one that has not.
  judge("clean", {{both + look("%r", 0) +
                   "  not.pred %r, %r;\n  and.pred %r, %r, %p;\n  @%r trap;\n" + end}});
}

TEST_CASE("before the bytes come a look by the other parity finds the phase before complete") {
  const std::string copied =
      "  mbarrier.init.shared.b64 [sm+128], 1;\n"
      "  mbarrier.arrive.expect_tx.shared.b64 %s, [sm+128], 16;\n"
      "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%m], 16, "
      "[sm+128];\n";
  const auto look = [](const std::string& p, const std::string& parity) {
    return "  mbarrier.test_wait.parity.shared.b64 " + p + ", [sm+128], " + parity + ";\n";
  };
  const auto loop = [&](const std::string& parity) {
    return "$W" + parity + ":\n" + look("%r", parity) + "  @!%r bra $W" + parity + ";\n";
  };
  const std::string trap = "  @%q trap;\n", read = "  ld.shared.u32 %v1, [sm];\n";
  judge("rank-lost", {{copied + look("%q", "1") + trap + loop("0")}});
  judge("rank-lost", {{copied + kMet + loop("0"), kMet + look("%q", "1") + trap}});
  // Whoever has seen the phase complete, or is behind one who has, is told of no earlier one.
  judge("clean", {{copied + loop("0") + look("%q", "1") + trap}});
  judge("clean", {{copied + loop("0") + kMet, kMet + look("%q", "1") + trap}});
  // Two looks of another thread: never both in vain, and each by itself may be.
  const auto two = [&](const std::string& how) {
    return Threads{{copied + kMet + loop("0"),
                    kMet + look("%q", "1") + look("%r", "0") + how + "  @%q trap;\n"}};
  };
  judge("clean", two("  or.pred %q, %q, %r;\n  not.pred %q, %q;\n"));
  judge("rank-lost", two("  and.pred %q, %q, %r;\n"));
  judge("rank-lost", two("  not.pred %r, %r;\n  and.pred %q, %q, %r;\n"));
  judge("rank-lost", two("  not.pred %q, %q;\n"));
  // A loop by the wrong parity: nothing ends it, or it ends too early.
  judge("data-race", {{copied + loop("1") + read}}, {machine::FindingKind::deadlock});
  judge("clean", {{copied + loop("0") + read}});
  const std::string init = copied.substr(0, copied.find('\n') + 1);
  const std::string filled = copied.substr(init.size());
  judge("deadlock", {{init + kMet + loop("1"), kMet + filled}});
  judge("deadlock", {{kMet + loop("1"), init + kMet + filled}});
  judge("clean", {{init + kMet + loop("0") + read, kMet + filled}});
  judge("clean", {{init + kMet + loop("1") + loop("0") + read, kMet + filled}},
        {machine::FindingKind::deadlock});
  judge("data-race", {{init + kMet + loop("1") + read, kMet + filled}},
        {machine::FindingKind::deadlock});
}

TEST_CASE("who has seen a phase that bytes complete is behind the copy") {
  const auto told = [](const std::string& then) {
    return Threads{{kInit + kMet + kExpect + kLoad, kMet + wait() + then,
                    "  ld.relaxed.gpu.global.u32 %v1, [%m+512];\n  setp.eq.u32 %q, %v1, 1;\n"
                    "  @%q trap;\n"}};
  };
  judge("rank-lost", told("  st.relaxed.gpu.global.u32 [%m+512], 1;\n"));
  judge("clean", told(""));
}

TEST_CASE("the end of a copy does not carry what its issuer did before") {
  const auto behind = [](const std::string& first, const std::string& second) {
    return Threads{{kInit + kMet + first + kExpect + second + kLoad,
                    kMet + wait() + "  ld.global.u32 %v1, [%m+64];\n"}};
  };
  const std::string write = "  st.global.u32 [%m+64], 1;\n";
  judge("clean", behind(write, ""));
  judge("data-race", behind("", write));
}

TEST_CASE("two asynchronous operations of a thread are not in its program order") {
  const auto twice = [](const std::string& between) {
    return Threads{{kStore + between + kStore + kEnd}};
  };
  judge("clean", twice(kEnd));
  judge("data-race", twice(kRead));
  judge("data-race", twice(""));
}

TEST_CASE("a bulk reduction is atomic with bulk reductions, and races with red") {
  const std::string bulk =
      "  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%m], [sm], 16;\n" + kCommit +
      kEnd;
  const std::string red = "  red.relaxed.sys.global.add.u32 [%m], 1;\n";
  judge("clean", {{bulk, bulk}});
  judge("clean", {{red, red}});
  judge("data-race", {{bulk, red}});
}

TEST_CASE("cp.async is done for its thread behind the wait, and for others behind a barrier") {
  const std::string copy = "  cp.async.ca.shared.global [sm], [%m], 4;\n  cp.async.commit_group;\n";
  const std::string end = "  cp.async.wait_group 0;\n", read = "  ld.shared.u32 %v1, [sm];\n";
  judge("clean", {{copy + end + read}});
  judge("data-race", {{copy + read + end}});
  judge("clean", {{copy + end + kMet, kMet + read}});
  judge("data-race", {{copy + kMet + end, kMet + read}});
  judge("clean", {{kInit + kMet + copy + "  cp.async.mbarrier.arrive.noinc.shared.b64 [sm+128];\n",
                   kMet + wait() + read}});
  judge("data-race", {{copy + end + "  st.global.u32 [%m], 1;\n" + copy + end, read}});
}

TEST_CASE("st.async is in nobody's program order, and of the generic proxy") {
  const std::string cluster = "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n";
  const std::string map =
      "  mov.u32 %v3, 0;\n  mov.u32 %v2, sm;\n  mapa.shared::cluster.u32 %v2, %v2, %v3;\n";
  const std::string store =
      "  mov.u32 %v4, 7;\n"
      "  st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%v2], %v4, [%v2+128];\n";
  const auto sent = [&](const std::string& owner, const std::string& sender) {
    return Threads{{kInit + "  mbarrier.arrive.expect_tx.shared.b64 %s, [sm+128], 4;\n" + cluster +
                        owner + cluster,
                    cluster + map + store + sender + cluster},
                   2};
  };
  const std::string read = "  ld.shared.u32 %v1, [sm];\n";
  judge("clean", sent(wait() + read, ""));
  judge("data-race", sent(read + wait(), ""));
  judge("data-race", sent(wait() + read, "  ld.shared::cluster.u32 %v1, [%v2];\n"));
}

TEST_CASE("fence.mbarrier_init and a relaxed arrival publish inits, and nothing else") {
  const std::string arrive = "  barrier.cluster.arrive.relaxed;\n  barrier.cluster.wait;\n";
  const std::string cluster = "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n";
  const std::string map =
      "  mov.u32 %v3, 0;\n  mov.u32 %v2, sm;\n  mapa.shared::cluster.u32 %v2, %v2, %v3;\n";
  const auto begun = [&](const std::string& fence, const std::string& peer) {
    return Threads{
        {"  st.global.u32 [%m], 1;\n" + kInit + fence + arrive + wait() + cluster,
         arrive + map + peer +
             "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%v2+128];\n" + cluster},
        2};
  };
  const std::string fence = "  fence.mbarrier_init.release.cluster;\n";
  judge("clean", begun(fence, ""));
  judge("uninitialised-barrier", begun("", ""));
  judge("data-race", begun(fence, "  ld.global.u32 %v1, [%m];\n"));
  judge("clean", begun("  fence.acq_rel.cluster;\n", "  ld.global.u32 %v1, [%m];\n"));
}

TEST_CASE("ld.global.nc of what the kernel writes is a finding, however it is ordered") {
  const auto read = [](const std::string& how) {
    return Threads{
        {"  st.global.u32 [%m], 1;\n" + kMet, kMet + "  ld.global" + how + ".u32 %v1, [%m];\n"}};
  };
  judge("clean", read(""));
  judge("incoherent-read", read(".nc"));
  judge("incoherent-read",
        {{"  ld.global.nc.u32 %v1, [%m];\n" + kMet, kMet + "  st.global.u32 [%m], 1;\n"}});
  judge("clean", {{"  ld.global.nc.u32 %v1, [%m];\n", "  st.global.u32 [%m+4], 1;\n"}});
}

TEST_CASE(
    "a strong store races with a bulk load's bytes, whichever stands before its access first") {
  // The other thread may already be at its store when the copy comes.
  const std::string first = "  st.relaxed.gpu.shared.u32 [sm], 1;\n" + kFence;
  const std::string other = "  st.relaxed.gpu.shared.u32 [sm], 2;\n";
  const auto loaded = [&](const std::string& before) {
    return Threads{
        {kInit + kMet + first + kExpect + kLoad + wait() + "  ld.shared.u32 %v1, [sm];\n",
         kMet + before + other}};
  };
  judge("data-race", loaded(""));
  const std::string after = "  bar.sync 2, 64;\n";
  judge("clean",
        Threads{{kInit + kMet + first + kExpect + kLoad + wait() + after, kMet + after + other}});
  judge("clean", Threads{{kInit + kMet + after + first + kExpect + kLoad + wait(),
                          kMet + other + kFence + after}});
}

TEST_CASE("a bulk load races with each of two strong stores that nothing orders") {
  // Its own thread's store is the last, and ordered before it; the other one is not.
  const auto stored = [](const std::string& release, const std::string& acquire) {
    return Threads{
        {kInit + "$S:\n  ld." + acquire + ".gpu.global.u32 %v1, [%m+512];\n" +
             "  setp.ne.u32 %q, %v1, 1;\n  @%q bra $S;\n  st.relaxed.gpu.shared.u32 [sm], 1;\n" +
             kFence + kExpect + kLoad + wait(),
         "  st.relaxed.gpu.shared.u32 [sm], 2;\n  st." + release +
             ".gpu.global.u32 [%m+512], 1;\n"}};
  };
  judge("clean", stored("release", "acquire"));
  judge("data-race", stored("relaxed", "acquire"));
  judge("data-race", stored("release", "relaxed"));
}

TEST_CASE("a bulk store reads bytes that were stored strongly, and a later store races with it") {
  // A relaxed flag has the store come later and orders nothing.
  const std::string strong = "  st.relaxed.gpu.shared.u32 [sm], 1;\n";
  const std::string met = "  bar.sync 2, 64;\n";
  const std::string tell = "  st.relaxed.gpu.global.u32 [%m+512], 1;\n";
  const std::string told =
      "$S:\n  ld.relaxed.gpu.global.u32 %v1, [%m+512];\n  setp.ne.u32 %q, %v1, 1;\n"
      "  @%q bra $S;\n";
  const auto stored = [&](const std::string& between, const std::string& behind) {
    return Threads{{kMet + kStore + tell + kEnd + met,
                    strong + kFence + kMet + told + between + strong + behind}};
  };
  judge("clean", stored(met, ""));
  judge("data-race", stored("", met));
}
