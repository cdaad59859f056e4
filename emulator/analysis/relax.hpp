#pragma once
// relax: which orders, scopes, fences and barriers of a protocol or of compiled kernels are needed,
// and how strong.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/analysis/task.hpp"
#include "emulator/analysis/watch.hpp"

namespace ringfence::analysis {

struct RelaxSpec {
  std::uint64_t executions = 20000;  // of the exhaustive search of each variant
  double seconds = 5;                // likewise
  std::optional<std::chrono::steady_clock::time_point> end;  // of the whole
  std::uint64_t schedules = 300;  // of the random search where a bound ended that
  unsigned jobs = 1;
  std::string traces;  // a folder for a trace of each weakening that fails; empty: none
};

// A switch or an instruction's property, and how far it can be weakened.
struct RelaxedSite {
  std::string key, present, where;
  std::vector<std::string> weaker;  // the weakest first
  std::string alone, jointly;       // the weakest that passes: by itself, with the others weakened;
                                    // jointly empty: it came to an end before that was tried
  std::string why;                  // the finding of the next weaker one by itself; empty if none
  std::string trace;
  bool searched = false;  // some answer of this row is a search's that found nothing
};

// What is known of some settings.
enum class Answer : std::uint8_t {
  passes,  // every execution
  clean,   // the bound ended that; random schedules found nothing
  fails,
  undecided
};

// Whether the table is whole, or what ended it.
enum class RelaxEnd : std::uint8_t { whole, time, signal };

struct RelaxResult {
  Answer start = Answer::undecided;  // the subject as it is
  std::vector<RelaxedSite> sites;    // none where that fails or is undecided: nothing to relax
  RelaxEnd end = RelaxEnd::whole;
  std::size_t untried = 0;  // sites that are not in the table, as it came to an end before
  bool any() const { return start == Answer::passes || start == Answer::clean; }
};

// A signal or the end of the time leaves the table so far. Throws what `describe` knows.
RelaxResult relax(const Task& task, machine::Boundary mode, const RelaxSpec& spec,
                  const Watch& watch);

}  // namespace ringfence::analysis
