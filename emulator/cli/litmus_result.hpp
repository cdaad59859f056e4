// What was found of one litmus test, and how it is told: text, JSON, JUnit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/analysis/litmus.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/expectation.hpp"
#include "emulator/machine/policy.hpp"
#include "verify/junit.hpp"

namespace ringfence::cli {

// What is asked of a test: whether its condition holds, or whether every execution ends.
enum class LitmusQuestion { condition, termination };

// One test under one set of policies; or a file that is none (`error`).
struct TestResult : analysis::LitmusOutcome {
  std::string file;
  const litmus::Test* test = nullptr;
  LitmusQuestion question = LitmusQuestion::condition;
  std::map<std::string, std::string> settings;  // of its line of the expectation file
  std::optional<litmus::Expectation> expected;
  machine::Policy policy;
  int bound = 0;

  bool ok() const { return question == LitmusQuestion::condition ? verdict.ok : hangs.empty(); }
  // Whether it is as expected: by its line, else by what is asked of it. What a bound left out can
  // only decide what was not decided.
  Verdict outcome() const;
};

void print(const TestResult& result);
Json result_json(const std::vector<TestResult>& results, Verdict verdict);
verify::JunitSuite junit_of(const std::vector<TestResult>& results);

}  // namespace ringfence::cli
