#pragma once
// diff: results of the operator in two files, against the reference and each other.

#include <string>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/options.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct DiffOptions {
  std::string a, b, reference;
  std::string input_map;  // names of the reference's tensors, as run's --map
  std::string protocol, summation;
  int ranks = 0;
  float eps = 0;
  CLI::Option* eps_given = nullptr;
  ReportOptions reports;
  std::string numbers;  // file
};

// Throws UsageError or what `describe` knows.
Exit run(const DiffOptions& options);

}  // namespace ringfence::cli
