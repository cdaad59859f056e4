#include "verify/dtype.hpp"

#include <fmt/core.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "verify/error.hpp"

namespace ringfence::verify {
namespace {

template <typename Element>
using Patterns = Eigen::Map<const Eigen::Array<Element, Eigen::Dynamic, 1>>;

// Eigen's 16-bit types are one std::uint16_t each, so a row of patterns is a row of them.
template <typename Element, typename To>
void convert_from(const std::uint16_t* from, To* to, std::size_t count) {
  static_assert(sizeof(Element) == 2);
  const auto n = static_cast<Eigen::Index>(count);
  Eigen::Map<Eigen::Array<To, Eigen::Dynamic, 1>>(to, n) =
      Patterns<Element>(reinterpret_cast<const Element*>(from), n).template cast<To>();
}

template <typename Element>
void convert_to(const float* from, std::uint16_t* to, std::size_t count) {
  static_assert(sizeof(Element) == 2);
  const auto n = static_cast<Eigen::Index>(count);
  Eigen::Map<Eigen::Array<Element, Eigen::Dynamic, 1>>(reinterpret_cast<Element*>(to), n) =
      Eigen::Map<const Eigen::ArrayXf>(from, n).template cast<Element>();
}

// Rounds to odd: towards zero, then sets the last bit where something was lost. A later rounding to
// fewer bits (here at most 24 - 2) then gives what one rounding of `value` would have given.
float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  std::uint32_t bits = float_bits(nearest);
  const bool away = std::abs(static_cast<double>(nearest)) > std::abs(value);
  if (away) --bits;  // to the neighbour nearer to zero; from infinity to the largest finite
  return float_from_bits(bits | 1u);
}

constexpr const char* kNames[] = {"bf16", "fp16", "fp32", "fp64", "e4m3", "e5m2", "s8",
                                  "s16",  "s32",  "s64",  "u8",   "u16",  "u32",  "u64"};

constexpr const char* kSafetensors[] = {"BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2", "I8",
                                        "I16",  "I32", "I64", "U8",  "U16",     "U32",     "U64"};

int exponent_bits(Dtype dtype) { return dtype == Dtype::e4m3 ? 4 : 5; }

double decode_8bit(Dtype dtype, std::uint64_t pattern) {
  const FloatFormat format = float_format(dtype);
  const int places = format.significand_bits - 1;
  const auto fraction = static_cast<int>(pattern & ((1u << places) - 1));
  const int field = static_cast<int>(pattern >> places) & ((1 << exponent_bits(dtype)) - 1);
  const double sign = (pattern & 0x80) != 0 ? -1 : 1;
  const bool top = field == (1 << exponent_bits(dtype)) - 1;
  if (dtype == Dtype::e4m3 ? (pattern & 0x7f) == 0x7f : top && fraction != 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (dtype == Dtype::e5m2 && top) return sign * std::numeric_limits<double>::infinity();
  if (field == 0) return sign * std::ldexp(fraction, format.minimum_exponent - places);
  return sign * std::ldexp(fraction + (1 << places), format.minimum_exponent + field - 1 - places);
}

std::uint64_t encode_8bit(Dtype dtype, double value) {
  const FloatFormat format = float_format(dtype);
  const int places = format.significand_bits - 1;
  const std::uint64_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return 0x7f;
  const double magnitude = std::min(std::abs(value), format.largest);
  const int exponent = magnitude == 0 ? format.minimum_exponent
                                      : std::max(std::ilogb(magnitude), format.minimum_exponent);
  // In units of the last place; a carry out of the significand goes on into the exponent.
  const auto units =
      static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, places - exponent)));
  const std::uint64_t field = static_cast<std::uint64_t>(exponent - format.minimum_exponent)
                              << places;
  return sign | (field + units);
}

std::uint64_t encode_integer(Dtype dtype, double value) {
  if (std::isnan(value)) return 0;
  const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  const bool is_signed = is_signed_integer(dtype);
  const double above = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // the first that is too large
  const double rounded = std::nearbyint(value);
  if (rounded >= above) return ~std::uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  if (is_signed) {
    const std::int64_t least = std::numeric_limits<std::int64_t>::min() >> (64 - bits);
    const std::int64_t whole = rounded <= -above ? least : static_cast<std::int64_t>(rounded);
    return static_cast<std::uint64_t>(whole) & (~std::uint64_t{0} >> (64 - bits));
  }
  return rounded <= 0 ? 0 : static_cast<std::uint64_t>(rounded);
}

}  // namespace

const char* dtype_name(Dtype dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

Dtype parse_dtype(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    const std::string known = kNames[i];
    // "fp16" is "f16" too.
    if (name == known || (known[0] == 'f' && name == "f" + known.substr(2))) {
      return static_cast<Dtype>(i);
    }
  }
  throw InputError(fmt::format(
      "unknown dtype '{}': use bf16, fp16, fp32, fp64, e4m3, e5m2, s8 to s64 or u8 to u64", name));
}

const char* safetensors_name(Dtype dtype) { return kSafetensors[static_cast<std::size_t>(dtype)]; }

std::optional<Dtype> safetensors_dtype(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kSafetensors); ++i) {
    if (name == kSafetensors[i]) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::string safetensors_dtype_names() {
  std::string all;
  for (const char* const name : kSafetensors) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

std::uint64_t load_pattern(Dtype dtype, const std::byte* from) {
  std::uint64_t pattern = 0;
  std::memcpy(&pattern, from, dtype_bytes(dtype));  // little endian, as all of ringfence
  return pattern;
}

void store_pattern(Dtype dtype, std::uint64_t pattern, std::byte* to) {
  std::memcpy(to, &pattern, dtype_bytes(dtype));
}

double decode(Dtype dtype, std::uint64_t pattern) {
  switch (dtype) {
    case Dtype::bf16:
    case Dtype::f16:
      return to_float(dtype, static_cast<std::uint16_t>(pattern));
    case Dtype::f32:
      return float_from_bits(static_cast<std::uint32_t>(pattern));
    case Dtype::f64: {
      double value;
      std::memcpy(&value, &pattern, sizeof value);
      return value;
    }
    case Dtype::e4m3:
    case Dtype::e5m2:
      return decode_8bit(dtype, pattern);
    case Dtype::s8:
      return static_cast<std::int8_t>(pattern);
    case Dtype::s16:
      return static_cast<std::int16_t>(pattern);
    case Dtype::s32:
      return static_cast<std::int32_t>(pattern);
    case Dtype::s64:
      return static_cast<double>(static_cast<std::int64_t>(pattern));
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
    case Dtype::u64:
      break;
  }
  return static_cast<double>(pattern);
}

std::uint64_t encode(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::bf16:
    case Dtype::f16:
      return round_double_to(dtype, value);
    case Dtype::f32:
      return float_bits(static_cast<float>(value));
    case Dtype::f64: {
      std::uint64_t pattern;
      std::memcpy(&pattern, &value, sizeof pattern);
      return pattern;
    }
    case Dtype::e4m3:
    case Dtype::e5m2:
      return encode_8bit(dtype, value);
    default:
      return encode_integer(dtype, value);
  }
}

std::uint16_t round_double_to(Dtype dtype, double value) {
  return round_to(dtype, round_to_odd(value));
}

void to_float(Dtype dtype, const std::uint16_t* from, float* to, std::size_t count) {
  if (dtype == Dtype::f16) {
    convert_from<Eigen::half>(from, to, count);
  } else {
    convert_from<Eigen::bfloat16>(from, to, count);
  }
}

void to_double(Dtype dtype, const std::uint16_t* from, double* to, std::size_t count) {
  if (dtype == Dtype::f16) {
    convert_from<Eigen::half>(from, to, count);
  } else {
    convert_from<Eigen::bfloat16>(from, to, count);
  }
}

void round_to(Dtype dtype, const float* from, std::uint16_t* to, std::size_t count) {
  if (dtype == Dtype::f16) {
    convert_to<Eigen::half>(from, to, count);
  } else {
    convert_to<Eigen::bfloat16>(from, to, count);
  }
}

void to_float(Dtype dtype, const std::byte* from, float* to, std::size_t count) {
  if (dtype == Dtype::f32) {
    std::copy_n(reinterpret_cast<const float*>(from), count, to);
  } else {
    to_float(dtype, reinterpret_cast<const std::uint16_t*>(from), to, count);
  }
}

void to_double(Dtype dtype, const std::byte* from, double* to, std::size_t count) {
  if (dtype == Dtype::f32) {
    std::copy_n(reinterpret_cast<const float*>(from), count, to);
  } else {
    to_double(dtype, reinterpret_cast<const std::uint16_t*>(from), to, count);
  }
}

void round_to(Dtype dtype, const float* from, std::byte* to, std::size_t count) {
  if (dtype == Dtype::f32) {
    std::copy_n(from, count, reinterpret_cast<float*>(to));
  } else {
    round_to(dtype, from, reinterpret_cast<std::uint16_t*>(to), count);
  }
}

}  // namespace ringfence::verify
