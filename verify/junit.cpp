#include "verify/junit.hpp"

#include <fmt/core.h>

#include "verify/markup.hpp"
#include "verify/report.hpp"

namespace ringfence::verify {
namespace {

std::string attribute(const char* name, const std::string& value) {
  return fmt::format(" {}=\"{}\"", name, for_attribute(value));
}

std::string case_xml(const JunitCase& test) {
  std::string xml = "    <testcase" + attribute("classname", test.classname) +
                    attribute("name", test.name) + fmt::format(" time=\"{:.3f}\"", test.seconds);
  using Status = JunitCase::Status;
  if (test.status == Status::passed && test.detail.empty()) return xml + "/>\n";
  xml += ">\n";
  const char* element = test.status == Status::failed    ? "failure"
                        : test.status == Status::error   ? "error"
                        : test.status == Status::skipped ? "skipped"
                                                         : nullptr;
  if (element != nullptr) {
    xml += fmt::format("      <{}{}>{}</{}>\n", element, attribute("message", test.message),
                       for_element(test.detail), element);
  } else {
    xml += fmt::format("      <system-out>{}</system-out>\n", for_element(test.detail));
  }
  return xml + "    </testcase>\n";
}

struct Totals {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;

  void add(const JunitSuite& suite) {
    for (const JunitCase& test : suite.cases) {
      ++tests;
      failures += test.status == JunitCase::Status::failed;
      errors += test.status == JunitCase::Status::error;
      skipped += test.status == JunitCase::Status::skipped;
      seconds += test.seconds;
    }
  }
  std::string text() const {
    return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"",
                       tests, failures, errors, skipped, seconds);
  }
};

}  // namespace

JunitSuite junit_suite(std::string name, const std::vector<Comparison>& comparisons) {
  JunitSuite suite;
  for (const Comparison& c : comparisons) {
    JunitCase test;
    test.classname = name;
    test.name = c.name;
    if (!c.passed()) {
      test.status = JunitCase::Status::failed;
      test.message =
          fmt::format("{} of {} elements mismatch, {}", c.mismatches, c.elements, mismatch_text(c));
    }
    test.detail = comparison_header() + "\n" + comparison_line(c);
    suite.cases.push_back(std::move(test));
  }
  suite.name = std::move(name);
  return suite;
}

std::string junit_xml(const std::vector<JunitSuite>& suites) {
  Totals all;
  for (const JunitSuite& suite : suites) all.add(suite);
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml += fmt::format("<testsuites name=\"ringfence\"{}>\n", all.text());
  for (const JunitSuite& suite : suites) {
    Totals totals;
    totals.add(suite);
    xml += "  <testsuite" + attribute("name", suite.name) + totals.text() + ">\n";
    if (!suite.properties.empty()) {
      xml += "    <properties>\n";
      for (const auto& [key, value] : suite.properties) {
        xml += "      <property" + attribute("name", key) + attribute("value", value) + "/>\n";
      }
      xml += "    </properties>\n";
    }
    for (const JunitCase& test : suite.cases) xml += case_xml(test);
    xml += "  </testsuite>\n";
  }
  return xml + "</testsuites>\n";
}

}  // namespace ringfence::verify
