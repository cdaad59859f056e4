#include "emulator/trace/story_steps.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "emulator/schedule/label.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;
using schedule::AgentLabel;
using schedule::Role;

// Where a launch stands on its rank's stream.
std::tuple<int, int, int, int> launch_of(std::uint64_t label) {
  const AgentLabel l = schedule::unpack(label);
  const int role = l.role == Role::product ? 0 : l.role == Role::consumer ? 2 : 1;
  return {l.rank, l.group, l.call, role};
}

bool is_strong(const Event& e) {
  return machine::is_step(e.kind) && (!machine::is_access(e.kind) || machine::is_strong(e.order));
}

// The run as a graph, walked backwards.
class Past {
 public:
  explicit Past(std::span<const Event> events) : events_(events) {
    std::unordered_map<std::uint64_t, std::size_t> last;
    before_.assign(events.size(), kNone);
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& e = events[i];
      if (e.kind == Event::Kind::dependency) {
        if (auto it = last.find(e.from_label); it != last.end()) {
          depends_[e.label].push_back(it->second);
        }
      }
      // Launches are told apart by their labels.
      if (!machine::is_step(e.kind)) continue;
      at_step_[e.step].push_back(i);
      if (auto it = last.find(e.label); it != last.end()) before_[i] = it->second;
      last[e.label] = i;
    }
    for (const auto& [label, i] : last) launch_ends_[launch_of(label)].push_back(i);
  }

  static constexpr std::size_t kNone = ~std::size_t{0};

  // The shortest chain from the event at `from` to the one at `to`; empty if there is none. Only
  // the ends of links between agents are in it, and fences between them.
  std::vector<std::size_t> chain(std::size_t from, std::size_t to) {
    std::vector<std::size_t> next(events_.size(), kNone);  // towards `to`
    std::deque<std::size_t> open{to};
    next[to] = to;
    while (!open.empty() && next[from] == kNone) {
      const std::size_t i = open.front();
      open.pop_front();
      for_predecessors(i, [&](std::size_t p) {
        if (next[p] != kNone) return;
        next[p] = i;
        open.push_back(p);
      });
    }
    if (next[from] == kNone) return {};
    std::vector<std::size_t> links{from};
    for (std::size_t i = from; i != to;) {
      const std::size_t j = next[i];
      const bool between = events_[i].label != events_[j].label;
      if (between || events_[i].kind == Event::Kind::fence) links.push_back(i);
      if (between || j == to) links.push_back(j);
      i = j;
    }
    return links;
  }

  const std::vector<std::size_t>* at_step(std::uint32_t step) const {
    auto it = at_step_.find(step);
    return it == at_step_.end() ? nullptr : &it->second;
  }

 private:
  template <class F>
  void for_predecessors(std::size_t i, F&& f) {
    const Event& e = events_[i];
    if (before_[i] != kNone) {
      f(before_[i]);
    } else {
      for_earlier_launch(launch_of(e.label), f);
      // Edges of a task graph all enter an operation before its first step.
      if (auto it = depends_.find(e.label); it != depends_.end()) {
        for (std::size_t j : it->second) f(j);
      }
    }
    if (e.kind == Event::Kind::barrier) {
      for (std::size_t j : at_step_[e.step]) {
        if (j != i) f(j);
      }
    }
    if (e.from_step != 0 && machine::is_strong(e.order)) {
      if (auto it = at_step_.find(e.from_step); it != at_step_.end()) {
        for (std::size_t j : it->second) {
          if (machine::is_strong(events_[j].order) && events_[j].kind != Event::Kind::read) f(j);
        }
      }
    }
  }

  // A launch is entered from all ends of the one before it on the stream.
  template <class F>
  void for_earlier_launch(const std::tuple<int, int, int, int>& launch, F&& f) {
    if (!entered_.insert(launch).second) return;
    auto it = launch_ends_.lower_bound(launch);
    if (it == launch_ends_.begin()) return;
    --it;
    if (std::get<0>(it->first) != std::get<0>(launch) ||
        std::get<1>(it->first) != std::get<1>(launch)) {
      return;
    }
    for (std::size_t i : it->second) f(i);
  }

  std::span<const Event> events_;
  std::vector<std::size_t> before_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> depends_;
  std::map<std::uint32_t, std::vector<std::size_t>> at_step_;
  std::map<std::tuple<int, int, int, int>, std::vector<std::size_t>> launch_ends_;
  std::set<std::tuple<int, int, int, int>> entered_;
};

std::size_t find_event(const Past& past, std::span<const Event> events,
                       const machine::AccessInfo& a) {
  const auto* at = past.at_step(a.step);
  if (at == nullptr) return Past::kNone;
  for (std::size_t i : *at) {
    if (events[i].address.region == a.region && events[i].address.offset <= a.offset &&
        a.offset < events[i].address.offset + std::max(1u, events[i].bytes)) {
      return i;
    }
  }
  return at->front();
}

class Selection {
 public:
  Selection(std::span<const Event> events, std::size_t limit) : events_(events), limit_(limit) {}

  void add(std::size_t i) {
    if (i == Past::kNone || chosen_.size() >= limit_) return;
    // The elements of a vector access share a step: one line tells them all.
    if (steps_.insert({events_[i].step, events_[i].label}).second) chosen_.insert(i);
  }
  // The last `count` events before `end` and from `begin` on that satisfy `wanted`.
  template <class F>
  void add_last(std::size_t begin, std::size_t end, std::size_t count, F&& wanted) {
    for (std::size_t i = end; i-- > begin && count > 0;) {
      if (!wanted(events_[i])) continue;
      add(i);
      --count;
    }
  }
  std::vector<std::size_t> take() const { return {chosen_.begin(), chosen_.end()}; }

 private:
  std::span<const Event> events_;
  std::size_t limit_;
  std::set<std::size_t> chosen_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> steps_;
};

}  // namespace

std::vector<BareLink> bare_links(const schedule::Outcome& outcome,
                                 const machine::Finding& finding) {
  const std::span<const Event> events(outcome.history);
  if (!finding.has_first || !finding.has_second) return {};
  Past past(events);
  const std::size_t first = find_event(past, events, finding.first);
  const std::size_t second = find_event(past, events, finding.second);
  if (first == Past::kNone || second == Past::kNone || first >= second) return {};
  const auto fences = [&](std::uint64_t label) {
    return std::any_of(events.begin(), events.end(), [&](const Event& e) {
      return e.label == label && e.kind == Event::Kind::fence;
    });
  };
  const auto chain = past.chain(first, second);
  std::vector<BareLink> out;
  for (std::size_t k = 0; k + 1 < chain.size(); ++k) {
    const Event& a = events[chain[k]];
    const Event& b = events[chain[k + 1]];
    if (a.label == b.label || b.from_step != a.step) continue;
    const BareLink link{chain[k], chain[k + 1], !machine::releases(a.order) && !fences(a.label),
                        !machine::acquires(b.order) && !fences(b.label)};
    if (link.no_release || link.no_acquire) out.push_back(link);
  }
  return out;
}

std::vector<std::size_t> steps_that_matter(const schedule::Outcome& outcome,
                                           const machine::Finding& finding, std::size_t limit,
                                           std::span<const std::size_t> cause) {
  const std::span<const Event> events(outcome.history);
  Past past(events);
  Selection selection(events, limit);
  const std::size_t end = events.size();
  const std::size_t first =
      finding.has_first ? find_event(past, events, finding.first) : Past::kNone;
  const std::size_t second =
      finding.has_second ? find_event(past, events, finding.second) : Past::kNone;
  selection.add(second);
  selection.add(first);
  for (const std::size_t i : cause) selection.add(i);

  if (first != Past::kNone && second != Past::kNone && first < second) {
    const auto chain = past.chain(first, second);
    for (std::size_t i : chain) selection.add(i);
    if (chain.empty() && cause.empty()) {
      // What the first did to publish it, and the second to take it in.
      const auto strong_of = [&](std::uint64_t label) {
        return [label](const Event& e) { return e.label == label && is_strong(e); };
      };
      selection.add_last(first, second, limit / 4, strong_of(finding.first.label));
      selection.add_last(0, second, limit / 4, strong_of(finding.second.label));
    }
  }
  selection.add_last(0, end, limit / 3, [](const Event& e) { return e.stale; });

  const auto at_place = [](std::uint32_t region, std::uint64_t offset) {
    return [=](const Event& e) {
      return machine::is_access(e.kind) && e.address.region == region &&
             e.address.offset <= offset && offset < e.address.offset + std::max(1u, e.bytes);
    };
  };
  for (const schedule::StuckAgent& s : outcome.stuck) {
    if (s.status != schedule::AgentStatus::awaiting) continue;
    selection.add_last(0, end, 3, at_place(s.await.at.region, s.await.at.offset));
  }
  if (finding.has_second != finding.has_first) {
    const machine::AccessInfo& a = finding.has_second ? finding.second : finding.first;
    selection.add_last(0, end, limit / 2, at_place(a.region, a.offset));
  }
  return selection.take();
}

}  // namespace ringfence::trace
