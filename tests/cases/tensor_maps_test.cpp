// Whose memory the tensor map of an argument is: the own replica, a peer's, that of a rank, or all
// replicas at the multicast address.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/cases/harness.hpp"
#include "tests/cases/written.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

// push: a tile of 8 by 8 words goes to the map's place, 5 in its first word and 6 in its last one;
// add: is added to it. pull: the tile comes, and its first word goes to %out.
const std::string kKernels = [] {
  const std::string begin = R"(
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .shared .align 128 .b8 tile[256];
  .shared .align 8 .b8 bar[8];
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  mov.u32 %r1, tile;
  mov.u32 %r2, bar;
  mov.u32 %r3, 0;
  mov.u32 %r5, 0;
ZERO:
  add.u32 %r4, %r1, %r5;
  st.shared.u32 [%r4], %r3;
  add.u32 %r5, %r5, 4;
  setp.lt.u32 %p, %r5, 256;
  @%p bra ZERO;
  st.shared.u32 [%r1], 5;
  st.shared.u32 [%r1+252], 6;
  fence.proxy.async;
)";
  const std::string end = R"(
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";
  return ".visible .entry push(.param .align 64 .b8 map[128])\n{" + begin +
         "  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r3, %r3}], [%r1];\n" +
         end + ".visible .entry add(.param .align 64 .b8 map[128])\n{" + begin +
         "  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
         "[%rd1, {%r3, %r3}], [%r1];\n" +
         end + ".visible .entry pull(.param .align 64 .b8 map[128], .param .u64 out)\n{" + begin +
         R"(
  ld.param.u64 %rd2, [out];
  mbarrier.init.shared::cta.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r3, %r3}], [%r2];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%r2], 0;
  @!%p bra WAIT;
  ld.shared.u32 %r4, [%r1];
  st.global.u32 [%rd2], %r4;
  ret;
}
)";
}();

std::string text(const std::string& kernel, const std::string& of, const std::string& grid,
                 const std::string& more = "") {
  return R"(ranks = 2
[memory.x]
kind = "symmetric"
bytes = 256
init = { u32 = "rank + 7" }
[memory.out]
kind = "local"
bytes = 4
[[launch]]
ptx = "k.ptx"
kernel = ")" +
         kernel + "\"\ngrid = " + grid + "\nblock = [1]\nargs = [ {tensor_map = {" + of +
         ", dtype = \"u32\", dims = [8, 8], box = [8, 8]}}" + more +
         " ]\n"
         // No barrier of the ranks stands around so small a kernel.
         "[[ignore]]\nkind = \"data-race\"\nreason = \"the test looks at the end alone\"\n";
}

struct Ended {
  std::vector<std::uint32_t> words;  // of the first rank's replica, then the second one's
  std::string finding;
};
// The first and the last word of each rank's `memory`.
Ended run(const Written& w, const std::string& text, const std::string& memory,
          machine::PlainMulticast plain = machine::PlainMulticast::refuse) {
  const auto program = w.open(text);
  const auto executor = ranks::make_inline(*program);
  schedule::RunSpec spec;
  spec.policy.plain_multicast = plain;
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  const schedule::Outcome outcome = executor->run(spec);
  Ended out;
  if (const auto f = schedule::failure(outcome)) {
    out.finding = machine::name(f->kind);
    return out;
  }
  REQUIRE(outcome.end == schedule::RunEnd::complete);
  const verify::Safetensors memories = program->final_memories();
  for (const char* rank : {".0", ".1"}) {
    const auto& bytes = memories.find(memory + rank)->bytes;
    for (const std::size_t at : {std::size_t{0}, bytes.size() - 4}) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, 4);
      out.words.push_back(word);
    }
  }
  return out;
}

using Words = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("tensor maps: a tile goes to the own replica, a peer's, or that of a rank") {
  const Written w(kKernels);
  // Rank 0 alone pushes.
  CHECK(run(w, text("push", "memory = \"x\"", "[[1], [0]]"), "x").words == Words{5, 6, 8, 8});
  CHECK(run(w, text("push", "memory = \"x\", peer = 1", "[[1], [0]]"), "x").words ==
        Words{7, 7, 5, 6});
  CHECK(run(w, text("push", "memory = \"x\", rank = 1", "[[1], [0]]"), "x").words ==
        Words{7, 7, 5, 6});
  CHECK(run(w, text("push", "memory = \"x\", rank = 1", "[[0], [1]]"), "x").words ==
        Words{7, 7, 5, 6});
  CHECK(run(w, text("add", "memory = \"x\", peer = 1", "[[1], [0]]"), "x").words ==
        Words{7, 7, 13, 14});
}

TEST_CASE("tensor maps: a tile comes from the own replica, a peer's, or that of a rank") {
  const Written w(kKernels);
  const std::string out = ", {memory = \"out\"}";
  CHECK(run(w, text("pull", "memory = \"x\"", "[1]", out), "out").words == Words{7, 7, 8, 8});
  CHECK(run(w, text("pull", "memory = \"x\", peer = 1", "[1]", out), "out").words ==
        Words{8, 8, 7, 7});
  CHECK(run(w, text("pull", "memory = \"x\", rank = 1", "[1]", out), "out").words ==
        Words{8, 8, 8, 8});
}

TEST_CASE("tensor maps: at the multicast address a policy lets tiles go to all replicas") {
  const Written w(kKernels);
  constexpr auto kAllow = machine::PlainMulticast::allow;
  const std::string push = text("push", "multicast = \"x\"", "[[1], [0]]");
  CHECK(run(w, push, "x").finding == "multicast-misuse");
  CHECK(run(w, push, "x", kAllow).words == Words{5, 6, 5, 6});
  const std::string add = text("add", "multicast = \"x\"", "[[1], [0]]");
  CHECK(run(w, add, "x").finding == "multicast-misuse");
  CHECK(run(w, add, "x", kAllow).words == Words{12, 13, 13, 14});
  // A load has no one replica to come from.
  const std::string pull = text("pull", "multicast = \"x\"", "[1]", ", {memory = \"out\"}");
  CHECK(run(w, pull, "out").finding == "multicast-misuse");
  CHECK(run(w, pull, "out", kAllow).finding == "multicast-misuse");
}
