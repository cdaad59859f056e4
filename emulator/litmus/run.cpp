#include "emulator/litmus/run.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "emulator/litmus/names.hpp"

namespace ringfence::litmus {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }
std::uint64_t bits_of(std::int64_t v) { return static_cast<std::uint64_t>(v); }
std::int64_t signed_of(std::uint64_t v) { return static_cast<std::int64_t>(v); }

constexpr int kAddressShift = 40;

// A value of `bits` bits as a register holds it.
std::int64_t extended(std::uint64_t v, Type type) {
  if (type.bits == 64) return signed_of(v);
  const std::uint64_t mask = (std::uint64_t{1} << type.bits) - 1;
  v &= mask;
  if (type.kind != 'u' && (v >> (type.bits - 1)) != 0) v |= ~mask;
  return signed_of(v);
}

std::int64_t apply(LocalOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case LocalOp::Move:
      return a;
    case LocalOp::Add:
      return signed_of(bits_of(a) + bits_of(b));
    case LocalOp::Sub:
      return signed_of(bits_of(a) - bits_of(b));
    case LocalOp::Mul:
      return signed_of(bits_of(a) * bits_of(b));
    case LocalOp::Div:
      // Division by zero is unspecified in PTX: 0. -1 would overflow.
      return b == 0 ? 0 : b == -1 ? signed_of(0 - bits_of(a)) : a / b;
    case LocalOp::And:
      return a & b;
    case LocalOp::Or:
      return a | b;
    case LocalOp::Xor:
      return a ^ b;
  }
  return 0;
}

bool compare(std::int64_t a, Comparison c, std::int64_t b) {
  switch (c) {
    case Comparison::Eq:
      return a == b;
    case Comparison::Ne:
      return a != b;
    case Comparison::Lt:
      return a < b;
    case Comparison::Le:
      return a <= b;
    case Comparison::Gt:
      return a > b;
    case Comparison::Ge:
      return a >= b;
  }
  return false;
}

// The combinations of the machine work on the bits of the cell; signs need the width.
template <int Bits, bool Signed>
std::uint64_t combine_signed(std::uint64_t old, std::uint64_t operand, AtomicOp op) {
  const Type type{Signed ? 's' : 'u', Bits};
  const std::int64_t a = extended(old, type), b = extended(operand, type);
  if (op == AtomicOp::Div) return bits_of(apply(LocalOp::Div, a, b));
  if constexpr (Signed) return bits_of(op == AtomicOp::Min ? std::min(a, b) : std::max(a, b));
  const std::uint64_t x = bits_of(a), y = bits_of(b);
  return op == AtomicOp::Min ? std::min(x, y) : std::max(x, y);
}

template <AtomicOp Op, int Bits, bool Signed>
std::uint64_t combine_by_width(std::uint64_t old, std::uint64_t operand) {
  return combine_signed<Bits, Signed>(old, operand, Op);
}

template <AtomicOp Op>
machine::Combine by_width(Type type) {
  const bool s = type.kind != 'u';
  switch (type.bits) {
    case 8:
      return s ? combine_by_width<Op, 8, true> : combine_by_width<Op, 8, false>;
    case 16:
      return s ? combine_by_width<Op, 16, true> : combine_by_width<Op, 16, false>;
    case 32:
      return s ? combine_by_width<Op, 32, true> : combine_by_width<Op, 32, false>;
    default:
      return s ? combine_by_width<Op, 64, true> : combine_by_width<Op, 64, false>;
  }
}

machine::Combine combine(AtomicOp op, Type type) {
  using U = std::uint64_t;
  switch (op) {
    case AtomicOp::Add:
      return [](U a, U b) { return a + b; };
    case AtomicOp::Sub:
      return [](U a, U b) { return a - b; };
    case AtomicOp::Mul:
      return [](U a, U b) { return a * b; };
    case AtomicOp::And:
      return [](U a, U b) { return a & b; };
    case AtomicOp::Or:
      return [](U a, U b) { return a | b; };
    case AtomicOp::Xor:
      return [](U a, U b) { return a ^ b; };
    case AtomicOp::Exch:
    case AtomicOp::Cas:
      return [](U, U b) { return b; };
    case AtomicOp::Div:
      return by_width<AtomicOp::Div>(type);
    case AtomicOp::Min:
      return by_width<AtomicOp::Min>(type);
    case AtomicOp::Max:
      return by_width<AtomicOp::Max>(type);
  }
  return nullptr;
}

machine::Order order_of(Order order) {
  switch (order) {
    case Order::Weak:
      return machine::Order::weak;
    case Order::Relaxed:
      return machine::Order::relaxed;
    case Order::Acquire:
      return machine::Order::acquire;
    case Order::Release:
      return machine::Order::release;
    case Order::AcqRel:
    case Order::Sc:
      return machine::Order::acq_rel;
  }
  return machine::Order::weak;
}

machine::Scope scope_of(Scope scope) {
  switch (scope) {
    case Scope::Cta:
      return machine::Scope::cta;
    case Scope::Cluster:
      return machine::Scope::cluster;
    case Scope::Gpu:
      return machine::Scope::gpu;
    case Scope::None:
    case Scope::Sys:
      return machine::Scope::sys;
  }
  return machine::Scope::sys;
}

std::string text(Position at) {
  return "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": ";
}

machine::Compare machine_compare(Comparison c) {
  switch (c) {
    case Comparison::Eq:
      return machine::Compare::eq;
    case Comparison::Ne:
      return machine::Compare::ne;
    case Comparison::Lt:
      return machine::Compare::lt;
    case Comparison::Le:
      return machine::Compare::le;
    case Comparison::Gt:
      return machine::Compare::gt;
    case Comparison::Ge:
      return machine::Compare::ge;
  }
  return machine::Compare::eq;
}

Comparison negated(Comparison c) {
  switch (c) {
    case Comparison::Eq:
      return Comparison::Ne;
    case Comparison::Ne:
      return Comparison::Eq;
    case Comparison::Lt:
      return Comparison::Ge;
    case Comparison::Le:
      return Comparison::Gt;
    case Comparison::Gt:
      return Comparison::Le;
    case Comparison::Ge:
      return Comparison::Lt;
  }
  return c;
}

}  // namespace

namespace {

// The instructions whose several accesses release or acquire.
std::vector<std::pair<std::size_t, std::size_t>> find_unordered(const Test& test) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    const auto& code = test.threads[t].instructions;
    for (std::size_t i = 0; i < code.size() && found.size() < LitmusProgram::kMaxUnordered; ++i) {
      const auto* load = std::get_if<Load>(&code[i].what);
      const auto* store = std::get_if<Store>(&code[i].what);
      const auto* atomic = std::get_if<Atomic>(&code[i].what);
      const bool several = (load != nullptr && (load->multimem || load->destinations.size() > 1)) ||
                           (store != nullptr && (store->multimem || store->values.size() > 1)) ||
                           (atomic != nullptr && atomic->multimem);
      const Order order = load != nullptr     ? load->order
                          : store != nullptr  ? store->order
                          : atomic != nullptr ? atomic->order
                                              : Order::Weak;
      if (several && order != Order::Weak && order != Order::Relaxed) found.emplace_back(t, i);
    }
  }
  return found;
}

}  // namespace

std::uint32_t LitmusProgram::unordered(const Test& test) {
  return static_cast<std::uint32_t>(find_unordered(test).size());
}

bool LitmusProgram::is_reversed(std::size_t thread, std::size_t at) const {
  for (std::size_t i = 0; i < unordered_.size(); ++i) {
    if (unordered_[i] == std::pair(thread, at)) return (reversed_ >> i & 1) != 0;
  }
  return false;
}

LitmusProgram::LitmusProgram(const Test& test, std::uint32_t reversed)
    : test_(test),
      reversed_(reversed),
      unordered_(find_unordered(test)),
      observed_(observed_variables(test)) {
  for (const Location& l : test.locations) {
    if (l.alias_of && l.proxy != Proxy::Generic) {
      throw NotModelled(text(l.at) + l.name + " is reached through the " +
                        std::string(name_of(kProxyNames, l.proxy)) +
                        " proxy, which the machine does not model");
    }
  }
  int gpus = 1;
  for (const Thread& t : test.threads) gpus = std::max(gpus, t.gpu + 1);
  ranks_ = static_cast<std::uint16_t>(gpus);
  threads_of_.resize(ranks_);
  launches_of_.assign(ranks_, 0);
  std::map<std::pair<int, int>, std::uint32_t> block, in_block;
  std::vector<std::uint32_t> blocks(ranks_, 0);
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    const Thread& thread = test.threads[t];
    const auto [at, fresh] = block.emplace(std::pair(thread.gpu, thread.cta), 0);
    if (fresh) at->second = blocks[index(thread.gpu)]++;
    block_of_.push_back(at->second);
    index_of_.push_back(in_block[{thread.gpu, thread.cta}]++);
    threads_of_[index(thread.gpu)].push_back(t);
    std::size_t launches = 1;
    for (const Instruction& i : thread.instructions) {
      if (std::holds_alternative<Launch>(i.what)) ++launches;
      const auto* fence = std::get_if<ProxyFence>(&i.what);
      if (fence != nullptr && fence->kind != ProxyFence::Kind::Alias) {
        throw NotModelled(text(i.at) + "of the proxy fences the machine models fence.proxy.alias");
      }
      const auto proxy = [&](Proxy p) {
        if (p != Proxy::Generic) {
          throw NotModelled(text(i.at) + "the " + std::string(name_of(kProxyNames, p)) +
                            " proxy is not modelled");
        }
      };
      if (const auto* load = std::get_if<Load>(&i.what)) proxy(load->proxy);
      if (const auto* store = std::get_if<Store>(&i.what)) proxy(store->proxy);
      if (const auto* atomic = std::get_if<Atomic>(&i.what)) proxy(atomic->proxy);
    }
    launches_of_[index(thread.gpu)] = std::max(launches_of_[index(thread.gpu)], launches);
  }
}

std::uint64_t LitmusProgram::shared_bytes() const {
  std::uint64_t bytes = 4096;
  for (const Location& l : test_.locations) {
    bytes +=
        64 + static_cast<std::uint64_t>(l.length) * static_cast<std::uint64_t>(l.element_bytes());
  }
  return bytes;
}

void LitmusProgram::set_up(machine::Machine& machine, std::pmr::memory_resource*) {
  regions_.clear();
  for (const Location& l : test_.locations) {
    const auto bytes = static_cast<std::uint64_t>(l.length) *
                       static_cast<std::uint64_t>(l.is_memory() ? l.element_bytes() : 8);
    const machine::RegionId region = machine.add_region({.rank = 0, .bytes = bytes});
    regions_.push_back(region);
    if (!l.is_memory()) continue;
    for (std::size_t e = 0; e < index(l.length); ++e) {
      const std::int64_t v = l.initial_address      ? address_value(*l.initial_address)
                             : e < l.initial.size() ? l.initial[e]
                                                    : 0;
      machine.set_initial({region, e * index(l.element_bytes())},
                          std::as_bytes(std::span(&v, 1)).first(index(l.element_bytes())));
    }
  }
}

void LitmusProgram::before_run(machine::Machine& machine) {
  streams_.clear();
  for (std::uint16_t r = 0; r < ranks_; ++r) streams_.push_back(machine.add_stream(r));
  states_.clear();
  bounded_ = false;
  straight_ = true;
  for (const Thread& t : test_.threads) {
    ThreadState s;
    for (const RegisterInfo& r : t.registers) {
      s.registers.push_back(r.initial_address ? address_value(*r.initial_address) : r.initial);
    }
    s.from.resize(s.registers.size());
    states_.push_back(std::move(s));
  }
}

void LitmusProgram::host(schedule::Agent& agent, std::uint16_t rank) {
  for (std::size_t launch = 0; launch < launches_of_[rank]; ++launch) {
    std::vector<schedule::Agent::ChildSpec> children;
    for (const std::size_t t : threads_of_[rank]) {
      const Thread& thread = test_.threads[t];
      schedule::Agent::ChildSpec child;
      child.block = block_of_[t];
      child.index = index_of_[t];
      child.cluster = static_cast<std::uint16_t>(thread.cluster ? *thread.cluster + 1 : 0);
      child.body = [this, t](schedule::Agent& a) { run_launch(a, t); };
      children.push_back(std::move(child));
    }
    agent.launch(streams_[rank], static_cast<std::uint16_t>(launch), std::move(children));
  }
}

void LitmusProgram::run_launch(schedule::Agent& agent, std::size_t thread) {
  const auto& code = test_.threads[thread].instructions;
  ThreadState& s = states_[thread];
  while (s.next < code.size()) {
    if (std::holds_alternative<Launch>(code[s.next].what)) {
      ++s.next;
      return;
    }
    s.next = step(agent, thread, s.next);
  }
}

std::int64_t LitmusProgram::value(std::size_t thread, const Operand& operand) const {
  if (const auto* c = std::get_if<Constant>(&operand)) return c->value;
  return states_[thread].registers[index(std::get<Register>(operand).id)];
}

// Axiom No-Thin-Air, syntactic dependencies: the reads that an operand's or an address's text
// mentions, also where the value does not depend on them (x xor x).
std::uint64_t LitmusProgram::from(std::size_t thread, const Operand& operand) const {
  const auto* r = std::get_if<Register>(&operand);
  return r == nullptr ? 0 : states_[thread].from[index(r->id)];
}

std::uint64_t LitmusProgram::from(std::size_t thread, const Address& address) const {
  const auto* r = std::get_if<Register>(&address.base);
  return r == nullptr ? 0 : states_[thread].from[index(r->id)];
}

// The bit of the thread's next access that reads.
std::uint64_t LitmusProgram::next_read(std::size_t thread) {
  return std::uint64_t{1} << std::min<std::uint32_t>(states_[thread].reads++, 63);
}

std::int64_t LitmusProgram::address_value(LocationId location) const {
  return (std::int64_t{location} + 1) << kAddressShift;
}

LitmusProgram::Place LitmusProgram::place(std::size_t thread, const Address& address, Proxy) const {
  std::int64_t offset = address.offset;
  LocationId id = 0;
  if (const auto* l = std::get_if<LocationId>(&address.base)) {
    id = *l;
  } else {
    const std::int64_t v = value(thread, std::get<Register>(address.base));
    id = static_cast<LocationId>((v >> kAddressShift) - 1);
    offset += v & ((std::int64_t{1} << kAddressShift) - 1);
    if (id < 0 || index(id) >= test_.locations.size()) {
      throw std::runtime_error("P" + std::to_string(thread) + " follows the address " +
                               std::to_string(v) + ", where no location is");
    }
  }
  Place p;
  if (test_.locations[index(id)].alias_of) {
    p.proxy = machine::Proxy::multicast;  // another virtual address of the location
    id = *test_.locations[index(id)].alias_of;
  }
  p.location = id;
  p.at = {regions_[index(id)], static_cast<std::uint64_t>(offset)};
  return p;
}

Type LitmusProgram::type_at(const Place& p, Type wanted) const {
  return wanted.bits != 0 ? wanted : test_.locations[index(p.location)].type;
}

machine::Access LitmusProgram::access(const Place& p, Order order, Scope scope, Type type,
                                      std::uint16_t site) const {
  machine::Access a;
  a.order = order_of(order);
  a.scope = scope_of(scope);
  a.element = static_cast<std::uint8_t>(type.bits / 8);
  a.proxy = p.proxy;
  a.site = site;
  return a;
}

// The places of a multimem access: one on each replica.
namespace {
Address on(LocationId replica, const Address& address) { return {replica, address.offset}; }
std::vector<LocationId> directed(std::vector<LocationId> replicas, bool reversed) {
  if (reversed) std::reverse(replicas.begin(), replicas.end());
  return replicas;
}
}  // namespace

void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread, const Load& load,
                            std::uint16_t site, bool reversed) {
  ThreadState& s = states_[thread];
  const std::uint64_t depends = from(thread, load.address);
  std::uint64_t result_from = 0;
  const auto read = [&](Place p, Type type) {
    std::uint64_t v = 0;
    machine::Access a = access(p, load.order, load.scope, type, site);
    a.read_depends = depends;
    result_from |= next_read(thread);
    agent.read(p.at, a, std::as_writable_bytes(std::span(&v, 1)).first(index(type.bits / 8)));
    return v;
  };
  for (std::size_t k = 0; k < load.destinations.size(); ++k) {
    const std::size_t i = reversed ? load.destinations.size() - 1 - k : k;
    std::int64_t result = 0;
    result_from = 0;
    if (load.multimem) {
      const Location& m = test_.locations[index(std::get<LocationId>(load.address.base))];
      bool first = true;
      std::uint64_t sum = 0;
      Type type;
      for (const LocationId replica : directed(m.replicas, reversed)) {
        Place p = place(thread, on(replica, load.address), load.proxy);
        p.proxy = machine::Proxy::multicast;
        type = type_at(p, load.type);
        p.at.offset += i * index(type.bits / 8);
        const std::uint64_t v = read(p, type);
        sum = first ? v : combine(*load.multimem, type)(sum, v);
        first = false;
      }
      result = extended(sum, type);
    } else {
      Place p = place(thread, load.address, load.proxy);
      const Type type = type_at(p, load.type);
      p.at.offset += i * index(type.bits / 8);
      result = extended(read(p, type), type);
    }
    s.registers[index(load.destinations[i])] = result;
    s.from[index(load.destinations[i])] = result_from;
  }
}

void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread, const Store& store,
                            std::uint16_t site, bool reversed) {
  std::vector<std::int64_t> values;
  for (const Operand& o : store.values) values.push_back(value(thread, o));
  const auto write = [&](Place p, std::size_t element) {
    const Type type = type_at(p, store.type);
    p.at.offset += element * index(type.bits / 8);
    machine::Access a = access(p, store.order, store.scope, type, site);
    a.write_depends =
        from(thread, store.address) | from(thread, store.values[element]) | states_[thread].control;
    agent.write(p.at, a, std::as_bytes(std::span(&values[element], 1)).first(index(type.bits / 8)));
  };
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::size_t i = reversed ? values.size() - 1 - k : k;
    if (!store.multimem) {
      write(place(thread, store.address, store.proxy), i);
      continue;
    }
    const Location& m = test_.locations[index(std::get<LocationId>(store.address.base))];
    for (const LocationId replica : directed(m.replicas, reversed)) {
      Place p = place(thread, on(replica, store.address), store.proxy);
      p.proxy = machine::Proxy::multicast;
      write(p, i);
    }
  }
}

void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread, const Atomic& atomic,
                            std::uint16_t site, bool reversed) {
  const std::int64_t operand = value(thread, atomic.value);
  const std::uint64_t read_depends = from(thread, atomic.address);
  std::uint64_t write_depends = read_depends | from(thread, atomic.value) | states_[thread].control;
  if (atomic.desired) write_depends |= from(thread, *atomic.desired);
  const auto reduce = [&](Place p) {
    const Type type = type_at(p, atomic.type);
    machine::Access a = access(p, atomic.order, atomic.scope, type, site);
    a.read_depends = read_depends;
    a.write_depends = write_depends;
    next_read(thread);
    agent.reduce(p.at, a, std::as_bytes(std::span(&operand, 1)).first(index(type.bits / 8)),
                 combine(atomic.op, type));
  };
  if (atomic.multimem) {
    const Location& m = test_.locations[index(std::get<LocationId>(atomic.address.base))];
    for (const LocationId replica : directed(m.replicas, reversed)) {
      Place p = place(thread, on(replica, atomic.address), atomic.proxy);
      p.proxy = machine::Proxy::multicast;
      reduce(p);
    }
    return;
  }
  const Place p = place(thread, atomic.address, atomic.proxy);
  const Type type = type_at(p, atomic.type);
  const std::uint64_t mask =
      type.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << type.bits) - 1;
  machine::Access a = access(p, atomic.order, atomic.scope, type, site);
  a.read_depends = read_depends;
  a.write_depends = write_depends;
  std::uint64_t old = 0;
  if (atomic.op != AtomicOp::Cas && !atomic.destination) return reduce(p);
  const std::uint64_t result_from = next_read(thread);
  if (atomic.op == AtomicOp::Cas) {
    old =
        agent.cas(p.at, a, bits_of(operand) & mask, bits_of(value(thread, *atomic.desired)) & mask);
  } else {
    old = agent.rmw(p.at, a, bits_of(operand) & mask, combine(atomic.op, type));
  }
  if (atomic.destination) {
    states_[thread].registers[index(*atomic.destination)] = extended(old, type);
    states_[thread].from[index(*atomic.destination)] = result_from;
  }
}

// `L: ld r, x; bne r, v, L` and `L: atom.cas r, x, v, w; bne r, v, L`: whether the instruction at
// `at` begins such a loop, which then is executed as an await.
bool LitmusProgram::await(schedule::Agent& agent, std::size_t thread, std::size_t at,
                          std::size_t& next) {
  const auto& code = test_.threads[thread].instructions;
  if (at == 0 || !std::holds_alternative<Label>(code[at - 1].what)) return false;
  std::size_t end = at + 1;
  while (end < code.size() && std::holds_alternative<Label>(code[end].what)) ++end;
  const auto* branch = end < code.size() ? std::get_if<Branch>(&code[end].what) : nullptr;
  if (branch == nullptr || !branch->comparison) return false;
  const std::size_t target = index(branch->target);
  if (target >= at) return false;
  for (std::size_t i = target; i < at; ++i) {
    if (!std::holds_alternative<Label>(code[i].what)) return false;
  }
  // What stands between the access and the branch must not be jumped to from elsewhere; the labels
  // there make no difference to a poll.
  const auto* load = std::get_if<Load>(&code[at].what);
  const auto* atomic = std::get_if<Atomic>(&code[at].what);
  const auto site = static_cast<std::uint16_t>(code[at].at.line);
  const auto is = [](const Operand& o, RegisterId r) {
    const auto* reg = std::get_if<Register>(&o);
    return reg != nullptr && reg->id == r;
  };
  if (load != nullptr && !load->multimem && load->destinations.size() == 1) {
    const RegisterId r = load->destinations.front();
    if (!is(branch->a, r) || is(branch->b, r)) return false;
    const auto* base = std::get_if<Register>(&load->address.base);
    if (base != nullptr && base->id == r) return false;
    const Place p = place(thread, load->address, load->proxy);
    const Type type = type_at(p, load->type);
    const Comparison wanted = negated(*branch->comparison);
    const std::int64_t v = value(thread, branch->b);
    const bool ordered = wanted != Comparison::Eq && wanted != Comparison::Ne;
    // The machine compares unsigned numbers of the cell's width.
    if (ordered && (v < 0 || type.kind != 'u')) return false;
    if (extended(bits_of(v), type) != v) return false;
    const std::uint64_t mask =
        type.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << type.bits) - 1;
    machine::Access a = access(p, load->order, load->scope, type, site);
    a.read_depends = from(thread, load->address);
    ThreadState& s = states_[thread];
    const std::uint64_t mine = next_read(thread);
    const std::uint64_t seen = agent.await(p.at, a, {machine_compare(wanted), bits_of(v) & mask});
    s.registers[index(r)] = extended(seen, type);
    s.from[index(r)] = mine;
    s.control |= mine | from(thread, branch->b);
    next = end + 1;
    return true;
  }
  if (atomic != nullptr && atomic->op == AtomicOp::Cas && atomic->destination) {
    const RegisterId r = *atomic->destination;
    const Place p = place(thread, atomic->address, atomic->proxy);
    const Type type = type_at(p, atomic->type);
    const std::int64_t compared = value(thread, atomic->value);
    if (!is(branch->a, r) || *branch->comparison != Comparison::Ne || is(branch->b, r) ||
        is(atomic->value, r) || is(*atomic->desired, r) || value(thread, branch->b) != compared ||
        extended(bits_of(compared), type) != compared) {
      return false;
    }
    const std::uint64_t mask =
        type.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << type.bits) - 1;
    machine::Access a = access(p, atomic->order, atomic->scope, type, site);
    ThreadState& s = states_[thread];
    a.read_depends = from(thread, atomic->address);
    a.write_depends =
        a.read_depends | s.control | from(thread, atomic->value) | from(thread, *atomic->desired);
    const std::uint64_t mine = next_read(thread);
    agent.await_cas(p.at, a, bits_of(compared) & mask,
                    bits_of(value(thread, *atomic->desired)) & mask);
    s.registers[index(r)] = compared;
    s.from[index(r)] = mine;
    s.control |= mine | from(thread, branch->b);
    next = end + 1;
    return true;
  }
  return false;
}

schedule::BlockBarrier& LitmusProgram::barrier(std::size_t thread, const Barrier& b) {
  const Thread& mine = test_.threads[thread];
  const auto key_of = [&](std::size_t t, const Barrier& x) {
    return BarrierKey{test_.threads[t].gpu, test_.threads[t].cta, value(t, x.instance),
                      x.id ? value(t, *x.id) : 0};
  };
  const BarrierKey key = key_of(thread, b);
  auto& slot = barriers_[key];
  if (slot == nullptr) {
    std::set<std::size_t> participants;
    std::int64_t count = 0;
    for (std::size_t t = 0; t < test_.threads.size(); ++t) {
      if (test_.threads[t].gpu != mine.gpu || test_.threads[t].cta != mine.cta) continue;
      for (const Instruction& i : test_.threads[t].instructions) {
        const auto* x = std::get_if<Barrier>(&i.what);
        if (x == nullptr || key_of(t, *x) != key) continue;
        participants.insert(t);
        if (x->count) count = value(t, *x->count);
      }
    }
    const auto expected = static_cast<std::uint32_t>(
        count > 0 ? count : static_cast<std::int64_t>(participants.size()));
    slot = std::make_unique<schedule::BlockBarrier>(expected);
  }
  return *slot;
}

std::size_t LitmusProgram::step(schedule::Agent& agent, std::size_t thread, std::size_t at) {
  const Instruction& i = test_.threads[thread].instructions[at];
  const auto site = static_cast<std::uint16_t>(i.at.line);
  ThreadState& s = states_[thread];
  std::size_t next = at + 1;
  if (await(agent, thread, at, next)) return next;
  if (const auto* load = std::get_if<Load>(&i.what)) {
    execute(agent, thread, *load, site, is_reversed(thread, at));
  } else if (const auto* store = std::get_if<Store>(&i.what)) {
    execute(agent, thread, *store, site, is_reversed(thread, at));
  } else if (const auto* atomic = std::get_if<Atomic>(&i.what)) {
    execute(agent, thread, *atomic, site, is_reversed(thread, at));
  } else if (const auto* fence = std::get_if<Fence>(&i.what)) {
    using Kind = machine::Machine::Fence;
    const Kind kind = fence->order == Order::Sc        ? Kind::sc
                      : fence->order == Order::Acquire ? Kind::acquire
                      : fence->order == Order::Release ? Kind::release
                                                       : Kind::acq_rel;
    agent.fence(kind, scope_of(fence->scope), site);
  } else if (std::holds_alternative<ProxyFence>(i.what)) {
    agent.alias_fence(site);
  } else if (const auto* b = std::get_if<Barrier>(&i.what)) {
    if (b->arrive) {
      agent.arrive(barrier(thread, *b), site);
    } else {
      agent.sync(barrier(thread, *b), site);
    }
  } else if (const auto* local = std::get_if<Local>(&i.what)) {
    s.registers[index(local->destination)] =
        apply(local->op, value(thread, local->a), value(thread, local->b));
    s.from[index(local->destination)] =
        from(thread, local->a) | (local->op == LocalOp::Move ? 0 : from(thread, local->b));
  } else if (const auto* branch = std::get_if<Branch>(&i.what)) {
    if (branch->comparison) {
      s.control |= from(thread, branch->a) | from(thread, branch->b);
      straight_ = false;
    }
    const bool taken = !branch->comparison || compare(value(thread, branch->a), *branch->comparison,
                                                      value(thread, branch->b));
    if (taken) {
      next = index(branch->target);
      if (next <= at && ++s.jumps > kMaxJumps) {
        // Given up: a wait that nothing ends.
        bounded_ = true;
        schedule::BlockBarrier never(~std::uint32_t{0});
        agent.sync(never, site);
      }
    }
  }
  return next;
}

std::vector<State> LitmusProgram::final_states(const FinalValues& final_values) const {
  std::vector<State> out{{}};
  for (const Variable& v : observed_) {
    std::vector<std::int64_t> values;
    if (v.thread >= 0) {
      values.push_back(states_[index(v.thread)].registers[index(v.id)]);
    } else {
      LocationId id = v.id;
      if (test_.locations[index(id)].alias_of) id = *test_.locations[index(id)].alias_of;
      const Location& l = test_.locations[index(id)];
      const auto bytes = static_cast<std::uint32_t>(l.element_bytes());
      for (const std::uint64_t x :
           final_values({regions_[index(id)], std::uint64_t{bytes} * index(v.element)}, bytes)) {
        values.push_back(extended(x, l.type));
      }
    }
    std::vector<State> longer;
    for (const State& s : out) {
      for (const std::int64_t x : values) {
        longer.push_back(s);
        longer.back().push_back(x);
      }
    }
    out = std::move(longer);
  }
  return out;
}

std::string LitmusProgram::site_name(std::uint16_t site) const {
  return "line " + std::to_string(site);
}

std::string LitmusProgram::region_name(machine::RegionId region) const {
  return region < test_.locations.size() ? test_.locations[region].name : "?";
}

schedule::SlotName LitmusProgram::slot_name(machine::Address at) const {
  return {region_name(at.region), ""};
}

}  // namespace ringfence::litmus
