#include "emulator/programs/shmem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "emulator/machine/names.hpp"
#include "verify/dtype.hpp"

namespace ringfence::programs::shmem {

namespace {

using machine::Access;
using machine::Order;
using machine::Proxy;
using machine::Scope;
using schedule::Agent;

// +0 is all bits zero in each dtype.
constexpr std::array<std::byte, 1024> kZeros{};

constexpr Access access(Order order, Scope scope, std::uint64_t element, std::uint16_t site) {
  return {order, scope, static_cast<std::uint8_t>(element), Proxy::generic, false, site};
}

std::uint64_t add_bf16(std::uint64_t old, std::uint64_t operand) {
  return verify::float_to_bf16(verify::bf16_to_float(static_cast<std::uint16_t>(old)) +
                               verify::bf16_to_float(static_cast<std::uint16_t>(operand)));
}

std::uint64_t add_f16(std::uint64_t old, std::uint64_t operand) {
  return verify::float_to_f16(verify::f16_to_float(static_cast<std::uint16_t>(old)) +
                              verify::f16_to_float(static_cast<std::uint16_t>(operand)));
}

std::uint64_t add_f32(std::uint64_t old, std::uint64_t operand) {
  return verify::float_bits(verify::float_from_bits(static_cast<std::uint32_t>(old)) +
                            verify::float_from_bits(static_cast<std::uint32_t>(operand)));
}

machine::CombineFunction add_of(verify::Dtype dtype) {
  return dtype == verify::Dtype::f32 ? add_f32 : dtype == verify::Dtype::f16 ? add_f16 : add_bf16;
}

std::uint64_t add_u32(std::uint64_t old, std::uint64_t operand) {
  return static_cast<std::uint32_t>(old + operand);
}

std::span<const std::byte> bytes_of(const std::uint32_t& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// -- memory ---------------------------------------------------------------------------------------

std::uint32_t World::ring_slots(std::uint64_t tile_bytes, std::uint64_t data_limit,
                                std::uint64_t signal_limit, std::uint64_t tiles) {
  const std::uint64_t fit = std::min(data_limit / tile_bytes, signal_limit / kSignalBytes);
  return static_cast<std::uint32_t>(std::min({fit, tiles, std::uint64_t{1} << 31}));
}

void World::bind(std::vector<machine::RegionId> data, std::vector<machine::RegionId> signal,
                 std::vector<machine::RegionId> barrier) {
  data_ = std::move(data);
  signal_ = std::move(signal);
  barrier_ = std::move(barrier);
}

// -- building -------------------------------------------------------------------------------------

Graph::Graph(const World& world, std::uint16_t my_pe, std::uint64_t ring_index, Edges edges)
    : world_(world), my_pe_(my_pe), edges_(edges), next_index_(ring_index), users_(world.slots()) {}

Tensor Graph::create_shmem_tensor(std::uint64_t bytes) {
  slot_ = static_cast<std::uint32_t>(next_index_++ % world_.slots());
  ++tiles_;
  in_tile_ = 0;
  first_of_tile_ = static_cast<Op>(operations_.size());
  previous_ = std::move(users_[slot_]);
  users_[slot_].clear();
  return {slot_, bytes};
}

Signal Graph::create_shmem_signal() { return {slot_}; }

Op Graph::add(Operation o, const Preds& preds, const std::vector<Value>& values) {
  const auto id = static_cast<Op>(operations_.size());
  o.tile = tiles_ > 0 ? tiles_ - 1 : 0;
  o.index = in_tile_++;
  for (const Value& v : values) o.after.push_back(v.op);
  if (edges_.pred) o.after.insert(o.after.end(), preds.begin(), preds.end());
  if (edges_.shmem) add_region_edges(o);
  std::sort(o.after.begin(), o.after.end());
  o.after.erase(std::unique(o.after.begin(), o.after.end()), o.after.end());
  if (!o.uses.empty()) users_[o.slot].push_back(id);
  operations_.push_back(std::move(o));
  return id;
}

void Graph::add_region_edges(Operation& o) {
  for (const Use& use : o.uses) {
    bool first = true;
    for (Op id = first_of_tile_; id < operations_.size(); ++id) {
      for (const Use& earlier : operations_[id].uses) {
        if (earlier.ring != use.ring || earlier.pe != use.pe) continue;
        first = false;
        if (earlier.changes || use.changes) o.after.push_back(id);
      }
    }
    if (first) o.after.insert(o.after.end(), previous_.begin(), previous_.end());
  }
}

Op Graph::shmem_clear_data(const Tensor& tensor, Preds preds) {
  Operation o;
  o.kind = Kind::clear_data;
  o.slot = tensor.slot;
  o.bytes = tensor.bytes;
  o.uses = {{Ring::data, my_pe_, true}};
  return add(std::move(o), preds, {});
}

Op Graph::shmem_clear_signal(const Signal& signal, Preds preds) {
  Operation o;
  o.kind = Kind::clear_signal;
  o.slot = signal.slot;
  o.uses = {{Ring::signal, my_pe_, true}};
  return add(std::move(o), preds, {});
}

Op Graph::shmem_barrier_all(Preds preds) {
  Operation o;
  o.kind = Kind::barrier_all;
  o.slot = slot_;
  for (std::uint16_t pe = 0; pe < world_.ranks(); ++pe) o.uses.push_back({Ring::barrier, pe, true});
  return add(std::move(o), preds, {});
}

Op Graph::shmem_put(const Value& value, const Tensor& tensor, std::uint16_t pe, PutOp op,
                    Preds preds) {
  Operation o;
  o.kind = Kind::put;
  o.slot = tensor.slot;
  o.pe = pe;
  o.op = op;
  o.from = value.bytes;
  o.uses = {{Ring::data, pe, true}};
  return add(std::move(o), preds, {value});
}

Op Graph::shmem_signal(const Signal& signal, std::uint16_t pe, std::uint32_t amount, PutOp op,
                       Preds preds) {
  Operation o;
  o.kind = Kind::signal;
  o.slot = signal.slot;
  o.pe = pe;
  o.op = op;
  o.value = amount;
  o.uses = {{Ring::signal, pe, true}};
  return add(std::move(o), preds, {});
}

Op Graph::shmem_wait_until(const Signal& signal, machine::Compare compare, std::uint32_t value,
                           bool clear, Preds preds) {
  Operation o;
  o.kind = Kind::wait_until;
  o.slot = signal.slot;
  o.compare = compare;
  o.value = value;
  o.clear = clear;
  o.uses = {{Ring::signal, my_pe_, clear}};
  return add(std::move(o), preds, {});
}

Value Graph::shmem_load(const Tensor& tensor, std::span<std::byte> to, Preds preds) {
  Operation o;
  o.kind = Kind::load;
  o.slot = tensor.slot;
  o.to = to;
  o.uses = {{Ring::data, my_pe_, false}};
  return {add(std::move(o), preds, {}), to};
}

Value Graph::compute(Body body, std::span<const std::byte> result, const std::vector<Value>& values,
                     Preds preds) {
  Operation o;
  o.kind = Kind::compute;
  o.body = std::move(body);
  return {add(std::move(o), preds, values), result};
}

std::vector<std::vector<std::uint32_t>> Graph::predecessors() const {
  std::vector<std::vector<std::uint32_t>> all;
  all.reserve(operations_.size());
  for (const Operation& o : operations_) all.push_back(o.after);
  return all;
}

// -- running --------------------------------------------------------------------------------------

void Graph::store_zeros(Agent& agent, machine::Address to, std::uint64_t bytes) const {
  const Access weak =
      access(Order::weak, Scope::sys, verify::dtype_bytes(world_.dtype()), kClearData);
  while (bytes > 0) {
    const std::uint64_t n = std::min<std::uint64_t>(bytes, kZeros.size());
    agent.write(to, weak, std::span(kZeros).first(n));
    to.offset += n;
    bytes -= n;
  }
}

void Graph::run(Agent& agent, const Operation& o) const {
  const Orders& orders = world_.orders();
  const std::size_t element = verify::dtype_bytes(world_.dtype());
  const std::uint32_t zero = 0, one = 1;
  // Zeroing stores of counters are relaxed.sys whatever the scope under test.
  const auto clear = [&](std::uint16_t site) {
    return access(Order::relaxed, Scope::sys, kSignalBytes, site);
  };
  switch (o.kind) {
    case Kind::compute:
      o.body(agent);
      return;
    case Kind::clear_data:
      store_zeros(agent, world_.data(o.slot, my_pe_), o.bytes);
      return;
    case Kind::clear_signal:
      agent.write(world_.signal(o.slot, my_pe_), clear(kClearSignal), bytes_of(zero));
      return;
    case Kind::barrier_all: {
      const Access arrive =
          access(orders.barrier_signal, orders.scope, kSignalBytes, kBarrierSignal);
      for (std::uint16_t pe = 0; pe < world_.ranks(); ++pe) {
        agent.reduce(world_.barrier(o.slot, pe), arrive, bytes_of(one), add_u32);
      }
      const machine::Address own = world_.barrier(o.slot, my_pe_);
      agent.await(own, access(orders.barrier_wait, orders.scope, kSignalBytes, kBarrierWait),
                  {machine::Compare::eq, world_.ranks()});
      agent.write(own, clear(kBarrierClear), bytes_of(zero));
      return;
    }
    case Kind::put: {
      const Access put = access(orders.put, Scope::sys, element, kPut);
      const machine::Address to = world_.data(o.slot, o.pe);
      if (o.op != PutOp::set) {
        agent.reduce(to, put, o.from, add_of(world_.dtype()));
      } else {
        agent.write(to, put, o.from);
      }
      return;
    }
    case Kind::signal: {
      const Access how = access(orders.signal, orders.scope, kSignalBytes, kSignal);
      const machine::Address to = world_.signal(o.slot, o.pe);
      if (o.op == PutOp::add) {
        agent.reduce(to, how, bytes_of(o.value), add_u32);
      } else {
        agent.write(to, how, bytes_of(o.value));
      }
      return;
    }
    case Kind::wait_until: {
      const machine::Address own = world_.signal(o.slot, my_pe_);
      agent.await(own, access(orders.wait, orders.scope, kSignalBytes, kWait),
                  {o.compare, o.value});
      if (o.clear) agent.write(own, clear(kWaitClear), bytes_of(zero));
      return;
    }
    case Kind::load:
      agent.read(world_.data(o.slot, my_pe_), access(Order::weak, Scope::sys, element, kLoad),
                 o.to);
      return;
  }
}

void launch(Agent& host, machine::StreamId stream, std::uint16_t call,
            std::span<Graph* const> graphs, std::uint16_t group) {
  std::vector<Agent::ChildSpec> children;
  std::vector<std::vector<std::uint32_t>> predecessors;
  std::uint32_t first_tile = 0;
  for (Graph* const g : graphs) {
    const auto first = static_cast<std::uint32_t>(children.size());
    for (Graph::Operation& o : g->operations_) {
      children.push_back({schedule::Role::task, first_tile + o.tile, o.index, 0,
                          [g, &o](Agent& agent) { g->run(agent, o); }});
      std::vector<std::uint32_t>& after = predecessors.emplace_back(o.after);
      for (std::uint32_t& id : after) id += first;
    }
    first_tile += g->tiles_;
  }
  host.launch_graph(stream, call, std::move(children), std::move(predecessors), group);
}

// -- names ----------------------------------------------------------------------------------------

std::string site_name(std::uint16_t site, const Orders& orders) {
  const auto how = [](Order order, Scope scope) {
    return fmt::format("{}.{}", machine::name(order), machine::name(scope));
  };
  switch (site) {
    case kClearData:
      return "shmem_clear_data (weak store of 0)";
    case kClearSignal:
      return "shmem_clear_signal (relaxed.sys store of 0)";
    case kBarrierSignal:
      return fmt::format("shmem_barrier_all: arrival ({} ADD 1)",
                         how(orders.barrier_signal, orders.scope));
    case kBarrierWait:
      return fmt::format("shmem_barrier_all: wait for all ({})",
                         how(orders.barrier_wait, orders.scope));
    case kBarrierClear:
      return "shmem_barrier_all: clear of the own counter (relaxed.sys store of 0)";
    case kPut:
      return fmt::format("shmem_put ({})", how(orders.put, Scope::sys));
    case kSignal:
      return fmt::format("shmem_signal ({})", how(orders.signal, orders.scope));
    case kWait:
      return fmt::format("shmem_wait_until ({})", how(orders.wait, orders.scope));
    case kWaitClear:
      return "shmem_wait_until: clear (relaxed.sys store of 0)";
    case kLoad:
      return "shmem_load (weak)";
    default:
      return fmt::format("site {}", site);
  }
}

}  // namespace ringfence::programs::shmem
