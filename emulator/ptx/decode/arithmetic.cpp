// Decoders of arithmetic: add sub mul mad fma div rem min max neg abs and the functions.

#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {

void Decoder::slow_binary(SlowOperation operation, AluKey key) {
  if (key.type == Type::f32 || key.type == Type::f64) {
    op_.immediate = slow_flags(operation, key);
  }
  use(key);
}

void Decoder::add_sub() {
  operand_count(3, 3);
  const bool subtract = in_->opcode.starts_with("sub");
  AluKey key;
  key.op = subtract ? Alu::sub : Alu::add;
  key.rounding = rounding();
  key.flush = mods_.take("ftz");
  key.saturate = mods_.take("sat");
  mods_.take("noftz");
  const bool writes_carry = mods_.take("cc");
  const bool reads_carry = in_->opcode.ends_with("c");
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  if (writes_carry || reads_carry) {
    if (is_float(key.type) || size_of(key.type) < 4) fail("carry needs a 32- or 64-bit integer");
    key.op = subtract ? Alu::sub_carry : Alu::add_carry;
    op_.immediate = (reads_carry ? 1U : 0U) | (writes_carry ? 2U : 0U);
    if (reads_carry) op_.c = Slot::reg(carry_register_);
    if (writes_carry) op_.e = Slot::reg(carry_register_);
    return use(key);
  }
  slow_binary(subtract ? SlowOperation::sub : SlowOperation::add, key);
}

void Decoder::mul() {
  operand_count(3, 3);
  AluKey key;
  key.op = Alu::mul_lo;
  key.rounding = rounding();
  key.flush = mods_.take("ftz");
  key.saturate = mods_.take("sat");
  mods_.take("noftz");
  const std::string_view part = mods_.take_one({"lo", "hi", "wide"});
  key.type = type();
  if (part.empty() != is_float(key.type)) fail("mul of integers needs .lo, .hi or .wide");
  Type result = key.type;
  if (in_->opcode == "mul24") {
    if (part != "lo") fail("unsupported form");
    key.op = Alu::mul24_lo;
  } else if (part == "hi") {
    key.op = Alu::mul_hi;
  } else if (part == "wide") {
    key.op = Alu::mul_wide;
    result = size_of(key.type) == 4 ? Type::b64 : Type::b32;
  }
  op_.d = destination(0, result);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  slow_binary(SlowOperation::mul, key);
}

void Decoder::mad() {
  operand_count(4, 4);
  AluKey key;
  key.rounding = rounding();
  key.flush = mods_.take("ftz");
  key.saturate = mods_.take("sat");
  const std::string_view part = mods_.take_one({"lo", "hi", "wide"});
  key.type = type();
  Type addend = key.type;
  if (is_float(key.type)) {
    key.op = Alu::fma;  // mad.f32 with .rn is a fused multiply-add on every current target
  } else if (in_->opcode == "mad24") {
    if (part != "lo" || key.saturate) fail("unsupported form");
    key.op = Alu::mad24_lo;
  } else if (part == "wide") {
    key.op = Alu::mad_wide;
    addend = size_of(key.type) == 4 ? Type::b64 : Type::b32;
  } else if (part.empty() || key.saturate) {
    fail("unsupported form");
  } else {
    key.op = part == "hi" ? Alu::mad_hi : Alu::mad_lo;
  }
  op_.d = destination(0, addend);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  op_.c = source(3, addend);
  slow_binary(SlowOperation::fma, key);
}

void Decoder::fma() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::fma;
  key.rounding = rounding();
  key.flush = mods_.take("ftz");
  key.saturate = mods_.take("sat");
  mods_.take("noftz");
  const bool relu = mods_.take("relu");
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  op_.c = source(3, key.type);
  if (relu) {
    if (size_of(key.type) > 4 || key.type == Type::f32) fail("unsupported form");
    op_.immediate = 1;
    return use(key);
  }
  slow_binary(SlowOperation::fma, key);
}

void Decoder::div() {
  operand_count(3, 3);
  AluKey key;
  key.op = Alu::div;
  key.approximate = !mods_.take_one({"approx", "full"}).empty();
  key.rounding = rounding();
  key.flush = mods_.take("ftz");
  key.type = type();
  if (key.approximate && key.type != Type::f32) fail("unsupported form");
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  slow_binary(key.approximate ? SlowOperation::div_approx : SlowOperation::div, key);
}

void Decoder::rem() {
  operand_count(3, 3);
  AluKey key;
  key.op = Alu::rem;
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  use(key);
}

void Decoder::min_max() {
  AluKey key;
  key.three = in_->operands.size() == 4;
  operand_count(3, 4);
  key.op = in_->opcode == "min" ? Alu::min : Alu::max;
  key.flush = mods_.take("ftz");
  key.propagate_nan = mods_.take("NaN");
  key.xorsign = mods_.take("xorsign");
  if (key.xorsign && (!mods_.take("abs") || key.three)) fail("unsupported form");
  key.type = type();
  if ((key.three || key.xorsign) && key.type != Type::f32) fail("unsupported form");
  if (key.propagate_nan && key.type == Type::f64) fail("unsupported form");
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  if (key.three) op_.c = source(3, key.type);
  use(key);
}

void Decoder::neg_abs() {
  operand_count(2, 2);
  AluKey key;
  key.op = in_->opcode == "neg" ? Alu::neg : Alu::abs;
  key.flush = mods_.take("ftz");
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  use(key);
}

void Decoder::sad() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::sad;
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  op_.c = source(3, key.type);
  use(key);
}

void Decoder::unary_function() {
  operand_count(2, 2);
  AluKey key;
  SlowOperation slow = SlowOperation::rcp;
  key.approximate = mods_.take("approx");
  if (in_->opcode == "rcp") {
    key.op = Alu::rcp;
    slow = key.approximate ? SlowOperation::rcp_approx : SlowOperation::rcp;
  } else if (in_->opcode == "sqrt") {
    key.op = Alu::sqrt;
    slow = key.approximate ? SlowOperation::sqrt_approx : SlowOperation::sqrt;
  } else if (in_->opcode == "rsqrt") {
    key.op = Alu::rsqrt;
    slow = SlowOperation::rsqrt_approx;
  } else if (in_->opcode == "ex2") {
    key.op = Alu::ex2;
    slow = SlowOperation::ex2_approx;
  } else if (in_->opcode == "lg2") {
    key.op = Alu::lg2;
    slow = SlowOperation::lg2_approx;
  } else if (in_->opcode == "sin") {
    key.op = Alu::sin;
    slow = SlowOperation::sin_approx;
  } else if (in_->opcode == "cos") {
    key.op = Alu::cos;
    slow = SlowOperation::cos_approx;
  } else {
    key.op = Alu::tanh;
    slow = SlowOperation::tanh_approx;
  }
  key.rounding = rounding();
  key.flush = mods_.take("ftz");
  key.type = type();
  const bool half = key.type == Type::f16 || key.type == Type::f16x2 || key.type == Type::bf16 ||
                    key.type == Type::bf16x2;
  if (half) {
    if (!key.approximate || (key.op != Alu::ex2 && key.op != Alu::tanh)) fail("unsupported form");
    // bf16 comes with .ftz alone, and tanh without (PTX ISA, ex2 and tanh).
    const bool brain = key.type == Type::bf16 || key.type == Type::bf16x2;
    if (key.op == Alu::ex2 ? key.flush != brain : key.flush) fail("unsupported form");
    op_.d = destination(0, key.type);
    op_.a = source(1, key.type);
    return use(key);
  }
  if (key.type != Type::f32 && (key.type != Type::f64 || key.approximate)) fail("unsupported form");
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  slow_binary(slow, key);
}

}  // namespace ringfence::ptx
