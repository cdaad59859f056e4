#include "emulator/cli/loss.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "emulator/trace/verdict.hpp"

namespace ringfence::cli {

namespace {

std::string load_text() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return "";
  return fmt::format(", on a machine of {} processors with a load of {:.1f}",
                     sysconf(_SC_NPROCESSORS_ONLN), load);
}

std::string meaning(const schedule::LostRank& lost) {
  if (lost.stalled) {
    return fmt::format(
        "{:.0f} s of real time without a step{}; this is not a finding: --stall SECONDS allows "
        "more, smaller sizes need less",
        lost.seconds, load_text());
  }
  if (lost.crashed()) return "a bug in ringfence; please report it";
  const bool killed = WIFSIGNALED(lost.wait_status) && WTERMSIG(lost.wait_status) == SIGKILL;
  return fmt::format("from outside{}; this is not a finding",
                     killed ? ", by the system if memory ran out" : "");
}

}  // namespace

std::string loss_text(std::span<const schedule::LostRank> lost) {
  std::string text;
  for (const schedule::LostRank& l : lost) {
    text += fmt::format("{}rank {} {} after step {}{}: {}", text.empty() ? "" : "\n", l.rank,
                        trace::lost_text(l), l.last_step,
                        l.last_agent.empty() ? "" : " (" + l.last_agent + ")", meaning(l));
  }
  return text;
}

Exit loss_exit(std::span<const schedule::LostRank> lost) {
  const bool crashed = std::any_of(lost.begin(), lost.end(),
                                   [](const schedule::LostRank& l) { return l.crashed(); });
  return crashed ? Exit::internal : Exit::unknown;
}

}  // namespace ringfence::cli
