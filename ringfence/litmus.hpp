#pragma once
// PTX litmus tests: every execution of each.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringfence/result.hpp"
#include "ringfence/subject.hpp"

namespace ringfence {

struct LitmusResult {
  std::string name;
  bool holds = false;       // its condition, with the quantifier
  std::string observation;  // "Never", "Sometimes", "Always": the condition without it
  bool complete = false;    // every execution was seen to its end; else a bound ended the search
  bool race = false;
  bool hangs = false;                           // some execution never ends
  std::map<std::string, std::uint64_t> states;  // "x=1; P1:r0=0;", and how many executions
  std::uint64_t executions = 0;
  std::string not_modelled;  // what of it the model does not have; then nothing else is known
};

// The tests of a text, which `file` names in errors, or of a file. Of the options `executions`,
// `seconds`, `jobs`, `policies`, `modes` (the first; default strict) and `stop` count. Without
// policies all is as the manual's letter has it, load buffering included. Throws Error.
LitmusResult explore_litmus(const std::string& text, const std::string& file = "test.litmus",
                            const Options& options = {});
std::vector<LitmusResult> explore_litmus_file(const std::string& path, const Options& options = {});

}  // namespace ringfence
