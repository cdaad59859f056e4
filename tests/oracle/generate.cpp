#include "tests/oracle/generate.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/axiomatic/random.hpp"

namespace ringfence::oracle {
namespace {

using Kind = Step::Kind;

// Steps are drawn in the order of one execution: a poll waits for a flag that was written before,
// a barrier is met by all its participants at once.
class Generator {
 public:
  Generator(std::uint64_t seed, const GeneratorOptions& options)
      : random_(seed * 2 + 1), options_(options) {
    kernel_.seed = seed;
  }

  Kernel run() {
    shape();
    features();
    locations();
    const int events = random_.between(options_.min_events, options_.max_events);
    for (int tries = 0; kernel_.events() < events && tries < 40; ++tries) {
      if (options_.dependent && kernel_.cut.empty() && kernel_.events() * 2 >= events) cut();
      group();
    }
    if (options_.dependent && kernel_.cut.empty()) cut();
    close();
    if (options_.dependent) begin_second();
    return std::move(kernel_);
  }

 private:
  void shape() {
    constexpr std::array<std::array<int, 3>, 8> kShapes = {
        {{1, 1, 2}, {1, 1, 3}, {1, 1, 4}, {1, 2, 1}, {1, 2, 2}, {2, 1, 1}, {2, 1, 2}, {2, 2, 1}}};
    auto s = kShapes[static_cast<std::size_t>(random_.below(8))];
    if (options_.paired && s[2] == 1) s = {2, 1, 2};
    kernel_.paired = options_.paired;
    kernel_.ranks = s[0];
    kernel_.blocks = s[1];
    kernel_.warps = s[2];
    kernel_.cluster = kernel_.blocks > 1 && random_.percent(60) && options_.clusters;
    kernel_.threads.resize(static_cast<std::size_t>(s[0] * s[1] * s[2]));
  }

  void features() {
    strong_ = random_.percent(65);
    barriers_ = kernel_.warps > 1 && random_.percent(65) && options_.barriers;
    mbarriers_ = random_.percent(35) && options_.mbarriers;
    if (options_.copies) {
      copies_ = true;
      mbarriers_ = random_.percent(60) && options_.mbarriers;
    }
    if (options_.dependent) mbarriers_ = false;
    if (options_.paired) barriers_ = mbarriers_ = kernel_.cluster = false;
    polls_ = random_.percent(50) && options_.loops;
    votes_ = random_.percent(25) && options_.votes && !options_.paired;
    atomics_ = random_.percent(60);
    fences_ = random_.percent(45);
    arrives_ = random_.percent(50);
    narrow_ = random_.percent(35);
    alone_ = kernel_.paired && random_.percent(70);
  }

  void locations() {
    const int n = random_.between(2, 3);
    const int blocks = kernel_.ranks * kernel_.blocks;
    for (int i = 0; i < n; ++i) {
      Location l;
      l.shared = random_.percent(50) && options_.shared && !options_.dependent;
      if (copies_ && i < 2) l.shared = i == 0;
      l.owner = random_.below(l.shared ? blocks : kernel_.ranks);
      kernel_.locations.push_back(l);
    }
    if (!mbarriers_) return;
    const int m = random_.between(1, 2);
    for (int i = 0; i < m; ++i) kernel_.mbarriers.push_back({random_.below(blocks), 1});
    phases_.assign(kernel_.mbarriers.size(), 0);
    for (Mbarrier& b : kernel_.mbarriers) b.count = random_.between(1, 2);
  }

  bool same_cluster(int block, int other) const {
    return block == other || (kernel_.cluster && block / kernel_.blocks == other / kernel_.blocks);
  }
  bool reaches(int thread, const Location& l) const {
    return !l.shared || same_cluster(kernel_.block_of(thread), l.owner);
  }
  std::vector<Step>& code(int thread) { return kernel_.threads[static_cast<std::size_t>(thread)]; }
  int any_thread() {
    const auto threads = static_cast<int>(kernel_.threads.size());
    return random_.below(kernel_.paired && alone_ && threads > 3 ? threads - 1 : threads);
  }

  // A location that the thread can reach; -1: none.
  int any_location(int thread) {
    std::vector<int> all;
    for (std::size_t i = 0; i < kernel_.locations.size(); ++i) {
      // What two lanes do at one place has an order of its own, which check may leave out.
      const bool others =
          kernel_.paired && alone_ && thread < 2 && static_cast<int>(i % 2) != thread;
      if (reaches(thread, kernel_.locations[i]) && !others) all.push_back(static_cast<int>(i));
    }
    return all.empty() ? -1 : all[static_cast<std::size_t>(random_.below(int(all.size())))];
  }

  Scope any_scope() {
    if (!narrow_) return kernel_.ranks > 1 || options_.paired ? Scope::sys : Scope::gpu;
    return static_cast<Scope>(random_.below(4));
  }

  void group() {
    const int what = random_.below(100);
    if (what < 22 && barriers_) return barrier();
    if (what < 36 && !kernel_.mbarriers.empty()) return phase();
    if (what < 46 && kernel_.cluster) return cluster_barrier();
    if (what < 62 && polls_) return flag();
    if (what < 68 && votes_) return vote();
    if (what < 84 && copies_) return copy();
    access();
  }

  void access() {
    const int t = any_thread();
    const int at = any_location(t);
    if (at < 0 || full(t)) return;
    Step s;
    s.location = at;
    s.scope = any_scope();
    const int what = random_.below(100);
    if (fences_ && what < 15) {
      s.kind = Kind::fence;
      // Of two lanes check knows one fence-sc order.
      s.order = random_.percent(60) || kernel_.paired ? Order::acq_rel : Order::sc;
    } else if (atomics_ && what < 45) {
      constexpr std::array<Kind, 4> kAtomics = {Kind::add, Kind::exch, Kind::cas, Kind::red};
      s.kind = kAtomics[static_cast<std::size_t>(random_.below(4))];
      constexpr std::array<Order, 4> kOrders = {Order::relaxed, Order::acquire, Order::release,
                                                Order::acq_rel};
      s.order = kOrders[static_cast<std::size_t>(random_.below(4))];
      if (s.kind == Kind::red && s.order != Order::release) s.order = Order::relaxed;
      s.value = s.kind == Kind::add || s.kind == Kind::red ? power() : value();
      s.compare = random_.percent(60) ? 0 : value() - 1;
    } else if (random_.percent(50)) {
      s.kind = Kind::store;
      s.value = value();
      s.order = access_order(Order::release);
    } else {
      s.kind = Kind::load;
      s.order = access_order(Order::acquire);
    }
    code(t).push_back(s);
  }

  // What the thread can copy: a place of its block's shared memory, and one of global memory.
  std::pair<int, int> any_copy(int thread) {
    std::vector<int> shared, global;
    for (std::size_t i = 0; i < kernel_.locations.size(); ++i) {
      const Location& l = kernel_.locations[i];
      if (!l.shared) {
        global.push_back(static_cast<int>(i));
      } else if (l.owner == kernel_.block_of(thread)) {
        shared.push_back(static_cast<int>(i));
      }
    }
    const auto one = [&](const std::vector<int>& all) {
      return all.empty() ? -1 : all[static_cast<std::size_t>(random_.below(int(all.size())))];
    };
    const int a = one(shared);
    return {a, one(global)};
  }

  // Something to store, with what such a store needs: each of it is left out now and then.
  void copy() {
    const int t = any_thread();
    const auto [shared, global] = any_copy(t);
    if (shared < 0 || global < 0 || full(t)) return;
    Step s;
    s.order = Order::weak;
    if (random_.percent(60)) {
      s.kind = Kind::store;
      s.location = shared;
      s.value = value();
      code(t).push_back(s);
    }
    if (random_.percent(80)) {
      s.kind = Kind::fence_async;
      code(t).push_back(s);
    }
    s.kind = random_.percent(25) ? Kind::bulk_add : Kind::bulk_store;
    s.location = global;
    s.other = shared;
    code(t).push_back(s);
    if (random_.percent(20) || full(t)) return;
    s.kind = Kind::bulk_wait;
    s.value = random_.percent(25) ? 1 : 0;
    if (kernel_.seed % 4 == 0) s.value += 2;  // all but the last
    code(t).push_back(s);
  }

  // What stands so far is the first launch.
  void cut() {
    for (const auto& code : kernel_.threads) kernel_.cut.push_back(static_cast<int>(code.size()));
  }

  // Where the first launch lets the second begin, and where that one waits for the first.
  void begin_second() {
    for (std::size_t t = 0; t < kernel_.threads.size(); ++t) {
      auto& code = kernel_.threads[t];
      int& first = kernel_.cut[t];
      Step s;
      if (random_.percent(60)) {
        s.kind = Kind::trigger;
        code.insert(code.begin() + random_.between(0, first), s);
        ++first;
      }
      if (random_.percent(20)) continue;
      const int size = static_cast<int>(code.size());
      s.kind = Kind::after;
      code.insert(code.begin() + (random_.percent(70) ? first : random_.between(first, size)), s);
    }
  }

  Order access_order(Order strong) {
    if (!strong_ && random_.percent(50)) return Order::weak;
    const int what = random_.below(10);
    return what < 5 ? Order::relaxed : what < 6 ? Order::volatile_ : strong;
  }

  void barrier() {
    const int block = random_.below(kernel_.ranks * kernel_.blocks);
    std::vector<int> members;
    for (int w = 0; w < kernel_.warps; ++w) members.push_back(block * kernel_.warps + w);
    while (members.size() > 2 && random_.percent(50)) {
      members.erase(members.begin() + random_.below(static_cast<int>(members.size())));
    }
    const int id = random_.between(1, 2);
    const bool red = votes_ && random_.percent(40);
    bool sync = false;
    for (std::size_t i = 0; i < members.size(); ++i) {
      Step s;
      s.barrier = id;
      s.count = static_cast<int>(members.size());
      const bool last = i + 1 == members.size();
      const bool arrive = !red && arrives_ && random_.percent(40) && (!last || sync);
      s.kind = red ? Kind::bar_red : arrive ? Kind::bar_arrive : Kind::bar_sync;
      sync = sync || !arrive;
      if (full(members[i])) return;
      code(members[i]).push_back(s);
    }
  }

  void cluster_barrier() {
    const int rank = random_.below(kernel_.ranks);
    const int first = rank * kernel_.blocks * kernel_.warps;
    const int last = first + kernel_.blocks * kernel_.warps;
    for (int t = first; t < last; ++t) {
      if (full(t)) return;
    }
    const bool relaxed = random_.percent(20) && options_.forms;
    for (int t = first; t < last; ++t) {
      Step s;
      s.kind = Kind::cluster_arrive;
      s.order = relaxed && random_.percent(70) ? Order::relaxed : Order::release;
      code(t).push_back(s);
    }
    if (random_.percent(40)) access();
    for (int t = first; t < last; ++t) {
      Step s;
      s.kind = Kind::cluster_wait;
      s.order = Order::acquire;
      code(t).push_back(s);
    }
  }

  // As many arrivals as a phase takes, and those who wait for it.
  void phase() {
    const int at = random_.below(static_cast<int>(kernel_.mbarriers.size()));
    const Mbarrier& b = kernel_.mbarriers[static_cast<std::size_t>(at)];
    std::vector<int> near, own;
    for (int t = 0; t < static_cast<int>(kernel_.threads.size()); ++t) {
      if (same_cluster(kernel_.block_of(t), b.owner)) near.push_back(t);
      if (kernel_.block_of(t) == b.owner) own.push_back(t);
    }
    Step s;
    s.location = at;
    const bool narrow = narrow_ && random_.percent(40) && options_.forms;
    const Scope wide = narrow ? Scope::cta : Scope::cluster;
    for (int i = 0; i < b.count; ++i) {
      const auto& from = random_.percent(60) ? own : near;
      const int t = from[static_cast<std::size_t>(random_.below(static_cast<int>(from.size())))];
      if (full(t)) return;
      if (const auto [shared, global] = any_copy(t); copies_ && shared >= 0 && global >= 0 &&
                                                     kernel_.block_of(t) == b.owner &&
                                                     random_.percent(50)) {
        Step copy;
        copy.kind = Kind::fence_async;
        if (random_.percent(70)) code(t).push_back(copy);
        copy.kind = Kind::bulk_load;
        copy.location = shared;
        copy.other = global;
        copy.barrier = at;
        code(t).push_back(copy);
        continue;
      }
      s.kind = Kind::mbar_arrive;
      s.scope = kernel_.cluster ? wide : Scope::cta;
      s.order = random_.percent(15) && options_.forms ? Order::relaxed : Order::release;
      code(t).push_back(s);
    }
    int& phase = phases_[static_cast<std::size_t>(at)];
    const int waiting = random_.between(1, static_cast<int>(own.size()));
    for (int i = 0; i < waiting; ++i) {
      const int t = own[static_cast<std::size_t>(random_.below(static_cast<int>(own.size())))];
      if (full(t)) return;
      s.kind = random_.percent(15) ? Kind::mbar_test : Kind::mbar_wait;
      s.order = random_.percent(15) && options_.forms ? Order::relaxed : Order::acquire;
      s.value = static_cast<std::uint32_t>(phase & 1);
      code(t).push_back(s);
    }
    ++phase;
  }

  // A flag: one thread sets it, another one waits for it.
  void flag() {
    const int writer = any_thread();
    const int at = any_location(writer);
    if (at < 0 || full(writer)) return;
    const Location& l = kernel_.locations[static_cast<std::size_t>(at)];
    Step s;
    s.location = at;
    s.scope = any_scope();
    s.value = value();
    const bool release = random_.percent(70);
    const bool exch = atomics_ && random_.percent(25);
    s.kind = exch ? Kind::exch : Kind::store;
    s.order = release ? Order::release : random_.percent(50) ? Order::relaxed : Order::volatile_;
    if (exch && s.order == Order::volatile_) s.order = Order::relaxed;
    code(writer).push_back(s);
    const bool several = kernel_.seed % 3 == 1;  // values end the wait
    if (several && !full(writer)) {
      Step later = s;
      later.value = value();
      code(writer).push_back(later);
    }
    const int reader = any_thread();
    if (reader == writer || !reaches(reader, l) || full(reader)) return;
    Step p = s;
    p.scope = any_scope();
    p.order = random_.percent(70) ? Order::acquire : Order::relaxed;
    const int how = random_.below(100);
    p.kind = how < 40              ? Kind::poll
             : how < 48            ? Kind::poll_add
             : how < 56            ? Kind::poll_cas
             : how < 66            ? Kind::poll_ahead
             : how < 74            ? Kind::poll_told
             : how < 84            ? Kind::poll_twice
             : how < 92 || !votes_ ? Kind::bounded_poll
                                   : Kind::vote_poll;
    if (several && p.kind == Kind::poll) p.kind = p.value % 4 < 2 ? Kind::poll_ne : Kind::poll_ge;
    if (p.kind == Kind::poll_ne) p.value = 0;
    if (p.kind == Kind::poll_ahead || p.kind == Kind::poll_told || p.kind == Kind::poll_twice) {
      p.count = random_.between(p.kind == Kind::poll_twice ? 0 : 1, 2);
      p.compare = atomics_ && random_.percent(50) ? value() : 0;
    }
    if (p.kind == Kind::bounded_poll) p.value = static_cast<std::uint32_t>(random_.between(1, 3));
    if (p.kind == Kind::vote_poll) p.other = at;
    code(reader).push_back(p);
  }

  void vote() {
    const int t = any_thread();
    const int at = any_location(t), other = any_location(t);
    if (at < 0 || full(t)) return;
    Step s;
    s.kind = Kind::vote;
    s.location = at;
    s.other = other;
    s.scope = any_scope();
    s.order = random_.percent(50) ? Order::acquire : Order::relaxed;
    code(t).push_back(s);
  }

  bool full(int thread) { return static_cast<int>(code(thread).size()) + 2 > kMostSteps; }

  // A thread that only writes tells nothing: somebody looks in the end.
  void close() {
    for (int tries = 0; tries < 2; ++tries) {
      const int t = any_thread();
      const int at = any_location(t);
      if (at < 0 || full(t)) continue;
      Step s;
      s.kind = Kind::load;
      s.location = at;
      s.scope = any_scope();
      s.order = access_order(Order::acquire);
      code(t).push_back(s);
    }
  }

  std::uint32_t value() { return ++value_; }
  // Sums name their addends.
  std::uint32_t power() { return 16U << (power_++ % 12); }

  axiomatic::Random random_;
  const GeneratorOptions& options_;
  Kernel kernel_;
  std::vector<int> phases_;  // of the mbarriers, in the order drawn
  std::uint32_t value_ = 0;
  std::uint32_t power_ = 0;
  bool strong_ = false, barriers_ = false, mbarriers_ = false, polls_ = false, votes_ = false;
  bool atomics_ = false, fences_ = false, arrives_ = false, narrow_ = false, copies_ = false;
  bool alone_ = false;  // the lanes of the first warp have places of their own
};

}  // namespace

Kernel generate(std::uint64_t seed, const GeneratorOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace ringfence::oracle
