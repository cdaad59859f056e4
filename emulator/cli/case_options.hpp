#pragma once
// The options that say what to run and how it is judged, common to several subcommands.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/options.hpp"

namespace ringfence::cli {

// As given; `resolve` turns it into a case.
struct CaseOptions {
  programs::Config config;
  std::string case_file;  // in place of a protocol: of `config` then only calls and payload count
  std::vector<std::string> set, policy, ignore;
  std::uint32_t registers = 0;  // a thread of a kernel has
  std::string boundary = "all";
  std::string suppress;           // a file of [[ignore]] tables
  std::string model;              // whose sizes are the defaults
  CLI::Option* tokens = nullptr;  // sizes and dtype that an input file decides instead
  CLI::Option* hidden = nullptr;
  CLI::Option* inner = nullptr;
  CLI::Option* dtype = nullptr;
  CLI::Option* eps = nullptr;
  CLI::Option* calls = nullptr;
  std::vector<CLI::Option*> no_case;  // options that a case file answers
};

// By its name; throws UsageError with those that are there.
const programs::Protocol& protocol_of(const std::string& name);

// Throws UsageError or std::invalid_argument.
Task resolve(const CaseOptions& options);

// The configuration as a command line repeats it: only what differs from the defaults.
std::string command_options(const trace::Configuration& config);

}  // namespace ringfence::cli
