// Forms of 128 bits, of 8-bit floats and the like: none has a record of a GPU, so the values are
// the PTX ISA's definitions, computed here.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/reduction.hpp"
#include "emulator/ptx/tensor_map.hpp"
#include "tests/ptx/forms.hpp"

namespace ringfence::ptx::test {
namespace {

const std::string kHead = ".version 8.8\n.target sm_100a\n.address_size 64\n";

// A kernel k(a, b): each thread's 32 bytes at %rd1 and at %rd2.
std::string kernel(const std::string& body) {
  return kHead +
         ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n.reg .pred %p<4>;\n"
         ".reg .b32 %r<8>;\n.reg .b64 %rd<12>;\n.reg .b128 %q<6>;\n.reg .f32 %f<4>;\n"
         ".shared .align 16 .b8 tile[32];\n"
         "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nmov.u32 %r1, %tid.x;\n"
         "mul.wide.u32 %rd3, %r1, 32;\nadd.u64 %rd1, %rd1, %rd3;\nadd.u64 %rd2, %rd2, %rd3;\n" +
         body + "ret;\n}\n";
}

using Words = std::vector<std::uint64_t>;

struct Ran {
  Words a, b;
};
// Four words of each for each thread.
Ran run(const std::string& body, Words a, Words b, std::uint32_t threads = 1) {
  Single single(parse(kernel(body), "k.ptx"), "k");
  const std::uint64_t at = single.buffer(32 * threads), bt = single.buffer(32 * threads);
  a.resize(4 * threads);
  b.resize(4 * threads);
  std::memcpy(single.memory.at(at, 32 * threads), a.data(), 32 * threads);
  std::memcpy(single.memory.at(bt, 32 * threads), b.data(), 32 * threads);
  single.run(launch(1, threads, Parameters().add(at).add(bt)));
  std::memcpy(a.data(), single.memory.at(at, 32 * threads), 32 * threads);
  std::memcpy(b.data(), single.memory.at(bt, 32 * threads), 32 * threads);
  return {a, b};
}

bool refused(const std::string& body) {
  const Module module = parse(kernel(body), "k.ptx");
  try {
    decode(module, module.kernel("k"));
  } catch (const Error&) {
    return true;
  }
  return false;
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// The value of an e4m3 or e5m2 by its definition (OCP 8-bit floating point, section 5).
double value_of(bool e5m2, unsigned byte) {
  const int m = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
  const int exponent = static_cast<int>(byte >> m & (e5m2 ? 31U : 15U));
  const double fraction = static_cast<double>(byte & ((1U << m) - 1)) / (1 << m);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (byte & 0x80U) != 0 ? -magnitude : magnitude;
}
bool is_number(bool e5m2, unsigned byte) {
  return e5m2 ? (byte & 0x7CU) != 0x7CU : (byte & 0x7FU) != 0x7FU;
}
// The nearest one, ties to the even pattern, saturating.
unsigned nearest(bool e5m2, double x) {
  unsigned best = 0;
  double error = HUGE_VAL;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!is_number(e5m2, byte) || std::signbit(value_of(e5m2, byte)) != std::signbit(x)) continue;
    const double off = std::fabs(value_of(e5m2, byte) - x);
    if (off < error || (off == error && (byte & 1U) == 0)) {
      best = byte;
      error = off;
    }
  }
  return best;
}

}  // namespace

TEST_CASE("b128: loads, stores and moves carry all 16 bytes, the low half first") {
  const Ran r =
      run("ld.global.b128 %q1, [%rd1];\nmov.b128 {%rd4, %rd5}, %q1;\nmov.b128 %q2, {%rd5, %rd4};\n"
          "st.global.b128 [%rd2], %q2;\nmov.b128 %q3, %q1;\nst.release.sys.global.b128 [%rd2+16], "
          "%q3;\n",
          {11, 22}, {});
  CHECK(r.b == Words{22, 11, 11, 22});
  // A move onto its own halves, swapped.
  const Ran swapped =
      run("ld.relaxed.sys.global.b128 %q1, [%rd1];\nmov.b128 {%rd4, %rd5}, %q1;\n"
          "mov.b128 %q1, {%rd5, %rd4};\nmov.b128 {%rd5, %rd4}, %q1;\n"
          "st.global.u64 [%rd2], %rd4;\nst.global.u64 [%rd2+8], %rd5;\n",
          {11, 22}, {});
  CHECK(swapped.b == Words{11, 22, 0, 0});
}

TEST_CASE("b128: atom.exch gives what was there, atom.cas compares all 16 bytes") {
  for (const std::string at : {"[%rd1]", "[tile]"}) {
    const std::string space = at == "[tile]" ? "shared" : "global";
    CAPTURE(space);
    const std::string fill =
        "ld.global.b128 %q0, [%rd1];\nst." + space + ".b128 " + at + ", %q0;\n";
    const std::string end = "ld." + space + ".b128 %q5, " + at + ";\nst.global.b128 [%rd1], %q5;\n";
    const Ran exchanged =
        run(fill + "ld.global.b128 %q1, [%rd2];\natom." + space + ".sys.relaxed.exch.b128 %q2, " +
                at + ", %q1;\nst.global.b128 [%rd2+16], %q2;\n" + end,
            {1, 2}, {3, 4});
    CHECK(exchanged.a == Words{3, 4, 0, 0});
    CHECK(exchanged.b == Words{3, 4, 1, 2});
    // {1, 2} is there: the first word alone, the second alone, or both are as compared.
    for (const Words& compare : {Words{1, 9}, Words{9, 2}, Words{1, 2}}) {
      const bool equal = compare == Words{1, 2};
      const Ran r =
          run(fill + "ld.global.b128 %q1, [%rd2];\nld.global.b128 %q3, [%rd2+16];\natom." + space +
                  ".acq_rel.gpu.cas.b128 %q2, " + at +
                  ", %q1, %q3;\nst.global.b128 [%rd2], %q2;\n" + end,
              {1, 2}, {compare[0], compare[1], 7, 8});
      CHECK(r.b == Words{1, 2, 7, 8});
      CHECK(r.a == (equal ? Words{7, 8, 0, 0} : Words{1, 2, 0, 0}));
    }
  }
  CHECK(refused("atom.global.add.b128 %q1, [%rd1], %q2;\n"));
  CHECK(refused("atom.global.exch.v2.b128 %q1, [%rd1], %q2;\n"));
}

TEST_CASE("redux.f32: the least and the largest, with magnitudes, and what a NaN does") {
  const float nan = std::nanf("");
  const std::vector<std::vector<float>> inputs = {
      {3, -7, 2, 5}, {0.0F, -0.0F, 0.0F, -0.0F}, {nan, 4, -1, nan}, {nan, nan, nan, nan}};
  for (const std::vector<float>& in : inputs) {
    for (const bool least : {false, true}) {
      for (const bool magnitudes : {false, true}) {
        for (const bool keeps : {false, true}) {
          Words a(4 * 32);
          bool any_nan = false, all_nan = true;
          double best = least ? HUGE_VAL : -HUGE_VAL;
          bool negative_zero = least;
          bool minus = false, plus = false;
          for (std::size_t t = 0; t < 32; ++t) {
            const float x = in[t % 4];
            a[4 * t] = bits(x);
            const float y = magnitudes ? std::fabs(x) : x;
            any_nan = any_nan || std::isnan(y);
            if (std::isnan(y)) continue;
            all_nan = false;
            best = least ? std::fmin(best, y) : std::fmax(best, y);
            minus = minus || std::signbit(y);
            plus = plus || !std::signbit(y);
          }
          negative_zero = least ? minus : !plus;
          const std::string form = std::string("redux.sync.") + (least ? "min" : "max") +
                                   (magnitudes ? ".abs" : "") + (keeps ? ".NaN" : "") + ".f32";
          CAPTURE(form);
          const Ran r = run("ld.global.f32 %f1, [%rd1];\n" + form +
                                " %f2, %f1, -1;\nst.global.f32 [%rd2], %f2;\n",
                            a, {}, 32);
          const bool canonical = all_nan || (any_nan && keeps);
          const float number =
              best == 0 ? (negative_zero ? -0.0F : 0.0F) : static_cast<float>(best);
          for (std::size_t t = 0; t < 32; ++t) {
            CHECK(r.b[4 * t] == (canonical ? 0x7FFFFFFFU : bits(number)));
          }
        }
      }
    }
  }
  CHECK(refused("redux.sync.add.f32 %f1, %f2, -1;\n"));
  CHECK(refused("redux.sync.min.NaN.u32 %r1, %r2, -1;\n"));
}

TEST_CASE("multimem of 8-bit floats: least, largest and exact sums are each byte's own") {
  for (const bool e5m2 : {false, true}) {
    Access access;
    access.type = e5m2 ? Type::e5m2x4 : Type::e4m3x4;
    for (unsigned x = 0; x < 256; ++x) {
      for (unsigned y = 0; y < 256; y += 5) {
        if (!is_number(e5m2, x) || !is_number(e5m2, y)) continue;
        CAPTURE(x);
        CAPTURE(y);
        // The pair in byte 2, zeros elsewhere.
        const std::uint64_t replicas[2] = {std::uint64_t{x} << 16, std::uint64_t{y} << 16};
        access.accumulate = Type::f16;
        access.combine = Combine::add;
        const double sum = value_of(e5m2, x) + value_of(e5m2, y);
        const auto byte = [&](SumPolicy policy) {
          return static_cast<unsigned>(reduce_replicas(access, policy, 0, replicas) >> 16) & 0xFFU;
        };
        // The sum of two is exact in f16, but for e5m2's, whose range is f16's own.
        if (sum != 0) CHECK(byte(SumPolicy::exact) == nearest(e5m2, sum));
        if (sum != 0 && !e5m2) CHECK(byte(SumPolicy::rank_order) == nearest(e5m2, sum));
        if (value_of(e5m2, x) == value_of(e5m2, y)) continue;
        access.combine = Combine::max;
        CHECK(byte(SumPolicy::rank_order) == (value_of(e5m2, x) > value_of(e5m2, y) ? x : y));
        access.combine = Combine::min;
        CHECK(byte(SumPolicy::rank_order) == (value_of(e5m2, x) < value_of(e5m2, y) ? x : y));
      }
    }
  }
  // e4m3 has steps of 1/8 above 1, so that 1 + 1/32 is 1 again, four times; f16 keeps the sum.
  Access access;
  access.type = Type::e4m3x4;
  access.combine = Combine::add;
  const unsigned one = nearest(false, 1), small = nearest(false, 1.0 / 32);
  REQUIRE(value_of(false, small) == 1.0 / 32);
  const std::uint64_t replicas[5] = {one, small, small, small, small};
  CHECK(reduce_replicas(access, SumPolicy::rank_order, 0, replicas) == one);
  access.accumulate = Type::f16;
  CHECK(reduce_replicas(access, SumPolicy::rank_order, 0, replicas) == nearest(false, 1.125));
}

TEST_CASE("multimem of 8-bit floats reaches each replica, with f16 sums") {
  const Module module =
      parse(kHead +
                ".visible .entry k(.param .u64 a, .param .u64 out)\n{\n.reg .b32 %r<8>;\n"
                ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [out];\n"
                "multimem.ld_reduce.global.add.acc::f16.v4.e4m3x4 {%r1, %r2, %r3, %r4}, [%rd1];\n"
                "st.global.v4.b32 [%rd2], {%r1, %r2, %r3, %r4};\n"
                "multimem.st.global.v4.e4m3x4 [%rd1], {%r4, %r3, %r2, %r1};\nret;\n}\n",
            "k.ptx");
  const Program program = decode(module, module.kernel("k"));
  FlatMemory memory(2);
  const auto symmetric = memory.symmetric("x", 16);
  const std::uint64_t out = memory.allocate("out", 0, 16);
  for (unsigned r = 0; r < 2; ++r) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(memory.at(symmetric.unicast[r], 16));
    for (unsigned i = 0; i < 16; ++i) {
      bytes[i] = static_cast<std::uint8_t>(nearest(false, r == 0 ? i : 0.5));
    }
  }
  VirtualClock clock;
  std::vector<Execution> launches;
  launches.emplace_back(program, launch(1, 1, Parameters().add(symmetric.multicast).add(out)),
                        memory, clock, [](const std::string&) {});
  FairChooser fair;
  run_to_end(launches, clock, fair);
  const auto* sums = reinterpret_cast<const std::uint8_t*>(memory.at(out, 16));
  for (unsigned i = 0; i < 16; ++i) {
    CHECK(sums[i] == nearest(false, value_of(false, nearest(false, i)) + 0.5));
  }
  for (unsigned r = 0; r < 2; ++r) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(memory.at(symmetric.unicast[r], 16));
    for (unsigned i = 0; i < 16; ++i) CHECK(bytes[i] == sums[12 - i / 4 * 4 + i % 4]);
  }
  CHECK(refused("multimem.red.global.add.v4.e4m3x4 [%rd1], {%r1, %r2, %r3, %r4};\n"));
}

TEST_CASE("st.async and red.async with .release write and add in global memory") {
  const Ran r =
      run("st.async.release.sys.global.b32 [%rd2], 7;\nmov.u32 %r2, 5;\n"
          "red.async.mmio.release.sys.global.add.u32 [%rd2+8], %r2;\n",
          {}, {1, 10});
  CHECK(r.b == Words{7, 15, 0, 0});
  CHECK(refused("st.async.release.cta.global.b32 [%rd2], %r2;\n"));
  CHECK(refused("st.async.mmio.release.gpu.global.b32 [%rd2], %r2;\n"));
}

}  // namespace ringfence::ptx::test
