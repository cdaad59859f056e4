#include "emulator/ptx/atomic.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/ptx/alu/scalar.hpp"

namespace ringfence::ptx {
namespace {

std::uint32_t combine_half(Combine combine, bool bf16, std::uint32_t a, std::uint32_t b) {
  const float x = bf16 ? from_bf16(a) : from_f16(a);
  const float y = bf16 ? from_bf16(b) : from_f16(b);
  const float out = combine == Combine::add   ? x + y
                    : combine == Combine::min ? minimum(x, y)
                                              : maximum(x, y);
  return (bf16 ? to_bf16(out) : to_f16(out)) & 0xFFFFU;
}

template <class T>
std::uint64_t extreme(Combine combine, std::uint64_t a, std::uint64_t b) {
  const T x = static_cast<T>(a);
  const T y = static_cast<T>(b);
  return static_cast<std::make_unsigned_t<T>>(combine == Combine::min ? std::min(x, y)
                                                                      : std::max(x, y));
}

}  // namespace

std::uint64_t apply_atomic(Combine combine, Type type, bool flush, std::uint64_t old,
                           std::uint64_t operand, std::uint64_t compare) {
  const unsigned bytes = size_of(type);
  const std::uint64_t mask = bytes >= 8 ? ~0ULL : (1ULL << (8 * bytes)) - 1;
  old &= mask;
  operand &= mask;
  switch (combine) {
    case Combine::exchange:
      return operand;
    case Combine::cas:
      return old == (compare & mask) ? operand : old;
    case Combine::and_:
      return old & operand;
    case Combine::or_:
      return old | operand;
    case Combine::xor_:
      return old ^ operand;
    case Combine::inc:
      return old >= operand ? 0 : old + 1;
    case Combine::dec:
      return old == 0 || old > operand ? operand : old - 1;
    case Combine::none:
    case Combine::sub:  // no PTX instruction has these three
    case Combine::mul:
    case Combine::div:
      return operand;
    case Combine::add:
    case Combine::min:
    case Combine::max:
      break;
  }
  const auto low = static_cast<std::uint32_t>(old);
  const auto value = static_cast<std::uint32_t>(operand);
  switch (type) {
    case Type::f32: {
      const float a = flush ? flushed(as_float(low)) : as_float(low);
      const float b = flush ? flushed(as_float(value)) : as_float(value);
      const float sum = canonical(combine == Combine::add   ? a + b
                                  : combine == Combine::min ? minimum(a, b)
                                                            : maximum(a, b));
      return bits_of(flush ? flushed(sum) : sum);
    }
    case Type::f64:
      return bits_of(as_double(old) + as_double(operand));
    case Type::bf16:
      return combine_half(combine, true, low, value);
    case Type::f16:
      return combine_half(combine, false, low, value);
    case Type::bf16x2:
    case Type::f16x2: {
      const bool bf16 = type == Type::bf16x2;
      return combine_half(combine, bf16, low & 0xFFFFU, value & 0xFFFFU) |
             combine_half(combine, bf16, low >> 16, value >> 16) << 16;
    }
    case Type::s32:
      if (combine != Combine::add) return extreme<std::int32_t>(combine, old, operand);
      break;
    case Type::s64:
      if (combine != Combine::add) return extreme<std::int64_t>(combine, old, operand);
      break;
    default:
      if (combine != Combine::add) return extreme<std::uint64_t>(combine, old, operand);
      break;
  }
  return (old + operand) & mask;
}

bool may_combine(Combine combine, Type type) {
  switch (combine) {
    case Combine::add:
      return type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::f32 ||
             type == Type::f64 || type == Type::f16 || type == Type::f16x2 || type == Type::bf16 ||
             type == Type::bf16x2 || type == Type::s64;
    case Combine::min:
    case Combine::max:
      return type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::s64 ||
             type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
    case Combine::and_:
    case Combine::or_:
    case Combine::xor_:
    case Combine::exchange:
      return type == Type::b32 || type == Type::b64;
    case Combine::cas:
      return type == Type::b16 || type == Type::b32 || type == Type::b64;
    case Combine::inc:
    case Combine::dec:
      return type == Type::u32;
    case Combine::none:
    case Combine::sub:
    case Combine::mul:
    case Combine::div:
      break;
  }
  return false;
}

bool exchange_whole(Request& request, std::uint32_t lane, std::byte* at) {
  std::uint64_t old[2], fresh[2], compare[2];
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::byte* const compared = half == 0 ? request.compare : request.compare_high;
    std::memcpy(&old[half], at + 8 * half, 8);
    std::memcpy(&fresh[half], request.elements[half] + std::size_t{8} * lane, 8);
    compare[half] = old[half];
    if (compared != nullptr) std::memcpy(&compare[half], compared + std::size_t{8} * lane, 8);
  }
  const bool writes = old[0] == compare[0] && old[1] == compare[1];
  if (writes) std::memcpy(at, fresh, sizeof fresh);
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::memcpy(request.results[half] + std::size_t{8} * lane, &old[half], 8);
  }
  return writes;
}

bool order_matters(Combine combine, Type type) { return combine == Combine::add && is_float(type); }

}  // namespace ringfence::ptx
