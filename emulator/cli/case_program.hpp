#pragma once
// Programs of both kinds: a protocol in C++, or the kernels of a case file.

#include <memory>
#include <string>
#include <vector>

#include "emulator/programs/config.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::cli {

// The text of a file of suppressions, which is checked. Throws std::invalid_argument.
std::string read_suppressions(const std::string& path);

inline bool is_case(const programs::Config& config) { return !config.case_file.empty(); }

// Checks a configuration, and that a case file is still the one of its digest (if it has one).
// Throws std::invalid_argument.
void check_config(const programs::Config& config);
std::unique_ptr<schedule::Program> build_program(const programs::Config& config);

// One change to how a program synchronises, up or down: a switch of a protocol, or a site of a
// kernel (emulator/cases/edits.hpp), as --set takes it.
struct Step {
  std::string key;
  std::string from;   // the value in force
  std::string to;     // empty: leave the switch out, which is the protocol to the letter
  std::string where;  // of a kernel's: the instruction, and its line of the CUDA source
};
// Every single step from the settings of the configuration, grouped by key; the weakest first, or
// the least step up first. Throws std::invalid_argument.
std::vector<Step> weaker_steps(const programs::Config& config);
std::vector<Step> stronger_steps(const programs::Config& config);

// The modes that a case file claims. Fills in `ranks`, `calls` (unless `calls_given`) and the
// digest. Throws std::invalid_argument.
std::vector<machine::Boundary> read_case(programs::Config& config, bool calls_given);

// Prints a line on sums whose order is ours where hardware gives none; nothing without any.
void print_numerics(const schedule::Program& program);

// Where a trace's case is: at its path, beside the trace, or another case file there that has the
// digest. Throws std::invalid_argument.
void find_case(programs::Config& config, const std::string& trace_path);

}  // namespace ringfence::cli
