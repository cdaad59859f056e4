// Two results of the operator, compared with the reference and with each other: `diff`.
#pragma once

#include <string>
#include <vector>

#include "verify/compare.hpp"
#include "verify/inputs.hpp"
#include "verify/problem.hpp"
#include "verify/summation.hpp"

namespace ringfence::verify {

// Metadata keys by which a file of results says how it was made.
constexpr const char* kMetaProtocol = "protocol";    // flavour_name
constexpr const char* kMetaRanks = "ranks";          // decimal
constexpr const char* kMetaSummation = "summation";  // summation_name
constexpr const char* kMetaEps = "eps";              // decimal

// How a result was made, where the files do not say or are to be overruled.
struct DiffOptions {
  bool has_flavour = false;
  Flavour flavour = Flavour::tokenweave;
  bool has_ranks = false;
  int ranks = 0;
  bool has_summation = false;
  Summation summation = Summation::fp32_truncated;
  bool has_eps = false;
  float eps = 0;
  InputNames names;  // of the inputs' tensors
};

struct Diff {
  Problem problem_a;  // as A and B were judged
  Problem problem_b;
  std::vector<std::string> notes;       // LoadedInputs' of the inputs
  std::vector<Comparison> comparisons;  // "A out", "B out", "A-B out", the same for residual_out
  bool passed() const;
};

// Reads inputs from `reference`, results `out` and (where both have it) `residual_out` from `a` and
// `b`. Each is judged by the double-precision operator with its own bound (flavour, ranks,
// summation: from the options, else the file's metadata, else tokenweave, an error for ranks, and
// the policy with the widest fp32 bound, truncate, for tokenweave). A-B: |a - b| within the sum of
// both bounds. Throws InputError where a tensor is missing, or its shape or dtype does not fit the
// inputs.
Diff diff(const std::string& a, const std::string& b, const std::string& reference,
          const DiffOptions& options = {});

}  // namespace ringfence::verify
