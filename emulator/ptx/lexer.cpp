#include "emulator/ptx/lexer.hpp"

#include <bit>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>

#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view file) : source_(source), file_(file) {}

  std::vector<Lexeme> run() {
    std::vector<Lexeme> out;
    for (;;) {
      skip_blank();
      if (at_ == source_.size()) break;
      out.push_back(next());
    }
    out.push_back({Token::end, source_.substr(source_.size()), 0, line_});
    return out;
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  [[noreturn]] void fail(std::string_view reason, std::size_t from) const {
    throw Error(file_, line_, reason, source_.substr(from, 40));
  }

  void skip_line() {
    while (at_ < source_.size() && source_[at_] != '\n') ++at_;
  }

  void skip_blank() {
    bool line_start = at_ == 0;
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
        line_start = true;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else if (c == '#' && line_start) {
        skip_line();
      } else if (c == '/' && peek(1) == '/') {
        skip_line();
      } else if (c == '/' && peek(1) == '*') {
        const std::size_t end = source_.find("*/", at_ + 2);
        if (end == std::string_view::npos) fail("comment without end", at_);
        for (; at_ < end + 2; ++at_) line_ += source_[at_] == '\n';
      } else {
        return;
      }
    }
  }

  Lexeme next() {
    const std::size_t from = at_;
    const char c = peek();
    if (starts_word(c)) return word(from);
    if (is_digit(c)) return number(from);
    if (c == '.' && (std::isalpha(static_cast<unsigned char>(peek(1))) != 0 || peek(1) == '_')) {
      ++at_;
      part();
      return make(Token::directive, from);
    }
    if (c == '"') return string(from);
    if (std::string_view(",;:{}[]()|!@+-=<>*/~&^?").find(c) == std::string_view::npos) {
      fail("unexpected character", from);
    }
    ++at_;
    return make(Token::punctuation, from);
  }

  Lexeme make(Token kind, std::size_t from, std::uint64_t bits = 0) const {
    return {kind, source_.substr(from, at_ - from), bits, line_};
  }

  // One dotted part, with its sub-parts: acc::f32, L2::128B.
  void part() {
    while (continues_word(peek())) ++at_;
    while (peek() == ':' && peek(1) == ':' && continues_word(peek(2))) {
      at_ += 2;
      while (continues_word(peek())) ++at_;
    }
  }

  Lexeme word(std::size_t from) {
    ++at_;
    while (continues_word(peek())) ++at_;
    while (peek() == '.' && continues_word(peek(1))) {
      ++at_;
      part();
    }
    return make(Token::word, from);
  }

  Lexeme string(std::size_t from) {
    ++at_;
    while (at_ < source_.size() && source_[at_] != '"') {
      if (source_[at_] == '\n') fail("string without end", from);
      at_ += source_[at_] == '\\' && at_ + 1 < source_.size() ? 2 : 1;
    }
    if (at_ >= source_.size()) fail("string without end", from);
    ++at_;
    Lexeme lexeme = make(Token::string, from);
    lexeme.text = lexeme.text.substr(1, lexeme.text.size() - 2);
    return lexeme;
  }

  std::uint64_t digits(std::string_view text, int base, std::size_t from) const {
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || status != std::errc() || end != text.data() + text.size()) {
      fail("malformed number", from);
    }
    return value;
  }

  Lexeme number(std::size_t from) {
    const char mark = peek(1);
    if (peek() == '0' && (mark == 'f' || mark == 'F' || mark == 'd' || mark == 'D')) {
      const bool wide = mark == 'd' || mark == 'D';
      at_ += 2;
      const std::size_t begin = at_;
      while (std::isxdigit(static_cast<unsigned char>(peek())) != 0) ++at_;
      if (at_ - begin != (wide ? 16U : 8U) || continues_word(peek())) {
        fail(wide ? "0d needs 16 hexadecimal digits" : "0f needs 8 hexadecimal digits", from);
      }
      const std::uint64_t bits = digits(source_.substr(begin, at_ - begin), 16, from);
      return make(wide ? Token::float64 : Token::float32, from, bits);
    }
    int base = 10;
    if (peek() == '0' && (mark == 'x' || mark == 'X'))
      base = 16, at_ += 2;
    else if (peek() == '0' && (mark == 'b' || mark == 'B'))
      base = 2, at_ += 2;
    const std::size_t begin = at_;
    while (std::isxdigit(static_cast<unsigned char>(peek())) != 0) ++at_;
    if (base == 10 && (peek() == '.' || peek() == '+' || peek() == '-')) {
      const char last = source_[at_ - 1];
      if (peek() == '.' || last == 'e' || last == 'E') return decimal(begin);
    }
    std::string_view text = source_.substr(begin, at_ - begin);
    if (base == 10 && text.find_first_of("eE") != std::string_view::npos) return decimal(begin);
    if (base == 10 && text.size() > 1 && text[0] == '0') base = 8;
    const std::uint64_t value = digits(text, base, from);
    if (peek() == 'U' || peek() == 'u') ++at_;
    if (continues_word(peek())) fail("malformed number", from);
    return make(Token::integer, from, value);
  }

  Lexeme decimal(std::size_t from) {
    at_ = from;
    while (is_digit(peek())) ++at_;
    if (peek() == '.') {
      ++at_;
      while (is_digit(peek())) ++at_;
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      while (is_digit(peek())) ++at_;
    }
    const std::string_view text = source_.substr(from, at_ - from);
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || continues_word(peek())) {
      fail("malformed number", from);
    }
    return make(Token::float64, from, std::bit_cast<std::uint64_t>(value));
  }

  std::string_view source_;
  std::string_view file_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace

std::vector<Lexeme> lex(std::string_view source, std::string_view file) {
  return Lexer(source, file).run();
}

}  // namespace ringfence::ptx
