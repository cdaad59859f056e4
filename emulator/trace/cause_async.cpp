// What runs beside its thread: asynchronous copies, and the barriers that tell of an end or an
// arrival.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "emulator/trace/cause_parts.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {
namespace {

using machine::AccessInfo;
using machine::AccessKind;
using machine::Event;

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

// An event by which a thread has seen a phase of an mbarrier: the look that let it go on.
bool saw_phase(const Telling& t, EventIndex i) {
  const History& h = t.history;
  if (!is_read(h[i]) || !has(t.program.site_name(h[i].site), "mbarrier.t")) return false;
  for (EventIndex j = i + 1; j < h.events().size(); ++j) {
    if (h[j].label == h[i].label) return h[j].kind == Event::Kind::barrier;
  }
  return false;
}

class Copy {
 public:
  Copy(const Telling& t, const AccessInfo& copy, const AccessInfo& other)
      : t_(t), h_(t.history), first_(copy), second_(other) {
    what_ = t_.program.site_name(first_.site);
    copy_ = t_.line(first_.site);
    other_ = t_.line(second_.site);
    reader_ = who(second_.label, t_.program);
    // What comes first in the run may have no step of its own.
    until_ = std::max(first_.step, second_.step);
  }

  Cause told() {
    Cause c = cause();
    c.hints = hints_;
    return c;
  }

  // Of copies whose end an mbarrier tells: either the reader has not waited for it, or it still
  // reads what an earlier one brought.
  Cause of_phase() const {
    const bool reads = second_.kind == AccessKind::read && first_.label != second_.label;
    const std::size_t seen = reads ? phases_seen() : 0;
    const std::size_t issued = copies_issued();
    if (seen > 0 && issued > seen) {
      return {fmt::format("{} issues copy {} into this place, and {} has waited for the end of "
                          "only {} so far: at {} it still reads what that one brought, and nothing "
                          "keeps the next copy back until it has",
                          copy_, issued, reader_, seen, other_),
              fmt::format("an `empty` mbarrier: {}'s block arrives there after {}, and the thread "
                          "that issues the copies waits for its phase before {}",
                          reader_, other_, copy_)};
    }
    std::string fix =
        fmt::format("a wait for the phase of its mbarrier (mbarrier.try_wait) before {}", other_);
    if (seen > 0) {
      return {fmt::format("{} only begins a bulk copy, and the wait of {} before {} went on by an "
                          "earlier phase of an mbarrier",
                          copy_, reader_, other_),
              fix +
                  ": that of this copy's mbarrier, by the parity that is due (count the phases "
                  "of each mbarrier by itself)"};
    }
    return {fmt::format("{} only begins a bulk copy, and {} has not waited for its end before {}",
                        copy_, reader_, other_),
            fix};
  }

 private:
  Cause cause() {
    const bool to_global = has(what_, "global.shared");
    const bool bulk = has(what_, ".bulk");
    const bool group = has(what_, "bulk_group") || has(what_, "async.wait") || to_global;
    waits(bulk ? Hint::What::bulk_wait : Hint::What::copy_wait);
    if (bulk && group) return of_group();
    if (bulk) return of_phase();
    return {fmt::format("{} only begins a copy, and nobody has waited for its end", copy_),
            fmt::format("cp.async.wait_group 0 in {} after {}, and a barrier if others read it",
                        who(first_.label, t_.program), copy_)};
  }

  // Where a wait for it may be missing: before the thread that issued it goes on to tell others.
  void waits(Hint::What wait) {
    for (const Event& e : h_.events()) {
      if (e.label != first_.label || e.step <= first_.step || !machine::is_step(e.kind)) continue;
      if (e.kind == Event::Kind::barrier || (is_write(e) && machine::is_strong(e.order)) ||
          e.step >= second_.step) {
        if (e.kind != Event::Kind::barrier) hints_.push_back({wait, e.site, false});
        break;
      }
    }
    if (first_.label == second_.label) hints_.push_back({wait, second_.site, false});
  }

  Cause of_group() const {
    const bool writes = first_.kind != AccessKind::read;
    return {fmt::format("{} only begins a bulk copy, whose {} is not over: nobody has waited for "
                        "it{}",
                        copy_, writes ? "write" : "read",
                        writes ? " (a wait_group.read waits for what it reads alone)" : ""),
            fmt::format("cp.async.bulk.wait_group{} 0 after {} in {}, which issued it, before {}",
                        writes ? "" : ".read", copy_, who(first_.label, t_.program),
                        writes ? "it signals" : "what it reads is written again")};
  }

  // By the thread of the second's block that has seen the most before it.
  std::size_t phases_seen() const {
    const Team team = team_of(second_.label);
    std::map<std::uint64_t, std::size_t> seen;
    std::size_t most = 0;
    const std::uint32_t until = second_.step != 0 ? second_.step : until_;
    for (EventIndex i = 0; i < h_.events().size() && h_[i].step < until; ++i) {
      if (team_of(h_[i].label) != team || !saw_phase(t_, i)) continue;
      most = std::max(most, ++seen[h_[i].label]);
    }
    return most;
  }

  // By the thread of the copy from its line, before both have been made.
  std::size_t copies_issued() const {
    std::set<std::uint32_t> steps;
    for (const Event& e : h_.events()) {
      if (e.label == first_.label && e.step <= until_ && is_read(e) &&
          has(t_.program.site_name(e.site), ".bulk") && t_.line(e) == copy_) {
        steps.insert(e.step);
      }
    }
    return steps.size();
  }

  const Telling& t_;
  const History& h_;
  const AccessInfo& first_;
  const AccessInfo& second_;
  std::string what_, copy_, other_, reader_;
  std::uint32_t until_ = 0;
  std::vector<Hint> hints_;
};

// -- barriers that do not order -------------------------------------------------------------------

class Phase {
 public:
  explicit Phase(const Telling& t)
      : t_(t), h_(t.history), first_(t.finding.first), second_(t.finding.second) {
    a_ = h_.find(first_);
    b_ = h_.find(second_);
  }

  Cause told() const {
    if (a_ == kNoEvent || b_ == kNoEvent || a_ > b_) return {};
    if (Cause c = of_mbarrier(); !c.text.empty()) return c;
    return of_cluster();
  }

 private:
  // The last phase that the second's thread saw before it, if an arrival of the first's thread had
  // completed that phase.
  Cause of_mbarrier() const {
    EventIndex w = b_;
    while (w-- > 0) {
      if (h_[w].label == second_.label && saw_phase(t_, w)) break;
    }
    if (w >= b_ || h_[w].from_label != first_.label) return {};
    const Event& wait = h_[w];
    const std::string line = t_.line(first_.site);
    if (wait.from_step < first_.step) {
      // A place that is written round after round: then what is missing is the way back.
      for (const EventIndex i : h_.writes_of(first_.region, first_.offset)) {
        if (h_[i].label == first_.label && h_[i].step < wait.from_step) return {};
      }
      return {fmt::format("{} comes after the arrival at the mbarrier (step {}) by which the wait "
                          "at {} goes on: an arrival publishes only what its thread did before it",
                          line, wait.from_step, t_.line(wait)),
              fmt::format("the mbarrier.arrive after {}", line),
              {w}};
    }
    return weak_link(w);
  }

  Cause weak_link(EventIndex w) const {
    const Event& wait = h_[w];
    const std::string text = t_.program.site_name(wait.site);
    const bool far = team_of(first_.label) != team_of(second_.label);
    Cause c;
    const auto add = [&](const std::string& why, const std::string& mend) {
      c.text += (c.text.empty() ? "" : "; ") + why;
      c.fix += (c.fix.empty() ? "" : ", and ") + mend;
    };
    for (const auto& [name, place] : arrivals()) {
      if (has(name, ".relaxed")) {
        add(fmt::format("the arrival at {} is .relaxed, so it publishes nothing", place),
            fmt::format(".release at {} (the default of mbarrier.arrive)", place));
      } else if (far && has(name, ".cta.")) {
        add(fmt::format("the arrival at {} has scope .cta, which ends at its block", place),
            fmt::format("scope .cluster at {}", place));
      }
    }
    if (has(text, ".relaxed")) {
      add(fmt::format("the wait at {} is .relaxed, so it acquires nothing", t_.line(wait)),
          fmt::format(".acquire at {} (the default of mbarrier.try_wait)", t_.line(wait)));
    } else if (far && has(text, ".cta.")) {
      add(fmt::format("the wait at {} has scope .cta, which ends at its block", t_.line(wait)),
          fmt::format("scope .cluster at {}", t_.line(wait)));
    }
    if (!c.text.empty()) c.steps = {w};
    return c;
  }

  // The kernels' arrivals: no event tells which of them one was.
  std::vector<std::pair<std::string, std::string>> arrivals() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (std::uint16_t site = 0; site < 0xffff; ++site) {
      const std::string name = t_.program.site_name(site);
      if (name.starts_with("site ")) break;
      if (!has(name, "mbarrier.arrive")) continue;
      const std::pair entry{name, t_.line(site)};
      if (std::find(out.begin(), out.end(), entry) == out.end()) out.push_back(entry);
    }
    return out;
  }

  // Two blocks that come out of one barrier of their cluster.
  Cause of_cluster() const {
    const Team of = team_of(first_.label), due = team_of(second_.label);
    if (of == due || of.rank != due.rank || of.call != due.call || of.group != due.group) return {};
    for (EventIndex i = a_ + 1; i < b_; ++i) {
      const Event& e = h_[i];
      if (e.kind != Event::Kind::barrier || e.label != first_.label) continue;
      for (EventIndex j = a_ + 1; j < b_; ++j) {
        if (h_[j].kind != Event::Kind::barrier || h_[j].label != second_.label ||
            h_[j].step != e.step) {
          continue;
        }
        const std::string line = t_.line(first_.site);
        return {fmt::format("both blocks pass the cluster's barrier between the two accesses (step "
                            "{}), and it does not order them: the barrier.cluster.arrive of block "
                            "{} is .relaxed, or stands before {}",
                            e.step, of.block, line),
                fmt::format("barrier.cluster.arrive without .relaxed (.release is its default), "
                            "after {}",
                            line),
                {i, j}};
      }
    }
    return {};
  }

  const Telling& t_;
  const History& h_;
  const AccessInfo& first_;
  const AccessInfo& second_;
  EventIndex a_ = kNoEvent, b_ = kNoEvent;
};

}  // namespace

Cause cause_of_copy(const Telling& telling) {
  return Copy(telling, telling.finding.first, telling.finding.second).told();
}

Cause cause_of_refill(const Telling& telling) {
  const AccessInfo& copy = telling.finding.second;
  const AccessInfo& read = telling.finding.first;
  const std::string what = telling.program.site_name(copy.site);
  if (!has(what, ": cp.async.bulk") || !has(what, "mbarrier::") || copy.kind == AccessKind::read ||
      read.kind != AccessKind::read || copy.label == read.label) {
    return {};
  }
  return Copy(telling, copy, read).of_phase();
}

Cause cause_of_phase(const Telling& telling) { return Phase(telling).told(); }

}  // namespace ringfence::trace
