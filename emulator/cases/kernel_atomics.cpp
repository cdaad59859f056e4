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

// One atomic instruction of a warp.
class KernelRun::Atomic {
 public:
  Atomic(KernelRun& run, Warp& warp, ptx::Request& request, const Target* targets,
         const machine::Access& how)
      : run_(run),
        warp_(warp),
        agent_(*warp.agent),
        request_(request),
        targets_(targets),
        access_(*request.access),
        how_(how),
        size_(size_of(access_.type)),
        cas_(access_.combine == machine::Combine::cas),
        single_(std::popcount(request.agents.mask) <= kMostSingleLanes),
        looks_(request.lookahead != nullptr &&
               (single_ || run.was_here(warp, in_cycle(request, targets)))),
        whole_(access_.elements == 1 && how.element == size_) {}

  void make() {
    const std::uint32_t lanes = request_.agents.mask;
    constexpr auto kKind = machine::AccessKind::rmw;
    agent_.point(run_.pending(targets_[first_lane(lanes)], how_, kKind, request_));
    if (request_.lookahead != nullptr && run_.goes_round(warp_, in_cycle(request_, targets_)))
      return;
    if (!single_) {
      agent_.act(how_.site, [&](machine::Machine& m) {
        each_lane(lanes, [&](std::uint32_t lane) { one(m, lane); });
      });
      return;
    }
    run_.in_turn(warp_, request_, targets_, how_, kKind, run_.choose_lanes(warp_, lanes),
                 [&](machine::Machine& m, std::uint32_t lane) { one(m, lane); });
  }

 private:
  // What it found and left; of several elements, whether any was changed.
  struct Made {
    std::uint64_t first_old = 0;
    bool effect = false;
    machine::Wanted needs;  // what people are told
  };

  std::uint64_t operand(const std::byte* slot, std::uint32_t lane) const {
    std::uint64_t value = 0;
    std::memcpy(&value, slot + lane * request_.lane_bytes, size_);
    return value;
  }
  std::uint64_t compare(std::uint32_t lane) const { return operand(request_.compare, lane); }

  void one(machine::Machine& m, std::uint32_t lane) {
    const machine::Address at = run_.place(targets_[lane]);
    const std::uint32_t bit = 1U << lane;
    if ((warp_.waiting & bit) != 0 &&
        ((warp_.missed & bit) != 0 || !run_.may_go_on(m, warp_, lane))) {
      return;
    }
    if (access_.whole) return run_.exchange_whole(m, warp_, request_, lane, at, how_);
    if (request_.lookahead != nullptr && whole_ && agent_.drops_looks()) {
      return once(m, lane, at);
    }
    std::optional<std::uint64_t> ended;
    if (!end_wait(m, lane, at, ended)) {
      warp_.waiting |= bit;
      warp_.missed |= bit;
      return;
    }
    warp_.armed &= ~bit;
    warp_.waiting &= ~bit;
    const Made made = apply_elements(m, lane, at, ended);
    if (!made.effect && whole_ && looks_ &&
        run_.stays(m, warp_, request_, lane, at, how_, true, std::span(&made.first_old, 1),
                   made.needs)) {
      agent_.note(made.first_old);
      return;
    }
    finish(lane, at, made.first_old, made.effect || !whole_, made.needs);
  }

  // Where looks in vain are left out.
  void once(machine::Machine& m, std::uint32_t lane, machine::Address at) {
    std::uint64_t old = 0;
    if (!run_.look_once(m, warp_, request_, lane, at, how_, old)) return;
    const std::uint64_t fresh =
        ptx::apply_atomic(access_.combine, access_.type, access_.flush, old,
                          operand(request_.elements[0], lane), cas_ ? compare(lane) : 0);
    finish(lane, at, old, fresh != old, {machine::Compare::ne, old});
  }

  // Of a lane that waits here for a change: `ended` is what it finds where that can end its wait.
  // False: it could, and the look misses it. (Of a whole iteration that is made nevertheless.)
  bool end_wait(machine::Machine& m, std::uint32_t lane, machine::Address at,
                std::optional<std::uint64_t>& ended) {
    const schedule::LaneWait* const armed =
        cas_ || whole_ ? run_.armed_wait(warp_, lane, at, true) : nullptr;
    if (armed == nullptr) return true;
    const machine::ThreadId thread = agent_.lane_thread(lane);
    const machine::Wanted wanted =
        cas_ ? machine::Wanted{machine::Compare::eq, compare(lane)} : armed->await.wanted;
    if (!m.can_end(thread, at, how_, wanted, true)) return true;
    const std::uint64_t fresh = operand(request_.elements[0], lane);
    ended = cas_ ? m.try_cas_until(thread, at, how_, wanted.value, fresh)
                 : m.try_rmw_until(thread, at, how_, wanted, nullptr, fresh, combine_of(access_));
    return ended || armed->of_iteration;
  }

  Made apply_elements(machine::Machine& m, std::uint32_t lane, machine::Address at,
                      std::optional<std::uint64_t> ended) {
    const machine::ThreadId thread = agent_.lane_thread(lane);
    Made made;
    std::uint64_t operands[ptx::kMostElements] = {};
    for (std::uint32_t e = 0; e < access_.elements; ++e) {
      operands[e] = operand(request_.elements[e], lane);
    }
    for (std::uint32_t e = 0; e < access_.elements; ++e) {
      std::uint64_t old = 0;
      if (cas_) {
        const std::uint64_t due = compare(lane);
        old = ended ? *ended : m.cas(thread, at, how_, due, operands[e]);
        made.effect = old == due && operands[e] != due;
        made.needs = {machine::Compare::eq, due};
      } else {
        // Packed halves are operations of their own.
        for (std::uint32_t part = 0; part < size_; part += how_.element) {
          current_operator = {access_.combine, half_of(access_.type), access_.flush};
          machine::Address element = at;
          element.offset += e * size_ + part;
          const std::uint64_t kept = how_.element == 8 ? ~0ULL : (1ULL << (8 * how_.element)) - 1;
          const std::uint64_t mine = operands[e] >> (8 * part) & kept;
          const std::uint64_t there = ended ? *ended : m.rmw(thread, element, how_, mine, apply);
          made.effect = made.effect || (apply(there, mine) & kept) != there;
          old |= there << (8 * part);
        }
        made.needs = {machine::Compare::ne, old};
      }
      if (e == 0) {
        made.first_old = old;
        continue;
      }
      agent_.note(old);
      if (request_.results[e] != nullptr) {
        std::memcpy(request_.results[e] + lane * request_.lane_bytes, &old, request_.lane_bytes);
      }
    }
    return made;
  }

  void finish(std::uint32_t lane, machine::Address at, std::uint64_t old, bool effect,
              const machine::Wanted& needs) {
    warp_.waiting &= ~(1U << lane);
    request_.completed |= 1U << lane;
    if (request_.results[0] != nullptr) {
      std::memcpy(request_.results[0] + lane * request_.lane_bytes, &old, request_.lane_bytes);
    }
    agent_.note(old);
    if (effect) {
      run_.signalled(warp_, at, access_.bytes(), true, how_.site);
      run_.had_effect(warp_, 1U << lane);
      return;
    }
    const Seen seen{request_.instruction,        lane, at, how_, true, old,
                    {machine::Compare::ne, old}, needs};
    run_.note_round(warp_, seen);
    run_.remember(warp_, seen);
  }

  KernelRun& run_;
  Warp& warp_;
  schedule::Agent& agent_;
  ptx::Request& request_;
  const Target* targets_;
  const ptx::Access& access_;
  const machine::Access& how_;
  const std::uint32_t size_;
  const bool cas_;
  const bool single_;  // few lanes: each has a step of its own
  const bool looks_;
  const bool whole_;  // one element, which the machine takes as one
};

void KernelRun::atomic(Warp& warp, ptx::Request& request, const Target* targets,
                       const machine::Access& how) {
  Atomic(*this, warp, request, targets, how).make();
}

void KernelRun::reduce(Warp& warp, ptx::Request& request, const Target* targets,
                       const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const std::uint32_t lanes = request.agents.mask;
  const auto one = [&](machine::Machine& m, std::uint32_t lane, std::size_t replica) {
    alignas(16) std::byte buffer[64];
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::memcpy(buffer + e * size, request.elements[e] + lane * request.lane_bytes, size);
    }
    current_operator = {access.combine, half_of(access.type), access.flush};
    const machine::Address at = place(targets[lane], replica);
    machine::Access part = how;
    part.share = machine::share_of(replica, targets[lane].mapping->regions.size());
    m.reduce(agent.lane_thread(lane), at, part, {buffer, access.bytes()}, apply);
    signalled(warp, at, access.bytes(), true, how.site);
  };
  had_effect(warp, lanes);
  agent.point(pending(targets[first_lane(lanes)], how, machine::AccessKind::rmw, request));
  write_lanes(warp, request, targets, how, machine::AccessKind::rmw,
              std::popcount(lanes) > kMostSingleLanes, one);
}

// What the lanes find in all replicas: [replica][element][lane], in words of 32 bits or pairs of
// them.
void KernelRun::gather(machine::Machine& m, Warp& warp, const ptx::Request& request,
                       const Target* targets, const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t lanes = request.agents.mask;
  const std::uint32_t size = size_of(access.type);
  const std::size_t replicas = targets[first_lane(lanes)].mapping->regions.size();
  const std::size_t words = size == 8 ? 2 : 1;
  const std::size_t stride = kLanes * words;
  if (gathered_.size() < replicas * access.elements * stride) {
    gathered_.resize(replicas * access.elements * stride);
  }
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
}

// The sums of what was gathered, to the lanes' registers.
void KernelRun::sum_gathered(const ptx::Request& request, std::size_t replicas,
                             std::uint64_t seed) {
  const ptx::Access& access = *request.access;
  const std::uint32_t lanes = request.agents.mask;
  const std::uint32_t size = size_of(access.type);
  const std::size_t words = size == 8 ? 2 : 1;
  const std::size_t stride = kLanes * words;
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
}

void KernelRun::load_reduce(Warp& warp, ptx::Request& request, const Target* targets,
                            const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const std::uint32_t lanes = request.agents.mask;
  ends_round(warp.block);  // reads of all replicas, which nobody wakes for
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
  agent.act(how.site, [&](machine::Machine& m) { gather(m, warp, request, targets, how); });
  sum_gathered(request, replicas, seed);
  request.completed = lanes;
}

}  // namespace ringfence::cases
