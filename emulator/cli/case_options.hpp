#pragma once
// The options that say what to run and how it is judged, common to several subcommands.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/cli/options.hpp"
#include "emulator/machine/finding.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/programs/config.hpp"
#include "emulator/schedule/faults.hpp"

namespace ringfence::cli {

// As given; `resolve` turns it into a case.
struct CaseOptions {
  programs::Config config;
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

// A checked case: everything here is legal.
struct Case {
  programs::Config config;
  machine::Policy policy;  // its boundary is set for each mode in turn
  std::vector<machine::FindingKind> ignore;
  std::vector<machine::Boundary> modes;    // to try
  std::vector<machine::Boundary> judged;   // those that the exit status covers
  std::vector<machine::Boundary> claimed;  // by the protocol or the case file
  std::string input_digest;                // of config.input, if there is one
  schedule::FaultSpec faults;              // of a search: fuzz --faults
  bool survive = false;
  bool claims(machine::Boundary mode) const;
  bool judges(machine::Boundary mode) const;
};

// NAME=VALUE of --policy; the summation policy goes to `summation`. Throws UsageError.
void apply_policy(const std::string& text, machine::Policy& policy, std::string& summation);
// Where there are none to judge. Throws UsageError if one of their policies was given.
void refuse_kernel_policies(const machine::Policy& policy);

// Throws UsageError or std::invalid_argument.
Case resolve(const CaseOptions& options);

// The same for a configuration from a trace, which is checked again as it may come from elsewhere.
void check_input(const programs::Config& config, const std::string& recorded_digest);

// The configuration as a command line repeats it: only what differs from the defaults.
std::string command_options(const programs::Config& config);

// --stall and --executor
struct ExecutorOptions {
  std::string executor = "processes";
  double stall_seconds = 10;
};

}  // namespace ringfence::cli
