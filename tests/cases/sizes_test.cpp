// One place that is accessed in several sizes: what an access of all of it returns and computes,
// and what accesses of its parts still know.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emulator/schedule/errors.hpp"
#include "tests/cases/threads.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

const std::string kHalves = "  st.global.u32 [%m], 5;\n  st.global.u32 [%m+4], 7;\n";
constexpr std::uint64_t kBoth = 5 + (std::uint64_t{7} << 32);
const std::string kFirst = "  setp.eq.u32 %q, %lane, 0;\n";
const std::string kMeet = "  bar.sync 1, 64;\n";

// A trap (the rank is lost) if %t is, or is not, the value.
std::string trap_if(const std::string& relation, std::uint64_t value) {
  return "  mov.u64 %s, " + std::to_string(value) + ";\n  setp." + relation +
         ".u64 %q, %t, %s;\n  @%q trap;\n";
}
const std::string kLoad = "  ld.global.u64 %t, [%m];\n";

}  // namespace

TEST_CASE("an atomic over smaller accesses that come before it takes all of them") {
  const auto judged = [](const std::string& body, std::uint64_t right) {
    CAPTURE(body);
    judge("clean", {{body + trap_if("ne", right)}});
    judge("rank-lost", {{body + trap_if("eq", right)}});
  };
  judged(kHalves + "  atom.global.exch.b64 %t, [%m], 3;\n", kBoth);
  judged(kHalves + "  red.global.add.u64 [%m], 1;\n" + kLoad, kBoth + 1);
  judged(kHalves + "  mov.u64 %s, " + std::to_string(kBoth) +
             ";\n  atom.global.cas.b64 %t, [%m], %s, 3;\n" + kLoad,
         3);
  // A carry goes from one part to the other.
  judged(
      "  mov.u32 %v1, -1;\n  st.global.u32 [%m], %v1;\n  st.global.u32 [%m+4], 7;\n"
      "  red.global.add.u64 [%m], 1;\n" +
          kLoad,
      std::uint64_t{8} << 32);
  judged(
      "  mov.u32 %v1, 65535;\n  st.global.u16 [%m], %v1;\n  red.global.add.u32 [%m], 1;\n" + kLoad,
      65536);
  // Of parts, one of which nobody accessed, and one that is cut once more.
  judged(
      "  st.global.u32 [%m+4], 7;\n  st.global.u8 [%m+1], 1;\n"
      "  atom.global.add.u64 %t, [%m], 1;\n",
      256 + (std::uint64_t{7} << 32));
  // A loop that waits with it.
  judge("clean", {{kHalves + "$L:\n  mov.u64 %s, " + std::to_string(kBoth) +
                   ";\n  atom.acquire.gpu.global.cas.b64 %t, [%m], %s, 3;\n"
                   "  setp.ne.u64 %q, %t, %s;\n  @%q bra $L;\n"}});
  judge("deadlock", {{kHalves + "$L:\n  atom.acquire.gpu.global.cas.b64 %t, [%m], 5, 3;\n"
                                "  setp.ne.u64 %q, %t, 5;\n  @%q bra $L;\n"}});
}

TEST_CASE("a strong access of a place is single, also where its parts were accessed before") {
  const auto pair = [](const std::string& write, const std::string& read) {
    return Threads{{"all:" + kFirst +
                        "  @%q st.global.u32 [%m], 5;\n  @%q st.global.u32 [%m+4], 7;\n" + kMeet +
                        "  @!%q ret;\n" + write,
                    "all:" + kFirst + kMeet + "  @!%q ret;\n" + read}};
  };
  const std::string whole = "  mov.u64 %s, " + std::to_string(kBoth + kBoth) +
                            ";\n  st.relaxed.gpu.global.u64 [%m], %s;\n";
  const std::string parts =
      "  st.relaxed.gpu.global.u32 [%m], 10;\n  st.relaxed.gpu.global.u32 [%m+4], 14;\n";
  const std::string torn =
      trap_if("eq", 10 + (std::uint64_t{7} << 32)) + trap_if("eq", 5 + (std::uint64_t{14} << 32));
  const std::string read = "  ld.relaxed.gpu.global.u64 %t, [%m];\n";
  judge("clean", pair(whole, read + torn));
  judge("rank-lost", pair(whole, read + trap_if("eq", kBoth)));
  judge("rank-lost", pair(whole, read + trap_if("eq", kBoth + kBoth)));
  judge("rank-lost", pair(parts,
                          "  ld.relaxed.gpu.global.u32 %v1, [%m];\n"
                          "  ld.relaxed.gpu.global.u32 %v2, [%m+4];\n"
                          "  mov.b64 %t, {%v1, %v2};\n" +
                              torn));
  judge("data-race", pair(parts, read));
}

TEST_CASE("a loop waits for all of a place whose parts were accessed before") {
  const auto pair = [](const std::string& write) {
    return Threads{{"all:" + kFirst +
                        "  @%q st.global.u32 [%m], 0;\n  @%q st.global.u32 [%m+4], 0;\n" + kMeet +
                        "  @!%q ret;\n  st.global.u32 [%m+64], 1;\n" + write,
                    "all:" + kFirst + kMeet +
                        "  @!%q ret;\n$L:\n  ld.acquire.gpu.global.u64 %t, [%m];\n"
                        "  setp.eq.u64 %q, %t, 0;\n  @%q bra $L;\n"
                        "  ld.global.u32 %v1, [%m+64];\n  setp.ne.u32 %q, %v1, 1;\n  @%q trap;\n"}};
  };
  const auto store = [](const std::string& how) {
    return "  mov.u64 %s, 4294967296;\n  st." + how + ".gpu.global.u64 [%m], %s;\n";
  };
  judge("clean", pair(store("release")));
  judge("data-race", pair(store("relaxed")));
  judge("deadlock", pair(""));
}

TEST_CASE("a loop whose place is written in parts that nothing orders is a race, and no deadlock") {
  const auto flag = [](const std::string& part, const std::string& size) {
    return Threads{{"  mov.u32 %v1, 1;\n  st.release.gpu.global." + part + ", %v1;\n",
                    "$L:\n  ld.acquire.gpu.global." + size +
                        ", [%m];\n  setp.eq.u32 %q, %v2, 0;\n  @%q bra $L;\n"}};
  };
  judge("data-race", flag("u8 [%m+3]", "u32 %v2"));
  judge("data-race", flag("u8 [%m]", "u32 %v2"));
  judge("data-race", flag("u16 [%m+2]", "u32 %v2"));
  judge("clean", flag("u8 [%m]", "u8 %v2"));
  judge("clean", flag("u32 [%m]", "u32 %v2"));
  judge("deadlock", flag("u8 [%m+4]", "u32 %v2"));
}

TEST_CASE("after an access of the whole, the parts of a place have their histories still") {
  const auto three = [](const std::string& third) {
    return Threads{{"all:" + kFirst + "  @%q st.relaxed.gpu.global.u32 [%m], 1;\n" + kMeet,
                    "all:" + kFirst + kMeet + "  @%q ld.relaxed.gpu.global.u64 %t, [%m];\n",
                    third}};
  };
  const std::string other = "  ld.relaxed.gpu.global.u32 %v1, [%m+4];\n";
  const std::string same = "  ld.relaxed.gpu.global.u32 %v1, [%m];\n";
  judge("clean", three(other));
  judge("clean", three(same));
  const auto trap = [](unsigned value) {
    return "  setp.eq.u32 %q, %v1, " + std::to_string(value) + ";\n  @%q trap;\n";
  };
  judge("rank-lost", three(same + trap(0)));
  judge("rank-lost", three(same + trap(1)));
  judge("clean", three(other + trap(1)));
  judge("data-race", three("  st.relaxed.gpu.global.u32 [%m+4], 1;\n"));
  // Nor is a plain write of the one part a write of the other.
  judge("clean",
        {{"all:" + kFirst + "  @%q st.global.u32 [%m], 1;\n" + kMeet,
          "all:" + kFirst + kMeet + "  @%q ld.relaxed.gpu.global.u64 %t, [%m];\n", other}});
}

TEST_CASE(
    "an atomic and a smaller access that nothing orders are a race; past it they are refused") {
  const Threads pair{{"  st.relaxed.gpu.global.u32 [%m+4], 7;\n",
                      "  atom.relaxed.gpu.global.exch.b64 %t, [%m], 3;\n"}};
  judge("data-race", pair);
  CHECK_THROWS_AS(checked(pair, {machine::FindingKind::data_race}), schedule::NotModelled);
  // A reduction of the last bytes of a memory.
  judge("data-race", {{"  st.relaxed.gpu.global.u32 [%m+1020], 7;\n",
                       "  red.relaxed.gpu.global.add.u64 [%m+1016], 3;\n"}});
}

TEST_CASE("past a race, an access of another size that could come the other way is unknown") {
  const std::string read =
      "  ld.relaxed.gpu.global.u32 %v1, [%m];\n"
      "  setp.eq.u32 %q, %v1, 1;\n  @%q trap;\n";
  const std::string write = "  mov.u32 %v1, 1;\n  st.relaxed.gpu.global.u16 [%m], %v1;\n";
  const std::vector<machine::FindingKind> ignore{machine::FindingKind::data_race};
  const Threads read_first{{read, write}}, write_first{{write, read}};
  CHECK(checked(read_first, ignore) == "unknown");
  CHECK(checked(write_first, ignore) == "rank-lost");
  for (const Threads& t : {read_first, write_first}) {
    judge("data-race", t);
    CHECK(found(fuzz(*program_of(t), machine::Boundary::strict, 300, ignore)) == "rank-lost");
  }
  // A barrier between them leaves nothing out.
  const auto behind = [](const std::string& first, const std::string& second) {
    return Threads{{"all:" + kFirst + "  @!%q bra $E;\n" + first + "$E:\n" + kMeet,
                    "all:" + kFirst + kMeet + "  @!%q ret;\n" + second}};
  };
  judge("clean", behind(read, write), ignore);
  judge("rank-lost", behind(write, read), ignore);
}
