// Tensors in a doctest: checked against what they should be, and told in a table.
//
//   #define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
//   #include <verify/doctest.hpp>
//
//   TEST_CASE("the kernel's all-reduce") {
//     const auto expected = ringfence::verify::fused_reference(problem, inputs, partials, policy,
//                                                              {0, problem.tokens});
//     RINGFENCE_CHECK_TENSOR("out", got, expected.out, expected.out_bound);
//   }
//
// `got` is a verify::Tensor (host memory: copy what a GPU wrote); what follows is taken by
// verify::compare: expected values and bounds, or an Expectation. RINGFENCE_CHECK_BITS wants every
// bit equal. An element that is wrong fails the test case with its place, what it is and what it
// should be. Run with --reporters=numerics to see, after each test case, one row for each tensor
// that it and its subcases compared: mismatches, error over bound, largest errors, RMSE, cosine,
// and the worst element below. A tensor compared repeatedly under one subcase is one row, which
// adds up.
//
// Header only beside ringfence::verify. The reporter is there where doctest's implementation is:
// include this header, not doctest's, in the file that defines DOCTEST_CONFIG_IMPLEMENT or
// DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN.
#pragma once

#include <doctest/doctest.h>

#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "verify/compare.hpp"
#include "verify/report.hpp"
#include "verify/values.hpp"

namespace ringfence::verify::doctest_support {

// What has been compared since the last call of take(). Any thread.
class Recorder {
 public:
  static Recorder& instance() {
    static Recorder recorder;
    return recorder;
  }
  void add(const Comparison& comparison) {
    const std::lock_guard lock(mutex_);
    comparisons_.push_back(comparison);
  }
  std::vector<Comparison> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(comparisons_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Comparison> comparisons_;
};

// Why a comparison failed, in one line.
inline std::string failure_text(const Comparison& c) {
  std::ostringstream text;
  text << c.name << ": " << c.mismatches << " of " << c.elements << " elements mismatch, "
       << mismatch_text(c);
  return text.str();
}

}  // namespace ringfence::verify::doctest_support

// A verify::Comparison that was made already.
#define RINGFENCE_CHECK_COMPARISON(...)                                                      \
  do {                                                                                       \
    const ::ringfence::verify::Comparison ringfence_comparison = __VA_ARGS__;                \
    ::ringfence::verify::doctest_support::Recorder::instance().add(ringfence_comparison);    \
    CHECK_MESSAGE(ringfence_comparison.passed(),                                             \
                  ::ringfence::verify::doctest_support::failure_text(ringfence_comparison)); \
  } while (false)

// NAME, a Tensor, and expected values with bounds or an Expectation.
#define RINGFENCE_CHECK_TENSOR(...) \
  RINGFENCE_CHECK_COMPARISON(::ringfence::verify::compare(__VA_ARGS__))

// NAME, a Tensor, and the Tensor that it equals bit for bit.
#define RINGFENCE_CHECK_BITS(...) \
  RINGFENCE_CHECK_COMPARISON(::ringfence::verify::compare_bits(__VA_ARGS__))

#ifdef DOCTEST_CONFIG_IMPLEMENT
namespace ringfence::verify::doctest_support {
namespace {

// The console's report, and the table after each test case that compared tensors.
class NumericsReporter : public doctest::ConsoleReporter {
 public:
  using ConsoleReporter::ConsoleReporter;

  void test_case_start(const doctest::TestCaseData& data) override {
    Recorder::instance().take();
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
    s << "numerics: " << name_ << "\n" << comparison_table(rows_) << "\n";
  }

 private:
  // Files what was recorded under the subcases that are open.
  void collect() {
    for (Comparison& comparison : Recorder::instance().take()) {
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
}  // namespace ringfence::verify::doctest_support
#endif
