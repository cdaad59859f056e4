// The parts of an expression; for verify's sources.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verify/values.hpp"

namespace ringfence::verify {

struct ExpressionNode {
  enum class Kind : std::uint8_t { number, name, call, binary, negate };
  Kind kind = Kind::number;
  double number = 0;
  bool whole = false;  // a number written without point and exponent
  std::string text;    // the name, or the function's
  Binary operation = Binary::add;
  std::vector<ExpressionNode> parts;
  // Of a call: name = a number, a word or a list of numbers.
  struct Option {
    std::string word;
    std::vector<double> numbers;
  };
  std::map<std::string, Option> options;
};

// A function: how many tensors it takes, and the options it knows, those with a star needed.
struct FunctionRule {
  const char* name;
  unsigned least, most;
  const char* options;  // "inner* tiles"
  bool over_ranks;      // takes what its argument is on other ranks
};
// nullptr where there is none.
const FunctionRule* find_function(const std::string& name);
std::string function_names();

}  // namespace ringfence::verify
