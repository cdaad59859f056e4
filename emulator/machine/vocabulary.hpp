#pragma once
// The words of the PTX memory model (PTX ISA, "Memory Consistency Model") that the machine, the PTX
// reader and the litmus reader share. tests/axiomatic has its own, so that a mistake here shows.

#include <cstdint>

namespace ringfence::machine {

// Scopes form a chain: a scope contains every narrower one. `sys` reaches all ranks. A weak access
// has none: whatever stands here means nothing for it.
enum class Scope : std::uint8_t { cta, cluster, gpu, sys };
inline constexpr int kScopes = 4;

// Semantics of an access or a fence. `weak` is not strong: it never synchronises and races with any
// conflicting access that causality does not order. volatile is relaxed at sys scope. `sc` is a
// fence's alone.
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel, sc };
inline constexpr int kAccessOrders = 5;  // the ones before sc

constexpr bool is_strong(Order o) { return o != Order::weak; }
constexpr bool acquires(Order o) { return o == Order::acquire || o == Order::acq_rel; }
constexpr bool releases(Order o) { return o == Order::release || o == Order::acq_rel; }

// What atom, red and multimem make of the old value and the operand. sub, mul and div are of the
// public litmus collections alone, inc and dec of PTX alone.
enum class Combine : std::uint8_t {
  none,
  add,
  min,
  max,
  and_,
  or_,
  xor_,
  exchange,
  cas,
  inc,
  dec,
  sub,
  mul,
  div,
};

// The condition of a wait, a branch or a litmus condition; who compares says what the sign is.
enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge };

// What holds where `c` does not.
constexpr Compare negated(Compare c) {
  switch (c) {
    case Compare::eq:
      return Compare::ne;
    case Compare::ne:
      return Compare::eq;
    case Compare::lt:
      return Compare::ge;
    case Compare::le:
      return Compare::gt;
    case Compare::gt:
      return Compare::le;
    case Compare::ge:
      return Compare::lt;
  }
  return c;
}

// The same with the two sides exchanged.
constexpr Compare mirrored(Compare c) {
  switch (c) {
    case Compare::lt:
      return Compare::gt;
    case Compare::le:
      return Compare::ge;
    case Compare::gt:
      return Compare::lt;
    case Compare::ge:
      return Compare::le;
    case Compare::eq:
    case Compare::ne:
      break;
  }
  return c;
}

}  // namespace ringfence::machine
