#include "tests/check/interleaved.hpp"

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "emulator/litmus/printer.hpp"
#include "tests/check/both.hpp"

namespace ringfence::testing {

using namespace litmus;

namespace {

// The state of a run, as values alone: where each thread is, its registers, each location's word.
struct Now {
  std::vector<std::size_t> next;
  std::vector<std::vector<std::int64_t>> registers;
  std::vector<std::int64_t> memory;
  auto operator<=>(const Now&) const = default;
};

[[noreturn]] void unsupported(const std::string& what) { throw std::invalid_argument(what); }

class Runs {
 public:
  explicit Runs(const Test& test) : test_(test), observed_(observed_variables(test)) {}

  Interleaved all() {
    Now first;
    for (const Thread& thread : test_.threads) {
      first.next.push_back(0);
      std::vector<std::int64_t> registers;
      for (const RegisterInfo& r : thread.registers) registers.push_back(r.initial);
      first.registers.push_back(registers);
    }
    for (const Location& l : test_.locations) {
      if (!l.is_memory() || l.length != 1 || l.initial_address) unsupported(l.name);
      first.memory.push_back(l.initial.empty() ? 0 : l.initial.front());
    }
    std::vector<Now> todo{first};
    std::set<Now> seen{first};
    while (!todo.empty()) {
      const Now now = todo.back();
      todo.pop_back();
      std::vector<int> left;
      bool moves = false;
      for (std::size_t t = 0; t < test_.threads.size(); ++t) {
        if (now.next[t] >= test_.threads[t].instructions.size()) continue;
        left.push_back(static_cast<int>(t));
        Now after = now;
        step(after, t);
        moves = moves || after != now;
        if (seen.insert(after).second) todo.push_back(after);
      }
      if (left.empty()) {
        out_.states.insert(state_of(now));
      } else if (!moves) {
        out_.hangs.insert(left);
      }
    }
    return out_;
  }

 private:
  State state_of(const Now& now) const {
    State state;
    for (const Variable& v : observed_) {
      state.push_back(v.thread < 0 ? now.memory[index(v.id)]
                                   : now.registers[index(v.thread)][index(v.id)]);
    }
    return state;
  }

  static std::int64_t value(const Now& now, std::size_t t, const Operand& operand) {
    if (const auto* c = std::get_if<Constant>(&operand)) return c->value;
    return now.registers[t][index(std::get<Register>(operand).id)];
  }

  static std::size_t place(const Address& address) {
    const auto* location = std::get_if<LocationId>(&address.base);
    if (location == nullptr || address.offset != 0) unsupported("an address");
    return index(*location);
  }

  static void strong(Order order, Scope scope, Proxy proxy) {
    if (order == Order::weak || scope != Scope::sys || proxy != Proxy::Generic) {
      unsupported("an access that is not strong at scope sys");
    }
  }

  // What the thread does up to its next access and with it.
  void step(Now& now, std::size_t t) const {
    const std::vector<Instruction>& code = test_.threads[t].instructions;
    for (int local = 0; now.next[t] < code.size(); ++local) {
      if (local > 1000) unsupported("a loop without an access");
      const Instruction& i = code[now.next[t]++];
      auto& registers = now.registers[t];
      if (const auto* load = std::get_if<Load>(&i.what)) {
        strong(load->order, load->scope, load->proxy);
        if (load->destinations.size() != 1 || load->multimem) unsupported("a load");
        registers[index(load->destinations.front())] = now.memory[place(load->address)];
        return;
      }
      if (const auto* store = std::get_if<Store>(&i.what)) {
        strong(store->order, store->scope, store->proxy);
        if (store->values.size() != 1 || store->multimem) unsupported("a store");
        now.memory[place(store->address)] = value(now, t, store->values.front());
        return;
      }
      if (const auto* atomic = std::get_if<Atomic>(&i.what)) {
        strong(atomic->order, atomic->scope, atomic->proxy);
        if (atomic->multimem) unsupported("an atomic");
        std::int64_t& word = now.memory[place(atomic->address)];
        const std::int64_t old = word, operand = value(now, t, atomic->value);
        if (atomic->op == Combine::add) {
          word = old + operand;
        } else if (atomic->op == Combine::exchange) {
          word = operand;
        } else if (atomic->desired) {
          if (old == operand) word = value(now, t, *atomic->desired);
        } else {
          unsupported("an operation");
        }
        if (atomic->destination) registers[index(*atomic->destination)] = old;
        return;
      }
      if (const auto* branch = std::get_if<Branch>(&i.what)) {
        if (!branch->comparison ||
            holds(*branch->comparison, value(now, t, branch->a), value(now, t, branch->b))) {
          now.next[t] = index(branch->target);
        }
      } else if (const auto* op = std::get_if<Local>(&i.what)) {
        const std::int64_t a = value(now, t, op->a), b = value(now, t, op->b);
        std::int64_t& to = registers[index(op->destination)];
        switch (op->op) {
          case LocalOp::Move:
            to = a;
            break;
          case LocalOp::Add:
            to = a + b;
            break;
          case LocalOp::Sub:
            to = a - b;
            break;
          case LocalOp::Mul:
            to = a * b;
            break;
          case LocalOp::And:
            to = a & b;
            break;
          case LocalOp::Or:
            to = a | b;
            break;
          case LocalOp::Xor:
            to = a ^ b;
            break;
          case LocalOp::Div:
            unsupported("a division");
        }
      } else if (!std::holds_alternative<Label>(i.what) && !std::holds_alternative<Fence>(i.what)) {
        unsupported("an instruction");
      }
    }
  }

  static bool holds(Compare comparison, std::int64_t a, std::int64_t b) {
    switch (comparison) {
      case Compare::eq:
        return a == b;
      case Compare::ne:
        return a != b;
      case Compare::lt:
        return a < b;
      case Compare::le:
        return a <= b;
      case Compare::gt:
        return a > b;
      case Compare::ge:
        return a >= b;
      default:
        unsupported("a comparison");
    }
  }

  const Test& test_;
  const std::vector<Variable> observed_;
  Interleaved out_;
};

}  // namespace

Interleaved interleaved(const Test& test) { return Runs(test).all(); }

Test all_strong(Test test) {
  for (Thread& thread : test.threads) {
    for (Instruction& i : thread.instructions) {
      std::visit(
          [](auto& what) {
            if constexpr (requires {
                            what.order;
                            what.scope;
                            what.proxy;
                          }) {
              if (what.order == Order::weak) what.order = Order::relaxed;
              what.scope = Scope::sys;
            }
          },
          i.what);
    }
  }
  return test;
}

std::string difference_of_order(const Test& test) {
  const Interleaved expected = interleaved(test);
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  const Searched searched = search(test, policy, true, 0, true);
  std::string out;
  for (const State& s : expected.states) {
    if (!searched.states.contains(s)) out += "only an interleaving: " + state_text(test, s) + "\n";
  }
  for (const auto& [s, n] : searched.states) {
    if (!expected.states.contains(s)) out += "only the search: " + state_text(test, s) + "\n";
  }
  std::set<std::vector<int>> found;
  for (const std::vector<Waiting>& hang : searched.hangs) {
    std::vector<int> threads;
    for (const Waiting& w : hang) threads.push_back(static_cast<int>(w.thread));
    found.insert(threads);
  }
  const auto tell = [&](const char* who, const std::vector<int>& threads) {
    out += std::string(who) + ": for ever wait";
    for (const int t : threads) out += " P" + std::to_string(t);
    out += "\n";
  };
  for (const auto& threads : expected.hangs) {
    if (!found.contains(threads)) tell("only an interleaving", threads);
  }
  for (const auto& threads : found) {
    if (!expected.hangs.contains(threads)) tell("only the search", threads);
  }
  if (searched.result.repeated > 0) {
    out += std::to_string(searched.result.repeated) + " executions repeated\n";
  }
  return out;
}

}  // namespace ringfence::testing
