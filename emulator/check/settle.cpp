// Polls that are stuck at one of several last writes, where races are passed over.
//
// Coherence orders no two writes that race, so either may be what a poll sees for ever. But the
// machine's memory ends with the one that was executed last, and what a trace replays is an order
// of execution. A graph has no such order: "whatever order of execution respects program order and
// reads-from gives the same run" (graph.hpp). So where a run has come to its end with a poll that
// should be stuck at a write with nothing behind it in coherence order, and another write, executed
// later and not because of it, ends its wait, the same graph is run again with the order that the
// poll needs.

#include <algorithm>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

using machine::Message;

namespace {

bool is_settled(const Event& e) { return e.stuck && !e.after.empty(); }

}  // namespace

// `q` ends the wait of a poll that is stuck.
void Walk::settle(const Question& q) {
  if (abandoned_ || !weak_events_) return;
  const CellKey key{q.at.region, q.at.offset, q.size};
  const auto at = std::find_if(lives_.begin(), lives_.end(), [&](const Live& l) {
    return l.executed && l.event.stuck && l.thread == q.who && l.event.cell == key;
  });
  if (at == lives_.end() || is_settled(at->event) || !is_last(*at)) return;
  const Live& poll = *at;
  std::vector<Name> before;
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    if (m->initial || name_of(*m) == poll.event.from) continue;
    const Live* const other = writer(*m, key);
    if (other == nullptr) {
      return sets_.leave_out({names_of_.label(poll.event.self.agent), poll.access.site, m->site,
                              LeftOut::What::unordered});
    }
    // Who reads a write and goes on to write comes after it in each order of execution.
    if (other->past.has(poll.event.from)) return;
    before.push_back(name_of(*m));
  }
  follow(graph());
  Event& again = found_.back().graph[static_cast<std::size_t>(at - lives_.begin())];
  again.late = false;
  again.after = std::move(before);
}

// Of a graph with such an order each run ends as that poll should. Where one does not (another poll
// needs the opposite), executions are missing.
void Walk::note_unsettled() {
  if (foresight_ != nullptr || sets_.generation() != generation_) return;  // not for that reason
  for (std::uint32_t i = 0; i < given_; ++i) {
    const Live& poll = lives_[i];
    if (!is_settled(poll.event)) continue;
    // Where it is, or what its agent stands before.
    const auto site = [&](const Name& name) {
      const std::uint32_t at = find_write(name, poll.event.cell);
      if (at != kNone && lives_[at].executed) return lives_[at].access.site;
      const bool there = name.agent < id_of_.size() && id_of_[name.agent] != schedule::kNoAgent;
      return there ? execution_->record(id_of_[name.agent]).access.site : std::uint16_t{0};
    };
    sets_.leave_out({names_of_.label(poll.event.from.agent), site(poll.event.from),
                     site(poll.event.after.front()), LeftOut::What::unordered});
  }
}

}  // namespace ringfence::check
