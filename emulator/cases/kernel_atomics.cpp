// Atomics and reductions of a warp, multimem's too.

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/ptx/atomic.hpp"

namespace ringfence::cases {
namespace {

using machine::Order;
using ptx::each_lane;
using ptx::first_lane;
using ptx::kLanes;

ptx::Type half_of(ptx::Type type) {
  switch (type) {
    case ptx::Type::bf16x2:
      return ptx::Type::bf16;
    case ptx::Type::f16x2:
      return ptx::Type::f16;
    case ptx::Type::u16x2:
      return ptx::Type::u16;
    case ptx::Type::s16x2:
      return ptx::Type::s16;
    default:
      return type;
  }
}

// The operator of an atomic, for the machine's plain function pointer. Set before each use.
struct Operator {
  machine::Combine combine;
  ptx::Type type;
  bool flush;
};
thread_local Operator current_operator;
std::uint64_t apply(std::uint64_t old, std::uint64_t operand) {
  return ptx::apply_atomic(current_operator.combine, current_operator.type, current_operator.flush,
                           old, operand);
}

}  // namespace

void KernelRun::reduce_bytes(machine::Machine& machine, machine::ThreadId thread,
                             machine::Address at, machine::Access how, const ptx::BulkPart& part) {
  how.element = static_cast<std::uint8_t>(size_of(half_of(part.type)));
  how.combine = part.combine;
  current_operator = {part.combine, half_of(part.type), false};
  machine.reduce(thread, at, how, part.data, apply);
}

machine::CombineFunction combine_of(const ptx::Access& access) {
  current_operator = {access.combine, half_of(access.type), access.flush};
  return apply;
}

// Of 16 bytes, in one step: nobody comes between its halves.
void KernelRun::exchange_whole(machine::Machine& machine, Warp& warp, ptx::Request& request,
                               std::uint32_t lane, machine::Address at,
                               const machine::Access& written) {
  const machine::ThreadId thread = warp.agent->lane_thread(lane);
  machine::Access how = written;
  how.operation = 16;
  // What it leaves in the halves is read as one.
  machine::AsOne halves;
  machine::Access leaves = how;
  leaves.as_one = &halves;
  machine::Address high = at;
  high.offset += 8;
  const auto value = [&](const std::byte* slot) {
    std::uint64_t out = 0;
    std::memcpy(&out, slot + lane * request.lane_bytes, sizeof out);
    return out;
  };
  const std::uint64_t fresh[2] = {value(request.elements[0]), value(request.elements[1])};
  std::uint64_t old[2] = {};
  bool effect = true;
  if (request.access->combine == machine::Combine::cas) {
    const std::uint64_t compare[2] = {value(request.compare), value(request.compare_high)};
    // A comparison that holds writes what is there, until both do.
    old[0] = machine.cas(thread, at, how, compare[0], compare[0]);
    if (old[0] == compare[0]) {
      old[1] = machine.cas(thread, high, leaves, compare[1], fresh[1]);
    } else {
      machine.read(thread, high, how, std::as_writable_bytes(std::span(&old[1], 1)));
    }
    effect = old[0] == compare[0] && old[1] == compare[1];
    if (effect) machine.cas(thread, at, leaves, compare[0], fresh[0]);
    effect = effect && (fresh[0] != old[0] || fresh[1] != old[1]);
  } else {
    current_operator = {machine::Combine::exchange, ptx::Type::b64, false};
    old[0] = machine.rmw(thread, at, leaves, fresh[0], apply);
    old[1] = machine.rmw(thread, high, leaves, fresh[1], apply);
  }
  warp.waiting &= ~(1U << lane);
  request.completed |= 1U << lane;
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::memcpy(request.results[half] + lane * request.lane_bytes, &old[half], sizeof old[half]);
    warp.agent->note(old[half]);
  }
  if (effect) {
    signalled(warp, at, request.access->bytes(), true, how.site);
    had_effect(warp, 1U << lane);
    return;
  }
  for (std::uint32_t half = 0; half < 2; ++half) {
    const machine::Wanted other{machine::Compare::ne, old[half]};
    remember(warp, {request.instruction, lane, half == 0 ? at : high, how, true, old[half], other,
                    other});
  }
}

void KernelRun::atomic(Warp& warp, ptx::Request& request, const Target* targets,
                       const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const bool cas = access.combine == machine::Combine::cas;
  const bool single = std::popcount(request.agents.mask) <= kMostSingleLanes;
  const bool looks = request.lookahead != nullptr && (single || was_here(warp, request, targets));
  const auto finish = [&](std::uint32_t lane, machine::Address at, std::uint64_t old, bool effect,
                          const machine::Wanted& needs) {
    warp.waiting &= ~(1U << lane);
    request.completed |= 1U << lane;
    if (request.results[0] != nullptr) {
      std::memcpy(request.results[0] + lane * request.lane_bytes, &old, request.lane_bytes);
    }
    agent.note(old);
    if (effect) {
      signalled(warp, at, access.bytes(), true, how.site);
      had_effect(warp, 1U << lane);
    } else {
      const Seen seen{request.instruction,         lane, at, how, true, old,
                      {machine::Compare::ne, old}, needs};
      note_round(warp, seen);
      remember(warp, seen);
    }
  };
  const auto one = [&](machine::Machine& m, std::uint32_t lane) {
    const auto operand_at = [&](const std::byte* slot, std::uint32_t bytes) {
      std::uint64_t value = 0;
      std::memcpy(&value, slot + lane * request.lane_bytes, bytes);
      return value;
    };
    const machine::Address at = place(targets[lane]);
    const machine::ThreadId thread = agent.lane_thread(lane);
    const std::uint32_t bit = 1U << lane;
    if ((warp.waiting & bit) != 0 && ((warp.missed & bit) != 0 || !may_go_on(m, warp, lane)))
      return;
    if (access.whole) return exchange_whole(m, warp, request, lane, at, how);
    const bool whole = access.elements == 1 && how.element == size;
    if (request.lookahead != nullptr && whole && agent.drops_looks()) {
      std::uint64_t old = 0;
      if (!look_once(m, warp, request, lane, at, how, old)) return;
      const std::uint64_t operand = operand_at(request.elements[0], size);
      const std::uint64_t fresh =
          ptx::apply_atomic(access.combine, access.type, access.flush, old, operand,
                            cas ? operand_at(request.compare, size) : 0);
      finish(lane, at, old, fresh != old, {machine::Compare::ne, old});
      return;
    }
    std::optional<std::uint64_t> ended;
    // Of a whole iteration that is made nevertheless where it misses the change.
    const schedule::LaneWait* const armed =
        cas || whole ? armed_wait(warp, lane, at, true) : nullptr;
    if (cas && armed != nullptr) {
      const std::uint64_t compare = operand_at(request.compare, size);
      if (m.can_end(thread, at, how, {machine::Compare::eq, compare}, true)) {
        ended = m.try_cas_until(thread, at, how, compare, operand_at(request.elements[0], size));
        if (!ended && !armed->of_iteration) {
          warp.waiting |= bit;
          warp.missed |= bit;
          return;
        }
      }
    }
    if (!cas && armed != nullptr && m.can_end(thread, at, how, armed->await.wanted, true)) {
      ended = m.try_rmw_until(thread, at, how, armed->await.wanted, nullptr,
                              operand_at(request.elements[0], size), combine_of(access));
      if (!ended && !armed->of_iteration) {
        warp.waiting |= bit;
        warp.missed |= bit;
        return;
      }
    }
    warp.armed &= ~bit;
    warp.waiting &= ~bit;
    bool effect = false;
    std::uint64_t first_old = 0;
    std::uint64_t operands[ptx::kMostElements] = {};
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      operands[e] = operand_at(request.elements[e], size);
    }
    machine::Wanted needs;
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      const std::uint64_t operand = operands[e];
      std::uint64_t old = 0;
      if (cas) {
        const std::uint64_t compare = operand_at(request.compare, size);
        old = ended ? *ended : m.cas(thread, at, how, compare, operand);
        effect = old == compare && operand != compare;
        needs = {machine::Compare::eq, compare};
      } else {
        // Packed halves are operations of their own.
        for (std::uint32_t part = 0; part < size; part += how.element) {
          current_operator = {access.combine, half_of(access.type), access.flush};
          machine::Address element = at;
          element.offset += e * size + part;
          const std::uint64_t kept = how.element == 8 ? ~0ULL : (1ULL << (8 * how.element)) - 1;
          const std::uint64_t mine = operand >> (8 * part) & kept;
          const std::uint64_t there = ended ? *ended : m.rmw(thread, element, how, mine, apply);
          effect = effect || (apply(there, mine) & kept) != there;
          old |= there << (8 * part);
        }
        needs = {machine::Compare::ne, old};
      }
      if (e == 0) first_old = old;
      if (e > 0) {
        agent.note(old);
        if (request.results[e] != nullptr) {
          std::memcpy(request.results[e] + lane * request.lane_bytes, &old, request.lane_bytes);
        }
      }
    }
    if (!effect && whole && looks &&
        stays(m, warp, request, lane, at, how, true, std::span(&first_old, 1), needs)) {
      agent.note(first_old);
      return;
    }
    finish(lane, at, first_old, effect || !whole, needs);
  };
  std::uint32_t todo = request.agents.mask;
  agent.point(pending(targets[first_lane(todo)], how, machine::AccessKind::rmw, request));
  if (request.lookahead != nullptr && goes_round(warp, request, targets)) return;
  if (!single) {
    agent.act(how.site, [&](machine::Machine& m) {
      each_lane(todo, [&](std::uint32_t lane) { one(m, lane); });
    });
    return;
  }
  todo = choose_lanes(warp, todo);
  for (bool first = true; todo != 0; todo &= todo - 1, first = false) {
    if (!first) {
      agent.point(pending(targets[first_lane(todo)], how, machine::AccessKind::rmw, request));
    }
    agent.act(how.site, [&](machine::Machine& m) { one(m, first_lane(todo)); });
  }
}

void KernelRun::reduce(Warp& warp, ptx::Request& request, const Target* targets,
                       const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const std::uint32_t lanes = request.agents.mask;
  const auto one = [&](machine::Machine& m, std::uint32_t lane) {
    alignas(16) std::byte buffer[64];
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::memcpy(buffer + e * size, request.elements[e] + lane * request.lane_bytes, size);
    }
    current_operator = {access.combine, half_of(access.type), access.flush};
    const std::size_t replicas = targets[lane].mapping->regions.size();
    for (std::size_t r = 0; r < replicas; ++r) {
      m.reduce(agent.lane_thread(lane), place(targets[lane], r), how, {buffer, access.bytes()},
               apply);
      signalled(warp, place(targets[lane], r), access.bytes(), true, how.site);
    }
  };
  had_effect(warp, lanes);
  agent.point(pending(targets[first_lane(lanes)], how, machine::AccessKind::rmw, request));
  write_lanes(warp, request, targets, how, machine::AccessKind::rmw,
              std::popcount(lanes) > kMostSingleLanes, one);
}

void KernelRun::load_reduce(Warp& warp, ptx::Request& request, const Target* targets,
                            const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t lanes = request.agents.mask;
  ends_round(warp.block);  // reads of all replicas, which nobody wakes for
  const std::uint32_t size = size_of(access.type);
  const std::size_t replicas = targets[first_lane(lanes)].mapping->regions.size();
  if (how.order != Order::weak || agent.weak_points()) {
    agent.point(pending(targets[first_lane(lanes)], how, machine::AccessKind::read, request));
  }
  std::uint64_t seed = settings_.seed;
  mix(seed, request.address[first_lane(lanes)]);
  mix(seed, request.instruction);
  if (settings_.policy == ptx::SumPolicy::seeded_order && replicas > 1) {
    seed += std::uint64_t{agent.choose(schedule::DecisionKind::sum, 64)} << 32;
  }
  // [replica][element][lane], in words of 32 bits or pairs of them.
  const std::size_t words = size == 8 ? 2 : 1;
  const std::size_t stride = kLanes * words;
  if (gathered_.size() < replicas * access.elements * stride) {
    gathered_.resize(replicas * access.elements * stride);
  }
  agent.act(how.site, [&](machine::Machine& m) {
    std::uint64_t digest = 0;
    if (size == 4 && side_by_side(request, targets)) {
      const std::size_t bytes = replicas * machine::kBlockBytes;
      if (moved_.size() < bytes) moved_.resize(bytes);
      if (m.read_together(agent.lane_threads(), places(targets[0]), how,
                          std::span(moved_).first(bytes))) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          for (std::size_t r = 0; r < replicas; ++r) {
            std::uint32_t parts[4];
            std::memcpy(parts, &moved_[r * machine::kBlockBytes + lane * machine::kLineBytes], 16);
            for (std::uint32_t e = 0; e < 4; ++e) gathered_[(r * 4 + e) * stride + lane] = parts[e];
            mix(digest, std::uint64_t{parts[1]} << 32 | parts[0]);
            mix(digest, std::uint64_t{parts[3]} << 32 | parts[2]);
          }
        }
        agent.note(digest);
        return;
      }
    }
    each_lane(lanes, [&](std::uint32_t lane) {
      alignas(16) std::byte buffer[64];
      for (std::size_t r = 0; r < replicas; ++r) {
        m.read(agent.lane_thread(lane), place(targets[lane], r), how, {buffer, access.bytes()});
        if (access.bytes() == 16 && size == 4) {
          std::uint32_t* const to = &gathered_[r * 4 * stride + lane];
          std::uint32_t parts[4];
          std::memcpy(parts, buffer, 16);
          for (std::uint32_t e = 0; e < 4; ++e) to[e * stride] = parts[e];
          mix(digest, std::uint64_t{parts[1]} << 32 | parts[0]);
          mix(digest, std::uint64_t{parts[3]} << 32 | parts[2]);
          continue;
        }
        for (std::uint32_t e = 0; e < access.elements; ++e) {
          std::uint64_t value = 0;
          std::memcpy(&value, buffer + e * size, size);
          std::memcpy(&gathered_[(r * access.elements + e) * stride + lane * words], &value,
                      words * 4);
          mix(digest, value);
        }
      }
    });
    agent.note(digest);
  });
  constexpr std::size_t kMost = 72;
  for (std::uint32_t e = 0; e < access.elements; ++e) {
    if (size == 4 && request.lane_bytes == 4) {
      const std::uint32_t* rows[kMost];
      alignas(64) std::uint32_t sums[kLanes];
      for (std::size_t r = 0; r < replicas; ++r) {
        rows[r] = &gathered_[(r * access.elements + e) * stride];
      }
      reduce_replica_lanes(access, settings_.policy, seed + e, std::span(rows, replicas), sums);
      each_lane(lanes, [&](std::uint32_t lane) {
        std::memcpy(request.elements[e] + lane * 4, &sums[lane], 4);
      });
      continue;
    }
    each_lane(lanes, [&](std::uint32_t lane) {
      std::uint64_t values[kMost] = {};
      for (std::size_t r = 0; r < replicas; ++r) {
        std::memcpy(&values[r], &gathered_[(r * access.elements + e) * stride + lane * words],
                    size);
      }
      const std::uint64_t sum =
          reduce_replicas(access, settings_.policy, seed + lane + e, std::span(values, replicas));
      std::memcpy(request.elements[e] + lane * request.lane_bytes, &sum, request.lane_bytes);
    });
  }
  request.completed = lanes;
}

}  // namespace ringfence::cases
