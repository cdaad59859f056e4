#pragma once
// From a failing schedule to what the user gets: the smallest run that fails alike, confirmed over
// rank processes, its trace file and its story.

#include <string>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/pictures.hpp"
#include "emulator/cli/remedy.hpp"
#include "emulator/schedule/search.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::cli {

struct RecordOptions {
  ExecutorOptions executor;  // how it was found; its stall holds for the confirmation
  std::string path;          // of the trace; empty: named by its content in the current folder
  std::string folder;        // for a trace that is named by its content
  bool shrink = true;
  bool remedies = true;  // try what would make it pass
  bool color = false;
  PictureOptions pictures;  // of the finding
};

struct Recorded {
  machine::FindingKind kind = machine::FindingKind::data_race;
  trace::Trace trace;
  std::string path;
  std::string token;  // the same trace as one word; empty where it is too long to print
  std::string story;
  Remedies remedies;
  // Re-run over processes with equal choices, values and finding. A lost rank cannot be: its
  // process's end is no choice of the schedule.
  bool confirmed = false;
};

Recorded record_finding(const Case& c, machine::Boundary mode, const schedule::SearchResult& result,
                        const RecordOptions& options);

// Pictures of the schedule that takes every default, where a search found nothing else to show.
void show_default_schedule(const Case& c, machine::Boundary mode, const PictureOptions& pictures);

// What a run of this case is specified by, apart from its schedule.
schedule::RunSpec run_spec(const Case& c, machine::Boundary mode);

std::string replay_command(const std::string& path);

}  // namespace ringfence::cli
