#include "emulator/litmus/lexer.hpp"

#include <array>
#include <limits>
#include <utility>

#include "emulator/litmus/parser.hpp"

namespace ringfence::litmus {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_word_start(c) || is_digit(c); }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::uint64_t append_digit(std::uint64_t value, int base, int digit, const std::string& file,
                           Position at) {
  constexpr auto max = std::numeric_limits<std::uint64_t>::max();
  const auto b = static_cast<std::uint64_t>(base);
  const auto d = static_cast<std::uint64_t>(digit);
  if (value > (max - d) / b) throw ParseError(file, at, "number too large; it must be below 2^64");
  return value * b + d;
}

Token scan_number(Cursor& cursor, const std::string& file) {
  Token token{TokenKind::Number, {}, 0, cursor.position()};
  const std::size_t start = cursor.offset();
  if (cursor.current() == '0' && (cursor.ahead() == 'x' || cursor.ahead() == 'X')) {
    cursor.advance(2);
    if (hex_digit(cursor.current()) < 0) {
      throw ParseError(file, token.at, "`0x` without digits; write a number such as 0x1f");
    }
    for (int d; (d = hex_digit(cursor.current())) >= 0; cursor.advance()) {
      token.value = append_digit(token.value, 16, d, file, token.at);
    }
  } else {
    for (; is_digit(cursor.current()); cursor.advance()) {
      token.value = append_digit(token.value, 10, cursor.current() - '0', file, token.at);
    }
  }
  token.text = cursor.since(start);
  return token;
}

constexpr std::array<std::string_view, 6> kPairs = {"==", "!=", "<=", ">=", "/\\", "\\/"};
constexpr std::string_view kSingles = "{}()[],;:.|@&+-~=<>";

std::string printable(char c) {
  if (c >= ' ' && c <= '~') return std::string("`") + c + "`";
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("byte 0x") + digits[byte >> 4] + digits[byte & 15];
}

}  // namespace

void Cursor::advance(std::size_t characters) {
  for (; characters > 0 && !done(); --characters) {
    if (text_[offset_++] == '\n') {
      ++here_.line;
      here_.column = 1;
    } else {
      ++here_.column;
    }
  }
}

void skip_blanks(Cursor& cursor, const std::string& file) {
  while (!cursor.done()) {
    const char c = cursor.current();
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      cursor.advance();
    } else if (cursor.starts_with("//")) {
      while (!cursor.done() && cursor.current() != '\n') cursor.advance();
    } else if (cursor.starts_with("(*")) {
      const Position at = cursor.position();
      cursor.advance(2);
      while (!cursor.starts_with("*)")) {
        if (cursor.done()) throw ParseError(file, at, "comment without end; close it with `*)`");
        cursor.advance();
      }
      cursor.advance(2);
    } else {
      return;
    }
  }
}

Lexer::Lexer(Cursor start, std::string file) : cursor_(start), file_(std::move(file)) {
  next_ = scan();
}

Token Lexer::take() { return std::exchange(next_, next_.kind == TokenKind::End ? next_ : scan()); }

Token Lexer::scan() {
  litmus::skip_blanks(cursor_, file_);
  if (cursor_.done()) return Token{TokenKind::End, {}, 0, cursor_.position()};
  if (is_digit(cursor_.current())) return scan_number(cursor_, file_);

  Token token{TokenKind::Word, {}, 0, cursor_.position()};
  const std::size_t start = cursor_.offset();
  if (is_word_start(cursor_.current())) {
    while (is_word(cursor_.current())) cursor_.advance();
    token.text = cursor_.since(start);
    return token;
  }
  token.kind = TokenKind::Symbol;
  for (std::string_view pair : kPairs) {
    if (cursor_.starts_with(pair)) {
      cursor_.advance(2);
      token.text = cursor_.since(start);
      return token;
    }
  }
  if (kSingles.find(cursor_.current()) == std::string_view::npos) {
    throw ParseError(file_, token.at, printable(cursor_.current()) + " has no meaning here");
  }
  cursor_.advance();
  token.text = cursor_.since(start);
  return token;
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the file";
  return "`" + std::string(token.text) + "`";
}

}  // namespace ringfence::litmus
