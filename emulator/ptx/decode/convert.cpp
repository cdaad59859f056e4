// Decoder of cvt.

#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {

void Decoder::cvt() {
  AluKey key;
  key.op = Alu::cvt;
  const std::string_view integral = mods_.take_one({"rni", "rzi", "rmi", "rpi"});
  key.rounding = rounding();
  key.to_integral = !integral.empty();
  if (integral == "rzi") key.rounding = Rounding::zero;
  if (integral == "rmi") key.rounding = Rounding::down;
  if (integral == "rpi") key.rounding = Rounding::up;
  key.flush = mods_.take("ftz");
  key.saturate = mods_.take("sat");
  key.finite = mods_.take("satfinite");
  key.relu = mods_.take("relu");
  key.type = type();
  key.source = type();
  if (key.type == Type::pred || key.source == Type::pred) fail("unsupported form");
  if (in_->operands.size() == 3) {
    if (key.source != Type::f32) fail("unsupported form");
    key.op = Alu::cvt_pack;
    op_.d = destination(0, key.type);
    op_.a = source(1, Type::f32);
    op_.b = source(2, Type::f32);
    return use(key);
  }
  operand_count(2, 2);
  const unsigned register_bytes = operand(0).kind == Operand::Kind::reg
                                      ? size_of(register_type(operand(0)))
                                      : size_of(key.type);
  if (!is_float(key.type) && !is_float(key.source) && register_bytes > size_of(key.type) &&
      !key.saturate && size_of(key.source) < 8 && (is_signed(key.type) || register_bytes == 8)) {
    // The result is extended to the register: one conversion from the bits that survive.
    op_.d = Slot::reg(operand(0).index);
    const bool cut = size_of(key.type) <= size_of(key.source);
    const unsigned kept = cut ? size_of(key.type) : size_of(key.source);
    const bool sign = is_signed(cut ? key.type : key.source);
    if (!cut && is_signed(key.source) != is_signed(key.type)) fail("unsupported form");
    key.source = sign ? (kept == 1   ? Type::s8
                         : kept == 2 ? Type::s16
                                     : Type::s32)
                      : (kept == 1   ? Type::u8
                         : kept == 2 ? Type::u16
                                     : Type::u32);
    key.type = register_bytes == 8 ? (sign ? Type::s64 : Type::u64)
                                   : (register_bytes == 4 ? (sign ? Type::s32 : Type::u32)
                                                          : (sign ? Type::s16 : Type::u16));
    key.low_part = operand(1).kind == Operand::Kind::reg && is_wide(operand(1));
    op_.a = key.low_part ? Slot::reg(operand(1).index) : source(1, key.source);
    return use(key);
  }
  if (is_signed(key.type) && register_bytes > 2 && register_bytes > size_of(key.type)) {
    fail("unsupported form");  // would need an extension of its own
  }
  op_.d = destination(0, key.type);
  const bool integer_source = !is_float(key.source);
  if (integer_source && operand(1).kind == Operand::Kind::reg && is_wide(operand(1)) &&
      size_of(key.source) < 8) {
    // A source register may be wider than the type (PTX ISA, cvt): its low part is meant.
    key.low_part = true;
    op_.a = Slot::reg(operand(1).index);
  } else {
    op_.a = source(1, key.source);
  }
  const bool from_float = is_float(key.source);
  if (from_float && !is_float(key.type) && !key.to_integral) {
    fail("a conversion to an integer needs .rni, .rzi, .rmi or .rpi");
  }
  op_.immediate = static_cast<std::uint64_t>(key.rounding) << kSlowRoundingShift |
                  (key.flush ? kSlowFlush : 0) | (key.saturate ? kSlowSaturate : 0) |
                  static_cast<std::uint64_t>(key.type) << 32 |
                  static_cast<std::uint64_t>(key.source) << 40 | (key.to_integral ? 1U : 0U);
  use(key);
}

}  // namespace ringfence::ptx
