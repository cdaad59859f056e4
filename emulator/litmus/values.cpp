#include "emulator/litmus/values.hpp"

#include <algorithm>

namespace ringfence::litmus {

std::int64_t extended(std::uint64_t v, Type type) {
  const std::uint64_t mask = mask_of(type);
  v &= mask;
  if (type.kind != 'u' && (v >> (type.bits - 1)) != 0) v |= ~mask;
  return signed_of(v);
}

std::int64_t apply(LocalOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case LocalOp::Move:
      return a;
    case LocalOp::Add:
      return signed_of(bits_of(a) + bits_of(b));
    case LocalOp::Sub:
      return signed_of(bits_of(a) - bits_of(b));
    case LocalOp::Mul:
      return signed_of(bits_of(a) * bits_of(b));
    case LocalOp::Div:
      // Division by zero is unspecified in PTX: 0. -1 would overflow.
      return b == 0 ? 0 : b == -1 ? signed_of(0 - bits_of(a)) : a / b;
    case LocalOp::And:
      return a & b;
    case LocalOp::Or:
      return a | b;
    case LocalOp::Xor:
      return a ^ b;
  }
  return 0;
}

bool compare(std::int64_t a, Compare c, std::int64_t b) {
  switch (c) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a != b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
  }
  return false;
}

machine::Placement placement(const Thread& thread) {
  return {static_cast<std::uint16_t>(thread.gpu),
          static_cast<std::uint16_t>(thread.cluster ? *thread.cluster + 1 : 0),
          static_cast<std::uint32_t>(thread.cta)};
}

namespace {

// The combinations of the machine work on the bits of the cell; signs need the width.
template <int Bits, bool Signed>
std::uint64_t combine_signed(std::uint64_t old, std::uint64_t operand, Combine op) {
  const Type type{Signed ? 's' : 'u', Bits};
  const std::int64_t a = extended(old, type), b = extended(operand, type);
  if (op == Combine::div) return bits_of(apply(LocalOp::Div, a, b));
  if constexpr (Signed) return bits_of(op == Combine::min ? std::min(a, b) : std::max(a, b));
  const std::uint64_t x = bits_of(a), y = bits_of(b);
  return op == Combine::min ? std::min(x, y) : std::max(x, y);
}

template <Combine Op, int Bits, bool Signed>
std::uint64_t combine_by_width(std::uint64_t old, std::uint64_t operand) {
  return combine_signed<Bits, Signed>(old, operand, Op);
}

template <Combine Op>
machine::CombineFunction by_width(Type type) {
  const bool s = type.kind != 'u';
  switch (type.bits) {
    case 8:
      return s ? combine_by_width<Op, 8, true> : combine_by_width<Op, 8, false>;
    case 16:
      return s ? combine_by_width<Op, 16, true> : combine_by_width<Op, 16, false>;
    case 32:
      return s ? combine_by_width<Op, 32, true> : combine_by_width<Op, 32, false>;
    default:
      return s ? combine_by_width<Op, 64, true> : combine_by_width<Op, 64, false>;
  }
}

}  // namespace

machine::CombineFunction combine(Combine op, Type type) {
  using U = std::uint64_t;
  switch (op) {
    case Combine::add:
      return [](U a, U b) { return a + b; };
    case Combine::sub:
      return [](U a, U b) { return a - b; };
    case Combine::mul:
      return [](U a, U b) { return a * b; };
    case Combine::and_:
      return [](U a, U b) { return a & b; };
    case Combine::or_:
      return [](U a, U b) { return a | b; };
    case Combine::xor_:
      return [](U a, U b) { return a ^ b; };
    case Combine::exchange:
    case Combine::cas:
      return [](U, U b) { return b; };
    case Combine::div:
      return by_width<Combine::div>(type);
    case Combine::min:
      return by_width<Combine::min>(type);
    case Combine::max:
      return by_width<Combine::max>(type);
    case Combine::none:
    case Combine::inc:  // no litmus form has these two
    case Combine::dec:
      break;
  }
  return nullptr;
}

}  // namespace ringfence::litmus
