#include "tests/axiomatic/skeleton.hpp"

#include <stdexcept>

namespace ringfence::axiomatic {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

bool is_memory(const Event& e) {
  return e.kind == Event::Kind::Read || e.kind == Event::Kind::Write;
}

bool is_mbarrier(const Event& e) {
  return e.kind == Event::Kind::Barrier &&
         (e.sync == Instruction::Kind::MbarrierArrive ||
          e.sync == Instruction::Kind::MbarrierWait || e.sync == Instruction::Kind::Copy);
}

// Which object an access or an mbarrier operation is at; -1: none.
int object(const Skeleton& s, const Event& e) {
  if (is_memory(e)) return e.location;
  return is_mbarrier(e) ? s.location_count() + e.mbarrier : -1;
}

// One proxy and one virtual address.
bool one_way(const Event& a, const Event& b) {
  return a.proxy == b.proxy && a.address == b.address;
}

}  // namespace

bool includes(const Place& from, Scope scope, const Place& to) {
  if (scope == Scope::Sys) return true;
  if (from.gpu != to.gpu) return false;
  if (scope == Scope::Gpu) return true;
  const bool same_cta = from.cta == to.cta;
  if (scope == Scope::Cta) return same_cta;
  return same_cta || (from.cluster && to.cluster && *from.cluster == *to.cluster);
}

Skeleton::Skeleton(const Program& p, const std::vector<const Path*>& chosen)
    : program(&p), paths(chosen) {
  add_events();
  relate_in_program_order();
  relate_asynchronous();
  relate_morally_strong();
  find_patterns();
  find_meetings(*this);
  if (!meetings.empty()) find_sources();
}

void Skeleton::add_events() {
  for (int l = 0; l < location_count(); ++l) {
    Event init;
    init.kind = Event::Kind::Write;
    init.location = l;
    events.push_back(init);
    threads.push_back(-1);
  }
  initial = bit(location_count()) - 1;
  for (std::size_t t = 0; t < paths.size(); ++t) {
    const int offset = static_cast<int>(events.size());
    first.push_back(offset);
    if (offset + static_cast<int>(paths[t]->events.size()) > kMaxEvents) {
      throw std::runtime_error("a program with over 64 events");
    }
    for (Event e : paths[t]->events) {
      e.dependencies <<= offset;
      if (e.rmw_write >= 0) e.rmw_write += offset;
      if (e.issue >= 0) {
        e.issue += offset;
        parts |= bit(static_cast<int>(events.size()));
      }
      events.push_back(e);
      threads.push_back(static_cast<int>(t));
    }
  }
  n = static_cast<int>(events.size());
  rmw_read.assign(index(n), -1);
  writes_to.assign(program->locations.size(), 0);
  for (int e = 0; e < n; ++e) {
    switch (event(e).kind) {
      case Event::Kind::Read:
        reads |= bit(e);
        if (event(e).rmw_write >= 0) rmw_read[index(event(e).rmw_write)] = e;
        break;
      case Event::Kind::Write:
        writes |= bit(e);
        writes_to[index(event(e).location)] |= bit(e);
        break;
      case Event::Kind::Barrier:
        barriers |= bit(e);
        break;
      case Event::Kind::Bridge:
        bridges |= bit(e);
        break;
      case Event::Kind::Fence:
      case Event::Kind::Issue:
      case Event::Kind::GroupWait:
        break;
    }
  }
}

void Skeleton::relate_in_program_order() {
  po = po_location = dependency = rmw = Relation(n);
  for (int a = location_count(); a < n; ++a) {
    for (int b = a + 1; b < n && thread(b) == thread(a); ++b) {
      if (is(parts, a) || is(parts, b)) continue;
      po.add(a, b);
      if (is_memory(event(a)) && is_memory(event(b)) && event(a).location == event(b).location &&
          one_way(event(a), event(b))) {
        po_location.add(a, b);
      }
    }
    for_each(event(a).dependencies, [&](int read) { dependency.add(read, a); });
    if (event(a).rmw_write >= 0) rmw.add(a, event(a).rmw_write);
  }
}

void Skeleton::relate_asynchronous() {
  async = issue = Relation(n);
  // Issues of this thread that signal no mbarrier, a bulk group each, between two of its events.
  const auto groups_between = [&](int a, int b) {
    Value groups = 0;
    for (int c = a + 1; c < b; ++c) {
      if (event(c).kind != Event::Kind::Issue) continue;
      bool signals = false;
      for_each(parts, [&](int part) {
        signals = signals || (event(part).issue == c && event(part).kind == Event::Kind::Barrier);
      });
      if (!signals) ++groups;
    }
    return groups;
  };
  for_each(parts, [&](int a) {
    issue.add(event(a).issue, a);
    bool signals = false;
    for (int b = a + 1; b < n && thread(b) == thread(a); ++b) {
      if (event(b).issue == event(a).issue) {
        async.add(a, b);
        signals = signals || event(b).kind == Event::Kind::Barrier;
      }
      const bool waits = event(b).kind == Event::Kind::GroupWait && !signals &&
                         event(a).kind != Event::Kind::Barrier;
      if (waits && !(event(b).reads_only && event(a).writes_result) &&
          groups_between(a, b) >= event(b).pending) {
        async.add(a, b);
      }
    }
  });
}

// PTX, "Morally strong operations". All accesses here have one size.
void Skeleton::relate_morally_strong() {
  strong = Relation(n);
  const auto is_strong = [&](int e) {
    const Event& x = event(e);
    return x.kind == Event::Kind::Fence || (object(*this, x) >= 0 && x.order != Order::Weak);
  };
  // Bytes that complete at an mbarrier do so in the block that waits there, wherever the copy was
  // issued: the scope of the wait does not have to include the issuer.
  const auto place = [&](int e) {
    for (int w = location_count();
         w < n && event(e).kind == Event::Kind::Barrier && event(e).sync == Instruction::Kind::Copy;
         ++w) {
      if (event(w).kind == Event::Kind::Barrier && event(w).mbarrier == event(e).mbarrier &&
          event(w).sync == Instruction::Kind::MbarrierWait) {
        return program->threads[index(thread(w))].place;
      }
    }
    return program->threads[index(thread(e))].place;
  };
  for (int a = location_count(); a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      const int at = object(*this, event(a)), other = object(*this, event(b));
      if (at >= 0 && other >= 0 && at != other) continue;
      if (is_memory(event(a)) && is_memory(event(b)) && !one_way(event(a), event(b))) continue;
      // A fence is of the generic proxy; proxy fences are no part of this.
      const auto aside = [&](int e) {
        return event(e).kind == Event::Kind::Bridge || event(e).kind == Event::Kind::Issue ||
               event(e).kind == Event::Kind::GroupWait ||
               (is_memory(event(e)) && event(e).proxy != Proxy::Generic);
      };
      const bool both = is_memory(event(a)) && is_memory(event(b));
      if (!both && (aside(a) || aside(b))) continue;
      const bool related = po(a, b) || (is_strong(a) && is_strong(b) &&
                                        includes(place(a), event(a).scope, place(b)) &&
                                        includes(place(b), event(b).scope, place(a)));
      if (!related) continue;
      strong.add(a, b);
      strong.add(b, a);
      const bool sc = event(a).kind == Event::Kind::Fence && event(b).kind == Event::Kind::Fence &&
                      event(a).order == Order::Sc && event(b).order == Order::Sc;
      if (sc && thread(a) != thread(b)) sc_pairs.emplace_back(a, b);
    }
  }
}

// PTX, "Release and acquire patterns". An arrival at an mbarrier is the strong write of a pattern,
// a look at it that finds the phase over the strong read: by its own order, or with a fence. That a
// later look or an earlier arrival lends its order, as at a location, the manual does not say of
// mbarriers, whose phases are different meetings.
void Skeleton::find_patterns() {
  release_starts.assign(index(n), 0);
  acquire_ends.assign(index(n), 0);
  const auto writes_there = [](const Event& x) {
    return x.kind == Event::Kind::Write ||
           (is_mbarrier(x) && x.sync != Instruction::Kind::MbarrierWait);
  };
  const auto reads_there = [](const Event& x) {
    return (x.kind == Event::Kind::Read && !x.reduction) ||
           (is_mbarrier(x) && x.sync == Instruction::Kind::MbarrierWait);
  };
  for (int e = location_count(); e < n; ++e) {
    const Event& x = event(e);
    if (is_memory(x) && x.order == Order::Weak) continue;
    if (writes_there(x)) {
      if (x.order == Order::Release) release_starts[index(e)] |= bit(e);
      for (int a = location_count(); a < e; ++a) {
        if (!po(a, e)) continue;
        const Event& y = event(a);
        const bool release_write = writes_there(y) && y.order == Order::Release && is_memory(y) &&
                                   object(*this, y) == object(*this, x) && y.address == x.address;
        const bool release_fence = y.kind == Event::Kind::Fence && y.order != Order::Acquire;
        if (release_write || release_fence) release_starts[index(e)] |= bit(a);
      }
    } else if (reads_there(x)) {
      if (x.order == Order::Acquire) acquire_ends[index(e)] |= bit(e);
      for (int b = e + 1; b < n; ++b) {
        if (!po(e, b)) continue;
        const Event& y = event(b);
        const bool acquire_read = reads_there(y) && y.order == Order::Acquire && is_memory(y) &&
                                  object(*this, y) == object(*this, x) && y.address == x.address;
        const bool acquire_fence = y.kind == Event::Kind::Fence && y.order != Order::Release;
        if (acquire_read || acquire_fence) acquire_ends[index(e)] |= bit(b);
      }
    }
  }
}

void Skeleton::find_sources() {
  sources.assign(index(n), 0);
  for_each(reads, [&](int r) {
    Set all = writes_to[index(event(r).location)];
    // Causality, where it holds across proxies without fences: a read takes nothing from its
    // future, and program order to a write at this place puts the initial one out of reach.
    all &= ~po_location.row(r);
    for_each(all & ~initial, [&](int w) {
      if (po_location(w, r)) all &= ~initial;
    });
    sources[index(r)] = all;
  });
  drop_wrong_values();
}

// A path that went on because a read returned a certain constant (an await, a compare-and-swap)
// rules out all writes of other constants.
void Skeleton::drop_wrong_values() {
  for (std::size_t t = 0; t < paths.size(); ++t) {
    for (const Constraint& c : paths[t]->constraints) {
      const Expression& a = paths[t]->expressions[index(c.a)];
      const Expression& b = paths[t]->expressions[index(c.b)];
      const bool read_first = a.kind == Expression::Kind::Read;
      const Expression& read = read_first ? a : b;
      const Expression& other = read_first ? b : a;
      if (read.kind != Expression::Kind::Read || other.kind != Expression::Kind::Constant) continue;
      const int r = first[t] + read.read;
      for_each(sources[index(r)], [&](int w) {
        const Location& location = program->locations[index(event(w).location)];
        Value value = location.initial;
        if (!is(initial, w)) {
          const Expression& written = paths[index(thread(w))]->expressions[index(event(w).value)];
          if (written.kind != Expression::Kind::Constant) return;
          value = written.constant;
        }
        value = stored(location, value);
        const bool holds = read_first ? compare(value, c.comparison, other.constant)
                                      : compare(other.constant, c.comparison, value);
        if (holds != c.expected) sources[index(r)] &= ~bit(w);
      });
    }
  }
}

}  // namespace ringfence::axiomatic
