// Policies of compiled kernels: what each excuses, and twins that stay findings.
#include <doctest/doctest.h>

#include <string>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;
using machine::Boundary;

namespace {

constexpr Boundary kModes[] = {Boundary::strict, Boundary::stream, Boundary::coherent};

std::string in(const Written& w, const std::string& text, machine::Policy policy,
               std::uint64_t schedules = 100) {
  const auto program = w.open(text);
  const auto executor = ranks::make_inline(*program);
  schedule::SearchSpec spec;
  spec.run.policy = policy;
  spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
  spec.run.point_limit = 1u << 16;
  spec.schedules = schedules;
  return found(schedule::search({executor.get()}, spec));
}

machine::Policy fresh(Boundary mode, bool on = true) {
  machine::Policy p;
  p.boundary = mode;
  if (on) p.fresh_lines = machine::FreshLines::on;
  return p;
}

// A relaxed flag at the peer, a wait for the own one, then a load of the peer's data, as libraries
// ship it. LOAD is the load; WRITE stands before the flag; READ between the wait and the load.
std::string pull(const std::string& load, const std::string& write = "",
                 const std::string& read = "") {
  return R"(
.visible .entry pull(.param .u64 mine, .param .u64 theirs, .param .u64 out, .param .u64 pad,
                     .param .u64 their_pad)
{
  .reg .pred %p;
  .reg .b32 %v, %w;
  .reg .b64 %m, %t, %o, %a, %b;
  ld.param.u64 %m, [mine];
  ld.param.u64 %t, [theirs];
  ld.param.u64 %o, [out];
  ld.param.u64 %a, [pad];
  ld.param.u64 %b, [their_pad];
)" + write +
         R"(
  st.relaxed.sys.global.u32 [%b], 1;
WAIT:
  ld.relaxed.sys.global.u32 %v, [%a];
  setp.ne.u32 %p, %v, 1;
  @%p bra WAIT;
)" + read +
         load + R"(
  st.global.u32 [%o], %v;
  ret;
}
)";
}

std::string pull_case(const std::string& init = "{ u32 = \"integers\" }") {
  return R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 128
init = )" +
         init + R"(
[memory.out]
kind = "local"
bytes = 4
[memory.pad]
kind = "symmetric"
bytes = 8
[[launch]]
ptx = "k.ptx"
kernel = "pull"
grid = [1]
block = [1]
args = [ {memory = "data"}, {memory = "data", peer = 1}, {memory = "out"}, {memory = "pad"},
         {memory = "pad", peer = 1} ]
)";
}

}  // namespace

TEST_CASE("fresh-lines: a weak load behind a relaxed flag sees what precedes the flag") {
  const Written w(pull("  ld.global.u32 %v, [%t];\n"));
  for (const Boundary mode : kModes) {
    CAPTURE(machine::name(mode));
    CHECK(in(w, pull_case(), fresh(mode, false)) == "data-race");
    CHECK(in(w, pull_case(), fresh(mode)) == "clean");
  }
}

TEST_CASE("fresh-lines: lanes that come to a load in parts read its line together") {
  // Lane 0 waits, and a barrier lets the others go on with it.
  const auto kernel = [](const std::string& again) {
    return R"(
.visible .entry pull(.param .u64 mine, .param .u64 theirs, .param .u64 out, .param .u64 pad,
                     .param .u64 their_pad)
{
  .reg .pred %p;
  .reg .b32 %v, %w, %l;
  .reg .b64 %t, %o, %a, %b, %x;
  ld.param.u64 %t, [theirs];
  ld.param.u64 %o, [out];
  ld.param.u64 %a, [pad];
  ld.param.u64 %b, [their_pad];
  mov.u32 %l, %tid.x;
  mul.wide.u32 %x, %l, 4;
  add.s64 %t, %t, %x;
  add.s64 %o, %o, %x;
  setp.ne.u32 %p, %l, 0;
  @%p bra SYNC;
  st.relaxed.sys.global.u32 [%b], 1;
WAIT:
  ld.relaxed.sys.global.u32 %v, [%a];
  setp.ne.u32 %p, %v, 1;
  @%p bra WAIT;
SYNC:
  bar.sync 0;
  ld.global.u32 %v, [%t];
)" + again +
           R"(  st.global.u32 [%o], %v;
  ret;
}
)";
  };
  std::string text = pull_case();
  const std::string one = "kind = \"local\"\nbytes = 4\n", block = "block = [1]";
  text.replace(text.find(one), one.size(), "kind = \"local\"\nbytes = 128\n");
  text.replace(text.find(block), block.size(), "block = [32]");
  const Written w(kernel(""));
  // The second load finds what the first one left in the cache.
  const Written twice(kernel("  ld.global.u32 %w, [%t];\n"));
  for (const Boundary mode : kModes) {
    CHECK(in(w, text, fresh(mode), 30) == "clean");
    CHECK(in(w, text, fresh(mode, false), 30) == "data-race");
    CHECK(in(twice, text, fresh(mode), 30) == "data-race");
  }
}

TEST_CASE("fresh-lines: the value is the newest that precedes the flag, not an older one") {
  // The kernel itself writes 7 over 0, and what is read is 7: else the trap.
  const Written w(
      pull("  ld.global.u32 %v, [%t];\n  setp.eq.u32 %p, %v, 7;\n  @%p bra "
           "RIGHT;\n  trap;\nRIGHT:\n",
           "  st.global.u32 [%m], 7;\n"));
  for (const Boundary mode : kModes) {
    CHECK(in(w, pull_case("\"zero\""), fresh(mode)) == "clean");
    CHECK(in(w, pull_case("\"zero\""), fresh(mode, false)) == "data-race");
  }
}

TEST_CASE(
    "fresh-lines: a load that nothing precedes, or through the read-only cache, still races") {
  // Before the flag; and ld.nc, which may be older whatever was observed.
  const Written before(pull("", "  ld.global.u32 %w, [%t];\n  st.global.u32 [%m], %w;\n"));
  const Written after(pull("  ld.global.nc.u32 %v, [%t];\n", "  st.global.u32 [%m], 7;\n"));
  for (const Boundary mode : kModes) {
    CHECK(in(before, pull_case("\"zero\""), fresh(mode)) == "data-race");
    CHECK(in(after, pull_case("\"zero\""), fresh(mode)) != "clean");
  }
}

TEST_CASE("fresh-lines: a line that the block has read in this launch may be old") {
  // The peer's line is read once before the second flag, which the peer sets behind a second write.
  const std::string late = R"(
  ld.global.u32 %v, [%t];
  st.global.u32 [%m+4], 8;
  st.relaxed.sys.global.u32 [%b+4], 1;
AGAIN:
  ld.relaxed.sys.global.u32 %w, [%a+4];
  setp.ne.u32 %p, %w, 1;
  @%p bra AGAIN;
  ld.global.u32 %v, [%t+4];
)";
  const Written written_late(pull(late, "  st.global.u32 [%m], 7;\n"));
  for (const Boundary mode : kModes) {
    CHECK(in(written_late, pull_case("\"zero\""), fresh(mode)) == "data-race");
  }
}

TEST_CASE("fresh-lines: writes that race are none of its business") {
  const Written w(pull("  ld.global.u32 %v, [%t];\n",
                       "  st.global.u32 [%t+64], 7;\n"
                       "  st.global.u32 [%m+64], 7;\n"));
  for (const Boundary mode : kModes) {
    CHECK(in(w, pull_case("\"zero\""), fresh(mode)) == "data-race");
  }
}

TEST_CASE("plain-multicast: a plain store writes every replica; a plain load stays a misuse") {
  const auto kernel = [](const std::string& access) {
    return R"(
.visible .entry spread(.param .u64 mc, .param .u32 rank)
{
  .reg .b32 %r, %v;
  .reg .b64 %m, %o;
  ld.param.u64 %m, [mc];
  ld.param.u32 %r, [rank];
  mul.wide.u32 %o, %r, 4;
  add.s64 %m, %m, %o;
  add.u32 %v, %r, 5;
)" + access +
           "  ret;\n}\n";
  };
  const std::string text = R"(ranks = 2
[memory.data]
kind = "symmetric"
bytes = 8
[[launch]]
ptx = "k.ptx"
kernel = "spread"
grid = [1]
block = [1]
args = [ {multicast = "data"}, "rank" ]
[check]
equal = ["data"]
)";
  machine::Policy allow;
  allow.boundary = Boundary::coherent;
  allow.plain_multicast = machine::PlainMulticast::allow;
  machine::Policy refuse;
  refuse.boundary = Boundary::coherent;
  const Written store(kernel("  st.global.u32 [%m], %v;\n"));
  CHECK(in(store, text, refuse) == "multicast-misuse");
  // A peer may read before the store of a rank has come: the consumer races with it.
  CHECK(in(store, text, allow) == "data-race");
  const auto program = store.open(text +
                                  "[[ignore]]\nkind = \"data-race\"\nreason = \"no barrier\"\n"
                                  "[[ignore]]\nkind = \"replica-mismatch\"\nreason = \"same\"\n");
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.policy = allow;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  CHECK(executor->run(spec).end == schedule::RunEnd::complete);
  const verify::Safetensors memories = program->final_memories();
  for (const char* name : {"data.0", "data.1"}) {
    const auto& bytes = memories.find(name)->bytes;
    CHECK(bytes[0] == std::byte{5});
    CHECK(bytes[4] == std::byte{6});
  }
  const Written load(kernel("  ld.global.u32 %v, [%m];\n"));
  CHECK(in(load, text, allow) == "multicast-misuse");
}
