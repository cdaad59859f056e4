// What forms of shipped communication kernels order (tests/ptx/records/launcher-forms.txt): each
// stands where a message is passed, with twins whose order, scope or place is too weak. The
// exhaustive search and the schedules have to agree.
#include <doctest/doctest.h>

#include <string>

#include "tests/cases/threads.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

// A thread writes data and puts a flag, one of another block of its cluster looks at the flag and,
// where it is there, reads the data. %v3 is 1, %q1 the same in 16 bytes; looks leave %v1.
const std::string kRegisters =
    "  .reg .b128 %q<3>;\n  .reg .f32 %f<5>;\n  .reg .b16 %h<3>;\n  .reg .b64 %d<3>;\n"
    "  mov.u32 %v3, 1;\n  mov.u64 %d1, 1;\n  mov.u64 %d2, 0;\n  mov.b128 %q1, {%d1, %d2};\n"
    "  mov.u16 %h1, 1;\n  mov.u16 %h2, 0;\n  mov.f32 %f1, 0f3F800000;\n  mov.f32 %f2, %f1;\n"
    "  mov.f32 %f3, %f1;\n  mov.f32 %f4, %f1;\n  add.s64 %m, %m, 64;\n";

Threads passed(const std::string& put, const std::string& look) {
  const std::string writer = "{\n" + kRegisters + "  st.global.u32 [%m+-64], 1;\n" + put + "}\n";
  const std::string reader = "{\n" + kRegisters + look +
                             "  setp.eq.u32 %q, %v1, 0;\n  @%q bra $DONE;\n"
                             "  ld.global.u32 %v2, [%m+-64];\n}\n$DONE:\n";
  return {{writer, reader}, 2};
}

const std::string kPut = "  st.release.sys.global.u32 [%m], 1;\n";
const std::string kLook = "  ld.acquire.sys.global.u32 %v1, [%m];\n";
const std::string kPutWide = "  st.release.sys.global.b128 [%m], %q1;\n";
const std::string kTakeWide = "  mov.b128 {%d1, %d2}, %q1;\n  cvt.u32.u64 %v1, %d1;\n";

struct Row {
  std::string put, look, due;
};

const char* const kClean = "clean";
const char* const kRace = "data-race";

void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.put);
    CAPTURE(row.look);
    judge(row.due, passed(row.put, row.look));
  }
}

}  // namespace

TEST_CASE("orders of forms: what puts a flag publishes where it is a release of enough scope") {
  check_rows({
      {kPut, kLook, kClean},
      {"  st.release.cta.global.u32 [%m], 1;\n", kLook, kRace},
      {"  atom.global.release.sys.cas.b32 %v4, [%m], 0, 1;\n", kLook, kClean},
      {"  atom.global.relaxed.sys.cas.b32 %v4, [%m], 0, 1;\n", kLook, kRace},
      {"  atom.global.sys.acquire.cas.b32 %v4, [%m], 0, 1;\n", kLook, kRace},
      {"  atom.global.acq_rel.sys.exch.b32 %v4, [%m], %v3;\n", kLook, kClean},
      {"  atom.global.relaxed.sys.exch.b32 %v4, [%m], %v3;\n", kLook, kRace},
      {"  atom.global.gpu.acq_rel.add.f32 %f4, [ %m + 0 ], %f2;\n", kLook, kClean},
      {"  atom.global.cta.acq_rel.add.f32 %f4, [ %m + 0 ], %f2;\n", kLook, kRace},
      {"  atom.global.acq_rel.sys.v4.f32.add {%f1,%f2,%f3,%f4}, [%m], {%f1,%f2,%f3,%f4};\n", kLook,
       kClean},
      {"  atom.global.v4.f32.add.acq_rel.sys {%f1,%f2,%f3,%f4}, [%m], {%f1,%f2,%f3,%f4};\n", kLook,
       kClean},
      {"  red.global.v4.f32.add.relaxed.sys [%m], {%f1,%f2,%f3,%f4};\n", kLook, kRace},
      {"  red.global.v4.f32.add.release.sys [%m], {%f1,%f2,%f3,%f4};\n", kLook, kClean},
      {"  atom.global.sys.relaxed.max.s32 %v4, [%m], %v3;\n", kLook, kRace},
      {"  atom.global.sys.relaxed.inc.u32 %v4, [%m], %v3;\n", kLook, kRace},
      {"  st.mmio.relaxed.sys.global.u32 [%m], %v3;\n", kLook, kRace},
      {"  fence.release.sys;\n  st.mmio.relaxed.sys.global.u32 [%m], %v3;\n", kLook, kClean},
      {"  st.volatile.global.u32 [%m], %v3;\n", kLook, kRace},
      {"  st.global.wt.b32 [%m], %v3;\n", kLook, kRace},
  });
}

TEST_CASE("orders of forms: what looks at a flag takes it in where it is an acquire") {
  check_rows({
      {kPut, "  ld.acquire.sys.b32 %v1, [%m];\n", kClean},
      {kPut, "  ld.acquire.cluster.global.u32 %v1, [%m];\n", kClean},
      {kPut, "  ld.acquire.cta.global.u32 %v1, [%m];\n", kRace},
      {kPut, "  ld.relaxed.sys.global.u32 %v1, [%m];\n", kRace},
      {kPut, "  ld.mmio.relaxed.sys.global.u32 %v1, [%m];\n", kRace},
      {kPut, "  ld.mmio.relaxed.sys.global.u32 %v1, [%m];\n  fence.acquire.sys;\n", kClean},
      {kPut, "  ld.global.cv.b32 %v1, [%m];\n", kRace},
      {kPut, "  atom.global.sys.acquire.cas.b32 %v1, [%m], 0, 1;\n", kClean},
      {kPut, "  atom.global.release.sys.cas.b32 %v1, [%m], 0, 1;\n", kRace},
      {kPut, "  atom.global.sys.acq_rel.and.b32 %v1, [%m], %v3;\n", kClean},
      {kPut, "  atom.global.sys.relaxed.and.b32 %v1, [%m], %v3;\n", kRace},
      {"  st.release.sys.global.u16 [%m], %h1;\n",
       "  atom.global.sys.acq_rel.cas.b16 %h2, [%m], %h2, %h1;\n  cvt.u32.u16 %v1, %h2;\n", kClean},
      {"  st.relaxed.sys.global.u16 [%m], %h1;\n",
       "  atom.global.sys.acq_rel.cas.b16 %h2, [%m], %h2, %h1;\n  cvt.u32.u16 %v1, %h2;\n", kRace},
  });
}

TEST_CASE("orders of forms: 16 bytes that are one are put and taken as one") {
  const std::string look = "  ld.acquire.sys.global.b128 %q1, [%m];\n" + kTakeWide;
  const std::string swap =
      "  mov.b128 %q2, {%d2, %d2};\n  atom.acquire.sys.global.exch.b128 %q1, [%m], %q2;\n" +
      kTakeWide;
  const std::string compare =
      "  mov.b128 %q2, {%d2, %d2};\n  atom.global.sys.acq_rel.cas.b128 %q1, [%m], %q2, %q2;\n" +
      kTakeWide;
  check_rows({
      {kPutWide, look, kClean},
      {kPutWide, swap, kClean},
      {kPutWide, compare, kClean},
      {"  st.relaxed.sys.global.b128 [%m], %q1;\n", look, kRace},
      {"  st.relaxed.sys.global.b128 [%m], %q1;\n", swap, kRace},
      {kPutWide, "  ld.relaxed.sys.global.b128 %q1, [%m];\n" + kTakeWide, kRace},
      {kPutWide, "  ld.relaxed.sys.global.b128 %q1, [%m];\n  fence.acquire.sys;\n" + kTakeWide,
       kClean},
      {kPutWide, "  ld.global.b128 %q1, [%m];\n" + kTakeWide, kRace},
      // Of other sizes they are no morally strong ones.
      {kPutWide, kLook, kRace},
  });
}

TEST_CASE("orders of forms: st.async and red.async with .release publish what precedes them") {
  check_rows({
      {"  st.async.release.sys.global.b32 [%m], %v3;\n", kLook, kClean},
      {"  st.async.release.gpu.global.b32 [%m], %v3;\n", kLook, kClean},
      {"  st.async.mmio.release.sys.global.b32 [%m], %v3;\n", kLook, kClean},
      {"  red.async.release.sys.global.add.u32 [%m], %v3;\n", kLook, kClean},
      {"  red.async.mmio.release.sys.global.add.u32 [%m], %v3;\n", kLook, kClean},
      // And nothing that follows them; a look that is no acquire takes nothing in.
      {"  st.async.release.sys.global.b32 [%m], %v3;\n  st.global.u32 [%m+-64], 2;\n", kLook,
       kRace},
      {"  red.async.release.sys.global.add.u32 [%m], %v3;\n  st.global.u32 [%m+-64], 2;\n", kLook,
       kRace},
      {"  st.async.release.sys.global.b32 [%m], %v3;\n", "  ld.relaxed.sys.global.u32 %v1, [%m];\n",
       kRace},
      {"  st.async.mmio.release.sys.global.b32 [%m], %v3;\n",
       "  ld.relaxed.sys.global.u32 %v1, [%m];\n", kRace},
      {"  red.async.mmio.release.sys.global.add.u32 [%m], %v3;\n",
       "  ld.relaxed.sys.global.u32 %v1, [%m];\n", kRace},
  });
}

TEST_CASE("orders of forms: between ranks st.async and red.async need the scope of the system") {
  const auto text = [](const std::string& put) {
    return R"(
.visible .entry k(.param .u64 data, .param .u64 theirs, .param .u32 rank)
{
  .reg .pred %p;
  .reg .b32 %v<4>;
  .reg .b64 %m;
  ld.param.u32 %v0, [rank];
  mov.u32 %v3, 1;
  setp.eq.u32 %p, %v0, 1;
  @%p bra LOOK;
  ld.param.u64 %m, [theirs];
  st.global.u32 [%m], 1;
  add.s64 %m, %m, 64;
)" + put +
           R"(
  ret;
LOOK:
  ld.param.u64 %m, [data];
  ld.acquire.sys.global.u32 %v1, [%m+64];
  setp.eq.u32 %p, %v1, 0;
  @%p ret;
  ld.global.u32 %v2, [%m];
  ret;
}
)";
  };
  const std::string kCase = R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 128
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [1]
block = [1]
args = [ {memory = "data"}, {memory = "data", peer = 1}, "rank" ]
)";
  for (const std::string form :
       {"st.async.release.SCOPE.global.b32", "red.async.release.SCOPE.global.add.u32"}) {
    for (const std::string scope : {"sys", "gpu"}) {
      std::string put = form;
      put.replace(put.find("SCOPE"), 5, scope);
      CAPTURE(put);
      const Written w(text("  " + put + " [%m], %v3;\n"));
      const std::string due = scope == "sys" ? kClean : kRace;
      const auto program = w.open(kCase);
      CHECK(found(fuzz(*program, Boundary::stream, 200, {})) == due);
      check::CheckSpec spec;
      const check::CheckResult r = check::check([&] { return w.open(kCase); }, spec);
      CHECK(r.verdict == (scope == "sys" ? check::Verdict::pass : check::Verdict::fail));
    }
  }
}

TEST_CASE("orders of forms: a flag publishes where a fence of its kind and scope precedes it") {
  const std::string put = "  st.relaxed.sys.global.u32 [%m], 1;\n";
  const std::string look = "  ld.relaxed.sys.global.u32 %v1, [%m];\n";
  check_rows({
      {put, kLook, kRace},
      {"  fence.release.sys;\n" + put, kLook, kClean},
      {"  fence.acquire.sys;\n" + put, kLook, kRace},
      {"  fence.sc.sys;\n" + put, kLook, kClean},
      {"  fence.acq_rel.cluster;\n" + put, kLook, kClean},
      {"  fence.acq_rel.cta;\n" + put, kLook, kRace},
      {"  membar.sys;\n" + put, kLook, kClean},
      {"  membar.gl;\n" + put, kLook, kClean},
      {"  membar.cta;\n" + put, kLook, kRace},
      {put + "  fence.sc.sys;\n", kLook, kRace},
      {kPut, look + "  fence.acquire.sys;\n", kClean},
      {kPut, look + "  fence.release.sys;\n", kRace},
      {kPut, look + "  fence.sc.sys;\n", kClean},
      {kPut, look + "  fence.acq_rel.cluster;\n", kClean},
      {kPut, look + "  membar.sys;\n", kClean},
      {kPut, look + "  membar.gl;\n", kClean},
      {kPut, "  fence.sc.sys;\n" + look, kRace},
  });
}

TEST_CASE("orders of forms: multimem's releases and acquires are those of plain accesses") {
  const auto text = [](const std::string& put, const std::string& look) {
    return R"(
.visible .entry k(.param .u64 data, .param .u64 theirs, .param .u64 flag, .param .u64 all,
                  .param .u32 rank)
{
  .reg .pred %p;
  .reg .b32 %v<4>;
  .reg .b64 %m, %f;
  ld.param.u32 %v0, [rank];
  mov.u32 %v3, 1;
  setp.eq.u32 %p, %v0, 1;
  @%p bra LOOK;
  ld.param.u64 %m, [theirs];
  ld.param.u64 %f, [all];
  st.global.u32 [%m], 1;
)" + put +
           R"(
  ret;
LOOK:
  ld.param.u64 %m, [data];
)" + look +
           R"(
  setp.eq.u32 %p, %v1, 0;
  @%p ret;
  ld.global.u32 %v2, [%m];
  ret;
}
)";
  };
  const std::string kCase = R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 64
[memory.flag]
kind = "symmetric"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [1]
block = [1]
args = [ {memory = "data"}, {memory = "data", peer = 1}, {memory = "flag"}, {multicast = "flag"},
         "rank" ]
)";
  const std::string own = "  ld.param.u64 %f, [flag];\n  ld.acquire.sys.global.u32 %v1, [%f];\n";
  const std::string all =
      "  ld.param.u64 %f, [all];\n  multimem.ld_reduce.acquire.sys.global.add.u32 %v1, [%f];\n";
  const std::string weak_all =
      "  ld.param.u64 %f, [all];\n  multimem.ld_reduce.relaxed.sys.global.add.u32 %v1, [%f];\n";
  const std::string st = "  multimem.st.release.sys.global.u32 [%f], %v3;\n";
  const std::string red = "  multimem.red.release.sys.global.add.u32 [%f], %v3;\n";
  const Row rows[] = {
      {st, own, kClean},
      {red, own, kClean},
      {"  multimem.st.relaxed.sys.global.u32 [%f], %v3;\n", own, kRace},
      {"  multimem.red.relaxed.sys.global.add.u32 [%f], %v3;\n", own, kRace},
      {"  multimem.red.relaxed.sys.global.or.b32 [%f], %v3;\n", own, kRace},
      {st, all, kClean},
      {red, all, kClean},
      {red, weak_all, kRace},
      {"  multimem.red.release.gpu.global.add.u32 [%f], %v3;\n", own, kRace},
  };
  for (const Row& row : rows) {
    CAPTURE(row.put);
    CAPTURE(row.look);
    const Written w(text(row.put, row.look));
    const auto program = w.open(kCase);
    CHECK(found(fuzz(*program, Boundary::stream, 200, {})) == row.due);
    check::CheckSpec spec;
    const check::CheckResult r = check::check([&] { return w.open(kCase); }, spec);
    CHECK(r.verdict == (row.due == kClean ? check::Verdict::pass : check::Verdict::fail));
  }
}

// Rank 1 traps where it sees what the instruction does at its first replica and not what it does at
// the second one.
TEST_CASE("orders of forms: what multimem does at one replica orders nothing at another") {
  const auto text = [](const std::string& put) {
    return R"(
.visible .entry k(.param .u64 one, .param .u64 other, .param .u64 all, .param .u32 rank)
{
  .reg .pred %p;
  .reg .b32 %v<4>;
  .reg .b64 %m, %o, %f;
  ld.param.u32 %v0, [rank];
  mov.u32 %v3, 1;
  setp.eq.u32 %p, %v0, 1;
  ld.param.u64 %m, [one];
  ld.param.u64 %o, [other];
  ld.param.u64 %f, [all];
  @%p bra LOOK;
)" + put +
           R"(
  ret;
LOOK:
  ld.acquire.sys.global.u32 %v1, [%m];
  setp.eq.u32 %p, %v1, 0;
  @%p ret;
  ld.relaxed.sys.global.u32 %v2, [%o];
  setp.eq.u32 %p, %v2, 0;
  @%p trap;
  ret;
}
)";
  };
  const auto case_of = [](const std::string& args) {
    return "ranks = 2\n[memory.flag]\nkind = \"symmetric\"\nbytes = 4\n[[launch]]\n"
           "ptx = \"k.ptx\"\nkernel = \"k\"\ngrid = [1]\nblock = [1]\nargs = [ " +
           args + ", {multicast = \"flag\"}, \"rank\" ]\n";
  };
  const std::string own_first = case_of("{memory = \"flag\"}, {memory = \"flag\", peer = 1}");
  const std::string own_last = case_of("{memory = \"flag\", peer = 1}, {memory = \"flag\"}");
  const auto judge = [](const Written& w, const std::string& file, const std::string& due) {
    const auto program = w.open(file);
    CHECK(found(fuzz(*program, Boundary::stream, 400, {})) == due);
    check::CheckSpec spec;
    spec.run.policy.boundary = Boundary::stream;
    const check::CheckResult r = check::check([&] { return w.open(file); }, spec);
    CHECK(r.verdict == (due == kClean ? check::Verdict::pass : check::Verdict::fail));
  };
  const std::string trapped = "rank-lost";
  const Written st(text("  multimem.st.release.sys.global.u32 [%f], %v3;\n"));
  const Written red(text("  multimem.red.release.sys.global.add.u32 [%f], %v3;\n"));
  for (const std::string& file : {own_first, own_last}) {
    judge(st, file, trapped);
    judge(red, file, trapped);
  }
  // Two instructions are ordered: rank 1 looks first at what rank 0 stores last, or not.
  const std::string one = "  st.release.sys.global.u32 [%m], %v3;\n";
  const std::string other = "  st.release.sys.global.u32 [%o], %v3;\n";
  judge(Written(text(one + other)), own_first, kClean);
  judge(Written(text(other + one)), own_first, trapped);
}

// Rank 1 adds 1 at all ranks. The adder waits for that at itself and adds 1 at the looker, whom it
// tells. What rank 1 adds there may come behind all of that. By the order in which a run makes it,
// it does where the adder is rank 0 (so the failure is one of the model), and not where it is rank
// 2: there check must not pass, either.
TEST_CASE("orders of forms: who looks at a counter of all ranks may miss a part of an addition") {
  const auto text = [](int adder, const std::string& enough, const std::string& add,
                       const std::string& look) {
    const std::string looker = std::to_string(8 * (2 - adder));
    return R"(
.visible .entry k(.param .u64 mine, .param .u64 counters, .param .u64 flags, .param .u64 all,
                  .param .u32 rank)
{
  .reg .pred %p;
  .reg .b32 %v<5>;
  .reg .b64 %m, %t, %f, %a;
  ld.param.u32 %v0, [rank];
  ld.param.u64 %m, [mine];
  ld.param.u64 %t, [counters];
  ld.u64 %t, [%t+)" +
           looker + R"(];
  ld.param.u64 %f, [flags];
  ld.u64 %f, [%f+)" +
           looker + R"(];
  ld.param.u64 %a, [all];
  mov.u32 %v3, 1;
  mov.u32 %v2, 2;
  setp.eq.u32 %p, %v0, 1;
  @%p bra SEND;
  setp.eq.u32 %p, %v0, )" +
           std::to_string(adder) + R"(;
  @%p bra ADD;
WAIT:
  ld.acquire.sys.global.u32 %v1, [%f];
  setp.eq.u32 %p, %v1, 0;
  @%p bra WAIT;
ENOUGH:
  ld.acquire.sys.global.u32 %v1, [%t];
  setp.lt.u32 %p, %v1, )" +
           enough + ";\n  @%p bra ENOUGH;\n" + look + R"(
  setp.eq.u32 %p, %v2, 1;
  @%p trap;
  ret;
ADD:
  ld.acquire.sys.global.u32 %v1, [%m];
  setp.eq.u32 %p, %v1, 0;
  @%p bra ADD;
)" + add + R"(
  st.release.sys.global.u32 [%f], 1;
  setp.eq.u32 %p, %v2, 1;
  @%p trap;
  ret;
SEND:
  multimem.red.release.sys.global.add.u32 [%a], %v3;
  ret;
}
)";
  };
  const auto judged = [&](int adder, const std::string& enough, const std::string& add,
                          const std::string& look) {
    const std::string file =
        "ranks = 3\n[memory.c]\nkind = \"symmetric\"\nbytes = 4\n"
        "[memory.flag]\nkind = \"symmetric\"\nbytes = 4\n[[launch]]\nptx = \"k.ptx\"\n"
        "kernel = \"k\"\ngrid = [1]\nblock = [1]\nargs = [ {memory = \"c\"}, {peers = \"c\"}, "
        "{peers = \"flag\"}, {multicast = \"c\"}, \"rank\" ]\n";
    const Written w(text(adder, enough, add, look));
    check::CheckSpec spec;
    spec.run.policy.boundary = Boundary::stream;
    return check::check([&] { return w.open(file); }, spec);
  };
  const std::string red = "  red.release.sys.global.add.u32 [%t], 1;\n";
  const std::string plain = "  ld.relaxed.sys.global.u32 %v2, [%t];\n";
  struct Look {
    std::string enough, add, look;
  };
  const Look looks[] = {
      {"1", red, plain},
      {"1", red, "  ld.acquire.sys.global.u32 %v2, [%t];\n"},
      {"1", red, "  ld.weak.global.u32 %v2, [%t];\n"},
      {"1", red + plain, ""},
      {"1", "  atom.release.sys.global.add.u32 %v4, [%t], 1;\n  add.u32 %v2, %v4, 1;\n", ""},
  };
  for (const Look& l : looks) {
    CAPTURE(l.add);
    CAPTURE(l.look);
    CHECK(judged(0, l.enough, l.add, l.look).verdict == check::Verdict::fail);
    CHECK(judged(2, l.enough, l.add, l.look).verdict != check::Verdict::pass);
    if (l.look.empty()) continue;
    // Behind both additions nothing is missed. (Behind a weak one orders of additions are
    // explored.)
    const bool weak = l.look.find("weak") != std::string::npos;
    for (const int adder : {0, 2}) {
      const check::CheckResult r = judged(adder, "2", l.add, l.look);
      CHECK(r.verdict != check::Verdict::fail);
      if (weak) continue;
      CHECK(r.verdict == check::Verdict::pass);
      CHECK(r.left_out.empty());
    }
  }
  // Nor is there anything to miss where the looker only waits.
  for (const int adder : {0, 2}) {
    CHECK(judged(adder, "1", red, "").verdict == check::Verdict::pass);
  }
}

TEST_CASE("orders of forms: another address of a place needs fence.proxy.alias by the letter") {
  const auto text = [](const std::string& fence) {
    return R"(
.visible .entry k(.param .u64 data, .param .u64 all)
{
  .reg .b32 %v<3>;
  .reg .b64 %m, %f;
  ld.param.u64 %m, [data];
  ld.param.u64 %f, [all];
  mov.u32 %v1, 1;
  multimem.st.weak.global.u32 [%f], %v1;
)" + fence +
           R"(
  ld.global.u32 %v2, [%m];
  ret;
}
)";
  };
  const std::string kCase = R"(ranks = 1
[memory.data]
kind = "symmetric"
bytes = 64
[[launch]]
ptx = "k.ptx"
kernel = "k"
grid = [1]
block = [1]
args = [ {memory = "data"}, {multicast = "data"} ]
)";
  machine::Policy letter;
  letter.alias_data = machine::AliasData::fence_required;
  for (const bool fenced : {false, true}) {
    const Written w(text(fenced ? "  fence.proxy.alias;\n" : ""));
    const auto program = w.open(kCase);
    CHECK(found(fuzz(*program, letter, 100, {})) == (fenced ? kClean : kRace));
    CHECK(found(fuzz(*program, Boundary::strict, 100, {})) == kClean);
  }
}
