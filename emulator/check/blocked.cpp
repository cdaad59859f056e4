// Waits that cannot end where a run has come to its end.
//
// At the point of coherence (mode coherent) a wait sees what is newest when it looks. One that is
// blocked by that may have come sooner, when what it waits for was newest: reads-from has each of
// the messages that its past has not overwritten, or the wait is stuck, and the run at hand is the
// last of these. A wait is added to the graph behind all that could go on without it, in the order
// of agents; of several the first one, and those before it stay stuck where another one does not.

#include <algorithm>
#include <span>
#include <utility>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

using machine::bit;
using machine::Message;
using machine::MessageSet;
using schedule::AgentId;
using schedule::kNoAgent;

// A compare-and-swap that waits although somebody took what it waits for could have been first. One
// that is stuck because the graph says so is no choice of the fixed rule's, and others stand for
// those in which it is not.
void Walk::ask_blocked() {
  machine::Machine& machine = execution_->machine();
  const AgentId stepping = current_;
  sooner_.clear();
  for (AgentId id = 0; id < execution_->agent_count() && !abandoned_; ++id) {
    const schedule::AgentRecord& r = execution_->record(id);
    if (r.status != schedule::AgentStatus::awaiting || agents_[id].late) continue;
    current_ = asking_blocked_ = id;
    if (r.wait_count == 0 && !stuck_.contains(r.thread)) {
      machine.can_end(r.thread, r.await.at, r.await.access, r.await.wanted, r.await.by_rmw);
    }
    for (std::uint32_t i = 0; i < r.wait_count && !abandoned_; ++i) {
      const schedule::AwaitInfo& w = r.waits[i].await;
      if (r.waits[i].of_iteration || stuck_.contains(r.waits[i].thread)) continue;
      machine.can_end(r.waits[i].thread, w.at, w.access, w.wanted, w.by_rmw);
    }
  }
  asking_blocked_ = kNoAgent;
  current_ = stepping;
}

// Which messages would have ended this wait.
void Walk::note_sooner(const Question& q) {
  Live live;
  live.event.self = {agents_[asking_blocked_].index, agents_[asking_blocked_].nth};
  live.event.pointed = true;
  live.event.cell = {q.at.region, q.at.offset, q.size};
  describe(q, live);
  name_lane(live.event, q.who, q.access->site);
  Sooner wait{live.event, {}};
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    const std::uint64_t value = value_of(*m, q.size);
    if ((q.may & bit(*m)) == 0 || !q.wanted->holds(value)) continue;
    const bool writes = q.kind == machine::AccessKind::rmw &&
                        (q.wanted->condition == nullptr || q.wanted->condition->writes(value));
    if ((writes && (q.takes & bit(*m)) == 0) || has_stand_in(live, *q.cell, *m)) continue;
    if (!is_overwritten(q, *m)) wait.from.push_back(name_of(*m));
  }
  wait.event.from = name_of(*q.cell->newest);
  if (!wait.from.empty()) sooner_.push_back(std::move(wait));
}

// The graphs in which one of them came sooner.
void Walk::follow_sooner() {
  Graph g = graph();
  for (const Sooner& wait : sooner_) {
    g.push_back(wait.event);
    for (const Name& from : wait.from) {
      g.back().from = from;
      follow(Graph(g));
    }
    g.back().from = wait.event.from;
    g.back().stuck = true;
  }
}

// Asked while those that wait are still there. Whether those of them whose iteration repeats would
// see nothing new: each of its reads returned what is newest, or one of several.
bool Walk::admits_deadlock() {
  if (abandoned_) return true;
  if (remaining_ > 0) {
    note_held();
    return !abandoned_;
  }
  leave_step();
  const std::vector<Incoming> due = std::move(due_);
  due_.clear();
  for (const Incoming& w : due) revisit(w);
  ask_blocked();
  if (abandoned_) return false;
  machine::Machine& machine = execution_->machine();
  for (const Live& l : lives_) {
    if (!l.executed || !l.event.stuck || is_last(l)) continue;
    in_vain_ = true;
    return false;
  }
  for (AgentId id = 0; id < execution_->agent_count(); ++id) {
    const schedule::AgentRecord& r = execution_->record(id);
    if (r.status != schedule::AgentStatus::awaiting) continue;
    for (std::uint32_t i = 0; i < r.wait_count; ++i) {
      const schedule::LaneWait& w = r.waits[i];
      if (!w.of_iteration) continue;
      const Live* read = nullptr;
      for (const Live& l : lives_) {
        const CellKey& cell = l.event.cell;
        if (l.executed && !l.event.write && l.thread == w.thread &&
            cell.region == w.await.at.region && cell.offset == w.await.at.offset &&
            (read == nullptr || read->event.self.nth < l.event.self.nth)) {
          read = &l;
        }
      }
      bool newest = false;
      if (read == nullptr) {
        std::uint64_t there = 0;
        machine.peek(w.await.at,
                     std::as_writable_bytes(std::span(&there, 1)).first(w.await.access.element));
        newest = !w.await.wanted.holds(there);
      } else if (const machine::Cell* cell = history_of(*read); cell != nullptr) {
        for (const Message* m = cell->newest; m != nullptr; m = m->older) {
          const bool total = read->event.from == kTotal;
          if (name_of(*m) != read->event.from && !total) continue;
          newest = !total || !w.await.wanted.holds(value_of(*m, read->event.cell.size));
          // One behind it with the same value is nothing new: an atomic that looks writes such.
          for (const Message* x = cell->newest; x != nullptr; x = x->older) {
            newest = newest && ((x->before & bit(*m)) == 0 ||
                                !w.await.wanted.holds(value_of(*x, read->event.cell.size)));
          }
          if (newest) break;
        }
      }
      if (newest) continue;
      in_vain_ = true;
      return false;
    }
  }
  follow_sooner();
  return true;
}

}  // namespace ringfence::check
