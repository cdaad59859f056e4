#pragma once
// fuzz: many schedules under weak memory, in each boundary mode until it finds something.

#include <optional>
#include <string>
#include <vector>

#include "emulator/analysis/budget.hpp"
#include "emulator/analysis/finding.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/analysis/watch.hpp"
#include "emulator/schedule/search.hpp"

namespace ringfence::analysis {

struct FuzzSpec {
  schedule::StrategySpec strategy;  // its seed is the first; its faults are the task's
  std::uint64_t schedules = 2000;   // at most in each mode; 0: no limit but time
  unsigned jobs = 1;                // schedules at once, each with ranks of its own
  ExecutorOptions executor;
  bool shrink = true, remedies = true;  // of findings
  double remedy_seconds = 2;            // for all of a finding's
  std::string corpus;                   // a folder (corpus.hpp); empty: none
  // Behind a finding of a case, go on past it, by its lines: `all` findings at most.
  std::size_t all = 1;
};

struct FuzzMode {
  machine::Boundary mode = machine::Boundary::strict;
  bool claimed = false, judged = false;
  schedule::SearchResult search;
  Verdict verdict = Verdict::unknown;
  std::optional<Settled> settled;  // a finding, to be written by write_finding
  std::vector<Settled> more;       // others behind it, as they were met
};

struct FuzzResult {
  std::vector<FuzzMode> modes;
  Notes notes;
  // A run that a fault stopped, in the first mode that has one.
  std::optional<machine::Boundary> stopped_in;
  trace::Verdict stopped;
};

// `budget` holds for all modes together, and for what makes their findings small. Throws
// Interrupted where there is nothing to tell yet, or what `describe` knows.
FuzzResult fuzz(const Task& task, const FuzzSpec& spec, const Budget& budget, const Watch& watch);

// One search of one mode, and nothing made of what it finds.
schedule::SearchResult search_mode(const Task& task, machine::Boundary mode, const FuzzSpec& spec);

}  // namespace ringfence::analysis
