#include "emulator/litmus/printer.hpp"

#include <algorithm>

#include "emulator/litmus/names.hpp"

namespace ringfence::litmus {
namespace {

std::string text(std::string_view view) { return std::string(view); }
std::string number(std::int64_t value) { return std::to_string(value); }
std::string type_name(Type type) { return type.kind + number(type.bits); }

template <class E, std::size_t N>
std::string dotted(const NameTable<E, N>& table, E value) {
  return "." + text(name_of(table, value));
}

// The instructions of one thread.
class InstructionPrinter {
 public:
  InstructionPrinter(const Test& test, const Thread& thread) : test_(test), thread_(thread) {}

  std::string operator()(const Load& load) const {
    std::string s = load.multimem ? "multimem.ld_reduce" : mnemonic(load.proxy, "ld");
    s += orders(load.order, load.scope);
    if (load.multimem) s += dotted(kCombineNames, *load.multimem);
    s += vector(load.destinations.size()) + type(load.type) + " ";
    if (load.destinations.size() == 1) {
      s += name(load.destinations.front());
    } else {
      s += "{";
      for (std::size_t i = 0; i < load.destinations.size(); ++i) {
        s += (i > 0 ? ", " : "") + name(load.destinations[i]);
      }
      s += "}";
    }
    return s + ", " + address(load.address);
  }

  std::string operator()(const Store& store) const {
    std::string s = store.multimem ? "multimem.st" : mnemonic(store.proxy, "st");
    s += orders(store.order, store.scope) + vector(store.values.size()) + type(store.type) + " " +
         address(store.address) + ", ";
    if (store.values.size() == 1) return s + operand(store.values.front());
    s += "{";
    for (std::size_t i = 0; i < store.values.size(); ++i) {
      s += (i > 0 ? ", " : "") + operand(store.values[i]);
    }
    return s + "}";
  }

  std::string operator()(const Atomic& atomic) const {
    std::string s = atomic.multimem ? "multimem.red"
                                    : mnemonic(atomic.proxy, atomic.destination ? "atom" : "red");
    s += orders(atomic.order, atomic.scope) + dotted(kCombineNames, atomic.op) + type(atomic.type) +
         " ";
    if (atomic.destination) s += name(*atomic.destination) + ", ";
    s += address(atomic.address) + ", " + operand(atomic.value);
    if (atomic.desired) s += ", " + operand(*atomic.desired);
    return s;
  }

  std::string operator()(const Fence& fence) const {
    return "fence" + orders(fence.order, fence.scope);
  }

  std::string operator()(const ProxyFence& fence) const {
    return "fence.proxy" + dotted(kProxyFenceNames, fence.kind);
  }

  std::string operator()(const Barrier& barrier) const {
    std::string s = barrier.arrive ? "bar.cta.arrive " : "bar.cta.sync ";
    s += operand(barrier.instance);
    if (barrier.id) s += ", " + operand(*barrier.id);
    if (barrier.count) s += ", " + operand(*barrier.count);
    return s;
  }

  std::string operator()(const Mbarrier& barrier) const {
    using Form = Mbarrier::Form;
    const std::string object = test_.locations[index(barrier.object)].name;
    const std::string how = orders(barrier.order, barrier.scope) + " ";
    if (barrier.form == Form::Arrive) {
      if (barrier.bytes == 0) return "mbarrier.arrive" + how + object;
      return "mbarrier.arrive.expect_tx" + how + object + ", " + number(barrier.bytes);
    }
    const std::string rest = object + ", " + number(barrier.parity);
    if (barrier.form == Form::Wait) return "mbarrier.try_wait.parity" + how + rest;
    return "mbarrier.test_wait.parity" + how + name(barrier.destination) + ", " + rest;
  }

  std::string operator()(const ClusterBarrier& barrier) const {
    return (barrier.wait ? "barrier.cluster.wait" : "barrier.cluster.arrive") +
           dotted(kOrderNames, barrier.order);
  }

  std::string operator()(const Copy& copy) const {
    return (copy.adds ? "cp.reduce.async.bulk.add " : "cp.async.bulk ") + address(copy.to) + ", " +
           address(copy.from) +
           (copy.signals ? ", " + test_.locations[index(*copy.signals)].name : std::string());
  }

  std::string operator()(const GroupWait& wait) const {
    return (wait.reads_only ? "cp.async.bulk.wait_group.read " : "cp.async.bulk.wait_group ") +
           std::to_string(wait.pending);
  }

  std::string operator()(const Local& local) const {
    if (local.op == LocalOp::Move)
      return "mov " + name(local.destination) + ", " + operand(local.a);
    return text(name_of(kLocalOpNames, local.op)) + " " + name(local.destination) + ", " +
           operand(local.a) + ", " + operand(local.b);
  }

  std::string operator()(const Branch& branch) const {
    const std::string& label =
        std::get<Label>(thread_.instructions[index(branch.target)].what).name;
    if (!branch.comparison) return "goto " + label;
    return text(name_of(kBranchNames, *branch.comparison)) + " " + operand(branch.a) + ", " +
           operand(branch.b) + ", " + label;
  }

  std::string operator()(const Label& label) const { return label.name + ":"; }
  std::string operator()(const Launch&) const { return "launch"; }

 private:
  static std::string mnemonic(Proxy proxy, const std::string& generic) {
    switch (proxy) {
      case Proxy::Generic:
        return generic;
      case Proxy::Constant:
        return "co" + generic;
      case Proxy::Texture:
        return "t" + generic;
      case Proxy::Surface:
        return "su" + generic;
    }
    return generic;
  }
  static std::string orders(Order order, Scope scope) {
    return dotted(kOrderNames, order) +
           (order == Order::weak ? std::string() : dotted(kScopeNames, scope));
  }
  static std::string vector(std::size_t elements) {
    return elements == 1 ? std::string() : ".v" + std::to_string(elements);
  }
  static std::string type(Type type) { return type.bits == 0 ? "" : "." + type_name(type); }
  std::string name(RegisterId id) const { return thread_.registers[index(id)].name; }
  std::string operand(const Operand& operand) const {
    if (const auto* constant = std::get_if<Constant>(&operand)) return number(constant->value);
    return name(std::get<Register>(operand).id);
  }
  std::string address(const Address& address) const {
    if (const auto* reg = std::get_if<Register>(&address.base)) {
      return "[" + name(reg->id) + (address.offset != 0 ? "+" + number(address.offset) : "") + "]";
    }
    const Location& location = test_.locations[index(std::get<LocationId>(address.base))];
    const std::int64_t width = location.element_bytes();
    if (location.is_array && address.offset % width == 0 &&
        address.offset / width < location.length) {
      return location.name + "[" + number(address.offset / width) + "]";
    }
    return location.name + (address.offset != 0 ? "+" + number(address.offset) : "");
  }

  const Test& test_;
  const Thread& thread_;
};

std::string print_state(const Test& test) {
  std::string s = "{\n";
  for (const Location& location : test.locations) {
    if (location.alias_of) {
      s += location.name + " @ " + text(name_of(kProxyNames, location.proxy)) + " aliases " +
           test.locations[index(*location.alias_of)].name + ";\n";
      continue;
    }
    if (!location.replicas.empty()) {
      s += location.name + " @ multicast aliases ";
      for (std::size_t i = 0; i < location.replicas.size(); ++i) {
        s += (i > 0 ? ", " : "") + test.locations[index(location.replicas[i])].name;
      }
      s += ";\n";
      continue;
    }
    if (location.arrivals > 0) {
      s += "mbarrier " + location.name + "=" + number(location.arrivals) + ";\n";
      continue;
    }
    if (location.initial_address) {
      s += location.name + "=&" + test.locations[index(*location.initial_address)].name + ";\n";
      continue;
    }
    if (location.typed || location.type != Type{'b', 32}) s += type_name(location.type) + " ";
    s += location.name;
    if (!location.is_array) {
      s += "=" + number(location.initial.front()) + ";\n";
      continue;
    }
    s += "[" + number(location.length) + "]={";
    for (std::size_t i = 0; i < location.initial.size(); ++i) {
      s += (i > 0 ? ", " : "") + number(location.initial[i]);
    }
    s += "};\n";
  }
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    for (const RegisterInfo& info : test.threads[t].registers) {
      if (!info.declared) continue;
      s += "P" + std::to_string(t) + ":" + info.name + "=" +
           (info.initial_address ? "&" + test.locations[index(*info.initial_address)].name
                                 : number(info.initial)) +
           ";\n";
    }
  }
  return s + "}\n";
}

std::string print_table(const Test& test) {
  std::vector<std::vector<std::string>> columns;
  std::size_t rows = 0;
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    const Thread& thread = test.threads[t];
    std::vector<std::string> column;
    column.push_back("P" + std::to_string(t) + "@cta " + number(thread.cta) + "," +
                     (thread.cluster ? "cluster " + number(*thread.cluster) + "," : "") + "gpu " +
                     number(thread.gpu));
    for (const Instruction& instruction : thread.instructions) {
      column.push_back(print(test, thread, instruction));
    }
    rows = std::max(rows, column.size());
    columns.push_back(std::move(column));
  }
  std::string s;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t t = 0; t < columns.size(); ++t) {
      const auto& column = columns[t];
      std::size_t width = 0;
      for (const std::string& cell : column) width = std::max(width, cell.size());
      std::string cell = row < column.size() ? column[row] : std::string();
      cell.resize(width, ' ');
      s += (t > 0 ? " | " : " ") + cell;
    }
    s += " ;\n";
  }
  return s;
}

std::string print_term(const Test& test, const Term& term) {
  if (const auto* constant = std::get_if<Constant>(&term)) return number(constant->value);
  return print(test, std::get<Variable>(term));
}

}  // namespace

std::string print(const Test& test, const Thread& thread, const Instruction& instruction) {
  return std::visit(InstructionPrinter(test, thread), instruction.what);
}

std::string print(const Test& test, const Variable& variable) {
  if (variable.thread >= 0) {
    return "P" + number(variable.thread) + ":" +
           test.threads[index(variable.thread)].registers[index(variable.id)].name;
  }
  const Location& location = test.locations[index(variable.id)];
  return location.name + (location.is_array ? "[" + number(variable.element) + "]" : "");
}

std::string print(const Test& test, const Formula& formula) {
  const auto operand = [&](const Formula& child) {
    const bool nested = child.kind == Formula::Kind::And || child.kind == Formula::Kind::Or;
    return nested ? "(" + print(test, child) + ")" : print(test, child);
  };
  switch (formula.kind) {
    case Formula::Kind::Compare:
      return print_term(test, formula.left) + " " +
             text(name_of(kCompareNames, formula.comparison)) + " " +
             print_term(test, formula.right);
    case Formula::Kind::Not:
      return "not " + operand(formula.children.front());
    case Formula::Kind::And:
    case Formula::Kind::Or:
      break;
  }
  std::string s;
  for (const Formula& child : formula.children) {
    if (!s.empty()) s += formula.kind == Formula::Kind::And ? " /\\ " : " \\/ ";
    s += operand(child);
  }
  return s;
}

std::string print(const Test& test) {
  std::string s = "PTX " + test.name + "\n";
  for (const std::string& comment : test.comments) s += "\"" + comment + "\"\n";
  s += print_state(test) + print_table(test);
  if (!test.observed.empty()) {
    s += "locations [";
    for (const Variable& variable : test.observed) s += print(test, variable) + ";";
    s += "]\n";
  }
  if (test.filter) s += "filter (" + print(test, *test.filter) + ")\n";
  s += test.quantifier == Quantifier::Forall      ? "forall"
       : test.quantifier == Quantifier::NotExists ? "~exists"
                                                  : "exists";
  return s + "\n(" + print(test, test.condition) + ")\n";
}

}  // namespace ringfence::litmus
