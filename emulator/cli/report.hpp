#pragma once
// Results as JSON and JUnit files, and the parts that all commands' results share.

#include <string>
#include <vector>

#include "emulator/analysis/json.hpp"
#include "emulator/analysis/pictures.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/cli/errors.hpp"
#include "verify/junit.hpp"

namespace ringfence::cli {

// The version of the JSON results, raised when a key changes its meaning.
inline constexpr int kResultVersion = 1;

struct ReportOptions {
  std::string json, junit;
  std::string sarif;  // of the commands that have findings
};

// Before anything long runs: a report must be writable where it is to go. Throws UsageError.
void check_writable(const char* option, const std::string& path);
void check_writable(const ReportOptions& options);
void check_writable(const PictureOptions& options);

// {"version", "command", "ringfence", "verdict", "seed"}
// A story without the colours of a terminal.
std::string plain(const std::string& story);
Json result_head(const char* command, Verdict verdict, std::uint64_t seed);

std::vector<std::pair<std::string, std::string>> properties(const trace::Configuration& config);

// Prints a line on sums whose order is ours where hardware gives none; nothing without any.
void print_numerics(const Subject& subject, const schedule::Program& program);

// Writes what was asked for.
void write_reports(const ReportOptions& options, const Json& result,
                   const std::vector<verify::JunitSuite>& suites);

}  // namespace ringfence::cli
