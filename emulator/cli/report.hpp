#pragma once
// Results as JSON and JUnit files, and the parts that all commands' results share.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emulator/cli/case_options.hpp"
#include "verify/junit.hpp"

namespace ringfence::cli {

using Json = nlohmann::ordered_json;

// The version of the JSON results, raised when a key changes its meaning.
inline constexpr int kResultVersion = 1;

enum class Verdict { pass, finding, unknown, error };
const char* name(Verdict verdict);

struct ReportOptions {
  std::string json, junit;
  std::string sarif;  // of the commands that have findings
};

// Before anything long runs: a report must be writable where it is to go. Throws UsageError.
void check_writable(const char* option, const std::string& path);
void check_writable(const ReportOptions& options);

// {"version", "command", "ringfence", "verdict", "seed"}
Json result_head(const char* command, Verdict verdict, std::uint64_t seed);
Json config_json(const programs::Config& config);
Json policy_json(const machine::Policy& policy, const programs::Config& config);

std::vector<std::pair<std::string, std::string>> properties(const programs::Config& config);

// Writes what was asked for.
void write_reports(const ReportOptions& options, const Json& result,
                   const std::vector<verify::JunitSuite>& suites);

}  // namespace ringfence::cli
