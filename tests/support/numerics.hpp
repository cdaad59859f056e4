// Tensors compared by a test: checked, and kept for the reporter `numerics`.
//
//   CHECK_TENSOR(verify::compare("out", out, expected, bound));
//
// fails the test case where an element mismatches, with its first mismatch in the message. Run with
// `--reporters=numerics` to see one row for each tensor that a test case and its subcases compare.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "verify/compare.hpp"

namespace ringfence::tests {

// Keeps a comparison for the reporter, under the test case and subcase that run. Any thread.
void record(const verify::Comparison& comparison);

// Takes what has been recorded since the last call. For the reporter.
std::vector<verify::Comparison> take_recorded();

// Why a comparison failed, in one line.
std::string failure_text(const verify::Comparison& comparison);

}  // namespace ringfence::tests

#define CHECK_TENSOR(...)                                                        \
  do {                                                                           \
    const ::ringfence::verify::Comparison check_tensor_comparison = __VA_ARGS__; \
    ::ringfence::tests::record(check_tensor_comparison);                         \
    CHECK_MESSAGE(check_tensor_comparison.passed(),                              \
                  ::ringfence::tests::failure_text(check_tensor_comparison));    \
  } while (false)
