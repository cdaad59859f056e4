// Mode coherent: lanes of a warp are threads, and what one does next may be executed before what
// another one does first. Each claim by the exhaustive search and by schedules, with threads in
// warps of their own beside it, and with a twin that lacks the fault.

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "emulator/check/explorer.hpp"
#include "emulator/schedule/shrink.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// What rank 0 does with %lane, and the first thread of rank 1, on memory of rank 0.
struct Ranks {
  std::string first, second;
  unsigned warps = 1;        // of rank 0
  bool weak_events = false;  // races are passed over, so weak accesses are events of the search
};

std::unique_ptr<cases::CaseProgram> program_of(const Ranks& r) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringfence-lanes-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file, std::ios::binary) << R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 peers, .param .u32 rank)
{
  .reg .pred %p, %q, %a, %b;
  .reg .b32 %v, %w, %u, %t, %lane, %warp, %r;
  .reg .b64 %m, %d;
  ld.param.u64 %m, [peers];
  ld.param.u32 %r, [rank];
  ld.global.u64 %d, [%m];
  mov.u32 %t, %tid.x;
  and.b32 %lane, %t, 31;
  shr.u32 %warp, %t, 5;
  setp.eq.u32 %p, %r, 1;
  @%p bra SECOND;
)" << r.first << "  ret;\nSECOND:\n  setp.ne.u32 %q, %t, 0;\n  @%q ret;\n"
                                        << r.second << "  ret;\n}\n";
  auto program = std::make_unique<cases::CaseProgram>(
      cases::parse_case("version = 1\nranks = 2\n[memory.data]\nkind = \"symmetric\"\n"
                        "bytes = 4096\n[[launch]]\nptx = \"" +
                            file.string() + "\"\nkernel = \"k\"\ngrid = [1]\nblock = [" +
                            std::to_string(32 * r.warps) +
                            "]\nargs = [ {peers = \"data\"}, \"rank\" ]\n",
                        "lanes.toml"),
      cases::Settings{});
  std::filesystem::remove(file);
  return program;
}

schedule::RunSpec run_of(const Ranks& r) {
  schedule::RunSpec run;
  run.policy.boundary = Boundary::coherent;
  if (r.weak_events) run.ignore = {machine::FindingKind::data_race};
  return run;
}

check::CheckResult search(const Ranks& r) {
  check::CheckSpec spec;
  spec.run = run_of(r);
  spec.executions = 20000;
  return check::check([&] { return program_of(r); }, spec);
}

std::string checked(const Ranks& r) {
  const check::CheckResult result = search(r);
  if (result.verdict == check::Verdict::pass) return "clean";
  if (result.verdict == check::Verdict::unknown) {
    const bool lanes =
        std::any_of(result.left_out.begin(), result.left_out.end(),
                    [](const check::LeftOut& o) { return o.what == check::LeftOut::What::lanes; });
    return lanes ? "lanes left out" : "unknown";
  }
  // What is found is a schedule's.
  const auto program = program_of(r);
  const auto executor = ranks::make_inline(*program);
  CHECK(schedule::same_run(
      result.outcome, executor->run(schedule::replay_spec(run_of(r), result.outcome.decisions))));
  const auto f = schedule::failure(result.outcome);
  return f ? std::string(machine::name(f->kind)) : "no finding";
}

std::string fuzzed(const Ranks& r, std::uint64_t schedules = 3000) {
  const auto program = program_of(r);
  return found(fuzz(*program, Boundary::coherent, schedules));
}

void judge(const std::string& expected, const Ranks& r) {
  CHECK(checked(r) == expected);
  CHECK(fuzzed(r) == expected);
}

// Of a thread of rank 0 that stores Y, and of one that loads X and tells what it has read.
const std::string kStoreY = "st.relaxed.sys.global.u32 [%d+128], 1;\n";
const std::string kLoadX = "ld.relaxed.sys.global.u32 %v, [%d];\n";
const std::string kTell = "st.relaxed.sys.global.u32 [%d+256], %v;\n";
// Rank 1 stores X, and then sees neither Y nor that somebody has seen X.
const std::string kSecond =
    "  st.relaxed.sys.global.u32 [%d], 1;\n"
    "  ld.relaxed.sys.global.u32 %v, [%d+128];\n"
    "  ld.relaxed.sys.global.u32 %w, [%d+256];\n"
    "  setp.eq.u32 %p, %v, 0;\n  setp.eq.and.u32 %p, %w, 1, %p;\n  @%p trap;\n";

std::string guarded(const std::string& between) {
  return "  setp.eq.u32 %a, %lane, 0;\n  setp.eq.u32 %b, %lane, 1;\n  @%b " + kStoreY + between +
         "  @%a " + kLoadX + "  add.u32 %v, %v, 1;\n  @%a " + kTell;
}

// The two sides of a branch, the one that loads in front or behind.
std::string branched(bool loads_first) {
  const std::string load = "  " + kLoadX + "  add.u32 %v, %v, 1;\n  " + kTell + "  ret;\n";
  const std::string store = "  " + kStoreY + "  ret;\n";
  return "  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %a, %lane, " +
         std::string(loads_first ? "1" : "0") + ";\n  @%a bra OTHER;\n" +
         (loads_first ? load + "OTHER:\n" + store : store + "OTHER:\n" + load);
}

}  // namespace

TEST_CASE("coherent: a lane's access may come before an earlier one of another lane") {
  // In warps of their own.
  const std::string apart =
      "  setp.ne.u32 %q, %lane, 0;\n  @%q ret;\n  setp.eq.u32 %a, %warp, 0;\n  @%a bra OTHER;\n  " +
      kStoreY + "  ret;\nOTHER:\n  " + kLoadX + "  add.u32 %v, %v, 1;\n  " + kTell;
  judge("rank-lost", {apart, kSecond, 2});
  judge("rank-lost", {guarded(""), kSecond});
  judge("rank-lost", {branched(true), kSecond});
  judge("rank-lost", {branched(false), kSecond});
}

TEST_CASE("coherent: and not behind a barrier of the warp, or where one lane makes both") {
  judge("clean", {guarded("  bar.warp.sync 0xffffffff;\n"), kSecond});
  judge("clean", {"  setp.ne.u32 %q, %lane, 0;\n  @%q ret;\n  " + kStoreY + "  " + kLoadX +
                      "  add.u32 %v, %v, 1;\n  " + kTell,
                  kSecond});
  // A vote needs what was read, and a store is in nobody's way: not even this one's order is asked.
  judge("clean", {"  setp.eq.u32 %a, %lane, 0;\n  setp.eq.u32 %b, %lane, 1;\n  @%b " + kLoadX +
                      "  vote.sync.any.pred %q, %p, 0xffffffff;\n  @%a " + kStoreY,
                  "  ld.relaxed.sys.global.u32 %v, [%d+128];\n"
                  "  st.relaxed.sys.global.u32 [%d], %v;\n"});
}

TEST_CASE("coherent: an atomic of one lane may come before another lane's load") {
  const auto pair = [](const std::string& between) {
    return Ranks{
        "  setp.eq.u32 %a, %lane, 0;\n  setp.eq.u32 %b, %lane, 1;\n"
        "  @%b st.relaxed.sys.global.u32 [%d+128], 1;\n" +
            between +
            "  @%a atom.relaxed.sys.global.add.u32 %v, [%d], 2;\n"
            "  add.u32 %v, %v, 1;\n  @%a " +
            kTell,
        kSecond};
  };
  judge("rank-lost", pair(""));
  judge("clean", pair("  bar.warp.sync 0xffffffff;\n"));
}

TEST_CASE("coherent: a lane's read may come before an earlier one of another lane") {
  // Lane `first` has read rank 1's store and the other lane not, by an instruction behind.
  const auto lanes = [](unsigned first, const std::string& between, bool weak_events,
                        bool told = true) {
    return Ranks{"  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %a, %lane, " +
                     std::to_string(first) + ";\n  mov.u32 %v, 0;\n  @%a " + kLoadX + between +
                     "  @!%a " + kLoadX +
                     "  setp.eq.u32 %p, %v, 1;\n  vote.sync.ballot.b32 %w, %p, 3;\n"
                     "  setp.eq.u32 %p, %w, " +
                     std::to_string(told ? 1U << first : 4) + ";\n  @%p trap;\n",
                 "  st.relaxed.sys.global.u32 [%d], 1;\n", 1, weak_events};
  };
  for (const bool weak_events : {false, true}) {
    for (const unsigned first : {0U, 1U}) {
      judge("rank-lost", lanes(first, "", weak_events));
      judge("clean", lanes(first, "  bar.warp.sync 3;\n", weak_events));
      judge("clean", lanes(first, "", weak_events, false));
    }
  }
  // So may one of two reads of the last lane, where it makes the first one together with others:
  // with more of them than are stepped one by one the order is left out by name.
  const auto together = [](unsigned count, bool synced) {
    const std::string last = std::to_string(count - 1), all = std::to_string((1U << count) - 1);
    return Ranks{
        "  setp.gt.u32 %q, %lane, " + last + ";\n  @%q ret;\n  setp.eq.u32 %a, %lane, " + last +
            ";\n  mul.wide.u32 %m, %lane, 64;\n  add.u64 %m, %m, %d;\n" +
            "  ld.relaxed.sys.global.u32 %v, [%m];\n" +
            (synced ? "  bar.warp.sync " + all + ";\n" : "") +
            "  mov.u32 %w, 1;\n  @%a ld.relaxed.sys.global.u32 %w, [%d+2048];\n"
            "  shfl.sync.idx.b32 %v, %v, 0, 31, " +
            all + ";\n  setp.eq.u32 %p, %w, 0;\n  setp.eq.and.u32 %p, %v, 1, %p;\n  @%p trap;\n",
        "  st.relaxed.sys.global.u32 [%d+2048], 1;\n  st.relaxed.sys.global.u32 [%d], 1;\n"};
  };
  judge("rank-lost", together(8, false));
  judge("clean", together(8, true));
  CHECK(checked(together(9, false)) == "lanes left out");
}

TEST_CASE("coherent: where a lane waits its orders are left out by name, and found by schedules") {
  const auto wait = [](const std::string& between) {
    return Ranks{
        "  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n"
        "  setp.eq.u32 %a, %lane, 0;\n  @!%a " +
            kStoreY + between +
            "  @!%a ret;\nW:\n  ld.relaxed.sys.global.u32 %v, [%d+384];\n"
            "  setp.eq.u32 %q, %v, 0;\n  @%q bra W;\n  " +
            kLoadX + "  add.u32 %v, %v, 1;\n  " + kTell,
        "  st.relaxed.sys.global.u32 [%d+384], 1;\n" + kSecond};
  };
  const std::string says = checked(wait(""));
  CHECK((says == "lanes left out" || says == "rank-lost"));
  CHECK(fuzzed(wait(""), 40000) == "rank-lost");
  judge("clean", wait("  bar.warp.sync 3;\n"));
}

TEST_CASE("coherent: a lane's wait may be over before an earlier read of another lane") {
  const auto lanes = [](unsigned reads, const std::string& between) {
    return Ranks{"  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %a, %lane, " +
                     std::to_string(reads) + ";\n  @%a " + kLoadX + between +
                     "  @%a bra OVER;\nW:\n  " + kLoadX +
                     "  setp.eq.u32 %q, %v, 0;\n  @%q bra W;\nOVER:\n  bar.warp.sync 3;\n"
                     "  shfl.sync.idx.b32 %w, %v, " +
                     std::to_string(reads) + ", 31, 3;\n  shfl.sync.idx.b32 %u, %v, " +
                     std::to_string(1 - reads) +
                     ", 31, 3;\n  setp.eq.u32 %p, %w, 2;\n  setp.eq.and.u32 %p, %u, 1, %p;\n"
                     "  @%p trap;\n",
                 "  st.relaxed.sys.global.u32 [%d], 1;\n  st.relaxed.sys.global.u32 [%d], 2;\n"};
  };
  for (const unsigned reads : {0U, 1U}) {
    const std::string says = checked(lanes(reads, ""));
    CHECK((says == "lanes left out" || says == "rank-lost"));
    CHECK(fuzzed(lanes(reads, "")) == "rank-lost");
    judge("clean", lanes(reads, "  bar.warp.sync 3;\n"));
  }
}

TEST_CASE("coherent: a lane's store before its wait may come behind what another lane waits for") {
  const auto wait = [](const std::string& name, int at) {
    return name + ":\n  ld.relaxed.sys.global.u32 %w, [%d+" + std::to_string(at) +
           "];\n  setp.eq.u32 %q, %w, 0;\n  @%q bra " + name + ";\n";
  };
  const auto pair = [&](const std::string& between, unsigned stores) {
    return Ranks{"  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %a, %lane, " +
                     std::to_string(stores) + ";\n  @%a " + kStoreY + between +
                     "  @%a bra OTHER;\n" + wait("A", 0) + "  mov.u32 %v, 1;\n  " + kTell +
                     "  ret;\nOTHER:\n" + wait("B", 384),
                 "  st.relaxed.sys.global.u32 [%d], 1;\n  ld.relaxed.sys.global.u32 %w, [%d+256];\n"
                 "  ld.relaxed.sys.global.u32 %v, [%d+128];\n  setp.eq.u32 %p, %v, 0;\n"
                 "  setp.eq.and.u32 %p, %w, 1, %p;\n  @%p trap;\n"
                 "  st.relaxed.sys.global.u32 [%d+384], 1;\n"};
  };
  for (const unsigned stores : {0U, 1U}) {
    const std::string says = checked(pair("", stores));
    CHECK((says == "lanes left out" || says == "rank-lost"));
    CHECK(fuzzed(pair("", stores), 40000) == "rank-lost");
    judge("clean", pair("  bar.warp.sync 3;\n", stores));
  }
}

TEST_CASE("coherent: two values of one place, for which lanes wait apart, may be missed") {
  const auto wait = [](const std::string& name, int value) {
    return name + ":\n  ld.relaxed.sys.global.u32 %w, [%d];\n  setp.ne.u32 %q, %w, " +
           std::to_string(value) + ";\n  @%q bra " + name + ";\n";
  };
  const auto lanes = [&](const std::string& between, int first) {
    return Ranks{"  setp.gt.u32 %q, %lane, 1;\n  @%q ret;\n  setp.eq.u32 %a, %lane, " +
                     std::to_string(first) + ";\n  @%a bra OTHER;\n" + wait("A", 2) +
                     "  ret;\nOTHER:\n" + wait("B", 1) + kStoreY,
                 "  st.relaxed.sys.global.u32 [%d], 1;\n" + between +
                     "  st.relaxed.sys.global.u32 [%d], 2;\n"};
  };
  const std::string seen =
      "W:\n  ld.relaxed.sys.global.u32 %w, [%d+128];\n  setp.ne.u32 %q, %w, 1;\n  @%q bra W;\n";
  for (const int first : {0, 1}) {
    judge("deadlock", lanes("", first));
    judge("clean", lanes(seen, first));
  }
}

TEST_CASE("coherent: lanes that act at one instruction do not do so at once") {
  // Lane 0 has not seen rank 1's first store, and the last lane has seen its second one.
  const auto lanes = [](unsigned count, const std::string& order) {
    const std::string last = std::to_string(count - 1);
    return Ranks{"  setp.lt.u32 %q, %lane, " + std::to_string(count) +
                     ";\n  mov.u32 %v, 0;\n  mul.wide.u32 %m, %lane, 64;\n  add.u64 %m, %m, %d;\n"
                     "  @%q ld.relaxed.sys.global.u32 %v, [%m];\n"
                     "  shfl.sync.idx.b32 %w, %v, 0, 31, 0xffffffff;\n"
                     "  shfl.sync.idx.b32 %u, %v, " +
                     last +
                     ", 31, 0xffffffff;\n  setp.eq.u32 %p, %w, 0;\n"
                     "  setp.eq.and.u32 %p, %u, 1, %p;\n  @%p trap;\n",
                 order == "first, last" ? "  st.relaxed.sys.global.u32 [%d], 1;\n"
                                          "  st.relaxed.sys.global.u32 [%d+" +
                                              std::to_string(64 * (count - 1)) + "], 1;\n"
                                        : "  st.relaxed.sys.global.u32 [%d], 1;\n"};
  };
  judge("rank-lost", lanes(2, "first, last"));
  judge("clean", lanes(2, "first"));
  // With more lanes than are stepped one by one it is left out by name.
  CHECK(checked(lanes(16, "first, last")) == "lanes left out");
  judge("clean", lanes(16, "first"));
}
