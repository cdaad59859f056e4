#pragma once
// What would have ordered a finding, found by trying: the switches of the protocol, or the
// instructions of the case's kernels, are strengthened one step at a time, the finding's own
// schedule is run again and then a short search. The reverse of relax, for one finding.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emulator/analysis/subject.hpp"
#include "emulator/analysis/watch.hpp"
#include "emulator/schedule/executor.hpp"

namespace ringfence::analysis {

struct RemedyLimits {
  std::uint64_t schedules = 200;  // of the search for each change, after the finding's own schedule
  double seconds = 2;             // for all of them together, within a run as well
  std::size_t most = 3;           // changes to name
};

// What a finding's story says of where it lies: tried before all else.
struct Clues {
  std::vector<Step> insertions;    // what is missing (Step::from is empty)
  std::vector<std::string> sites;  // FILE:LINE of the kernels' text
  // Those of plain accesses that are to synchronise; of others, where the cause is known, a strong
  // form would hide a race and order nothing.
  std::vector<std::string> flags{};
  bool cause_known = false;
};

// Changes that together let the finding's schedule and the search pass. Several only where no
// single one does; then none of them can be left out or be weaker.
struct Remedy {
  std::vector<Step> changes;
  std::uint64_t schedules = 0;  // that it passed, after the finding's own
};

struct Remedies {
  std::vector<Remedy> found;    // nearest first; empty: nothing that was tried helps
  std::uint32_t tried = 0;      // settings
  bool kernel = false;          // of a case's kernels, not of a protocol
  std::uint64_t schedules = 0;  // that each of `found` passed, at least
  bool complete = true;         // every single step was tried to its end
  double seconds = 0;           // that they could take
  std::string instead;          // what mends it where no change here does; empty: not known
};

// `decisions` are the choices of a run of `subject` under `base` that failed. Runs inline, on the
// thread that makes time limits. must_stop() ends it with what there is.
Remedies find_remedies(const Subject& subject, const schedule::RunSpec& base,
                       const std::vector<schedule::Decision>& decisions,
                       const RemedyLimits& limits = {}, const Clues& clues = {},
                       const Watch& watch = {});

// "end.put=release (it is relaxed)", "without slot=wrong" for each change, joined by "and".
std::string text(const Remedy& remedy);
// A paragraph for the story; empty if nothing was tried.
std::string text(const Remedies& remedies);
nlohmann::ordered_json to_json(const Remedies& remedies);

}  // namespace ringfence::analysis
