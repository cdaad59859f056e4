// What one instruction of a litmus test does on the machine.

#include <algorithm>
#include <set>

#include "emulator/litmus/run.hpp"
#include "emulator/litmus/values.hpp"

namespace ringfence::litmus {
namespace {

constexpr int kAddressShift = 40;

}  // namespace

bool LitmusProgram::is_reversed(std::size_t thread, std::size_t at) const {
  for (std::size_t i = 0; i < unordered_.size(); ++i) {
    if (unordered_[i] == std::pair(thread, at)) return (reversed_ >> i & 1) != 0;
  }
  return false;
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
  a.order = order;
  a.scope = scope;
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
  const std::uint64_t mask = mask_of(type);
  machine::Access a = access(p, atomic.order, atomic.scope, type, site);
  a.read_depends = read_depends;
  a.write_depends = write_depends;
  std::uint64_t old = 0;
  if (atomic.op != Combine::cas && !atomic.destination) return reduce(p);
  const std::uint64_t result_from = next_read(thread);
  if (atomic.op == Combine::cas) {
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
    const Compare wanted = negated(*branch->comparison);
    const std::int64_t v = value(thread, branch->b);
    const bool ordered = wanted != Compare::eq && wanted != Compare::ne;
    // The machine compares unsigned numbers of the cell's width.
    if (ordered && (v < 0 || type.kind != 'u')) return false;
    if (extended(bits_of(v), type) != v) return false;
    const std::uint64_t mask = mask_of(type);
    machine::Access a = access(p, load->order, load->scope, type, site);
    a.read_depends = from(thread, load->address);
    ThreadState& s = states_[thread];
    const std::uint64_t mine = next_read(thread);
    const std::uint64_t seen = agent.await(p.at, a, {wanted, bits_of(v) & mask});
    s.registers[index(r)] = extended(seen, type);
    s.from[index(r)] = mine;
    s.control |= mine | from(thread, branch->b);
    next = end + 1;
    return true;
  }
  if (atomic != nullptr && atomic->op == Combine::cas && atomic->destination) {
    const RegisterId r = *atomic->destination;
    const Place p = place(thread, atomic->address, atomic->proxy);
    const Type type = type_at(p, atomic->type);
    const std::int64_t compared = value(thread, atomic->value);
    if (!is(branch->a, r) || *branch->comparison != Compare::ne || is(branch->b, r) ||
        is(atomic->value, r) || is(*atomic->desired, r) || value(thread, branch->b) != compared ||
        extended(bits_of(compared), type) != compared) {
      return false;
    }
    const std::uint64_t mask = mask_of(type);
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
    const Kind kind = fence->order == Order::sc        ? Kind::sc
                      : fence->order == Order::acquire ? Kind::acquire
                      : fence->order == Order::release ? Kind::release
                                                       : Kind::acq_rel;
    agent.fence(kind, fence->scope, site);
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

}  // namespace ringfence::litmus
