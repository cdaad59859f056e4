// Forms of shipped communication kernels. Where Hopper has one, its values are those that an H200
// gave (records/h200-forms.txt, and checksums over all inputs of a half); else they are the
// manual's definition, computed here.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/parser.hpp"
#include "tests/ptx/forms.hpp"

namespace ringfence::ptx::test {
namespace {

const char* const kRecorded[] = {
    "bmsk.clamp.b32 %d, %a, %b;",      "bmsk.wrap.b32 %d, %a, %b;",
    "szext.clamp.u32 %d, %a, %b;",     "szext.wrap.u32 %d, %a, %b;",
    "szext.clamp.s32 %d, %a, %b;",     "szext.wrap.s32 %d, %a, %b;",
    "add.u16x2 %d, %a, %b;",           "min.u16x2 %d, %a, %b;",
    "max.s16x2 %d, %a, %b;",           "min.s16x2 %d, %a, %b;",
    "max.xorsign.abs.f32 %d, %a, %b;", "min.xorsign.abs.f32 %d, %a, %b;",
};

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t pair(float low, float high) { return std::uint64_t{bits(high)} << 32 | bits(low); }

// FNV-1a over the 16-bit results for all 65536 inputs.
std::uint64_t checksum(const std::string& statement) {
  std::vector<Triple> values(65536);
  for (std::uint32_t i = 0; i < values.size(); ++i) values[i].a = i;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint64_t result : run_statement(statement, 32, {32}, values, false)) {
    for (const unsigned shift : {0U, 8U}) {
      hash = (hash ^ (result >> shift & 0xFFU)) * 0x100000001b3ULL;
    }
  }
  return hash;
}

// A kernel with registers of every size around `body`.
Program decoded(const std::string& body, Module& module) {
  module = parse(
      ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n"
      ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n" +
          body + "\nret;\n}\n",
      "form.ptx");
  return decode(module, module.functions[0]);
}

}  // namespace

TEST_CASE("forms: bit masks, extensions, pairs of integers and xorsign are an H200's") {
  std::ifstream in("tests/ptx/records/h200-forms.txt");
  REQUIRE(in.is_open());
  std::vector<Triple> values;
  std::vector<std::vector<std::uint32_t>> expected;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    words >> std::hex;
    Triple t;
    words >> t.a >> t.b;
    values.push_back(t);
    expected.emplace_back();
    for (std::uint32_t word = 0; words >> word;) expected.back().push_back(word);
    REQUIRE(expected.back().size() == std::size(kRecorded));
  }
  REQUIRE(values.size() == 252);
  for (std::size_t s = 0; s < std::size(kRecorded); ++s) {
    for (const bool guarded : {false, true}) {
      const auto results = run_statement(kRecorded[s], 32, {32, 32}, values, guarded);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (guarded && i % 2 == 0) continue;
        INFO(kRecorded[s], " of ", values[i].a, ", ", values[i].b);
        REQUIRE(results[i] == expected[i][s]);
      }
    }
  }
}

TEST_CASE("forms: ex2 of halves is an H200's for every input") {
  CHECK(checksum("ex2.approx.f16x2 %d, %a;") == 0xbb15247e36918e63ULL);
  CHECK(checksum("ex2.approx.ftz.bf16x2 %d, %a;") == 0xd76e7433b30f62f0ULL);
}

TEST_CASE("forms: tanh of halves is within a step of what an H200 gave") {
  const std::uint32_t inputs[] = {0x0000, 0x3c00, 0xbc00, 0x3800, 0x4000, 0x7c00, 0xfc00, 0x7e00};
  const std::uint32_t f16[] = {0x0000, 0x3a17, 0xba17, 0x3764, 0x3bb6, 0x3c00, 0xbc00, 0x7fff};
  std::vector<Triple> values;
  for (const std::uint32_t i : inputs) values.push_back({i, 0, 0});
  const auto results = run_statement("tanh.approx.f16x2 %d, %a;", 32, {32}, values, false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    const auto got = static_cast<std::int64_t>(results[i] & 0xFFFFU);
    CHECK(std::abs(got - static_cast<std::int64_t>(f16[i])) <= 1);
  }
}

TEST_CASE("forms: f32x2 is two f32 operations") {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<Triple> values = {
      {pair(1.5F, -2), pair(0.25F, 8), pair(3, 0.1F)},
      {pair(tiny, 1e30F), pair(tiny, 1e30F), pair(0, -1)},
  };
  const auto of = [&](const char* statement, std::vector<int> in) {
    return run_statement(statement, 64, std::move(in), values, false);
  };
  const auto sums = of("add.rn.f32x2 %d, %a, %b;", {64, 64});
  CHECK(sums[0] == pair(1.75F, 6));
  CHECK(sums[1] == pair(2 * tiny, 2e30F));
  CHECK(of("add.rn.ftz.f32x2 %d, %a, %b;", {64, 64})[1] == pair(0, 2e30F));
  CHECK(of("sub.rn.f32x2 %d, %a, %b;", {64, 64})[0] == pair(1.25F, -10));
  CHECK(of("mul.rn.f32x2 %d, %a, %b;", {64, 64})[0] == pair(0.375F, -16));
  CHECK(of("fma.rn.f32x2 %d, %a, %b, %c;", {64, 64, 64})[0] ==
        pair(3.375F, std::fmaf(-2, 8, 0.1F)));
}

TEST_CASE("forms: min and max of three are those of two, twice") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Triple> values = {{bits(1), bits(3), bits(2)},
                                      {bits(-1), bits(nan), bits(-5)},
                                      {bits(nan), bits(nan), bits(4)}};
  const auto most = run_statement("max.f32 %d, %a, %b, %c;", 32, {32, 32, 32}, values, false);
  CHECK(most == std::vector<std::uint64_t>{bits(3), bits(-1), bits(4)});
  const auto least = run_statement("min.f32 %d, %a, %b, %c;", 32, {32, 32, 32}, values, false);
  CHECK(least == std::vector<std::uint64_t>{bits(1), bits(-5), bits(4)});
  const auto strict = run_statement("max.NaN.f32 %d, %a, %b, %c;", 32, {32, 32, 32}, values, false);
  CHECK(strict == std::vector<std::uint64_t>{bits(3), 0x7FFFFFFFU, 0x7FFFFFFFU});
}

TEST_CASE("forms: .mmio is relaxed at sys scope, and nothing else") {
  Module module;
  const Program p = decoded(
      "ld.param.u64 %rd1, [a];\nld.mmio.relaxed.sys.global.u32 %r1, [%rd1];\n"
      "st.mmio.relaxed.sys.global.u32 [%rd1], %r1;",
      module);
  REQUIRE(p.accesses.size() == 2);
  for (const MemoryOp& m : p.accesses) {
    CHECK(m.access.order == Order::relaxed);
    CHECK(m.access.scope == Scope::sys);
  }
  CHECK_THROWS(decoded("ld.mmio.relaxed.gpu.global.u32 %r1, [%rd1];", module));
  CHECK_THROWS(decoded("ld.mmio.acquire.sys.global.u32 %r1, [%rd1];", module));
  CHECK_THROWS(decoded("ld.mmio.global.u32 %r1, [%rd1];", module));
}

TEST_CASE("forms: an atomic of a vector adds to each element and returns what was there") {
  // The results lie over the operands, the other way round.
  Single run(parse(".version 8.5\n.target sm_90a\n.address_size 64\n"
                   ".visible .entry form(.param .u64 at, .param .u64 out)\n{\n"
                   ".reg .b32 %f<4>;\n.reg .b64 %rd<4>;\n"
                   "ld.param.u64 %rd1, [at];\nld.param.u64 %rd2, [out];\n"
                   "mov.b32 %f0, 0f3F800000;\nmov.b32 %f1, 0f40000000;\n"
                   "mov.b32 %f2, 0f40400000;\nmov.b32 %f3, 0f40800000;\n"
                   "atom.global.v4.f32.add.acq_rel.sys {%f3, %f2, %f1, %f0}, [%rd1], "
                   "{%f0, %f1, %f2, %f3};\n"
                   "st.global.v4.b32 [%rd2], {%f3, %f2, %f1, %f0};\nret;\n}\n",
                   "form.ptx"),
             "form");
  const std::uint64_t at = run.buffer(16), out = run.buffer(16);
  const float before[] = {10, 20, 30, 40};
  std::memcpy(run.memory.at(at, 16), before, 16);
  run.run(launch(1, 1, Parameters().add(at).add(out)));
  const auto* const sums = view<float>(run.memory, at, 4);
  const auto* const old = view<float>(run.memory, out, 4);
  for (int e = 0; e < 4; ++e) {
    CHECK(sums[e] == before[e] + static_cast<float>(e + 1));
    CHECK(old[e] == before[e]);
  }
  Module module;
  CHECK_THROWS(
      decoded("atom.global.v4.u32.add {%r1, %r2, %r3, %r4}, [%rd1], "
              "{%r1, %r2, %r3, %r4};",
              module));
  CHECK_THROWS(decoded("atom.global.v4.f32.add {%r1, %r2}, [%rd1], {%r1, %r2, %r3, %r4};", module));
}

TEST_CASE("forms: cache policies have no effect, and environment registers are 0") {
  Module module;
  decoded("createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;", module);
  decoded("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd2, 0.5;", module);
  decoded("createpolicy.range.global.L2::evict_last.b64 %rd2, [%rd1], 4096, 8192;", module);
  decoded("createpolicy.cvt.L2.b64 %rd2, %rd3;", module);
  CHECK_THROWS(decoded("createpolicy.fractional.L2::evict_first.b32 %r2, 1.0;", module));
  const std::vector<Triple> one(1);
  CHECK(run_statement("mov.b32 %d, %envreg0;", 32, {}, one, false)[0] == 0);
  CHECK(run_statement("mov.b32 %d, %envreg31;", 32, {}, one, false)[0] == 0);
  CHECK_THROWS(run_statement("mov.b32 %d, %envreg32;", 32, {}, one, false));
}

}  // namespace ringfence::ptx::test
