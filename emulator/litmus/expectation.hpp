// Expectation files: what a run of a collection of litmus tests must find.
//
// One line a test, `#` starts a comment:
//
//     NAME [SETTING=VALUE …] Never|Sometimes|Always [race|no-race]
//
// NAME is the test's name (which has no blanks). Settings are the policies that the verdict holds
// for, as on the command line (boundary=stream, load-buffering=off, …); a test may have a line for
// each. A collection decided by the model alone needs none.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/litmus/verdict.hpp"

namespace ringfence::litmus {

struct Expectation {
  std::string name;
  std::map<std::string, std::string> settings;
  Observation observation = Observation::Never;
  // Whether some execution has a data race, where the line says it.
  std::optional<bool> race;
  int line = 0;
};

// Throws ParseError (parser.hpp) with the line for text that has not this form, and for a second
// line of one name with the same settings.
std::vector<Expectation> parse_expectations(std::string_view text, const std::string& file_name);
std::vector<Expectation> parse_expectation_file(const std::string& path);

}  // namespace ringfence::litmus
