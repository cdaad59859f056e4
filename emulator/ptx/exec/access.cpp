// Memory instructions: shared, local and parameter memory directly, global memory through the hook.

#include <cstring>

#include "emulator/ptx/atomic.hpp"
#include "emulator/ptx/exec/trial.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

std::string hex(std::uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do out.insert(out.begin(), kDigits[value & 15U]);
  while ((value >>= 4) != 0);
  return "0x" + out;
}

bool within(std::uint64_t address, std::uint64_t window) { return address - window < kWindowBytes; }

// What an access reaches that ends behind a memory's last byte.
std::string beyond(std::uint32_t bytes, std::uint64_t offset, const std::string& memory,
                   std::uint64_t size) {
  return std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " + memory +
         " end " + std::to_string(offset + bytes - size) + " beyond its " + std::to_string(size) +
         " bytes";
}

// Sign-extends each completed lane of a loaded element from the type to the register's size.
void extend(std::byte* lanes, std::uint32_t lane_bytes, Type type, std::uint32_t register_bytes,
            std::uint32_t mask) {
  const unsigned shift = 64 - 8 * size_of(type);
  each_lane(mask, [&](std::uint32_t lane) {
    std::uint64_t value = 0;
    std::memcpy(&value, lanes + lane * lane_bytes, lane_bytes);
    value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
    if (register_bytes < 8) value &= (1ULL << (8 * register_bytes)) - 1;
    std::memcpy(lanes + lane * lane_bytes, &value, lane_bytes);
  });
}

}  // namespace

Space classify(std::uint64_t address) {
  if (within(address, kSharedWindow)) return Space::shared;
  if (within(address, kLocalWindow)) return Space::local;
  if (within(address, kParamWindow)) return Space::param;
  return Space::global;
}

std::uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
      return kSharedWindow;
    case Space::local:
      return kLocalWindow;
    case Space::param:
      return kParamWindow;
    default:
      return 0;
  }
}

void Execution::State::addresses(const Warp& warp, Slot base, std::int64_t offset, bool wide,
                                 std::uint32_t mask, std::array<std::uint64_t, kLanes>& out) const {
  static_cast<void>(mask);
  const auto delta = static_cast<std::uint64_t>(offset);
  if (wide) {
    const std::uint64_t* from = longs(warp, base);
    for (unsigned i = 0; i < kLanes; ++i) out[i] = from[i] + delta;
  } else {
    const std::uint32_t* from = words(warp, base);
    for (unsigned i = 0; i < kLanes; ++i) {
      out[i] = static_cast<std::uint32_t>(from[i] + static_cast<std::uint32_t>(delta));
    }
  }
}

Block& Execution::State::shared_owner(Warp& warp, std::uint64_t address, std::uint32_t lane) {
  const std::uint64_t which = address >> kSharedBits;
  if (which == 0) return *warp.block;
  if (which - 1 >= warp.block->cluster->blocks.size()) {
    throw Fault(FaultKind::out_of_bounds,
                "shared address " + hex(address) + " names no block of the cluster", lane);
  }
  return *warp.block->cluster->blocks[which - 1];
}

std::byte* Execution::State::plain(Warp& warp, Space space, std::uint64_t address,
                                   std::uint32_t bytes, std::uint32_t lane) {
  if (space == Space::shared) {
    return shared_bytes(warp, shared_owner(warp, address, lane), address, bytes, lane);
  }
  if (address % bytes != 0) {
    throw Fault(FaultKind::misaligned,
                std::string(name_of(space)) + " address " + hex(address) + " is not aligned to " +
                    std::to_string(bytes) + " bytes",
                lane);
  }
  const bool local = space == Space::local;
  const std::uint64_t size = local ? program_.local_bytes : config_.parameters.size();
  if (address > size || size - address < bytes) {
    throw Fault(FaultKind::out_of_bounds,
                beyond(bytes, address, std::string(name_of(space)) + " memory", size), lane);
  }
  std::byte* const base = local ? warp.block->local.data() + (warp.index * kLanes + lane) * size
                                : reinterpret_cast<std::byte*>(config_.parameters.data());
  return base + address;
}

std::byte* Execution::State::shared_bytes(Warp& warp, Block& owner, std::uint64_t address,
                                          std::uint32_t bytes, std::uint32_t lane) {
  const std::uint64_t offset = address & kOffsetMask;
  const std::uint64_t size = owner.shared.size();
  const auto refuse = [&](FaultKind kind, const std::string& reason) {
    Fault fault(kind, reason, lane);
    fault.set_shared({owner.index, offset, bytes});
    throw fault;
  };
  if (offset % bytes != 0) {
    refuse(FaultKind::misaligned, "shared byte " + std::to_string(offset) + " is not aligned to " +
                                      std::to_string(bytes) + " bytes");
  }
  if (offset > size || size - offset < bytes) {
    const std::string whose = &owner == warp.block
                                  ? "the block's shared memory"
                                  : "the shared memory of block " +
                                        std::to_string(owner.cluster_rank) + " of the cluster";
    refuse(FaultKind::out_of_bounds, beyond(bytes, offset, whose, size));
  }
  return owner.shared.at(offset);
}

void Execution::State::raise_race(const Warp& warp, const SharedRaces::Race& race,
                                  std::uint32_t lane, const std::string& what) const {
  const Cluster& cluster = *warp.block->cluster;
  std::string other;
  if (race.other_async) {
    const bool product = race.other < groups_a_block() * cluster_size_;
    other = std::string(race.other_wrote ? "write" : "read") + " by the " +
            (product ? "wgmma.mma_async" : "bulk copy") + " of line " +
            std::to_string(cluster.engines[race.other].line) + ": no wait for its end between them";
  } else {
    const std::uint32_t threads = warps_ * kLanes;
    other = std::string(race.other_wrote ? "write" : "read") + " by thread " +
            std::to_string(race.other % threads) + " of " +
            (race.other / threads == warp.block->cluster_rank
                 ? "the block"
                 : "block " + std::to_string(race.other / threads) + " of the cluster") +
            (race.proxy ? ": no fence.proxy.async between them" : ": no barrier between them");
  }
  const auto byte = race.byte % shared_bytes_;
  Fault fault(FaultKind::shared_race,
              what + " of shared byte " + std::to_string(byte) + " races with the " + other, lane);
  fault.set_shared({cluster.blocks[race.byte / shared_bytes_]->index, byte, 1});
  throw fault;
}

void Execution::State::tell_unfenced(Warp& warp, std::uint32_t lane) {
  const auto pair = warp.block->races->read_unfenced();
  if (!pair) return;
  memory_.read_unfenced(agents(warp, lane < kLanes ? 1U << lane : warp.live), pair->read,
                        pair->write);
}

bool Execution::State::check_shared_async(Warp& warp, std::uint64_t address, std::uint32_t bytes,
                                          std::uint32_t lane, std::uint32_t op,
                                          const AsyncMoment& moment, bool writes, bool proxy) {
  SharedRaces* const races = warp.block->races;
  if (models_shared_) {
    SharedAccess access{in_cluster(warp), lane, writes};
    access.engine = true;
    access.async = proxy;
    access.thread = moment.modelled;
    access.time = moment.time;
    access.op = op;
    // What is the model's stays so: another thread may stand before an access that it is to make
    // there, and SharedRaces knows the last one only of strong accesses that nothing orders.
    Block& owner = shared_owner(warp, address, lane);
    const std::uint64_t offset = address & kOffsetMask;
    const bool in_model =
        shares_all(warp, lane < kLanes ? lane : 0) || is_modelled(owner, offset, bytes);
    if (in_model) share_lines(warp, owner, offset, bytes);
    if (races == nullptr) return in_model;
    const bool race = races->access(in_cluster_memory(warp, address), bytes, access).has_value();
    tell_unfenced(warp, lane);
    return race || in_model;
  }
  if (races == nullptr) return false;
  const auto race = races->access_async(in_cluster_memory(warp, address), bytes, in_cluster(warp),
                                        lane, moment, op, writes, proxy);
  tell_unfenced(warp, lane);
  if (!race) return false;
  raise_race(warp, *race, lane < kLanes ? lane : 0,
             writes ? "asynchronous write" : "asynchronous read");
}

void Execution::State::load_plain(Warp& warp, const MemoryOp& memory, Request& request, Space space,
                                  std::uint32_t mask) {
  const Access& access = memory.access;
  const std::uint32_t size = size_of(access.type);
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    const std::byte* from = plain(warp, space, address, access.bytes(), lane);
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::uint64_t value = 0;
      std::memcpy(&value, from + e * size, size);
      std::memcpy(request.elements[e] + lane * memory.lane_bytes, &value, memory.lane_bytes);
    }
  });
}

void Execution::State::store_plain(Warp& warp, const MemoryOp& memory, Request& request,
                                   Space space, std::uint32_t mask) {
  const Access& access = memory.access;
  const std::uint32_t size = size_of(access.type);
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    std::byte* to = plain(warp, space, address, access.bytes(), lane);
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::memcpy(to + e * size, request.elements[e] + lane * memory.lane_bytes, size);
    }
  });
}

void Execution::State::atomic_plain(Warp& warp, const MemoryOp& memory, Request& request,
                                    Space space, std::uint32_t mask) {
  const Access& access = memory.access;
  const std::uint32_t size = size_of(access.type);
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    std::byte* at = plain(warp, space, address, access.bytes(), lane);
    if (access.whole) {
      exchange_whole(request, lane, at);
      return;
    }
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::uint64_t old = 0;
      std::uint64_t operand = 0;
      std::uint64_t compare = 0;
      std::memcpy(&old, at + e * size, size);
      std::memcpy(&operand, request.elements[e] + lane * memory.lane_bytes, size);
      if (request.compare != nullptr) {
        std::memcpy(&compare, request.compare + lane * memory.lane_bytes, size);
      }
      // Shared memory keeps subnormals in f32 additions.
      const std::uint64_t fresh =
          apply_atomic(access.combine, access.type, false, old, operand, compare);
      std::memcpy(at + e * size, &fresh, size);
      // Vectors are of global memory alone.
      if (request.results[e] != nullptr) {
        std::memcpy(request.results[e] + lane * memory.lane_bytes, &old, memory.lane_bytes);
      }
    }
  });
}

Execution::State::Outcome Execution::State::memory_op(Warp& warp, const Op& op, std::uint32_t pc,
                                                      std::uint32_t mask, std::uint32_t standing) {
  const MemoryOp& memory = program_.accesses[op.detail];
  const Access& access = memory.access;
  Request request;
  request.access = &access;
  request.agents = agents(warp, mask);
  request.lane_bytes = memory.lane_bytes;
  request.instruction = pc;
  request.line = op.line;
  addresses(warp, op.a, memory.offset, memory.wide_address, mask, request.address);
  // An atomic with a vector of results has them first.
  const bool results = access.operation == Operation::atomic && op.extra_written != 0;
  for (std::uint32_t e = 0; e < access.elements; ++e) {
    const std::uint32_t at = op.extra + e + (results ? op.extra_written : 0U);
    request.elements[e] = place(warp, program_.extra[at]);
    if (results) request.results[e] = place(warp, program_.extra[op.extra + e]);
  }
  if (op.c) request.compare = place(warp, op.c);
  if (op.f) request.compare_high = place(warp, op.f);
  if (op.d) request.results[0] = place(warp, op.d);

  std::uint32_t masks[6] = {};
  if (access.space == Space::generic) {
    each_lane(mask, [&](std::uint32_t lane) {
      const Space space = classify(request.address[lane]);
      masks[static_cast<std::size_t>(space)] |= 1U << lane;
      request.address[lane] -= window_of(space);
    });
  } else if (access.space == Space::constant) {
    masks[static_cast<std::size_t>(Space::global)] = mask;
  } else {
    masks[static_cast<std::size_t>(access.space)] = mask;
  }
  WarpLookahead lookahead(*this, warp, pc);
  if (program_.looks->is_look(pc)) {
    request.lookahead = &lookahead;
    request.peeled = program_.looks->is_peeled(pc);
    request.standing = standing;
  }
  const bool loads = access.operation == Operation::load;
  const bool atomic =
      access.operation == Operation::atomic || access.operation == Operation::reduce;
  Outcome outcome;
  if (const std::uint32_t part = masks[static_cast<std::size_t>(Space::shared)]; part != 0) {
    outcome = shared_op(warp, memory, request, part);
  }
  for (const Space space : {Space::local, Space::param}) {
    const std::uint32_t part = masks[static_cast<std::size_t>(space)];
    if (part == 0) continue;
    if (loads) {
      load_plain(warp, memory, request, space, part);
    } else if (atomic) {
      atomic_plain(warp, memory, request, space, part);
    } else {
      store_plain(warp, memory, request, space, part);
    }
    outcome.completed |= part;
  }
  const std::uint32_t global = masks[static_cast<std::size_t>(Space::global)];
  if (global != 0) {
    request.agents.mask = global;
    memory_.access(request);
    outcome.completed |= request.completed & global;
    outcome.yield = outcome.yield || request.yield;
  }
  if (memory.sign_extend) {
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      extend(request.elements[e], memory.lane_bytes, access.type, memory.register_bytes,
             outcome.completed);
    }
  }
  return outcome;
}

void Execution::State::to_space(Warp& warp, const Op& op, std::uint32_t mask) {
  const auto space = static_cast<Space>(op.detail);
  const std::uint64_t window = window_of(space);
  const bool global = space == Space::global || space == Space::constant;
  const std::uint64_t* from = longs(warp, op.a);
  if (op.immediate == 2) {  // isspacep
    std::uint32_t inside = 0;
    each_lane(mask, [&](std::uint32_t lane) {
      const bool is = global ? classify(from[lane]) == Space::global : within(from[lane], window);
      inside |= static_cast<std::uint32_t>(is) << lane;
    });
    if (op.d) *words(warp, op.d) = (predicate(warp, op.d) & ~mask) | inside;
    return;
  }
  std::uint64_t* to = longs(warp, op.d);
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t address = from[lane];
    if (op.immediate == 1) {
      if (!global && address >= kWindowBytes) {
        throw Fault(
            FaultKind::undefined,
            "cvta of " + hex(address) + ", which is no " + std::string(name_of(space)) + " address",
            lane);
      }
      to[lane] = address + window;
      return;
    }
    // A null pointer may be converted: compilers convert before they test.
    const bool right =
        address == 0 || (global ? classify(address) == Space::global : within(address, window));
    if (!right) {
      throw Fault(FaultKind::undefined,
                  "cvta.to." + std::string(name_of(space)) + " of " + hex(address) +
                      ", which lies outside that window",
                  lane);
    }
    to[lane] = global || address == 0 ? address : address - window;
  });
}

void Execution::State::map_address(Warp& warp, const Op& op, std::uint32_t mask) {
  const std::uint32_t* target = words(warp, op.b);
  const bool generic = op.detail == 0;
  each_lane(mask, [&](std::uint32_t lane) {
    std::uint64_t address = op.immediate == 8 ? longs(warp, op.a)[lane] : words(warp, op.a)[lane];
    if (generic && !within(address, kSharedWindow)) {
      throw Fault(FaultKind::undefined, "mapa of " + hex(address) + ", which is no shared address",
                  lane);
    }
    if (target[lane] >= cluster_size_) {
      throw Fault(FaultKind::undefined,
                  "mapa to block " + std::to_string(target[lane]) + " of a cluster of " +
                      std::to_string(cluster_size_),
                  lane);
    }
    const std::uint64_t window = generic ? kSharedWindow : 0;
    address = (address - window) & kOffsetMask;
    address += window + ((static_cast<std::uint64_t>(target[lane]) + 1) << kSharedBits);
    if (op.immediate == 8) {
      longs(warp, op.d)[lane] = address;
    } else {
      words(warp, op.d)[lane] = static_cast<std::uint32_t>(address);
    }
  });
}

std::uint8_t Execution::State::read_generic_byte(Warp& warp, std::uint64_t address,
                                                 std::uint32_t lane) {
  const Space space = classify(address);
  std::uint8_t out = 0;
  if (space != Space::global) {
    const std::byte* from = plain(warp, space, address - window_of(space), 1, lane);
    std::memcpy(&out, from, 1);
    return out;
  }
  static const Access access{Operation::load, Space::global, Type::b8};
  alignas(8) std::uint32_t lanes[kLanes] = {};
  Request request;
  request.access = &access;
  request.agents = agents(warp, 1U << lane);
  request.address[lane] = address;
  request.elements[0] = reinterpret_cast<std::byte*>(lanes);
  memory_.access(request);
  return static_cast<std::uint8_t>(lanes[lane]);
}

}  // namespace ringfence::ptx
