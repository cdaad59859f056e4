// Decoder of wgmma, and who else touches the registers of its products.

#include <algorithm>
#include <charconv>

#include "emulator/ptx/decode/decoder.hpp"

namespace ringfence::ptx {

namespace {

bool is_integer(Type t) { return t == Type::s8 || t == Type::u8; }
bool is_half(Type t) { return t == Type::bf16 || t == Type::f16; }

}  // namespace

// mma_async's shape and types.
GroupProduct Decoder::product_form() {
  GroupProduct product;
  // m64nNkK, N a multiple of 8 up to 256, of integers of 16 from 32 on; K is 32 bytes of elements.
  std::string_view shape;
  for (const std::string_view word : in_->modifiers) {
    if (word.starts_with("m64n")) shape = word;
  }
  std::uint32_t n = 0;
  std::string_view depth;
  if (!shape.empty()) {
    mods_.take(shape);
    const char* const end = shape.data() + shape.size();
    const auto read = std::from_chars(shape.data() + 4, end, n);
    depth = std::string_view(read.ptr, static_cast<std::size_t>(end - read.ptr));
  }
  product.saturate = mods_.take("satfinite");
  product.result = type();
  product.type = type();
  product.type_b = type();
  const auto is_byte_float = [](Type t) { return t == Type::e4m3 || t == Type::e5m2; };
  const bool integers = is_integer(product.type) && is_integer(product.type_b);
  const bool bytes = integers || (is_byte_float(product.type) && is_byte_float(product.type_b));
  const bool halves = is_half(product.type) && product.type_b == product.type;
  if (!(bytes || halves) || product.result != (integers ? Type::s32 : Type::f32) ||
      (product.saturate && !integers) || depth != (bytes ? "k32" : "k16")) {
    fail("unsupported form");
  }
  if (n < 8 || n > 256 || n % 8 != 0 || (integers && n > 24 && n % 16 != 0)) {
    fail("unsupported form");
  }
  product.n = static_cast<std::uint16_t>(n);
  return product;
}

void Decoder::wgmma() {
  const std::string_view form =
      mods_.take_one({"mma_async", "fence", "commit_group", "wait_group"});
  if (form.empty() || !mods_.take("sync") || !mods_.take("aligned")) fail("unsupported form");
  if (form == "fence" || form == "commit_group") {
    operand_count(0, 0);
    op_.kind = form == "fence" ? Kind::group_fence : Kind::group_commit;
    return;
  }
  if (form == "wait_group") {
    operand_count(1, 1);
    op_.kind = Kind::group_wait;
    op_.immediate = immediate(0);
    return;
  }
  GroupProduct product = product_form();
  const std::uint32_t n = product.n;
  const bool integers = is_integer(product.type);
  const bool halves = is_half(product.type);
  const Operand& a = operand(1);
  product.a_in_registers = a.kind == Operand::Kind::vector;
  // Behind scale-d: imm-scale-a and -b, not of integers; imm-trans-a and -b, of halves alone.
  const std::size_t count = 4U + (integers ? 0U : 2U) +
                            (!halves                  ? 0U
                             : product.a_in_registers ? 1U
                                                      : 2U);
  operand_count(count, count);
  const Operand& d = operand(0);
  if (d.kind != Operand::Kind::vector || d.elements.size() != n / 2 ||
      (product.a_in_registers && a.elements.size() != 4)) {
    fail("a fragment has another number of registers");
  }
  std::vector<Slot> written;
  std::vector<Slot> read;
  for (const Operand& element : d.elements) {
    written.push_back(destination(element, product.result));
  }
  if (product.a_in_registers) {
    for (const Operand& element : a.elements) read.push_back(source(element, Type::b32));
  } else {
    op_.a = source(a, Type::b64);
  }
  op_.b = source(2, Type::b64);
  op_.c = predicate_source(operand(3), kNegateC);
  // The accumulators are read as well: extra() knows of one list only.
  read.insert(read.end(), written.begin(), written.end());
  extra(written, read);
  const auto scale = [&](std::size_t index) {
    const std::uint64_t value = immediate(index);
    if (value != 1 && value != ~0ULL) fail("imm-scale is 1 or -1");
    return value != 1;
  };
  const auto transpose = [&](std::size_t index) {
    const std::uint64_t value = immediate(index);
    if (value > 1) fail("imm-trans is 0 or 1");
    return value == 1;
  };
  if (!integers) {
    product.negate_a = scale(4);
    product.negate_b = scale(5);
  }
  if (halves && !product.a_in_registers) product.transpose_a = transpose(6);
  if (halves) product.transpose_b = transpose(count - 1);
  op_.kind = Kind::group_multiply;
  op_.detail = static_cast<std::uint32_t>(program_.group_products.size());
  program_.group_products.push_back(product);
}

void Decoder::watch_products() {
  if (program_.group_products.empty()) return;
  constexpr std::uint16_t kNone = 0xFFFF;
  std::vector<std::uint16_t> number(register_types_.size(), kNone);
  const auto add = [&](Slot slot) {
    if (!slot || slot.is_constant() || number[slot.offset()] != kNone) return false;
    if (program_.watched_names.size() == kNone) fail("too many registers in wgmma.mma_async");
    number[slot.offset()] = static_cast<std::uint16_t>(program_.watched_names.size());
    program_.watched_names.push_back(slot.offset() < function_.registers.size()
                                         ? function_.registers[slot.offset()].text()
                                         : "_");
    return true;
  };
  for (const Op& op : program_.ops) {
    if (op.kind != Kind::group_multiply) continue;
    for (std::uint32_t i = 0; i < op.extra_written; ++i) add(program_.extra[op.extra + i]);
    if (!program_.group_products[op.detail].a_in_registers) continue;
    for (std::uint32_t i = 0; i < 4; ++i) add(program_.extra[op.extra + op.extra_written + i]);
  }
  const auto is_copy = [&](std::size_t i) {
    const Instruction& in = function_.instructions[i];
    return in.opcode == "mov" && program_.ops[i].kind == Kind::alu && in.operands.size() == 2 &&
           in.operands[0].kind == Operand::Kind::reg;
  };
  const auto watched = [&](Slot slot) {
    return slot && !slot.is_constant() && number[slot.offset()] != kNone;
  };
  // A copy of a watched register is one.
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      if (is_copy(i) && watched(program_.ops[i].a)) more = add(program_.ops[i].d) || more;
    }
  }
  program_.watches.emplace_back();
  program_.watch_of.assign(program_.ops.size(), 0);
  for (std::size_t i = 0; i < program_.ops.size(); ++i) {
    Op& op = program_.ops[i];
    Watch watch;
    const auto note = [&](Slot slot, std::vector<std::uint16_t>& list) {
      if (watched(slot)) list.push_back(number[slot.offset()]);
    };
    const auto extras = [&](std::uint32_t from, std::uint32_t to,
                            std::vector<std::uint16_t>& list) {
      for (std::uint32_t k = from; k < to; ++k) note(program_.extra[op.extra + k], list);
    };
    if (op.kind == Kind::group_multiply) {
      extras(0, op.extra_written, watch.written);
      if (program_.group_products[op.detail].a_in_registers) {
        extras(op.extra_written, op.extra_written + 4U, watch.operands);
      }
    } else {
      for (const Slot slot : {op.a, op.b}) note(slot, watch.read);
      for (const Slot slot : {op.c, op.f}) note(slot, op.writes_cf ? watch.written : watch.read);
      for (const Slot slot : {op.d, op.e}) note(slot, watch.written);
      extras(0, op.extra_written, watch.written);
      extras(op.extra_written, std::uint32_t{op.extra_written} + op.extra_read, watch.read);
      watch.copies = is_copy(i) && !watch.written.empty();
    }
    if (watch.read.empty() && watch.written.empty() && watch.operands.empty()) continue;
    program_.watch_of[i] = static_cast<std::uint32_t>(program_.watches.size());
    program_.watches.push_back(std::move(watch));
    if (op.kind == Kind::alu) op.kind = Kind::alu_watched;
  }
}

}  // namespace ringfence::ptx
