#include "emulator/trace/graph.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "emulator/schedule/label.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;
using machine::Scope;
using schedule::AgentLabel;
using schedule::Role;

// Whether a scope at one agent includes another. Operations of a task graph are blocks of their
// own; clusters are not in a label, so two blocks of a rank share only the GPU.
bool reaches(Scope s, std::uint64_t from, std::uint64_t to) {
  if (from == to) return true;
  const AgentLabel a = schedule::unpack(from), b = schedule::unpack(to);
  if (a.rank != b.rank) return s == Scope::sys;
  const bool same_block = a.role == b.role && a.role != Role::task && a.call == b.call &&
                          a.group == b.group && a.block == b.block;
  return same_block || s >= Scope::gpu;
}

// Both strong, and each one's scope contains the other's thread (8.7).
bool morally_strong(const Event& a, const Event& b) {
  if (a.label == b.label) return true;
  return machine::is_strong(a.order) && machine::is_strong(b.order) &&
         reaches(a.scope, a.label, b.label) && reaches(b.scope, b.label, a.label);
}

bool writes(const Event& e) { return e.kind == Event::Kind::write || e.kind == Event::Kind::rmw; }
bool reads(const Event& e) { return machine::is_access(e.kind) && e.kind != Event::Kind::write; }

bool overlap(const Event& a, const Event& b) {
  return a.address.region == b.address.region &&
         a.address.offset < b.address.offset + std::max(1u, b.bytes) &&
         b.address.offset < a.address.offset + std::max(1u, a.bytes);
}

// The first operation of a release pattern, carried by a message until an acquire takes it in.
struct Entry {
  EventIndex at;
  Scope scope;
  friend bool operator==(const Entry&, const Entry&) = default;
};
using Place = std::pair<machine::RegionId, std::uint64_t>;

struct Parked {
  Entry entry;
  Place place;
};

struct Agent {
  EventIndex last = kNoEvent;
  std::array<EventIndex, machine::kScopes> fence;  // the last fence of each scope
  std::map<Place, std::vector<Entry>> released;    // its own earlier release writes to a location
  std::vector<Parked> parked;                      // what relaxed reads met
  Agent() { fence.fill(kNoEvent); }
};

class Builder {
 public:
  Builder(std::span<const Event> events, const machine::Policy& policy)
      : events_(events), fenced_launches_(policy.boundary != machine::Boundary::strict) {
    graph_.previous.assign(events.size(), kNoEvent);
    graph_.source.assign(events.size(), kNoEvent);
    entries_.resize(events.size());
  }

  Graph build() {
    for (EventIndex i = 0; i < events_.size(); ++i) add(i);
    return std::move(graph_);
  }

 private:
  void add(EventIndex i) {
    const Event& e = events_[i];
    Agent& agent = agents_[e.label];
    graph_.previous[i] = agent.last;
    switch (e.kind) {
      case Event::Kind::dependency:
        if (auto it = agents_.find(e.from_label); it != agents_.end()) {
          if (it->second.last != kNoEvent) graph_.depends.emplace_back(it->second.last, i);
        }
        break;
      case Event::Kind::launch:
        // stream and coherent: fence.acq_rel.sys at a launch's start and at its end.
        if (fenced_launches_) set_fence(agent, Scope::sys, i);
        break;
      case Event::Kind::end_launch:
        if (fenced_launches_) take_parked(agent, i, Scope::sys);
        break;
      case Event::Kind::fence:
        if (e.value >= 2) break;  // proxy fences
        if (e.order != machine::Order::release) take_parked(agent, i, e.scope);
        if (e.value == 1) fence_sc(i);
        if (e.order != machine::Order::acquire) set_fence(agent, e.scope, i);
        break;
      case Event::Kind::barrier:
        break;
      default:
        access(agent, i);
    }
    agent.last = i;
  }

  void access(Agent& agent, EventIndex i) {
    const Event& e = events_[i];
    std::vector<Entry> carried;
    if (reads(e)) {
      const EventIndex from = find_source(e);
      graph_.source[i] = from;
      if (from != kNoEvent && machine::is_strong(e.order) && morally_strong(events_[from], e)) {
        carried = entries_[from];
        read_entries(agent, i, carried);
      }
      if (machine::acquires(e.order)) take_parked_at(agent, i);
    }
    if (writes(e)) {
      // A release pattern: release write; release write and a later strong write of the thread to
      // the location; fence and a later strong write. A read-modify-write continues the patterns
      // of what it read (8.9.1).
      if (machine::is_strong(e.order)) {
        auto& mine = entries_[i];
        if (e.kind == Event::Kind::rmw) mine = carried;
        for (const EventIndex f : agent.fence) {
          if (f != kNoEvent) mine.push_back({f, fence_scope(f)});
        }
        auto& released = agent.released[place(e)];
        if (machine::releases(e.order)) released = {{i, e.scope}};
        mine.insert(mine.end(), released.begin(), released.end());
      }
      at_step_[e.step].push_back(i);
    }
  }

  Scope fence_scope(EventIndex f) const {
    return events_[f].kind == Event::Kind::launch ? Scope::sys : events_[f].scope;
  }

  // An acquire takes in what its message carries, a relaxed read parks it for a later one.
  void read_entries(Agent& agent, EventIndex i, const std::vector<Entry>& carried) {
    const Event& e = events_[i];
    for (const Entry& entry : carried) {
      if (machine::acquires(e.order) && meet(entry, i, e.scope)) {
        synchronise(entry.at, i);
      } else if (events_[entry.at].label != e.label && agent.parked.size() < kMostParked) {
        agent.parked.push_back({entry, place(e)});
      }
    }
  }

  bool meet(const Entry& entry, EventIndex i, Scope scope) const {
    const std::uint64_t from = events_[entry.at].label, to = events_[i].label;
    return reaches(entry.scope, from, to) && reaches(scope, to, from);
  }

  void take_parked(Agent& agent, EventIndex i, Scope scope) {
    std::erase_if(agent.parked, [&](const Parked& p) {
      if (!meet(p.entry, i, scope)) return false;
      synchronise(p.entry.at, i);
      return true;
    });
  }
  void take_parked_at(Agent& agent, EventIndex i) {
    std::erase_if(agent.parked, [&](const Parked& p) {
      if (p.place != place(events_[i]) || !meet(p.entry, i, events_[i].scope)) return false;
      synchronise(p.entry.at, i);
      return true;
    });
  }

  // Each later fence.sc is ordered after the earlier morally strong ones (Fence-SC).
  void fence_sc(EventIndex i) {
    for (const auto& [label, f] : last_sc_) {
      if (reaches(events_[f].scope, label, events_[i].label) &&
          reaches(events_[i].scope, events_[i].label, label)) {
        synchronise(f, i);
      }
    }
    last_sc_[events_[i].label] = i;
  }

  // A wider fence does for the narrower ones.
  static void set_fence(Agent& agent, Scope scope, EventIndex i) {
    for (int s = 0; s <= static_cast<int>(scope); ++s)
      agent.fence[static_cast<std::size_t>(s)] = kNoEvent;
    agent.fence[static_cast<std::size_t>(scope)] = i;
  }

  void synchronise(EventIndex from, EventIndex to) {
    if (events_[from].label == events_[to].label) return;
    if (!graph_.synchronises.empty() && graph_.synchronises.back() == Graph::Edge{from, to}) return;
    graph_.synchronises.emplace_back(from, to);
  }

  EventIndex find_source(const Event& e) const {
    const auto it = at_step_.find(e.from_step);
    if (e.from_step == 0 || it == at_step_.end()) return kNoEvent;
    for (EventIndex i : it->second) {
      if (overlap(events_[i], e)) return i;
    }
    return kNoEvent;
  }

  static Place place(const Event& e) { return {e.address.region, e.address.offset}; }

  static constexpr std::size_t kMostParked = 4096;

  std::span<const Event> events_;
  bool fenced_launches_;
  Graph graph_;
  std::vector<std::vector<Entry>> entries_;
  std::unordered_map<std::uint64_t, Agent> agents_;
  std::unordered_map<std::uint32_t, std::vector<EventIndex>> at_step_;
  std::map<std::uint64_t, EventIndex> last_sc_;
};

}  // namespace

LaunchKey launch_of(std::uint64_t label) {
  const AgentLabel l = schedule::unpack(label);
  const int phase = l.role == Role::product ? 0 : l.role == Role::consumer ? 2 : 1;
  return {l.rank, l.call, static_cast<std::uint8_t>(phase)};
}

Graph make_graph(std::span<const Event> events, const machine::Policy& policy) {
  return Builder(events, policy).build();
}

std::vector<EventIndex> past(std::span<const Event> events, const Graph& graph, EventIndex of) {
  std::vector<bool> in(events.size());
  std::vector<EventIndex> open{of};
  std::set<LaunchKey> entered;
  std::set<std::tuple<LaunchKey, std::uint64_t, std::uint16_t>> entered_on_stream;
  std::map<LaunchKey, std::map<std::uint64_t, EventIndex>> ends;  // last events of each launch
  // Launches of one call, by stream and number: those before on the stream come before.
  using OnStream = std::tuple<LaunchKey, std::uint64_t, std::uint16_t>;
  std::unordered_map<std::uint64_t, std::uint64_t> stream_of;  // by label
  std::map<OnStream, std::vector<EventIndex>> ends_on_stream;
  const auto on_stream = [&](std::uint64_t label) {
    return OnStream{launch_of(label), stream_of[label], schedule::unpack(label).group};
  };
  std::unordered_map<std::uint32_t, std::vector<EventIndex>> barriers;
  for (EventIndex i = 0; i < events.size(); ++i) {
    ends[launch_of(events[i].label)][events[i].label] = i;
    if (events[i].kind == Event::Kind::launch) stream_of[events[i].label] = events[i].value;
    if (events[i].kind == Event::Kind::end_launch) {
      ends_on_stream[on_stream(events[i].label)].push_back(i);
    }
    if (events[i].kind == Event::Kind::barrier) barriers[events[i].step].push_back(i);
  }
  const auto reach = [&](EventIndex i) {
    if (i == kNoEvent || in[i]) return;
    in[i] = true;
    open.push_back(i);
  };
  const auto edges_to = [&](const std::vector<Graph::Edge>& edges, EventIndex i) {
    auto it = std::lower_bound(edges.begin(), edges.end(), i,
                               [](const Graph::Edge& e, EventIndex to) { return e.second < to; });
    for (; it != edges.end() && it->second == i; ++it) reach(it->first);
  };
  while (!open.empty()) {
    const EventIndex i = open.back();
    open.pop_back();
    reach(graph.previous[i]);
    edges_to(graph.synchronises, i);
    edges_to(graph.depends, i);
    if (events[i].kind == Event::Kind::barrier) {
      // What a block barrier joins is everybody's past up to it, each one's arrival included.
      for (EventIndex j : barriers[events[i].step]) reach(j);
    }
    if (graph.previous[i] != kNoEvent) continue;
    // A thread's first event follows every earlier launch of its stream.
    const LaunchKey launch = launch_of(events[i].label);
    const OnStream here = on_stream(events[i].label);
    if (std::get<1>(here) != 0 && entered_on_stream.insert(here).second) {
      const OnStream first{launch, std::get<1>(here), 0};
      for (auto it = ends_on_stream.lower_bound(first); it != ends_on_stream.end(); ++it) {
        if (it->first >= here) break;
        for (const EventIndex end : it->second) reach(end);
      }
    }
    if (!entered.insert(launch).second) continue;
    for (auto it = ends.begin(); it != ends.end() && it->first < launch; ++it) {
      if (it->first.rank != launch.rank) continue;
      for (const auto& [label, last] : it->second) reach(last);
    }
  }
  in[of] = false;
  std::vector<EventIndex> out;
  for (EventIndex i = 0; i < events.size(); ++i) {
    if (in[i]) out.push_back(i);
  }
  return out;
}

}  // namespace ringfence::trace
