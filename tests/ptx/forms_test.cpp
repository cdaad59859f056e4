// Forms that no recorded kernel has: matrix stores and multiplications, dot products of pairs,
// barriers that reduce, indexed branches, 16-bit atomics, copies that arrive on an mbarrier, and
// the operations of multimem beside add. Expected values are written out from the manual's
// definitions.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <string>
#include <vector>

#include "emulator/ptx/reduction.hpp"
#include "tests/ptx/forms.hpp"

namespace ringfence::ptx::test {
namespace {

using Words = std::vector<std::uint32_t>;

// A block of `threads`: each has `in` words at %rd1 and puts `out` words at %rd2; %r1 is %tid.x.
// `s` is shared memory.
Words run_block(const std::string& body, std::uint32_t threads, std::uint32_t in, std::uint32_t out,
                const Words& input = {}) {
  const std::string text =
      ".version 8.5\n.target sm_90a\n.address_size 64\n"
      ".visible .entry form(.param .u64 in, .param .u64 out)\n{\n"
      ".reg .pred %p<8>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<16>;\n.reg .b16 %h<8>;\n"
      ".shared .align 16 .b8 s[4096];\n"
      "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, %tid.x;\n"
      "mul.wide.u32 %rd3, %r1, " +
      std::to_string(4 * in) + ";\nadd.u64 %rd1, %rd1, %rd3;\nmul.wide.u32 %rd3, %r1, " +
      std::to_string(4 * out) + ";\nadd.u64 %rd2, %rd2, %rd3;\n" + body + "\nret;\n}\n";
  Single run(parse(text, "form.ptx"), "form");
  const std::uint64_t from = run.buffer(std::max<std::size_t>(4, input.size() * 4));
  const std::uint64_t to = run.buffer(std::size_t{threads} * out * 4);
  std::memcpy(run.memory.at(from, input.size() * 4), input.data(), input.size() * 4);
  run.run(launch(1, threads, Parameters().add(from).add(to)));
  const std::uint32_t* words = view<std::uint32_t>(run.memory, to, threads * out);
  return {words, words + threads * out};
}

std::string load_words(unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    text +=
        "ld.global.u32 %r" + std::to_string(10 + i) + ", [%rd1+" + std::to_string(4 * i) + "];\n";
  }
  return text;
}

// f16 and bf16 codes of small whole numbers.
std::uint32_t half(int value, bool bf16) {
  if (value == 0) return 0;
  const int magnitude = std::abs(value);
  const int exponent = std::ilogb(magnitude);
  const int bits = bf16 ? 7 : 10;
  const int fraction = (magnitude << bits >> exponent) - (1 << bits);
  return static_cast<std::uint32_t>((value < 0 ? 1 << 15 : 0) |
                                    (exponent + (bf16 ? 127 : 15)) << bits | fraction);
}
std::uint32_t single(int value) {
  const auto f = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

int a_of(int i, int k) { return (i + 2 * k) % 5 - 2; }
int b_of(int k, int n) { return (3 * k + n) % 7 - 3; }
int c_of(int i, int n) { return (i * 8 + n) % 11; }

}  // namespace

TEST_CASE("forms: dp2a adds two products of halves and bytes") {
  const std::vector<Triple> values = {
      {0x00020003, 0x04050607, 100}, {0xFFFF0001, 0x80FF7F01, 7}, {0x7FFF8000, 0x80808080, 0}};
  const auto expect = [&](bool high, bool is_signed) {
    const auto got = run_statement(std::string("dp2a.") + (high ? "hi" : "lo") +
                                       (is_signed ? ".s32.s32" : ".u32.u32") + " %d, %a, %b, %c;",
                                   32, {32, 32, 32}, values, false);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t sum = static_cast<std::int64_t>(values[i].c);
      for (int h = 0; h < 2; ++h) {
        const auto x = static_cast<std::uint16_t>(values[i].a >> (16 * h));
        const auto y = static_cast<std::uint8_t>(values[i].b >> (8 * (h + (high ? 2 : 0))));
        sum += is_signed ? static_cast<std::int16_t>(x) * static_cast<std::int8_t>(y) : x * y;
      }
      CHECK(got[i] == static_cast<std::uint32_t>(sum));
    }
  };
  for (const bool high : {false, true}) {
    for (const bool is_signed : {false, true}) expect(high, is_signed);
  }
}

TEST_CASE("forms: cvt reads the low part of a wider register") {
  const std::uint32_t low = 0x8765C3F9U, high = 0x12345678U;
  const Words got = run_block(
      "ld.param.u64 %rd4, [in];\nld.global.u64 %rd5, [%rd4];\n"
      "cvt.s64.s32 %rd6, %rd5;\nst.global.u64 [%rd2], %rd6;\n"
      "cvt.u64.u32 %rd6, %rd5;\nst.global.u64 [%rd2+8], %rd6;\n"
      "cvt.s64.s16 %rd6, %rd5;\nst.global.u64 [%rd2+16], %rd6;\n"
      "cvt.u32.u16 %r2, %rd5;\nst.global.u32 [%rd2+24], %r2;\n"
      "cvt.s32.s8 %r2, %rd5;\nst.global.u32 [%rd2+28], %r2;\n"
      "cvt.rn.f32.s32 %r2, %rd5;\nst.global.u32 [%rd2+32], %r2;\n"
      "cvt.rz.f32.u32 %r2, %rd5;\nst.global.u32 [%rd2+36], %r2;\n"
      "cvt.u32.u32 %r2, %rd5;\nst.global.u32 [%rd2+40], %r2;\nst.global.u32 [%rd2+44], %rd5;\n",
      1, 0, 12, {low, high});
  const auto word = [&](std::size_t i) { return got[2 * i] | std::uint64_t{got[2 * i + 1]} << 32; };
  CHECK(word(0) == 0xFFFFFFFF8765C3F9ULL);
  CHECK(word(1) == 0x000000008765C3F9ULL);
  CHECK(word(2) == 0xFFFFFFFFFFFFC3F9ULL);
  CHECK(got[6] == 0xC3F9U);
  CHECK(got[7] == 0xFFFFFFF9U);
  // -2023373831 lies between floats 128 apart, 2271593465 between floats 256 apart.
  CHECK(got[8] == std::bit_cast<std::uint32_t>(-2023373824.0F));
  CHECK(got[9] == std::bit_cast<std::uint32_t>(2271593216.0F));
  CHECK(got[10] == low);
  CHECK(got[11] == low);
}

TEST_CASE("forms: bar.red counts and combines the block's predicates") {
  const Words got = run_block(
      "rem.u32 %r2, %r1, 3;\nsetp.eq.u32 %p1, %r2, 0;\n"
      "bar.red.popc.u32 %r3, 0, %p1;\nst.global.u32 [%rd2], %r3;\n"
      "bar.red.and.pred %p2, 0, %p1;\nselp.u32 %r4, 1, 0, %p2;\nst.global.u32 [%rd2+4], %r4;\n"
      "bar.red.or.pred %p3, 0, !%p1;\nselp.u32 %r5, 1, 0, %p3;\nst.global.u32 [%rd2+8], %r5;\n",
      64, 0, 3);
  for (std::size_t t = 0; t < 64; ++t) {
    CHECK(got[3 * t] == 22);  // 0, 3, ..., 63
    CHECK(got[3 * t + 1] == 0);
    CHECK(got[3 * t + 2] == 1);
  }
}

TEST_CASE("forms: brx.idx takes each lane to its label") {
  const Words got = run_block(
      "and.b32 %r2, %r1, 3;\nmov.u32 %r3, 0;\n"
      "targets: .branchtargets ONE, TWO, THREE, FOUR;\nbrx.idx %r2, targets;\n"
      "ONE: mov.u32 %r3, 11;\nbra DONE;\nTWO: mov.u32 %r3, 22;\nbra DONE;\n"
      "THREE: mov.u32 %r3, 33;\nbra DONE;\nFOUR: mov.u32 %r3, 44;\nDONE: st.global.u32 [%rd2], "
      "%r3;\n",
      32, 0, 1);
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(got[t] == 11 * (t % 4 + 1));
}

TEST_CASE("forms: 16-bit atomics round at each step and return the old value") {
  for (const bool bf16 : {true, false}) {
    const std::string type = bf16 ? "bf16" : "f16";
    // Up to 256 whole numbers are exact in bf16, to 2048 in f16; beyond, adding 1 is lost.
    const int last = bf16 ? 256 : 2048;
    const std::uint32_t start = half(last - 3, bf16), one = half(1, bf16);
    const Words got =
        run_block("ld.param.u64 %rd4, [in];\nmov.u16 %h1, " + std::to_string(one) +
                      ";\natom.global.add.noftz." + type +
                      " %h2, [%rd4], %h1;\ncvt.u32.u16 %r2, %h2;\nst.global.u32 [%rd2], %r2;\n"
                      "mov.u32 %r3, " +
                      std::to_string(one << 16 | one) + ";\nred.global.add.noftz." + type +
                      "x2 [%rd4+4], %r3;\nbar.sync 0;\nld.global.u32 %r4, [%rd4+4];\n"
                      "st.global.u32 [%rd2+4], %r4;\n",
                  32, 0, 2, {start, half(last - 40, bf16) << 16});
    std::vector<int> seen(4, 0);
    for (std::size_t t = 0; t < 32; ++t) {
      for (int k = 0; k < 4; ++k) seen[k] += got[2 * t] == half(last - 3 + k, bf16);
      CHECK(got[2 * t + 1] == (half(last - 8, bf16) << 16 | half(32, bf16)));
    }
    CHECK(seen == std::vector<int>{1, 1, 1, 29});
  }
}

TEST_CASE("forms: stmatrix puts each lane's pair into its row, or its column") {
  for (const bool transposed : {false, true}) {
    // Lane i gives the address of row i % 8; rows lie 32 bytes apart.
    const Words got = run_block(
        "mov.u32 %r2, s;\nand.b32 %r3, %r1, 7;\nmad.lo.u32 %r3, %r3, 32, %r2;\n"
        "shl.b32 %r4, %r1, 1;\nadd.u32 %r5, %r4, 1;\nshl.b32 %r5, %r5, 16;\nor.b32 %r4, %r4, "
        "%r5;\n" +
            std::string("stmatrix.sync.aligned.m8n8.x1") + (transposed ? ".trans" : "") +
            ".shared.b16 [%r3], {%r4};\nbar.sync 0;\n"
            // Lane i reads back pair i % 4 of row i / 4.
            "shr.u32 %r6, %r1, 2;\nand.b32 %r7, %r1, 3;\nshl.b32 %r7, %r7, 2;\n"
            "mad.lo.u32 %r6, %r6, 32, %r7;\nadd.u32 %r6, %r6, %r2;\nld.shared.u32 %r8, [%r6];\n"
            "st.global.u32 [%rd2], %r8;\n",
        32, 0, 1);
    for (std::uint32_t row = 0; row < 8; ++row) {
      for (std::uint32_t column = 0; column < 8; ++column) {
        // Element (r, c) of the matrix is half c % 2 of lane 4 r + c / 2, whose value is 8 r + c.
        const std::uint32_t due = transposed ? 8 * column + row : 8 * row + column;
        const std::uint32_t pair = got[4 * row + column / 2];
        CHECK((pair >> (16 * (column % 2)) & 0xFFFF) == due);
      }
    }
  }
}

TEST_CASE("forms: mma.sync equals the exact product of small integers") {
  for (const std::string type : {"tf32", "f16", "bf16"}) {
    const bool tf32 = type == "tf32", bf16 = type == "bf16";
    const int depth = tf32 ? 8 : 16;
    // Words of a lane: four of A, two of B, four of C.
    Words input;
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int r = 0; r < 4; ++r) {
        const int row = g + 8 * (r % 2);
        const int column = tf32 ? t + 4 * (r / 2) : 2 * t + 8 * (r / 2);
        input.push_back(tf32 ? single(a_of(row, column))
                             : half(a_of(row, column + 1), bf16) << 16 |
                                   half(a_of(row, column), bf16));
      }
      for (int r = 0; r < 2; ++r) {
        const int k = tf32 ? t + 4 * r : 2 * t + 8 * r;
        input.push_back(tf32 ? single(b_of(k, g))
                             : half(b_of(k + 1, g), bf16) << 16 | half(b_of(k, g), bf16));
      }
      for (int r = 0; r < 4; ++r) input.push_back(single(c_of(g + 8 * (r / 2), 2 * t + r % 2)));
    }
    const std::string shape =
        std::string(tf32 ? "m16n8k8" : "m16n8k16") + ".row.col.f32." + type + "." + type + ".f32";
    std::string stores;
    for (int i = 0; i < 4; ++i) {
      stores +=
          "st.global.u32 [%rd2+" + std::to_string(4 * i) + "], %r" + std::to_string(30 + i) + ";\n";
    }
    const Words got =
        run_block(load_words(10) + "mma.sync.aligned." + shape +
                      " {%r30, %r31, %r32, %r33}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, "
                      "{%r16, %r17, %r18, %r19};\n" +
                      stores,
                  32, 10, 4, input);
    for (int lane = 0; lane < 32; ++lane) {
      for (int r = 0; r < 4; ++r) {
        const int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
        int due = c_of(row, column);
        for (int k = 0; k < depth; ++k) due += a_of(row, k) * b_of(k, column);
        CHECK(got[static_cast<std::size_t>(4 * lane + r)] == single(due));
      }
    }
  }
}

TEST_CASE("forms: mma.sync of bytes is exact, wraps or saturates") {
  const auto byte = [](int i, int k, bool is_signed) {
    const int x = (37 * i + 101 * k + i * k) % 256;
    return is_signed ? x - 128 : x;
  };
  for (const unsigned depth : {16U, 32U}) {
    for (const bool a_signed : {true, false}) {
      for (const bool b_signed : {true, false}) {
        for (const bool saturate : {false, true}) {
          const auto a = [&](int row, int k) { return byte(row, k, a_signed); };
          const auto b = [&](int k, int column) { return byte(column + 3, k, b_signed); };
          const auto c = [&](int row, int column) {
            const int some = 1000 * row - 77 * column;
            return row == 3 ? INT32_MAX - some : row == 12 ? INT32_MIN + some : some;
          };
          // Words of a lane: depth / 8 of A, half as many of B, four of C.
          const unsigned a_words = depth / 8, b_words = depth / 16;
          Words input;
          for (int lane = 0; lane < 32; ++lane) {
            const int g = lane / 4, t = lane % 4;
            const auto pack = [&](auto value) {
              std::uint32_t word = 0;
              for (int i = 0; i < 4; ++i) {
                word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(value(i))) << (8 * i);
              }
              input.push_back(word);
            };
            for (int r = 0; r < static_cast<int>(a_words); ++r) {
              pack([&](int i) { return a(g + 8 * (r % 2), 4 * t + i + 16 * (r / 2)); });
            }
            for (int r = 0; r < static_cast<int>(b_words); ++r) {
              pack([&](int i) { return b(4 * t + i + 16 * r, g); });
            }
            for (int r = 0; r < 4; ++r) {
              input.push_back(static_cast<std::uint32_t>(c(g + 8 * (r / 2), 2 * t + r % 2)));
            }
          }
          const auto registers = [](unsigned first, unsigned count) {
            std::string out = "{";
            for (unsigned i = 0; i < count; ++i) {
              out += (i == 0 ? "%r" : ", %r") + std::to_string(first + i);
            }
            return out + "}";
          };
          const unsigned total = a_words + b_words + 4;
          const std::string type =
              std::string(a_signed ? ".s8" : ".u8") + (b_signed ? ".s8" : ".u8");
          const Words got = run_block(
              load_words(total) + "mma.sync.aligned.m16n8k" + std::to_string(depth) + ".row.col" +
                  (saturate ? ".satfinite" : "") + ".s32" + type + ".s32 " + registers(30, 4) +
                  ", " + registers(10, a_words) + ", " + registers(10 + a_words, b_words) + ", " +
                  registers(10 + a_words + b_words, 4) +
                  ";\nst.global.v4.u32 [%rd2], {%r30, %r31, %r32, %r33};\n",
              32, total, 4, input);
          for (int lane = 0; lane < 32; ++lane) {
            for (int r = 0; r < 4; ++r) {
              const int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
              std::int64_t due = c(row, column);
              for (int k = 0; k < static_cast<int>(depth); ++k) due += a(row, k) * b(k, column);
              if (saturate && due > INT32_MAX) due = INT32_MAX;
              if (saturate && due < INT32_MIN) due = INT32_MIN;
              CHECK(got[static_cast<std::size_t>(4 * lane + r)] == static_cast<std::uint32_t>(due));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("forms: copies arrive on an mbarrier, and a wait for it sees all of them") {
  Words input;
  for (std::uint32_t i = 0; i < 32; ++i) input.push_back(1000 + i);
  const Words got = run_block(
      "mov.u32 %r2, s;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r2], 32;\n"
      "bar.sync 0;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r3, %r3, %r2;\n"
      "cp.async.ca.shared.global [%r3+64], [%rd1], 4;\n"
      "cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];\n"
      "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\n"
      "xor.b32 %r4, %r1, 1;\nshl.b32 %r4, %r4, 2;\nadd.u32 %r4, %r4, %r2;\n"
      "ld.shared.u32 %r5, [%r4+64];\nst.global.u32 [%rd2], %r5;\n",
      32, 1, 1, input);
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(got[t] == 1000 + (t ^ 1U));
}

TEST_CASE("forms: multimem takes min, max and bits of all replicas, whatever the policy") {
  const auto reduce = [](Combine combine, Type type, std::vector<std::uint64_t> replicas) {
    Access access;
    access.operation = Operation::multimem_load_reduce;
    access.combine = combine;
    access.type = type;
    const std::uint64_t first = reduce_replicas(access, SumPolicy::rank_order, 1, replicas);
    for (const SumPolicy policy : kSumPolicies) {
      CHECK(reduce_replicas(access, policy, 5, replicas) == first);
    }
    return first;
  };
  CHECK(reduce(Combine::min, Type::u32, {7, 0xFFFFFFFF, 3}) == 3);
  CHECK(reduce(Combine::min, Type::s32, {7, 0xFFFFFFFF, 3}) == 0xFFFFFFFF);
  CHECK(reduce(Combine::max, Type::u32, {7, 0xFFFFFFFF, 3}) == 0xFFFFFFFF);
  CHECK(reduce(Combine::max, Type::s32, {7, 0xFFFFFFFF, 3}) == 7);
  CHECK(reduce(Combine::max, Type::u64, {1ULL << 40, 5}) == 1ULL << 40);
  CHECK(reduce(Combine::and_, Type::b32, {0xF0F0, 0xFF00, 0xF000}) == 0xF000);
  CHECK(reduce(Combine::or_, Type::b32, {1, 2, 4}) == 7);
  CHECK(reduce(Combine::xor_, Type::b64, {1ULL << 50, 3, 1}) == ((1ULL << 50) | 2));
  for (const bool bf16 : {true, false}) {
    const Type pair = bf16 ? Type::bf16x2 : Type::f16x2;
    const auto two = [&](int high, int low) -> std::uint64_t {
      return half(high, bf16) << 16 | half(low, bf16);
    };
    CHECK(reduce(Combine::min, pair, {two(3, -4), two(-1, 2), two(0, 5)}) == two(-1, -4));
    CHECK(reduce(Combine::max, pair, {two(3, -4), two(-1, 2), two(0, 5)}) == two(3, 5));
  }
}

}  // namespace ringfence::ptx::test
