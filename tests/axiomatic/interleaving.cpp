#include "tests/axiomatic/interleaving.hpp"

#include <algorithm>
#include <stdexcept>

namespace ringfence::axiomatic {
namespace {

using Kind = Instruction::Kind;

struct State {
  std::vector<Value> memory;
  std::vector<std::vector<Value>> registers;
  std::vector<std::size_t> next;
  // Threads that stand at their barrier or have passed it.
  std::set<std::size_t> arrived;
  auto operator<=>(const State&) const = default;
};

class Interleaver {
 public:
  explicit Interleaver(const Program& program) : program_(program) {}

  std::set<Outcome> run() {
    State start;
    for (const Location& l : program_.locations) start.memory.push_back(l.initial);
    for (const Thread& t : program_.threads) {
      start.registers.push_back(t.registers);
      start.next.push_back(0);
    }
    visit(start);
    return outcomes_;
  }

 private:
  void visit(const State& state) {
    if (!seen_.insert(state).second) return;
    bool done = true;
    for (std::size_t t = 0; t < program_.threads.size(); ++t) {
      if (state.next[t] >= program_.threads[t].code.size()) continue;
      done = false;
      State after = state;
      if (step(after, t)) visit(after);
    }
    if (!done) return;
    Outcome outcome;
    for (const auto& registers : state.registers) {
      outcome.insert(outcome.end(), registers.begin(), registers.end());
    }
    outcome.insert(outcome.end(), state.memory.begin(), state.memory.end());
    outcomes_.insert(outcome);
  }

  Value value(const State& s, std::size_t t, const Operand& o) const {
    return o.reg ? s.registers[t][static_cast<std::size_t>(*o.reg)] : o.constant;
  }

  // False where the thread has to wait.
  bool step(State& s, std::size_t t) const {
    const Instruction& i = program_.threads[t].code[s.next[t]];
    const auto cell = [&]() -> Value& {
      std::size_t l = static_cast<std::size_t>(i.address.location);
      if (i.address.reg) {
        const Value held = s.registers[t][static_cast<std::size_t>(*i.address.reg)];
        l = 0;
        while (l < s.memory.size() && address_of(static_cast<int>(l)) != held) ++l;
      }
      return s.memory.at(l);
    };
    const auto set = [&](Value v) {
      if (i.destination) s.registers[t][static_cast<std::size_t>(*i.destination)] = v;
    };
    switch (i.kind) {
      case Kind::Load:
        set(cell());
        break;
      case Kind::Store:
        cell() = value(s, t, i.a);
        break;
      case Kind::Rmw: {
        const Value old = cell();
        const Value operand = value(s, t, i.a);
        if (i.op != Op::Add && i.op != Op::Exch) throw std::logic_error("unknown atomic");
        cell() = i.op == Op::Add ? old + operand : operand;
        set(old);
        break;
      }
      case Kind::Cas: {
        const Value old = cell();
        if (old == value(s, t, i.a)) cell() = value(s, t, i.b);
        set(old);
        break;
      }
      case Kind::BarSync:
        // The arrival is a step of its own, which does not move the thread.
        if (s.arrived.insert(t).second) return true;
        if (!all_arrived(s, t)) return false;
        break;
      case Kind::BarArrive:
        s.arrived.insert(t);
        break;
      case Kind::Compute: {
        const Value a = value(s, t, i.a);
        const Value b = value(s, t, i.b);
        if (i.op != Op::Add && i.op != Op::Xor && i.op != Op::Move) {
          throw std::logic_error("unknown operation");
        }
        set(i.op == Op::Add ? a + b : i.op == Op::Xor ? (a ^ b) : a);
        break;
      }
      case Kind::Jump: {
        const bool taken =
            !i.comparison || holds(value(s, t, i.a), *i.comparison, value(s, t, i.b));
        if (taken) {
          if (static_cast<std::size_t>(i.target) <= s.next[t]) throw std::logic_error("a loop");
          s.next[t] = static_cast<std::size_t>(i.target);
          return true;
        }
        break;
      }
      case Kind::ClusterArrive:
      case Kind::ClusterWait:
      case Kind::MbarrierArrive:
      case Kind::MbarrierWait:
      case Kind::MbarrierTest:
        throw std::logic_error("unknown barrier");
      case Kind::Copy:
      case Kind::GroupWait:
        throw std::logic_error("a copy");
      case Kind::Fence:
      case Kind::Bridge:
      case Kind::Nothing:
        break;
    }
    ++s.next[t];
    return true;
  }

  static bool holds(Value a, Comparison comparison, Value b) {
    if (comparison == Comparison::Eq) return a == b;
    if (comparison == Comparison::Ne) return a != b;
    throw std::logic_error("unknown comparison");
  }

  // All threads of the cta that have a barrier.
  bool all_arrived(const State& s, std::size_t t) const {
    const Place& mine = program_.threads[t].place;
    for (std::size_t u = 0; u < program_.threads.size(); ++u) {
      const Thread& other = program_.threads[u];
      if (other.place.gpu != mine.gpu || other.place.cta != mine.cta) continue;
      const bool has = std::any_of(other.code.begin(), other.code.end(), [](const Instruction& i) {
        return i.kind == Kind::BarSync || i.kind == Kind::BarArrive;
      });
      if (has && !s.arrived.contains(u)) return false;
    }
    return true;
  }

  const Program& program_;
  std::set<State> seen_;
  std::set<Outcome> outcomes_;
};

}  // namespace

std::set<Outcome> interleavings(const Program& program) { return Interleaver(program).run(); }

}  // namespace ringfence::axiomatic
