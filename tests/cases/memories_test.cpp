// What memories hold at the start: structs, tables of addresses, numbers, files; where replicas
// are; and what a large one costs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"
#include "verify/safetensors.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using cases::CaseProgram;
using machine::Boundary;

namespace {

struct Run {
  schedule::RunEnd end = schedule::RunEnd::complete;
  std::string kind = "clean";
  std::string mismatch;
  verify::Safetensors memories;
  std::vector<std::uint32_t> words(const std::string& name) const {
    const verify::Tensor* const t = memories.find(name);
    REQUIRE(t != nullptr);
    std::vector<std::uint32_t> out(t->bytes.size() / 4);
    std::memcpy(out.data(), t->bytes.data(), out.size() * 4);
    return out;
  }
};

Run run(CaseProgram& program, bool with_memories = true) {
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  Run out;
  out.end = outcome.end;
  if (const auto f = schedule::failure(outcome)) out.kind = machine::name(f->kind);
  out.mismatch = program.last_mismatch();
  if (with_memories) out.memories = program.final_memories();
  return out;
}

// Copies what three pointers of a struct lead to, and the number behind them.
const std::string kFollow = R"(
.visible .entry follow(.param .u64 params, .param .u64 out)
{
  .reg .b32 %v;
  .reg .b64 %s, %o, %a;
  ld.param.u64 %s, [params];
  ld.param.u64 %o, [out];
  ld.global.u64 %a, [%s];
  ld.global.u32 %v, [%a];
  st.global.u32 [%o], %v;
  ld.global.u64 %a, [%s+8];
  ld.global.u32 %v, [%a];
  st.global.u32 [%o+4], %v;
  ld.global.u64 %a, [%s+16];
  ld.global.u32 %v, [%a];
  st.global.u32 [%o+8], %v;
  ld.global.u32 %v, [%s+24];
  st.global.u32 [%o+12], %v;
  ret;
}
)";

std::string follow(const std::string& params, const std::string& bytes = "") {
  return R"(ranks = 3
[memory.data]
kind = "symmetric"
bytes = 8
init = { u32 = ["rank * 10 + 5", 77] }
[memory.params]
kind = "local"
)" + bytes +
         "init = " + params + R"(
[memory.out]
kind = "local"
bytes = 16
[[launch]]
ptx = "k.ptx"
kernel = "follow"
grid = [1]
block = [1]
args = [ {memory = "params"}, {memory = "out"} ]
)";
}

// Reads a word far inside a memory, traps unless it is 0, and writes there.
const std::string kFar = R"(
.visible .entry far(.param .u64 buf, .param .s32 comm, .param .s32 clear, .param .u32 wide)
{
  .reg .pred %p;
  .reg .b32 %c, %n, %w, %v;
  .reg .b64 %b, %o;
  ld.param.u64 %b, [buf];
  ld.param.s32 %c, [comm];
  ld.param.s32 %n, [clear];
  ld.param.u32 %w, [wide];
  setp.ne.u32 %p, %w, 0;
  @%p bra WIDE;
  mul.lo.s32 %c, %c, %n;
  cvt.s64.s32 %o, %c;
  bra GO;
WIDE:
  mul.wide.s32 %o, %c, %n;
GO:
  add.s64 %b, %b, %o;
  ld.global.u32 %v, [%b];
  setp.eq.u32 %p, %v, 0;
  @%p bra RIGHT;
  trap;
RIGHT:
  st.global.u32 [%b], -2147483648;
  ret;
}
)";

std::string far(int wide, const std::string& more = "") {
  return R"(ranks = 2
[memory.buf]
kind = "local"
bytes = 2200000128
[[launch]]
ptx = "k.ptx"
kernel = "far"
grid = [1]
block = [1]
args = [ {memory = "buf"}, {s32 = 1100000000}, {s32 = 2}, {u32 = )" +
         std::to_string(wide) + "} ]\n" + more;
}

// Kilobytes of this process that are in memory.
std::uint64_t resident() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t all = 0, pages = 0;
  in >> all >> pages;
  return pages * 4;
}

}  // namespace

TEST_CASE("a struct in a memory holds addresses of the own, a relative and an absolute replica") {
  const Written w(kFollow);
  const auto program = w.open(
      follow("{ struct = [ {memory = \"data\"}, {memory = \"data\", peer = 1}, {memory = \"data\", "
             "rank = 2, offset = 4}, {u32 = [7, 8, 9]} ] }"));
  const Run r = run(*program);
  CHECK(r.kind == "clean");
  CHECK(r.words("out.0") == std::vector<std::uint32_t>{5, 15, 77, 7});
  CHECK(r.words("out.1") == std::vector<std::uint32_t>{15, 25, 77, 8});
  CHECK(r.words("out.2") == std::vector<std::uint32_t>{25, 5, 77, 9});
}

TEST_CASE("a memory is as long as its struct, so a struct that is too short is out of bounds") {
  const Written w(kFollow);
  const std::string three = "{ struct = [ {replicas = \"data\", count = 3} ] }";
  const Run r = run(*w.open(follow(three)), false);
  CHECK(r.kind == "out-of-bounds");
  CHECK(says(r.mismatch, " 24"));
  CHECK(says(w.refusal(follow(three, "bytes = 32\n")), "init has 24 bytes, bytes says 32"));
  CHECK(says(w.refusal(follow(three, "bytes = 16\n")), "init has 24 bytes, bytes says 16"));
  // Told where it stands, it may be a part.
  const Run part = run(
      *w.open(follow("{ at = 0, struct = [ {replicas = \"data\", count = 3} ] }", "bytes = 32\n")));
  CHECK(part.kind == "clean");
  CHECK(part.words("out.1") == std::vector<std::uint32_t>{5, 15, 25, 0});
}

TEST_CASE("a memory is made of parts, with zero between them") {
  const Written w(kFollow);
  const Run r = run(*w.open(
      follow("[ {at = 8, memory = \"data\", peer = 2}, {at = 0, memory = \"data\"}, {at = 16, "
             "memory = \"data\"}, {at = 24, u16 = [3, 1]} ]",
             "bytes = 64\n")));
  CHECK(r.words("out.0") == std::vector<std::uint32_t>{5, 25, 5, 65539});
  CHECK(r.words("params.0")[7] == 0);
}

TEST_CASE("distances are those of the replicas from the own one, as heaps keep them") {
  const Written w(R"(
.visible .entry pull(.param .u64 mine, .param .u64 table, .param .u64 out, .param .u32 other)
{
  .reg .b32 %v, %r;
  .reg .b64 %m, %t, %o, %d;
  ld.param.u64 %m, [mine];
  ld.param.u64 %t, [table];
  ld.param.u64 %o, [out];
  ld.param.u32 %r, [other];
  mul.wide.u32 %d, %r, 8;
  add.s64 %t, %t, %d;
  ld.global.u64 %d, [%t];
  add.s64 %m, %m, %d;
  ld.global.u32 %v, [%m];
  st.global.u32 [%o], %v;
  ret;
}
)");
  const std::string text = R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 4
init = { u32 = ["rank + 40"] }
[memory.heap]
kind = "local"
init = { distances = "data", count = 4 }
[memory.out]
kind = "local"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = "pull"
grid = [1]
block = [1]
args = [ {memory = "data"}, {memory = "heap"}, {memory = "out"}, {u32 = "1 - rank"} ]
)";
  const Run r = run(*w.open(text));
  CHECK(r.kind == "clean");
  CHECK(r.words("out.0")[0] == 41);
  CHECK(r.words("out.1")[0] == 40);
  CHECK(r.words("heap.1")[2] == 0);  // itself
  CHECK(r.words("heap.0").size() == 8);
}

TEST_CASE("replicas a fixed distance apart are reached by adding it to the own address") {
  const Written w(R"(
.visible .entry step(.param .u64 mine, .param .s64 step, .param .u64 out)
{
  .reg .b32 %v;
  .reg .b64 %m, %s, %o;
  ld.param.u64 %m, [mine];
  ld.param.s64 %s, [step];
  ld.param.u64 %o, [out];
  add.s64 %m, %m, %s;
  ld.global.u32 %v, [%m];
  st.global.u32 [%o], %v;
  ret;
}
)");
  const auto text = [](const std::string& distance) {
    return R"(ranks = 3
[memory.before]
kind = "symmetric"
bytes = 5000000
[memory.data]
kind = "symmetric"
bytes = 4
)" + distance +
           R"(init = { u32 = ["rank + 40"] }
[memory.out]
kind = "local"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = "step"
grid = [1]
block = [1]
args = [ {memory = "data"}, {s64 = [8589934592, -4294967296, -8589934592]}, {memory = "out"} ]
)";
  };
  const Run r = run(*w.open(text("distance = 4294967296\n")));
  CHECK(r.kind == "clean");
  CHECK(r.words("out.0")[0] == 42);
  CHECK(r.words("out.1")[0] == 40);
  CHECK(r.words("out.2")[0] == 40);
  CHECK(run(*w.open(text("")), false).kind == "out-of-bounds");
  CHECK(says(w.refusal(text("distance = 4096\n")), "a multiple of 2097152"));
}

TEST_CASE("content that is there once stays from call to call; content of each call does not") {
  const Written w(R"(
.visible .entry add(.param .u64 data)
{
  .reg .b32 %v;
  .reg .b64 %d;
  ld.param.u64 %d, [data];
  ld.global.u32 %v, [%d];
  add.u32 %v, %v, 1;
  st.global.u32 [%d], %v;
  ret;
}
)");
  verify::Safetensors tensors;
  verify::Tensor t;
  t.dtype = verify::Dtype::u32;
  t.shape = {1};
  t.bytes.resize(4);
  t.bytes[0] = std::byte{100};
  tensors.add("x", t);
  for (const int rank : {0, 1}) {
    for (const int call : {0, 1, 2}) {
      t.bytes[0] = std::byte(10 * rank + call);
      tensors.add(fmt::format("y.{}.{}", rank, call), t);
    }
  }
  verify::write_safetensors(w.path("x.safetensors"), tensors);
  const auto last = [&](const std::string& init) {
    const Run r = run(*w.open(R"(ranks = 2
calls = 3
[memory.data]
kind = "local"
bytes = 4
init = )" + init + R"(
[[launch]]
ptx = "k.ptx"
kernel = "add"
grid = [1]
block = [1]
args = [ {memory = "data"} ]
)"));
    CHECK(r.kind == "clean");
    return r.words("data.1")[0];
  };
  const std::string file = "{ file = \"x.safetensors\", tensor = \"x\"";
  CHECK(last(file + " }") == 101);
  CHECK(last(file + ", once = true }") == 103);
  // A tensor of its own for each rank and call: rank 1's, in the last call and in the first.
  const std::string own = "{ file = \"x.safetensors\", tensor = \"y.{rank}.{call}\"";
  CHECK(last(own + " }") == 13);
  CHECK(last(own + ", once = true }") == 13);
  CHECK(last("{ u32 = 20 }") == 23);
}

TEST_CASE("a tensor of another call than there is recorded is asked for by its name") {
  const Written w(R"(
.visible .entry nothing()
{
  ret;
}
)");
  verify::Safetensors tensors;
  tensors.add("y.0", verify::Tensor(verify::Dtype::u32, {1}));
  verify::write_safetensors(w.path("x.safetensors"), tensors);
  CHECK(says(w.refusal(R"(ranks = 1
calls = 2
[memory.data]
kind = "local"
bytes = 4
init = { file = "x.safetensors", tensor = "y.{call}" }
[[launch]]
ptx = "k.ptx"
kernel = "nothing"
grid = [1]
block = [1]
args = []
)"),
             "needs the tensor 'y.1'"));
}

TEST_CASE("'same' data is the same on all ranks, and one number fills a memory") {
  const Written w(R"(
.visible .entry nothing()
{
  ret;
}
)");
  const Run r = run(*w.open(R"(ranks = 2
[memory.gamma]
kind = "local"
bytes = 64
init = { u32 = "integers", same = true }
[memory.own]
kind = "local"
bytes = 64
init = { u32 = "integers" }
[memory.sentinel]
kind = "local"
bytes = 16
init = { u32 = 0x80000000 }
[memory.counts]
kind = "local"
bytes = 12
init = { s32 = "index * 2 - rank" }
[memory.reals]
kind = "local"
init = { f32 = [1.5, -2] }
[[launch]]
ptx = "k.ptx"
kernel = "nothing"
grid = [1]
block = [1]
args = []
)"));
  CHECK(r.words("gamma.0") == r.words("gamma.1"));
  CHECK(r.words("own.0") != r.words("own.1"));
  CHECK(r.words("sentinel.1") == std::vector<std::uint32_t>(4, 0x80000000U));
  CHECK(r.words("counts.1") == std::vector<std::uint32_t>{0xFFFFFFFFU, 1, 3});
  CHECK(r.words("reals.0") == std::vector<std::uint32_t>{0x3fc00000, 0xc0000000});
}

TEST_CASE("a memory of 2.2 GB costs what is touched, and is as it was in the next run") {
  const Written w(kFar);
  const std::uint64_t before = resident();
  const auto program = w.open(far(1));
  CHECK(program->shared_bytes() < (1U << 20));
  CHECK(found(fuzz(*program, Boundary::stream, 20)) == "clean");
  CHECK(resident() < before + (256U << 10));
  // The 32-bit product wraps around.
  CHECK(found(fuzz(*w.open(far(0)), Boundary::stream, 1)) == "out-of-bounds");
}

TEST_CASE("what was touched of a large memory is compared with its start") {
  const Written w(kFar);
  const Run r = run(*w.open(far(1, "[check]\nrestored = [\"buf\"]\n")), false);
  CHECK(r.kind == "unrestored-signal");
  CHECK(says(r.mismatch, "byte 2200000003 of buf of rank 0 is 0x80"));
}

TEST_CASE("rank processes share a large memory") {
  const Written w(R"(
.visible .entry send(.param .u64 mine, .param .u64 theirs, .param .u64 far, .param .u32 rank)
{
  .reg .pred %p;
  .reg .b32 %v, %r;
  .reg .b64 %m, %t, %f;
  ld.param.u64 %m, [mine];
  ld.param.u64 %t, [theirs];
  ld.param.u64 %f, [far];
  ld.param.u32 %r, [rank];
  add.u32 %r, %r, 1;
  add.s64 %m, %m, %f;
  add.s64 %t, %t, %f;
  st.relaxed.sys.global.u32 [%t], %r;
WAIT:
  ld.relaxed.sys.global.u32 %v, [%m];
  setp.eq.u32 %p, %v, 0;
  @%p bra WAIT;
  ret;
}
)");
  const auto program = w.open(R"(ranks = 2
calls = 1
[memory.buf]
kind = "symmetric"
bytes = 2200000128
[[launch]]
ptx = "k.ptx"
kernel = "send"
grid = [1]
block = [1]
args = [ {memory = "buf"}, {memory = "buf", peer = 1}, {u64 = 2200000000}, "rank" ]
)");
  const auto executor = ranks::make_processes(*program);
  schedule::RunSpec spec;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  for (int i = 0; i < 3; ++i) {
    const schedule::Outcome outcome = executor->run(spec);
    CHECK(outcome.end == schedule::RunEnd::complete);
    CHECK(outcome.findings.empty());
  }
}

TEST_CASE("what memories cannot hold is refused in one line") {
  const Written w(kFollow);
  const auto refused = [&](const std::string& params, const std::string& part,
                           const std::string& bytes = "bytes = 64\n") {
    const std::string text = w.refusal(follow(params, bytes));
    CAPTURE(text);
    CHECK(says(text, part));
    CHECK(text.find('\n') == std::string::npos);
  };
  refused("{ u32 = [] }", "is empty");
  refused("{ u8 = [256] }", "from 0 to 255");
  refused("{ u8 = \"rank + 255\" }", "256 is no u8");
  refused("{ u32 = \"call + 1\" }", "expected a formula without 'call'");
  refused("{ at = 0, struct = [ {u32 = \"call\"} ] }", "expected a formula without 'call'");
  refused("{ u32 = \"rank +\" }", "expected a formula");
  refused("{ u32 = \"1 / rank\" }", "divides by zero");
  refused("{ u31 = [1] }", "init has the key 'u31'");
  refused("{ at = 60, u64 = [1] }", "init has 68 bytes, bytes says 64");
  refused("{ replicas = \"nothing\", count = 8 }", "which no [memory.nothing] declares");
  refused("{ distances = \"out\", count = 8 }", "make it symmetric");
  refused("{ struct = [ {memory = \"data\", rank = 3} ] }",
          "rank must be a whole number from 0 to 2", "");
  refused("{ struct = [ {memory = \"data\", rank = 1, peer = 1} ] }", "not both", "");
  refused("{ u32 = \"rank\" }", "lacks the key 'bytes'", "");
}
