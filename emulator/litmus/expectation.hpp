// Expectation files: what a run of a collection of litmus tests must find.
//
// One line a test, `#` starts a comment, in either form:
//
//     NAME [SETTING=VALUE …] [Never|Sometimes|Always] [race|no-race] [hang|no-hang]
//     FILE,0|1
//
// NAME is the test's name (which has no blanks) or the path of its file. Settings are the policies
// that the verdict holds for, as on the command line (boundary=stream, load-buffering=off, …); a
// test may have a line for each. Of the three at least one is due; what is not named is not judged.
// The second form is that of the public collections: 1 if what is asked of the test has the answer
// yes (the condition holds, or every execution ends), 0 if not. Paths match where one of them ends
// with all of the other.
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
  // Where the line says it: how often the condition holds, whether some execution has a data race
  // or never ends, whether the answer is yes.
  std::optional<Observation> observation;
  std::optional<bool> race, hang, ok;
  int line = 0;

  // Whether it is about the test of this name, read from this file.
  bool is_of(std::string_view test, std::string_view file) const;
};

// Throws ParseError (parser.hpp) with the line for text that has not this form, and for a second
// line of one name with the same settings.
std::vector<Expectation> parse_expectations(std::string_view text, const std::string& file_name);
std::vector<Expectation> parse_expectation_file(const std::string& path);

}  // namespace ringfence::litmus
