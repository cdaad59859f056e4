// ldmatrix, stmatrix and mma.sync. The fragments' layouts are those of the manual's figures.

#include <bit>
#include <cstring>

#include "emulator/ptx/alu/scalar.hpp"
#include "emulator/ptx/eight_bits.hpp"
#include "emulator/ptx/exec/state.hpp"

namespace ringfence::ptx {
namespace {

void require_whole(const Warp& warp, std::uint32_t mask) {
  if (mask != 0xFFFFFFFFU) {
    throw Fault(FaultKind::undefined,
                "a warp-wide matrix instruction is executed by part of a warp",
                static_cast<std::uint32_t>(std::countr_zero(~mask)));
  }
  static_cast<void>(warp);
}

// One of those that a register holds.
double element(Type type, std::uint32_t bits, unsigned which) {
  if (type == Type::s8 || type == Type::u8) return from_byte(type, bits >> (8 * which));
  if (type == Type::tf32) return as_float(bits & 0xFFFFE000U);  // the low 13 bits are ignored
  const std::uint32_t part = which == 0 ? bits & 0xFFFFU : bits >> 16;
  return type == Type::bf16 ? from_bf16(part) : from_f16(part);
}

}  // namespace

void Execution::State::matrix_move(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask) {
  require_whole(warp, mask);
  const MatrixOp& form = program_.matrices[op.detail];
  std::array<std::uint64_t, kLanes> at;
  addresses(warp, op.a, form.offset, form.wide_address, mask, at);
  for (std::uint64_t& address : at) {
    if (address - kSharedWindow < kWindowBytes) address -= kSharedWindow;
  }
  const bool loads = form.form == MatrixOp::Form::load;
  for (unsigned m = 0; m < form.count; ++m) {
    std::uint32_t* lanes = words(warp, program_.extra[op.extra + m]);
    // Lane 8m + r gives the address of row r. Lane t holds elements 2(t%4) and 2(t%4)+1 of row
    // t/4, or of column t/4 when transposed.
    for (std::uint32_t row = 0; row < 8; ++row) {
      const std::uint32_t owner = 8 * m + row;
      plain(warp, Space::shared, at[owner], 16, owner);
      if (!form.transposed) {
        for (std::uint32_t pair = 0; pair < 4; ++pair) {
          const std::uint32_t lane = row * 4 + pair;
          shared_piece(warp, at[owner] + 4 * pair, 4, lane, pc,
                       reinterpret_cast<std::byte*>(&lanes[lane]), !loads);
        }
        continue;
      }
      for (std::uint32_t column = 0; column < 8; ++column) {
        const std::uint32_t lane = column * 4 + row / 2;
        auto* const half = reinterpret_cast<std::byte*>(&lanes[lane]) + 2 * (row % 2);
        shared_piece(warp, at[owner] + 2 * column, 2, lane, pc, half, !loads);
      }
    }
  }
}

// The sum of products is formed in double, where the products are exact, and rounded once to the
// result; of integers all is exact. Hardware accumulates with its own truncations, which are not
// documented: results agree where the sums are exact, and to the last places otherwise.
void Execution::State::matrix_multiply(Warp& warp, const Op& op, std::uint32_t mask) {
  require_whole(warp, mask);
  const MatrixOp& form = program_.matrices[op.detail];
  const bool bytes = form.result == Type::s32;
  const unsigned pack = bytes ? 4 : form.a != Type::tf32 ? 2 : 1;
  const unsigned k_total = form.k;
  const unsigned a_registers = 16 * k_total / 32 / pack;
  const unsigned b_registers = 8 * k_total / 32 / pack;
  const unsigned d_registers = form.result == Type::f16 ? 2 : 4;
  const auto slot = [&](unsigned i) { return words(warp, program_.extra[op.extra + i]); };
  const unsigned a_first = d_registers;
  const unsigned b_first = a_first + a_registers;
  const unsigned c_first = b_first + b_registers;
  double a[16][32] = {};
  double b[32][8] = {};
  double c[16][8] = {};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t group = lane / 4;
    const std::uint32_t within = lane % 4;
    for (unsigned r = 0; r < a_registers; ++r) {
      const std::uint32_t bits = slot(a_first + r)[lane];
      for (unsigned h = 0; h < pack; ++h) {
        const unsigned row = group + 8 * (r % 2);
        const unsigned column = within * pack + h + (r / 2) * 4 * pack;
        a[row][column] = element(form.a, bits, h);
      }
    }
    for (unsigned r = 0; r < b_registers; ++r) {
      const std::uint32_t bits = slot(b_first + r)[lane];
      for (unsigned h = 0; h < pack; ++h) {
        b[within * pack + h + r * 4 * pack][group] = element(form.b, bits, h);
      }
    }
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = group + 8 * (i / 2);
      const unsigned column = within * 2 + i % 2;
      if (bytes) {
        c[row][column] = static_cast<std::int32_t>(slot(c_first + i)[lane]);
      } else {
        c[row][column] = d_registers == 4 ? static_cast<double>(as_float(slot(c_first + i)[lane]))
                                          : element(Type::f16, slot(c_first + i / 2)[lane], i % 2);
      }
    }
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + 8 * (i / 2);
      const unsigned column = lane % 4 * 2 + i % 2;
      double sum = c[row][column];
      for (unsigned k = 0; k < k_total; ++k) sum += a[row][k] * b[k][column];
      if (bytes) {
        slot(i)[lane] = to_s32(static_cast<std::int64_t>(sum), form.saturate);
      } else if (d_registers == 4) {
        slot(i)[lane] = bits_of(canonical(static_cast<float>(sum)));
      } else {
        std::uint32_t& d = slot(i / 2)[lane];
        const std::uint32_t value = to_f16(round_to_odd(sum)) & 0xFFFFU;
        d = i % 2 == 0 ? (d & 0xFFFF0000U) | value : (d & 0xFFFFU) | value << 16;
      }
    }
  }
}

}  // namespace ringfence::ptx
