// Decoders of logic, bit fields, moves, selections and comparisons.

#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {
namespace {

bool known_at_launch(Special special) {
  switch (special) {
    case Special::ntid_x:
    case Special::ntid_y:
    case Special::ntid_z:
    case Special::nctaid_x:
    case Special::nctaid_y:
    case Special::nctaid_z:
    case Special::nclusterid_x:
    case Special::nclusterid_y:
    case Special::nclusterid_z:
    case Special::cluster_nctaid_x:
    case Special::cluster_nctaid_y:
    case Special::cluster_nctaid_z:
    case Special::cluster_nctarank:
    case Special::is_explicit_cluster:
    case Special::nwarpid:
    case Special::nsmid:
    case Special::gridid:
    case Special::dynamic_smem_size:
    case Special::total_smem_size:
    case Special::envreg:
      return true;
    default:
      return false;
  }
}

struct CompareName {
  std::string_view name;
  SetpCompare compare;
};
constexpr CompareName kCompares[] = {
    {"eq", SetpCompare::eq},   {"ne", SetpCompare::ne},   {"lt", SetpCompare::lt},
    {"le", SetpCompare::le},   {"gt", SetpCompare::gt},   {"ge", SetpCompare::ge},
    {"lo", SetpCompare::lo},   {"ls", SetpCompare::ls},   {"hi", SetpCompare::hi},
    {"hs", SetpCompare::hs},   {"equ", SetpCompare::equ}, {"neu", SetpCompare::neu},
    {"ltu", SetpCompare::ltu}, {"leu", SetpCompare::leu}, {"gtu", SetpCompare::gtu},
    {"geu", SetpCompare::geu}, {"num", SetpCompare::num}, {"nan", SetpCompare::nan}};

bool take_compare(Modifiers& mods, SetpCompare& out) {
  for (const CompareName& candidate : kCompares) {
    if (mods.take(candidate.name)) {
      out = candidate.compare;
      return true;
    }
  }
  return false;
}

Boolean take_boolean(Modifiers& mods) {
  if (mods.take("and")) return Boolean::and_;
  if (mods.take("or")) return Boolean::or_;
  if (mods.take("xor")) return Boolean::xor_;
  return Boolean::none;
}

}  // namespace

void Decoder::logic() {
  operand_count(3, 3);
  AluKey key;
  const std::string_view name = in_->opcode;
  key.op = name == "and" ? Alu::bit_and : (name == "or" ? Alu::bit_or : Alu::bit_xor);
  key.type = type();
  if (key.type == Type::pred) {
    op_.immediate = static_cast<std::uint64_t>(
        name == "and" ? Boolean::and_ : (name == "or" ? Boolean::or_ : Boolean::xor_));
    op_.d = predicate_destination(operand(0));
    op_.a = predicate_source(operand(1), kNegateA);
    op_.b = predicate_source(operand(2), kNegateB);
  } else {
    op_.d = destination(0, key.type);
    op_.a = source(1, key.type);
    op_.b = source(2, key.type);
  }
  use(key);
}

void Decoder::bit_not() {
  operand_count(2, 2);
  AluKey key;
  key.op = in_->opcode == "not" ? Alu::bit_not : Alu::cnot;
  key.type = type();
  if (key.type == Type::pred) {
    if (key.op == Alu::cnot) fail("unsupported form");
    op_.d = predicate_destination(operand(0));
    op_.a = predicate_source(operand(1), kNegateA);
    op_.immediate ^= kNegateA;
  } else {
    op_.d = destination(0, key.type);
    op_.a = source(1, key.type);
  }
  use(key);
}

void Decoder::shift() {
  operand_count(3, 3);
  AluKey key;
  key.op = in_->opcode == "shl" ? Alu::shl : Alu::shr;
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, Type::u32);
  use(key);
}

void Decoder::funnel() {
  operand_count(4, 4);
  const bool left = mods_.take("l");
  if (!left && !mods_.take("r")) fail("shf needs .l or .r");
  const bool wrap = mods_.take("wrap");
  if (!wrap && !mods_.take("clamp")) fail("shf needs .wrap or .clamp");
  AluKey key;
  key.op = left ? (wrap ? Alu::shf_left_wrap : Alu::shf_left_clamp)
                : (wrap ? Alu::shf_right_wrap : Alu::shf_right_clamp);
  key.type = type();
  if (key.type != Type::b32) fail("unsupported form");
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  op_.c = source(3, Type::u32);
  use(key);
}

void Decoder::bit_field() {
  AluKey key;
  key.type = type();
  if (in_->opcode == "bfe") {
    operand_count(4, 4);
    key.op = Alu::bfe;
    op_.d = destination(0, key.type);
    op_.a = source(1, key.type);
    op_.b = source(2, Type::u32);
    op_.c = source(3, Type::u32);
  } else {
    operand_count(5, 5);
    key.op = Alu::bfi;
    if (key.type != Type::b32 && key.type != Type::b64) fail("unsupported form");
    op_.d = destination(0, key.type);
    op_.a = source(1, key.type);
    op_.b = source(2, key.type);
    op_.c = source(3, Type::u32);
    op_.f = source(4, Type::u32);
  }
  use(key);
}

void Decoder::bit_count() {
  operand_count(2, 2);
  AluKey key;
  const std::string_view name = in_->opcode;
  const bool shift_amount = mods_.take("shiftamt");
  key.type = type();
  const Type result = name == "brev" ? key.type : Type::u32;
  key.op = name == "brev"   ? Alu::brev
           : name == "popc" ? Alu::popc
           : name == "clz"  ? Alu::clz
           : shift_amount   ? Alu::bfind_shift
                            : Alu::bfind;
  if (size_of(key.type) < 4) fail("unsupported form");
  op_.d = destination(0, result);
  op_.a = source(1, key.type);
  use(key);
}

void Decoder::mask_or_extend() {
  operand_count(3, 3);
  const bool clamp = mods_.take("clamp");
  if (!clamp && !mods_.take("wrap")) fail("the instruction needs .clamp or .wrap");
  AluKey key;
  key.type = type();
  if (in_->opcode == "bmsk") {
    key.op = clamp ? Alu::bmsk_clamp : Alu::bmsk_wrap;
    if (key.type != Type::b32) fail("unsupported form");
  } else {
    key.op = clamp ? Alu::szext_clamp : Alu::szext_wrap;
    if (key.type != Type::u32 && key.type != Type::s32) fail("unsupported form");
  }
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, Type::u32);
  use(key);
}

void Decoder::fns() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::fns;
  key.type = type();
  if (key.type != Type::b32) fail("unsupported form");
  op_.d = destination(0, Type::b32);
  op_.a = source(1, Type::b32);
  op_.b = source(2, Type::b32);
  op_.c = source(3, Type::s32);
  use(key);
}

void Decoder::permute() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::prmt;
  constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (std::uint64_t mode = 1; mode < 7; ++mode) {
    if (mods_.take(kModes[mode])) op_.immediate = mode;
  }
  key.type = type();
  if (key.type != Type::b32) fail("unsupported form");
  op_.d = destination(0, Type::b32);
  op_.a = source(1, Type::b32);
  op_.b = source(2, Type::b32);
  op_.c = source(3, Type::b32);
  use(key);
}

void Decoder::lop3() {
  AluKey key;
  key.op = Alu::lop3;
  const Boolean boolean = take_boolean(mods_);
  key.type = type();
  if (key.type != Type::b32) fail("unsupported form");
  op_.a = source(1, Type::b32);
  op_.b = source(2, Type::b32);
  op_.c = source(3, Type::b32);
  const std::uint64_t table = immediate(4);
  if (table > 0xFF) fail("the truth table has more than 8 bits");
  op_.immediate = table;
  if (boolean == Boolean::none) {
    operand_count(5, 5);
    op_.d = destination(0, Type::b32);
  } else {
    operand_count(6, 6);
    key.op = Alu::lop3_predicate;
    if (operand(0).kind != Operand::Kind::pair) fail("d|p is needed");
    op_.d = destination(operand(0).elements[0], Type::b32);
    op_.e = predicate_destination(operand(0).elements[1]);
    op_.f = predicate_source(operand(5), kNegateA);
    op_.immediate |= static_cast<std::uint64_t>(boolean) << 8;
  }
  use(key);
}

void Decoder::dot_product() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::dp4a;
  if (in_->opcode == "dp2a") {
    const bool high = mods_.take("hi");
    if (!high && !mods_.take("lo")) fail("dp2a needs .lo or .hi");
    key.op = high ? Alu::dp2a_hi : Alu::dp2a_lo;
  }
  key.type = type();
  key.source = type();
  for (const Type t : {key.type, key.source}) {
    if (t != Type::u32 && t != Type::s32) fail("unsupported form");
  }
  op_.d = destination(0, Type::b32);
  op_.a = source(1, Type::b32);
  op_.b = source(2, Type::b32);
  op_.c = source(3, Type::b32);
  use(key);
}

// Of the video instructions what __vabsdiffu4 and __vsadu4 are.
void Decoder::distances() {
  operand_count(4, 4);
  AluKey key;
  for (int i = 0; i < 3; ++i) {
    if (type() != Type::u32) fail("unsupported form");
  }
  key.op = mods_.take("add") ? Alu::vabsdiff4_add : Alu::vabsdiff4;
  key.type = Type::u32;
  op_.d = destination(0, Type::b32);
  op_.a = source(1, Type::b32);
  op_.b = source(2, Type::b32);
  op_.c = source(3, Type::b32);
  use(key);
}

void Decoder::mov() {
  operand_count(2, 2);
  AluKey key;
  key.type = type();
  const Operand& to = operand(0);
  const Operand& from = operand(1);
  if (key.type == Type::pred) {
    op_.d = predicate_destination(to);
    op_.a = predicate_source(from, kNegateA);
    return use(key);
  }
  if (size_of(key.type) > 8) fail("unsupported form");
  const auto part = [&](std::size_t count) {
    const unsigned bytes = size_of(key.type) / static_cast<unsigned>(count);
    return bytes == 4 ? Type::b32 : bytes == 2 ? Type::b16 : Type::none;
  };
  if (from.kind == Operand::Kind::vector) {
    const std::size_t count = from.elements.size();
    if ((count != 2 && count != 4) || part(count) == Type::none) fail("unsupported form");
    key.op = count == 2 ? Alu::pack2 : Alu::pack4;
    op_.d = destination(to, key.type);
    op_.a = source(from.elements[0], part(count));
    op_.b = source(from.elements[1], part(count));
    if (count == 4) {
      op_.c = source(from.elements[2], part(count));
      op_.f = source(from.elements[3], part(count));
    }
    return use(key);
  }
  if (to.kind == Operand::Kind::vector) {
    const std::size_t count = to.elements.size();
    if ((count != 2 && count != 4) || part(count) == Type::none) fail("unsupported form");
    key.op = count == 2 ? Alu::unpack2 : Alu::unpack4;
    const auto place = [&](const Operand& element) {
      return element.kind == Operand::Kind::sink ? Slot{} : destination(element, part(count));
    };
    op_.d = place(to.elements[0]);
    op_.e = place(to.elements[1]);
    if (count == 4) {
      op_.writes_cf = true;
      op_.c = place(to.elements[2]);
      op_.f = place(to.elements[3]);
    }
    op_.a = source(from, key.type);
    return use(key);
  }
  if (from.kind == Operand::Kind::special) {
    const bool wide = ptx::is_wide(from.special);
    if (wide && size_of(key.type) != 8) fail("the special register has 64 bits");
    op_.d = destination(to, key.type);
    if (known_at_launch(from.special)) {
      Constant value;
      value.source = Constant::Source::special;
      value.special = from.special;
      value.wide = size_of(key.type) == 8;
      op_.a = constant(value);
      return use(key);
    }
    op_.kind = Kind::special;
    op_.immediate = static_cast<std::uint64_t>(from.special);
    op_.detail = size_of(key.type);
    return;
  }
  op_.d = destination(to, key.type);
  op_.a = source(from, key.type);
  use(key);
}

void Decoder::selp() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::selp;
  key.type = type();
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  op_.c = predicate_source(operand(3), kNegateC);
  use(key);
}

void Decoder::slct() {
  operand_count(4, 4);
  AluKey key;
  key.op = Alu::slct;
  key.flush = mods_.take("ftz");
  key.type = type();
  key.source = type();
  if (key.source != Type::s32 && key.source != Type::f32) fail("unsupported form");
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  op_.c = source(3, key.source);
  use(key);
}

void Decoder::setp() {
  AluKey key;
  key.op = Alu::setp;
  if (!take_compare(mods_, key.compare)) fail("the instruction has no comparison");
  const Boolean boolean = take_boolean(mods_);
  key.flush = mods_.take("ftz");
  key.source = type();
  const std::size_t count = boolean == Boolean::none ? 3 : 4;
  operand_count(count, count);
  if (operand(0).kind == Operand::Kind::pair) {
    op_.d = predicate_destination(operand(0).elements[0]);
    op_.e = predicate_destination(operand(0).elements[1]);
  } else {
    op_.d = predicate_destination(operand(0));
  }
  op_.a = source(1, key.source);
  op_.b = source(2, key.source);
  if (boolean != Boolean::none) op_.c = predicate_source(operand(3), kNegateC);
  op_.immediate |= static_cast<std::uint64_t>(boolean);
  use(key);
}

void Decoder::set() {
  AluKey key;
  key.op = Alu::set;
  if (!take_compare(mods_, key.compare)) fail("the instruction has no comparison");
  const Boolean boolean = take_boolean(mods_);
  key.flush = mods_.take("ftz");
  key.type = type();
  key.source = type();
  if (key.type != Type::u32 && key.type != Type::s32 && key.type != Type::f32) {
    fail("unsupported form");
  }
  const std::size_t count = boolean == Boolean::none ? 3 : 4;
  operand_count(count, count);
  op_.d = destination(0, key.type);
  op_.a = source(1, key.source);
  op_.b = source(2, key.source);
  if (boolean != Boolean::none) op_.c = predicate_source(operand(3), kNegateC);
  op_.immediate |= static_cast<std::uint64_t>(boolean) | (key.type == Type::f32 ? 0x100U : 0);
  use(key);
}

void Decoder::testp() {
  operand_count(2, 2);
  AluKey key;
  key.op = Alu::testp;
  constexpr std::string_view kProperties[] = {"finite",     "infinite", "number",
                                              "notanumber", "normal",   "subnormal"};
  bool found = false;
  for (std::uint64_t i = 0; i < 6; ++i) {
    if (!mods_.take(kProperties[i])) continue;
    op_.immediate = i;
    found = true;
  }
  if (!found) fail("testp has no property");
  key.type = type();
  if (key.type != Type::f32 && key.type != Type::f64) fail("unsupported form");
  op_.d = predicate_destination(operand(0));
  op_.a = source(1, key.type);
  use(key);
}

void Decoder::copysign() {
  operand_count(3, 3);
  AluKey key;
  key.op = Alu::copysign;
  key.type = type();
  if (key.type != Type::f32 && key.type != Type::f64) fail("unsupported form");
  op_.d = destination(0, key.type);
  op_.a = source(1, key.type);
  op_.b = source(2, key.type);
  use(key);
}

}  // namespace ringfence::ptx
