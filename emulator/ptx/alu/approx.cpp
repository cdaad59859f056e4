#include "emulator/ptx/alu/approx.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emulator/ptx/alu/table.hpp"

// The tables are part of the program: RF_TABLES is the folder in which the build has decoded them.
#define RF_EMBED(name)                                                                     \
  __asm__(".section .rodata\n.balign 16\n.globl rf_table_" #name "\nrf_table_" #name       \
          ":\n.incbin \"" RF_TABLES "/" #name                                              \
          ".bin\"\n"                                                                       \
          ".globl rf_table_" #name "_end\nrf_table_" #name "_end:\n.byte 0\n.previous\n"); \
  extern "C" const std::byte rf_table_##name[];                                            \
  extern "C" const std::byte rf_table_##name##_end[];
RF_EMBED(rsqrt)
RF_EMBED(sqrt)
RF_EMBED(rcp)
RF_EMBED(ex2)
#undef RF_EMBED

namespace ringfence::ptx {
namespace {

#define RF_TABLE(name)                                                                        \
  const ApproximationTable& name##_table() {                                                  \
    static const ApproximationTable table(std::span(                                          \
        rf_table_##name, static_cast<std::size_t>(rf_table_##name##_end - rf_table_##name))); \
    return table;                                                                             \
  }
RF_TABLE(rsqrt)
RF_TABLE(sqrt)
RF_TABLE(rcp)
RF_TABLE(ex2)
#undef RF_TABLE

constexpr std::uint32_t kOne = 0x3F800000U;
constexpr std::uint32_t kMantissa = 23;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// x = m * 4^k with m in [1, 4), for a positive normal x; returns the table's index of m.
std::uint32_t quarter(float x, int& k) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const int exponent = static_cast<int>(bits >> kMantissa) - 127;
  k = exponent >> 1;
  return (bits & 0x7FFFFFU) | static_cast<std::uint32_t>(exponent & 1) << kMantissa;
}

}  // namespace

float rsqrt_approx(float x) {
  if (x == 0) return std::copysign(kInfinity, x);
  if (!(x > 0)) return kNan;
  if (x == kInfinity) return 0;
  float scale = 1;
  if (x < 0x1p-126F) {
    x *= 0x1p24F;
    scale = 0x1p12F;
  }
  int k = 0;
  const std::uint32_t index = quarter(x, k);
  return std::ldexp(rsqrt_table().result(index), -k) * scale;
}

float sqrt_approx(float x) {
  if (x == 0) return x;
  if (!(x > 0)) return kNan;
  if (x == kInfinity) return x;
  float scale = 1;
  if (x < 0x1p-126F) {
    x *= 0x1p24F;
    scale = 0x1p-12F;
  }
  int k = 0;
  const std::uint32_t index = quarter(x, k);
  return std::ldexp(sqrt_table().result(index), k) * scale;
}

float rcp_approx(float x) {
  if (x != x) return kNan;
  if (x == 0) return std::copysign(kInfinity, x);
  if (std::isinf(x)) return std::copysign(0.0F, x);
  int exponent = 0;
  const float mantissa = std::frexp(std::fabs(x), &exponent);  // in [0.5, 1)
  const std::uint32_t index = std::bit_cast<std::uint32_t>(mantissa) & 0x7FFFFFU;
  return std::copysign(std::ldexp(rcp_table().result(index), 1 - exponent), x);
}

float ex2_approx(float x) {
  if (x >= 1 && x < 2) return ex2_table().result(std::bit_cast<std::uint32_t>(x) - kOne);
  return static_cast<float>(std::exp2(static_cast<double>(x)));
}

float lg2_approx(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }
float sin_approx(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
float cos_approx(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
float tanh_approx(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }

}  // namespace ringfence::ptx
