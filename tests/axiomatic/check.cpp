#include "tests/axiomatic/check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "tests/axiomatic/proxies.hpp"
#include "tests/axiomatic/skeleton.hpp"
#include "tests/axiomatic/unfold.hpp"

namespace ringfence::axiomatic {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// All executions over one skeleton.
class Search {
 public:
  Search(const Skeleton& skeleton, const Meeting& meeting, const Options& options, Result& result)
      : s_(skeleton), meeting_(meeting), options_(options), result_(result) {
    source_.fill(-1);
    for_each(s_.reads, [&](int r) { reads_.push_back(r); });
  }

  void run() {
    // No Thin Air; off load buffering all of program order is a dependency.
    air_ = s_.dependency;
    if (options_.atomic_is_dependency) air_ |= s_.rmw;
    air_ |= meeting_.ended;
    if (!options_.load_buffering) {
      air_ |= s_.po;
      air_ |= s_.async;
      air_ |= s_.issue;
      air_ |= meeting_.barrier;
      air_ |= meeting_.time;
    }
    air_.close();
    if (!options_.load_buffering && !air_.irreflexive(~s_.barriers)) return;
    local_ = s_.po_location;
    local_.close();
    choose_source(0);
  }

 private:
  // Reads-from, read by read.
  void choose_source(std::size_t i) {
    if (i == reads_.size()) {
      with_reads_from();
      return;
    }
    const int r = reads_[i];
    for_each(s_.sources[index(r)], [&](int w) {
      if (splits_atomics(r, w, i)) return;
      const Relation air = air_;
      const Relation local = local_;
      if (connect(r, w)) {
        source_[index(r)] = w;
        choose_source(i + 1);
      }
      air_ = air;
      local_ = local;
    });
  }

  // Adds what reading w means for No Thin Air (air_) and SC per location (local_), as far as it is
  // known before coherence; both are closed. False when one of them becomes cyclic.
  bool connect(int r, int w) {
    if (air_(r, w)) return false;
    air_.add_closed(w, r);
    if (s_.strong(w, r)) {
      if (local_(r, w)) return false;
      local_.add_closed(w, r);
    }
    // Writes that any coherence order puts behind w: then the read precedes them, and where it
    // belongs to an atomic, so does the atomic's write.
    const int mine = s_.event(r).rmw_write;
    const Set behind = s_.is(s_.initial, w)
                           ? s_.writes_to[index(s_.event(r).location)] & ~s_.initial
                           : local_.row(w) & s_.writes & s_.strong.row(w);
    bool acyclic = true;
    for_each(behind, [&](int later) {
      if (s_.strong(r, later)) {
        acyclic = acyclic && !local_(later, r);
        if (acyclic) local_.add_closed(r, later);
      }
      if (mine >= 0 && later != mine && s_.strong(mine, later)) {
        acyclic = acyclic && !local_(later, mine);
        if (acyclic) local_.add_closed(mine, later);
      }
    });
    return acyclic;
  }

  // Two morally strong atomics that read one write: one of their writes would lie between the
  // other's read and write, where that write is coherence-before both.
  bool splits_atomics(int r, int w, std::size_t chosen) const {
    const int mine = s_.event(r).rmw_write;
    if (mine < 0 || !before_atomic(w, r)) return false;
    for (std::size_t i = 0; i < chosen; ++i) {
      const int other = s_.event(reads_[i]).rmw_write;
      if (other >= 0 && source_[index(reads_[i])] == w && s_.strong(mine, other) &&
          before_atomic(w, reads_[i])) {
        return true;
      }
    }
    return false;
  }
  bool before_atomic(int w, int r) const { return s_.is(s_.initial, w) || s_.strong(w, r); }

  void with_reads_from() {
    // No Thin Air holds, so following reads-from and data ends.
    if (!evaluate()) return;

    // Observation: from a write by morally strong reads-from, through atomics.
    Relation steps(s_.n);
    for (int r : reads_) {
      if (s_.strong(source_[index(r)], r)) steps.add(source_[index(r)], r);
    }
    steps |= s_.rmw;
    steps.close();
    observation_ = Relation(s_.n);
    for_each(s_.writes, [&](int w) { observation_.add(w, steps.row(w) & s_.reads); });

    base_ = s_.po;
    base_ |= s_.async;
    base_ |= meeting_.barrier;
    const auto synchronise = [&](int from, int to) {
      for_each(s_.release_starts[index(from)],
               [&](int a) { base_.add(a, s_.acquire_ends[index(to)] & s_.strong.row(a)); });
    };
    for_each(s_.barriers, [&](int a) {
      for_each(meeting_.observed.row(a) & s_.strong.row(a), [&](int w) { synchronise(a, w); });
    });
    for_each(s_.writes,
             [&](int w) { for_each(observation_.row(w), [&](int r) { synchronise(w, r); }); });
    base_.close();
    run_ = air_;
    choose_sc(0);
  }

  // Fence-SC order, pair by pair; base_ is closed and has the pairs chosen so far.
  void choose_sc(std::size_t i) {
    if (i == s_.sc_pairs.size()) {
      with_base_causality();
      return;
    }
    const auto [a, b] = s_.sc_pairs[i];
    const bool as_run = !options_.sc_against_reads_from && !options_.load_buffering;
    const bool forward = base_(a, b) || (as_run && run_(a, b));
    const bool backward = base_(b, a) || (as_run && run_(b, a));
    // The Fence-SC axiom: the order may not contradict causality.
    if (forward && backward) return;
    const Relation saved = base_;
    const Relation saved_run = run_;
    for (auto [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      if (x == a ? backward : forward) continue;
      base_.add_closed(x, y);
      run_.add_closed(x, y);
      choose_sc(i + 1);
      base_ = saved;
      run_ = saved_run;
    }
  }

  void with_base_causality() {
    // A cycle would lead from a synchronisation's write over its observation back to that write,
    // against Coherence: seen early here. Barriers of one generation do synchronise both ways.
    if (!base_.irreflexive(~s_.barriers)) return;
    Relation base = base_;
    for (int x = 0; x < s_.n; ++x) {
      for_each(base_.row(x) | bit(x), [&](int issue) { base.add(x, s_.issue.row(issue)); });
    }
    const Relation across = preserved(s_, base);
    cause_ = across;
    for_each(s_.writes, [&](int w) {
      for_each(observation_.row(w), [&](int r) { cause_.add(w, across.row(r)); });
    });
    // Causality: no read takes a write of its future.
    for (int r : reads_) {
      if (cause_(r, source_[index(r)])) return;
    }
    // Coherence: what causality orders.
    Relation co(s_.n);
    for (Set at : s_.writes_to) {
      for_each(at, [&](int w) { co.add(w, cause_.row(w) & at); });
      for_each(at & s_.initial, [&](int w) { co.add(w, at & ~s_.initial); });
    }
    co.close();
    choose_coherence(co);
  }

  // co is closed. Orders the first morally strong pair of writes that it leaves open.
  void choose_coherence(const Relation& co) {
    if (!co.irreflexive() || !reads_allow(co)) return;
    for (Set at : s_.writes_to) {
      at &= ~s_.initial;
      for (Set left = at; left != 0; left &= left - 1) {
        const int a = std::countr_zero(left);
        const Set open = s_.strong.row(a) & left & ~co.row(a) & ~bit(a);
        for (Set rest = open; rest != 0; rest &= rest - 1) {
          const int b = std::countr_zero(rest);
          if (co(b, a)) continue;
          for (auto [x, y] : {std::pair(a, b), std::pair(b, a)}) {
            Relation next = co;
            next.add_closed(x, y);
            choose_coherence(next);
          }
          return;
        }
      }
    }
    if (!is_sc_per_location(co)) return;
    accept(co);
  }

  // Causality (reads before the past of coherence) and Atomicity; more of co only forbids more.
  bool reads_allow(const Relation& co) const {
    for (int r : reads_) {
      const Set later = co.row(source_[index(r)]);
      bool ok = true;
      for_each(later, [&](int w) { ok = ok && !cause_(w, r); });
      const int mine = s_.event(r).rmw_write;
      if (mine >= 0) {
        for_each(later & s_.strong.row(mine), [&](int w) { ok = ok && !co(w, mine); });
      }
      if (!ok) return false;
    }
    return true;
  }

  bool is_sc_per_location(const Relation& co) const {
    Relation order = s_.po_location;
    for_each(s_.writes, [&](int w) { order.add(w, co.row(w) & s_.strong.row(w)); });
    for (int r : reads_) {
      const int w = source_[index(r)];
      if (s_.strong(w, r)) order.add(w, r);
      // An atomic does not come before its own write in communication, but in program order.
      order.add(r, co.row(w) & s_.strong.row(r));
    }
    order.close();
    return order.irreflexive();
  }

  // The values of all reads by following reads-from; false when a path's guess is wrong.
  bool evaluate() {
    for (auto& value : values_) value.reset();
    for (std::size_t t = 0; t < s_.paths.size(); ++t) {
      for (const Constraint& c : s_.paths[t]->constraints) {
        if (compare(expression(t, c.a), c.comparison, expression(t, c.b)) != c.expected) {
          return false;
        }
      }
    }
    return true;
  }

  Value expression(std::size_t thread, int i) {
    const Expression& e = s_.paths[thread]->expressions[index(i)];
    switch (e.kind) {
      case Expression::Kind::Constant:
        return e.constant;
      case Expression::Kind::Read:
        return written(source_[index(s_.first[thread] + e.read)]);
      case Expression::Kind::Operation:
        return apply(e.op, expression(thread, e.a), expression(thread, e.b));
    }
    return 0;
  }

  Value written(int w) {
    auto& value = values_[index(w)];
    if (!value) {
      const Location& location = s_.program->locations[index(s_.event(w).location)];
      value = stored(location, s_.is(s_.initial, w)
                                   ? location.initial
                                   : expression(index(s_.thread(w)), s_.event(w).value));
    }
    return *value;
  }

  // A look sees the last write of its place again and again.
  bool hang(const Relation& co) {
    std::vector<int> threads;
    for (std::size_t t = 0; t < s_.paths.size(); ++t) {
      if (s_.paths[t]->blocked < 0) continue;
      const int read = s_.first[t] + s_.paths[t]->blocked;
      if (co.row(source_[index(read)]) != 0) return true;
      threads.push_back(static_cast<int>(t));
    }
    if (!threads.empty()) result_.hangs.insert(threads);
    return !threads.empty();
  }

  void accept(const Relation& co) {
    if (hang(co)) return;
    ++result_.executions;
    find_race();
    Outcome outcome;
    for (std::size_t t = 0; t < s_.paths.size(); ++t) {
      for (int e : s_.paths[t]->registers) outcome.push_back(expression(t, e));
    }
    final_values(co, 0, outcome);
  }

  void final_values(const Relation& co, std::size_t location, Outcome& outcome) {
    if (location == s_.writes_to.size()) {
      result_.outcomes.insert(outcome);
      return;
    }
    for_each(s_.writes_to[location], [&](int w) {
      if (co.row(w) != 0) return;
      outcome.push_back(written(w));
      final_values(co, location + 1, outcome);
      outcome.pop_back();
    });
  }

  void find_race() {
    if (result_.race_unobserved) return;
    for (int a = s_.location_count(); a < s_.n; ++a) {
      for (int b = a + 1; b < s_.n; ++b) {
        const bool memory = s_.is(s_.reads | s_.writes, a) && s_.is(s_.reads | s_.writes, b);
        if (!memory || s_.event(a).location != s_.event(b).location) continue;
        if (!s_.is(s_.writes, a) && !s_.is(s_.writes, b)) continue;
        if (s_.strong(a, b) || cause_(a, b) || cause_(b, a)) continue;
        // An atomic is one operation: what follows the observation of its write follows its read.
        if (precedes_as_atomic(a, b) || precedes_as_atomic(b, a)) continue;
        result_.race = true;
        if (result_.race_text.empty()) result_.race_text = describe(a) + " and " + describe(b);
        if (observation_(a, b) || observation_(b, a)) continue;
        result_.race_unobserved = true;
        return;
      }
    }
  }

  bool precedes_as_atomic(int a, int b) const {
    const int write = s_.is(s_.reads, a) ? s_.event(a).rmw_write : -1;
    return write >= 0 && cause_(write, b);
  }

  std::string describe(int e) const {
    return std::string(s_.is(s_.reads, e) ? "read" : "write") + " of P" +
           std::to_string(s_.thread(e)) + " (its event " +
           std::to_string(e - s_.first[index(s_.thread(e))]) + ") at location " +
           std::to_string(s_.event(e).location);
  }

  const Skeleton& s_;
  const Meeting& meeting_;
  const Options& options_;
  Result& result_;
  std::vector<int> reads_;
  std::array<int, kMaxEvents> source_;
  std::array<std::optional<Value>, kMaxEvents> values_;
  Relation air_;
  Relation local_;
  Relation observation_;
  Relation base_;
  Relation run_;  // as in a run: program order, reads-from, fence-sc order
  Relation cause_;
};

void choose_paths(const Program& program, const std::vector<Unfolding>& unfoldings,
                  const Options& options, std::vector<const Path*>& chosen, Result& result) {
  if (chosen.size() == unfoldings.size()) {
    const Skeleton skeleton(program, chosen);
    if (skeleton.meetings.empty()) ++result.blocked;
    result.undefined = result.undefined || skeleton.meets_undefined;
    for (const Meeting& m : skeleton.meetings) Search(skeleton, m, options, result).run();
    return;
  }
  for (const Path& path : unfoldings[chosen.size()].paths) {
    chosen.push_back(&path);
    choose_paths(program, unfoldings, options, chosen, result);
    chosen.pop_back();
  }
}

}  // namespace

Result check(const Program& program, const Options& options) {
  Result result;
  std::vector<Unfolding> unfoldings;
  for (const Thread& thread : program.threads) {
    unfoldings.push_back(unfold(program, thread, options.max_backward_jumps, options.hangs));
    result.bounded = result.bounded || unfoldings.back().bounded;
  }
  std::vector<const Path*> chosen;
  choose_paths(program, unfoldings, options, chosen, result);
  return result;
}

}  // namespace ringfence::axiomatic
