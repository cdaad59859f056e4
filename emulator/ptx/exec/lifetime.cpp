// When shared memory of another block of the cluster is there. The manual and the programming guide
// ask that its block has begun and has not ended: co-scheduling alone is no order. So something
// that a thread of that block did has to precede an access, and the access the end of some thread
// there. Order in time is enough where it is told by a barrier: of the cluster, whatever its
// arrivals order, and of an mbarrier whose phase was seen complete.

#include <algorithm>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

std::string number(std::uint64_t n) { return std::to_string(n); }

}  // namespace

void Execution::State::visit(Warp& warp, Block& owner, std::uint64_t address, std::uint32_t lane,
                             std::uint32_t pc) {
  if (&owner == warp.block || !models_shared_) return;
  Visit v;
  v.op = pc;
  v.offset = address & kOffsetMask;
  visit(warp, owner, lane, v);
}

void Execution::State::visit_signal(Warp& warp, Block& owner, std::uint64_t address,
                                    std::uint32_t lane, std::uint32_t pc, std::uint64_t phase,
                                    bool async) {
  if (&owner == warp.block || !models_shared_) return;
  Visit v;
  v.op = pc;
  v.offset = address & kOffsetMask;
  v.async = async;
  v.mbarrier = phase;
  visit(warp, owner, lane, v);
}

void Execution::State::visit(Warp& warp, Block& owner, std::uint32_t lane, Visit v) {
  if (warp.peers.empty()) warp.peers.assign(cluster_size_, 0);
  std::uint32_t& known = warp.peers[owner.cluster_rank];
  const Agents agent = agents(warp, 1U << lane);
  if ((known >> lane & 1U) == 0) {
    if (!memory_.knows_of(agent, owner.index)) {
      Fault fault(FaultKind::cluster_entry,
                  "nothing orders this after the start of block " + number(owner.index) +
                      ", whose shared memory it is",
                  lane);
      OtherAccess other;
      other.block = owner.index;
      other.kind = OtherAccess::Kind::none;
      other.place = shared_place(owner.index, v.offset);
      fault.set_other(other);
      throw fault;
    }
    known |= 1U << lane;
  }
  if (owner.live_warps == 0) {
    Fault fault(FaultKind::cluster_exit,
                "block " + number(owner.index) + ", whose shared memory it is, has ended (line " +
                    number(program_.ops[owner.warps[owner.last_thread / kLanes].exit_pc].line) +
                    ")",
                lane);
    OtherAccess other;
    other.block = owner.index;
    other.thread = owner.last_thread;
    other.instruction = owner.warps[owner.last_thread / kLanes].exit_pc;
    other.kind = OtherAccess::Kind::none;
    other.place = shared_place(owner.index, v.offset);
    fault.set_other(other);
    throw fault;
  }
  v.block = warp.block->index;
  v.thread = warp.index * kLanes + lane;
  v.time = memory_.moments(agent).time[lane];
  v.phase = warp.cluster_phase.empty() ? 0 : warp.cluster_phase[lane];
  v.number = ++visits_;
  if (v.mbarrier != 0) {
    owner.signals.push_back(v);
  } else {
    owner.visits[std::uint64_t{v.block} << 32 | v.thread] = v;
  }
}

// A phase of barrier.cluster is complete: all threads of the cluster have arrived or exited, and
// what they did before that is done. Asynchronous operations are nobody's program order.
void Execution::State::passed_cluster(Warp& warp, std::uint32_t mask) {
  if (cluster_size_ == 1 || !models_shared_) return;
  if (warp.peers.empty()) warp.peers.assign(cluster_size_, 0);
  for (std::uint32_t& known : warp.peers) known |= mask;
  const std::uint64_t phase = warp.block->cluster->phase;
  const auto before = [&](const Visit& v) { return !v.async && v.phase < phase; };
  std::erase_if(warp.block->signals, before);
  std::erase_if(warp.block->visits, [&](const auto& v) { return before(v.second); });
}

void Execution::State::passed_phase(Warp& warp, std::uint32_t offset, std::uint64_t phase,
                                    std::uint32_t mask) {
  Block& block = *warp.block;
  if (block.signals.empty()) return;
  if (warp.peers.empty()) warp.peers.assign(cluster_size_, 0);
  std::erase_if(block.signals, [&](const Visit& signal) {
    if (signal.offset != offset || signal.mbarrier > phase) return false;
    for (const Block* peer : block.cluster->blocks) {
      if (peer->index == signal.block) warp.peers[peer->cluster_rank] |= mask;
    }
    // What its thread did before it; of an asynchronous operation its own access.
    const auto v = block.visits.find(std::uint64_t{signal.block} << 32 | signal.thread);
    if (v != block.visits.end() && v->second.number < signal.number &&
        (!signal.async || v->second.op == signal.op)) {
      block.visits.erase(v);
    }
    return true;
  });
}

// Threads exit: what precedes that precedes the block's end. At the end nothing may be left.
void Execution::State::check_visits(Warp& warp, std::uint32_t exiting) {
  Block& block = *warp.block;
  if (block.visits.empty() && block.signals.empty()) return;
  const auto known = [&](const Visit& v) {
    if (v.async) return false;
    for (std::uint32_t left = exiting; left != 0; left &= left - 1) {
      const SharedActor now{false, block.index, warp.index * kLanes + first_lane(left)};
      const SharedActor visitor{false, v.block, v.thread};
      if (memory_.ordered(agents(warp, exiting), now, visitor, v.time, false)) return true;
    }
    return false;
  };
  std::erase_if(block.signals, known);
  std::erase_if(block.visits, [&](const auto& v) { return known(v.second); });
  if (warp.live != 0 || block.live_warps > 1) return;
  const Visit* first = nullptr;
  const auto look = [&](const Visit& v) {
    if (first == nullptr || v.number < first->number) first = &v;
  };
  for (const auto& [thread, v] : block.visits) look(v);
  for (const Visit& v : block.signals) look(v);
  if (first == nullptr) return;
  const Visit& v = *first;
  const std::string what = one_line(program_.function->instructions[v.op].text);
  Fault fault(FaultKind::cluster_exit,
              "block " + number(block.index) + " ends here while nothing orders '" + what +
                  "' (line " + number(program_.ops[v.op].line) + ") by thread " + number(v.thread) +
                  " of block " + number(v.block) +
                  " before, which accesses its shared memory at byte " + number(v.offset),
              first_lane(exiting));
  OtherAccess other;
  other.block = v.block;
  other.thread = v.thread;
  other.instruction = v.op;
  other.later_is_access = false;
  other.place = shared_place(block.index, v.offset);
  fault.set_other(other);
  throw fault;
}

}  // namespace ringfence::ptx
