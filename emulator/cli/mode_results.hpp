#pragma once
// What commands that search each boundary mode in turn (fuzz, check) print and report of it.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct ModeReport {
  machine::Boundary mode = machine::Boundary::strict;
  bool claimed = false, judged = false;
  Verdict verdict = Verdict::unknown;
  std::uint64_t executions = 0;
  double seconds = 0;
  Json search = Json::object();        // what the command says of the search beyond this
  const Recorded* recorded = nullptr;  // the finding, if there is one
  Json finding = Json::object();       // what the command says of the finding beyond the usual
};

// Of the judged modes: a finding before unknown before pass.
Verdict overall(const std::vector<ModeReport>& modes);
Exit exit_of(Verdict verdict);
// "stream, coherent"
std::string judged_modes(const std::vector<ModeReport>& modes);

// The story of a finding that counts; of one in a mode that nobody claimed, the gist.
void print_finding(const ModeReport& mode);

// "executions", "seconds", "executions_per_second", "modes", "searches", "findings".
void add_modes(Json& result, const std::vector<ModeReport>& modes);
// `unknown` says why a mode ended without a verdict.
verify::JunitSuite junit_of(const char* command, const programs::Config& config,
                            const std::vector<ModeReport>& modes, const char* unknown);

// Of several findings, the first goes to the file `asked` for; the others, `taken`, beside it.
std::string trace_path(const std::string& asked, machine::Boundary mode, bool taken);

}  // namespace ringfence::cli
