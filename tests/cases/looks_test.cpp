// Waits with more than one look in the text: looks before the loop, several in an iteration. They
// count as one look where nothing can tell them apart, and no outcome gets lost where something
// can.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cases/threads.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

const std::string kWritesData = R"(
  st.weak.global.u32 [%m], 1;
  st.release.gpu.global.u32 [%m+64], 1;
)";
const std::string kReadsData = "  ld.weak.global.u32 %v1, [%m];\n";

std::string put_for(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string load_of(const std::string& order) {
  return "  ld." + order + ".gpu.global.u32 %v2, [%m+64];\n";
}
std::string take_of(const std::string& order) {
  return "  atom." + order + ".gpu.global.cas.b32 %v2, [%m+64], 1, 2;\n";
}
// Leaves for D where the look has found a 1.
const std::string kLeaveIfFound = "  setp.eq.s32 %p, %v2, 1;\n  @%p bra $D;\n";
const std::string kLookAgain = "  setp.ne.s32 %p, %v2, 1;\n  @%p bra $L;\n";

Threads waiting(const std::string& waiter, const std::string& writer = kWritesData) {
  return {{waiter, writer}};
}

}  // namespace

TEST_CASE("looks of one wait that nothing tells apart are one: no event for one in vain") {
  for (const std::string& look : {load_of("acquire"), take_of("acquire")}) {
    const std::vector<std::string> waits = {
        "$L:\n" + look + kLookAgain,
        // As compilers peel it, once and twice.
        look + kLeaveIfFound + "$L:\n" + look + kLookAgain + "$D:\n",
        look + kLeaveIfFound + look + kLeaveIfFound + "$L:\n" + look + kLookAgain + "$D:\n",
        // The failing way has a pause, a fence, a counter and a parameter of its own.
        look + kLeaveIfFound +
            "  fence.acq_rel.gpu;\n  ld.param.u64 %t, [data];\n  mov.u32 %v3, 0;\n$L:\n" +
            "  nanosleep.u32 %v3;\n  add.u32 %v3, %v3, 1;\n" + look + kLookAgain + "$D:\n",
        // Which of them it was is known, but nobody asks.
        "  mov.u32 %v3, 7;\n" + look + "  mov.u32 %v4, %v2;\n  setp.ne.s32 %p, %v4, 1;\n" +
            "  @!%p bra $D;\n  mov.u32 %v3, 8;\n$L:\n" + look + kLookAgain + "$D:\n",
        // Unrolled, with what it found in one register or another.
        "$L:\n" + look + kLeaveIfFound + put_for(look, "%v2", "%v5") + "  mov.u32 %v2, %v5;\n" +
            kLookAgain + "$D:\n  st.relaxed.gpu.global.u32 [%m+128], %v2;\n",
    };
    for (const std::string& wait : waits) {
      INFO(wait);
      judge("clean", waiting(wait + kReadsData));
      CHECK(executions(waiting(wait + kReadsData)) == 1);
      judge("data-race", waiting(put_for(wait + kReadsData, "acquire.gpu", "relaxed.gpu")));
      judge("deadlock", waiting(wait + kReadsData, ""));
    }
  }
}

TEST_CASE("looks of one wait that differ in what follows are looks of their own") {
  const std::string traps = "  setp.eq.u32 %p, %v3, WHICH;\n  @%p trap;\n";
  for (const std::string& look : {load_of("acquire"), take_of("acquire")}) {
    const std::string ahead = "  mov.u32 %v3, 1;\n" + look + kLeaveIfFound +
                              "  mov.u32 %v3, 2;\n$L:\n" + look + kLookAgain + "$D:\n";
    const std::string twice = "$L:\n  mov.u32 %v3, 1;\n" + look + kLeaveIfFound +
                              "  mov.u32 %v3, 2;\n" + look + kLookAgain + "$D:\n";
    // What is computed from the value differs.
    const std::string sums = look + "  add.u32 %v3, %v2, 0;\n" + kLeaveIfFound + "$L:\n" + look +
                             "  add.u32 %v3, %v2, 1;\n" + kLookAgain + "$D:\n";
    for (const std::string& wait : {ahead, twice, sums}) {
      INFO(wait);
      judge("clean", waiting(wait + put_for(traps, "WHICH", "3") + kReadsData));
      judge("rank-lost", waiting(wait + put_for(traps, "WHICH", "1") + kReadsData));
      judge("rank-lost", waiting(wait + put_for(traps, "WHICH", "2") + kReadsData));
    }
  }
}

TEST_CASE("what is computed from the value of a look differs at values that no comparison names") {
  // Whether the first of them found a 256 is known behind it, and nothing of the kind behind
  // others.
  const std::string look = load_of("relaxed");
  const std::string wait =
      look +
      "  xor.b32 %v3, %v2, 256;\n  clz.b32 %v3, %v3;\n  shr.u32 %v3, %v3, 5;\n"
      "  setp.ne.u32 %p, %v2, 0;\n  @%p bra $D;\n$L:\n" +
      look + "  and.b32 %v3, %v2, 0;\n  setp.eq.u32 %p, %v2, 0;\n  @%p bra $L;\n$D:\n";
  const auto traps_at = [&](const std::string& which) {
    // By way of memory: the thread's own branches on it tell them apart by themselves.
    return waiting(wait +
                       "  st.relaxed.gpu.global.u32 [%m+128], %v3;\n"
                       "  ld.relaxed.gpu.global.u32 %v4, [%m+128];\n  setp.eq.u32 %p, %v4, " +
                       which + ";\n  @%p trap;\n",
                   "  st.relaxed.gpu.global.u32 [%m+64], 256;\n");
  };
  judge("rank-lost", traps_at("0"));
  judge("rank-lost", traps_at("1"));
  judge("clean", traps_at("2"));
}

TEST_CASE("looks of one wait with other orders are looks of their own: each may end it") {
  const auto ahead = [](const std::string& first, const std::string& second) {
    return waiting(first + kLeaveIfFound + "$L:\n" + second + kLookAgain + "$D:\n" + kReadsData);
  };
  const auto twice = [](const std::string& first, const std::string& second) {
    return waiting("$L:\n" + first + kLeaveIfFound + second + kLookAgain + "$D:\n" + kReadsData);
  };
  for (const auto& form : {+ahead, +twice}) {
    judge("clean", form(load_of("acquire"), load_of("acquire")));
    judge("data-race", form(load_of("relaxed"), load_of("acquire")));
    judge("data-race", form(load_of("acquire"), load_of("relaxed")));
    judge("data-race", form(take_of("relaxed"), take_of("acquire")));
    judge("data-race", form(take_of("acquire"), take_of("relaxed")));
  }
}

TEST_CASE("looks of one wait that end on other values are looks of their own") {
  // The first one leaves on anything but 0, the loop on 2 alone.
  const std::string two =
      "  st.relaxed.gpu.global.u32 [%m+64], 1;\n"
      "  st.relaxed.gpu.global.u32 [%m+64], 2;\n";
  const std::string wait = load_of("relaxed") + "  setp.ne.s32 %p, %v2, 0;\n  @%p bra $D;\n$L:\n" +
                           load_of("relaxed") + "  setp.ne.s32 %p, %v2, 2;\n  @%p bra $L;\n$D:\n";
  judge("clean", waiting(wait + "  setp.gt.u32 %p, %v2, 2;\n  @%p trap;\n", two));
  judge("rank-lost", waiting(wait + "  setp.eq.u32 %p, %v2, 1;\n  @%p trap;\n", two));
  // At a sign: -1 is in vain for the loop alone.
  const std::string minus = put_for(two, "+64], 1", "+64], 0xffffffff");
  const std::string sign = load_of("relaxed") + "  setp.ne.s32 %p, %v2, 0;\n  @%p bra $D;\n$L:\n" +
                           load_of("relaxed") + "  setp.le.s32 %p, %v2, 0;\n  @%p bra $L;\n$D:\n";
  judge("clean", waiting(sign + "  setp.eq.s32 %p, %v2, 0;\n  @%p trap;\n", minus));
  judge("rank-lost", waiting(sign + "  setp.lt.s32 %p, %v2, 0;\n  @%p trap;\n", minus));
}

TEST_CASE(
    "looks of one wait that compute other things from what they find are looks of their own") {
  // 2 (v^3 - v) is 0 at 0, at -1 and 1, and around the sign's change, and not at 5.
  const std::string wait = load_of("relaxed") +
                           "  mul.lo.u32 %v3, %v2, %v2;\n  mul.lo.u32 %v3, %v3, %v2;\n"
                           "  sub.u32 %v3, %v3, %v2;\n  shl.b32 %v3, %v3, 1;\n"
                           "  setp.ne.s32 %p, %v2, 0;\n  @%p bra $D;\n$L:\n" +
                           load_of("relaxed") +
                           "  mov.u32 %v3, 0;\n  setp.eq.s32 %p, %v2, 0;\n  @%p bra $L;\n$D:\n"
                           "  st.relaxed.gpu.global.u32 [%m+128], %v3;\n";
  const std::string five = "  st.relaxed.gpu.global.u32 [%m+64], 5;\n";
  const auto traps_at = [&](const std::string& value) {
    return waiting(wait + "  setp.eq.u32 %p, %v3, " + value + ";\n  @%p trap;\n", five);
  };
  judge("clean", traps_at("7"));
  judge("rank-lost", traps_at("0"));
  judge("rank-lost", traps_at("240"));
}

TEST_CASE("a first attempt with another access behind it is an event") {
  // Both are tried before either's result is asked for: then the loops.
  const std::string both =
      "  atom.relaxed.gpu.global.cas.b32 %v3, [%m+64], 0, 1;\n"
      "  ld.relaxed.gpu.global.u32 %v4, [%m+128];\n"
      "  setp.eq.s32 %p, %v3, 0;\n  @%p bra $D;\n$L:\n"
      "  atom.relaxed.gpu.global.cas.b32 %v5, [%m+64], 0, 1;\n"
      "  setp.ne.s32 %p, %v5, 0;\n  @%p bra $L;\n$D:\n";
  const std::string other =
      "  atom.relaxed.gpu.global.exch.b32 %v3, [%m+64], 1;\n"
      "  st.relaxed.gpu.global.u32 [%m+128], 1;\n"
      "  st.release.gpu.global.u32 [%m+64], 0;\n";
  judge("clean", waiting(both + "  setp.eq.u32 %p, %v4, 2;\n  @%p trap;\n", other));
  // The attempt fails, and what is read behind it is there or not yet.
  for (const std::string value : {"0", "1"}) {
    INFO(value);
    judge("rank-lost", waiting(both + "  setp.ne.s32 %p, %v3, 0;\n  setp.eq.and.u32 %p, %v4, " +
                                   value + ", %p;\n  @%p trap;\n",
                               other));
  }
}

namespace {

// Waits at the place whose number among the words of data a weak load of [%m+256] gives, anew in
// each round: it is 0 there, for %m+64.
const std::string kPlace =
    "  ld.weak.global.u64 %s, [%m+256];\n  add.u64 %s, %s, %m;\n"
    "  ld.acquire.gpu.global.u32 %v2, [%s+64];\n";

}  // namespace

TEST_CASE("a weak load that a round of looks makes again is no event, and its looks are none") {
  const std::vector<std::string> waits = {
      "$L:\n" + kPlace + kLookAgain,
      kPlace + kLeaveIfFound + "$L:\n" + kPlace + kLookAgain + "$D:\n",
      "$L:\n" + kPlace + kLeaveIfFound + kPlace + kLookAgain + "$D:\n",
      // One after the other in a loop, as seq-thread's.
      "  mov.u32 %v5, 0;\n$L:\n" + kPlace + kLookAgain +
          "  add.u32 %v5, %v5, 1;\n  setp.lt.u32 %p, %v5, 2;\n  @%p bra $L;\n",
      // An attempt that fails writes nothing.
      put_for("$L:\n" + kPlace + kLookAgain, "ld.acquire.gpu.global.u32 %v2, [%s+64]",
              "atom.acquire.gpu.global.cas.b32 %v2, [%s+64], 1, 2"),
  };
  for (const std::string& wait : waits) {
    INFO(wait);
    judge("clean", waiting(wait + kReadsData));
    CHECK(executions(waiting(wait + kReadsData)) == 1);
    judge("data-race", waiting(put_for(wait + kReadsData, "acquire.gpu", "relaxed.gpu")));
    judge("deadlock", waiting(wait + kReadsData, ""));
    // Whoever writes what is loaded meanwhile races with it.
    judge("data-race",
          waiting(wait + kReadsData, "  st.weak.global.u64 [%m+256], 0;\n" + kWritesData));
  }
}

TEST_CASE("a weak load of a round that others may have followed by then is an event") {
  // It is made once; then told; and who has heard of that writes there. The round comes to it only
  // behind a look in vain.
  const std::string once = "  ld.weak.global.u32 %v3, [%m+256];\n";
  const std::string round =
      "$L:\n  ld.acquire.gpu.global.u32 %v2, [%m+64];\n  setp.eq.u32 %p, %v2, 1;\n"
      "  @%p bra $D;\n  ld.weak.global.u32 %v4, [%m+256];\n  setp.eq.u32 %p, %v4, %v3;\n"
      "  @%p bra $L;\n  trap;\n$D:\n";
  const std::string hears =
      "$L:\n  ld.acquire.gpu.global.u32 %v2, [%m+128];\n" + kLookAgain +
      "  st.weak.global.u32 [%m+256], 0;\n  st.release.gpu.global.u32 [%m+64], 1;\n";
  for (const std::string tells :
       {"  st.release.gpu.global.u32 [%m+128], 1;\n",
        "  fence.acq_rel.gpu;\n  st.relaxed.gpu.global.u32 [%m+128], 1;\n",
        "  red.release.gpu.global.add.u32 [%m+128], 1;\n"}) {
    INFO(tells);
    judge("data-race", waiting(once + tells + round, hears));
  }
  // Another lane tells it, behind a barrier of the warp: this one has done nothing but meet it.
  const std::string meets = "all:\n  setp.gt.u32 %p, %lane, 1;\n  @%p ret;\n" + once +
                            "  bar.warp.sync 3;\n  setp.eq.u32 %p, %lane, 0;\n  @%p bra $L;\n"
                            "  st.release.gpu.global.u32 [%m+128], 1;\n  ret;\n" +
                            round;
  judge("data-race", waiting(meets, hears));
  judge("clean", waiting(meets, put_for(hears, "st.weak.global.u32 [%m+256]",
                                        "st.weak.global.u32 [%m+384]")));
  // What the thread itself has stored there it loads.
  judge("rank-lost", waiting(once + "  st.weak.global.u32 [%m+256], 1;\n" + round));
  // Told behind the wait, it is in nobody's way.
  const std::string behind = "  st.release.gpu.global.u32 [%m+128], 1;\n";
  const std::string answers = "  st.release.gpu.global.u32 [%m+64], 1;\n" + hears;
  judge("clean", waiting(once + round + behind, answers));
  CHECK(executions(waiting(once + round + behind, answers)) == 1);
}

TEST_CASE("what lanes that waited apart read behind a barrier is explored whatever came first") {
  // Behind the barrier all 32 lanes read in one instruction; the last load may see what is written
  // after the flags.
  const std::string waits = R"(all:
  mul.wide.u32 %t, %lane, 4;
  add.u64 %t, %t, %m;
  setp.gt.u32 %p, %lane, 1;
  @%p bra $D;
$L:
  ld.acquire.gpu.global.u32 %v2, [%t+64];
  setp.eq.u32 %p, %v2, 0;
  @%p bra $L;
$D:
  BARRIER
  ld.relaxed.gpu.global.u32 %v3, [%t+256];
  setp.ne.u32 %p, %lane, 0;
  @%p ret;
  ld.relaxed.gpu.global.u32 %v4, [%m+512];
  setp.eq.u32 %p, %v4, WHICH;
  @%p trap;
)";
  const std::string writer =
      "  st.relaxed.gpu.global.u32 [%m+64], 1;\n"
      "  st.relaxed.gpu.global.u32 [%m+68], 1;\n"
      "  st.relaxed.gpu.global.u32 [%m+512], 1;\n";
  for (const std::string barrier : {"barrier.sync 1, 32;", "bar.warp.sync 0xffffffff;"}) {
    const std::string body = put_for(waits, "BARRIER", barrier);
    judge("clean", waiting(put_for(body, "WHICH", "2"), writer));
    judge("rank-lost", waiting(put_for(body, "WHICH", "0"), writer));
    judge("rank-lost", waiting(put_for(body, "WHICH", "1"), writer));
  }
}

namespace {

// What check has of a file's case in mode coherent.
check::CheckResult checked_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  check::CheckSpec spec;
  spec.run.policy.boundary = machine::Boundary::coherent;
  spec.executions = 500;
  spec.fingerprints = true;
  const auto make = [&] {
    return std::make_unique<cases::CaseProgram>(cases::parse_case(text, path), cases::Settings{});
  };
  return check::check(make, spec);
}

}  // namespace

TEST_CASE("tokenweave's compiled barrier, which tries before it waits, is judged in seconds") {
  const check::CheckResult r = checked_file("tests/cases/files/tokenweave-peer-2.toml");
  CHECK(r.verdict == check::Verdict::pass);
  CHECK(r.repeated == 0);
  // A put of each block's threads at its peer is tried while the slot is free, or is not yet; a
  // wait when the signal is there, or is not yet.
  CHECK(r.complete > 4);
}

TEST_CASE("lanes that wait apart for epochs, in two launches and two calls, are one execution") {
  const check::CheckResult r = checked_file("tests/cases/files/two-shot.toml");
  CHECK(r.verdict == check::Verdict::pass);
  CHECK(r.complete == 1);
}

TEST_CASE("a rank that is a barrier ahead overwrites the flag that a lane waits for exactly") {
  // The second barrier of two-shot.toml. Each of its lanes waits for a peer; behind it a peer may
  // signal the first barrier of the next call before a slow lane has looked.
  const std::string folder = "tests/cases/files/";
  const auto text_of = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    REQUIRE(in);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string ptx = text_of(folder + "two-shot.ptx");
  const std::string ends = "setp.lt.u32 \t%p10, %r64, %r22;";
  REQUIRE(ptx.find(ends) != std::string::npos);
  const auto twin = std::filesystem::temp_directory_path() /
                    ("ringfence-two-shot-" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(twin, std::ios::binary) << put_for(ptx, ends, "setp.ne.u32 \t%p10, %r64, %r22;");
  const std::string text =
      put_for(text_of(folder + "two-shot.toml"), "two-shot.ptx", twin.string());
  const auto make = [&] {
    return std::make_unique<cases::CaseProgram>(cases::parse_case(text, folder + "two-shot.toml"),
                                                cases::Settings{});
  };
  for (const auto mode :
       {machine::Boundary::strict, machine::Boundary::stream, machine::Boundary::coherent}) {
    check::CheckSpec spec;
    spec.run.policy.boundary = mode;
    spec.executions = 500;
    const check::CheckResult r = check::check(make, spec);
    REQUIRE(r.verdict == check::Verdict::fail);
    CHECK(schedule::failure(r.outcome)->kind == machine::FindingKind::deadlock);
    CHECK(found(fuzz(*make(), mode, 300)) == "deadlock");
  }
  std::filesystem::remove(twin);
}

TEST_CASE("a thread that waits for one peer after the other is one execution and one run") {
  const std::string folder = "tests/cases/files/";
  const auto text_of = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    REQUIRE(in);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string text = text_of(folder + "seq-thread.toml");
  const std::string ptx = text_of(folder + "seq-thread.ptx");
  const auto twin = std::filesystem::temp_directory_path() /
                    ("ringfence-seq-thread-" + std::to_string(::getpid()) + ".ptx");
  const auto checked = [&](const std::string& file, machine::Boundary mode) {
    check::CheckSpec spec;
    spec.run.policy.boundary = mode;
    spec.executions = 5;
    const auto make = [&] {
      return std::make_unique<cases::CaseProgram>(
          cases::parse_case(file, folder + "seq-thread.toml"), cases::Settings{});
    };
    return check::check(make, spec);
  };
  for (const std::string ranks : {"2", "3", "4", "8"}) {
    const std::string file = put_for(text, "ranks = 8", "ranks = " + ranks);
    for (const auto mode :
         {machine::Boundary::strict, machine::Boundary::stream, machine::Boundary::coherent}) {
      CAPTURE(ranks);
      const check::CheckResult r = checked(file, mode);
      CHECK(r.verdict == check::Verdict::pass);
      CHECK(r.complete == 1);
      CHECK(r.abandoned == 0);
      // Without what orders the data behind the signals.
      for (const auto& [from, to] :
           {std::pair{"red.release", "red.relaxed"}, std::pair{"ld.acquire", "ld.relaxed"}}) {
        std::ofstream(twin, std::ios::binary) << put_for(ptx, from, to);
        CHECK(checked(put_for(file, "seq-thread.ptx", twin.string()), mode).verdict ==
              check::Verdict::fail);
      }
    }
  }
  std::filesystem::remove(twin);
}

TEST_CASE("a wait ends on a later write where another lane's write leaves no time for the first") {
  // In mode coherent. Lane 0 stores 2 to y, lane 1 waits until f is not 0. Who saw the 1 in y
  // before lane 1 went on, and the 2 behind, had the 1 come first: f was 2 by then.
  const std::string waits = R"(all:
  setp.gt.u32 %p, %lane, 1;
  @%p ret;
  mul.wide.u32 %t, %lane, 4;
  add.u64 %t, %t, %m;
  st.relaxed.sys.global.u32 [%t+128], 2;
  setp.eq.u32 %p, %lane, 0;
  @%p ret;
$L:
  ld.relaxed.sys.global.u32 %v2, [%m+64];
  setp.eq.u32 %p, %v2, 0;
  @%p bra $L;
  st.relaxed.sys.global.u32 [%m+256], 1;
)";
  const std::string writes =
      "  st.relaxed.sys.global.u32 [%m+64], 1;\n"
      "  st.relaxed.sys.global.u32 [%m+64], 2;\n"
      "  st.relaxed.sys.global.u32 [%m+128], 1;\n";
  const std::string sees = R"(
  ld.relaxed.sys.global.u32 %v2, [%m+128];
$L:
  ld.relaxed.sys.global.u32 %v3, [%m+256];
  setp.eq.u32 %p, %v3, 0;
  @%p bra $L;
  ld.relaxed.sys.global.u32 %v4, [%m+128];
  setp.eq.u32 %p, %v2, FIRST;
  setp.eq.and.u32 %p, %v4, SECOND, %p;
  @%p trap;
)";
  const auto verdict = [&](const std::string& first, const std::string& second) {
    const Threads t{{waits, writes, put_for(put_for(sees, "FIRST", first), "SECOND", second)}};
    check::CheckSpec spec;
    spec.run.policy.boundary = machine::Boundary::coherent;
    spec.fingerprints = true;
    const check::CheckResult r = check::check([&] { return program_of(t); }, spec);
    CHECK(r.repeated == 0);
    return r.verdict;
  };
  CHECK(verdict("1", "2") == check::Verdict::fail);
  CHECK(verdict("2", "1") == check::Verdict::fail);
  CHECK(verdict("1", "0") != check::Verdict::fail);
}

TEST_CASE("a wait that is stuck may have looked before a weak write that races with its looks") {
  // Between the exchange and the sum that leave the wait no way out: the weak store is no event, so
  // a step past it is taken before the wait is known to be stuck. Nor is it a race to be told: one
  // is where the wait looks behind the store.
  const std::string waits =
      "$L:\n  atom.relaxed.gpu.global.add.u32 %v2, [%m], 0;\n  setp.ne.u32 %p, %v2, 0;\n"
      "  @%p bra $L;\n";
  const std::string writes =
      "  atom.relaxed.gpu.global.cas.b32 %v1, [%m], 0, 2;\n"
      "  st.weak.global.u32 [%m+AT], 3;\n"
      "  atom.relaxed.gpu.global.add.u32 %v2, [%m], SUM;\n";
  const auto told = [&](const std::string& at, const std::string& sum) {
    return checked(waiting(waits, put_for(put_for(writes, "AT", at), "SUM", sum)));
  };
  CHECK(told("0", "1") == "deadlock");
  CHECK(told("64", "1") == "deadlock");
  // -2 and -3: a wait that looked in vain goes on.
  CHECK(told("64", "4294967294") == "clean");
  CHECK(told("0", "4294967293") == "data-race");
}

TEST_CASE("a wait may end on a part of what was added before somebody else wrote behind it") {
  // The second thread's wait ends where its own addition came first and alone.
  const std::string adds = "  red.relaxed.gpu.global.add.u32 [%m], 1;\n";
  const std::string first_alone = adds +
                                  "$L:\n  ld.relaxed.gpu.global.u32 %v2, [%m];\n"
                                  "  setp.ne.u32 %p, %v2, 1;\n  @%p bra $L;\n";
  const auto waits_for_both = [&](const std::string& look, const std::string& then) {
    return adds + "$L:\n  " + look + "\n  setp.ne.u32 %p, %v2, 2;\n  @%p bra $L;\n" + then;
  };
  const std::string load = "ld.relaxed.gpu.global.u32 %v2, [%m];";
  const std::string add_nothing = "atom.relaxed.gpu.global.add.u32 %v2, [%m], 0;";
  const std::string reset = "  st.relaxed.gpu.global.u32 [%m], 0;\n";
  const std::string take = "  atom.relaxed.gpu.global.exch.b32 %v3, [%m], 5;\n";
  for (const std::string& first :
       {waits_for_both(load, ""), waits_for_both(add_nothing, ""), waits_for_both(load, reset),
        waits_for_both(add_nothing, reset), waits_for_both(load, take)}) {
    for (const machine::Boundary boundary :
         {machine::Boundary::strict, machine::Boundary::coherent}) {
      CAPTURE(first);
      CAPTURE(machine::name(boundary));
      check::CheckSpec spec;
      spec.run.policy.boundary = boundary;
      spec.all = true;
      const auto explored = [&](const std::string& second) {
        const Threads threads{{first, second}};
        return check::check([&] { return program_of(threads); }, spec);
      };
      const auto r = explored(first_alone);
      CHECK(r.complete > 0);
      CHECK(r.blocked > 0);
      // Nor where what was written behind them ends it too.
      if (first.find("st.relaxed") == std::string::npos) continue;
      CHECK(explored(put_for(first_alone, "setp.ne.u32 %p, %v2, 1", "setp.gt.u32 %p, %v2, 1"))
                .complete > 1);
    }
  }
}
