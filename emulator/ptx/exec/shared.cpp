// Shared memory: plain bytes while its accesses are weak and ordered, by lines of 16 bytes under
// the memory model once they are not.

#include <algorithm>
#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// Happens-before between the threads of a cluster, as the memory model has it.
class ClusterOrder final : public SharedOrder {
 public:
  ClusterOrder(GlobalMemory& memory, const Cluster& cluster, const Agents& agents,
               std::uint32_t block_warps)
      : memory_(memory), cluster_(cluster), agents_(agents), block_warps_(block_warps) {}

  bool ordered(std::uint32_t other, std::uint32_t time, std::uint32_t actor, std::uint32_t warp,
               bool by_async) override {
    Agents now = agents_;
    now.block = cluster_.blocks[warp / block_warps_]->index;
    now.warp = warp % block_warps_;
    now.mask = 1;
    return memory_.ordered(now, who(actor), who(other), time, by_async);
  }

 private:
  SharedActor who(std::uint32_t number) const {
    const std::uint32_t threads = block_warps_ * kLanes;
    const auto all = static_cast<std::uint32_t>(cluster_.blocks.size()) * threads;
    if (number >= all) return {true, 0, number - all};
    return {false, cluster_.blocks[number / threads]->index, number % threads};
  }

  GlobalMemory& memory_;
  const Cluster& cluster_;
  Agents agents_;
  std::uint32_t block_warps_;
};

const Access& piece_of(std::uint32_t bytes, bool writes) {
  const auto make = [](Operation operation, Type type, std::uint8_t elements) {
    return Access{operation, Space::shared, type, elements, Order::weak};
  };
  static const Access kLoads[] = {
      make(Operation::load, Type::b8, 1), make(Operation::load, Type::b16, 1),
      make(Operation::load, Type::b32, 1), make(Operation::load, Type::b32, 4)};
  static const Access kStores[] = {
      make(Operation::store, Type::b8, 1), make(Operation::store, Type::b16, 1),
      make(Operation::store, Type::b32, 1), make(Operation::store, Type::b32, 4)};
  const std::size_t which = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return writes ? kStores[which] : kLoads[which];
}

}  // namespace

std::unique_ptr<SharedOrder> Execution::State::shared_order(const Cluster& cluster) {
  if (!models_shared_) return nullptr;
  const Agents agents{config_.rank, config_.launch, 0, 0, 0};
  return std::make_unique<ClusterOrder>(memory_, cluster, agents, warps_);
}

bool Execution::State::is_modelled(const Block& block, std::uint64_t offset,
                                   std::uint32_t bytes) const {
  if (block.modelled.empty()) return false;
  for (std::uint64_t line = offset / kSharedLine; line * kSharedLine < offset + bytes; ++line) {
    if (block.modelled[line] != 0) return true;
  }
  return false;
}

void Execution::State::share_line(Warp& warp, Block& block, std::uint64_t line) {
  if (block.modelled.empty()) {
    block.modelled.resize((block.shared.size() + kSharedLine - 1) / kSharedLine);
  }
  if (block.modelled[line] != 0) return;
  block.modelled[line] = 1;
  const std::uint64_t offset = line * kSharedLine;
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kSharedLine, block.shared.size() - offset));
  std::vector<SharedPast> past;
  if (block.races != nullptr) {
    const std::uint32_t threads = warps_ * kLanes;
    const std::uint32_t words = (bytes + 3) / 4 * 4;
    for (const SharedRaces::Past& p :
         block.races->history(block.cluster_rank * shared_bytes_ + offset, words)) {
      const bool engine = p.engine;
      past.push_back({engine ? 0 : block.cluster->blocks[p.thread / threads]->index,
                      engine ? p.thread : p.thread % threads, p.time, p.op, p.byte, p.bytes,
                      p.write, engine, p.async});
    }
  }
  memory_.share(agents(warp, warp.live), shared_place(block.index, offset),
                std::span(block.shared.at(offset), bytes), past);
}

bool Execution::State::shares_all(const Warp& warp, std::uint32_t lane) {
  if (shares_all_ == 2) shares_all_ = memory_.shares_all(agents(warp, 1U << lane)) ? 1 : 0;
  return shares_all_ == 1;
}

bool Execution::State::shared_in_model(Warp& warp, Block& owner, std::uint64_t address,
                                       std::uint32_t bytes, std::uint32_t lane, SharedLook& look) {
  const std::uint64_t offset = address & kOffsetMask;
  visit(warp, owner, address, lane, look.op);
  bool in_model = false;
  if (models_shared_) {
    in_model = look.strong || shares_all(warp, lane) || is_modelled(owner, offset, bytes);
  }
  const auto share = [&] {
    share_lines(warp, owner, offset, bytes);
    look.moments.reset();
  };
  // Before the race check has noted this access: what the model adopts is what came before it.
  if (in_model) share();
  SharedRaces* const races = warp.block->races;
  if (races != nullptr && (!in_model || races->has_engines())) {
    SharedAccess access{in_cluster(warp), lane, look.writes, look.strong, in_model};
    access.op = look.op;
    if (models_shared_) {
      if (!look.moments) look.moments = memory_.moments(agents(warp, 1U << lane));
      access.time = look.moments->time[lane];
      access.level = look.moments->level;
    }
    if (const auto race = races->access(in_cluster_memory(warp, address), bytes, access)) {
      if (!models_shared_) raise_race(warp, *race, lane, look.writes ? "write" : "read");
      if (!in_model) share();
      in_model = true;  // the model has the words for it
    }
  }
  return in_model;
}

void Execution::State::share_lines(Warp& warp, Block& owner, std::uint64_t offset,
                                   std::uint32_t bytes) {
  for (std::uint64_t line = offset / kSharedLine; line * kSharedLine < offset + bytes; ++line) {
    share_line(warp, owner, line);
  }
}

// Lanes that store to one place race with one another, if with nobody else: the model takes what
// was there before, and makes all of them.
void Execution::State::share_overlap(Warp& warp, const Request& request, std::uint32_t bytes,
                                     std::uint32_t mask) {
  std::uint32_t lanes[kLanes];
  std::size_t n = 0;
  bool rising = true;
  each_lane(mask, [&](std::uint32_t lane) {
    rising = rising && (n == 0 || request.address[lane] >= request.address[lanes[n - 1]] + bytes);
    lanes[n++] = lane;
  });
  if (rising) return;
  each_lane(mask, [&](std::uint32_t lane) {
    plain(warp, Space::shared, request.address[lane], bytes, lane);
  });
  std::sort(lanes, lanes + n, [&](std::uint32_t a, std::uint32_t b) {
    return request.address[a] < request.address[b];
  });
  for (std::size_t i = 1; i < n; ++i) {
    const std::uint64_t at = request.address[lanes[i]];
    if (at >= request.address[lanes[i - 1]] + bytes) continue;
    share_lines(warp, shared_owner(warp, at, lanes[i]), at & kOffsetMask, bytes);
  }
}

// What is usual: weak accesses to plain bytes of the warp's own block. Returns the lanes whose
// access was not looked at here: all where it is not so, and those from the first race on.
std::uint32_t Execution::State::note_plain(Warp& warp, const Request& request, std::uint32_t bytes,
                                           std::uint32_t mask, const SharedLook& look) {
  const Block& block = *warp.block;
  const std::uint64_t size = block.shared.size();
  if (look.strong || size < bytes || !block.modelled.empty()) return mask;
  if (models_shared_ && shares_all(warp, first_lane(mask))) return mask;
  bool plain = true;
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t at = request.address[lane];  // those of other blocks lie beyond all
    plain = plain && at <= size - bytes && at % bytes == 0;
  });
  if (!plain) return mask;
  SharedRaces* const races = block.races;
  if (races == nullptr) return 0;
  SharedAccess access{in_cluster(warp), 0, look.writes, false, false};
  access.op = look.op;
  SharedMoments moments;
  if (models_shared_) {
    moments = memory_.moments(agents(warp, mask));
    access.level = moments.level;
  }
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    access.lane = first_lane(left);
    if (models_shared_) access.time = moments.time[access.lane];
    const std::uint64_t at = in_cluster_memory(warp, request.address[access.lane]);
    if (races->access(at, bytes, access)) return left;
  }
  return 0;
}

Execution::State::Outcome Execution::State::shared_op(Warp& warp, const MemoryOp& memory,
                                                      Request& request, std::uint32_t mask) {
  const Access& access = memory.access;
  const bool atomic =
      access.operation == Operation::atomic || access.operation == Operation::reduce;
  const bool loads = access.operation == Operation::load;
  const bool strong = atomic || access.order != Order::weak;
  std::uint32_t in_model = 0;
  if (models_shared_ && !loads && !strong) share_overlap(warp, request, access.bytes(), mask);
  const std::uint32_t bytes = access.bytes();
  SharedLook look{request.instruction, !loads, strong, std::nullopt};
  each_lane(note_plain(warp, request, bytes, mask, look), [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    Block& owner = shared_owner(warp, address, lane);
    shared_bytes(warp, owner, address, bytes, lane);  // faults where it may not
    if (shared_in_model(warp, owner, address, bytes, lane, look)) in_model |= 1U << lane;
  });
  // A line may have come under the model by a lane behind others.
  each_lane(in_model != 0 ? mask & ~in_model : 0, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    if (is_modelled(shared_owner(warp, address, lane), address & kOffsetMask, bytes)) {
      in_model |= 1U << lane;
    }
  });
  const std::uint32_t rest = mask & ~in_model;
  if (rest != 0) {
    if (loads) {
      load_plain(warp, memory, request, Space::shared, rest);
    } else if (atomic) {
      atomic_plain(warp, memory, request, Space::shared, rest);
    } else {
      store_plain(warp, memory, request, Space::shared, rest);
    }
  }
  Outcome outcome{rest, false};
  if (in_model == 0) return outcome;
  Request part = request;
  part.agents.mask = in_model;
  part.shared = true;
  each_lane(in_model, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    part.address[lane] =
        shared_place(shared_owner(warp, address, lane).index, address & kOffsetMask);
  });
  memory_.access(part);
  outcome.completed |= part.completed & in_model;
  outcome.yield = part.yield;
  return outcome;
}

void Execution::State::shared_piece(Warp& warp, std::uint64_t address, std::uint32_t bytes,
                                    std::uint32_t lane, std::uint32_t op, std::byte* data,
                                    bool writes) {
  Block& owner = shared_owner(warp, address, lane);
  std::byte* const at = shared_bytes(warp, owner, address, bytes, lane);
  SharedLook look{op, writes, false, std::nullopt};
  if (!shared_in_model(warp, owner, address, bytes, lane, look)) {
    std::memcpy(writes ? at : data, writes ? data : at, bytes);
    return;
  }
  Request request;
  request.access = &piece_of(bytes, writes);
  request.agents = agents(warp, 1U << lane);
  request.shared = true;
  request.address[lane] = shared_place(owner.index, address & kOffsetMask);
  alignas(64) std::uint32_t lanes[4][kLanes] = {};
  const std::uint32_t size = std::min(bytes, 4U);
  for (std::uint32_t e = 0; e * size < bytes; ++e) {
    if (writes) std::memcpy(&lanes[e][lane], data + e * size, size);
    request.elements[e] = reinterpret_cast<std::byte*>(lanes[e]);
  }
  request.instruction = op;
  request.line = program_.ops[op].line;
  memory_.access(request);
  if ((request.completed >> lane & 1U) == 0) {
    throw Fault(FaultKind::undefined, "the memory holds back a weak access to shared memory", lane);
  }
  for (std::uint32_t e = 0; !writes && e * size < bytes; ++e) {
    std::memcpy(data + e * size, &lanes[e][lane], size);
  }
}

// Its lines are the model's, or it races: so the model has the words for it.
void Execution::State::bulk_in_model(Warp& warp, std::uint64_t address, std::span<std::byte> data,
                                     std::uint32_t lane, std::uint32_t op,
                                     const AsyncMoment& moment, bool writes, bool proxy) {
  Block& owner = shared_owner(warp, address, lane);
  const std::uint64_t offset = address & kOffsetMask;
  for (std::uint64_t line = offset / kSharedLine; line * kSharedLine < offset + data.size();
       ++line) {
    share_line(warp, owner, line);
  }
  BulkPart part;
  part.agents = agents(warp, 1U << lane);
  part.engine = moment.modelled;
  part.operation = writes ? Operation::store : Operation::load;
  part.async = proxy;
  part.shared = true;
  part.address = shared_place(owner.index, offset);
  part.data = data;
  part.instruction = op;
  part.line = program_.ops[op].line;
  memory_.bulk(part);
}

}  // namespace ringfence::ptx
