// Why nothing orders two accesses: which put and which wait should have.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "emulator/machine/names.hpp"
#include "emulator/trace/cause_parts.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {
namespace {

using machine::AccessInfo;
using machine::AccessKind;
using machine::Event;
using machine::Missing;
using schedule::Role;

const char* doing(AccessKind kind) { return kind == AccessKind::read ? "read" : "write"; }

class Race {
 public:
  explicit Race(const Telling& t)
      : t_(t), h_(t.history), first_(t.finding.first), second_(t.finding.second) {
    a_ = h_.find(first_);
    b_ = h_.find(second_);
  }

  Cause told() {
    Cause c = cause();
    if (!c.text.empty()) {
      c.steps.insert(c.steps.end(), steps_.begin(), steps_.end());
      c.hints.insert(c.hints.end(), hints_.begin(), hints_.end());
    }
    return c;
  }

 private:
  Cause cause() {
    const Missing missing = t_.finding.missing;
    if (missing == Missing::synchronisation || missing == Missing::strength ||
        missing == Missing::first_scope) {
      if (Cause c = cause_of_phase(t_); !c.text.empty()) return c;
    }
    if (Cause c = by_kind(missing); !c.text.empty()) return c;
    if (Cause c = cause_of_refill(t_); !c.text.empty()) return c;
    if (Cause c = flag_is_plain(); !c.text.empty()) return c;
    const bool known = a_ != kNoEvent && b_ != kNoEvent && a_ < b_;
    // Whatever else is amiss: with this link they would be ordered.
    if (known) {
      if (Cause c = broken_link(); !c.text.empty()) return c;
    }
    if (team_of(first_.label) == team_of(second_.label)) return same_block();
    if (!known) return {};
    return no_hand_over();
  }
  void hint(Hint::What what, std::uint16_t site, bool behind) const {
    const Hint h{what, site, behind, 0};
    if (std::find(hints_.begin(), hints_.end(), h) == hints_.end()) hints_.push_back(h);
  }
  void note(EventIndex i) const {
    if (i != kNoEvent) steps_.push_back(i);
  }

  std::string line(const AccessInfo& a) const { return t_.line(a.site); }
  std::string text_of(std::uint16_t site) const { return t_.program.site_name(site); }
  static std::string rank(std::uint64_t label) { return fmt::format("rank {}", rank_of(label)); }

  // What the machine knows without the events.
  Cause by_kind(Missing missing) const {
    switch (missing) {
      case Missing::complete_overlap:
        return {fmt::format("both are strong, but one is of {} bytes and the other of {}, and only "
                            "accesses of the same bytes by the same size synchronise",
                            first_.bytes, second_.bytes),
                fmt::format("access it by one size: what {} reads as what {} writes, or the other "
                            "way round",
                            line(first_.kind == AccessKind::write ? second_ : first_),
                            line(first_.kind == AccessKind::write ? first_ : second_))};
      case Missing::proxy_fence:
        hint(Hint::What::proxy_fence, first_.site, true);
        return {fmt::format("{} goes through the async proxy, and no fence.proxy.async stands "
                            "between it and {}",
                            line(second_), line(first_)),
                fmt::format("fence.proxy.async after {}, in the thread that accessed it, before "
                            "it signals or comes to the barrier",
                            line(first_))};
      case Missing::completion:
        return cause_of_copy(t_);
      case Missing::first_scope:
      case Missing::second_scope: {
        const bool far = rank_of(first_.label) != rank_of(second_.label);
        const AccessInfo& narrow = missing == Missing::first_scope ? first_ : second_;
        const char* const due = far ? ".sys" : ".gpu";
        if (!machine::is_strong(narrow.order)) {
          return {fmt::format("the release that publishes {} has a scope that does not reach {}",
                              line(narrow), who(second_.label, t_.program)),
                  fmt::format("scope {} at that release and at the acquire that takes it in",
                              far ? ".sys" : ".cluster (or .gpu)")};
        }
        const AccessInfo& met = missing == Missing::first_scope ? second_ : first_;
        const bool both = machine::is_strong(met.order) && (far ? met.scope != machine::Scope::sys
                                                                : met.scope == machine::Scope::cta);
        if (both && line(met) != line(narrow)) {
          return {
              fmt::format("{} has scope .{} and {} scope .{}, which end at their {}: the two do "
                          "not synchronise",
                          line(narrow), machine::name(narrow.scope), line(met),
                          machine::name(met.scope), far ? "GPU" : "block"),
              fmt::format("scope {} at {} and at {}", due, line(narrow), line(met))};
        }
        return {fmt::format("{} has scope .{}, which ends at its {}: {} does not synchronise with "
                            "it",
                            line(narrow), machine::name(narrow.scope), far ? "GPU" : "block",
                            who(met.label, t_.program)),
                fmt::format("scope {} at {} and at what it is to meet", due, line(narrow))};
      }
      default:
        return {};
    }
  }

  // A flag that one side accesses plainly: no order of the other side helps.
  Cause flag_is_plain() const {
    const bool first_strong = machine::is_strong(first_.order);
    if (first_strong == machine::is_strong(second_.order)) {
      return first_strong ? Cause{} : both_are_plain();
    }
    const AccessInfo& plain = first_strong ? second_ : first_;
    const AccessInfo& strong = first_strong ? first_ : second_;
    if (strong.kind == AccessKind::none || plain.kind == AccessKind::none) return {};
    if (plain.kind == AccessKind::read && strong.kind != AccessKind::read) {
      // Data that are written strongly are read plainly where a flag says so.
      if (!polled(plain) && !machine::releases(strong.order) && strong.kind != AccessKind::rmw) {
        return {};
      }
      hint(Hint::What::strong, plain.site, false);
      return {fmt::format("{} reads by a plain load what {} signals: a plain load does not "
                          "synchronise",
                          line(plain), rank(strong.label)),
              fmt::format("ld.acquire.sys at {} (or a relaxed load and a fence after the loop)",
                          line(plain))};
    }
    if (plain.kind == AccessKind::write) {
      if (strong.kind == AccessKind::read && !polled(strong)) return {};
      const EventIndex i = h_.find(plain);
      const std::string value = i != kNoEvent ? fmt::format(" of {}", h_[i].value) : std::string();
      return {
          fmt::format("the plain store{} at {} overwrites a slot that {} {} by {}, and nothing "
                      "says that this has not happened yet",
                      value, line(plain), rank(strong.label),
                      strong.kind == AccessKind::read ? "waits at" : "signals in", line(strong)),
          "clear such a slot where no peer can signal: before the launch, after the wait for "
          "the signal, or after a barrier of all ranks"};
    }
    return {};
  }

  // A flag that nobody takes for one.
  Cause both_are_plain() const {
    const AccessInfo& read = first_.kind == AccessKind::read ? first_ : second_;
    const AccessInfo& write = &read == &first_ ? second_ : first_;
    if (read.kind != AccessKind::read || write.kind != AccessKind::write || !polled(read)) {
      return {};
    }
    hint(Hint::What::strong, read.site, false);
    hint(Hint::What::strong, write.site, false);
    return {fmt::format("{} polls by a plain load what {} signals by a plain store: neither "
                        "synchronises",
                        line(read), line(write)),
            fmt::format("st.release.sys at {}, and ld.acquire.sys at {}", line(write), line(read))};
  }

  bool polled(const AccessInfo& a) const {
    const EventIndex i = h_.find(a);
    return i != kNoEvent && (h_.looks_again(i) || looked_before(i));
  }

  bool looked_before(EventIndex i) const {
    for (EventIndex j = i; j-- > 0;) {
      if (h_[j].label == h_[i].label && h_[j].site == h_[i].site &&
          h_[j].address.region == h_[i].address.region &&
          h_[j].address.offset == h_[i].address.offset) {
        return true;
      }
    }
    return false;
  }

  // The line of the PTX, which is the order of a kernel's text; 0: none is told.
  unsigned text_line(std::uint16_t site) const {
    const std::string name = text_of(site);
    const std::size_t colon = name.find(':');
    return colon == std::string::npos
               ? 0
               : static_cast<unsigned>(std::strtoul(name.c_str() + colon + 1, nullptr, 10));
  }

  Cause same_block() const {
    if (first_.label == second_.label) return {};
    // One has run ahead to what comes later in the kernel, or in its next round.
    const unsigned of_first = text_line(first_.site), of_second = text_line(second_.site);
    if (of_second != 0 && of_second < of_first) {
      const bool copy = text_of(second_.site).find(": cp.async.bulk") != std::string::npos;
      hint(Hint::What::barrier, first_.site, false);
      if (copy) {
        hint(Hint::What::bulk_wait_barrier, first_.site, false);
      } else {
        hint(Hint::What::barrier, second_.site, true);
      }
      const std::string one = who(first_.label, t_.program), other = who(second_.label, t_.program);
      const std::string text = fmt::format(
          "{} comes after {} in the kernel, and {} has run ahead to it: neither a block barrier "
          "nor "
          "a release that it acquires keeps it after the {} of {} at {}",
          line(first_), line(second_), one, doing(second_.kind), other, line(second_));
      if (!copy) {
        return {text,
                fmt::format("__syncthreads() after {}, before {}", line(second_), line(first_))};
      }
      return {
          text + "; a wait_group waits for the copies of its own thread alone",
          fmt::format("cp.async.bulk.wait_group.read 0 in {}, which issues the copy, and then a "
                      "__syncthreads() for all before {}",
                      other, line(first_))};
    }
    hint(Hint::What::barrier, first_.site, true);
    hint(Hint::What::barrier, second_.site, false);
    return {
        fmt::format("both are threads of one block, and neither a block barrier nor a release that "
                    "the other "
                    "acquires (by a flag or an mbarrier) leads from {} to {}",
                    line(first_), line(second_)),
        fmt::format(
            "__syncthreads() between {} and {}, or a release after the one and an acquire of it "
            "before the other",
            line(first_), line(second_))};
  }

  // -- a chain by which the second could have seen the first --------------------------------------

  struct Hop {
    EventIndex put, wait;
  };

  // The fence that makes a put of its own thread a release, behind `entered`; and whether another
  // thread of the block has one that does not.
  bool fence_between(std::uint64_t label, EventIndex from, EventIndex to, bool releases) const {
    for (EventIndex i = from; i < to; ++i) {
      const Event& e = h_[i];
      if (e.label != label || e.kind != Event::Kind::fence || e.value >= 2) continue;
      if (releases ? e.order != machine::Order::acquire : e.order != machine::Order::release) {
        return true;
      }
    }
    return false;
  }

  // Whether the end of one launch and the start of a later one of its rank stand between, each of
  // which is a fence of its threads except in strict (docs/modes.md).
  bool launched_behind(std::uint64_t earlier, std::uint64_t later) const {
    return t_.policy.boundary != machine::Boundary::strict && rank_of(earlier) == rank_of(later) &&
           number_of(earlier) < number_of(later);
  }

  // From the wait nearest to the second access, backwards to a put that comes behind the first one.
  Cause broken_link() const {
    constexpr int kMostLooks = 64;
    const std::vector<bool> past = h_.before(b_);
    int looks = 0;
    for (EventIndex w = b_; w-- > 0 && looks < kMostLooks;) {
      const Event& wait = h_[w];
      if (!past[w] || !is_read(wait) || !machine::is_strong(wait.order)) continue;
      if (rank_of(wait.label) != rank_of(second_.label)) continue;
      const EventIndex p = h_.source(w);
      if (p == kNoEvent || h_[p].label == wait.label) continue;
      const Event& put = h_[p];
      if (put.step == first_.step) return one_vector(w);
      ++looks;
      const std::vector<bool> of_put = h_.before(p);
      if (!of_put[a_]) continue;
      return link(p, w, of_put);
    }
    return {};
  }

  Cause one_vector(EventIndex w) const {
    note(w);
    return {
        fmt::format("the flag that {} took ({}, step {}) is a part of the very store that holds "
                    "the data: the parts of a vector are stores of their own, so the flag can "
                    "be new while its data are old",
                    who(h_[w].label, t_.program), t_.line(h_[w]), h_[w].step),
        fmt::format("the flag by a store of its own, st.release.sys, after {}", line(first_))};
  }

  Cause link(EventIndex p, EventIndex w, const std::vector<bool>& of_put) const {
    const Event& put = h_[p];
    const Event& wait = h_[w];
    note(p);
    note(w);
    // Since what it is to publish, the putting thread has to fence; a barrier brings others'
    // writes.
    EventIndex entered = a_;
    for (EventIndex i = a_; i < p; ++i) {
      if (h_[i].label == put.label && h_[i].kind == Event::Kind::barrier) entered = i;
    }
    const bool released = machine::releases(put.order) ||
                          fence_between(put.label, entered, p, true) ||
                          launched_behind(first_.label, put.label);
    EventIndex left = b_;
    for (EventIndex i = w; i < b_; ++i) {
      if (h_[i].label == wait.label && h_[i].kind == Event::Kind::barrier) {
        left = i;
        break;
      }
    }
    const bool acquired = machine::acquires(wait.order) ||
                          fence_between(wait.label, w, left, false) ||
                          launched_behind(wait.label, second_.label);
    Cause c;
    const auto add = [](std::string& to, const std::string& text, const char* between) {
      to += (to.empty() ? "" : between) + text;
    };
    if (!released) {
      hint(Hint::What::fence, put.site, false);
      add(c.text,
          fmt::format("the put at {} ({}, step {}) is {}, with no release fence of its thread "
                      "before it, so it publishes nothing",
                      t_.line(put), who(put.label, t_.program), put.step,
                      order_text(put.order, put.scope)),
          "; ");
      for (EventIndex i = a_; i < p; ++i) {
        const Event& e = h_[i];
        const bool own = e.label == put.label;
        if (e.kind != Event::Kind::fence || e.value >= 2 || (!own && !of_put[i])) continue;
        note(i);
        add(c.text,
            own ? fmt::format("the fence at {} {}", t_.line(e),
                              e.order == machine::Order::acquire
                                  ? "is an acquire, which releases nothing"
                                  : "comes before the barrier that brings the data")
                : fmt::format("the fence at {} is {}'s and does not cover it", t_.line(e),
                              who(e.label, t_.program)),
            "; ");
        break;
      }
      add(c.fix,
          fmt::format(".release at {} (or a fence.acq_rel.sys right before it)", t_.line(put)),
          ", and ");
    }
    if (!acquired) {
      hint(Hint::What::fence, wait.site, true);
      add(c.text,
          fmt::format("the wait at {} ({}, step {}) is {}, with no acquire fence after it, so it "
                      "acquires nothing",
                      t_.line(wait), who(wait.label, t_.program), wait.step,
                      order_text(wait.order, wait.scope)),
          "; ");
      add(c.fix,
          fmt::format(".acquire at {} (or a fence.acq_rel.sys right after its loop)",
                      t_.line(wait)),
          ", and ");
    }
    if (c.text.empty() && rank_of(put.label) != rank_of(wait.label)) {
      for (const Event* e : {&put, &wait}) {
        if (e->scope == machine::Scope::sys) continue;
        add(c.text,
            fmt::format("{} has scope .{}, which ends at its GPU", t_.line(*e),
                        machine::name(e->scope)),
            "; ");
        add(c.fix, fmt::format("scope .sys at {}", t_.line(*e)), ", and ");
      }
    }
    return c;
  }

  // -- no chain -----------------------------------------------------------------------------------

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

  Cause no_hand_over() const {
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

  const Telling& t_;
  const History& h_;
  const AccessInfo& first_;
  const AccessInfo& second_;
  EventIndex a_ = kNoEvent, b_ = kNoEvent;
  mutable std::vector<std::size_t> steps_;
  mutable std::vector<Hint> hints_;
};

}  // namespace

Cause cause_of_race(const Telling& telling) {
  if (!telling.finding.has_first || !telling.finding.has_second) return {};
  return Race(telling).told();
}

}  // namespace ringfence::trace
