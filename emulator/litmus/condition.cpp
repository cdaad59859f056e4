#include "emulator/litmus/condition.hpp"

#include <algorithm>

namespace ringfence::litmus {
namespace {

void collect(const Formula& formula, std::vector<Variable>& variables) {
  if (formula.kind == Formula::Kind::Compare) {
    for (const Term* term : {&formula.left, &formula.right}) {
      if (const auto* variable = std::get_if<Variable>(term)) variables.push_back(*variable);
    }
  }
  for (const Formula& child : formula.children) collect(child, variables);
}

std::int64_t value_of(const Term& term, const std::vector<Variable>& variables,
                      const State& state) {
  if (const auto* constant = std::get_if<Constant>(&term)) return constant->value;
  const auto it = std::lower_bound(variables.begin(), variables.end(), std::get<Variable>(term));
  return state.at(static_cast<std::size_t>(it - variables.begin()));
}

bool compare(std::int64_t left, Compare comparison, std::int64_t right) {
  switch (comparison) {
    case Compare::eq:
      return left == right;
    case Compare::ne:
      return left != right;
    case Compare::lt:
      return left < right;
    case Compare::le:
      return left <= right;
    case Compare::gt:
      return left > right;
    case Compare::ge:
      return left >= right;
  }
  return false;
}

}  // namespace

std::vector<Variable> observed_variables(const Test& test) {
  std::vector<Variable> variables = test.observed;
  collect(test.condition, variables);
  if (test.filter) collect(*test.filter, variables);
  std::sort(variables.begin(), variables.end());
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  return variables;
}

bool holds(const Formula& formula, const std::vector<Variable>& variables, const State& state) {
  const auto child_holds = [&](const Formula& child) { return holds(child, variables, state); };
  switch (formula.kind) {
    case Formula::Kind::Compare:
      return compare(value_of(formula.left, variables, state), formula.comparison,
                     value_of(formula.right, variables, state));
    case Formula::Kind::And:
      return std::all_of(formula.children.begin(), formula.children.end(), child_holds);
    case Formula::Kind::Or:
      return std::any_of(formula.children.begin(), formula.children.end(), child_holds);
    case Formula::Kind::Not:
      return !child_holds(formula.children.front());
  }
  return false;
}

}  // namespace ringfence::litmus
