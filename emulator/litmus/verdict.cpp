#include "emulator/litmus/verdict.hpp"

#include <vector>

#include "emulator/litmus/printer.hpp"

namespace ringfence::litmus {

Verdict judge(const Test& test, const States& states, bool hangs) {
  const std::vector<Variable> variables = observed_variables(test);
  Verdict verdict;
  for (const auto& [state, executions] : states) {
    if (test.filter && !holds(*test.filter, variables, state)) continue;
    (holds(test.condition, variables, state) ? verdict.satisfying : verdict.others) += executions;
  }
  verdict.observation = verdict.satisfying == 0 ? Observation::Never
                        : verdict.others == 0   ? Observation::Always
                                                : Observation::Sometimes;
  switch (test.quantifier) {
    case Quantifier::Exists:
      verdict.ok = verdict.decided = verdict.satisfying > 0;
      break;
    case Quantifier::NotExists:
      verdict.ok = verdict.satisfying == 0 && verdict.others > 0;
      verdict.decided = verdict.satisfying > 0;
      break;
    case Quantifier::Forall:
      verdict.ok = verdict.satisfying > 0 && verdict.others == 0 && !hangs;
      verdict.decided = verdict.others > 0 || hangs;
      break;
  }
  return verdict;
}

std::string state_text(const Test& test, const State& state) {
  const std::vector<Variable> variables = observed_variables(test);
  std::string text;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (i > 0) text += ' ';
    text += print(test, variables[i]) + "=" + std::to_string(state[i]) + ";";
  }
  return text;
}

std::string herd_block(const Test& test, const States& states, bool hangs) {
  const Verdict verdict = judge(test, states, hangs);
  const std::vector<Variable> variables = observed_variables(test);
  const bool negated = test.quantifier == Quantifier::NotExists;
  const char* const expectation = test.quantifier == Quantifier::Exists ? "Allowed"
                                  : negated                             ? "Forbidden"
                                                                        : "Required";
  const char* const quantifier = test.quantifier == Quantifier::Exists ? "exists"
                                 : negated                             ? "~exists"
                                                                       : "forall";
  std::string lines;
  std::size_t shown = 0;
  for (const auto& [state, executions] : states) {
    if (test.filter && !holds(*test.filter, variables, state)) continue;
    ++shown;
    lines += state_text(test, state) + '\n';
  }
  const std::uint64_t positive = negated ? verdict.others : verdict.satisfying;
  const std::uint64_t negative = negated ? verdict.satisfying : verdict.others;
  std::string s = "Test " + test.name + " " + expectation + "\n";
  s += "States " + std::to_string(shown) + "\n" + lines;
  s += verdict.ok ? "Ok\n" : "No\n";
  s += "Witnesses\nPositive: " + std::to_string(positive) +
       " Negative: " + std::to_string(negative) + "\n";
  s += std::string("Condition ") + quantifier + " (" + print(test, test.condition) + ")\n";
  s += "Observation " + test.name + " " + to_string(verdict.observation) + " " +
       std::to_string(verdict.satisfying) + " " + std::to_string(verdict.others) + "\n";
  return s;
}

std::string to_string(Observation observation) {
  switch (observation) {
    case Observation::Never:
      return "Never";
    case Observation::Sometimes:
      return "Sometimes";
    case Observation::Always:
      return "Always";
  }
  return {};
}

}  // namespace ringfence::litmus
