#include "emulator/check/axioms.hpp"

#include <algorithm>

#include "emulator/check/relation.hpp"

namespace ringfence::check {
namespace {

using Kind = Node::Kind;
constexpr std::uint32_t kNone = Node::kNone;

bool is_memory(const Node& n) { return n.kind == Kind::read || n.kind == Kind::write; }
bool is_write(const Node& n) { return n.kind == Kind::write || n.kind == Kind::initial; }

class Axioms {
 public:
  explicit Axioms(const Record& record)
      : record_(record), nodes_(record.nodes()), n_(nodes_.size()), out_(n_) {
    order_ = Relation(n_);
    for (const auto& thread : record.threads()) {
      for (std::size_t i = 0; i + 1 < thread.size(); ++i) order_.add(thread[i], thread[i + 1]);
    }
    for (const auto& [a, b] : record.edges()) order_.add(a, b);
    order_.close();
    list();
    depend();
    preserved_ = preserved(order_);
  }

  // The same, of which only the reads of `kept` return something, and an atomic whose read does not
  // writes only if one of them returns that, in no place of its own. What contradicts the axioms
  // here does so whatever the other reads return.
  Axioms(const Axioms& all, const std::vector<bool>& kept)
      : record_(all.record_),
        nodes_(all.nodes_),
        n_(all.n_),
        out_(n_),
        order_(all.order_),
        preserved_(all.preserved_) {
    std::vector<bool> read_from(n_);
    for (const std::uint32_t r : all.reads_) {
      out_[r] = !kept[r];
      if (kept[r]) read_from[nodes_[r].source] = true;
    }
    std::vector<bool> moved(n_);
    for (const std::uint32_t r : all.reads_) {
      if (kept[r] || nodes_[r].other == kNone) continue;
      moved[nodes_[r].other] = true;
      out_[nodes_[r].other] = !read_from[nodes_[r].other];
    }
    list();
    depend();
    given_ = Relation(n_);
    for (const auto& writes : at_) {
      for (const std::uint32_t a : writes) {
        for (const std::uint32_t b : writes) {
          if (!moved[a] && !moved[b] && all.given_(a, b)) given_.add(a, b);
        }
      }
    }
  }

  bool thin_air() const {
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (air_(i, i)) return true;
    }
    return false;
  }

  // Reads that begin a way through program order, or a barrier, to a write that does not depend on
  // them; on every cycle of program order and reads-from there is one, or No Thin Air forbids it.
  std::vector<std::uint32_t> deferrable() const {
    std::vector<std::uint32_t> out;
    for (const std::uint32_t r : reads_) {
      if (nodes_[r].foreseen) continue;
      for (std::uint32_t w = 0; w < n_; ++w) {
        if (nodes_[w].kind != Kind::write || !order_(r, w) || bound_(r, w)) continue;
        out.push_back(r);
        break;
      }
    }
    return out;
  }

  // Reads that some execution may have before the write that they return, in program order and
  // reads-from. Which write a read returns here says little of that: an atomic that came first took
  // what another one could have had. So any write is taken for one that any read may return.
  std::vector<std::pair<std::uint32_t, Foreseen>> later() const {
    const std::vector<std::uint32_t> candidates = deferrable();
    std::vector<std::pair<std::uint32_t, Foreseen>> out;
    if (candidates.empty()) return out;
    Relation way = order_;
    for (const std::uint32_t r : reads_) {
      if (nodes_[r].foreseen) continue;
      for (const std::uint32_t w : at_[nodes_[r].location]) {
        if (!preserved_(r, w)) way.add(w, r);
      }
    }
    way.close();
    for (const std::uint32_t r : candidates) {
      const Node& read = nodes_[r];
      for (const std::uint32_t w : at_[read.location]) {
        // Causality: a read takes no write of its causal future.
        if (nodes_[w].kind == Kind::initial || preserved_(r, w) || !way(r, w)) continue;
        if (air_(r, w) && needs_whatever(r, w)) continue;
        out.push_back(
            {r,
             {read.place, record_.locations()[read.location], nodes_[w].place, nodes_[w].value}});
      }
    }
    return out;
  }

  // Of those, in a run that contradicts the axioms: the ones of reads that take part in it. An
  // execution that has what is foreseen, and of which this run shows as much as the order allows,
  // differs from it in one of them.
  std::vector<Foreseen> of_conflict() const {
    const auto proposals = later();
    std::vector<bool> kept(n_, true);
    std::vector<std::uint32_t> free = deferrable();
    for (const std::uint32_t r : free) kept[r] = false;
    const auto contradicts = [&] { return !Axioms(*this, kept).consistent(); };
    std::vector<Foreseen> out;
    if (proposals.empty() || contradicts()) return out;
    for (const std::uint32_t r : free) kept[r] = true;
    for (const std::uint32_t r : free) {
      kept[r] = false;
      if (!contradicts()) kept[r] = true;
    }
    for (const auto& [r, p] : proposals) {
      if (kept[r]) out.push_back(p);
    }
    return out;
  }

  // What the foreseen reads that were told something else should be told. Nothing where one of them
  // is needed for what its own write writes.
  std::vector<Foreseen> corrections() const {
    std::vector<Foreseen> out;
    for (const std::uint32_t r : reads_) {
      const Node& read = nodes_[r];
      if (!read.foreseen || nodes_[read.source].value == read.value) continue;
      if (air_(r, read.source)) return {};
      out.push_back({read.place, record_.locations()[read.location], nodes_[read.source].place,
                     nodes_[read.source].value});
    }
    return out;
  }

  bool has_sc_pair() const {
    for (std::uint32_t a = 0; a < n_; ++a) {
      for (std::uint32_t b = a + 1; b < n_; ++b) {
        if (sc_pair(a, b)) return true;
      }
    }
    return false;
  }

  // False: coherence leaves morally strong writes unordered, or a message is gone.
  bool take_coherence(machine::Machine& machine) {
    given_ = Relation(n_);
    for (std::uint32_t l = 0; l < at_.size(); ++l) {
      const CellKey& key = record_.locations()[l];
      const machine::Cell* cell = machine.cell_at({key.region, key.offset});
      if (cell == nullptr || cell->size != key.size) return false;
      std::size_t seen = 0;
      for (const machine::Message* m = cell->newest; m != nullptr; m = m->older) {
        const std::uint32_t later = node_of(*m, l);
        if (later == kNone) return false;
        ++seen;
        for (const machine::Message* x = cell->newest; x != nullptr; x = x->older) {
          const std::uint32_t earlier = node_of(*x, l);
          if ((m->before & machine::bit(*x)) != 0 && earlier != kNone && strong(earlier, later)) {
            given_.add(earlier, later);
          }
        }
      }
      if (seen != at_[l].size()) return false;
      for (const std::uint32_t a : at_[l]) {
        for (const std::uint32_t b : at_[l]) {
          if (a < b && strong(a, b) && !given_(a, b) && !given_(b, a)) return false;
        }
      }
    }
    return true;
  }

  bool consistent() {
    run(nullptr);
    return consistent_;
  }

  // False: no fence-sc order makes it consistent. With `out`, what has an order of execution is
  // taken for consistent, and left out of it.
  bool run(std::vector<Judgement>* out) {
    if (thin_air()) return false;
    observe();
    // PTX, "Release and Acquire Patterns": what the first operation of a release pattern orders
    // before the last one of an acquire pattern whose read observes its write.
    Relation base = order_;
    for (std::uint32_t w = 0; w < n_; ++w) {
      if (nodes_[w].kind != Kind::write) continue;
      const auto starts = release_starts(w);
      if (starts.empty()) continue;
      for (const std::uint32_t r : reads_) {
        if (!observation_(w, r)) continue;
        for (const std::uint32_t b : acquire_ends(r)) {
          for (const std::uint32_t a : starts) {
            if (strong(a, b)) base.add(a, b);
          }
        }
      }
    }
    base.close();
    Relation run = order_;
    for (const std::uint32_t r : reads_) run.add(nodes_[r].source, r);
    run.close();
    for (std::uint32_t a = 0; a < n_; ++a) {
      for (std::uint32_t b = a + 1; b < n_; ++b) {
        if (sc_pair(a, b)) sc_pairs_.emplace_back(a, b);
      }
    }
    std::vector<bool> chosen;
    choose_sc(0, base, run, chosen, out);
    return consistent_;
  }

 private:
  // The writes of each location, and the reads.
  void list() {
    at_.assign(record_.locations().size(), {});
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (out_[i]) continue;
      if (is_write(nodes_[i])) at_[nodes_[i].location].push_back(i);
      if (nodes_[i].kind == Kind::read) reads_.push_back(i);
    }
  }

  // Whether the write needs the value that was read, in whatever execution has it: not where a read
  // on the way may return something else, or where an atomic took what the read's own left and
  // would have left otherwise.
  bool needs_whatever(std::uint32_t r, std::uint32_t w) const {
    const std::uint32_t own = nodes_[r].other;
    if (own == w) return true;
    std::vector<bool> free(n_), seen(n_);
    for (const std::uint32_t x : deferrable()) free[x] = true;
    std::vector<std::uint32_t> left{r};
    seen[r] = true;
    if (own != kNone) seen[own] = true;
    while (!left.empty()) {
      const std::uint32_t x = left.back();
      left.pop_back();
      if (x == w) return true;
      for (std::uint32_t y = 0; y < n_; ++y) {
        if (seen[y] || !needs_(x, y) || (free[y] && nodes_[y].source == x)) continue;
        seen[y] = true;
        left.push_back(y);
      }
    }
    return false;
  }

  std::uint32_t node_of(const machine::Message& m, std::uint32_t location) const {
    return record_.find_write(m.initial ? 0 : m.step, location);
  }

  // Axiom No Thin Air: reads-from and dependencies.
  void depend() {
    bound_ = Relation(n_);
    for (const auto& thread : record_.threads()) {
      for (std::size_t i = 0; i < thread.size(); ++i) {
        const Node& read = nodes_[thread[i]];
        if (read.kind != Kind::read) continue;
        if (read.other != kNone) bound_.add(thread[i], read.other);
        const std::uint64_t mine = std::uint64_t{1} << std::min<std::uint32_t>(read.nth_read, 63);
        for (std::size_t j = i + 1; j < thread.size(); ++j) {
          const Node& later = nodes_[thread[j]];
          if (is_memory(later) && later.step != read.step && (later.depends & mine) != 0) {
            bound_.add(thread[i], thread[j]);
          }
        }
      }
    }
    needs_ = bound_;
    for (const std::uint32_t r : reads_) {
      if (nodes_[r].source != kNone) needs_.add(nodes_[r].source, r);
    }
    air_ = needs_;
    bound_.close();
    air_.close();
  }

  // PTX, "Morally Strong Operations".
  bool strong(std::uint32_t a, std::uint32_t b) const {
    const Node &x = nodes_[a], &y = nodes_[b];
    if (x.kind == Kind::initial || y.kind == Kind::initial) return false;
    const bool memory = is_memory(x) && is_memory(y);
    if (memory && x.location != y.location) return false;
    const bool sys = machine::is_strong(x.order) && machine::is_strong(y.order) &&
                     x.scope == machine::Scope::sys && y.scope == machine::Scope::sys;
    if (memory ? !same_proxy(x, y, sys) : machine::kind_of(x.proxy) != machine::kind_of(y.proxy)) {
      return false;
    }
    if (x.thread == y.thread) return true;
    if (!machine::is_strong(x.order) || !machine::is_strong(y.order)) return false;
    if (!machine::reaches(x.scope, x.at, y.at) || !machine::reaches(y.scope, y.at, x.at)) {
      return false;
    }
    return !memory || x.element == y.element;
  }

  bool same_address(const Node& x, const Node& y, bool strong_sys) const {
    return machine::same_address(record_.policy(), x.proxy, y.proxy, strong_sys);
  }
  bool same_proxy(const Node& x, const Node& y, bool strong_sys) const {
    return machine::kind_of(x.proxy) == machine::kind_of(y.proxy) && same_address(x, y, strong_sys);
  }

  // PTX, proxy-preserved base causality: the pairs of accesses to one location, of a closed base
  // causality, that hold across their proxies and virtual addresses.
  Relation preserved(const Relation& base) const {
    const bool all_alike = std::all_of(nodes_.begin(), nodes_.end(), [](const Node& x) {
      return x.proxy == machine::Proxy::generic;
    });
    if (all_alike) return base;
    Relation out(n_);
    std::vector<std::vector<std::uint32_t>> accesses(record_.locations().size());
    std::vector<std::uint32_t> bridges;
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (nodes_[i].kind == Kind::read || nodes_[i].kind == Kind::write) {
        accesses[nodes_[i].location].push_back(i);
      } else if (nodes_[i].kind == Kind::bridge || nodes_[i].boundary) {
        bridges.push_back(i);
      }
    }
    for (const auto& at : accesses) {
      for (const std::uint32_t a : at) {
        for (const std::uint32_t b : at) {
          if (a != b && base(a, b) && holds_across(base, bridges, a, b)) out.add(a, b);
        }
      }
    }
    return out;
  }

  bool holds_across(const Relation& base, const std::vector<std::uint32_t>& bridges,
                    std::uint32_t a, std::uint32_t b) const {
    using machine::ProxyKind;
    using Fence = machine::Machine::ProxyFence;
    const Node &x = nodes_[a], &y = nodes_[b];
    const ProxyKind from = machine::kind_of(x.proxy), to = machine::kind_of(y.proxy);
    const bool same =
        same_address(x, y,
                     machine::is_strong(x.order) && machine::is_strong(y.order) &&
                         x.scope == machine::Scope::sys && y.scope == machine::Scope::sys);
    const auto one_block = [](const Node& p, const Node& q) {
      return machine::distance(p.at, q.at) == machine::Scope::cta;
    };
    if (same && from == to && (from == ProxyKind::generic || one_block(x, y))) return true;
    const auto fence_of = [](ProxyKind kind) {
      return kind == ProxyKind::constant  ? Fence::constant
             : kind == ProxyKind::texture ? Fence::texture
                                          : Fence::surface;
    };
    std::vector<std::uint32_t> points{a};
    const auto pass = [&](Fence kind, const Node* block) {
      std::vector<std::uint32_t> next;
      for (const std::uint32_t f : bridges) {
        const Node& fence = nodes_[f];
        const bool fits = fence.boundary ||
                          (fence.bridge == kind && (block == nullptr || one_block(fence, *block)));
        const auto leads = [&](std::uint32_t p) { return p == f ? fence.boundary : base(p, f); };
        if (fits && std::any_of(points.begin(), points.end(), leads)) next.push_back(f);
      }
      points = std::move(next);
    };
    if (from != ProxyKind::generic) pass(fence_of(from), &x);
    if (!same) pass(Fence::alias, nullptr);
    if (to != ProxyKind::generic) pass(fence_of(to), &y);
    return std::any_of(points.begin(), points.end(), [&](std::uint32_t p) { return base(p, b); });
  }

  bool sc_pair(std::uint32_t a, std::uint32_t b) const {
    return nodes_[a].sc && nodes_[b].sc && nodes_[a].thread != nodes_[b].thread && strong(a, b);
  }

  // Observation: morally strong reads-from, through read-modify-writes.
  void observe() {
    Relation steps(n_);
    for (const std::uint32_t r : reads_) {
      const Node& read = nodes_[r];
      if (strong(read.source, r)) steps.add(read.source, r);
      if (read.other != kNone) steps.add(r, read.other);
    }
    steps.close();
    observation_ = Relation(n_);
    for (std::uint32_t w = 0; w < n_; ++w) {
      if (nodes_[w].kind != Kind::write) continue;
      for (const std::uint32_t r : reads_) {
        if (steps(w, r)) observation_.add(w, r);
      }
    }
  }

  std::vector<std::uint32_t> release_starts(std::uint32_t w) const {
    const Node& write = nodes_[w];
    std::vector<std::uint32_t> out;
    if (!machine::is_strong(write.order)) return out;
    for (const std::uint32_t a : record_.threads()[write.thread]) {
      const Node& x = nodes_[a];
      if (x.kind == Kind::fence && x.order != machine::Order::acquire) out.push_back(a);
      if (x.kind == Kind::write && !out_[a] && x.location == write.location &&
          machine::releases(x.order) && same_address(x, write, false)) {
        out.push_back(a);
      }
      if (a == w) break;
    }
    return out;
  }

  std::vector<std::uint32_t> acquire_ends(std::uint32_t r) const {
    const Node& read = nodes_[r];
    std::vector<std::uint32_t> out;
    if (!machine::is_strong(read.order)) return out;
    if (read.reduction) {
      // An atomic that is taken for one acquires for its own write, if for nothing behind it.
      if (machine::acquires(read.order)) out.push_back(r);
      return out;
    }
    const auto& thread = record_.threads()[read.thread];
    for (auto at = std::find(thread.begin(), thread.end(), r); at != thread.end(); ++at) {
      const Node& x = nodes_[*at];
      if (x.kind == Kind::fence && x.order != machine::Order::release) out.push_back(*at);
      if (x.kind == Kind::read && x.location == read.location && machine::acquires(x.order) &&
          same_address(x, read, false)) {
        out.push_back(*at);
      }
    }
    return out;
  }

  // Fence-SC order, pair by pair; both relations are closed and have the pairs chosen so far.
  void choose_sc(std::size_t i, const Relation& base, const Relation& run,
                 std::vector<bool>& chosen, std::vector<Judgement>* out) {
    if (consistent_ && out == nullptr) return;
    if (i == sc_pairs_.size()) return with_base(base, run, chosen, out);
    const auto [a, b] = sc_pairs_[i];
    // Axiom Fence-SC: it does not contradict causality.
    if (base(a, b) && base(b, a)) return;
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      if (base(y, x)) continue;
      Relation next_base = base, next_run = run;
      next_base.add_closed(x, y);
      next_run.add_closed(x, y);
      chosen.push_back(x == a);
      choose_sc(i + 1, next_base, next_run, chosen, out);
      chosen.pop_back();
    }
  }

  void with_base(const Relation& base, const Relation& run, const std::vector<bool>& chosen,
                 std::vector<Judgement>* out) {
    bool in_order = true;
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (nodes_[i].kind == Kind::meeting) continue;  // barriers order both ways
      if (base(i, i)) return;
      in_order = in_order && !run(i, i);
    }
    if (in_order && out != nullptr) {
      consistent_ = true;
      return;
    }
    // Causality order: base causality, or an observation and then base causality.
    const Relation across = preserved(base);
    Relation cause = across;
    for (std::uint32_t w = 0; w < n_; ++w) {
      if (nodes_[w].kind != Kind::write) continue;
      for (const std::uint32_t r : reads_) {
        if (observation_(w, r)) cause.add_row(w, across, r);
      }
    }
    // Axiom Causality: no read takes a write of its future.
    for (const std::uint32_t r : reads_) {
      if (cause(r, nodes_[r].source)) return;
    }
    // Axiom Coherence: what causality orders, and morally strong writes as the run placed them.
    Relation co = given_;
    for (const auto& writes : at_) {
      for (const std::uint32_t a : writes) {
        for (const std::uint32_t b : writes) {
          if (a == b) continue;
          if (cause(a, b) || nodes_[a].kind == Kind::initial) co.add(a, b);
        }
      }
    }
    co.close();
    for (const auto& writes : at_) {
      for (const std::uint32_t w : writes) {
        if (co(w, w)) return;
      }
    }
    if (!reads_allow(co, cause) || !sc_per_location(co)) return;
    consistent_ = true;
    if (out == nullptr) return;
    Judgement j;
    j.race = race(cause);
    j.fingerprint = fingerprint(co, chosen);
    for (const auto& writes : at_) {
      j.final_writes.emplace_back();
      for (const std::uint32_t w : writes) {
        const bool last =
            std::none_of(writes.begin(), writes.end(), [&](std::uint32_t x) { return co(w, x); });
        if (last) j.final_writes.back().push_back(w);
      }
    }
    out->push_back(std::move(j));
  }

  // Axioms Causality (no read of what its past overwrote) and Atomicity.
  bool reads_allow(const Relation& co, const Relation& cause) const {
    for (const std::uint32_t r : reads_) {
      const Node& read = nodes_[r];
      for (const std::uint32_t w : at_[read.location]) {
        if (!co(read.source, w)) continue;
        if (cause(w, r)) return false;
        if (read.other != kNone && w != read.other && strong(w, read.other) && co(w, read.other)) {
          return false;
        }
      }
    }
    return true;
  }

  bool sc_per_location(const Relation& co) const {
    Relation order(n_);
    for (const auto& thread : record_.threads()) {
      for (std::size_t i = 0; i < thread.size(); ++i) {
        for (std::size_t j = i + 1; j < thread.size(); ++j) {
          const Node &x = nodes_[thread[i]], &y = nodes_[thread[j]];
          if (is_memory(x) && is_memory(y) && x.location == y.location &&
              strong(thread[i], thread[j])) {
            order.add(thread[i], thread[j]);
          }
        }
      }
    }
    for (const auto& writes : at_) {
      for (const std::uint32_t a : writes) {
        for (const std::uint32_t b : writes) {
          if (co(a, b) && strong(a, b)) order.add(a, b);
        }
      }
    }
    for (const std::uint32_t r : reads_) {
      const Node& read = nodes_[r];
      if (strong(read.source, r)) order.add(read.source, r);
      for (const std::uint32_t w : at_[read.location]) {
        if (co(read.source, w) && strong(r, w)) order.add(r, w);
      }
    }
    order.close();
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (order(i, i)) return false;
    }
    return true;
  }

  // PTX, "Conflict and Data-races": conflicting, not morally strong, unordered by causality (as
  // the machine has it: an observation itself counts, and an atomic is one operation).
  bool race(const Relation& cause) const {
    const auto ordered = [&](std::uint32_t a, std::uint32_t b) {
      if (cause(a, b) || observation_(a, b)) return true;
      return nodes_[a].kind == Kind::read && nodes_[a].other != kNone && cause(nodes_[a].other, b);
    };
    for (std::uint32_t a = 0; a < n_; ++a) {
      if (!is_memory(nodes_[a])) continue;
      for (std::uint32_t b = a + 1; b < n_; ++b) {
        const Node &x = nodes_[a], &y = nodes_[b];
        if (!is_memory(y) || x.location != y.location) continue;
        if (x.kind != Kind::write && y.kind != Kind::write) continue;
        if (!strong(a, b) && !ordered(a, b) && !ordered(b, a)) return true;
      }
    }
    return false;
  }

  // Independent of the order in which the run came by the events.
  std::uint64_t fingerprint(const Relation& co, const std::vector<bool>& chosen) const {
    const auto mix = [](std::uint64_t h) {
      h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
      h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
      return h ^ (h >> 31);
    };
    const auto hash = [&](std::uint32_t i) {
      const Node& x = nodes_[i];
      if (!is_memory(x) && x.kind != Kind::initial) return mix(x.place.label ^ mix(nth(i)));
      const CellKey& cell = record_.locations()[x.location];
      return mix(x.place.label ^
                 mix(std::uint64_t{x.place.nth} << 40 ^ cell.offset << 16 ^
                     std::uint64_t{cell.region} << 2 ^ static_cast<std::uint64_t>(x.kind)));
    };
    std::uint64_t sum = 0;
    for (const std::uint32_t r : reads_) sum += mix(hash(r) + 3 * hash(nodes_[r].source));
    for (const auto& writes : at_) {
      for (const std::uint32_t a : writes) {
        for (const std::uint32_t b : writes) {
          if (co(a, b)) sum += mix(5 * hash(a) + 7 * hash(b));
        }
      }
    }
    for (std::size_t i = 0; i < sc_pairs_.size(); ++i) {
      const auto& [a, b] = sc_pairs_[i];
      const bool forward = chosen[i];
      sum += mix(11 * hash(forward ? a : b) + 13 * hash(forward ? b : a));
    }
    return sum;
  }
  std::uint64_t nth(std::uint32_t node) const {
    const auto& thread = record_.threads()[nodes_[node].thread];
    return static_cast<std::uint64_t>(std::find(thread.begin(), thread.end(), node) -
                                      thread.begin());
  }

  const Record& record_;
  const std::vector<Node>& nodes_;
  const std::size_t n_;
  std::vector<bool> out_;                       // reads and writes that do not count
  std::vector<std::vector<std::uint32_t>> at_;  // the writes of each location
  std::vector<std::uint32_t> reads_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sc_pairs_;
  Relation order_;      // program order, launches, barriers; closed
  Relation preserved_;  // of it, across proxies
  Relation bound_;      // dependencies; closed
  Relation needs_;      // reads-from and dependencies
  Relation air_;        // closed
  Relation observation_;
  bool consistent_ = false;
  Relation given_;  // morally strong writes as the run's coherence orders them
};

}  // namespace

bool may_buffer(const Record& record) {
  const Axioms axioms(record);
  return axioms.has_sc_pair() || !axioms.deferrable().empty();
}

std::vector<Foreseen> corrections(const Record& record) { return Axioms(record).corrections(); }

Judged judge(const Record& record, machine::Machine& machine, bool straight) {
  Judged out;
  Axioms axioms(record);
  out.unclear = !record.plain() || !axioms.take_coherence(machine);
  const bool consistent = !out.unclear && axioms.run(&out.executions);
  if (!straight || consistent || out.unclear) {
    if (axioms.thin_air()) return out;
    for (auto& [read, proposal] : axioms.later()) out.later.push_back(proposal);
  } else {
    out.later = axioms.of_conflict();
  }
  return out;
}

}  // namespace ringfence::check
