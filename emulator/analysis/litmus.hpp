#pragma once
// litmus: every execution of a PTX litmus test, and whether its condition holds.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/litmus/verdict.hpp"
#include "emulator/machine/policy.hpp"

namespace ringfence::analysis {

struct LitmusSpec {
  machine::Policy policy;
  int bound = litmus::LitmusProgram::kBound;  // turns of a loop
  std::uint64_t executions = 0;               // at most; 0: all
  double seconds = 0;
  unsigned jobs = 1;
};

// By the manual's letter, but for these, NAME to VALUE. Throws InputError.
machine::Policy litmus_policy(const std::string& boundary,
                              const std::map<std::string, std::string>& policies);

struct LitmusOutcome {
  std::string error;         // the test is wrong: where, and what
  std::string not_modelled;  // it uses what the machine does not model
  std::uint64_t complete = 0, blocked = 0, out_of_order = 0;
  bool load_buffering = false;  // explored
  double seconds = 0;
  litmus::States states;
  litmus::Verdict verdict;
  bool race = false;
  // Who waits for ever, where, and in how many executions.
  std::map<std::vector<litmus::Waiting>, std::uint64_t> hangs;
  std::map<litmus::Waiting, std::uint64_t> given_up;  // loops, by the bound
  bool searched = false;                              // no limit ended the search
  std::vector<std::string> left_out;                  // by it, the first few

  // Every execution was seen to its end.
  bool whole() const { return searched && left_out.empty() && given_up.empty(); }
};

// `file` names the test in errors.
LitmusOutcome explore_litmus(const litmus::Test& test, const std::string& file,
                             const LitmusSpec& spec);

}  // namespace ringfence::analysis
