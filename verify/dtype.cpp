#include "verify/dtype.hpp"

#include <fmt/core.h>

#include <Eigen/Core>
#include <cmath>

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

}  // namespace

const char* dtype_name(Dtype dtype) {
  return dtype == Dtype::bf16 ? "bf16" : dtype == Dtype::f16 ? "fp16" : "fp32";
}

Dtype parse_dtype(const std::string& name) {
  if (name == "bf16") return Dtype::bf16;
  if (name == "fp16" || name == "f16") return Dtype::f16;
  if (name == "fp32" || name == "f32") return Dtype::f32;
  throw InputError(fmt::format("unknown dtype '{}': use bf16, fp16 or fp32", name));
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

}  // namespace ringfence::verify
