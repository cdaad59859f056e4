// Loops that do nothing but look at an mbarrier's phase: a look in vain in one of them is a wait.

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"
#include "emulator/ptx/register_sets.hpp"

namespace ringfence::ptx {
namespace {

// A loop that looks at a phase again has fewer instructions than this, and comes to one place with
// other registers fewer times.
constexpr unsigned kMostInLoop = 1024;
constexpr std::ptrdiff_t kMostTimes = 8;
// Of one instruction, what is kept of the registers that it was reached with.
constexpr std::size_t kMostKept = 32;

}  // namespace

// What one lane does with the registers alone, from some instruction on: they are put back in the
// end.
class Execution::State::Alone {
 public:
  using Values = std::vector<std::uint64_t>;

  Alone(State& state, Warp& warp, std::uint32_t lane)
      : state_(state), warp_(warp), lane_(lane), was_expanded_(state.lanes_mask_) {
    const std::byte* const registers = warp.registers.get();
    saved_.assign(registers, registers + state.program_.register_bytes);
    context_.bank[0] = warp.registers.get();
    context_.bank[1] = state.constants_.get();
    context_.lanes = state.lanes_;
    context_.mask = 1U << lane;
    context_.whole = false;
    state.expand(context_.mask);
  }
  ~Alone() {
    rewind();
    state_.expand(was_expanded_);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  void rewind() { std::memcpy(warp_.registers.get(), saved_.data(), saved_.size()); }

  // The mbarrier and phase that a look is at.
  std::pair<std::uint32_t, std::uint32_t> looked_at(const Op& op) const {
    const MbarrierOp& form = state_.program_.mbarriers[op.detail];
    std::array<std::uint64_t, kLanes> at;
    state_.addresses(warp_, op.a, form.offset, form.wide_address, context_.mask, at);
    return {shared_offset(at[lane_]), state_.phase_named(warp_, op, lane_)};
  }

  void answer(const Op& op, bool yes) {
    note(op);
    if (!op.e) return;
    std::uint32_t& flags = *state_.words(warp_, op.e);
    flags = yes ? flags | context_.mask : flags & ~context_.mask;
  }

  // Whether the lane executes the op there, by its guard.
  bool runs(const Op& op) {
    if (!op.guard) return true;
    note(op);
    return ((state_.predicate(warp_, op.guard) >> lane_ & 1U) != 0) != op.guard_negated;
  }

  // Executes the op at `at`, unless it is one that others, or the lane itself, could notice.
  // Clocks and pauses make a loop no other.
  bool step(std::uint32_t& at) {
    const Op& op = state_.program_.ops[at];
    if (runs(op)) {
      note(op);
      if (op.kind == Kind::branch) {
        at = op.detail;
        return true;
      }
      if (op.kind == Kind::alu) {
        op.run(context_, op);
      } else if (op.kind != Kind::nothing && op.kind != Kind::sleep && op.kind != Kind::special) {
        return false;
      }
    }
    ++at;
    return true;
  }

  // Where it comes to, and with which registers, from a look that said yes.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> after(std::uint32_t look) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> trail;
    answer(state_.program_.ops[look], true);
    std::uint32_t at = look + 1;
    for (unsigned i = 0; i < kMostBehind && at < state_.program_.ops.size(); ++i) {
      trail.emplace_back(at, digest());
      if (!step(at)) break;
    }
    return trail;
  }

  // What decides, before an op, how a cycle without effects goes on from there.
  Values counts(std::uint32_t at) const {
    Values out;
    for (const Looks::Register& r : state_.looks_at(at).counts) {
      out.push_back(state_.lane_value(warp_.registers.get(), r, lane_));
    }
    return out;
  }

  // The registers that were of account, as they were before.
  std::vector<std::pair<Looks::Register, std::uint64_t>> touched() const {
    std::vector<std::pair<Looks::Register, std::uint64_t>> out;
    for (const Looks::Register& r : touched_) {
      out.emplace_back(r, state_.lane_value(saved_.data(), r, lane_));
    }
    return out;
  }

 private:
  // Instructions behind a look until what it left in registers is gone.
  static constexpr unsigned kMostBehind = 64;

  void note(const Op& op) {
    const Program& program = state_.program_;
    each_register(program, op, [&](const Slot& slot, bool) {
      using Width = Looks::Register::Width;
      const std::uint32_t at = slot.offset();
      const bool known = std::any_of(touched_.begin(), touched_.end(),
                                     [&](const Looks::Register& r) { return r.offset == at; });
      if (known) return;
      touched_.push_back({at, at < program.first_word        ? Width::wide
                              : at < program.first_predicate ? Width::word
                                                             : Width::predicate});
    });
  }

  std::uint64_t digest() const {
    std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
    for (std::size_t i = 0; i + 4 <= saved_.size(); i += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, warp_.registers.get() + i, 4);
      hash = (hash ^ word) * 0x9FB21C651E98DF25ULL;
      hash ^= hash >> 29;
    }
    return hash;
  }

  State& state_;
  Warp& warp_;
  std::uint32_t lane_;
  std::uint32_t was_expanded_;
  std::vector<std::byte> saved_;
  std::vector<Looks::Register> touched_;
  AluContext context_;
};

std::uint64_t Execution::State::lane_value(const std::byte* registers, Looks::Register r,
                                           std::uint32_t lane) {
  std::uint64_t value = 0;
  if (r.width == Looks::Register::Width::predicate) {
    std::memcpy(&value, registers + r.offset, 4);
    return value >> lane & 1U;
  }
  const std::size_t size = r.width == Looks::Register::Width::wide ? 8 : 4;
  std::memcpy(&value, registers + r.offset + lane * size, size);
  return value;
}

bool Execution::State::counts_attempts(const Warp& warp, std::uint32_t look) const {
  for (const Looks::TimeOut& end : program_.looks->time_outs(look)) {
    if (!end.traps || memory_.takes_time_outs(agents(warp, warp.live))) return true;
  }
  return false;
}

// What one lane does behind the look, its answer being no, until it comes to a look a second time
// with the same in every register that counts, or does something that others, or it itself, could
// notice. Looks at the same phase on the way say no as well: compilers unroll such loops, and take
// their first iteration out. A look that the loop does not come back to, or that it comes back to
// with other registers, is part of it only if its answer leaves nothing: a yes there has to lead to
// where, and with what in the registers, a yes in the loop leads. A loop that attempts or a clock
// may end is none: each of its looks may be in vain.
bool Execution::State::find_repeat(Warp& warp, std::uint32_t pc, Alone& alone) {
  struct Stand {
    std::uint32_t at = 0;
    Alone::Values counts;
    bool operator==(const Stand&) const = default;
  };
  const auto place = alone.looked_at(program_.ops[pc]);
  std::vector<Stand> seen;
  std::uint32_t at = pc;
  for (unsigned i = 0; i < kMostInLoop && at < program_.ops.size(); ++i) {
    const Op& op = program_.ops[at];
    if (op.kind != Kind::mbarrier || !alone.runs(op)) {
      if (!alone.step(at)) return false;
      continue;
    }
    if (!looks_at_phase(program_.mbarriers[op.detail].form) || alone.looked_at(op) != place) {
      return false;
    }
    Stand here{at, alone.counts(at)};
    const auto before = std::find(seen.begin(), seen.end(), here);
    if (before != seen.end()) {
      if (counts_attempts(warp, at)) return false;
      if (before == seen.begin()) return true;
      const auto in_loop = alone.after(at);
      alone.rewind();
      const auto outside = alone.after(pc);
      return std::any_of(outside.begin(), outside.end(), [&](const auto& point) {
        return std::find(in_loop.begin(), in_loop.end(), point) != in_loop.end();
      });
    }
    const auto times =
        std::count_if(seen.begin(), seen.end(), [&](const Stand& s) { return s.at == at; });
    if (times == kMostTimes) return false;
    seen.push_back(std::move(here));
    alone.answer(op, false);
    ++at;
  }
  return false;
}

bool Execution::State::repeats_look(Warp& warp, std::uint32_t pc, std::uint32_t lane) {
  std::vector<LookRepeats>& kept = look_repeats_[pc];
  for (const LookRepeats& k : kept) {
    const bool same = std::all_of(k.with.begin(), k.with.end(), [&](const auto& r) {
      return lane_value(warp.registers.get(), r.first, lane) == r.second;
    });
    if (same) return k.repeats;
  }
  Alone alone(*this, warp, lane);
  const bool repeats = find_repeat(warp, pc, alone);
  if (kept.size() == kMostKept) kept.clear();
  kept.push_back({alone.touched(), repeats});
  return repeats;
}

}  // namespace ringfence::ptx
