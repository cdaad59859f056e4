// What one instruction of a litmus test does on the machine.

#include <algorithm>

#include "emulator/litmus/polls.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/litmus/values.hpp"

namespace ringfence::litmus {
namespace {

constexpr int kAddressShift = 40;

machine::ProxyKind kind_of(Proxy proxy) {
  switch (proxy) {
    case Proxy::Generic:
      break;
    case Proxy::Constant:
      return machine::ProxyKind::constant;
    case Proxy::Texture:
      return machine::ProxyKind::texture;
    case Proxy::Surface:
      return machine::ProxyKind::surface;
  }
  return machine::ProxyKind::generic;
}

std::optional<machine::Machine::ProxyFence> fence_of(ProxyFence::Kind kind) {
  using Kind = machine::Machine::ProxyFence;
  switch (kind) {
    case ProxyFence::Kind::Alias:
      return Kind::alias;
    case ProxyFence::Kind::Constant:
      return Kind::constant;
    case ProxyFence::Kind::Texture:
      return Kind::texture;
    case ProxyFence::Kind::Surface:
      return Kind::surface;
    case ProxyFence::Kind::Async:
      break;
  }
  return std::nullopt;
}

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

LitmusProgram::Place LitmusProgram::place(std::size_t thread, const Address& address, Proxy proxy,
                                          Type type, std::size_t elements) const {
  std::int64_t offset = address.offset;
  LocationId id = 0;
  if (const auto* l = std::get_if<LocationId>(&address.base)) {
    id = *l;
  } else {
    // What the reader checks of a location that is named.
    const RegisterId r = std::get<Register>(address.base).id;
    const std::int64_t v = value(thread, Register{r});
    id = static_cast<LocationId>((v >> kAddressShift) - 1);
    offset += v & ((std::int64_t{1} << kAddressShift) - 1);
    const Position at = test_.threads[thread].instructions[states_[thread].next].at;
    const auto fail = [&](const std::string& message) {
      throw std::runtime_error(std::to_string(at.line) + ":" + std::to_string(at.column) + ": P" +
                               std::to_string(thread) + ":" +
                               test_.threads[thread].registers[index(r)].name + " " + message);
    };
    if (id < 0 || index(id) >= test_.locations.size() || v < (std::int64_t{1} << kAddressShift)) {
      fail("holds " + std::to_string(v) + ", where no location is; an address is set by P" +
           std::to_string(thread) + ":r0=&x;");
    }
    const Location& location = test_.locations[index(id)];
    if (!location.replicas.empty()) {
      fail("holds the multicast address " + location.name + "; only multimem may use it");
    }
    const std::int64_t width = type.bits != 0 ? type.bits / 8 : location.element_bytes();
    const std::int64_t size = std::int64_t{location.element_bytes()} * location.length;
    if (offset % width != 0 || offset + width * static_cast<std::int64_t>(elements) > size) {
      fail("leads to byte " + std::to_string(offset) + " of " + location.name + ", which has " +
           std::to_string(size) + ", for " + std::to_string(elements) + " times " +
           std::to_string(width) + " bytes");
    }
  }
  Place p;
  const Name& name = names_[index(id)];
  p.proxy = machine::proxy_of(kind_of(proxy), name.address);
  id = name.memory;
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
    look(thread, p, type, load.order, v);
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
        Place p = place(thread, on(replica, load.address), load.proxy, load.type);
        p.proxy = machine::Proxy::multicast;
        type = type_at(p, load.type);
        p.at.offset += i * index(type.bits / 8);
        const std::uint64_t v = read(p, type);
        sum = first ? v : combine(*load.multimem, type)(sum, v);
        first = false;
      }
      result = extended(sum, type);
    } else {
      Place p = place(thread, load.address, load.proxy, load.type, load.destinations.size());
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
  const auto write = [&](Place p, std::size_t element,
                         machine::Share share = machine::Share::whole) {
    const Type type = type_at(p, store.type);
    p.at.offset += element * index(type.bits / 8);
    machine::Access a = access(p, store.order, store.scope, type, site);
    if (machine::is_strong(a.order)) a.share = share;
    a.write_depends =
        from(thread, store.address) | from(thread, store.values[element]) | states_[thread].control;
    agent.write(p.at, a, std::as_bytes(std::span(&values[element], 1)).first(index(type.bits / 8)));
    ++states_[thread].changes;
  };
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::size_t i = reversed ? values.size() - 1 - k : k;
    if (!store.multimem) {
      write(place(thread, store.address, store.proxy, store.type, values.size()), i);
      continue;
    }
    const Location& m = test_.locations[index(std::get<LocationId>(store.address.base))];
    const std::size_t count = m.replicas.size();
    for (std::size_t r = 0; r < count; ++r) {
      const LocationId replica = m.replicas[reversed ? count - 1 - r : r];
      Place p = place(thread, on(replica, store.address), store.proxy, store.type);
      p.proxy = machine::Proxy::multicast;
      write(p, i, machine::share_of(r, count));
    }
  }
}

// Without a result, or with one that nobody can tell: nothing needs the register, and no acquire
// pattern begins with the atomic's read, or nothing comes behind that it could order (but its own
// write, which out of order somebody may have read before). Their order is explored only where it
// shows.
bool LitmusProgram::is_reduction(std::size_t thread, const Atomic& atomic) const {
  if (atomic.op == Combine::cas) return false;
  if (!atomic.destination) return true;
  if (asynchronous_) return false;  // waits may end acquire patterns
  const std::size_t at = states_[thread].next;
  if (live_[thread][at + 1][index(*atomic.destination)]) return false;
  // What an acq_rel takes in it hands on: the chain of release and acquire does so without it,
  // where its ends reach each other.
  if (last_[thread][at] && (atomic.order != Order::acq_rel || all_reach_all_)) return true;
  if (machine::acquires(atomic.order)) return false;
  const auto& code = test_.threads[thread].instructions;
  return std::none_of(code.begin(), code.end(), [](const Instruction& i) {
    const auto* fence = std::get_if<Fence>(&i.what);
    const auto* load = std::get_if<Load>(&i.what);
    const auto* other = std::get_if<Atomic>(&i.what);
    return (fence != nullptr && fence->order != Order::release) ||
           (load != nullptr && machine::acquires(load->order)) ||
           (other != nullptr && machine::acquires(other->order));
  });
}

void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread, const Atomic& atomic,
                            std::uint16_t site, bool reversed) {
  const std::int64_t operand = value(thread, atomic.value);
  const std::uint64_t read_depends = from(thread, atomic.address);
  std::uint64_t write_depends = read_depends | from(thread, atomic.value) | states_[thread].control;
  if (atomic.desired) write_depends |= from(thread, *atomic.desired);
  const auto reduce = [&](Place p, machine::Share share = machine::Share::whole) {
    const Type type = type_at(p, atomic.type);
    machine::Access a = access(p, atomic.order, atomic.scope, type, site);
    a.read_depends = read_depends;
    a.write_depends = write_depends;
    a.combine = atomic.op;
    a.share = share;
    next_read(thread);
    agent.reduce(p.at, a, std::as_bytes(std::span(&operand, 1)).first(index(type.bits / 8)),
                 combine(atomic.op, type));
    ++states_[thread].changes;
  };
  if (atomic.multimem) {
    const Location& m = test_.locations[index(std::get<LocationId>(atomic.address.base))];
    const std::size_t count = m.replicas.size();
    for (std::size_t r = 0; r < count; ++r) {
      const LocationId replica = m.replicas[reversed ? count - 1 - r : r];
      Place p = place(thread, on(replica, atomic.address), atomic.proxy, atomic.type);
      p.proxy = machine::Proxy::multicast;
      reduce(p, machine::share_of(r, count));
    }
    return;
  }
  const Place p = place(thread, atomic.address, atomic.proxy, atomic.type);
  const Type type = type_at(p, atomic.type);
  const std::uint64_t mask = mask_of(type);
  machine::Access a = access(p, atomic.order, atomic.scope, type, site);
  a.read_depends = read_depends;
  a.write_depends = write_depends;
  std::uint64_t old = 0;
  if (is_reduction(thread, atomic)) return reduce(p);
  const std::uint64_t result_from = next_read(thread);
  if (atomic.op == Combine::cas) {
    old =
        agent.cas(p.at, a, bits_of(operand) & mask, bits_of(value(thread, *atomic.desired)) & mask);
  } else {
    old = agent.rmw(p.at, a, bits_of(operand) & mask, combine(atomic.op, type));
  }
  // An atomic that leaves what is there is a look, as far as a turn of a loop goes.
  const std::uint64_t stored = atomic.op == Combine::cas
                                   ? bits_of(value(thread, *atomic.desired)) & mask
                                   : combine(atomic.op, type)(old, bits_of(operand) & mask) & mask;
  if (stored == old || (atomic.op == Combine::cas && old != (bits_of(operand) & mask))) {
    look(thread, p, type, atomic.order, old);
  } else {
    ++states_[thread].changes;
  }
  if (atomic.destination) {
    states_[thread].registers[index(*atomic.destination)] = extended(old, type);
    states_[thread].from[index(*atomic.destination)] = result_from;
  }
}

// Runs the poll that begins with the instruction at `at`, if one does (polls.hpp) and the machine
// has its condition, as an await.
bool LitmusProgram::await(schedule::Agent& agent, std::size_t thread, std::size_t at,
                          std::size_t& next) {
  const auto& code = test_.threads[thread].instructions;
  const std::optional<Poll> poll = poll_at(code, at);
  if (!poll) return false;
  const auto* load = std::get_if<Load>(&code[at].what);
  const auto* atomic = std::get_if<Atomic>(&code[at].what);
  const auto site = static_cast<std::uint16_t>(code[at].at.line);
  const RegisterId r = load != nullptr ? load->destinations.front() : *atomic->destination;
  const auto is = [r](const Operand& o) {
    const auto* reg = std::get_if<Register>(&o);
    return reg != nullptr && reg->id == r;
  };
  const Address& address = load != nullptr ? load->address : atomic->address;
  if (const auto* base = std::get_if<Register>(&address.base); base != nullptr && base->id == r) {
    return false;
  }
  ThreadState& s = states_[thread];
  const std::int64_t v = value(thread, poll->against);
  const auto finish = [&](std::uint64_t seen, Type type, std::uint64_t mine) {
    s.registers[index(r)] = extended(seen, type);
    s.from[index(r)] = mine;
    s.control |= mine | from(thread, poll->against);
    next = poll->exit;
    return true;
  };
  if (load != nullptr) {
    const Place p = place(thread, load->address, load->proxy, load->type);
    const Type type = type_at(p, load->type);
    const bool ordered = poll->wanted != Compare::eq && poll->wanted != Compare::ne;
    // The machine compares unsigned numbers of the cell's width.
    if (ordered && (v < 0 || type.kind != 'u')) return false;
    if (extended(bits_of(v), type) != v) return false;
    machine::Access a = access(p, load->order, load->scope, type, site);
    a.read_depends = from(thread, load->address);
    const std::uint64_t mine = next_read(thread);
    machine::Wanted wanted{poll->wanted, bits_of(v) & mask_of(type)};
    // Nobody asks for what it read, behind it or in an iteration that would be repeated.
    const bool again =
        std::any_of(code.begin() + static_cast<std::ptrdiff_t>(poll->exit), code.end(),
                    [&](const Instruction& i) {
                      const auto* branch = std::get_if<Branch>(&i.what);
                      return branch != nullptr && branch->target <= static_cast<int>(at);
                    });
    wanted.told = again || live_[thread][poll->exit][index(r)];
    const std::uint64_t seen = agent.await_value(p.at, a, wanted);
    look(thread, p, type, load->order, seen);
    return finish(seen, type, mine);
  }
  const Place p = place(thread, atomic->address, atomic->proxy, atomic->type);
  const Type type = type_at(p, atomic->type);
  const std::int64_t compared = value(thread, atomic->value);
  if (poll->wanted != Compare::eq || v != compared || is(atomic->value) || is(*atomic->desired) ||
      extended(bits_of(compared), type) != compared) {
    return false;
  }
  machine::Access a = access(p, atomic->order, atomic->scope, type, site);
  a.read_depends = from(thread, atomic->address);
  a.write_depends =
      a.read_depends | s.control | from(thread, atomic->value) | from(thread, *atomic->desired);
  const std::uint64_t mine = next_read(thread);
  agent.await_cas(p.at, a, bits_of(compared) & mask_of(type),
                  bits_of(value(thread, *atomic->desired)) & mask_of(type));
  ++s.changes;
  return finish(bits_of(compared), type, mine);
}

void LitmusProgram::look(std::size_t thread, const Place& p, Type type, Order order,
                         std::uint64_t value) {
  ThreadState& s = states_[thread];
  s.looks.push_back({s.next, p.at, static_cast<std::uint32_t>(type.bits / 8), value & mask_of(type),
                     order != Order::weak});
}

void LitmusProgram::wait_for_ever(schedule::Agent& agent, std::size_t thread, std::size_t at) {
  schedule::BlockBarrier never(~std::uint32_t{0});
  agent.sync(never, static_cast<std::uint16_t>(test_.threads[thread].instructions[at].at.line));
}

// At a label: whether the thread was here before as it is now, and changed nothing meanwhile.
void LitmusProgram::meet(schedule::Agent& agent, std::size_t thread, std::size_t at) {
  ThreadState& s = states_[thread];
  std::vector<std::int64_t> now = s.registers;
  for (std::size_t r = 0; r < now.size(); ++r) {
    if (!live_[thread][at][r]) now[r] = 0;
  }
  ThreadState::Visit& visit = s.visits[at];
  if (visit.met && visit.changes == s.changes && visit.registers == now) {
    s.spinning = true;
    s.turn = visit.looks;
    wait_for_ever(agent, thread, at);
  }
  visit = {true, s.changes, s.looks.size(), std::move(now)};
}

std::size_t LitmusProgram::step(schedule::Agent& agent, std::size_t thread, std::size_t at) {
  const Instruction& i = test_.threads[thread].instructions[at];
  const auto site = static_cast<std::uint16_t>(i.at.line);
  ThreadState& s = states_[thread];
  std::size_t next = at + 1;
  if (is_asynchronous(i)) {
    run_asynchronous(agent, thread, i, site);
    return next;
  }
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
  } else if (const auto* proxy_fence = std::get_if<ProxyFence>(&i.what)) {
    if (const auto kind = fence_of(proxy_fence->kind)) agent.proxy_fence(*kind, site);
  } else if (std::holds_alternative<Label>(i.what)) {
    meet(agent, thread, at);
  } else if (const auto* b = std::get_if<Barrier>(&i.what)) {
    ++s.changes;
    if (b->arrive) {
      agent.arrive(barrier(agent, thread, *b, site), site);
    } else {
      agent.sync(barrier(agent, thread, *b, site), site);
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
      if (next <= at && ++s.jumps > bound_) {
        given_up_.push_back({thread, at});
        wait_for_ever(agent, thread, at);
      }
    }
  }
  return next;
}

}  // namespace ringfence::litmus
