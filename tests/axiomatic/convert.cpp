#include "tests/axiomatic/convert.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

namespace ringfence::axiomatic {
namespace {

namespace lit = ringfence::litmus;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Where a test's locations and their elements stand in the program.
std::vector<int> first_elements(const lit::Test& test) {
  std::vector<int> first;
  int next = 0;
  for (const lit::Location& location : test.locations) {
    first.push_back(next);
    next += location.length;
  }
  return first;
}

class Converter {
 public:
  Converter(const lit::Test& test, bool cohere)
      : test_(test), first_(first_elements(test)), cohere_(cohere) {}

  Program run() {
    Program program;
    for (const lit::Location& location : test_.locations) {
      if (!location.replicas.empty()) throw Unsupported("multicast addresses");
      if (location.alias_of) continue;
      for (std::int64_t initial : location.initial) {
        if (location.initial_address)
          initial = address_of(first_[index(*location.initial_address)]);
        program.locations.push_back({initial, location.type.bits, location.type.kind == 'u'});
      }
    }
    for (std::size_t l = 0; l < test_.locations.size(); ++l) {
      if (test_.locations[l].arrivals == 0) continue;
      objects_.resize(l + 1);
      objects_[l] = static_cast<int>(program.mbarriers.size());
      program.mbarriers.push_back({test_.locations[l].arrivals});
    }
    program.names = names();
    for (const lit::Thread& thread : test_.threads) program.threads.push_back(convert(thread));
    return program;
  }

 private:
  // Every element of every name, in the order of first_elements. A second name of the generic proxy
  // is an address of its own, any other has the address of what it names.
  std::vector<Name> names() const {
    std::vector<int> memory_first;  // by location: its first element among the memory's
    int next = 0;
    for (const lit::Location& location : test_.locations) {
      memory_first.push_back(next);
      if (!location.alias_of) next += location.length;
    }
    std::vector<Name> out;
    for (std::size_t i = 0; i < test_.locations.size(); ++i) {
      std::size_t address = i;
      while (test_.locations[address].alias_of &&
             test_.locations[address].proxy != lit::Proxy::Generic) {
        address = index(*test_.locations[address].alias_of);
      }
      std::size_t memory = address;
      while (test_.locations[memory].alias_of) memory = index(*test_.locations[memory].alias_of);
      const bool cohere = cohere_ || address == memory;
      for (int e = 0; e < test_.locations[i].length; ++e) {
        out.push_back({memory_first[memory] + e, cohere ? 0 : static_cast<int>(address) + 1});
      }
    }
    return out;
  }

  Thread convert(const lit::Thread& thread) {
    thread_ = &thread;
    Thread out;
    out.place = {thread.gpu, thread.cta, thread.cluster};
    for (const lit::RegisterInfo& info : thread.registers) {
      out.registers.push_back(
          info.initial_address ? address_of(first_[index(*info.initial_address)]) : info.initial);
    }
    for (const lit::Instruction& instruction : thread.instructions) {
      out.code.push_back(
          std::visit([this](const auto& i) { return convert(i); }, instruction.what));
    }
    return out;
  }

  Instruction convert(const lit::Load& load) {
    if (load.multimem) throw Unsupported("multimem");
    if (load.destinations.size() != 1) throw Unsupported("vector accesses");
    Instruction i = access(Instruction::Kind::Load, load);
    i.destination = load.destinations.front();
    return i;
  }

  Instruction convert(const lit::Store& store) {
    if (store.multimem) throw Unsupported("multimem");
    if (store.values.size() != 1) throw Unsupported("vector accesses");
    Instruction i = access(Instruction::Kind::Store, store);
    i.a = operand(store.values.front());
    return i;
  }

  Instruction convert(const lit::Atomic& atomic) {
    if (atomic.multimem) throw Unsupported("multimem");
    const bool cas = atomic.op == lit::Combine::cas;
    Instruction i = access(cas ? Instruction::Kind::Cas : Instruction::Kind::Rmw, atomic);
    i.destination = atomic.destination;
    i.a = operand(atomic.value);
    if (cas) {
      i.b = operand(*atomic.desired);
    } else {
      i.op = op(atomic.op);
    }
    return i;
  }

  Instruction convert(const lit::Fence& fence) {
    Instruction i;
    i.kind = Instruction::Kind::Fence;
    i.order = order(fence.order);
    i.scope = scope(fence.scope);
    return i;
  }

  Instruction convert(const lit::ProxyFence& fence) {
    Instruction i;
    i.kind = Instruction::Kind::Bridge;
    switch (fence.kind) {
      case lit::ProxyFence::Kind::Alias:
        break;
      case lit::ProxyFence::Kind::Constant:
        i.proxy = Proxy::Constant;
        break;
      case lit::ProxyFence::Kind::Texture:
        i.proxy = Proxy::Texture;
        break;
      case lit::ProxyFence::Kind::Surface:
        i.proxy = Proxy::Surface;
        break;
      case lit::ProxyFence::Kind::Async:
        i.proxy = Proxy::Async;
        break;
    }
    return i;
  }
  Instruction convert(const lit::Launch&) { throw Unsupported("launches"); }

  Instruction convert(const lit::Barrier& barrier) {
    Instruction i;
    i.kind = barrier.arrive ? Instruction::Kind::BarArrive : Instruction::Kind::BarSync;
    i.barrier_instance = constant(barrier.instance);
    if (barrier.id) i.barrier_id = constant(*barrier.id);
    if (barrier.count) i.barrier_count = constant(*barrier.count);
    return i;
  }

  Instruction convert(const lit::Mbarrier& barrier) {
    using Form = lit::Mbarrier::Form;
    Instruction i;
    i.kind = barrier.form == Form::Arrive ? Instruction::Kind::MbarrierArrive
             : barrier.form == Form::Wait ? Instruction::Kind::MbarrierWait
                                          : Instruction::Kind::MbarrierTest;
    i.order = order(barrier.order);
    i.scope = scope(barrier.scope);
    i.mbarrier = objects_[index(barrier.object)];
    i.parity = barrier.parity;
    i.bytes = barrier.bytes;
    if (barrier.form == Form::Test) i.destination = barrier.destination;
    return i;
  }

  Instruction convert(const lit::ClusterBarrier& barrier) {
    Instruction i;
    i.kind = barrier.wait ? Instruction::Kind::ClusterWait : Instruction::Kind::ClusterArrive;
    i.order = order(barrier.order);
    return i;
  }

  Instruction convert(const lit::Copy& copy) {
    Instruction i;
    i.kind = Instruction::Kind::Copy;
    i.op = copy.adds ? Op::Add : Op::Move;
    i.address = named(copy.to);
    i.source = named(copy.from);
    i.signals = copy.signals.has_value();
    if (copy.signals) i.mbarrier = objects_[index(*copy.signals)];
    i.bytes = i.signals ? lit::kCopyBytes : 0;
    return i;
  }

  Instruction convert(const lit::GroupWait& wait) {
    Instruction i;
    i.kind = Instruction::Kind::GroupWait;
    i.reads_only = wait.reads_only;
    i.pending = wait.pending;
    return i;
  }

  Address named(const lit::Address& a) const {
    const auto id = std::get<lit::LocationId>(a.base);
    const int width = test_.locations[index(id)].element_bytes();
    if (a.offset % width != 0) throw Unsupported("mixed sizes");
    return {first_[index(id)] + static_cast<int>(a.offset / width), std::nullopt};
  }

  Instruction convert(const lit::Local& local) {
    Instruction i;
    i.kind = Instruction::Kind::Compute;
    i.destination = local.destination;
    i.a = operand(local.a);
    i.b = operand(local.b);
    i.op = op(local.op);
    return i;
  }

  Instruction convert(const lit::Branch& branch) {
    Instruction i;
    i.kind = Instruction::Kind::Jump;
    if (branch.comparison) i.comparison = comparison(*branch.comparison);
    i.a = operand(branch.a);
    i.b = operand(branch.b);
    i.target = branch.target;
    return i;
  }

  Instruction convert(const lit::Label&) {
    Instruction i;
    i.kind = Instruction::Kind::Nothing;
    return i;
  }

  template <class Access>
  Instruction access(Instruction::Kind kind, const Access& access) {
    Instruction i;
    i.proxy = proxy(access.proxy);
    i.kind = kind;
    i.order = order(access.order);
    if (access.order != lit::Order::weak) i.scope = scope(access.scope);
    if (const auto* reg = std::get_if<lit::Register>(&access.address.base)) {
      if (access.address.offset != 0) throw Unsupported("offsets from a register");
      if (access.type.bits != 0) throw Unsupported("a width on an access through a register");
      i.address.reg = reg->id;
      return i;
    }
    const auto id = std::get<lit::LocationId>(access.address.base);
    const lit::Location& location = test_.locations[index(id)];
    const int width = location.element_bytes();
    const bool same = access.type.bits == 0 || access.type == location.type;
    if (!same || access.address.offset % width != 0) throw Unsupported("mixed sizes");
    i.address.location = first_[index(id)] + static_cast<int>(access.address.offset / width);
    return i;
  }

  static Proxy proxy(lit::Proxy p) {
    switch (p) {
      case lit::Proxy::Generic:
        return Proxy::Generic;
      case lit::Proxy::Constant:
        return Proxy::Constant;
      case lit::Proxy::Texture:
        return Proxy::Texture;
      case lit::Proxy::Surface:
        return Proxy::Surface;
    }
    throw Unsupported("an unknown proxy");
  }

  static Operand operand(const lit::Operand& o) {
    if (const auto* c = std::get_if<lit::Constant>(&o)) return {std::nullopt, c->value};
    return {std::get<lit::Register>(o).id, 0};
  }

  // A barrier's operand: a number, or a register that keeps its initial value.
  Value constant(const lit::Operand& o) const {
    if (const auto* c = std::get_if<lit::Constant>(&o)) return c->value;
    const lit::RegisterId id = std::get<lit::Register>(o).id;
    for (const lit::Instruction& instruction : thread_->instructions) {
      const bool writes =
          std::visit([&](const auto& i) { return destination_is(i, id); }, instruction.what);
      if (writes) throw Unsupported("a barrier named by a register that is written");
    }
    return thread_->registers[index(id)].initial;
  }

  template <class Instruction>
  static bool destination_is(const Instruction& i, lit::RegisterId id) {
    if constexpr (std::is_same_v<Instruction, lit::Load>) {
      return std::find(i.destinations.begin(), i.destinations.end(), id) != i.destinations.end();
    } else if constexpr (std::is_same_v<Instruction, lit::Atomic>) {
      return i.destination == id;
    } else if constexpr (std::is_same_v<Instruction, lit::Local>) {
      return i.destination == id;
    } else if constexpr (std::is_same_v<Instruction, lit::Mbarrier>) {
      return i.form == lit::Mbarrier::Form::Test && i.destination == id;
    } else {
      return false;
    }
  }

  static Order order(lit::Order o) {
    switch (o) {
      case lit::Order::weak:
        return Order::Weak;
      case lit::Order::relaxed:
        return Order::Relaxed;
      case lit::Order::acquire:
        return Order::Acquire;
      case lit::Order::release:
        return Order::Release;
      case lit::Order::acq_rel:
        return Order::AcqRel;
      case lit::Order::sc:
        return Order::Sc;
    }
    throw Unsupported("an unknown order");
  }

  static Scope scope(lit::Scope s) {
    switch (s) {
      case lit::Scope::cta:
        return Scope::Cta;
      case lit::Scope::cluster:
        return Scope::Cluster;
      case lit::Scope::gpu:
        return Scope::Gpu;
      case lit::Scope::sys:
        return Scope::Sys;
    }
    throw Unsupported("an unknown scope");
  }

  static Comparison comparison(lit::Compare c) {
    switch (c) {
      case lit::Compare::eq:
        return Comparison::Eq;
      case lit::Compare::ne:
        return Comparison::Ne;
      case lit::Compare::lt:
        return Comparison::Lt;
      case lit::Compare::le:
        return Comparison::Le;
      case lit::Compare::gt:
        return Comparison::Gt;
      case lit::Compare::ge:
        return Comparison::Ge;
    }
    throw Unsupported("an unknown comparison");
  }

  static Op op(lit::Combine o) {
    switch (o) {
      case lit::Combine::add:
        return Op::Add;
      case lit::Combine::sub:
        return Op::Sub;
      case lit::Combine::mul:
        return Op::Mul;
      case lit::Combine::div:
        return Op::Div;
      case lit::Combine::and_:
        return Op::And;
      case lit::Combine::or_:
        return Op::Or;
      case lit::Combine::xor_:
        return Op::Xor;
      case lit::Combine::min:
        return Op::Min;
      case lit::Combine::max:
        return Op::Max;
      case lit::Combine::exchange:
        return Op::Exch;
      case lit::Combine::none:
      case lit::Combine::cas:
      case lit::Combine::inc:
      case lit::Combine::dec:
        break;
    }
    throw Unsupported("an operation that is none on two values");
  }

  static Op op(lit::LocalOp o) {
    switch (o) {
      case lit::LocalOp::Move:
        return Op::Move;
      case lit::LocalOp::Add:
        return Op::Add;
      case lit::LocalOp::Sub:
        return Op::Sub;
      case lit::LocalOp::Mul:
        return Op::Mul;
      case lit::LocalOp::Div:
        return Op::Div;
      case lit::LocalOp::And:
        return Op::And;
      case lit::LocalOp::Or:
        return Op::Or;
      case lit::LocalOp::Xor:
        return Op::Xor;
    }
    throw Unsupported("an unknown operation");
  }

  const lit::Test& test_;
  std::vector<int> first_;
  const bool cohere_;
  std::vector<int> objects_;  // by location: which mbarrier it is
  const lit::Thread* thread_ = nullptr;
};

}  // namespace

Program convert(const litmus::Test& test, bool names_cohere) {
  return Converter(test, names_cohere).run();
}

litmus::States states(const litmus::Test& test, const Result& result) {
  const auto variables = litmus::observed_variables(test);
  std::vector<std::size_t> first_register;
  std::size_t next = 0;
  for (const auto& thread : test.threads) {
    first_register.push_back(next);
    next += thread.registers.size();
  }
  const auto first = first_elements(test);
  const std::vector<Name> names = convert(test).names;
  litmus::States out;
  for (const Outcome& outcome : result.outcomes) {
    litmus::State state;
    for (const litmus::Variable& v : variables) {
      const std::size_t i =
          v.thread >= 0 ? first_register[index(v.thread)] + index(v.id)
                        : next + index(names[index(first[index(v.id)] + v.element)].location);
      state.push_back(outcome[i]);
    }
    out[state] = 1;
  }
  return out;
}

}  // namespace ringfence::axiomatic
