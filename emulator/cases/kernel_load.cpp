// The loads of a warp.

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "emulator/cases/kernel_detail.hpp"

namespace ringfence::cases {
namespace {

using machine::Order;
using ptx::each_lane;
using ptx::first_lane;

void take_lanes(const ptx::Request& request, const std::byte* from, std::uint64_t& digest) {
  each_element(request, [&](std::size_t at, std::byte* to, std::uint32_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, from + at, size);
    std::memcpy(to, &value, request.lane_bytes);
    mix(digest, value);
  });
}

}  // namespace

void KernelRun::load_lane(machine::Machine& machine, Warp& warp, ptx::Request& request,
                          std::uint32_t lane, const Target& target, const machine::Access& how,
                          std::uint64_t& digest) {
  const ptx::Access& access = *request.access;
  alignas(16) std::byte buffer[64];
  const std::uint32_t bytes = access.bytes();
  machine.read(warp.agent->lane_thread(lane), place(target), how, {buffer, bytes});
  const std::uint32_t size = size_of(access.type);
  if (size == 4 && request.lane_bytes == 4) {  // most of them
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::uint32_t value;
      std::memcpy(&value, buffer + e * 4, 4);
      std::memcpy(request.elements[e] + lane * 4, &value, 4);
      mix(digest, value);
    }
    return;
  }
  for (std::uint32_t e = 0; e < access.elements; ++e) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer + e * size, size);
    std::memcpy(request.elements[e] + lane * request.lane_bytes, &value, request.lane_bytes);
    mix(digest, value);
  }
}

void KernelRun::seen_of(Warp& warp, const ptx::Request& request, const Target* targets,
                        const machine::Access& how, std::uint32_t lane, bool of_warp) {
  // In the machine's pieces, which a policy may make larger than elements.
  alignas(16) std::byte bytes[64] = {};
  const std::uint32_t width = size_of(request.access->type);
  for (std::uint32_t e = 0; e < request.access->elements; ++e) {
    std::memcpy(bytes + e * width, request.elements[e] + lane * request.lane_bytes,
                std::min(width, request.lane_bytes));
  }
  for (std::uint32_t from = 0; from < request.access->bytes(); from += how.element) {
    Seen seen;
    seen.instruction = request.instruction;
    seen.lane = lane;
    seen.at = place(targets[lane]);
    seen.at.offset += from;
    seen.access = how;
    std::memcpy(&seen.value, bytes + from, how.element);
    seen.wanted = seen.needs = {machine::Compare::ne, seen.value};
    if (request.lookahead != nullptr && request.access->elements == 1) {
      seen.needs = needs_of(request, lane, seen.value, seen.needs);
    }
    note_round(warp, seen);
    if (of_warp) remember(warp, seen);
  }
}

// One load instruction of a warp.
class KernelRun::Load {
 public:
  Load(KernelRun& run, Warp& warp, ptx::Request& request, const Target* targets,
       const machine::Access& written)
      : run_(run),
        warp_(warp),
        agent_(*warp.agent),
        request_(request),
        targets_(targets),
        how_(written),
        lanes_(request.agents.mask),
        weak_(written.order == Order::weak) {
    run_.find_groups(request_, targets_, how_, groups_);
  }

  // Of data, where no wait depends on it: all lanes in one step.
  void move() {
    if (agent_.weak_points()) point();
    how_.fresh = run_.is_fresh(warp_, request_, targets_);
    agent_.act(how_.site, [&](machine::Machine& m) {
      if (!side_by_side(m)) {
        each_lane(lanes_, [&](std::uint32_t lane) {
          machine::Access mine = how_;
          mine.as_one = groups_.at(lane);
          run_.load_lane(m, warp_, request_, lane, targets_[lane], mine, digest_);
          run_.note_still(m, warp_, request_, lane);
        });
      }
      note();
    });
    request_.completed = lanes_;
    if (run_.rounds_[warp_.block].recording) {
      each_lane(lanes_,
                [&](std::uint32_t lane) { run_.seen_of(warp_, request_, targets_, how_, lane); });
    }
  }

  // Any other: what lanes see may lead on, or only to another look.
  void look() {
    if (weak_) how_.fresh = run_.is_fresh(warp_, request_, targets_);
    if (!weak_ || agent_.weak_points()) point();
    looks_ = request_.lookahead != nullptr;
    if (looks_ && run_.goes_round(warp_, in_cycle(request_, targets_))) return;
    single_ = std::popcount(lanes_) <= kMostSingleLanes && !groups_.lines;
    size_ = how_.element;
    width_ = size_of(request_.access->type);
    joined_ = size_ > width_;
    elements_ = joined_ ? request_.access->bytes() / size_ : request_.access->elements;
    const bool scalar = request_.access->elements == 1;
    // A look of its own would see what its lane reads apart from what the others do.
    once_ = looks_ && !weak_ && scalar && !groups_.any && agent_.drops_looks();
    tries_ = looks_ && !once_ &&
             ((single_ && scalar && !weak_) || run_.was_here(warp_, in_cycle(request_, targets_)));
    together_ = groups_.any && !agent_.drops_looks();
    if (single_ && !weak_) {
      const std::uint32_t first = run_.choose_lanes(warp_, lanes_);
      return run_.in_turn(warp_, request_, targets_, how_, machine::AccessKind::read, first,
                          [&](machine::Machine& m, std::uint32_t lane) {
                            digest_ = 0;
                            see_changes(m, 1U << lane);
                            one(m, lane);
                            note();
                          });
    }
    agent_.act(how_.site, [&](machine::Machine& m) {
      const bool waits = (warp_.waiting | warp_.armed) != 0 || warp_.unchanged || once_ || tries_;
      if (!waits && side_by_side(m)) {
        request_.completed = lanes_;
        each_lane(lanes_, [&](std::uint32_t lane) { keep(lane); });
        return note();
      }
      see_changes(m, lanes_);
      each_lane(lanes_, [&](std::uint32_t lane) { one(m, lane); });
      note();
    });
  }

 private:
  void point() {
    agent_.point(
        run_.pending(targets_[first_lane(lanes_)], how_, machine::AccessKind::read, request_));
  }
  // Plain bytes of shared memory leave no trace in the digest.
  void note() {
    if (!weak_ || !request_.shared) agent_.note(digest_);
  }

  // What 32 lanes read in a row, if the machine takes that at once.
  bool side_by_side(machine::Machine& m) {
    if (groups_.any || !run_.side_by_side(request_, targets_)) return false;
    run_.moved_.resize(std::max<std::size_t>(run_.moved_.size(), machine::kBlockBytes));
    const machine::Address from[] = {run_.place(targets_[0])};
    if (!m.read_together(agent_.lane_threads(), from, how_,
                         std::span(run_.moved_).first(machine::kBlockBytes))) {
      return false;
    }
    take_lanes(request_, run_.moved_.data(), digest_);
    return true;
  }

  // What is read as one is looked at as one; for an exhaustive search, piece by piece.
  void see_changes(machine::Machine& m, std::uint32_t of) {
    if (!together_) return;
    each_lane(of, [&](std::uint32_t lane) {
      machine::Access mine = how_;
      mine.as_one = groups_.at(lane);
      for (std::uint32_t e = 0; mine.as_one != nullptr && e < elements_; ++e) {
        if (mine.as_one->changed) return;
        const machine::Address at = element(lane, e);
        const schedule::LaneWait* const w = run_.armed_wait(warp_, lane, at, false);
        if (w != nullptr) m.see_change(agent_.lane_thread(lane), at, mine, w->await.wanted);
      }
    });
  }

  void one(machine::Machine& m, std::uint32_t lane) {
    const std::uint32_t bit = 1U << lane;
    if ((warp_.waiting & bit) != 0 &&
        ((warp_.missed & bit) != 0 || !run_.may_go_on(m, warp_, lane))) {
      return;
    }
    std::uint64_t values[ptx::kMostElements] = {};
    if (!read(m, lane, values)) return;
    for (std::uint32_t e = 0; e < elements_; ++e) mix(digest_, values[e]);
    const std::span<const std::uint64_t> pieces(values, elements_);
    std::uint64_t parts[ptx::kMostElements];
    std::span<const std::uint64_t> seen = pieces;
    if (joined_) {
      for (std::uint32_t e = 0; e < request_.access->elements; ++e) parts[e] = part(pieces, e);
      seen = {parts, request_.access->elements};
    }
    if (tries_ && run_.stays(m, warp_, request_, lane, run_.place(targets_[lane]), how_, false,
                             pieces, {}, seen)) {
      return;
    }
    for (std::uint32_t e = 0; e < request_.access->elements; ++e) {
      std::memcpy(request_.elements[e] + lane * request_.lane_bytes, &seen[e], request_.lane_bytes);
    }
    warp_.waiting &= ~bit;
    request_.completed |= bit;
    if (weak_) run_.note_still(m, warp_, request_, lane);
    keep(lane);
  }

  // In the machine's pieces. False: there is nothing to see yet, and the lane waits.
  bool read(machine::Machine& m, std::uint32_t lane, std::uint64_t* values) {
    const std::uint32_t bit = 1U << lane;
    const machine::Address at = run_.place(targets_[lane]);
    if (once_) return run_.look_once(m, warp_, request_, lane, at, how_, values[0]);
    if (((warp_.armed & bit) != 0 || warp_.unchanged) && !together_) {
      return read_changes(m, lane, values);
    }
    machine::Access mine = how_;
    mine.as_one = groups_.at(lane);
    warp_.armed &= ~bit;
    alignas(16) std::byte buffer[64];
    const bool old = !weak_ && agent_.late(at);
    if (old) agent_.read_old(true);
    m.read(agent_.lane_thread(lane), at, mine, {buffer, std::size_t{elements_} * size_});
    if (old) agent_.read_old(false);
    for (std::uint32_t e = 0; e < elements_; ++e) {
      std::memcpy(&values[e], buffer + e * size_, size_);
    }
    return true;
  }

  bool read_changes(machine::Machine& m, std::uint32_t lane, std::uint64_t* values) {
    const std::uint32_t bit = 1U << lane;
    bool changed = false;
    for (std::uint32_t e = 0; e < elements_; ++e) {
      const machine::Address at = element(lane, e);
      if (!run_.read_change(m, warp_, lane, at, how_, reinterpret_cast<std::byte*>(&values[e]))) {
        warp_.waiting |= bit;
        warp_.missed |= bit;
        return false;
      }
      const schedule::LaneWait* const w = run_.armed_wait(warp_, lane, at, false);
      changed = changed || w == nullptr || w->await.wanted.holds(values[e]);
    }
    if (changed) warp_.armed &= ~bit;
    return true;
  }

  machine::Address element(std::uint32_t lane, std::uint32_t e) const {
    machine::Address at = run_.place(targets_[lane]);
    at.offset += std::uint64_t{e} * size_;
    return at;
  }
  // Of joined pieces.
  std::uint64_t part(std::span<const std::uint64_t> pieces, std::uint32_t e) const {
    const std::uint64_t from = pieces[std::size_t{e} * width_ / size_];
    return from >> (8 * (e * width_ % size_)) & ((std::uint64_t{1} << (8 * width_)) - 1);
  }
  void keep(std::uint32_t lane) {
    const bool of_warp = looks_ || single_;
    if (of_warp || run_.rounds_[warp_.block].recording) {
      run_.seen_of(warp_, request_, targets_, how_, lane, of_warp);
    }
  }

  KernelRun& run_;
  Warp& warp_;
  schedule::Agent& agent_;
  ptx::Request& request_;
  const Target* targets_;
  machine::Access how_;
  Groups groups_;
  const std::uint32_t lanes_;
  const bool weak_;
  std::uint64_t digest_ = 0;
  // Of look():
  bool looks_ = false;
  bool single_ = false;    // few lanes: each has a step of its own
  bool once_ = false;      // looks in vain are left out
  bool tries_ = false;     // whether the lane only comes back is tried
  bool together_ = false;  // lanes or elements are looked at as one
  // As the machine has them: by a policy a vector's elements are read in larger pieces (joined).
  bool joined_ = false;
  std::uint32_t size_ = 0, elements_ = 0;
  std::uint32_t width_ = 0;  // of the instruction's elements
};

void KernelRun::load(Warp& warp, ptx::Request& request, const Target* targets,
                     const machine::Access& written) {
  Load load(*this, warp, request, targets, written);
  if (written.order == Order::weak && request.lookahead == nullptr) return load.move();
  load.look();
}

}  // namespace ringfence::cases
