#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

struct Op;

/// What an arithmetic op sees of its warp.
struct AluContext {
  std::byte* bank[2];                    ///< registers, constants (see Slot)
  std::uint32_t mask = 0;                ///< lanes to compute
  bool whole = false;                    ///< mask is all live lanes: the others may be overwritten
  const std::uint32_t* lanes = nullptr;  ///< mask as 32 words of 0 or ~0; set unless whole
};

/// Computes the op for the lanes of the context.
using Handler = void (*)(const AluContext&, const Op&);

enum class Alu : std::uint8_t {
  mov,
  pack2,
  unpack2,
  pack4,
  unpack4,
  add,
  sub,
  mul_lo,
  mul_hi,
  mul_wide,
  mad_lo,
  mad_hi,
  mad_wide,
  mul24_lo,
  mad24_lo,
  add_carry,
  sub_carry,  ///< immediate: bit 0 reads the carry (c), bit 1 writes it (e)
  div,
  rem,
  min,
  max,
  neg,
  abs,
  sad,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  cnot,
  shl,
  shr,
  shf_left_wrap,
  shf_left_clamp,
  shf_right_wrap,
  shf_right_clamp,
  bfe,
  bfi,
  brev,
  popc,
  clz,
  bfind,
  bfind_shift,
  bmsk_wrap,
  bmsk_clamp,
  szext_wrap,
  szext_clamp,
  fns,
  prmt,
  lop3,
  lop3_predicate,
  dp4a,
  dp2a_lo,
  dp2a_hi,
  vabsdiff4,
  vabsdiff4_add,
  selp,
  slct,
  setp,
  set,
  testp,
  copysign,
  fma,
  rcp,
  sqrt,
  rsqrt,
  ex2,
  lg2,
  sin,
  cos,
  tanh,
  cvt,
  cvt_pack,  ///< cvt_pack: two f32 into a packed pair, a to the high half
};

/// The operators of setp and set: unsigned (lo ...) and unordered (equ ...) ones too.
enum class SetpCompare : std::uint8_t {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  lo,
  ls,
  hi,
  hs,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};
enum class Boolean : std::uint8_t { none, and_, or_, xor_ };
enum class Rounding : std::uint8_t { nearest, zero, down, up, nearest_away };

/// Which handler an instruction needs. The flags that do not select code of their own also stand in
/// Op::immediate, see AluFlags.
struct AluKey {
  Alu op = Alu::mov;
  Type type = Type::b32;     ///< of the result
  Type source = Type::none;  ///< of the operands where it differs
  SetpCompare compare = SetpCompare::eq;
  Rounding rounding = Rounding::nearest;
  bool flush = false;          ///< .ftz
  bool saturate = false;       ///< .sat
  bool to_integral = false;    ///< cvt .rni .rzi .rmi .rpi
  bool propagate_nan = false;  ///< .NaN
  bool approximate = false;    ///< .approx or .full
  bool finite = false;         ///< .satfinite
  bool relu = false;
  bool three = false;     ///< min, max: of three operands
  bool xorsign = false;   ///< min, max: of magnitudes, with the product's sign
  bool low_part = false;  ///< cvt: the source is the low part of a register of 64 bits
};

/// The handler for a key, for the best instruction set of this processor; null when there is none.
Handler find_handler(const AluKey& key);

/// Instruction sets that handlers exist for, best first ("x86-64-v4", "x86-64-v3", "baseline").
/// `RINGFENCE_ISA` in the environment picks a lower one, for tests.
const char* handler_isa();

/// Bits of Op::immediate that every handler with predicates reads: operand a, b, c is negated.
constexpr std::uint64_t kNegateA = 1ULL << 60;
constexpr std::uint64_t kNegateB = 1ULL << 61;
constexpr std::uint64_t kNegateC = 1ULL << 62;

}  // namespace ringfence::ptx
