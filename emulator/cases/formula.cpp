#include "emulator/cases/formula.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace ringfence::cases {

class Formula::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Step> all() {
    sum();
    skip_blanks();
    if (at_ != text_.size()) fail();
    return std::move(steps_);
  }

 private:
  static constexpr unsigned kMostNested = 64;

  [[noreturn]] void fail() const {
    throw std::invalid_argument(
        "'" + std::string(text_) +
        "': expected a formula of numbers, rank, world, call, index, + - * / % and parentheses");
  }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char next() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void sum() {
    product();
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      product();
      steps_.push_back({c == '+' ? Kind::add : Kind::sub});
    }
  }
  void product() {
    factor();
    for (char c = next(); c == '*' || c == '/' || c == '%'; c = next()) {
      ++at_;
      factor();
      steps_.push_back({c == '*' ? Kind::mul : c == '/' ? Kind::div : Kind::rem});
    }
  }
  void factor() {
    if (++nested_ > kMostNested) fail();
    const char c = next();
    if (c == '-') {
      ++at_;
      factor();
      steps_.push_back({Kind::neg});
    } else if (c == '(') {
      ++at_;
      sum();
      if (next() != ')') fail();
      ++at_;
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      number();
    } else {
      name();
    }
    --nested_;
  }
  void number() {
    const bool hex = text_.substr(at_, 2) == "0x";
    if (hex) at_ += 2;
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), value, hex ? 16 : 10);
    if (error != std::errc() || end == begin) fail();
    at_ += static_cast<std::size_t>(end - begin);
    steps_.push_back({Kind::number, value});
  }
  void name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const Kind kind = word == "rank"    ? Kind::rank
                      : word == "world" ? Kind::world
                      : word == "call"  ? Kind::call
                      : word == "index" ? Kind::index
                                        : Kind::number;
    if (kind == Kind::number) fail();
    steps_.push_back({kind});
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned nested_ = 0;
  std::vector<Step> steps_;
};

Formula::Formula(std::int64_t number) : steps_{{Kind::number, number}} {}

Formula Formula::parse(std::string_view text) {
  Formula out;
  out.steps_ = Parser(text).all();
  return out;
}

bool Formula::uses(Kind kind) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& s) { return s.kind == kind; });
}

std::int64_t Formula::of(const FormulaContext& context) const {
  std::vector<std::int64_t> stack;
  for (const Step& s : steps_) {
    switch (s.kind) {
      case Kind::number:
        stack.push_back(s.number);
        continue;
      case Kind::rank:
        stack.push_back(context.rank);
        continue;
      case Kind::world:
        stack.push_back(context.world);
        continue;
      case Kind::call:
        stack.push_back(context.call);
        continue;
      case Kind::index:
        stack.push_back(context.index);
        continue;
      default:
        break;
    }
    const std::int64_t b = stack.back();
    bool beyond = false;
    if (s.kind == Kind::neg) {
      beyond = __builtin_sub_overflow(std::int64_t{0}, b, &stack.back());
    } else {
      stack.pop_back();
      std::int64_t& a = stack.back();
      const bool divides = s.kind == Kind::div || s.kind == Kind::rem;
      if (divides && b == 0) throw std::invalid_argument("it divides by zero");
      if (divides && b == -1) {
        if (s.kind == Kind::rem) {
          a = 0;
        } else {
          beyond = __builtin_sub_overflow(std::int64_t{0}, a, &a);
        }
      } else if (s.kind == Kind::div) {
        a /= b;
      } else if (s.kind == Kind::rem) {
        a %= b;
      } else if (s.kind == Kind::add) {
        beyond = __builtin_add_overflow(a, b, &a);
      } else if (s.kind == Kind::sub) {
        beyond = __builtin_sub_overflow(a, b, &a);
      } else {
        beyond = __builtin_mul_overflow(a, b, &a);
      }
    }
    if (beyond) throw std::invalid_argument("its value does not fit into 64 bits");
  }
  return stack.back();
}

}  // namespace ringfence::cases
