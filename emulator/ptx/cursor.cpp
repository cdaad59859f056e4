#include "emulator/ptx/cursor.hpp"

#include <algorithm>
#include <limits>

#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {
namespace {

constexpr unsigned kDeepestExpression = 64;

// Binary operators by precedence, loosest first; two-character ones come as two lexemes.
struct Operator {
  std::string_view text;
  unsigned level;
};
constexpr Operator kOperators[] = {{"|", 0}, {"^", 1}, {"&", 2}, {"<<", 3}, {">>", 3},
                                   {"+", 4}, {"-", 4}, {"*", 5}, {"/", 5}};
constexpr unsigned kLevels = 6;

std::uint64_t apply(std::string_view op, std::uint64_t a, std::uint64_t b) {
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "&") return a & b;
  if (op == "<<") return b < 64 ? a << b : 0;
  if (op == ">>") return b < 64 ? a >> b : 0;
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  return y == -1 ? 0 - a : static_cast<std::uint64_t>(x / y);
}

}  // namespace

Cursor::Cursor(const std::string& source, const std::string& file)
    : source_(source), file_(file), lexemes_(lex(source, file)) {}

bool Cursor::accept(std::string_view punctuation) {
  if (!is(punctuation)) return false;
  take();
  return true;
}

bool Cursor::accept_directive(std::string_view name) {
  if (!is_directive(name)) return false;
  take();
  return true;
}

void Cursor::expect(std::string_view punctuation) {
  if (accept(punctuation)) return;
  fail("'" + std::string(punctuation) + "' is missing before " +
       (at_end() ? "the end of the file" : "'" + one_line(peek().text) + "'"));
}

std::string_view Cursor::expect_word(std::string_view what) {
  if (peek().kind != Token::word) fail("no " + std::string(what));
  return take().text;
}

std::uint32_t Cursor::expect_count(std::string_view what) {
  if (!starts_integer()) fail("no number for " + std::string(what));
  const std::uint64_t value = integer_expression();
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    fail(std::string(what) + " is too large");
  }
  return static_cast<std::uint32_t>(value);
}

void Cursor::begin_statement() { start_ = std::min(at_, lexemes_.size() - 1); }

std::string_view Cursor::text() const {
  const char* base = source_.data();
  const auto from = static_cast<std::size_t>(lexemes_[start_].text.data() - base);
  const std::size_t last = at_ > start_ ? at_ - 1 : start_;
  const auto to =
      static_cast<std::size_t>(lexemes_[last].text.data() - base) + lexemes_[last].text.size();
  return std::string_view(source_).substr(from, to - from);
}

void Cursor::fail(std::string_view reason) const {
  throw Error(file_, lexemes_[start_].line, reason, text());
}

bool Cursor::starts_integer() const {
  return peek().kind == Token::integer || is("-") || is("+") || is("~") || is("(");
}

std::uint64_t Cursor::integer_expression(unsigned depth) { return binary(0, depth); }

std::uint64_t Cursor::binary(unsigned level, unsigned depth) {
  if (level == kLevels) return unary(depth);
  std::uint64_t value = binary(level + 1, depth);
  for (;;) {
    const Operator* found = nullptr;
    for (const Operator& op : kOperators) {
      if (op.level != level || !is(op.text.substr(0, 1))) continue;
      if (op.text.size() == 2 && peek(1).text != op.text.substr(1)) continue;
      found = &op;
      break;
    }
    if (found == nullptr) return value;
    for (std::size_t i = 0; i < found->text.size(); ++i) take();
    const std::uint64_t right = binary(level + 1, depth);
    if (found->text == "/" && right == 0) fail("division by zero");
    value = apply(found->text, value, right);
  }
}

std::uint64_t Cursor::unary(unsigned depth) {
  if (depth > kDeepestExpression) fail("expression is nested too deeply");
  if (accept("-")) return 0 - unary(depth + 1);
  if (accept("+")) return unary(depth + 1);
  if (accept("~")) return ~unary(depth + 1);
  if (accept("(")) {
    const std::uint64_t value = binary(0, depth + 1);
    expect(")");
    return value;
  }
  if (peek().kind != Token::integer) fail("no integer constant");
  return take().bits;
}

}  // namespace ringfence::ptx
