#pragma once
// All executions of a few straight-line threads on the machine: every interleaving of their steps
// and every answer to the machine's choices, by depth-first search over lists of choices.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <string>
#include <vector>

#include "emulator/machine/machine.hpp"

namespace ringfence::machine::test {

// What an execution leaves: named registers, printed "a=1 b=0", in order of their first use.
struct Registers {
  std::vector<std::pair<std::string, std::uint64_t>> values;
  void set(const std::string& name, std::uint64_t v) {
    for (auto& p : values) {
      if (p.first == name) {
        p.second = v;
        return;
      }
    }
    values.emplace_back(name, v);
  }
  std::uint64_t get(const std::string& name) const {
    for (const auto& p : values) {
      if (p.first == name) return p.second;
    }
    return 0;
  }
  std::string text() const {
    auto sorted = values;
    std::sort(sorted.begin(), sorted.end());
    std::string s;
    for (const auto& [n, v] : sorted) s += (s.empty() ? "" : " ") + n + "=" + std::to_string(v);
    return s;
  }
};

class Explorer;

// A step returns false if it cannot be taken yet (an await).
using Step = std::function<bool(Machine&, ThreadId, Registers&)>;

struct ThreadSpec {
  std::uint16_t rank = 0;
  std::uint32_t block = 0;
  std::vector<Step> steps;
};

struct Outcomes {
  std::set<std::string> all;
  std::set<FindingKind> findings;
  std::set<Missing> missing;
  std::size_t executions = 0;
  std::size_t blocked = 0;

  bool has(const std::string& o) const { return all.count(o) != 0; }
  std::string text() const {
    std::string s;
    for (const auto& o : all) s += "[" + o + "] ";
    return s;
  }
};

class Explorer : public Chooser {
 public:
  Boundary boundary = Boundary::strict;
  std::vector<RegionSpec> regions;
  std::vector<ThreadSpec> threads;
  Policy policy;

  Outcomes run() {
    Outcomes out;
    policy.boundary = boundary;
    path_.clear();
    Machine m(std::pmr::new_delete_resource(), policy);
    m.set_chooser(this);
    for (const auto& r : regions) m.add_region(r);
    do {
      m.reset();
      at_ = 0;
      once(m, out);
      ++out.executions;
      REQUIRE(out.executions < 2'000'000);
    } while (next());
    return out;
  }

  std::uint32_t choose(Choice, ThreadId, std::uint32_t options) override { return pick(options); }

 private:
  struct Point {
    std::uint32_t taken, options;
  };

  std::uint32_t pick(std::uint32_t options) {
    if (at_ == path_.size()) path_.push_back({0, options});
    REQUIRE(path_[at_].options == options);
    return path_[at_++].taken;
  }
  bool next() {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().options) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }

  void once(Machine& m, Outcomes& out) {
    std::vector<ThreadId> ids;
    std::vector<std::size_t> pc(threads.size(), 0);
    std::map<std::uint16_t, StreamId> streams;
    for (const auto& t : threads) {
      if (!streams.count(t.rank)) {
        streams[t.rank] = m.add_stream(t.rank);
        m.begin_launch(streams[t.rank]);
      }
    }
    std::map<std::pair<std::uint16_t, std::uint32_t>, std::uint32_t> in_block;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      const auto& t = threads[i];
      ids.push_back(m.launch_thread(streams[t.rank], t.block, in_block[{t.rank, t.block}]++, i));
    }
    Registers regs;
    std::vector<bool> stuck(threads.size(), false);
    for (;;) {
      std::vector<std::size_t> can;
      for (std::size_t i = 0; i < threads.size(); ++i) {
        if (pc[i] < threads[i].steps.size() && !stuck[i]) can.push_back(i);
      }
      if (can.empty()) break;
      const std::size_t i = can[can.size() > 1 ? pick(static_cast<std::uint32_t>(can.size())) : 0];
      if (threads[i].steps[pc[i]](m, ids[i], regs)) {
        ++pc[i];
        std::fill(stuck.begin(), stuck.end(), false);
      } else {
        stuck[i] = true;
      }
    }
    for (const Finding& f : m.findings()) {
      out.findings.insert(f.kind);
      out.missing.insert(f.missing);
    }
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (pc[i] < threads[i].steps.size()) {
        ++out.blocked;
        return;
      }
    }
    out.all.insert(regs.text());
  }

  std::vector<Point> path_;
  std::size_t at_ = 0;
};

// -- steps ----------------------------------------------------------------------------------------

inline Access access(Order o, Scope s = Scope::sys, std::uint8_t element = 4) {
  Access a;
  a.order = o;
  a.scope = s;
  a.element = element;
  return a;
}

inline Step st(Address at, std::uint32_t v, Order o, Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers&) {
    m.write(t, at, access(o, s), std::as_bytes(std::span(&v, 1)));
    return true;
  };
}
inline Step ld(const std::string& reg, Address at, Order o, Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers& r) {
    std::uint32_t v = 0;
    m.read(t, at, access(o, s), std::as_writable_bytes(std::span(&v, 1)));
    r.set(reg, v);
    return true;
  };
}
inline std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a + b; }
inline std::uint64_t exchange(std::uint64_t, std::uint64_t b) { return b; }
inline Step atom_add(const std::string& reg, Address at, std::uint32_t v, Order o,
                     Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers& r) {
    const auto old = m.rmw(t, at, access(o, s), v, add);
    if (!reg.empty()) r.set(reg, old);
    return true;
  };
}
inline Step red_add(Address at, std::uint32_t v, Order o, Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers&) {
    m.reduce(t, at, access(o, s), std::as_bytes(std::span(&v, 1)), add);
    return true;
  };
}
inline Step cas(const std::string& reg, Address at, std::uint32_t compare, std::uint32_t v, Order o,
                Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers& r) {
    r.set(reg, m.cas(t, at, access(o, s), compare, v));
    return true;
  };
}
inline Step fence(Machine::Fence kind, Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers&) {
    m.fence(t, kind, s);
    return true;
  };
}
inline Step await(Address at, std::uint32_t v, Order o, Scope s = Scope::sys,
                  Compare c = Compare::eq) {
  return [=](Machine& m, ThreadId t, Registers&) {
    const Wanted w{c, v};
    if (!m.can_end(t, at, access(o, s), w, false)) return false;
    return m.try_read_until(t, at, access(o, s), w).has_value();
  };
}
inline Step await_cas(Address at, std::uint32_t compare, std::uint32_t v, Order o,
                      Scope s = Scope::sys) {
  return [=](Machine& m, ThreadId t, Registers&) {
    if (!m.can_end(t, at, access(o, s), Wanted{Compare::eq, compare}, true)) return false;
    return m.try_cas_until(t, at, access(o, s), compare, v).has_value();
  };
}

inline RegionSpec word(std::uint16_t rank, RegionKind kind = RegionKind::data) {
  RegionSpec r;
  r.rank = rank;
  r.kind = kind;
  r.bytes = 64;
  return r;
}

}  // namespace ringfence::machine::test
