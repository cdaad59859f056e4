// Where the accesses of a warp go, and its stores.

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/cases/kernel_detail.hpp"

namespace ringfence::cases {
namespace {

using machine::Order;
using ptx::each_lane;
using ptx::first_lane;
using ptx::kLanes;
using ptx::Operation;

bool is_packed(ptx::Type type) {
  return type == ptx::Type::bf16x2 || type == ptx::Type::f16x2 || type == ptx::Type::u16x2 ||
         type == ptx::Type::s16x2;
}

bool is_multimem(Operation operation) { return operation >= Operation::multimem_load_reduce; }

}  // namespace

machine::Access how_of(const ptx::Access& access, std::uint16_t site) {
  machine::Access how;
  how.order = access.order;
  // Atomics are strong whatever is written.
  if (how.order == Order::weak &&
      (access.operation == Operation::atomic || access.operation == Operation::reduce)) {
    how.order = Order::relaxed;
  }
  how.scope = access.scope;
  how.element = static_cast<std::uint8_t>(is_fp8(access.type)      ? 1
                                          : is_packed(access.type) ? 2
                                                                   : size_of(access.type));
  how.combine = access.combine;
  how.proxy = is_multimem(access.operation) ? machine::Proxy::multicast : machine::Proxy::generic;
  if (access.non_coherent) how.proxy = machine::Proxy::readonly;
  how.reaches_output = access.operation == Operation::multimem_load_reduce;
  how.site = site;
  return how;
}

namespace {

// 16 bytes of each lane, as they lie in memory.
void give_lanes(const ptx::Request& request, std::byte* to) {
  each_element(request, [&](std::size_t at, const std::byte* from, std::uint32_t size) {
    std::memcpy(to + at, from, size);
  });
}

}  // namespace

void KernelRun::locate(Warp& warp, const ptx::Request& request, Target* targets) {
  if (request.shared) {
    each_lane(request.agents.mask, [&](std::uint32_t lane) {
      const machine::Address at = shared_address(request.address[lane]);
      warp.fault_at = at;
      targets[lane] = {&shared_[request.address[lane] >> 32], at.offset};
    });
    return;
  }
  const ptx::Access& access = *request.access;
  const std::uint32_t bytes = access.bytes();
  const bool multicast = is_multimem(access.operation);
  // cp.async [shared], [global]
  const bool copies = kernel_.program.ops[request.instruction].kind == ptx::Kind::copy_async;
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    const Mapping* mapping = space_.find(address);
    const std::uint64_t offset = mapping == nullptr ? 0 : address - mapping->address;
    if (mapping == nullptr || offset > mapping->bytes || mapping->bytes - offset < bytes) {
      refuse_outside(warp, address, bytes, request.instruction, copies ? 1 : 0, lane);
    }
    const machine::Address at{settings_.first_region + mapping->regions[0], offset};
    check_reach(warp, *mapping, at, lane);
    const bool stores = access.operation == Operation::store;
    if (mapping->multicast != multicast &&
        !(mapping->multicast && stores && settings_.plain_multicast)) {
      refuse(warp, at, ptx::FaultKind::multicast_misuse,
             multicast ? "multimem access to '" + mapping->name + "', which is no multicast address"
             : stores  ? "store to '" + mapping->name +
                            "' by an instruction that is not multimem (--policy "
                            "plain-multicast=allow permits it)"
                      : "access to '" + mapping->name + "' by an instruction that is not multimem",
             lane);
    }
    if (address % bytes != 0) {
      refuse(warp, at, ptx::FaultKind::misaligned,
             "byte " + std::to_string(offset) + " of '" + mapping->name + "' is not aligned to " +
                 std::to_string(bytes) + " bytes",
             lane);
    }
    warp.fault_at = at;
    targets[lane] = {mapping, offset};
  });
}

void KernelRun::note_use(const Mapping& mapping, std::uint64_t offset, std::uint64_t bytes,
                         bool writes, bool reads, bool data) const {
  for (std::uint32_t r = 0; r < mapping.regions.size(); ++r) {
    // A mapping of all replicas has them by rank.
    const std::uint32_t owner = mapping.multicast ? r : mapping.rank;
    if (writes) settings_.usage->wrote(mapping.regions[r], offset, bytes, data);
    if (reads && owner != execution_.config().rank) {
      settings_.usage->peer_read(mapping.regions[r], offset, bytes);
    }
  }
}

void KernelRun::note_use(const ptx::Request& request, const Target* targets,
                         const machine::Access& how) const {
  if (settings_.usage == nullptr) return;
  const Operation operation = request.access->operation;
  const bool reads = operation == Operation::load || operation == Operation::multimem_load_reduce;
  const std::uint32_t bytes = request.access->bytes();
  // A strong access of one word is a signal; sums by atomics are data.
  const bool data = how.order == Order::weak || bytes > 8 ||
                    operation == Operation::multimem_store ||
                    (is_float(request.access->type) && operation != Operation::load);
  // Lanes mostly go on where the one before them ends.
  const Mapping* mapping = nullptr;
  std::uint64_t begin = 0, end = 0;
  const auto tell = [&] {
    if (mapping != nullptr) note_use(*mapping, begin, end - begin, !reads, reads, data);
  };
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const Target& t = targets[lane];
    if (t.mapping != mapping || t.offset != end) {
      tell();
      mapping = t.mapping;
      begin = t.offset;
    }
    end = t.offset + bytes;
  });
  tell();
}

// PTX ISA 8.2.4 has the elements of a vector as operations of their own, in no given order; a
// policy may have more than that as one.
void KernelRun::find_groups(const ptx::Request& request, const Target* targets,
                            const machine::Access& how, Groups& groups) const {
  constexpr std::uint64_t kLine = 128;
  if (!settings_.line_ordered && how.operation == 0) return;  // nearly always
  groups.of.fill(-1);
  groups.all.resize(kLanes);
  const std::uint32_t bytes = request.access->bytes();
  const bool wide = bytes >= kLine / ptx::kLanes;  // else 32 lanes move less than a line
  std::uint32_t left = settings_.line_ordered && wide && !request.shared ? request.agents.mask : 0;
  while (left != 0) {
    const std::uint32_t first = first_lane(left);
    const std::uint64_t line = targets[first].offset / kLine;
    std::uint32_t lanes = 0, pieces = 0;
    each_lane(left, [&](std::uint32_t lane) {
      const Target& t = targets[lane];
      if (t.mapping != targets[first].mapping || t.offset / kLine != line) return;
      lanes |= 1U << lane;
      pieces |= 1U << (t.offset % kLine / bytes);
    });
    left &= ~lanes;
    // All of the 128 bytes.
    if (static_cast<std::uint64_t>(std::popcount(pieces)) * bytes != kLine) continue;
    groups.lines = groups.any = true;
    each_lane(lanes,
              [&](std::uint32_t lane) { groups.of[lane] = static_cast<std::int8_t>(first); });
  }
  if (how.operation == 0) return;
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    if (groups.of[lane] < 0) groups.of[lane] = static_cast<std::int8_t>(lane);
  });
  groups.any = true;
}

// Who repeats an execution has the lanes of a warp act in its order, also where another part could
// go on by now: one that waits, too.
bool KernelRun::is_held(Warp& warp, std::uint32_t lanes, const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  if (how.order == Order::weak && !agent.weak_points()) return false;
  if (!agent.drops_looks()) return false;
  std::uint32_t others = warp.waiting & ~warp.dependent;
  execution_.ready(warp.block, warp.index, others_);
  for (const ptx::SplitRef& s : others_) others |= s.mask & ~warp.held;
  others &= ~lanes;
  if (others != 0) {
    const std::uint32_t parts[] = {lanes, others};
    if (agent.choose_part(schedule::DecisionKind::behind, parts) == 1) {
      warp.held |= lanes;
      return true;
    }
  }
  warp.held = 0;
  return false;
}

// Lanes are threads: at the point of coherence what one does next may come before what another one
// of its warp does first. A lane that has let others go on goes on itself when it comes again.
bool KernelRun::lets_others(Warp& warp, const ptx::Request& request, const machine::Access& how) {
  const std::uint32_t lanes = request.agents.mask;
  if (is_held(warp, lanes, how)) return true;
  const std::uint32_t came_again = warp.behind_others & lanes;
  warp.behind_others &= ~lanes;
  if (came_again != 0 || !warp.agent->order_shows(how)) return false;
  execution_.ready(warp.block, warp.index, others_);
  const bool any = std::any_of(others_.begin(), others_.end(), [&](const ptx::SplitRef& s) {
    return (s.mask & ~warp.waiting & ~lanes) != 0;
  });
  if (!any || warp.agent->choose(schedule::DecisionKind::behind, 2) == 0) return false;
  warp.behind_others |= lanes;
  return true;
}

void KernelRun::access(ptx::Request& request) {
  Warp& warp = warp_of(request.agents);
  settle(warp);
  if (rounds_[warp.block].asleep) sleep(warp);
  warp.accessed = true;
  // A thread that makes the look, and goes on into the loop, waits there.
  if (request.peeled && !warp.agent->drops_looks()) request.lookahead = nullptr;
  const std::uint16_t site = kernel_.site[request.instruction];
  warp.last_site = site;
  Target targets[kLanes];
  locate(warp, request, targets);
  machine::Access how = how_of(*request.access, site);
  const bool moves =
      request.access->operation == Operation::load || request.access->operation == Operation::store;
  const std::uint32_t bytes = request.access->bytes();
  const bool vector = settings_.vector_atomic && request.access->elements > 1 && !request.shared;
  if (moves && (vector || request.access->whole) && (bytes == 8 || bytes == 16)) {
    how.element = 8;
    how.operation = bytes == 16 ? 16 : 0;
  }
  if (lets_others(warp, request, how)) return;
  if (how.order != Order::weak) warp.moved = true;
  // Nobody outside the cluster reaches shared memory (PTX ISA 8.3).
  if (request.shared) how.scope = std::min(how.scope, machine::Scope::cluster);
  if (!request.shared) note_use(request, targets, how);
  const bool unwaited = settings_.before != nullptr && (request.agents.mask & ~warp.behind) != 0;
  if (unwaited && !request.shared) note_unwaited(warp, request, targets);
  switch (request.access->operation) {
    case Operation::load:
      return load(warp, request, targets, how);
    case Operation::store:
    case Operation::multimem_store:
      return store(warp, request, targets, how);
    case Operation::atomic:
      return atomic(warp, request, targets, how);
    case Operation::reduce:
    case Operation::multimem_reduce:
      return reduce(warp, request, targets, how);
    case Operation::multimem_load_reduce:
      return load_reduce(warp, request, targets, how);
  }
}

void KernelRun::signalled(Warp& warp, machine::Address at, std::uint32_t bytes, bool adds,
                          std::uint16_t site) {
  if (settings_.first_shared && at.region >= settings_.first_region + *settings_.first_shared)
    return;
  warp.agent->signalled(at, bytes);
  if (settings_.signals == nullptr) return;
  settings_.signals->wrote(execution_.config().rank, at.region - settings_.first_region, at.offset,
                           bytes, adds, warp.block, site, settings_.run);
}

std::uint32_t KernelRun::choose_lanes(Warp& warp, std::uint32_t lanes) {
  if (std::popcount(lanes) < 2) return lanes;
  parts_.assign(1, lanes);
  each_lane(lanes, [&](std::uint32_t lane) { parts_.push_back(1U << lane); });
  std::uint32_t ahead = warp.agent->choose_part(schedule::DecisionKind::split, parts_);
  if (ahead == 0) return lanes;
  while (--ahead > 0) lanes &= lanes - 1;
  return lanes & (0U - lanes);
}

bool KernelRun::is_fresh(const Warp& warp, const ptx::Request& request, const Target* targets) {
  constexpr std::uint64_t kLine = 128;
  if (!settings_.fresh_lines || request.shared || request.access->non_coherent) return false;
  std::vector<std::uint64_t> lines;
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const machine::Address at = place(targets[lane]);
    const std::uint64_t last = (at.offset + request.access->bytes() - 1) / kLine;
    for (std::uint64_t l = at.offset / kLine; l <= last; ++l) {
      lines.push_back(std::uint64_t{at.region} << 40 | l);
    }
  });
  // The lanes of one instruction read together, also where they come to it in parts.
  bool fresh = true;
  auto& read = lines_read_[warp.block];
  for (const std::uint64_t line : lines) {
    const FirstRead mine{warp.index, request.instruction, 0};
    const FirstRead& first = read.try_emplace(line, mine).first->second;
    fresh = fresh && first.warp == warp.index && first.instruction == request.instruction &&
            (first.lanes & request.agents.mask) == 0;
  }
  for (const std::uint64_t line : lines) {
    FirstRead& first = read[line];
    // A lane that comes again ends that: the line is in the cache by then.
    first.lanes |= fresh ? request.agents.mask : ~0U;
  }
  return fresh;
}

bool KernelRun::side_by_side(const ptx::Request& request, const Target* targets) const {
  if (request.agents.mask != 0xFFFFFFFFU || request.access->bytes() != machine::kLineBytes ||
      targets[0].offset % machine::kBlockBytes != 0) {
    return false;
  }
  bool right = true;
  for (std::uint32_t i = 1; i < kLanes; ++i) {
    right = right && targets[i].mapping == targets[0].mapping &&
            targets[i].offset == targets[0].offset + i * machine::kLineBytes;
  }
  return right;
}

void KernelRun::store(Warp& warp, ptx::Request& request, const Target* targets,
                      const machine::Access& written) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const std::uint32_t bytes = access.bytes();
  const std::uint32_t lanes = request.agents.mask;
  // Whether it leaves the block's shared memory as it was, and tells nobody.
  bool in_block =
      request.shared && rounds_[warp.block].met != 0 && !machine::releases(written.order);
  Groups groups;
  find_groups(request, targets, written, groups);
  const auto one = [&](machine::Machine& m, std::uint32_t lane, std::size_t replica) {
    alignas(16) std::byte buffer[64];
    if (size == 4 && request.lane_bytes == 4) {
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(buffer + e * 4, request.elements[e] + lane * 4, 4);
      }
    } else {
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(buffer + e * size, request.elements[e] + lane * request.lane_bytes, size);
      }
    }
    if (in_block) {
      alignas(16) std::byte there[64];
      m.peek(place(targets[lane]), {there, bytes});
      in_block = std::memcmp(there, buffer, bytes) == 0;
    }
    if (replica == 0) note_taken(m, warp, lane, targets[lane], access.bytes());
    // A plain store may be to a multicast address, too.
    machine::Access how = written;
    how.as_one = groups.at(lane);
    if (targets[lane].mapping->multicast) how.proxy = machine::Proxy::multicast;
    const machine::Address at = place(targets[lane], replica);
    if (how.order != Order::weak) {
      how.share = machine::share_of(replica, targets[lane].mapping->regions.size());
    }
    m.write(agent.lane_thread(lane), at, how, {buffer, bytes});
    if (how.order != Order::weak) signalled(warp, at, bytes, false, how.site);
  };
  machine::Access how = written;
  const bool strong = how.order != Order::weak;
  if (strong || agent.weak_points()) {
    agent.point(pending(targets[first_lane(lanes)], how, machine::AccessKind::write, request));
  }
  if (!groups.any && side_by_side(request, targets)) {
    if (targets[0].mapping->multicast) how.proxy = machine::Proxy::multicast;
    const auto to = places(targets[0]);
    moved_.resize(std::max<std::size_t>(moved_.size(), machine::kBlockBytes));
    give_lanes(request, moved_.data());
    agent.act(how.site, [&](machine::Machine& m) {
      if (!m.write_together(agent.lane_threads(), to, how,
                            std::span(moved_).first(machine::kBlockBytes))) {
        each_lane(lanes, [&](std::uint32_t lane) {
          for (std::size_t r = 0; r < to.size(); ++r) one(m, lane, r);
        });
      }
    });
    request.completed = lanes;
    had_effect(warp, lanes);
    return;
  }
  write_lanes(warp, request, targets, how, machine::AccessKind::write,
              !strong || groups.lines || std::popcount(lanes) > kMostSingleLanes, one);
  had_effect(warp, lanes, in_block);
}

}  // namespace ringfence::cases
