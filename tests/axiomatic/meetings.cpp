#include "tests/axiomatic/meetings.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tests/axiomatic/skeleton.hpp"

namespace ringfence::axiomatic {
namespace {

using Kind = Instruction::Kind;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// A barrier that threads share: of a cta, of a cluster, or an mbarrier.
using Key = std::tuple<Kind, int, int, Value, Value>;

class Meetings {
 public:
  explicit Meetings(Skeleton& s) : s_(s) {
    State state;
    events_.resize(s.paths.size());
    issued_.resize(s.paths.size());
    generation_.assign(index(s.n), -1);
    last_.assign(index(s.n), false);
    for (std::size_t t = 0; t < s.paths.size(); ++t) {
      for (int e = s.first[t]; e < s.n && s.thread(e) == static_cast<int>(t); ++e) {
        if (s.is(s.barriers, e) && !s.is(s.parts, e)) events_[t].push_back(e);
      }
    }
    // The bytes of a copy complete at a time of their own, behind what precedes its issue.
    for_each(s.barriers & s.parts, [&](int e) {
      const auto& own = events_[index(s.thread(e))];
      const auto before =
          std::find_if(own.begin(), own.end(), [&](int other) { return other > s.event(e).issue; });
      issued_.push_back(static_cast<std::size_t>(before - own.begin()));
      events_.push_back({e});
    });
    state.position.assign(events_.size(), 0);
    // Without a count: the threads of the cta whose code has the barrier.
    for (std::size_t t = 0; t < s.program->threads.size(); ++t) {
      const Thread& thread = s.program->threads[t];
      for (const Instruction& i : thread.code) {
        if (i.kind != Kind::BarSync && i.kind != Kind::BarArrive) continue;
        members_[{Kind::BarSync, thread.place.gpu, thread.place.cta, i.barrier_instance,
                  i.barrier_id}] |= bit(static_cast<int>(t));
      }
    }
    go_on(state);
  }

 private:
  struct Barrier {
    int complete = 0;            // generations
    std::vector<Set> arrived;    // threads, by generation from the first incomplete one on
    Set seen = 0;                // mbarriers: generations that a look found over
    std::optional<Value> count;  // of the generation that is filling
    Value bytes = 0;             // mbarriers: that are expected and have not come
  };
  struct State {
    std::vector<std::size_t> position;  // by line: see events_
    std::map<Key, Barrier> barriers;
  };

  Key key_of(int e) const {
    const Event& x = s_.event(e);
    const Place& place = s_.program->threads[index(s_.thread(e))].place;
    switch (x.sync) {
      case Kind::ClusterArrive:
      case Kind::ClusterWait:
        return {Kind::ClusterArrive, place.gpu, place.cluster.value_or(-1 - place.cta), 0, 0};
      case Kind::MbarrierArrive:
      case Kind::MbarrierWait:
      case Kind::MbarrierTest:
      case Kind::Copy:
        return {Kind::MbarrierArrive, 0, 0, x.mbarrier, 0};
      default:
        return {Kind::BarSync, place.gpu, place.cta, x.barrier_instance, x.barrier_id};
    }
  }

  // The threads of a cluster whose events are not all done: those that have ended count as come.
  Set still_there(int e, const State& state) const {
    Set all = 0;
    const Place& mine = s_.program->threads[index(s_.thread(e))].place;
    for (std::size_t t = 0; t < s_.paths.size(); ++t) {
      const Place& its = s_.program->threads[t].place;
      if (!includes(mine, Scope::Cluster, its)) continue;
      if (state.position[t] < events_[t].size()) all |= bit(static_cast<int>(t));
    }
    return all;
  }

  // Whether the generation that e is in, the first incomplete one, is complete now.
  bool is_full(int e, const Barrier& b, const State& state) const {
    const Event& x = s_.event(e);
    const auto come = static_cast<std::size_t>(std::popcount(b.arrived[0]));
    if (x.sync == Kind::MbarrierArrive || x.sync == Kind::Copy) {
      return come >= count_of(x) && b.bytes == 0;
    }
    if (x.barrier_count) return come >= static_cast<std::size_t>(*x.barrier_count);
    // PTX, exit: where all threads of the block are waited for, those that have ended are not.
    Set awaited = members_.at(key_of(e));
    for_each(awaited, [&](int t) {
      if (state.position[index(t)] == events_[index(t)].size()) awaited &= ~bit(t);
    });
    return (awaited & ~b.arrived[0]) == 0;
  }

  std::size_t count_of(const Event& x) const {
    return static_cast<std::size_t>(s_.program->mbarriers[index(x.mbarrier)].count);
  }

  void complete_bytes(int e, Barrier& b, const State& state) {
    if (b.arrived.empty()) b.arrived.push_back(0);
    b.bytes -= s_.event(e).bytes;
    generation_[index(e)] = b.complete;
    if (!is_full(e, b, state)) return;
    last_[index(e)] = true;
    complete(b);
  }

  void arrive(int e, State& state) {
    const Event& x = s_.event(e);
    Barrier& b = state.barriers[key_of(e)];
    const Set me = bit(s_.thread(e));
    std::size_t g = 0;
    const bool mbarrier = x.sync == Kind::MbarrierArrive;
    if (mbarrier) {
      // A thread may arrive there as often as it likes: arrivals are counted by event.
      if (b.arrived.empty()) b.arrived.push_back(0);
      if (static_cast<std::size_t>(std::popcount(b.arrived[0])) == count_of(x)) {
        s_.meets_undefined = true;
      }
      b.arrived[0] |= bit(e);
      b.bytes += x.bytes;
      if (b.complete > 0 && (b.seen >> (b.complete - 1) & 1) == 0) s_.meets_undefined = true;
    } else {
      while (g < b.arrived.size() && (b.arrived[g] & me) != 0) {
        ++g;
        s_.meets_undefined = true;
      }
      if (g == b.arrived.size()) b.arrived.push_back(0);
      b.arrived[g] |= me;
      if (g == 0 && b.count && x.barrier_count && *b.count != *x.barrier_count) {
        s_.meets_undefined = true;
      }
      if (g == 0 && x.barrier_count) b.count = x.barrier_count;
    }
    generation_[index(e)] = b.complete + static_cast<int>(g);
    if (g == 0 && is_full(e, b, state)) {
      last_[index(e)] = true;
      complete(b);
    }
  }

  static void complete(Barrier& b) {
    ++b.complete;
    b.arrived.erase(b.arrived.begin());
    b.count.reset();
  }

  // Every way to go on from here.
  void go_on(const State& state) {
    if (!visited_.insert(image(state)).second) return;
    bool ended = true;
    for (std::size_t t = 0; t < events_.size(); ++t) {
      if (state.position[t] == events_[t].size()) continue;
      ended = false;
      if (t >= s_.paths.size()) {
        const auto issuer = index(s_.thread(events_[t].front()));
        if (state.position[issuer] < issued_[t]) continue;
      }
      step(t, state);
    }
    if (ended) accept();
  }

  void step(std::size_t t, const State& state) {
    const int e = events_[t][state.position[t]];
    const Event& x = s_.event(e);
    State next = state;
    Barrier& b = next.barriers[key_of(e)];
    const std::vector<int> generations = generation_;
    const std::vector<bool> last = last_;
    bool can = true;
    switch (x.sync) {
      case Kind::BarArrive:
      case Kind::MbarrierArrive:
        arrive(e, next);
        ++next.position[t];
        break;
      case Kind::Copy:
        complete_bytes(e, b, next);
        ++next.position[t];
        break;
      case Kind::BarSync:
        // It arrives, and goes on once its generation is complete.
        if (generation_[index(e)] < 0) {
          arrive(e, next);
        } else {
          if (generation_[index(e)] == b.complete && is_full(e, b, next)) complete(b);
          can = generation_[index(e)] < b.complete;
          ++next.position[t];
        }
        break;
      case Kind::ClusterArrive:
        if (b.arrived.empty()) b.arrived.push_back(0);
        b.arrived[0] |= bit(static_cast<int>(t));
        generation_[index(e)] = b.complete;
        ++next.position[t];
        break;
      case Kind::ClusterWait: {
        const int mine = generation_[index(arrival_of(e))];
        if (mine == b.complete && (still_there(e, next) & ~b.arrived[0]) == 0) complete(b);
        can = mine < b.complete;
        generation_[index(e)] = mine;
        ++next.position[t];
        break;
      }
      case Kind::MbarrierWait:
      case Kind::MbarrierTest: {
        const bool over = (b.complete & 1) != x.parity;
        can = over == (x.sync == Kind::MbarrierWait);
        if (over && b.complete > 0) b.seen |= bit(b.complete - 1);
        generation_[index(e)] = b.complete;
        ++next.position[t];
        break;
      }
      default:
        break;
    }
    if (can) go_on(next);
    generation_ = generations;
    last_ = last;
  }

  // The last cluster arrival of the thread before its wait.
  int arrival_of(int wait) const {
    int last = wait;
    for (const int e : events_[index(s_.thread(wait))]) {
      if (e < wait && s_.event(e).sync == Kind::ClusterArrive) last = e;
    }
    return last;
  }

  std::vector<int> image(const State& state) const {
    std::vector<int> image = generation_;
    for (const std::size_t p : state.position) image.push_back(static_cast<int>(p));
    for (const bool b : last_) image.push_back(b ? 1 : 0);
    for (const auto& [key, b] : state.barriers) {
      image.push_back(b.complete);
      image.push_back(static_cast<int>(b.seen));
    }
    return image;
  }

  void accept() {
    Meeting m{Relation(s_.n), Relation(s_.n), Relation(s_.n), Relation(s_.n)};
    for_each(s_.barriers, [&](int a) {
      for_each(s_.barriers, [&](int b) {
        if (a != b && key_of(a) == key_of(b)) relate(a, b, m);
      });
    });
    for_each(s_.barriers, [&](int e) { follow_ended(e, m); });
    for (const Meeting& other : s_.meetings) {
      if (same(other.barrier, m.barrier) && same(other.observed, m.observed) &&
          same(other.time, m.time) && same(other.ended, m.ended)) {
        return;
      }
    }
    s_.meetings.push_back(m);
  }

  bool same(const Relation& a, const Relation& b) const {
    for (int i = 0; i < s_.n; ++i) {
      if (a.row(i) != b.row(i)) return false;
    }
    return true;
  }

  // From a to b, two events at one barrier.
  void relate(int a, int b, Meeting& m) const {
    const Event &x = s_.event(a), &y = s_.event(b);
    const int g = generation_[index(a)], h = generation_[index(b)];
    const auto arrives = [](const Event& e) {
      return e.sync == Kind::BarSync || e.sync == Kind::BarArrive ||
             e.sync == Kind::ClusterArrive || e.sync == Kind::MbarrierArrive ||
             e.sync == Kind::Copy;
    };
    const auto at_mbarrier = [](const Event& e) {
      return e.sync == Kind::MbarrierArrive || e.sync == Kind::Copy;
    };
    if (arrives(x) && arrives(y)) {
      const bool completes = at_mbarrier(x) && g == h && last_[index(b)];
      if (g < h || completes) m.time.add(a, b);
      if (g == h && y.sync == Kind::BarSync) m.barrier.add(a, b);
    }
    // A look in phase h: all before it are over, and it is not.
    if (at_mbarrier(x) && (y.sync == Kind::MbarrierWait || y.sync == Kind::MbarrierTest)) {
      if (g < h) m.time.add(a, b);
      if (g == h && last_[index(a)]) m.time.add(b, a);
      if (y.sync == Kind::MbarrierWait && g == h - 1) m.observed.add(a, b);
    }
    if (x.sync == Kind::ClusterArrive && y.sync == Kind::ClusterWait && g == h) {
      m.time.add(a, b);
      if (x.order == Order::Release) m.barrier.add(a, b);
      const Place& from = s_.program->threads[index(s_.thread(a))].place;
      const Place& to = s_.program->threads[index(s_.thread(b))].place;
      for (int f = s_.first[index(s_.thread(a))]; f < a; ++f) {
        const Event& fence = s_.event(f);
        if (fence.kind != Event::Kind::Fence || fence.order == Order::Acquire) continue;
        if (includes(from, fence.scope, to)) m.barrier.add(f, b);
      }
    }
  }

  // Who waits for the whole block goes on once the threads that did not come have ended; and it
  // does nothing before (PTX, bar).
  void follow_ended(int e, Meeting& m) const {
    const Event& x = s_.event(e);
    if (x.sync != Kind::BarSync || x.barrier_count) return;
    Set missing = members_.at(key_of(e));
    for_each(s_.barriers, [&](int other) {
      if (key_of(other) == key_of(e) && generation_[index(other)] == generation_[index(e)]) {
        missing &= ~bit(s_.thread(other));
      }
    });
    for_each(missing, [&](int t) {
      for (int f = s_.first[index(t)]; f < s_.n && s_.thread(f) == t; ++f) {
        if (s_.is(s_.parts, f)) continue;
        for (int g = e; g < s_.n && s_.thread(g) == s_.thread(e); ++g) m.ended.add(f, g);
      }
    });
  }

  Skeleton& s_;
  // Of barriers, by line: the threads, then each copy's completion of bytes. Of these, how many
  // events of its thread precede the issue.
  std::vector<std::vector<int>> events_;
  std::vector<std::size_t> issued_;
  std::map<Key, Set> members_;
  std::vector<int> generation_;  // by event: which it joined, or was going on as it looked
  std::vector<bool> last_;       // by event: it completed its generation
  std::set<std::vector<int>> visited_;
};

}  // namespace

void find_meetings(Skeleton& skeleton) { Meetings{skeleton}; }

}  // namespace ringfence::axiomatic
