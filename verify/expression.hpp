// Expected values as an expression of the inputs: "(sum(data) + residual) * gamma".
//
// The table of its functions is in docs/values.md. A name stands for a tensor of the inputs (of the
// rank whose result is expected) or for another expression, and may be put in single quotes. Names
// of expressions are rounding points: those that are listed are rounded to a dtype.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "verify/values.hpp"

namespace ringfence::verify {

struct ExpressionNode;

// A parsed expression; a value type that shares its nodes.
class Expression {
 public:
  // Throws InputError with what is wrong, at which character, and what would be right.
  static Expression parse(const std::string& text);
  // Every name in it that is no function, in order of first use.
  const std::vector<std::string>& names() const { return names_; }
  const ExpressionNode& root() const { return *root_; }

 private:
  std::shared_ptr<const ExpressionNode> root_;
  std::vector<std::string> names_;
};

// What an expression is evaluated in: one call of R ranks.
struct ExpressionContext {
  std::uint32_t ranks = 1;
  // Elements of a row of the inputs; 0: each is one row.
  std::int64_t columns = 0;
  Accumulation accumulation;
  // The input `name` of a rank, without a shape of its own. Throws InputError for one that is none.
  std::function<Values(const std::string& name, std::uint32_t rank)> input;
  std::map<std::string, Expression> named;
  std::map<std::string, Dtype> rounded;  // of these
};

class Evaluator {
 public:
  explicit Evaluator(ExpressionContext context) : context_(std::move(context)) {}

  // What rank `rank` should hold. What is the same on all ranks is computed once. Throws
  // InputError.
  Values of(const Expression& expression, std::uint32_t rank);
  // Whether that differs between ranks.
  bool depends_on_rank(const Expression& expression);

 private:
  using Shared = std::shared_ptr<const Values>;
  Shared of(const ExpressionNode& node, std::uint32_t rank);
  Values compute(const ExpressionNode& node, std::uint32_t rank);
  Values call(const ExpressionNode& node, std::uint32_t rank);
  Values over_ranks(const ExpressionNode& node, std::uint32_t rank);
  Values name(const ExpressionNode& node, std::uint32_t rank);
  bool depends_on_rank(const ExpressionNode& node, unsigned depth = 0);

  ExpressionContext context_;
  std::map<std::pair<const ExpressionNode*, std::uint32_t>, Shared> known_;
  std::vector<std::string> open_;  // names that are being evaluated
};

}  // namespace ringfence::verify
