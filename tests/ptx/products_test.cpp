// wgmma against plain scalar code, and what is wrong around it.

#include <doctest/doctest.h>

#include "emulator/ptx/error.hpp"
#include "tests/ptx/harness.hpp"
#include "tests/ptx/product_case.hpp"

namespace ringfence::ptx::test {
namespace {

std::vector<float> run(const ProductCase& c, const std::string& text, std::uint64_t seed = 0) {
  Single single(parse(text, "product.ptx"), "product");
  const auto buffer = [&](const auto& data) {
    const std::size_t bytes = data.size() * sizeof data[0];
    const std::uint64_t at = single.buffer(bytes);
    std::memcpy(single.memory.at(at, bytes), data.data(), bytes);
    return at;
  };
  const std::uint64_t out = single.buffer(c.expected.size() * 4);
  LaunchConfig config = launch(
      1, 128,
      Parameters().add(buffer(c.image)).add(buffer(c.a_words)).add(buffer(c.initial)).add(out));
  config.dynamic_shared = ProductCase::kBytes;
  single.run(config, seed);
  const float* values = view<float>(single.memory, out, c.expected.size());
  return {values, values + c.expected.size()};
}

void check(ProductCase c) {
  c.make();
  CAPTURE(c.text());
  const std::vector<float> got = run(c, c.text());
  if (!c.of_integers()) {
    REQUIRE(got == c.expected);
  } else {  // bits, some of which no float equals
    REQUIRE(got.size() == c.expected.size());
    REQUIRE(std::memcmp(got.data(), c.expected.data(), 4 * got.size()) == 0);
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string fault(const std::string& text, FaultKind kind, std::uint64_t seed = 0) {
  ProductCase c;
  c.make();
  try {
    run(c, text, seed);
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

}  // namespace

TEST_CASE("wgmma of every width equals the sums in the order of k") {
  for (std::uint32_t n = 8; n <= 256; n += 8) {
    for (const bool bf16 : {true, false}) {
      ProductCase c;
      c.n = n;
      c.bf16 = bf16;
      c.seed = n;
      c.accumulate = n % 16 == 0;
      check(c);
    }
  }
}

TEST_CASE("wgmma reads every layout of its descriptors, and A from registers") {
  for (const int a_swizzle : {0, 32, 64, 128}) {
    for (const int b_swizzle : {0, 32, 64, 128}) {
      for (unsigned bits = 0; bits < 8; ++bits) {
        ProductCase c;
        c.n = 72;
        c.seed = bits + static_cast<unsigned>(a_swizzle + b_swizzle);
        c.a_swizzle = a_swizzle;
        c.b_swizzle = b_swizzle;
        c.a_transposed = (bits & 1U) != 0;
        c.b_transposed = (bits & 2U) != 0;
        c.a_in_registers = (bits & 4U) != 0;
        if (c.a_in_registers && c.a_transposed) continue;
        check(c);
      }
    }
  }
}

TEST_CASE("wgmma steps along a swizzled row, and negates its operands") {
  for (std::uint32_t step = 0; step < 4; ++step) {
    ProductCase c;
    c.n = 32;
    c.k_step = step;
    c.negate_a = step % 2 == 1;
    c.negate_b = step >= 2;
    check(c);
  }
}

TEST_CASE("wgmma of 8-bit floats equals the sums in the order of k") {
  for (const char* a : {"e4m3", "e5m2"}) {
    for (const char* b : {"e4m3", "e5m2"}) {
      for (const std::uint32_t n : {8U, 40U, 256U}) {
        ProductCase c;
        c.n = n;
        c.type_a = a;
        c.type_b = b;
        c.seed = n + (a == b ? 0U : 1U);
        c.accumulate = n != 40;
        c.negate_a = n == 40;
        check(c);
      }
    }
  }
}

TEST_CASE("wgmma of bytes is exact, wraps or saturates, and knows signs") {
  for (const char* a : {"s8", "u8"}) {
    for (const char* b : {"s8", "u8"}) {
      for (const bool saturate : {false, true}) {
        for (const std::uint32_t n : {8U, 24U, 32U, 256U}) {
          ProductCase c;
          c.n = n;
          c.type_a = a;
          c.type_b = b;
          c.saturate = saturate;
          c.seed = n;
          c.accumulate = n != 24;
          check(c);
        }
      }
    }
  }
}

TEST_CASE("wgmma of 8-bit elements reads every layout along K, and A from registers") {
  for (const std::string type : {"s8", "e4m3"}) {
    for (const int a_swizzle : {0, 32, 64, 128}) {
      for (const int b_swizzle : {0, 32, 64, 128}) {
        for (const bool in_registers : {false, true}) {
          ProductCase c;
          c.n = 80;
          c.type_a = c.type_b = type;
          c.seed = static_cast<unsigned>(a_swizzle + b_swizzle);
          c.a_swizzle = a_swizzle;
          c.b_swizzle = b_swizzle;
          c.a_in_registers = in_registers;
          check(c);
        }
      }
    }
  }
  for (std::uint32_t step = 0; step < 4; ++step) {
    ProductCase c;
    c.n = 32;
    c.type_a = c.type_b = "u8";
    c.k_step = step;
    check(c);
  }
}

TEST_CASE("a schedule that splits the warps of a warpgroup changes nothing") {
  ProductCase c;
  c.n = 16;
  c.make();
  for (std::uint64_t seed = 1; seed < 8; ++seed) CHECK(run(c, c.text(), seed) == c.expected);
}

TEST_CASE("what threads stored is not there for wgmma without a proxy fence") {
  ProductCase c;
  c.make();
  const std::string text =
      fault(replaced(c.text(), "fence.proxy.async;", ""), FaultKind::shared_race);
  CHECK(has(text, "no fence.proxy.async between them"));
  CHECK(has(text, "wgmma.mma_async"));
  // A barrier is missing whatever the fence does.
  CHECK(
      has(fault(replaced(c.text(), "bar.sync 0;", ""), FaultKind::shared_race), "wgmma.mma_async"));
}

TEST_CASE("accumulators are not to be touched before wgmma.wait_group") {
  ProductCase c;
  c.make();
  const std::string wait = "wgmma.wait_group.sync.aligned 0;";
  CHECK(has(fault(replaced(c.text(), wait, ""), FaultKind::undefined),
            "register %f0 is read while the wgmma.mma_async that writes it may be under way"));
  CHECK(
      has(fault(replaced(c.text(), wait, "wgmma.wait_group.sync.aligned 1;"), FaultKind::undefined),
          "no wgmma.wait_group before it"));
  // A copy is not a use, what is done with it is.
  CHECK(has(fault(replaced(c.text(), wait, "mov.f32 %f127, %f1;\n add.f32 %f126, %f127, %f127;"),
                  FaultKind::undefined),
            "register %f127 is read"));
  CHECK(has(fault(replaced(c.text(), wait, "mov.f32 %f127, %f1;\n mul.f32 %f2, %f126, %f126;"),
                  FaultKind::undefined),
            "register %f2 is written"));
}

TEST_CASE("registers of a product come before a wgmma.fence") {
  ProductCase c;
  c.make();
  CHECK(has(fault(replaced(c.text(), "wgmma.fence.sync.aligned;", ""), FaultKind::undefined),
            "no wgmma.fence before the first"));
  CHECK(has(fault(replaced(c.text(), "wgmma.fence.sync.aligned;",
                           "wgmma.fence.sync.aligned;\n add.f32 %f0, %f0, %f1;"),
                  FaultKind::undefined),
            "written after the last wgmma.fence"));
}

TEST_CASE("shared memory that a product may still read is not to be written") {
  ProductCase c;
  c.make();
  const std::string wait = "wgmma.wait_group.sync.aligned 0;";
  const std::string store = "st.shared.u32 [%r2], %r0;";
  const std::string guarded = "setp.eq.u32 %p2, %r0, 0;\n @%p2 ";
  CHECK(has(fault(replaced(c.text(), wait, guarded + store + "\n" + wait), FaultKind::shared_race),
            "read by the wgmma.mma_async of line"));
  // Behind the wait of one warp and a barrier it is: the product of all four has ended.
  c.n = 8;
  CHECK(run(c, replaced(c.text(), wait, wait + "\n bar.sync 0;\n" + guarded + store)) ==
        c.expected);
}

TEST_CASE("the warps of a warpgroup multiply the same") {
  ProductCase c;
  c.make();
  CHECK(has(fault(replaced(c.text(), "wgmma.fence",
                           "shr.u32 %r14, %r0, 5;\n setp.eq.u32 %p2, %r14, 2;\n"
                           " @%p2 add.s64 %rd3, %rd3, 2;\n wgmma.fence"),
                  FaultKind::barrier_divergence),
            "different matrix products"));
  // One that leaves it out keeps the others waiting.
  fault(replaced(c.text(), "wgmma.fence",
                 "shr.u32 %r14, %r0, 5;\n setp.eq.u32 %p2, %r14, 2;\n @%p2 ret;\n wgmma.fence"),
        FaultKind::barrier_divergence);
  CHECK(has(
      fault(replaced(c.text(), "wgmma.fence", "setp.eq.u32 %p2, %r0, 9;\n @%p2 ret;\n wgmma.fence"),
            FaultKind::undefined),
      "by part of a warp"));
}

TEST_CASE("forms of wgmma that are not there are refused with their line") {
  ProductCase c;
  c.make();
  const auto refused = [&](const std::string& from, const std::string& to) {
    const Module module = parse(replaced(c.text(), from, to), "product.ptx");
    CAPTURE(to);
    CHECK_THROWS_WITH_AS(decode(module, module.kernel("product")), doctest::Contains("wgmma"),
                         Error);
  };
  refused("m64n8k16", "m64n12k16");
  refused("m64n8k16", "m64n264k16");
  refused("f32.bf16.bf16", "f32.bf16.f16");
  refused("f32.bf16.bf16", "f32.tf32.tf32");
  refused("%p1, 1, 1", "%p1, 2, 1");
  refused("{%f0, %f1, %f2, %f3}", "{%f0, %f1, %f2}");
  refused("k16.f32.bf16.bf16", "k32.f32.bf16.bf16");
  refused("k16.f32.bf16.bf16", "k16.f32.e4m3.e4m3");
  refused("k16.f32.bf16.bf16", "k32.f32.e4m3.s8");
  refused("k16.f32.bf16.bf16", "k32.s32.e4m3.e4m3");
  refused("k16.f32.bf16.bf16", "k32.f32.e4m3.e4m3");  // with imm-trans
  refused("k16.f32.bf16.bf16", "k16.satfinite.f32.bf16.bf16");
  refused("m64n8k16.f32.bf16.bf16", "m64n40k32.s32.s8.s8");
}

}  // namespace ringfence::ptx::test
