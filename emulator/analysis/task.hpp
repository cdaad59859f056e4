#pragma once
// What is asked of a subject: under which policies, in which boundary modes, and what is passed
// over.

#include <memory>
#include <string>
#include <vector>

#include "emulator/analysis/subject.hpp"
#include "emulator/machine/finding.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/faults.hpp"

namespace ringfence::analysis {

// Everything here is legal.
struct Task {
  SubjectPtr subject;
  machine::Policy policy;  // its boundary is set for each mode in turn
  std::vector<machine::FindingKind> ignore;
  std::vector<machine::Boundary> modes;    // to try
  std::vector<machine::Boundary> judged;   // those that the verdict covers
  std::vector<machine::Boundary> claimed;  // by the protocol or the case file
  std::string input_digest;                // of the subject's input file, if there is one
  schedule::FaultSpec faults;              // of a search
  bool survive = false;
  const trace::Configuration& config() const { return subject->config(); }
  bool claims(machine::Boundary mode) const;
  bool judges(machine::Boundary mode) const;
  // What an analysis says of one mode, of which nothing is known yet.
  template <class Mode>
  Mode mode_of(machine::Boundary mode) const {
    Mode m;
    m.mode = mode;
    m.claimed = claims(mode);
    m.judged = judges(mode);
    return m;
  }
};

// What a run is specified by, apart from its schedule.
schedule::RunSpec run_spec(const Task& task, machine::Boundary mode);

// NAME=VALUE of --policy; the summation policy goes to `summation`. Throws InputError.
void apply_policy(const std::string& text, machine::Policy& policy, std::string& summation);
// Where there are no compiled kernels to judge. Throws InputError if one of their policies was
// given.
void refuse_kernel_policies(const machine::Policy& policy);

// Every mode there is, in the order in which they are tried.
std::vector<machine::Boundary> all_modes();
// The kinds of findings named. Throws InputError.
std::vector<machine::FindingKind> parse_ignore(const std::vector<std::string>& kinds);
// "KEY=VALUE", of `option`. Throws InputError.
std::pair<std::string, std::string> key_value(const char* option, const std::string& text);

// Of a sum over the runs of a search or over searches: what is said of a subject in the end. A
// finding before unknown before pass.
enum class Verdict { pass, finding, unknown, error };
const char* name(Verdict verdict);

}  // namespace ringfence::analysis
