#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/lexer.hpp"

namespace ringfence::ptx {

/// A place in the lexemes of one file, with the checks that every part of the parser needs.
class Cursor {
 public:
  Cursor(const std::string& source, const std::string& file);

  const Lexeme& peek(std::size_t ahead = 0) const {
    return lexemes_[at_ + ahead < lexemes_.size() ? at_ + ahead : lexemes_.size() - 1];
  }
  const Lexeme& take() {
    const Lexeme& lexeme = peek();
    if (lexeme.kind != Token::end) ++at_;
    return lexeme;
  }
  bool at_end() const { return peek().kind == Token::end; }
  bool is(std::string_view punctuation) const {
    return peek().kind == Token::punctuation && peek().text == punctuation;
  }
  bool is_directive(std::string_view name) const {
    return peek().kind == Token::directive && peek().text == name;
  }
  bool accept(std::string_view punctuation);
  bool accept_directive(std::string_view name);
  void expect(std::string_view punctuation);
  std::string_view expect_word(std::string_view what);
  std::uint32_t expect_count(std::string_view what);

  /// Marks where a statement starts, for text() and fail().
  void begin_statement();
  /// The statement's text so far.
  std::string_view text() const;
  std::uint32_t statement_line() const { return lexemes_[start_].line; }
  [[noreturn]] void fail(std::string_view reason) const;

  /// Integer constant expression: + - * / << >> & | ^ ~ and parentheses, 64-bit two's complement.
  std::uint64_t integer_expression(unsigned depth = 0);
  /// True where an integer expression can start.
  bool starts_integer() const;

 private:
  std::uint64_t binary(unsigned level, unsigned depth);
  std::uint64_t unary(unsigned depth);

  const std::string& source_;
  const std::string& file_;
  std::vector<Lexeme> lexemes_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;
};

}  // namespace ringfence::ptx
