// Why a result is not the one that was due: an old value taken for a new one, a term left out, who
// wrote it last.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/trace/cause_parts.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {
namespace {

using machine::Event;

// The first last look of a wait that took what an earlier launch had put, although the launch's own
// came to the same place later.
Cause old_value_taken(const Telling& t) {
  const History& h = t.history;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<EventIndex>> writes;
  for (EventIndex i = 0; i < h.events().size(); ++i) {
    if (is_write(h[i])) writes[{h[i].address.region, h[i].address.offset}].push_back(i);
  }
  for (EventIndex i = 0; i < h.events().size(); ++i) {
    const Event& e = h[i];
    if (!is_read(e) || !machine::is_strong(e.order)) continue;
    const EventIndex p = h.source(i);
    if (p == kNoEvent) continue;
    const LaunchNumber mine = number_of(e.label), its = number_of(h[p].label);
    if (its >= mine || std::get<1>(its) != 1 || std::get<1>(mine) != 1) continue;
    EventIndex due = kNoEvent;
    for (const EventIndex w : writes[{e.address.region, e.address.offset}]) {
      if (w > p && number_of(h[w].label) == mine && rank_of(h[w].label) == rank_of(h[p].label) &&
          h[w].site == h[p].site) {
        due = w;
        break;
      }
    }
    if (due == kNoEvent || h.looks_again(i)) continue;
    const bool calls = std::get<0>(its) != std::get<0>(mine);
    const auto launch = [&](const LaunchNumber& n) {
      return calls ? fmt::format("call {}", std::get<0>(n))
                   : fmt::format("launch {}", std::get<2>(n));
    };
    const std::string at = place(e.address, t.program);
    return {
        fmt::format("{} took at {} (step {}) the value that rank {} wrote to {} in {}, for that "
                    "of {} (which came at step {}): the slot was not cleared in between",
                    who(e.label, t.program), t.line(e), e.step, rank_of(h[p].label), at,
                    launch(its), launch(mine), h[due].step),
        fmt::format("clear all that {} wrote before the buffer is used again, or send a number "
                    "of the call with the data",
                    launch(its)),
        {i, p, due},
        {{Hint::What::clear, 0, false, e.address.region}}};
  }
  return {};
}

std::string written_by(const Telling& t, const machine::AccessInfo& a) {
  const History& h = t.history;
  const auto all = h.writes_of(a.region, a.offset);
  const std::string rank = fmt::format("rank {}", rank_of(a.label));
  const LaunchNumber until = number_of(a.label);
  for (std::size_t k = all.size(); k-- > 0;) {
    const Event& e = h[all[k]];
    if (number_of(e.label) >= until) continue;
    return fmt::format("on {} it was written by {} ({}, step {})", rank, who(e.label, t.program),
                       t.line(e), e.step);
  }
  return fmt::format("on {} nobody wrote it", rank);
}

// What was read before the value that was due had come: nothing keeps the reader behind the write.
Cause read_too_early(const Telling& t, const machine::AccessInfo& a) {
  const History& h = t.history;
  EventIndex read = kNoEvent;
  for (EventIndex i = 0; i < h.events().size(); ++i) {
    if (h[i].label == a.label && is_read(h[i]) && covers(h[i], a.region, a.offset)) read = i;
  }
  if (read == kNoEvent) return {};
  const EventIndex took = h.source(read);
  EventIndex last = kNoEvent;
  for (const EventIndex w : h.writes_of(a.region, a.offset)) {
    if (number_of(h[w].label) < number_of(a.label)) last = w;
  }
  if (last == kNoEvent || last == took || last < read) return {};
  const std::string from =
      took == kNoEvent ? "what was there at first"
                       : fmt::format("what {} had written at {} (step {})",
                                     who(h[took].label, t.program), t.line(h[took]), h[took].step);
  return {fmt::format("{} read {} (step {}), and {} wrote there later, at {} (step {})",
                      who(a.label, t.program), from, h[read].step, who(h[last].label, t.program),
                      t.line(h[last]), h[last].step),
          fmt::format("a signal or a barrier after the write at {} that comes before the read",
                      t.line(h[last])),
          {read, last}};
}

// The write of a result, before whoever read it; kNoEvent: nobody wrote it.
EventIndex written(const Telling& t, const machine::AccessInfo& a) {
  EventIndex last = kNoEvent;
  for (const EventIndex w : t.history.writes_of(a.region, a.offset)) {
    if (number_of(t.history[w].label) < number_of(a.label)) last = w;
  }
  return last;
}

bool of_a_kernel(const Event& e) {
  const schedule::Role role = schedule::unpack(e.label).role;
  return role == schedule::Role::thread || role == schedule::Role::task;
}

// What the thread of a write had read since it wrote there before: the terms, if that is a sum. Of
// stores in a row, the same for all.
std::vector<EventIndex> terms(const History& h, EventIndex write) {
  std::vector<EventIndex> out;
  const Event& w = h[write];
  for (EventIndex i = write; i-- > 0;) {
    const Event& e = h[i];
    if (e.label != w.label) continue;
    if (is_write(e) && e.address.region == w.address.region && !out.empty()) break;
    if (is_read(e) && !machine::is_strong(e.order)) out.push_back(i);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

// The memory of which the last of `reads` read a rank's replica, by its name, and the ranks whose
// replicas of it they read.
struct Replicas {
  std::string memory;
  std::set<unsigned> ranks{};
  EventIndex last = kNoEvent;
};

Replicas replicas(const Telling& t, const std::vector<EventIndex>& reads) {
  Replicas out;
  for (std::size_t k = reads.size(); k-- > 0;) {
    const std::string name = t.program.region_name(t.history[reads[k]].address.region);
    const std::size_t of = name.rfind(" of rank ");
    if (of == std::string::npos || name.starts_with("table of peers")) continue;
    const std::string number = name.substr(of + 9);
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (out.last == kNoEvent) out = {name.substr(0, of), {}, reads[k]};
    if (name.substr(0, of) == out.memory) {
      out.ranks.insert(static_cast<unsigned>(std::stoul(number)));
    }
  }
  return out;
}

bool lacks_terms(const Telling& t) {
  const std::string numbers = t.program.last_mismatch();
  return numbers.find("'s term is missing") != std::string::npos ||
         numbers.find("the other terms are missing") != std::string::npos;
}

// Of a result that lacks terms: where the sum was formed, behind copies of it, and whose replicas
// that thread had read. Empty where it read none, or all.
struct Sum {
  EventIndex write = kNoEvent;
  std::string text;
  std::vector<std::size_t> steps{};
};

Sum sum_of(const Telling& t, EventIndex write) {
  const History& h = t.history;
  constexpr int kMostCopies = 4;
  for (int copies = 0; copies <= kMostCopies; ++copies) {
    const auto reads = terms(h, write);
    const auto same = [&](EventIndex i) { return h[i].value == h[write].value; };
    const auto copied = std::find_if(reads.rbegin(), reads.rend(), same);
    const EventIndex from = copied == reads.rend() ? kNoEvent : h.source(*copied);
    if (from != kNoEvent && of_a_kernel(h[from]) && from < write) {
      write = from;
      continue;
    }
    const Replicas of = replicas(t, reads);
    if (of.last == kNoEvent || of.ranks.size() >= t.program.ranks()) return {};
    // One replica alone may be all that is due, where the difference says nothing else.
    if (of.ranks.size() == 1 && !lacks_terms(t)) return {};
    std::string list;
    for (const unsigned r : of.ranks) list += fmt::format("{}{}", list.empty() ? "" : ", ", r);
    return {
        write,
        fmt::format("the sum was formed by {} at {} (step {}), which had read '{}' of rank{} {} "
                    "(at {}) and of no other rank",
                    who(h[write].label, t.program), t.line(h[write]), h[write].step, of.memory,
                    of.ranks.size() == 1 ? "" : "s", list, t.line(h[of.last])),
        {of.last, write}};
  }
  return {};
}

// "3 of 67 elements mismatch, first [64]": all from there to the end.
bool is_tail(const std::string& numbers) {
  const std::size_t at = numbers.find(" elements mismatch, first [");
  const std::size_t begin = at == std::string::npos ? at : numbers.rfind(": ", at);
  unsigned long wrong = 0, all = 0, first = 0;
  return begin != std::string::npos &&
         std::sscanf(numbers.c_str() + begin, ": %lu of %lu elements mismatch, first [%lu]", &wrong,
                     &all, &first) == 3 &&
         first + wrong == all;
}

// No order and no scope changes what is computed wrongly.
std::string mend_of_value(const Telling& t, const machine::AccessInfo& a) {
  const EventIndex last = written(t, a);
  if (last == kNoEvent) {
    const std::string out =
        "let a thread write it: how the work is divided among blocks and threads leaves it out";
    return is_tail(t.program.last_mismatch())
               ? out + " (it is the end of the memory, as where a division rounds down)"
               : out;
  }
  const Sum sum = sum_of(t, last);
  if (!sum.text.empty()) {
    return fmt::format(
        "add the terms of all ranks at {}: the loop over the ranks around {} ends "
        "early, or there is none",
        t.line(t.history[sum.write]), t.line(t.history[sum.steps.front()]));
  }
  const std::string numbers = t.program.last_mismatch();
  const std::string line = t.line(t.history[last]);
  for (const auto& [word, fix] :
       {std::pair{"'s term is missing", "add the missing rank's term before the store at {}"},
        std::pair{"'s term is added twice", "add that rank's term once before the store at {}"},
        std::pair{"'s own value is there, and the other terms are missing",
                  "add the other ranks' terms before the store at {}"}}) {
    if (numbers.find(word) != std::string::npos) return fmt::format(fmt::runtime(fix), line);
  }
  return fmt::format("what the store at {} computes, or the place that it stores to", line);
}

}  // namespace

Cause cause_of_values(const Telling& telling) {
  const machine::Finding& f = telling.finding;
  Cause c = old_value_taken(telling);
  if (f.kind == machine::FindingKind::replica_mismatch && f.has_first && f.has_second) {
    const std::string writers = written_by(telling, f.first) + ", " + written_by(telling, f.second);
    c.text = c.text.empty() ? writers : c.text + "; " + writers;
  } else if (f.has_second && c.text.empty()) {
    c = read_too_early(telling, f.second);
    if (c.text.empty()) {
      c.text = written_by(telling, f.second);
      const EventIndex last = written(telling, f.second);
      const Sum sum = last != kNoEvent ? sum_of(telling, last) : Sum{};
      if (!sum.text.empty()) {
        c.text += "; " + sum.text;
        c.steps = sum.steps;
      }
    }
  }
  if (c.fix.empty() && f.kind == machine::FindingKind::numeric_mismatch && f.has_second) {
    c.fix = mend_of_value(telling, f.second);
  }
  return c;
}

}  // namespace ringfence::trace
