// Why no chain of signals leads from one access to another: which signal was taken, and which would
// have been due.

#include <fmt/format.h>

#include <set>
#include <utility>

#include "emulator/trace/cause_sides.hpp"

namespace ringfence::trace {
namespace {

using machine::AccessKind;
using machine::Event;
using schedule::Role;

class HandOver : Sides {
 public:
  explicit HandOver(const Telling& t) : Sides(t) {}

  Cause told() const {
    Cause c = cause();
    c.steps = steps_;
    c.hints = hints_;
    return c;
  }

 private:
  // The last signal that reached what comes before `of` from another rank's agents (or another
  // block's of its own rank): the read that took it in.
  EventIndex last_taken(EventIndex of, const std::vector<bool>& past, std::uint64_t from,
                        bool of_its_team) const {
    const Event& at = h_[of];
    for (EventIndex i = of; i-- > 0;) {
      const Event& e = h_[i];
      if (!past[i] || !is_read(e) || !machine::is_strong(e.order)) continue;
      if (rank_of(e.label) != rank_of(at.label)) continue;
      const EventIndex p = h_.source(i);
      if (p == kNoEvent || rank_of(h_[p].label) != rank_of(from)) continue;
      if (team_of(h_[p].label) == team_of(e.label)) continue;
      if (of_its_team && team_of(h_[p].label) != team_of(from)) continue;
      return i;
    }
    return kNoEvent;
  }

  // A signal by the block of `of`, behind it, at a place where somebody of that rank waits.
  EventIndex next_put(EventIndex of, std::uint64_t to) const {
    std::set<std::pair<std::uint32_t, std::uint64_t>> awaited;
    for (const Event& e : h_.events()) {
      if (is_read(e) && machine::is_strong(e.order) && rank_of(e.label) == rank_of(to)) {
        awaited.insert({e.address.region, e.address.offset});
      }
    }
    const Team team = team_of(h_[of].label);
    for (EventIndex i = of + 1; i < h_.events().size(); ++i) {
      const Event& e = h_[i];
      if (is_write(e) && machine::is_strong(e.order) && team_of(e.label) == team &&
          awaited.contains({e.address.region, e.address.offset})) {
        return i;
      }
    }
    return kNoEvent;
  }

  bool of_kernel(EventIndex i) const {
    const Role role = schedule::unpack(h_[i].label).role;
    return role == Role::thread || role == Role::task;
  }

  // A wait of the reader's own launch that was satisfied by what an earlier call had put.
  Cause left_over(EventIndex reader, std::uint64_t writer) const {
    const Event& r = h_[reader];
    const LaunchNumber mine = number_of(r.label);
    if (number_of(writer) < mine && std::get<0>(number_of(writer)) != std::get<0>(mine)) return {};
    const std::vector<bool> past = h_.before(reader);
    for (EventIndex i = reader; i-- > 0;) {
      const Event& e = h_[i];
      if (!past[i] || !is_read(e) || !machine::is_strong(e.order)) continue;
      if (number_of(e.label) != mine || rank_of(e.label) != rank_of(r.label)) continue;
      const EventIndex p = h_.source(i);
      if (p == kNoEvent || rank_of(h_[p].label) != rank_of(writer)) continue;
      if (std::get<0>(number_of(h_[p].label)) >= std::get<0>(mine)) return {};
      note(i);
      note(p);
      hints_.push_back({Hint::What::clear, 0, false, e.address.region});
      return {
          fmt::format("the wait at {} of call {} was satisfied by the {} that {} had put in call "
                      "{} (step {}): the flag still held what that call left",
                      t_.line(e), std::get<0>(mine), e.value, rank(writer),
                      std::get<0>(number_of(h_[p].label)), h_[p].step),
          "let what is awaited differ from call to call (an epoch that is kept on the device, "
          "not an argument), or take the flag back before the next call"};
    }
    return {};
  }

  Cause cause() const {
    if (rank_of(first_.label) == rank_of(second_.label) &&
        number_of(first_.label) != number_of(second_.label)) {
      hint(Hint::What::grid_wait, second_.site, false);
    }
    const EventIndex reader = first_.kind == AccessKind::read ? a_ : b_;
    const EventIndex writer = reader == a_ ? b_ : a_;
    if (is_read(h_[reader])) {
      if (Cause c = left_over(reader, h_[writer].label); !c.text.empty()) return c;
    }
    if (reader == a_ && is_read(h_[a_])) {
      if (Cause c = came_too_early(); !c.text.empty()) return c;
    }
    const std::vector<bool> past = h_.before(b_);
    EventIndex w = last_taken(b_, past, first_.label, true);
    const EventIndex other = last_taken(b_, past, first_.label, false);
    if (w == kNoEvent || (other != kNoEvent && h_.source(w) < a_ && h_.source(other) > a_)) {
      if (Cause c = anothers_signal(other); !c.text.empty()) return c;
    }
    if (w == kNoEvent) w = other;
    if (w == kNoEvent) return no_signal();
    const EventIndex p = h_.source(w);
    if (team_of(h_[p].label) != team_of(first_.label)) {
      if (Cause c = anothers_signal(w); !c.text.empty()) return c;
    }
    const std::vector<bool> of_access = h_.before(a_);
    if (of_access[p] || p == a_) return put_before(p, w, past);
    return unordered_put(p, w, a_);
  }

  // The read came first in this run: it had taken a put that does not come behind the write.
  Cause came_too_early() const {
    const std::vector<bool> past = h_.before(a_);
    // It read what the writer's rank had written in this call: then the write overwrites it.
    const EventIndex from = h_.source(a_);
    if (from != kNoEvent && rank_of(h_[from].label) == rank_of(second_.label) &&
        std::get<0>(number_of(h_[from].label)) == std::get<0>(number_of(first_.label))) {
      return {};
    }
    if (std::get<0>(number_of(first_.label)) != std::get<0>(number_of(second_.label))) return {};
    const EventIndex w = last_taken(a_, past, second_.label, true);
    if (w == kNoEvent) return {};
    const EventIndex p = h_.source(w);
    if (h_.before(p)[b_] || number_of(h_[p].label) != number_of(second_.label)) return {};
    if (h_.before(b_)[p]) {
      note(p);
      note(w);
      return {fmt::format("the signal that {} acquired ({}, step {}) comes before the write at {}",
                          rank(first_.label), t_.line(h_[p]), h_[p].step, line(second_)),
              fmt::format("the signal at {} after the write at {}", t_.line(h_[p]), line(second_))};
    }
    return unordered_put(p, w, b_);
  }

  Cause unordered_put(EventIndex p, EventIndex w, EventIndex access) const {
    const Event& put = h_[p];
    const Event& at = h_[access];
    note(p);
    note(w);
    if (team_of(put.label) == team_of(at.label)) {
      hint(Hint::What::barrier, at.site, true);
      hint(Hint::What::barrier, put.site, false);
      return {fmt::format(
                  "the signal that {} acquired at {} was made by {} ({}, step {}), and no block "
                  "barrier stands between the {} of {} and that put",
                  rank(h_[w].label), t_.line(h_[w]), who(put.label, t_.program), t_.line(put),
                  put.step, is_write(at) ? "write" : "read", who(at.label, t_.program)),
              fmt::format("__syncthreads() between {} and {}", t_.line(at), t_.line(put))};
    }
    const bool launches = number_of(put.label) != number_of(at.label);
    return {
        fmt::format("the signal that {} acquired at {} is of {}{} (step {}), and nothing orders "
                    "the {} of {} before it",
                    rank(h_[w].label), t_.line(h_[w]), who(put.label, t_.program),
                    launches ? " of another launch" : "", put.step, is_write(at) ? "write" : "read",
                    who(at.label, t_.program)),
        fmt::format("a barrier of those blocks, or a signal of {}'s own, between {} and {}",
                    who(at.label, t_.program), t_.line(at), t_.line(put))};
  }

  // The wait took what another block, or a launch on another stream, had put there.
  Cause anothers_signal(EventIndex w) const {
    if (w == kNoEvent || !of_kernel(a_)) return {};
    const EventIndex p = h_.source(w);
    const Event& put = h_[p];
    const Team of = team_of(put.label), due = team_of(first_.label);
    if (of == due || of.call != due.call || of.role != due.role) return {};
    // Both signal there: they share the slot.
    bool shares = false;
    for (EventIndex i = 0; i < h_.events().size() && !shares; ++i) {
      const Event& e = h_[i];
      // Or tries to: the slot is taken.
      shares = machine::is_access(e.kind) && e.kind != Event::Kind::read &&
               machine::is_strong(e.order) && team_of(e.label) == due &&
               e.address.region == put.address.region && e.address.offset == put.address.offset;
    }
    const auto name = [&](const Team& t, const Team& against) {
      return t.group != against.group
                 ? fmt::format("launch {} of rank {}{}", t.group, t.rank,
                               t_.program.launch_name(put.label).empty()
                                   ? ""
                                   : " (" + t_.program.launch_name(put.label) + ")")
                 : fmt::format("block {} of rank {}", t.block, t.rank);
    };
    if (!shares) return {};
    note(w);
    note(p);
    return {
        fmt::format("the wait at {} ({}, step {}) took the signal of {} (step {}), not that of "
                    "{}, which made the {}: both signal in {}",
                    t_.line(h_[w]), who(h_[w].label, t_.program), h_[w].step, name(of, due),
                    put.step, name(due, of), doing(first_.kind), place(put.address, t_.program)),
        of.group != due.group ? "slots of its own for each launch that may run at the same time"
                              : "slots of its own for each block"};
  }

  Cause put_before(EventIndex p, EventIndex w, const std::vector<bool>& past) const {
    const bool reads = first_.kind == AccessKind::read;
    // The place had been written before, and the second one knew of that: now it is reused.
    EventIndex earlier = kNoEvent;
    for (const EventIndex i : h_.writes_of(first_.region, first_.offset)) {
      if (i < a_ && past[i] && i != b_) earlier = i;
    }
    const Event& put = h_[p];
    note(earlier);
    note(p);
    note(w);
    if (reads) {
      return {fmt::format("{} overwrites it without knowing that {} has read it: the last signal "
                          "of {} that it acquired ({}, step {}) was sent before that read",
                          rank(second_.label), rank(first_.label), rank(first_.label), t_.line(put),
                          put.step),
              fmt::format("a barrier of the ranks after the read at {}, before {} writes again",
                          line(first_), rank(second_.label))};
    }
    if (earlier != kNoEvent) {
      return {fmt::format("{} writes the buffer again at {} while {} may still read for the round "
                          "before (its write of step {}): it has waited for no signal after that "
                          "read",
                          rank(first_.label), line(first_), rank(second_.label), h_[earlier].step),
              fmt::format("a barrier of the ranks after the read at {}, before the write at {}",
                          line(second_), line(first_))};
    }
    return {
        fmt::format("the last signal of {} that {} acquired (sent at {}, step {}; acquired at {}) "
                    "comes before the {} at {}",
                    rank(first_.label), rank(second_.label), t_.line(put), put.step, t_.line(h_[w]),
                    doing(first_.kind), line(first_)),
        fmt::format("a signal after {}, and a wait for it before {}", line(first_), line(second_))};
  }

  Cause no_signal() const {
    const EventIndex q = next_put(a_, second_.label);
    const bool one_rank = rank_of(first_.label) == rank_of(second_.label);
    const auto side = [&](std::uint64_t label) {
      return one_rank ? fmt::format("block {}", schedule::unpack(label).block) : rank(label);
    };
    const std::string before =
        of_kernel(b_) ? line(second_)
                      : fmt::format("the {} of step {}", doing(second_.kind), second_.step);
    if (q != kNoEvent && !one_rank) {
      note(q);
      return {
          fmt::format("{} has waited for no signal of {} before {}; the one that would do is "
                      "put at {} (step {})",
                      rank(second_.label), rank(first_.label), before, t_.line(h_[q]), h_[q].step),
          fmt::format("a wait of {} for that signal, .acquire, before {}", rank(second_.label),
                      before)};
    }
    if (one_rank && number_of(first_.label) != number_of(second_.label)) {
      return {fmt::format("they are of two launches that may run at the same time, and {} has "
                          "waited for nothing of the one before by {}",
                          who(second_.label, t_.program), before),
              fmt::format("griddepcontrol.wait (cudaGridDependencySynchronize()) before {} where "
                          "the launch is a dependent one; an event between their streams where it "
                          "is not",
                          before)};
    }
    return {fmt::format("no signal and no barrier leads from {} after its {} at {} to {} before {}",
                        side(first_.label), doing(first_.kind), line(first_), side(second_.label),
                        before),
            fmt::format("a barrier of the {} between {} and {}{}", one_rank ? "blocks" : "ranks",
                        line(first_), before,
                        one_rank ? " (of a cluster: arrive .release after the first, wait .acquire "
                                   "before the second)"
                                 : "")};
  }
};

}  // namespace

Cause cause_of_hand_over(const Telling& telling) { return HandOver(telling).told(); }

}  // namespace ringfence::trace
