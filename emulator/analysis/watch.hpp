#pragma once
// Who looks on while an analysis runs. Nothing here need be set; all is called from the thread that
// runs the analysis, or from one of its workers at a time.
//
// To end an analysis, schedule::interrupt() (emulator/schedule/interrupt.hpp), from any thread or a
// signal handler; or a schedule::TimeLimit around it.

#include <cstdint>
#include <functional>
#include <string>

#include "emulator/machine/policy.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::analysis {

struct Progress {
  machine::Boundary mode = machine::Boundary::strict;
  std::uint64_t done = 0;  // schedules, executions, or checks of relax
  std::uint64_t of = 0;    // 0: not known
  double seconds = 0;
  double explored = -1;       // an estimate of the share of an exhaustive search; < 0: of none
  std::uint64_t waiting = 0;  // executions that it knows of and has not explored
};

struct Watch {
  // The subject's program is made: it can be run at all.
  std::function<void(const schedule::Program&)> begun;
  std::function<void(const Progress&)> progress;
  // A mode is over, and what was shown of its progress.
  std::function<void(machine::Boundary)> mode_over;
  // What would make a finding pass is being tried: so many changes, of at most `limit` seconds; and
  // it is over.
  std::function<void(std::uint64_t tried, double seconds, double limit)> trying;
  std::function<void()> tried;
  enum class Level { info, error };
  std::function<void(Level, const std::string&)> log;

  void say(const Progress& p) const {
    if (progress) progress(p);
  }
  void over(machine::Boundary mode) const {
    if (mode_over) mode_over(mode);
  }
  void try_remedy(std::uint64_t number, double seconds, double limit) const {
    if (trying) trying(number, seconds, limit);
  }
  void remedies_over() const {
    if (tried) tried();
  }
  void info(const std::string& text) const {
    if (log) log(Level::info, text);
  }
  void error(const std::string& text) const {
    if (log) log(Level::error, text);
  }
};

}  // namespace ringfence::analysis
