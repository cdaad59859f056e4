// st.async and red.async into another block of the cluster, against what they have to leave, and
// what is wrong around them.

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/listing.hpp"
#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

// Two blocks of 32 threads in a cluster. In block 0 lie 64 words, which it fills with `first`, and
// an mbarrier of one arrival. %r6: the words there, %r7: the mbarrier there, %r1: the words here,
// %r2: the mbarrier here, %r0: the thread, %r8: the block, %p2: whether it is block 0. Block 0
// announces `bytes`, all execute `writes`, block 0 waits and gives the words out.
std::string text(const std::string& writes, unsigned bytes, unsigned first = 0) {
  return ".version 8.5\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 sh[272];\n"
         ".visible .entry remote(.param .u64 out)\n.reqnctapercluster 2, 1, 1\n{\n"
         "  .reg .pred %p<4>;\n  .reg .b32 %r<20>;\n  .reg .b64 %rd<6>;\n"
         "  mov.u32 %r0, %tid.x;\n  mov.u32 %r8, %cluster_ctarank;\n  mov.u32 %r1, sh;\n"
         "  add.u32 %r2, %r1, 256;\n  mov.u32 %r9, 0;\n"
         "  mapa.shared::cluster.u32 %r6, %r1, %r9;\n"
         "  mapa.shared::cluster.u32 %r7, %r2, %r9;\n"
         "  setp.eq.u32 %p2, %r8, 0;\n  shl.b32 %r3, %r0, 3;\n  add.u32 %r4, %r1, %r3;\n"
         "  mov.u32 %r10, " +
         std::to_string(first) +
         ";\n  st.shared.v2.u32 [%r4], {%r10, %r10};\n"
         "  setp.ne.u32 %p0, %r0, 0;\n  @%p0 bra READY;\n"
         "  mbarrier.init.shared::cta.b64 [%r2], 1;\n  fence.mbarrier_init.release.cluster;\n"
         "  @!%p2 bra READY;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], " +
         std::to_string(bytes) +
         ";\nREADY:\n  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
         "  add.u32 %r11, %r6, %r3;\n" +
         writes +
         "  @!%p2 bra END;\n"
         "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra WAIT;\n"
         "  ld.shared.v2.u32 {%r12, %r13}, [%r4];\n  ld.param.u64 %rd0, [out];\n"
         "  mul.wide.u32 %rd1, %r0, 8;\n  add.s64 %rd1, %rd0, %rd1;\n"
         "  st.global.v2.u32 [%rd1], {%r12, %r13};\n"
         "END:\n  barrier.cluster.arrive;\n  barrier.cluster.wait;\n  ret;\n}\n";
}

std::vector<std::uint32_t> run(const std::string& kernel, std::uint64_t seed = 0) {
  Single single(parse(kernel, "remote.ptx"), "remote");
  const std::uint64_t out = single.buffer(256);
  LaunchConfig config = launch(2, 32, Parameters().add(out));
  config.instruction_budget = 100'000;
  single.run(config, seed);
  const auto* words = view<std::uint32_t>(single.memory, out, 64);
  return {words, words + 64};
}

std::string fault(const std::string& kernel, FaultKind kind) {
  try {
    run(kernel);
  } catch (const KernelFault& found) {
    CAPTURE(found.what());
    CHECK(found.kind() == kind);
    return found.what();
  }
  FAIL("no fault");
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kStore =
    "  @%p2 bra WROTE;\n  add.u32 %r14, %r0, 1000;\n  add.u32 %r15, %r0, 2000;\n"
    "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r11], "
    "{%r14, %r15}, [%r7];\nWROTE:\n";

std::string reduce(const std::string& operation) {
  return "  add.u32 %r14, %r0, 5;\n"
         "  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." +
         operation + " [%r6+12], %r14, [%r7];\n";
}

}  // namespace

TEST_CASE("st.async writes at another block, whose mbarrier counts its bytes") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto words = run(text(kStore, 256), seed);
    for (std::uint32_t t = 0; t < 32; ++t) {
      CHECK(words[2 * t] == t + 1000);
      CHECK(words[2 * t + 1] == t + 2000);
    }
  }
}

TEST_CASE("red.async of both blocks' threads to one word gives each of its operations' result") {
  // Operands 5 to 36, twice each.
  const std::pair<const char*, std::uint32_t> kResults[] = {{"add.u32", 7 + 2 * (5 + 36) * 16},
                                                            {"add.s32", 7 + 2 * (5 + 36) * 16},
                                                            {"min.u32", 5},
                                                            {"max.s32", 36},
                                                            {"or.b32", 63},
                                                            {"and.b32", 0},
                                                            {"xor.b32", 7}};
  for (const auto& [operation, result] : kResults) {
    CAPTURE(operation);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      CHECK(run(text(reduce(operation), 256, 7), seed)[3] == result);
    }
  }
  // inc wraps behind its operand, dec to it: from 7 up by 64 steps, none above 1000.
  const std::string fixed =
      "  mov.u32 %r14, 1000;\n  red.async.relaxed.cluster.shared::cluster."
      "mbarrier::complete_tx::bytes.";
  CHECK(run(text(fixed + "inc.u32 [%r6+12], %r14, [%r7];\n", 256, 7))[3] == 71);
  CHECK(run(text(fixed + "dec.u32 [%r6+12], %r14, [%r7];\n", 256, 7))[3] == 1001 - 57);
}

TEST_CASE("what st.async writes is not to be read before the mbarrier's phase") {
  const std::string kernel = text(kStore, 256);
  std::string early = kernel;
  const std::string wait =
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra WAIT;";
  early.replace(early.find(wait), wait.size(), "");
  fault(early, FaultKind::shared_race);
  // Not by the thread that wrote it, either.
  std::string own = kernel;
  own.insert(own.find("WROTE:"), "  ld.shared::cluster.u32 %r16, [%r11];\n");
  CHECK(has(fault(own, FaultKind::shared_race), "races"));
  // Nor is it written twice.
  std::string twice = kStore;
  for (std::size_t at = 0; (at = twice.find("WROTE", at)) != std::string::npos; at += 6) {
    twice.replace(at, 5, "WROTE2");
  }
  CHECK(has(fault(text(kStore + twice, 512), FaultKind::shared_race), "asynchronous write"));
}

TEST_CASE("bytes that nobody announced, or that do not come, keep the phase open") {
  fault(text(kStore, 252), FaultKind::budget);
  fault(text(kStore, 260), FaultKind::budget);
  fault(text(reduce("add.u32"), 260), FaultKind::budget);
}

TEST_CASE("the mbarrier of st.async lies where it writes") {
  std::string kernel = text(kStore, 256);
  kernel.replace(kernel.find("[%r7];\nWROTE"), 5, "[%r2]");
  CHECK(has(fault(kernel, FaultKind::undefined), "another block's shared memory"));
}

// Block 0 copies 128 bytes of `in` to the blocks of `mask`; each block waits for its own mbarrier
// and gives out its 32 words.
std::string multicast(unsigned mask, const std::string& wait) {
  return ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 sh[272];\n"
         ".visible .entry remote(.param .u64 in, .param .u64 out)\n.reqnctapercluster 2, 1, 1\n{\n"
         "  .reg .pred %p<4>;\n  .reg .b32 %r<20>;\n  .reg .b64 %rd<6>;\n  .reg .b16 %h<2>;\n"
         "  mov.u32 %r0, %tid.x;\n  mov.u32 %r8, %cluster_ctarank;\n  mov.u32 %r1, sh;\n"
         "  add.u32 %r2, %r1, 256;\n  ld.param.u64 %rd0, [in];\n  ld.param.u64 %rd1, [out];\n"
         "  setp.ne.u32 %p0, %r0, 0;\n  @%p0 bra READY;\n"
         "  mbarrier.init.shared::cta.b64 [%r2], 1;\n  fence.mbarrier_init.release.cluster;\n"
         "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;\n"
         "READY:\n  barrier.cluster.arrive;\n  barrier.cluster.wait;\n  mov.u16 %h0, " +
         std::to_string(mask) +
         ";\n  or.b32 %r9, %r0, %r8;\n  setp.ne.u32 %p1, %r9, 0;\n  @%p1 bra WAIT;\n"
         "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
         "[%r1], [%rd0], 128, [%r2], %h0;\nWAIT:\n" +
         wait +
         "  shl.b32 %r3, %r0, 2;\n  add.u32 %r4, %r1, %r3;\n  ld.shared.u32 %r5, [%r4];\n"
         "  shl.b32 %r10, %r8, 7;\n  add.u32 %r10, %r10, %r3;\n  cvt.u64.u32 %rd2, %r10;\n"
         "  add.u64 %rd3, %rd1, %rd2;\n  st.global.u32 [%rd3], %r5;\n"
         "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n  ret;\n}\n";
}

std::vector<std::uint32_t> run_multicast(const std::string& kernel) {
  Single single(parse(kernel, "remote.ptx"), "remote");
  const std::uint64_t in = single.buffer(128);
  const std::uint64_t out = single.buffer(256);
  std::vector<std::uint32_t> words(32);
  for (std::uint32_t i = 0; i < 32; ++i) words[i] = 1000 + i;
  std::memcpy(single.memory.at(in, 128), words.data(), 128);
  LaunchConfig config = launch(2, 32, Parameters().add(in).add(out));
  config.instruction_budget = 100'000;
  single.run(config);
  const auto* got = view<std::uint32_t>(single.memory, out, 64);
  return {got, got + 64};
}

TEST_CASE("a bulk copy goes to all blocks of its mask, and arrives at each one's mbarrier") {
  const std::string wait =
      "LOOP:\n  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n  @!%p1 bra LOOP;\n";
  const std::vector<std::uint32_t> got = run_multicast(multicast(3, wait));
  for (std::uint32_t i = 0; i < 64; ++i) CHECK(got[i] == 1000 + i % 32);
  // A block that it does not go to waits for ever; one that does not wait races with it.
  const auto kind = [](const std::string& kernel) {
    try {
      run_multicast(kernel);
    } catch (const KernelFault& fault) {
      return std::string(name_of(fault.kind()));
    }
    return std::string("none");
  };
  CHECK(kind(multicast(1, wait)) == name_of(FaultKind::budget));
  CHECK(kind(multicast(3, "")) == name_of(FaultKind::shared_race));
  CHECK(kind(multicast(4, wait)) == name_of(FaultKind::undefined));
}

TEST_CASE("forms of st.async and red.async that there are none of are refused") {
  for (const char* form :
       {"red.async.relaxed.gpu.mbarrier::complete_tx::bytes.add.u32 [%r6], %r0, [%r7];",
        "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.f32 [%r6], %r0, [%r7];",
        "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.exch.b32 [%r6], %r0, [%r7];",
        "red.async.relaxed.cluster.add.u32 [%r6], %r0, [%r7];",
        "st.async.mbarrier::complete_tx::bytes.u16 [%r6], %r0, [%r7];",
        "st.async.mbarrier::complete_tx::bytes.u32 [%r6], %r0;"}) {
    CAPTURE(form);
    const Module module = parse(text(std::string("  ") + form + "\n", 0), "remote.ptx");
    CHECK_THROWS_AS(decode(module, module.kernel("remote")), Error);
    CHECK(unsupported_forms(module, module.kernel("remote")).size() == 1);
  }
}

}  // namespace ringfence::ptx::test
