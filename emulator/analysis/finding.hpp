#pragma once
// From a failing schedule to what the user gets: the smallest run that fails alike, confirmed over
// rank processes, its trace file and its story.

#include <chrono>
#include <optional>
#include <string>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/pictures.hpp"
#include "emulator/analysis/remedy.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/analysis/watch.hpp"
#include "emulator/schedule/search.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::analysis {

struct RecordOptions {
  using Clock = std::chrono::steady_clock;
  // When the time for all is over: what makes a finding better than it is ends then.
  std::optional<Clock::time_point> until;
  ExecutorOptions executor;  // how it was found; its stall holds for the confirmation
  bool write = true;         // the trace to a file; else it is told with its token alone
  std::string path;          // of the trace; empty: named by its content in the current folder
  std::string folder;        // for a trace that is named by its content
  bool shrink = true;
  bool remedies = true;  // try what would make it pass
  RemedyLimits limits;   // of that
  bool color = false;
  Watch watch;
  PictureOptions pictures;  // of the finding
};

struct Finding {
  machine::FindingKind kind = machine::FindingKind::data_race;
  trace::Trace trace;
  std::string path;
  std::string token;  // the same trace as one word; empty where it is too long to print
  std::string story;
  Remedies remedies;
  // Re-run over processes with equal choices, values and finding; if not, why.
  bool confirmed = false;
  std::string unconfirmed;
  bool disagree = false;  // that run ended, and was another one: a fault of ringfence
  std::string unwritten;  // why the trace, or a picture, is not there
};

// A failing run, made as small as time allows, confirmed and run for its story, but not told yet.
struct Settled {
  SubjectPtr subject;
  schedule::Outcome outcome;  // with a history, where time and memory allowed one
  Instance instance;          // that ran it
  Finding finding;            // but for its path, its token and its story
};
Settled settle_finding(const Task& task, machine::Boundary mode,
                       const schedule::SearchResult& result, const RecordOptions& options);
// What would make it pass, of one that was settled without; where the options ask for that.
void try_remedies(Settled& settled, const Task& task, machine::Boundary mode,
                  const RecordOptions& options);
// Writes the trace and the pictures, and tells the story. What cannot be written is said there
// (Finding::unwritten), not thrown.
Finding write_finding(Settled settled, const RecordOptions& options);
// Both.
Finding record_finding(const Task& task, machine::Boundary mode,
                       const schedule::SearchResult& result, const RecordOptions& options);

// Pictures of the schedule that takes every default, where a search found nothing else to show.
void show_default_schedule(const Task& task, machine::Boundary mode,
                           const PictureOptions& pictures);

// What a verdict that was explained says of where its remedies are to be looked for.
Clues clues_of(const Subject& subject, const schedule::Outcome& outcome,
               const schedule::Program& program, const trace::Verdict& verdict);

std::string replay_command(const std::string& path);

}  // namespace ringfence::analysis
