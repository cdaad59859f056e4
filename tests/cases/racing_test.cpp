// Past a race: which of two writes that nothing orders is there in the end, and what waits for it.

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/cases/threads.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

const std::vector<machine::FindingKind> kRaces{machine::FindingKind::data_race};

std::string poll(const std::string& value, const std::string& at = "%m") {
  return "$L:\n  ld.relaxed.gpu.global.u32 %v1, [" + at + "];\n  setp.ne.u32 %q, %v1, " + value +
         ";\n  @%q bra $L;\n";
}
const std::string kWeak = "  st.weak.global.u32 [%m], 2;\n";
const std::string kStrong = "  st.relaxed.gpu.global.u32 [%m], 2;\n";
const std::string kPut = "  atom.relaxed.gpu.global.exch.b32 %v2, [%m], 1;\n";

}  // namespace

TEST_CASE("past a race, a poll may be stuck at either of two writes that nothing orders") {
  // In every order of the threads: which of the writes an execution makes last is no matter.
  const std::vector<std::string> all{kWeak, poll("1"), kPut};
  for (const auto& [a, b, c] : {std::array{0, 1, 2}, std::array{0, 2, 1}, std::array{1, 0, 2},
                                std::array{1, 2, 0}, std::array{2, 0, 1}, std::array{2, 1, 0}}) {
    judge("data-race", {{all[a], all[b], all[c]}});
    judge("deadlock", {{all[a], all[b], all[c]}}, kRaces);
  }
  judge("deadlock", {{kWeak, poll("2"), kPut}}, kRaces);
  // Strong writes are ordered, either way: no race, and the same end.
  judge("deadlock", {{kStrong, poll("1"), kPut}});
}

TEST_CASE("a write that comes because of another one is the last of the two") {
  // By schedules undecided: a poll may see the two in turn for as long as nobody else steps.
  CHECK(checked({{kWeak, poll("1"), poll("2") + kPut}}, kRaces) == "clean");
  judge("deadlock", {{kWeak, poll("2"), poll("2") + kPut}}, kRaces);
  CHECK(checked({{kWeak + kPut, poll("1")}}, kRaces) == "clean");
  judge("deadlock", {{kPut + kWeak, poll("1")}}, kRaces);
}

TEST_CASE("of two polls that need opposite orders of two writes that race, one stays for ever") {
  const std::string done = "  st.relaxed.gpu.global.u32 [%m+64], 1;\n";
  const Threads opposite{{kWeak, kPut, poll("1") + done, poll("2") + done, poll("1", "%m+64")}};
  CHECK(checked(opposite, kRaces) == "deadlock");
  CHECK(found(fuzz(*program_of(opposite), machine::Boundary::strict, 300, kRaces)) == "deadlock");
}

TEST_CASE("a block that polls for ever while its cluster waits for it is a deadlock") {
  const std::string sync = "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n";
  judge("deadlock", {{poll("1") + sync, sync}, 2});
  judge("deadlock", {{sync, poll("1") + sync}, 2});
  // Who has exited is not waited for.
  judge("clean", {{"", sync}, 2});
  // Warps of one block at two barriers, and nobody who polls.
  judge("barrier-divergence", {{sync, "  bar.sync 0;\n", sync, sync}, 2});
}
