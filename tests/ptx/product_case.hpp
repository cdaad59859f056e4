#pragma once

// One wgmma.mma_async as a kernel of its own, with its operands and what it has to give. The
// layouts are written down as the manual's pictures show them, tile by tile; nothing is shared with
// the executor.

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/ptx/reference.hpp"

namespace ringfence::ptx::test {

struct ProductCase {
  std::uint32_t n = 8;
  bool bf16 = true;
  // s8, u8, e4m3 or e5m2 in place of 16-bit elements; K-major then.
  std::string type_a, type_b;
  bool saturate = false;  ///< sums of integers
  int a_swizzle = 128;    ///< bytes that a row of the swizzled tile has; 0: none
  int b_swizzle = 128;
  bool a_in_registers = false;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = true;
  bool negate_a = false;
  bool negate_b = false;
  std::uint32_t k_step = 0;  ///< which 16 of the tile's inner elements (K-major, swizzled)
  std::uint64_t seed = 1;
  bool exact = false;  ///< every sum is exact in fp32, whatever its order

  static constexpr std::uint32_t kB = 64 * 1024;  ///< B's tile in shared memory; A's is at 0
  static constexpr std::uint32_t kBytes = 128 * 1024;

  std::vector<float> a, b, c;  ///< [64][inner], [n][inner], [64][n]
  std::vector<std::uint32_t> a_bits, b_bits;
  std::vector<std::int32_t> integers;                ///< of C where the sums are
  std::vector<std::uint8_t> image;                   ///< of shared memory
  std::vector<std::uint32_t> a_words;                ///< by thread, 4 each
  std::vector<float> initial;                        ///< of the accumulators, by thread, n / 2 each
  std::vector<float> expected;                       ///< the bits of integers
  std::uint64_t a_descriptor = 0, b_descriptor = 0;  ///< without the address

  std::uint16_t encode(float x) const {
    static constexpr Format kBf16{8, 7, true};
    static constexpr Format kF16{5, 10, true};
    return static_cast<std::uint16_t>((bf16 ? kBf16 : kF16).encode(x));
  }

  bool bytes() const { return !type_a.empty(); }
  bool of_integers() const { return type_a == "s8" || type_a == "u8"; }
  std::uint32_t size() const { return bytes() ? 1 : 2; }
  std::uint32_t inner() const { return 32 / size(); }

  /// What a byte stands for (e4m3 and e5m2: OCP 8-bit floating point, section 5).
  static float decode(const std::string& type, std::uint32_t byte) {
    if (type == "s8") return byte < 128 ? byte : static_cast<float>(byte) - 256;
    if (type == "u8") return static_cast<float>(byte);
    const bool wide = type == "e5m2";
    const int places = wide ? 2 : 3, bias = wide ? 15 : 7;
    const int exponent = static_cast<int>(byte >> places & (wide ? 31U : 15U));
    const float fraction = static_cast<float>(byte % (1U << places)) / (1 << places);
    const float magnitude =
        exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return byte < 128 ? magnitude : -magnitude;
  }
  static bool is_number(const std::string& type, std::uint32_t byte) {
    if (type == "e5m2") return (byte & 0x7CU) != 0x7C;
    return type != "e4m3" || (byte & 0x7FU) != 0x7F;
  }

  /// Row and column of accumulator i of a thread.
  static std::uint32_t row_of(std::uint32_t thread, std::uint32_t i) {
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
  }
  static std::uint32_t column_of(std::uint32_t thread, std::uint32_t i) {
    return i / 4 * 8 + thread % 4 * 2 + i % 2;
  }

  void make() {
    std::uint64_t state = seed * 2654435769U + 12345;
    const auto draw = [&](std::uint32_t count) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<std::uint32_t>((state >> 33) % count);
    };
    // Eighths up to 15.875, so that every sum is exact in double and few are in float. Of bytes all
    // that are numbers.
    const auto fill = [&](std::vector<float>& values, std::vector<std::uint32_t>& bits,
                          const std::string& type) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!bytes()) {
          values[i] = (static_cast<int>(draw(255)) - 127) / 8.0F;
          bits[i] = encode(values[i]);
          continue;
        }
        do bits[i] = draw(256);
        while (!is_number(type, bits[i]));
        values[i] = decode(type, bits[i]);
      }
    };
    a.resize(64 * inner());
    b.resize(n * inner());
    a_bits.resize(a.size());
    b_bits.resize(b.size());
    c.resize(64 * n);
    fill(a, a_bits, type_a);
    fill(b, b_bits, type_b);
    for (float& x : c) {
      x = static_cast<float>(static_cast<int>(draw(1U << 24)) - (1 << 23)) / 16;
      if (exact) x = std::floor(x / 512);
    }
    integers.resize(64 * n);
    for (std::int32_t& x : integers) {
      x = static_cast<std::int32_t>(draw(1U << 31)) * (draw(2) == 0 ? 1 : -1);
      // So that some sums leave 32 bits.
      if (draw(4) == 0) x = x < 0 ? INT32_MIN + 1000 : INT32_MAX - 1000;
    }
    image.assign(kBytes, 0);
    a_descriptor = lay_out(a_bits, 64, a_swizzle, a_transposed, 0);
    b_descriptor = lay_out(b_bits, n, b_swizzle, b_transposed, kB);
    a_words.resize(128 * 4);
    for (std::uint32_t t = 0; t < 128; ++t) {
      for (std::uint32_t r = 0; r < 4; ++r) {
        const std::uint32_t row = t / 32 * 16 + t % 32 / 4 + (r == 1 || r == 3 ? 8 : 0);
        const std::uint32_t in_word = 4 / size();
        const std::uint32_t k = t % 4 * in_word + (r >= 2 ? inner() / 2 : 0);
        for (std::uint32_t i = 0; i < in_word; ++i) {
          a_words[t * 4 + r] |= a_bits[row * inner() + k + i] << (8 * size() * i);
        }
      }
    }
    initial.resize(64 * n);
    expected.resize(64 * n);
    for (std::uint32_t t = 0; t < 128; ++t) {
      for (std::uint32_t i = 0; i < n / 2; ++i) {
        const std::uint32_t row = row_of(t, i);
        const std::uint32_t column = column_of(t, i);
        if (of_integers()) {
          const std::int32_t from = integers[row * n + column];
          std::int64_t total = accumulate ? from : 0;
          for (std::uint32_t k = 0; k < inner(); ++k) {
            total += static_cast<std::int64_t>(a[row * inner() + k]) *
                     static_cast<std::int64_t>(b[column * inner() + k]);
          }
          if (saturate && total > INT32_MAX) total = INT32_MAX;
          if (saturate && total < INT32_MIN) total = INT32_MIN;
          const auto kept = static_cast<std::uint32_t>(total);
          std::memcpy(&initial[t * (n / 2) + i], &from, 4);
          std::memcpy(&expected[t * (n / 2) + i], &kept, 4);
          continue;
        }
        initial[t * (n / 2) + i] = c[row * n + column];
        float sum = accumulate ? c[row * n + column] : 0.0F;
        const double sign = negate_a != negate_b ? -1 : 1;
        for (std::uint32_t k = 0; k < inner(); ++k) {
          // Once rounded: an e5m2's product and a sum may lie further apart than a double is wide.
          sum = std::fma(static_cast<float>(sign) * a[row * inner() + k], b[column * inner() + k],
                         sum);
        }
        expected[t * (n / 2) + i] = sum;
      }
    }
  }

  std::string text() const {
    const auto count = [](std::uint32_t x) { return std::to_string(x); };
    std::string d;
    for (std::uint32_t i = 0; i < n / 2; ++i) d += (i == 0 ? "%f" : ", %f") + count(i);
    std::string out =
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".extern .shared .align 1024 .b8 sh[];\n"
        ".visible .entry product(.param .u64 image, .param .u64 words, .param .u64 init,\n"
        "                        .param .u64 out)\n{\n"
        "  .reg .pred %p<3>;\n  .reg .b32 %r<20>;\n  .reg .b64 %rd<16>;\n  .reg ." +
        std::string(of_integers() ? "b32" : "f32") +
        " %f<128>;\n"
        "  mov.u32 %r0, %tid.x;\n  ld.param.u64 %rd0, [image];\n  shl.b32 %r1, %r0, 4;\n"
        "COPY:\n  cvt.u64.u32 %rd1, %r1;\n  add.s64 %rd1, %rd0, %rd1;\n"
        "  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];\n  mov.u32 %r2, sh;\n"
        "  add.u32 %r3, %r2, %r1;\n  st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};\n"
        "  add.u32 %r1, %r1, 2048;\n  setp.lt.u32 %p0, %r1, " +
        count(kBytes) +
        ";\n"
        "  @%p0 bra COPY;\n  fence.proxy.async;\n  bar.sync 0;\n"
        "  and.b32 %r8, %r2, 262143;\n  shr.u32 %r8, %r8, 4;\n  cvt.u64.u32 %rd2, %r8;\n"
        "  add.u32 %r9, %r2, " +
        count(kB) +
        ";\n  and.b32 %r9, %r9, 262143;\n"
        "  shr.u32 %r9, %r9, 4;\n  cvt.u64.u32 %rd3, %r9;\n"
        "  add.s64 %rd2, %rd2, " +
        std::to_string(static_cast<std::int64_t>(a_descriptor)) +
        ";\n"
        "  add.s64 %rd3, %rd3, " +
        std::to_string(static_cast<std::int64_t>(b_descriptor)) +
        ";\n"
        "  ld.param.u64 %rd4, [words];\n  mul.wide.u32 %rd5, %r0, 16;\n"
        "  add.s64 %rd4, %rd4, %rd5;\n"
        "  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd4];\n"
        "  ld.param.u64 %rd6, [init];\n  ld.param.u64 %rd7, [out];\n"
        "  mul.wide.u32 %rd8, %r0, " +
        count(n * 2) +
        ";\n"
        "  add.s64 %rd6, %rd6, %rd8;\n  add.s64 %rd7, %rd7, %rd8;\n";
    for (std::uint32_t i = 0; i < n / 2; ++i) {
      out += "  ld.global.f32 %f" + count(i) + ", [%rd6+" + count(4 * i) + "];\n";
    }
    out += "  setp.ne.u32 %p1, 1, " + std::string(accumulate ? "0" : "1") +
           ";\n"
           "  wgmma.fence.sync.aligned;\n  wgmma.mma_async.sync.aligned.m64n" +
           count(n) + "k" + count(inner()) + (saturate ? ".satfinite" : "") +
           (of_integers() ? ".s32." : ".f32.") +
           (bytes() ? type_a + "." + type_b
            : bf16  ? "bf16.bf16"
                    : "f16.f16") +
           " {" + d + "}, " + (a_in_registers ? "{%r10, %r11, %r12, %r13}" : "%rd2") +
           ", %rd3, %p1" +
           (of_integers() ? ""
                          : std::string(negate_a ? ", -1" : ", 1") + (negate_b ? ", -1" : ", 1")) +
           (a_in_registers || bytes() ? ""
            : a_transposed            ? ", 1"
                                      : ", 0") +
           (bytes()        ? ""
            : b_transposed ? ", 1"
                           : ", 0") +
           ";\n  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
    for (std::uint32_t i = 0; i < n / 2; ++i) {
      out += "  st.global.f32 [%rd7+" + count(4 * i) + "], %f" + count(i) + ";\n";
    }
    return out + "  ret;\n}\n";
  }

 private:
  void put(std::uint32_t at, std::uint32_t bits) { std::memcpy(&image[at], &bits, size()); }
  /// The place of a byte in a tile of rows of `width` bytes that is swizzled: in row r of each 8,
  /// the pieces of 16 bytes trade places.
  static std::uint32_t swizzled_place(std::uint32_t width, std::uint32_t row, std::uint32_t byte) {
    const std::uint32_t turns = width == 128 ? row % 8 : width == 64 ? row / 2 % 4 : row / 4 % 2;
    return row * width + (byte / 16 ^ turns) * 16 + byte % 16;
  }
  std::uint64_t lay_out(const std::vector<std::uint32_t>& from, std::uint32_t rows, int swizzle,
                        bool transposed, std::uint32_t base) {
    std::uint64_t leading = 1;
    std::uint64_t stride = 0;
    std::uint64_t start = 0;
    const auto width = static_cast<std::uint32_t>(swizzle);
    const std::uint64_t mode = swizzle == 0 ? 0 : swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    const auto each = [&](auto place) {
      for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t k = 0; k < inner(); ++k) put(base + place(r, k), from[r * inner() + k]);
      }
    };
    if (swizzle == 0) {
      // Core matrices of 8 rows of 16 bytes, 128 bytes each; in an order that is not dense.
      const std::uint32_t major = 144, minor = 144 * 40;  // along M or N; along K
      leading = transposed ? minor : minor;
      stride = major;
      each([&](std::uint32_t r, std::uint32_t k) {
        return transposed ? r / 8 * major + k / 8 * minor + k % 8 * 16 + r % 8 * 2
                          : r / 8 * major + k * size() / 16 * minor + r % 8 * 16 + k * size() % 16;
      });
    } else if (!transposed) {
      // Rows of `width` bytes along K, 8 of them an atom.
      stride = 8 * width;
      start = k_step * 32;
      each([&](std::uint32_t r, std::uint32_t k) {
        return swizzled_place(width, r, k_step * 32 + k * size());
      });
    } else {
      // Rows of `width` bytes along M or N, one for each k; 8 an atom. 16 of k are two atoms.
      stride = 8 * width;
      leading = 16 * width;
      each([&](std::uint32_t r, std::uint32_t k) {
        const std::uint32_t column = r * 2 / width;
        return column * 16 * width + swizzled_place(width, k, r * 2 % width);
      });
    }
    return start / 16 | (leading == 1 ? 1 : leading / 16) << 16 | stride / 16 << 32 | mode << 62;
  }
};

}  // namespace ringfence::ptx::test
