// What a vector or a line moves as one by policy: LL and LL128 protocols, and twins by two
// instructions, which tear under any policy.
#include <doctest/doctest.h>

#include <string>

#include "emulator/check/explorer.hpp"
#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

machine::Policy policy(bool vector, bool line, Boundary mode = Boundary::stream) {
  machine::Policy p;
  p.boundary = mode;
  if (vector) p.vector = machine::VectorAccess::atomic;
  if (line) p.line = machine::LineAccess::ordered;
  return p;
}

std::string in(const Written& w, const std::string& text, machine::Policy p,
               std::uint64_t schedules = 300) {
  const auto program = w.open(text);
  const auto executor = ranks::make_inline(*program);
  schedule::SearchSpec spec;
  spec.run.policy = p;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  spec.run.point_limit = 1u << 16;
  spec.schedules = schedules;
  return found(schedule::search({executor.get()}, spec));
}

check::CheckResult checked(const Written& w, const std::string& text, machine::Policy p) {
  check::CheckSpec spec;
  spec.run.policy = p;
  return check::check([&] { return w.open(text); }, spec);
}

// Two ranks: SEND to the peer, then reads of the own buffer by LOOK until %g is 1; a trap where
// %a is not 7 then.
std::string exchange(const std::string& send, const std::string& look) {
  return R"(
.visible .entry swap(.param .u64 mine, .param .u64 theirs)
{
  .reg .pred %p;
  .reg .b32 %a, %b, %f, %g;
  .reg .b64 %m, %t, %x, %y;
  ld.param.u64 %m, [mine];
  ld.param.u64 %t, [theirs];
)" + send +
         "WAIT:\n" + look + R"(
  setp.ne.u32 %p, %g, 1;
  @%p bra WAIT;
  setp.ne.u32 %p, %a, 7;
  @%p trap;
  ret;
}
)";
}

const std::string kSwap = R"(ranks = 2
[memory.pad]
kind = "symmetric"
bytes = 16
[[launch]]
ptx = "k.ptx"
kernel = "swap"
grid = [1]
block = [1]
args = [ {memory = "pad"}, {memory = "pad", peer = 1} ]
)";

// The shape of LL128: 16 bytes a lane, of which each eighth lane's last 8 are the flag; a warp
// reads again until no lane misses it. Rank r's lane t sends 1000 r + t.
std::string line(const std::string& send) {
  return R"(
.visible .entry ll128(.param .u64 mine, .param .u64 theirs, .param .u32 rank)
{
  .reg .pred %p, %flag, %again;
  .reg .b32 %t, %r;
  .reg .b64 %m, %to, %a, %b, %x, %y, %off, %one;
  ld.param.u64 %m, [mine];
  ld.param.u64 %to, [theirs];
  ld.param.u32 %r, [rank];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %off, %t, 16;
  add.u64 %m, %m, %off;
  add.u64 %to, %to, %off;
  mad.lo.u32 %r, %r, 1000, %t;
  cvt.u64.u32 %a, %r;
  and.b32 %r, %t, 7;
  setp.eq.u32 %flag, %r, 7;
  mov.u64 %one, 1;
  selp.b64 %b, %one, %a, %flag;
)" + send +
         R"(
WAIT:
  ld.volatile.global.v2.u64 {%x, %y}, [%m];
  setp.ne.u64 %p, %y, 1;
  and.pred %again, %p, %flag;
  vote.sync.any.pred %again, %again, 0xffffffff;
  @%again bra WAIT;
  ld.param.u32 %r, [rank];
  sub.u32 %r, 1, %r;
  mad.lo.u32 %r, %r, 1000, %t;
  cvt.u64.u32 %a, %r;
  setp.ne.u64 %p, %x, %a;
  @%p trap;
  ret;
}
)";
}
const std::string kSend = "  st.volatile.global.v2.u64 [%to], {%a, %b};\n";
// Data first, then the flag lanes.
const std::string kSendInTwo =
    "  @!%flag st.volatile.global.v2.u64 [%to], {%a, %b};\n  bar.warp.sync 0xffffffff;\n"
    "  @%flag st.volatile.global.v2.u64 [%to], {%a, %b};\n";

const std::string kLine = R"(ranks = 2
[memory.pad]
kind = "symmetric"
bytes = 512
[[launch]]
ptx = "k.ptx"
kernel = "ll128"
grid = [1]
block = [32]
args = [ {memory = "pad"}, {memory = "pad", peer = 1}, "rank" ]
)";

}  // namespace

TEST_CASE("vector=atomic: 8 bytes of one instruction are read as one, 8 of two are not") {
  const std::string look = "  ld.volatile.global.v2.u32 {%a, %g}, [%m];\n";
  const Written one(exchange("  st.volatile.global.v2.u32 [%t], {7, 1};\n", look));
  const Written two(
      exchange("  st.volatile.global.u32 [%t], 7;\n  st.volatile.global.u32 [%t+4], 1;\n", look));
  const Written looks_twice(
      exchange("  st.volatile.global.v2.u32 [%t], {7, 1};\n",
               "  ld.volatile.global.u32 %a, [%m];\n  ld.volatile.global.u32 %g, [%m+4];\n"));
  for (const Boundary mode : {Boundary::strict, Boundary::stream}) {
    CHECK(in(one, kSwap, policy(false, false, mode)) == "rank-lost");
    CHECK(in(one, kSwap, policy(true, false, mode)) == "clean");
    CHECK(checked(one, kSwap, policy(false, false, mode)).verdict == check::Verdict::fail);
    CHECK(checked(one, kSwap, policy(true, false, mode)).verdict == check::Verdict::pass);
    for (const Written* w : {&two, &looks_twice}) {
      // Accesses of another size are no morally strong ones: a race comes first, else the trap.
      CHECK(in(*w, kSwap, policy(true, false, mode)) != "clean");
      CHECK(checked(*w, kSwap, policy(true, false, mode)).verdict == check::Verdict::fail);
    }
  }
}

TEST_CASE("vector=atomic: 16 bytes of one instruction are read as one, 16 of two are not") {
  const std::string look = "  ld.volatile.global.v4.u32 {%a, %f, %b, %g}, [%m];\n";
  const Written one(exchange("  st.volatile.global.v4.u32 [%t], {7, 2, 9, 1};\n", look));
  const Written two(exchange(
      "  st.volatile.global.v2.u32 [%t], {7, 2};\n  st.volatile.global.v2.u32 [%t+8], {9, 1};\n",
      look));
  for (const Boundary mode : {Boundary::strict, Boundary::stream}) {
    CHECK(in(one, kSwap, policy(false, false, mode)) == "rank-lost");
    CHECK(in(one, kSwap, policy(true, false, mode)) == "clean");
    CHECK(in(two, kSwap, policy(true, false, mode)) != "clean");
  }
  // An exhaustive search tears what it reads by halves. It leaves such executions out, but what
  // would have followed one that traps is not known.
  const check::CheckResult r = checked(one, kSwap, policy(true, false));
  CHECK(r.verdict == check::Verdict::unknown);
  CHECK(r.torn > 0);
  CHECK(checked(two, kSwap, policy(true, false)).verdict == check::Verdict::fail);
}

TEST_CASE("vector=atomic: a search that tears 16 bytes leaves out what comes of that") {
  const std::string look = "  ld.volatile.global.v4.u32 {%a, %f, %b, %g}, [%m];\n";
  const std::string keep = "  ld.param.u64 %x, [out];\n  st.global.u32 [%x], %a;\n";
  const std::string text = [] {
    std::string t = kSwap;
    t.replace(t.find("peer = 1}"), 9, "peer = 1}, {memory = \"out\"}");
    return t + R"([memory.out]
kind = "local"
bytes = 4
[check.expected.out]
value = "7"
dtype = "u32"
)";
  }();
  const auto keeping = [&](const std::string& send) {
    std::string k = exchange(send, look);
    k.replace(k.find(".param .u64 theirs"), 18, ".param .u64 theirs, .param .u64 out");
    k.replace(k.find("  setp.ne.u32 %p, %a, 7;"), std::string::npos, keep + "  ret;\n}\n");
    return k;
  };
  const Written one(keeping("  st.volatile.global.v4.u32 [%t], {7, 2, 9, 1};\n"));
  const Written two(
      keeping("  st.volatile.global.v2.u32 [%t], {7, 2};\n"
              "  st.volatile.global.v2.u32 [%t+8], {9, 1};\n"));
  for (const Boundary mode : {Boundary::strict, Boundary::stream}) {
    CAPTURE(machine::name(mode));
    CHECK(in(one, text, policy(false, false, mode)) == "numeric-mismatch");
    CHECK(in(one, text, policy(true, false, mode)) == "clean");
    CHECK(in(two, text, policy(true, false, mode)) != "clean");
    CHECK(checked(one, text, policy(false, false, mode)).verdict == check::Verdict::fail);
    CHECK(checked(one, text, policy(true, false, mode)).verdict == check::Verdict::pass);
    CHECK(checked(two, text, policy(true, false, mode)).verdict == check::Verdict::fail);
  }
}

TEST_CASE("vector=atomic: a pad that was cleared word by word is written and read as one") {
  // Each rank clears its pad by words before the peer may send, so the place has a history by
  // words.
  const std::string clear =
      "  st.global.u32 [%m], 0;\n  st.global.u32 [%m+4], 0;\n  st.global.u32 [%m+8], 0;\n"
      "  st.global.u32 [%m+12], 0;\n  st.release.sys.global.u32 [%t+16], 1;\n"
      "START:\n  ld.acquire.sys.global.u32 %a, [%m+16];\n  setp.ne.u32 %p, %a, 1;\n"
      "  @%p bra START;\n";
  const std::string look = "  ld.volatile.global.v4.u32 {%a, %f, %b, %g}, [%m];\n";
  std::string text = kSwap;
  text.replace(text.find("bytes = 16"), 10, "bytes = 32");
  const Written one(exchange(clear + "  st.volatile.global.v4.u32 [%t], {7, 2, 9, 1};\n", look));
  const Written two(exchange(clear + "  st.volatile.global.v2.u32 [%t], {7, 2};\n"
                                     "  st.volatile.global.v2.u32 [%t+8], {9, 1};\n",
                             look));
  CHECK(in(one, text, policy(false, false)) == "rank-lost");
  CHECK(in(one, text, policy(true, false)) == "clean");
  CHECK(in(two, text, policy(true, false)) != "clean");
}

TEST_CASE("line=ordered: a wait of lanes that load 4 bytes each reads their 128 bytes as one") {
  // Lane 31's are the flag.
  const auto words = [](const std::string& send) {
    return Written(R"(
.visible .entry words(.param .u64 mine, .param .u64 theirs)
{
  .reg .pred %p, %q;
  .reg .b32 %t, %v;
  .reg .b64 %m, %to, %off;
  ld.param.u64 %m, [mine];
  ld.param.u64 %to, [theirs];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %off, %t, 4;
  add.u64 %m, %m, %off;
  add.u64 %to, %to, %off;
  mov.u32 %v, 1;
  setp.eq.u32 %q, %t, 31;
)" + send + R"(
WAIT:
  ld.relaxed.sys.global.u32 %v, [%m];
  setp.eq.u32 %p, %v, 1;
  setp.lt.or.u32 %p, %t, 31, %p;
  vote.sync.all.pred %p, %p, 0xffffffff;
  @!%p bra WAIT;
  setp.ne.u32 %p, %v, 1;
  @%p trap;
  ret;
}
)");
  };
  const std::string kWords = R"(ranks = 2
[memory.pad]
kind = "symmetric"
bytes = 128
[[launch]]
ptx = "k.ptx"
kernel = "words"
grid = [1]
block = [32]
args = [ {memory = "pad"}, {memory = "pad", peer = 1} ]
)";
  const Written one(words("  st.relaxed.sys.global.u32 [%to], %v;\n"));
  const Written two(
      words("  @!%q st.relaxed.sys.global.u32 [%to], %v;\n"
            "  @%q st.relaxed.sys.global.u32 [%to], %v;\n"));
  const auto says = [&](const Written& w, bool line) {
    check::CheckSpec spec;
    spec.run.policy = policy(false, line);
    spec.executions = 200;
    return check::check([&] { return w.open(kWords); }, spec).verdict;
  };
  CHECK(in(one, kWords, policy(false, false)) == "rank-lost");
  CHECK(in(one, kWords, policy(false, true)) == "clean");
  CHECK(in(two, kWords, policy(false, true)) == "rank-lost");
  CHECK(says(one, false) == check::Verdict::fail);
  CHECK(says(one, true) != check::Verdict::fail);
  CHECK(says(two, true) == check::Verdict::fail);
}

TEST_CASE("line=ordered: 128 bytes of a warp's instruction are read as one, of two are not") {
  const Written one(line(kSend));
  const Written two(line(kSendInTwo));
  CHECK(in(one, kLine, policy(false, false)) == "rank-lost");
  CHECK(in(one, kLine, policy(true, false)) == "rank-lost");
  CHECK(in(one, kLine, policy(false, true)) == "clean");
  CHECK(in(one, kLine, policy(true, true)) == "clean");
  CHECK(in(two, kLine, policy(true, true)) == "rank-lost");
}
