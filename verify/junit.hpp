// JUnit XML, the form that every CI system reads, for any command that judges.
#pragma once

#include <string>
#include <vector>

#include "verify/compare.hpp"

namespace ringfence::verify {

struct JunitCase {
  enum class Status { passed, failed, error, skipped };
  std::string classname;  // "run", "fuzz.strict"
  std::string name;
  Status status = Status::passed;
  double seconds = 0;
  std::string message;  // one line: why it failed, is an error, or was skipped
  std::string detail;   // more of it, may have several lines
};

struct JunitSuite {
  std::string name;
  std::vector<JunitCase> cases;
  std::vector<std::pair<std::string, std::string>> properties;  // the configuration
};

// One case for each comparison.
JunitSuite junit_suite(std::string name, const std::vector<Comparison>& comparisons);

// A whole document. Characters that XML does not allow become U+FFFD.
std::string junit_xml(const std::vector<JunitSuite>& suites);

}  // namespace ringfence::verify
