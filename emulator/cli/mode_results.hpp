#pragma once
// What commands that search each boundary mode in turn (fuzz, check) print and report of it.

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/analysis/finding.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct ModeReport {
  machine::Boundary mode = machine::Boundary::strict;
  bool claimed = false, judged = false;
  Verdict verdict = Verdict::unknown;
  std::uint64_t executions = 0;
  double seconds = 0;
  Json search = Json::object();        // what the command says of the search beyond this
  const Finding* recorded = nullptr;   // the finding, if there is one
  std::vector<const Finding*> others;  // behind it
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
verify::JunitSuite junit_of(const char* command, const trace::Configuration& config,
                            const std::vector<ModeReport>& modes, std::string_view unknown);

struct Told {
  bool any = false;
  bool disagree = false;  // the executors, on one of them
};
// Where traces go that nobody named a file for: in the current folder, made with the first one.
inline constexpr const char* kFindingsFolder = "ringfence-findings";

// Whether two modes found the same: a kind, at the same lines.
bool same_finding(const trace::Verdict& a, const trace::Verdict& b);
// "the same in strict and coherent, which are not claimed"
void print_same(const std::vector<ModeReport>& others);

// Writes and prints the findings of `modes` that are settled, those that count first; what several
// modes find is told once. The first one has the pictures. `report_of` makes a ModeReport of a
// mode.
template <class Mode, class ReportOf>
Told tell_findings(std::vector<Mode>& modes, const std::string& trace,
                   const PictureOptions& pictures, ReportOf&& report_of);

// Of several findings, the first goes to the file `asked` for; the others, `taken`, beside it.
std::string trace_path(const std::string& asked, machine::Boundary mode, bool taken);

template <class Mode, class ReportOf>
Told tell_findings(std::vector<Mode>& modes, const std::string& trace,
                   const PictureOptions& pictures, ReportOf&& report_of) {
  RecordOptions record;
  record.color = wants_color(STDOUT_FILENO);
  record.folder = kFindingsFolder;
  Told told;
  const auto write = [&](Mode& m) {
    record.path = trace_path(trace, m.mode, told.any);
    record.pictures = told.any ? PictureOptions{} : pictures;
    m.written = write_finding(std::move(*m.settled), record);
    m.settled.reset();
    told.any = true;
    told.disagree |= m.written->disagree;
  };
  for (const bool judged : {true, false}) {
    for (Mode& m : modes) {
      if (m.judged != judged || !m.settled) continue;
      write(m);
      print_finding(report_of(m));
      std::vector<ModeReport> others;
      for (Mode& other : modes) {
        if (!other.settled) continue;
        if (!same_finding(other.settled->finding.trace.verdict, m.written->trace.verdict)) continue;
        write(other);
        others.push_back(report_of(other));
      }
      print_same(others);
    }
  }
  return told;
}

}  // namespace ringfence::cli
