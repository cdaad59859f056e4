#pragma once
// Many schedules of one case in one boundary mode, until one fails or the budget ends.
//
// Schedule number n runs with a seed that follows from the first seed and n, so a search is the
// same for any number of workers: what is reported is the failing schedule of the lowest number.
// Before number 0 the default schedule runs (every choice the first): it gives the length by which
// PCT spreads its changes and the accesses by which SURW weighs agents, and a fault that it meets
// needs no choices at all.
//
// A portfolio draws a strategy for each schedule, by its seed. It also keeps the schedules that
// gave something new (Corpus) and makes some of others by changing one of these.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/schedule/corpus.hpp"
#include "emulator/schedule/executor.hpp"

namespace ringfence::schedule {

struct SearchSpec {
  RunSpec run;                     // strategy.seed is the first seed
  std::uint64_t schedules = 2000;  // at most; 0: no limit but time
  double seconds = 0;              // at most; 0: no limit but schedules
  // A portfolio's first schedules: what was kept before.
  std::vector<Decisions> corpus;
};

// Runs that a kind of fault befell.
struct FaultCount {
  std::uint64_t runs = 0;
  std::uint64_t right = 0;    // complete, and nothing found
  std::uint64_t stopped = 0;  // a deadlock that the fault excuses (stopped_by_fault)
  std::uint64_t failed = 0;
};

struct SearchResult {
  std::uint64_t schedules = 0;  // that ran to an end, the default one included
  std::uint64_t undecided = 0;  // of these, without a verdict (limit of points)
  std::uint64_t stuck = 0;      // of these, at a wait that never ends, which is passed over
  std::uint64_t points = 0;     // of all together
  std::uint64_t distinct =
      0;  // of the schedules, by their trails; Distinct::kMost: at least so many
  double seconds = 0;
  bool interrupted = false;
  std::vector<LostRank> lost;  // processes whose loss ended the search
  bool found = false;
  Outcome outcome;           // of the failing schedule, if found
  std::uint64_t number = 0;  // its number; the default one and the first of the others have 0
  // That found it: with one schedule of this seed it is found again, unless it was made of others
  // (mutant): then its decisions alone say what it was.
  StrategySpec strategy;
  std::vector<KeptSchedule> kept;  // a portfolio's, without those of SearchSpec::corpus
  std::array<FaultCount, kFaultKinds> faults{};  // a run counts for each kind that befell it
  FaultCount faulted;                            // each run once
  Outcome stopped;  // of the lowest-numbered run that a fault stopped; meaningful if there is one
};

// The seed of schedule n; number 0 has `first` itself.
std::uint64_t schedule_seed(std::uint64_t first, std::uint64_t n);

// Called now and then, from one worker at a time.
using SearchProgress = std::function<void(std::uint64_t schedules, double seconds)>;

// One thread for each executor, the caller's for the first. All executors take the default schedule
// on the caller's thread before that: rank processes end with the thread that first ran them, and
// so they outlive the search. must_stop() (emulator/schedule/interrupt.hpp) ends a search soon. A
// schedule in which a process was lost is run again; if that does not help, the search ends.
// What a worker throws is rethrown here, once all workers have ended.
SearchResult search(const std::vector<Executor*>& workers, const SearchSpec& spec,
                    const SearchProgress& progress = {});

}  // namespace ringfence::schedule
