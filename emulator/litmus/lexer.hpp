// Tokens of a litmus file, from the state section on. Comments `(* *)` and `//` are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

enum class TokenKind {
  Word,    // letters, digits, _; starts with a letter or _
  Number,  // decimal or 0x…, below 2^64; the sign is a token of its own
  Symbol,  // { } ( ) [ ] , ; : . | @ & + - ~ = == != < <= > >= /\ \/
  End
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  std::uint64_t value = 0;  // of a Number
  Position at;
};

// A place in a text that knows its line and column.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool done() const { return offset_ >= text_.size(); }
  char current() const { return done() ? '\0' : text_[offset_]; }
  char ahead() const { return offset_ + 1 < text_.size() ? text_[offset_ + 1] : '\0'; }
  bool starts_with(std::string_view s) const { return text_.substr(offset_).starts_with(s); }
  std::size_t offset() const { return offset_; }
  Position position() const { return here_; }
  std::string_view since(std::size_t start) const { return text_.substr(start, offset_ - start); }
  void advance(std::size_t characters = 1);

 private:
  std::string_view text_;
  std::size_t offset_ = 0;
  Position here_{1, 1};
};

// One token of lookahead. The text must outlive the lexer and its tokens; file names it in errors.
class Lexer {
 public:
  Lexer(Cursor start, std::string file);

  const Token& peek() const { return next_; }
  Token take();
  const std::string& file() const { return file_; }

 private:
  Token scan();

  Cursor cursor_;
  std::string file_;
  Token next_;
};

// Skips spaces and comments. Throws ParseError for a comment without end.
void skip_blanks(Cursor& cursor, const std::string& file);

// How a token is named in a message: `ld`, or: the end of the file.
std::string describe(const Token& token);

}  // namespace ringfence::litmus
