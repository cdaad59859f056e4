// Why nothing orders two accesses: which put and which wait should have.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "emulator/machine/names.hpp"
#include "emulator/trace/cause_sides.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {
namespace {

using machine::AccessInfo;
using machine::AccessKind;
using machine::Event;
using machine::Missing;

class Race : Sides {
 public:
  explicit Race(const Telling& t) : Sides(t) {}

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
    return cause_of_hand_over(t_);
  }

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
};

}  // namespace

Cause cause_of_race(const Telling& telling) {
  if (!telling.finding.has_first || !telling.finding.has_second) return {};
  return Race(telling).told();
}

}  // namespace ringfence::trace
