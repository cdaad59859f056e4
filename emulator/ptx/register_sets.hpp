#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// Calls f(slot, written) for every register slot of an op. Writes may come before
/// reads.
template <class ProgramT, class OpT, class F>
void each_register(ProgramT& program, OpT& op, F f) {
  const auto visit = [&](auto& slot, bool written) {
    if (slot && !slot.is_constant()) f(slot, written);
  };
  visit(op.guard, false);
  visit(op.a, false);
  visit(op.b, false);
  visit(op.c, op.writes_cf);
  visit(op.f, op.writes_cf);
  visit(op.d, true);
  visit(op.e, true);
  for (std::uint32_t i = 0; i < op.extra_written; ++i) visit(program.extra[op.extra + i], true);
  for (std::uint32_t i = 0; i < op.extra_read; ++i) {
    visit(program.extra[op.extra + op.extra_written + i], false);
  }
}

/// A set of registers, by number.
class Bits {
 public:
  explicit Bits(std::size_t size) : words_((size + 63) / 64, 0) {}
  void set(std::size_t i) { words_[i / 64] |= 1ULL << (i % 64); }
  void clear(std::size_t i) { words_[i / 64] &= ~(1ULL << (i % 64)); }
  bool test(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1U) != 0; }
  bool merge(const Bits& other) {
    std::uint64_t changed = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      changed |= other.words_[i] & ~words_[i];
      words_[i] |= other.words_[i];
    }
    return changed != 0;
  }
  template <class F>
  void each(F f) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        f(w * 64 + static_cast<std::size_t>(__builtin_ctzll(bits)));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace ringfence::ptx
