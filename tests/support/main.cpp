// The one main of all test executables, with the reporter `numerics`.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/numerics.hpp"
#include "verify/report.hpp"

namespace {

using ringfence::verify::Comparison;

// The console's report, and after each test case that compared tensors a table with one row for
// each tensor. A tensor compared repeatedly under one subcase is one row, which adds up.
class NumericsReporter : public doctest::ConsoleReporter {
 public:
  using ConsoleReporter::ConsoleReporter;

  void test_case_start(const doctest::TestCaseData& data) override {
    ringfence::tests::take_recorded();
    name_ = data.m_name;
    rows_.clear();
    subcases_.clear();
    ConsoleReporter::test_case_start(data);
  }

  void test_case_reenter(const doctest::TestCaseData& data) override {
    collect();
    subcases_.clear();
    ConsoleReporter::test_case_reenter(data);
  }

  void subcase_start(const doctest::SubcaseSignature& subcase) override {
    collect();
    subcases_.push_back(subcase.m_name.c_str());
    ConsoleReporter::subcase_start(subcase);
  }

  void subcase_end() override {
    collect();
    if (!subcases_.empty()) subcases_.pop_back();
    ConsoleReporter::subcase_end();
  }

  void test_case_end(const doctest::CurrentTestCaseStats& statistics) override {
    collect();
    ConsoleReporter::test_case_end(statistics);
    if (rows_.empty()) return;
    s << "numerics: " << name_ << "\n" << ringfence::verify::comparison_table(rows_) << "\n";
  }

 private:
  // Files what was recorded under the subcases that are open.
  void collect() {
    for (Comparison& comparison : ringfence::tests::take_recorded()) {
      std::string name;
      for (const std::string& subcase : subcases_) name += subcase + "/";
      name += comparison.name;
      comparison.name = name;
      bool merged = false;
      for (Comparison& row : rows_) {
        if (row.name != name) continue;
        row.merge(comparison);
        merged = true;
      }
      if (!merged) rows_.push_back(std::move(comparison));
    }
  }

  std::string name_;
  std::vector<std::string> subcases_;
  std::vector<Comparison> rows_;
};

REGISTER_REPORTER("numerics", 1, NumericsReporter);

}  // namespace
