#include "emulator/ptx/operands.hpp"

#include <bit>

namespace ringfence::ptx {
namespace {

constexpr unsigned kDeepestOperand = 8;
constexpr std::size_t kMostInBraces = 256;

Operand integer(std::uint64_t value) {
  Operand out;
  out.kind = Operand::Kind::integer;
  out.value = value;
  return out;
}

}  // namespace

bool OperandReader::variable(std::string_view name, Operand& out) const {
  out.kind = Operand::Kind::variable;
  out.name = name;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto index = scope->find_variable(name)) {
      out.owner = Operand::Owner::function;
      out.index = *index;
      return true;
    }
  }
  for (std::size_t i = 0; i < function_.parameters.size(); ++i) {
    if (function_.parameters[i].name == name) {
      out.owner = Operand::Owner::parameter;
      out.index = static_cast<std::uint32_t>(i);
      return true;
    }
  }
  for (std::size_t i = 0; i < function_.results.size(); ++i) {
    if (function_.results[i].name == name) {
      out.owner = Operand::Owner::result;
      out.index = static_cast<std::uint32_t>(i);
      return true;
    }
  }
  for (std::size_t i = 0; i < module_.variables.size(); ++i) {
    if (module_.variables[i].name == name) {
      out.owner = Operand::Owner::module;
      out.index = static_cast<std::uint32_t>(i);
      return true;
    }
  }
  return false;
}

std::optional<std::uint32_t> OperandReader::function_named(std::string_view name) const {
  for (std::size_t i = 0; i < module_.functions.size(); ++i) {
    if (module_.functions[i].name == name) return static_cast<std::uint32_t>(i);
  }
  // The one at hand joins them when it has been read.
  if (name == function_.name) return static_cast<std::uint32_t>(module_.functions.size());
  return std::nullopt;
}

std::uint32_t OperandReader::function(std::string_view name) const {
  const auto index = function_named(name);
  if (!index) cursor_.fail("unknown function '" + std::string(name) + "'");
  return *index;
}

std::uint32_t OperandReader::predicate(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto index = scope->find_register(name)) return *index;
  }
  cursor_.fail("unknown register '" + std::string(name) + "'");
}

Operand OperandReader::word(std::string_view name) {
  Operand out;
  out.name = name;
  if (name == "_") return out;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto index = scope->find_register(name)) {
      out.kind = Operand::Kind::reg;
      out.index = *index;
      return out;
    }
    if (scope->find_variable(name)) break;
  }
  if (const auto special = special_of(name)) {
    out.kind = Operand::Kind::special;
    out.special = *special;
    return out;
  }
  if (name == "WARP_SZ") return integer(32);
  if (variable(name, out)) {
    if (cursor_.is("+") || cursor_.is("-")) {
      out.offset = static_cast<std::int64_t>(cursor_.integer_expression());
    }
    return out;
  }
  if (const auto index = function_named(name)) {
    out.kind = Operand::Kind::function;
    out.index = *index;
    return out;
  }
  if (!labels_allowed_) cursor_.fail("unknown name '" + std::string(name) + "'");
  out.kind = Operand::Kind::label;
  return out;
}

Operand OperandReader::address(unsigned depth) {
  Operand out;
  out.kind = Operand::Kind::address;
  if (cursor_.peek().kind == Token::word) {
    const std::string_view name = cursor_.take().text;
    const bool allowed = labels_allowed_;
    labels_allowed_ = false;
    Operand base = word(name);
    labels_allowed_ = allowed;
    if (base.kind != Operand::Kind::reg && base.kind != Operand::Kind::variable) {
      cursor_.fail("'" + std::string(name) + "' cannot be the base of an address");
    }
    out.offset = base.offset;
    base.offset = 0;
    out.elements.push_back(std::move(base));
    if (cursor_.is("+") || cursor_.is("-")) {
      out.offset = static_cast<std::int64_t>(cursor_.integer_expression());
    }
  } else {
    out.offset = static_cast<std::int64_t>(cursor_.integer_expression());
  }
  // Coordinates of textures and tensors; no supported instruction has them.
  while (cursor_.accept(",")) {
    if (out.elements.size() == kMostInBraces) cursor_.fail("too many elements");
    out.elements.push_back(operand(depth + 1));
  }
  cursor_.expect("]");
  return out;
}

Operand OperandReader::sequence(Operand::Kind kind, std::string_view close, unsigned depth) {
  Operand out;
  out.kind = kind;
  if (cursor_.accept(close)) return out;
  do {
    if (out.elements.size() == kMostInBraces) cursor_.fail("too many elements");
    out.elements.push_back(operand(depth + 1));
  } while (cursor_.accept(","));
  cursor_.expect(close);
  return out;
}

Operand OperandReader::operand(unsigned depth) {
  if (depth > kDeepestOperand) cursor_.fail("operand is nested too deeply");
  if (cursor_.accept("!")) {
    Operand out = operand(depth + 1);
    out.negated = !out.negated;
    return out;
  }
  if (cursor_.accept("[")) return address(depth);
  if (cursor_.accept("{")) return sequence(Operand::Kind::vector, "}", depth);
  const bool negative = cursor_.is("-") && (cursor_.peek(1).kind == Token::float32 ||
                                            cursor_.peek(1).kind == Token::float64);
  if (negative) cursor_.take();
  const Lexeme lexeme = cursor_.peek();
  if (lexeme.kind == Token::float32 || lexeme.kind == Token::float64) {
    cursor_.take();
    Operand out;
    const bool wide = lexeme.kind == Token::float64;
    out.kind = wide ? Operand::Kind::float64 : Operand::Kind::float32;
    out.value = lexeme.bits ^ (negative ? 1ULL << (wide ? 63 : 31) : 0);
    return out;
  }
  if (lexeme.kind == Token::word) {
    cursor_.take();
    Operand first = word(lexeme.text);
    if (!cursor_.accept("|")) return first;
    Operand out;
    out.kind = Operand::Kind::pair;
    if (cursor_.peek().kind != Token::word) cursor_.fail("no register behind '|'");
    const std::string_view second = cursor_.take().text;
    out.elements.push_back(std::move(first));
    out.elements.push_back(word(second));
    return out;
  }
  if (cursor_.is("(") && depth == 0) {
    // Argument list of a call, or a parenthesised constant.
    const Token inside = cursor_.peek(1).kind;
    if (inside == Token::word || cursor_.peek(1).text == ")") {
      cursor_.take();
      return sequence(Operand::Kind::list, ")", depth);
    }
  }
  if (cursor_.starts_integer()) return integer(cursor_.integer_expression());
  cursor_.fail("no operand before '" + std::string(lexeme.text) + "'");
}

}  // namespace ringfence::ptx
