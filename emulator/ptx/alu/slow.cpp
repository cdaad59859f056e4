#include "emulator/ptx/alu/slow.hpp"

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "emulator/ptx/alu/alu.hpp"
#include "emulator/ptx/alu/approx.hpp"
#include "emulator/ptx/alu/scalar.hpp"

namespace ringfence::ptx {
namespace {

Rounding rounding_of(std::uint64_t flags) {
  return static_cast<Rounding>(flags >> kSlowRoundingShift & 7U);
}

// Sets the processor's rounding for one expression. Operands and result go through volatile so that
// the compiler neither folds nor moves the operation.
class RoundingMode {
 public:
  explicit RoundingMode(Rounding rounding) {
    switch (rounding) {
      case Rounding::zero:
        std::fesetround(FE_TOWARDZERO);
        break;
      case Rounding::down:
        std::fesetround(FE_DOWNWARD);
        break;
      case Rounding::up:
        std::fesetround(FE_UPWARD);
        break;
      case Rounding::nearest:
      case Rounding::nearest_away:
        break;
    }
  }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;
  ~RoundingMode() { std::fesetround(FE_TONEAREST); }
};

template <class T>
T arithmetic(SlowOperation operation, T x, T y, T z) {
  volatile T a = x;
  volatile T b = y;
  volatile T c = z;
  volatile T out = 0;
  switch (operation) {
    case SlowOperation::add:
      out = a + b;
      break;
    case SlowOperation::sub:
      out = a - b;
      break;
    case SlowOperation::mul:
      out = a * b;
      break;
    case SlowOperation::fma:
      out = std::fma(T(a), T(b), T(c));
      break;
    case SlowOperation::div:
      out = a / b;
      break;
    case SlowOperation::rcp:
      out = T(1) / a;
      break;
    case SlowOperation::sqrt:
      out = std::sqrt(T(a));
      break;
    default:
      break;
  }
  return out;
}

float approximate(SlowOperation operation, float a, float b) {
  switch (operation) {
    case SlowOperation::rsqrt_approx:
      return rsqrt_approx(a);
    case SlowOperation::rcp_approx:
      return rcp_approx(a);
    case SlowOperation::sqrt_approx:
      return sqrt_approx(a);
    case SlowOperation::ex2_approx:
      return ex2_approx(a);
    case SlowOperation::lg2_approx:
      return lg2_approx(a);
    case SlowOperation::sin_approx:
      return sin_approx(a);
    case SlowOperation::cos_approx:
      return cos_approx(a);
    case SlowOperation::tanh_approx:
      return tanh_approx(a);
    case SlowOperation::div_approx:
      return a / b;
    default:
      return 0;
  }
}

template <class T>
T round_integral(T x, Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return std::trunc(x);
    case Rounding::down:
      return std::floor(x);
    case Rounding::up:
      return std::ceil(x);
    case Rounding::nearest:
    case Rounding::nearest_away:
      break;
  }
  return std::nearbyint(x);
}

double widen(Type type, std::uint64_t value) {
  switch (type) {
    case Type::f32:
      return as_float(static_cast<std::uint32_t>(value));
    case Type::bf16:
      return from_bf16(static_cast<std::uint32_t>(value & 0xFFFFU));
    case Type::f16:
      return from_f16(static_cast<std::uint32_t>(value & 0xFFFFU));
    default:
      return as_double(value);
  }
}

// Clamps to the integer type. NaN gives 0, but where one of the two types is of 64 bits the highest
// bit alone (PTX ISA 9.0, cvt).
std::uint64_t to_integer(Type type, Type from, double x) {
  const unsigned bits = size_of(type) * 8;
  if (x != x) return bits == 64 || from == Type::f64 ? 1ULL << (bits - 1) : 0;
  if (is_signed(type)) {
    const double limit = std::ldexp(1.0, static_cast<int>(bits) - 1);
    const std::uint64_t mask = bits == 64 ? ~0ULL : (1ULL << bits) - 1;
    if (x >= limit) return (mask >> 1) & mask;
    if (x < -limit) return (mask ^ (mask >> 1)) & mask;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) & mask;
  }
  const double limit = std::ldexp(1.0, static_cast<int>(bits));
  if (x >= limit) return bits == 64 ? ~0ULL : (1ULL << bits) - 1;
  return x <= 0 ? 0 : static_cast<std::uint64_t>(x);
}

// A 16-bit result with directed rounding: the nearest candidate, moved one place where it went the
// wrong way.
std::uint32_t narrow_directed(Type type, double x, Rounding rounding) {
  const auto narrow = [&](double v) {
    const float f = round_to_odd(v);
    return type == Type::bf16 ? to_bf16(f) : to_f16(f);
  };
  const std::uint32_t near = narrow(x);
  if (rounding == Rounding::nearest || x != x) return near;
  const double back = widen(type, near);
  const bool toward_zero = rounding == Rounding::zero || (rounding == Rounding::down && x > 0) ||
                           (rounding == Rounding::up && x < 0);
  const double magnitude = std::fabs(x);
  const double rounded = std::fabs(back);
  if (toward_zero && rounded > magnitude) return near - 1;
  if (!toward_zero && rounded < magnitude) return near + 1;
  return near;
}

}  // namespace

std::uint32_t slow_float(SlowOperation operation, std::uint64_t flags, std::uint32_t a,
                         std::uint32_t b, std::uint32_t c) {
  const bool flush = (flags & kSlowFlush) != 0;
  float x = as_float(a);
  float y = as_float(b);
  float z = as_float(c);
  if (flush) {
    x = flushed(x);
    y = flushed(y);
    z = flushed(z);
  }
  float out;
  if (operation < SlowOperation::rsqrt_approx) {
    const RoundingMode mode(rounding_of(flags));
    out = arithmetic(operation, x, y, z);
  } else {
    out = approximate(operation, x, y);
  }
  if (flush) out = flushed(out);
  if ((flags & kSlowSaturate) != 0) out = out > 0 ? (out < 1 ? out : 1.0F) : 0.0F;
  return bits_of(canonical(out));
}

std::uint64_t slow_double(SlowOperation operation, std::uint64_t flags, std::uint64_t a,
                          std::uint64_t b, std::uint64_t c) {
  const RoundingMode mode(rounding_of(flags));
  return bits_of(arithmetic(operation, as_double(a), as_double(b), as_double(c)));
}

std::uint64_t slow_convert(Type to, Type from, std::uint64_t flags, std::uint64_t value) {
  const Rounding rounding = rounding_of(flags);
  if (!is_float(from)) {
    const unsigned bits = size_of(from) * 8;
    const std::uint64_t raw = bits == 64 ? value : value & ((1ULL << bits) - 1);
    const auto shifted = static_cast<std::int64_t>(raw << (64 - bits)) >> (64 - bits);
    const RoundingMode mode(rounding);
    volatile std::int64_t s = shifted;
    volatile std::uint64_t u = raw;
    if ((flags & kSlowSaturate) != 0) {  // to [0, 1]
      s = shifted > 0 ? 1 : 0;
      u = raw > 0 ? 1 : 0;
    }
    if (to == Type::f32) {
      volatile float out = is_signed(from) ? static_cast<float>(s) : static_cast<float>(u);
      return bits_of(float(out));
    }
    volatile double out = is_signed(from) ? static_cast<double>(s) : static_cast<double>(u);
    return bits_of(double(out));
  }
  double x = widen(from, value);
  if ((flags & kSlowFlush) != 0 && from == Type::f32) x = flushed(static_cast<float>(x));
  if (!is_float(to)) return to_integer(to, from, round_integral(x, rounding));
  const bool integral = (flags & 1U) != 0;
  if (integral) x = round_integral(x, rounding);
  if ((flags & kSlowSaturate) != 0) x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
  if (to == Type::f64) return bits_of(x);
  if (to == Type::bf16 || to == Type::f16) return narrow_directed(to, x, rounding);
  const RoundingMode mode(rounding);
  volatile double wide = x;
  volatile float out = static_cast<float>(wide);
  float result = canonical(float(out));
  if ((flags & kSlowFlush) != 0) result = flushed(result);
  return bits_of(result);
}

}  // namespace ringfence::ptx
