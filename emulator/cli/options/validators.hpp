#pragma once
// What options are checked against, where CLI11's own lets NaN through and prints the largest
// double in full.

#include <CLI/CLI.hpp>

namespace ringfence::cli {

// A finite number above 0.
CLI::Validator above_zero();
// A number from 0 to 1.
CLI::Validator fraction();

// Once a subcommand's options are read: no report of `sub` is written to a file that it reads, nor
// two of them to one. Throws UsageError.
void check_outputs_apart(const CLI::App& sub);

}  // namespace ringfence::cli
