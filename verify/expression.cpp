// Reading expressions: a recursive descent over + -, * /, a sign, calls and parentheses.
#include "verify/expression.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>

#include "verify/error.hpp"
#include "verify/expression_node.hpp"

namespace ringfence::verify {
namespace {

using Node = ExpressionNode;

constexpr FunctionRule kFunctions[] = {
    {"sum", 1, 1, "accumulate", true},
    {"product", 1, 1, "accumulate", true},
    {"max", 1, 1, "", true},
    {"min", 1, 1, "", true},
    {"concat", 1, 1, "", true},
    {"scatter", 1, 1, "root", true},
    {"broadcast", 1, 1, "root", true},
    {"all_to_all", 1, 1, "", true},
    {"peer", 1, 1, "distance*", true},
    {"part", 1, 1, "", false},
    {"slice", 1, 1, "first* count*", false},
    {"rows", 1, 1, "columns*", false},
    {"matmul", 2, 2, "inner* tiles", false},
    {"cast", 1, 1, "to*", false},
    {"maximum", 2, 2, "", false},
    {"minimum", 2, 2, "", false},
    {"abs", 1, 1, "", false},
    {"exp", 1, 1, "", false},
    {"sqrt", 1, 1, "", false},
    {"rsqrt", 1, 1, "", false},
    {"silu", 1, 1, "", false},
    {"row_sum", 1, 1, "", false},
    {"rms", 1, 1, "eps*", false},
    {"rmsnorm", 2, 2, "eps*", false},
    {"layernorm", 1, 3, "eps*", false},
    {"softmax", 1, 1, "", false},
    {"amax", 1, 1, "per", false},
    {"scale_of", 1, 1, "to* per least", false},
    {"quantise", 2, 2, "to*", false},
};

// Deep enough for anything written by hand, and far from the end of a stack.
constexpr unsigned kDeepest = 64;

class Parser {
 public:
  Parser(const std::string& text, std::vector<std::string>& names) : text_(text), names_(names) {}

  Node whole() {
    Node node = sum(0);
    space();
    if (at_ < text_.size()) fail("an operator or the end");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    const std::string found =
        at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : std::string("the end");
    throw InputError(
        fmt::format("'{}', character {}: expected {}, not {}", text_, at_ + 1, wanted, found));
  }
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(fmt::format("'{}'", c));
  }
  static bool begins_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  bool at_name() {
    space();
    return at_ < text_.size() && begins_name(text_[at_]);
  }
  std::string word() {
    const std::size_t first = at_;
    while (at_ < text_.size() &&
           (begins_name(text_[at_]) || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)) {
      ++at_;
    }
    return text_.substr(first, at_ - first);
  }

  static Node binary(Binary operation, Node a, Node b) {
    Node node;
    node.kind = Node::Kind::binary;
    node.operation = operation;
    node.parts.push_back(std::move(a));
    node.parts.push_back(std::move(b));
    return node;
  }

  Node sum(unsigned depth) {
    if (depth > kDeepest) fail(fmt::format("at most {} levels of parentheses", kDeepest));
    Node left = term(depth);
    for (;;) {
      if (take('+')) {
        left = binary(Binary::add, std::move(left), term(depth));
      } else if (take('-')) {
        left = binary(Binary::subtract, std::move(left), term(depth));
      } else {
        return left;
      }
    }
  }
  Node term(unsigned depth) {
    Node left = factor(depth);
    for (;;) {
      if (take('*')) {
        left = binary(Binary::multiply, std::move(left), factor(depth));
      } else if (take('/')) {
        left = binary(Binary::divide, std::move(left), factor(depth));
      } else {
        return left;
      }
    }
  }
  Node factor(unsigned depth) {
    if (depth > kDeepest) fail(fmt::format("at most {} signs and levels", kDeepest));
    if (take('-')) {
      Node node;
      node.kind = Node::Kind::negate;
      node.parts.push_back(factor(depth + 1));
      return node;
    }
    if (take('(')) {
      Node node = sum(depth + 1);
      need(')');
      return node;
    }
    space();
    if (at_ < text_.size() && text_[at_] == '\'') return quoted();
    if (at_name()) {
      const std::string name = word();
      return take('(') ? call(name, depth + 1) : named(name);
    }
    return number();
  }

  Node quoted() {
    const std::size_t end = text_.find('\'', ++at_);
    if (end == std::string::npos) fail("a second quote");
    const std::string name = text_.substr(at_, end - at_);
    at_ = end + 1;
    return named(name);
  }
  Node named(const std::string& name) {
    Node node;
    node.kind = Node::Kind::name;
    node.text = name;
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    return node;
  }
  double plain_number(bool* whole) {
    space();
    const char* const begin = text_.c_str() + at_;
    char* end = nullptr;
    // strtod takes "nan" and hexadecimal as well; a digit or a point has to come first.
    const bool digit = std::isdigit(static_cast<unsigned char>(*begin)) != 0 || *begin == '.' ||
                       (*begin == '-' && std::isdigit(static_cast<unsigned char>(begin[1])) != 0);
    if (!digit) fail("a number, a name or '('");
    const double value = std::strtod(begin, &end);
    const std::string_view read(begin, static_cast<std::size_t>(end - begin));
    if (whole != nullptr) *whole = read.find_first_not_of("0123456789") == std::string_view::npos;
    at_ += read.size();
    return value;
  }
  Node number() {
    Node node;
    node.number = plain_number(&node.whole);
    return node;
  }

  Node::Option option() {
    Node::Option out;
    if (at_name()) {
      out.word = word();
    } else if (take('[')) {
      do out.numbers.push_back(plain_number(nullptr));
      while (take(','));
      need(']');
    } else {
      out.numbers.push_back(plain_number(nullptr));
    }
    return out;
  }

  Node call(const std::string& function, unsigned depth) {
    const FunctionRule* const rule = find_function(function);
    if (rule == nullptr) {
      throw InputError(
          fmt::format("'{}': no function '{}'; known: {}", text_, function, function_names()));
    }
    Node node;
    node.kind = Node::Kind::call;
    node.text = function;
    if (!take(')')) {
      do {
        const std::size_t before = at_;
        if (at_name()) {
          const std::string name = word();
          if (take('=')) {
            known_option(*rule, name);
            node.options[name] = option();
            continue;
          }
        }
        at_ = before;
        node.parts.push_back(sum(depth));
      } while (take(','));
      need(')');
    }
    check(*rule, node);
    return node;
  }

  // Whether an option is in the rule's list, and needed.
  static bool lists(const FunctionRule& rule, const std::string& name, bool needed) {
    const std::string all = fmt::format(" {} ", rule.options);
    if (all.find(" " + name + "* ") != std::string::npos) return true;
    return !needed && all.find(" " + name + " ") != std::string::npos;
  }
  void known_option(const FunctionRule& rule, const std::string& name) const {
    if (lists(rule, name, false)) return;
    throw InputError(fmt::format("'{}': {} has no option '{}'; it knows: {}", text_, rule.name,
                                 name, *rule.options == 0 ? "none" : rule.options));
  }
  void check(const FunctionRule& rule, const Node& node) const {
    if (node.parts.size() < rule.least || node.parts.size() > rule.most) {
      throw InputError(fmt::format(
          "'{}': {} takes {}{} tensors, not {}", text_, rule.name, rule.least,
          rule.most > rule.least ? fmt::format(" to {}", rule.most) : "", node.parts.size()));
    }
    for (const char* const name : {"distance", "first", "count", "columns", "inner", "to", "eps"}) {
      if (lists(rule, name, true) && node.options.count(name) == 0) {
        throw InputError(fmt::format("'{}': {} needs '{} = ...'", text_, rule.name, name));
      }
    }
  }

  const std::string& text_;
  std::vector<std::string>& names_;
  std::size_t at_ = 0;
};

}  // namespace

const FunctionRule* find_function(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions),
                   [&](const FunctionRule& rule) { return name == rule.name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

std::string function_names() {
  std::string all;
  for (const FunctionRule& rule : kFunctions)
    all += (all.empty() ? "" : ", ") + std::string(rule.name);
  return all;
}

Expression Expression::parse(const std::string& text) {
  Expression e;
  e.root_ = std::make_shared<const Node>(Parser(text, e.names_).whole());
  return e;
}

}  // namespace ringfence::verify
