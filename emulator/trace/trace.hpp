#pragma once
// A recorded run: what it ran, the choices that differ from the default, and what came of it.
//
// The file is JSON Lines, so that two traces diff well and a shrunk finding fits in a report:
//
//   {"ringfence-trace":1,"ringfence":"0.1.0 (1a2b3c4)","config":{"protocol":"tokenweave",...},
//    "boundary":"stream","policy":{"multicast-flag":"cohere",...},"ignore":[],
//    "strategy":"pct","seed":17,"executor":"processes"}                          (one line)
//   (of a program of its maker's own "config" is {"program":NAME,"ranks":R,...})
//   ("survive":true after the ignored kinds and "faults":"kill" at the end, where there are any)
//   {"agent":"r1.c0.b2.t3","point":14,"pick":"r0.c0.b0.t0"}                     who steps next
//   {"agent":"r0.c0.b0.t1","point":3,"read":1}                   the second newest message is read
//   {"agent":"r1.c0.b0.t0","point":5,"fault":"pause","for":64}   faults (schedule/faults.hpp): what
//       befalls the agent or its rank; kill and restart have no "for"
//   {"agent":"r1.c0.b0.t0","point":9,"late":64}         its signal is not seen for so many points
//   {"agent":"r0.host","point":0,"dirty":3,"holds":1}   word 3 of the rank's pads at the start
//   (with "nth":K if it is the question number K > 0 of its kind at that point)
//   {"verdict":"finding","end":"finding","kind":"data-race",...,"digest":"00c0ffee00c0ffee"}
//
// The header's configuration, boundary, policy and ignored kinds together with the decisions
// determine the run. Strategy, seed and executor say how it was found and are not used again.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/finding.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/schedule/decision.hpp"
#include "emulator/schedule/execution.hpp"
#include "emulator/trace/configuration.hpp"
#include "emulator/trace/hint.hpp"

namespace ringfence::trace {

inline constexpr int kVersion = 1;
inline constexpr std::string_view kSuffix = ".trace.jsonl";

// One line: the file, the line in it, what is wrong and what would be right.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Header {
  std::string made_by;  // version and commit of the ringfence that wrote it
  Configuration config;
  std::string input_digest;  // of the content of its input file: 16 hex digits; empty without input
  machine::Policy policy;    // the boundary mode included
  std::vector<machine::FindingKind> ignore;
  std::string strategy;
  std::uint64_t seed = 0;
  std::string executor;
  std::string faults;    // those that the search drew from, as --faults takes them; empty: none
  bool survive = false;  // schedule::RunSpec's: part of what decides the verdict
};

// How a finding's access reads in the program's words; for people, no part of the comparison.
struct SideNames {
  std::string line;   // "wait end: CAS 1 -> 0"
  std::string place;  // "pad of rank 1, block 0, from rank 2"
};

// An agent that a deadlock left waiting, in the program's words.
struct StuckNames {
  std::uint64_t label = 0;
  std::string slot;
  std::string needs;  // "== 1"
  std::uint64_t there = 0;
  std::string writer;  // who should have written it
};

struct Verdict {
  schedule::RunEnd end = schedule::RunEnd::complete;
  std::optional<machine::Finding> finding;  // none: the run was clean, or did not end
  std::string message;                      // one sentence
  // Of cause.hpp, for people; not in the file.
  std::string cause, fix;
  std::vector<std::size_t> cause_steps;
  std::vector<Hint> hints;
  SideNames first, second;
  std::vector<StuckNames> stuck;
  std::uint32_t points = 0;
  std::uint32_t steps = 0;
  std::uint64_t digest = 0;  // of all choices and all values read
};

struct Trace {
  Header header;
  std::vector<schedule::Decision> decisions;
  Verdict verdict;
};

// The file's text; always ends with a newline.
std::string to_text(const Trace& trace);

// `file` only names it in errors. Throws TraceError.
Trace parse(const std::string& file, std::string_view text);
Trace read_file(const std::string& path);

// Writes the whole file or nothing: a temporary file beside it, renamed. Throws TraceError.
void write_file(const std::string& path, const Trace& trace);
// The same for any text (reports of the commands).
void write_text_file(const std::string& path, std::string_view text);

// "<kind>-<16 hex digits>". The digits hash what determines the run and its finding, wherever a
// case's file lies, so the same finding met twice has one id, which its trace, page and reports
// share. "clean-..." where there is no finding.
std::string finding_id(const Trace& trace);
// The same with kSuffix.
std::string file_name(const Trace& trace);

// 16 hex digits of the content of a file. Throws TraceError if it cannot be read.
std::string file_digest(const std::string& path);

// Words of the format.
std::string_view name(schedule::DecisionKind kind);
std::string_view name(schedule::RunEnd end);
std::string_view name(machine::AccessKind kind);
std::string_view name(machine::Missing missing);
std::string_view name(machine::Proxy proxy);
std::string_view name(machine::Compare compare);  // "==", ...

}  // namespace ringfence::trace
