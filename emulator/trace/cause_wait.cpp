// Why a wait does not end: what was there, who took it away, who has not come.

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "emulator/machine/names.hpp"
#include "emulator/trace/cause_parts.hpp"
#include "emulator/trace/names.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {
namespace {

using machine::Compare;
using machine::Event;
using schedule::AgentStatus;
using schedule::StuckAgent;

class Wait {
 public:
  Wait(const Telling& t, const schedule::Outcome& outcome)
      : t_(t), h_(t.history), outcome_(outcome) {}

  Cause told() {
    for (const StuckAgent& s : outcome_.stuck) {
      if (s.status != AgentStatus::awaiting || s.label != t_.finding.second.label) continue;
      if (s.await.at.region != t_.finding.second.region ||
          s.await.at.offset != t_.finding.second.offset) {
        continue;
      }
      Cause c = told(s);
      c.steps = steps_;
      c.hints = hints_;
      return c;
    }
    return loop();
  }

 private:
  // A loop that reads nothing: what it tests was loaded before it.
  Cause loop() const {
    if (t_.program.last_mismatch().find("come back to the same registers") == std::string::npos) {
      return {};
    }
    EventIndex load = kNoEvent;
    for (EventIndex i = 0; i < h_.events().size(); ++i) {
      if (h_[i].label == t_.finding.second.label && is_read(h_[i])) load = i;
    }
    if (load == kNoEvent || machine::is_strong(h_[load].order)) return {};
    const std::string line = t_.line(h_[load]);
    return {
        fmt::format("the loop loads nothing: what it tests was loaded once, at {} (step {}), by "
                    "a plain load, which a compiler may take out of a loop",
                    line, h_[load].step),
        fmt::format("ld.acquire.sys (a volatile or atomic load) in the loop, for the one at {}",
                    line),
        {load}};
  }

  bool holds(const StuckAgent& s, std::uint64_t value) const { return s.await.wanted.holds(value); }
  std::string place_of(const StuckAgent& s) const { return place(s.await.at, t_.program); }
  std::string self(const StuckAgent& s, const Event& e) const {
    return e.label == s.label ? "this thread itself" : who(e.label, t_.program);
  }

  Cause told(const StuckAgent& s) {
    if (t_.finding.kind == machine::FindingKind::residency) {
      return {"",
              "a grid all of whose blocks are resident at once (fewer blocks, or less shared "
              "memory and fewer registers a block)"};
    }
    if (!t_.program.barrier_name(s.label).text.empty()) return phase(s);
    if (s.await.wanted.condition != nullptr) return {};
    writes_ = h_.writes_of(s.await.at.region, s.await.at.offset);
    // Of accesses that begin elsewhere the value there is not known.
    for (const EventIndex i : writes_) {
      if (h_[i].address.offset != s.await.at.offset) return {};
    }
    if (writes_.empty()) return never_written(s);
    if (holds(s, s.value_there)) return {};
    if (Cause c = was_there(s); !c.text.empty()) return c;
    if (Cause c = means_nothing(s); !c.text.empty()) return c;
    if (Cause c = held_lock(s); !c.text.empty()) return c;
    return too_few(s);
  }

  // An mbarrier's phase in which nobody has arrived is one that nobody has begun.
  Cause phase(const StuckAgent& s) const {
    const schedule::SlotName name = t_.program.barrier_name(s.label);
    unsigned number = 0, lacks = 0, of = 0;
    if (std::sscanf(name.text.c_str(), "phase %u of", &number) != 1 ||
        std::sscanf(name.writer.c_str(), "%u of %u arrivals", &lacks, &of) != 2) {
      return {};
    }
    const std::string line = t_.line(t_.finding.second.site);
    if (lacks < of) {
      return {fmt::format("{} of its {} arrivals have come in this phase", of - lacks, of),
              "let all that its count names arrive in each phase, or init it with the count of "
              "those that do"};
    }
    // Of the first phase there is none before that the wait may have meant.
    if (number == 0) {
      return {"nobody has arrived there at all", "an arrival (or expect_tx and the copy) before"};
    }
    return {fmt::format("nobody has arrived since phase {} was complete: the wait at {} is for a "
                        "phase that nobody has begun",
                        number - 1, line),
            fmt::format("wait at {} for the parity of phase {}, which is {}, if that is the one "
                        "that is due (count the phases of each mbarrier by itself), or arrive "
                        "once more",
                        line, number - 1, (number - 1) % 2)};
  }

  // It could have ended once, and what was there is gone.
  Cause was_there(const StuckAgent& s) const {
    EventIndex good = kNoEvent, bad = kNoEvent;
    for (std::size_t k = 0; k < writes_.size(); ++k) {
      if (!holds(s, h_[writes_[k]].value)) continue;
      good = writes_[k];
      bad = k + 1 < writes_.size() ? writes_[k + 1] : kNoEvent;
    }
    if (good == kNoEvent || bad == kNoEvent) return {};
    steps_ = {good, bad};
    const Event& was = h_[good];
    const Event& gone = h_[bad];
    // Of another call or launch: it need not have found there what the one before left.
    if (number_of(gone.label) != number_of(was.label)) {
      hints_.push_back({Hint::What::clear, 0, false, s.await.at.region});
    }
    // A wait that takes the value: this one, in an earlier round.
    const Compare compare = s.await.wanted.compare;
    if (gone.kind == Event::Kind::rmw && compare == Compare::eq && gone.value > was.value &&
        !by_cas(s)) {
      return {
          fmt::format("it was {} until step {}, when {} added to it at {}: it is overshot to {}",
                      was.value, gone.step, self(s, gone), t_.line(gone), gone.value),
          fmt::format("wait for >= {} at {}, and go on counting from round to round", was.value,
                      t_.line(t_.finding.second.site))};
    }
    if (gone.kind == Event::Kind::rmw) {
      if (gone.label == s.label) return {};
      return {fmt::format("it was {} until step {}, when {} took it ({})", was.value, gone.step,
                          who(gone.label, t_.program), t_.line(gone)),
              "a slot of its own for each that waits"};
    }
    const bool counts = was.kind == Event::Kind::rmw;
    if (counts) {
      return {
          fmt::format("it was {} until step {}, when {} stored {} over it at {}: an arrival that "
                      "had come by then is lost",
                      was.value, gone.step, self(s, gone), gone.value, t_.line(gone)),
          fmt::format("at {} take back by an atomic what was waited for, or go on counting and "
                      "never reset it",
                      t_.line(gone))};
    }
    return {
        fmt::format("it was {} until step {}, when {} stored {} over it at {}, and this wait had "
                    "not looked in between",
                    was.value, gone.step, self(s, gone), gone.value, t_.line(gone)),
        fmt::format("let the flag only grow, from round to round, or store at {} only after an "
                    "answer that it was seen",
                    t_.line(gone))};
  }

  // What a peer sends is what stands for nothing.
  Cause means_nothing(const StuckAgent& s) const {
    const Event& last = h_[writes_.back()];
    if (s.await.wanted.compare != Compare::ne || last.value != s.await.wanted.value ||
        last.kind != Event::Kind::write || rank_of(last.label) == rank_of(s.label)) {
      return {};
    }
    steps_ = {writes_.back()};
    return {fmt::format("{} sent {} there at {} (step {}), which is the value that the wait takes "
                        "for \"nothing has come\"",
                        who(last.label, t_.program), last.value, t_.line(last), last.step),
            fmt::format("send another value in place of {} (of a float -0.0 for +0.0), or a flag "
                        "beside the data",
                        last.value)};
  }

  bool by_cas(const StuckAgent& s) const { return s.await.by_rmw; }

  // Taken by a compare-and-swap, and not given back.
  Cause held_lock(const StuckAgent& s) const {
    const Event& last = h_[writes_.back()];
    if (!by_cas(s) || s.await.wanted.compare != Compare::eq || s.await.wanted.value != 0 ||
        last.kind != Event::Kind::rmw || last.old_value != 0) {
      return {};
    }
    const bool signals = rank_of(last.label) == rank_of(s.label) && last.label == s.label;
    if (signals) {
      return {fmt::format("its own signal of step {} ({}) is still there: nobody has taken it",
                          last.step, t_.line(last)),
              "let every rank come to this barrier as often as the others, or wait until its slot "
              "is free again by other means"};
    }
    steps_ = {writes_.back()};
    std::string then = "has ended without giving it back";
    for (const StuckAgent& other : outcome_.stuck) {
      if (other.label != last.label) continue;
      then = other.status == AgentStatus::awaiting
                 ? fmt::format("itself waits for {}", place(other.await.at, t_.program))
                 : "itself cannot go on";
    }
    return {fmt::format("{} took it at {} (step {}), and {}", who(last.label, t_.program),
                        t_.line(last), last.step, then),
            fmt::format("a release of it on every way that {} can take after {}",
                        who(last.label, t_.program), t_.line(last))};
  }

  Cause too_few(const StuckAgent& s) const {
    const Event& last = h_[writes_.back()];
    const std::string writer = t_.program.slot_writer(s.await.at, s.await.wanted);
    // A store that took arrivals away.
    for (std::size_t k = writes_.size(); k-- > 1;) {
      const Event& e = h_[writes_[k]];
      const Event& before = h_[writes_[k - 1]];
      if (e.kind != Event::Kind::write || before.kind != Event::Kind::rmw ||
          e.value >= before.value) {
        continue;
      }
      steps_ = {writes_[k - 1], writes_[k]};
      return {
          fmt::format("{} stored {} over {} at {} (step {}), and what had arrived by then is "
                      "lost",
                      self(s, e), e.value, before.value, t_.line(e), e.step),
          fmt::format("set it back where nobody can have arrived yet, or by an atomic that takes "
                      "away what was waited for, not at {}",
                      t_.line(e))};
    }
    std::string text = fmt::format("{} was put last, by {} at {} (step {})", last.value,
                                   self(s, last), t_.line(last), last.step);
    if (const std::string note = t_.program.launch_note(s.label); !note.empty()) {
      return {text + ", and " + note, "the same grid on every rank, or a wait for those there are"};
    }
    return {text,
            fmt::format("let {} put {} {} there on every way, or wait at {} for no more",
                        writer.empty() ? "whoever signals" : writer.substr(0, writer.find(',')),
                        name(s.await.wanted.compare), s.await.wanted.value,
                        t_.line(t_.finding.second.site))};
  }

  Cause never_written(const StuckAgent& s) const {
    const std::string nobody = "nobody has written there";
    if (const std::string note = t_.program.launch_note(s.label); !note.empty()) {
      return {nobody + ": " + note, "the same grid on every rank, or a wait for those there are"};
    }
    // Another rank whose threads have all ended, and who has signalled nothing.
    const std::string writer = t_.program.slot_writer(s.await.at, s.await.wanted);
    unsigned rank = 0;
    if (std::sscanf(writer.c_str(), "rank %u, which has signalled nothing", &rank) == 1) {
      const Event* last = nullptr;
      for (const Event& e : h_.events()) {
        if (rank_of(e.label) == rank && machine::is_step(e.kind)) last = &e;
      }
      std::string text = fmt::format("{}, and rank {} has signalled nothing at all", nobody, rank);
      const bool stuck =
          std::any_of(outcome_.stuck.begin(), outcome_.stuck.end(), [&](const StuckAgent& o) {
            return rank_of(o.label) == rank && o.status != AgentStatus::joining;
          });
      if (!stuck) {
        text += last == nullptr ? ": its kernel ended without an access"
                                : fmt::format(": its kernel has ended");
      }
      return {text,
              fmt::format("rank {} has to come to this barrier, too, also where it has nothing "
                          "to do",
                          rank)};
    }
    return {nobody,
            fmt::format("a put of what it waits for at {}, where its signaller comes on every "
                        "way, or no wait for it",
                        place_of(s))};
  }

  const Telling& t_;
  const History& h_;
  const schedule::Outcome& outcome_;
  std::vector<EventIndex> writes_;
  mutable std::vector<std::size_t> steps_;
  mutable std::vector<Hint> hints_;
};

}  // namespace

Cause cause_of_divergence(const Telling& t) {
  const machine::Finding& f = t.finding;
  if (!f.has_first || !f.has_second) return {};
  const std::string here = t.line(f.second.site), other = t.line(f.first.site);
  const std::string numbers = t.program.last_mismatch();
  const bool exited = numbers.find("has exited") != std::string::npos;
  if (!exited && numbers.find("comes to it from") == std::string::npos) return {};
  return {fmt::format("{} is at the barrier of all threads at {}, and {} {} {}",
                      who(f.second.label, t.program), here, who(f.first.label, t.program),
                      exited ? "has exited at" : "comes to it from another one, at", other),
          fmt::format("one __syncthreads() that all threads of the block come to, outside of the "
                      "branch, or at {} a barrier of the threads that do (bar.sync ID, COUNT)",
                      here)};
}

Cause cause_of_left(const Telling& t) {
  const History& h = t.history;
  const machine::AccessInfo& a = t.finding.second;
  const auto writes = h.writes_of(a.region, a.offset);
  if (writes.empty()) return {};
  const Event& put = h[writes.back()];
  Cause c;
  c.steps = {writes.back()};
  c.text = fmt::format("{} put {} there last, at {} (step {}), and nobody has taken it",
                       who(put.label, t.program), put.value, t.line(put), put.step);
  // Somebody who looked in vain, and never again.
  EventIndex look = kNoEvent;
  for (EventIndex i = 0; i < h.events().size(); ++i) {
    const Event& e = h[i];
    if (is_read(e) && machine::is_strong(e.order) && covers(e, a.region, a.offset) &&
        e.label != put.label) {
      look = i;
    }
  }
  if (look == kNoEvent || h[look].step > put.step || h[look].kind == Event::Kind::rmw) return c;
  c.steps.push_back(look);
  c.text +=
      fmt::format(": {} looked for the last time at {} (step {}), found {}, and gave up",
                  who(h[look].label, t.program), t.line(h[look]), h[look].step, h[look].value);
  c.fix = fmt::format(
      "keep waiting at {}, or trap: after a time-out the late signal stays set, and the data it "
      "announces is never used",
      t.line(h[look]));
  return c;
}

Cause cause_of_wait(const Telling& telling, const schedule::Outcome& outcome) {
  return Wait(telling, outcome).told();
}

}  // namespace ringfence::trace
