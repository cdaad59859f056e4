// Launches that may begin before the one ahead of them ends: whether one that does not shows more.
//
// That launches overlap is permitted and not promised, so each of them may begin early or late, by
// itself. Call the launch A and the dependent one behind it B. A late start orders nothing by
// causality that an early one does not: B is behind A's triggers either way. It only holds B's
// steps back until A has ended. So each execution with some late starts is one with early starts,
// as far as it goes, and what can be new is that it goes no further: A waits for what comes of B,
// or of another rank's launch that waits so for its own.
//
// Let G be what an execution with late starts has come to where nobody can step, and H one with
// early starts that begins with G and goes on to its end. If H is stuck or fails, that is found
// with early starts. Else let the events of H be ordered by program order and reads-from (their
// pasts), by the order of execution in what is at the point of coherence or in fence-sc order, and
// each launch's behind those of the launches before it on its rank. If that has no cycle, take the
// first event of H in such an order that is not in G. All that it needs is in G, its launch has
// begun, so G can go on with it, which contradicts that G cannot. So if no execution with early
// starts has such a cycle, none with late ones gets stuck, and early starts stand for all. Where
// one has a cycle the search starts again, and each start is a choice of the graph.
//
// Launches of several streams of a rank count as ordered here, and so do all accesses of one cell
// in mode coherent: that may find a cycle where there is none, and only costs.

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "emulator/check/walk.hpp"
#include "emulator/schedule/label.hpp"

namespace ringfence::check {

namespace {

// The key among the cells of Sets.
constexpr CellKey kLateStarts{kLanes.region, 0, 0x22};

}  // namespace

bool Sets::starts_late() const { return has(kLateStarts); }

void Sets::start_late() { note(kLateStarts); }

void Walk::note_late_starts() {
  if (!overlaps_ || foresight_ != nullptr || sets_.starts_late()) return;
  const bool ended = std::all_of(agents_.begin(), agents_.end(), [&](const AgentState& a) {
    return a.id == schedule::kNoAgent ||
           execution_->record(a.id).status == schedule::AgentStatus::done;
  });
  if (!ended || !can_start_late()) sets_.start_late();
}

// Whether the run's events have an order in which every launch comes behind those before it.
bool Walk::can_start_late() const {
  using Launch = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>;  // rank, call, number
  std::vector<std::uint32_t> todo(lives_.size());
  std::iota(todo.begin(), todo.end(), 0U);
  std::sort(todo.begin(), todo.end(),
            [&](std::uint32_t a, std::uint32_t b) { return lives_[a].at < lives_[b].at; });
  std::map<Launch, std::uint32_t> left_of_launch;
  std::map<CellKey, std::vector<std::uint32_t>> left_of_cell;  // the last one is next
  std::map<Name, std::uint32_t> left_of_step;
  const auto launch_of = [&](const Live& l) -> std::optional<Launch> {
    const auto label = schedule::unpack(names_of_.label(l.event.self.agent));
    if (label.role == schedule::Role::host) return {};
    return Launch{label.rank, label.call, label.group};
  };
  const auto ordered = [&](const Live& l) {
    return l.event.cell == kFences || (is_coherent() && l.event.cell != kLanes);
  };
  for (auto at = todo.rbegin(); at != todo.rend(); ++at) {
    const Live& l = lives_[*at];
    if (const auto launch = launch_of(l)) ++left_of_launch[*launch];
    if (ordered(l)) left_of_cell[l.event.cell].push_back(*at);
    ++left_of_step[l.event.self];
  }
  const auto first_of_cell = [&](std::uint32_t event) {
    if (!ordered(lives_[event])) return true;
    // The parts of one access come together.
    const std::uint32_t next = left_of_cell[lives_[event].event.cell].back();
    return lives_[next].event.self == lives_[event].event.self;
  };
  const auto has_begun = [&](const Live& l) {
    const auto mine = launch_of(l);
    if (!mine) return true;
    for (auto at = left_of_launch.lower_bound({std::get<0>(*mine), std::get<1>(*mine), 0});
         at != left_of_launch.end() && at->first < *mine; ++at) {
      if (at->second != 0) return false;
    }
    return true;
  };
  Prefix done;
  while (!todo.empty()) {
    const std::size_t before = todo.size();
    std::erase_if(todo, [&](std::uint32_t event) {
      const Live& l = lives_[event];
      Prefix with = done;
      with.add(l.event.self);
      if (!with.has(l.past) || !first_of_cell(event) || !has_begun(l)) return false;
      if (const auto launch = launch_of(l)) --left_of_launch[*launch];
      if (ordered(l)) std::erase(left_of_cell[l.event.cell], event);
      if (--left_of_step[l.event.self] == 0) done = with;
      return true;
    });
    if (todo.size() == before) return false;
  }
  return true;
}

}  // namespace ringfence::check
