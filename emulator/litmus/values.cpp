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

bool compare(std::int64_t a, Comparison c, std::int64_t b) {
  switch (c) {
    case Comparison::Eq:
      return a == b;
    case Comparison::Ne:
      return a != b;
    case Comparison::Lt:
      return a < b;
    case Comparison::Le:
      return a <= b;
    case Comparison::Gt:
      return a > b;
    case Comparison::Ge:
      return a >= b;
  }
  return false;
}

namespace {

// The combinations of the machine work on the bits of the cell; signs need the width.
template <int Bits, bool Signed>
std::uint64_t combine_signed(std::uint64_t old, std::uint64_t operand, AtomicOp op) {
  const Type type{Signed ? 's' : 'u', Bits};
  const std::int64_t a = extended(old, type), b = extended(operand, type);
  if (op == AtomicOp::Div) return bits_of(apply(LocalOp::Div, a, b));
  if constexpr (Signed) return bits_of(op == AtomicOp::Min ? std::min(a, b) : std::max(a, b));
  const std::uint64_t x = bits_of(a), y = bits_of(b);
  return op == AtomicOp::Min ? std::min(x, y) : std::max(x, y);
}

template <AtomicOp Op, int Bits, bool Signed>
std::uint64_t combine_by_width(std::uint64_t old, std::uint64_t operand) {
  return combine_signed<Bits, Signed>(old, operand, Op);
}

template <AtomicOp Op>
machine::Combine by_width(Type type) {
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

machine::Combine combine(AtomicOp op, Type type) {
  using U = std::uint64_t;
  switch (op) {
    case AtomicOp::Add:
      return [](U a, U b) { return a + b; };
    case AtomicOp::Sub:
      return [](U a, U b) { return a - b; };
    case AtomicOp::Mul:
      return [](U a, U b) { return a * b; };
    case AtomicOp::And:
      return [](U a, U b) { return a & b; };
    case AtomicOp::Or:
      return [](U a, U b) { return a | b; };
    case AtomicOp::Xor:
      return [](U a, U b) { return a ^ b; };
    case AtomicOp::Exch:
    case AtomicOp::Cas:
      return [](U, U b) { return b; };
    case AtomicOp::Div:
      return by_width<AtomicOp::Div>(type);
    case AtomicOp::Min:
      return by_width<AtomicOp::Min>(type);
    case AtomicOp::Max:
      return by_width<AtomicOp::Max>(type);
  }
  return nullptr;
}

machine::Order order_of(Order order) {
  switch (order) {
    case Order::Weak:
      return machine::Order::weak;
    case Order::Relaxed:
      return machine::Order::relaxed;
    case Order::Acquire:
      return machine::Order::acquire;
    case Order::Release:
      return machine::Order::release;
    case Order::AcqRel:
    case Order::Sc:
      return machine::Order::acq_rel;
  }
  return machine::Order::weak;
}

machine::Scope scope_of(Scope scope) {
  switch (scope) {
    case Scope::Cta:
      return machine::Scope::cta;
    case Scope::Cluster:
      return machine::Scope::cluster;
    case Scope::Gpu:
      return machine::Scope::gpu;
    case Scope::None:
    case Scope::Sys:
      return machine::Scope::sys;
  }
  return machine::Scope::sys;
}

machine::Compare machine_compare(Comparison c) {
  switch (c) {
    case Comparison::Eq:
      return machine::Compare::eq;
    case Comparison::Ne:
      return machine::Compare::ne;
    case Comparison::Lt:
      return machine::Compare::lt;
    case Comparison::Le:
      return machine::Compare::le;
    case Comparison::Gt:
      return machine::Compare::gt;
    case Comparison::Ge:
      return machine::Compare::ge;
  }
  return machine::Compare::eq;
}

Comparison negated(Comparison c) {
  switch (c) {
    case Comparison::Eq:
      return Comparison::Ne;
    case Comparison::Ne:
      return Comparison::Eq;
    case Comparison::Lt:
      return Comparison::Ge;
    case Comparison::Le:
      return Comparison::Gt;
    case Comparison::Gt:
      return Comparison::Le;
    case Comparison::Ge:
      return Comparison::Lt;
  }
  return c;
}

}  // namespace ringfence::litmus
