// Attempts that a whole warp makes: a loop of several reads, or one that the lanes leave together.
//
// A warp has come back to a look, all that counts being as it was. As long as its reads return what
// they did, each further iteration is the same but for what counts attempts or shows the time. So
// iterations are tried out on a copy of the warp, each read returning what it did last, until one
// of them leaves the loop: that is the last attempt, and the warp may be moved to where it begins.
// The attempts in between are no events: they can be made directly before the last one, or behind
// the first, with what that one read. (Of three or more places there may be values that allow the
// first and the last attempt, and none between them; such an execution is one too many.)

#include <algorithm>
#include <cstring>

#include "emulator/ptx/exec/trial.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// Ops in one iteration of a warp's loop.
constexpr unsigned kMostOps = 1U << 14;
// Attempts that are tried one by one before it is asked whether a counter goes on in equal steps;
// and how many of those.
constexpr unsigned kFewAttempts = 64;
constexpr std::uint64_t kMostJump = std::uint64_t{1} << 62;

}  // namespace

// take(values, size) for each register and lane of what does not count where the splits stand: the
// place of a lane's value; of predicates a word, with the lanes' mask.
template <class F>
void Execution::State::each_attempt(const Warp& warp, bool of_rounds, F take) {
  std::vector<const Split*> splits;
  for (const Split& split : warp.splits) splits.push_back(&split);
  std::sort(splits.begin(), splits.end(), [](const Split* a, const Split* b) {
    return first_lane(a->mask) < first_lane(b->mask);
  });
  for (const Split* split : splits) {
    if (split->pc >= program_.ops.size()) continue;
    const Looks::State& there = of_rounds ? rounds_at(split->pc) : looks_at(split->pc);
    for (const Looks::Register& r : there.times) {
      std::byte* const at = warp.registers.get() + r.offset;
      if (r.width == Looks::Register::Width::predicate) {
        take(at, 4, split->mask);
        continue;
      }
      const unsigned size = r.width == Looks::Register::Width::wide ? 8 : 4;
      each_lane(split->mask, [&](std::uint32_t lane) { take(at + lane * size, size, ~0U); });
    }
  }
}

bool Execution::State::counts_in_cycle(const Warp& warp) {
  if (reads_time_in_cycle()) return true;
  return std::any_of(warp.splits.begin(), warp.splits.end(), [&](const Split& split) {
    return split.pc < program_.ops.size() && !looks_at(split.pc).times.empty();
  });
}

// A copy of a warp, and what it does from a look on.
class Execution::State::Attempts {
 public:
  using Seen = Lookahead::Seen;
  using Values = std::vector<std::uint64_t>;

  Attempts(State& state, const Warp& warp, std::uint32_t look, const Seen& seen, std::uint32_t idle)
      : state_(state),
        program_(state.program_),
        from_(warp),
        look_(look),
        cycles_(program_.looks->cycles_of(look)),
        seen_(seen),
        idle_(idle),
        state_at_look_(state.state_of(warp)) {
    copy_.block = warp.block;
    copy_.index = warp.index;
    copy_.live = warp.live;
    copy_.effects = warp.effects;
    copy_.queued = copy_.tried = true;
    copy_.registers = aligned_bytes(program_.register_bytes);
    const auto here = std::find_if(warp.splits.begin(), warp.splits.end(), [&](const Split& s) {
      return s.pc == look && s.state == SplitState::ready && (s.mask & ~idle) != 0;
    });
    if (here != warp.splits.end()) lanes_ = here->mask;
    // Those that are elsewhere.
    for (const Split& s : warp.splits) {
      if (program_.looks->cycles_of(s.pc) != cycles_) idle_ |= s.mask;
    }
  }

  // `attempts` and `now` become those of the last attempt, where there is one.
  Trial::End find(Values& attempts, std::uint64_t& now) {
    if (cycles_ == 0 || lanes_ == 0) return Trial::End::moves_on;
    unsigned looks_at_clock = 0;
    Values next, step, before;
    for (unsigned i = 0; i < kMostAttempts; ++i) {
      const Back back = round(attempts, now, &next);
      if (back != Back::comes) return end_of(back);
      if (clocks_ && looks_at_clock < kMostLooksAtClock) {
        ++looks_at_clock;
        for (unsigned k = 4; k < 62; ++k) {
          const std::uint64_t later = now + (std::uint64_t{1} << k);
          const Back then = round(attempts, later, nullptr);
          if (then != Back::leaves) continue;
          now = later;
          return end_of(then);
        }
      }
      if (next == attempts) break;
      step = difference(attempts, next);
      if (i == kFewAttempts && step == before && jump(attempts, step, now)) {
        return end_of(Back::leaves);
      }
      before = step;
      attempts.swap(next);
    }
    return Trial::End::repeats;
  }

 private:
  enum class Back : std::uint8_t { comes, leaves, unknown };

  Trial::End end_of(Back back) const {
    if (back != Back::leaves) return Trial::End::moves_on;
    return traps_ && program_.looks->waits(look_) ? Trial::End::traps : Trial::End::gives_up;
  }

  static Values difference(const Values& from, const Values& to) {
    Values out;
    for (std::size_t i = 0; i < from.size(); ++i) out.push_back(to[i] - from[i]);
    return out;
  }
  static Values moved(const Values& from, const Values& step, std::uint64_t times) {
    Values out;
    for (std::size_t i = 0; i < from.size(); ++i) out.push_back(from[i] + step[i] * times);
    return out;
  }

  // To the last attempt, if there is one that many equal steps lead to.
  bool jump(Values& attempts, const Values& step, std::uint64_t now) {
    const auto leaves = [&](std::uint64_t times) {
      return round(moved(attempts, step, times), now, nullptr) == Back::leaves;
    };
    std::uint64_t most = 2;
    while (most < kMostJump && !leaves(most)) most *= 2;
    std::uint64_t least = most / 2;
    if (most == kMostJump || leaves(least)) return false;
    while (most - least > 1) {
      const std::uint64_t middle = least + (most - least) / 2;
      (leaves(middle) ? most : least) = middle;
    }
    // The one before leads there.
    Values next;
    const Values last = moved(attempts, step, most);
    if (round(moved(attempts, step, least), now, &next) != Back::comes) return false;
    round(last, now, nullptr);
    if (next != got_) return false;
    attempts = std::move(next);
    return true;
  }

  // Until it stands at the look as it does, or a lane has left the cycles.
  Back round(const Values& attempts, std::uint64_t now, Values* next) {
    std::memcpy(copy_.registers.get(), from_.registers.get(), program_.register_bytes);
    copy_.splits = from_.splits;
    put(state_, copy_, attempts);
    got_ = get(state_, copy_);
    now_ = now;
    clocks_ = false;
    std::size_t split = 0;
    while (copy_.splits[split].pc != look_ || copy_.splits[split].mask != lanes_) ++split;
    try {
      for (unsigned i = 0; i < kMostOps; ++i) {
        if (!step(split)) return Back::unknown;
        for (const Split& s : copy_.splits) {
          if ((s.mask & ~idle_) == 0 || program_.looks->cycles_of(s.pc) == cycles_) continue;
          traps_ = only_traps(s);
          return Back::leaves;
        }
        split = choose(split);
        if (split == copy_.splits.size()) return Back::unknown;
        if (copy_.splits[split].pc == look_ && copy_.splits[split].mask == lanes_ &&
            state_.state_of(copy_) == state_at_look_) {
          if (next != nullptr) *next = get(state_, copy_);
          return Back::comes;
        }
      }
    } catch (const Fault&) {
      return Back::unknown;
    }
    return Back::unknown;
  }

  // Whether lanes that have left the cycles come to nothing but a trap. What they found may be
  // tested once more on the way.
  bool only_traps(const Split& left) {
    copy_.splits = {left};
    for (unsigned i = 0; i < kMostOps; ++i) {
      const Split& s = copy_.splits[0];
      if (program_.looks->only_traps(s.pc)) return true;
      if (s.pc >= program_.ops.size()) return false;
      const Op& op = program_.ops[s.pc];
      std::uint32_t mask = s.mask;
      if (op.guard) {
        const std::uint32_t p = state_.predicate(copy_, op.guard);
        mask &= op.guard_negated ? ~p : p;
      }
      if (mask != 0 && mask != s.mask) return false;
      if (mask != 0 && is_trap(op.kind)) return true;
      const bool goes_on = mask == 0 || op.kind == Kind::alu || op.kind == Kind::special ||
                           op.kind == Kind::branch || op.kind == Kind::nothing;
      if (!goes_on || !step(0)) return false;
    }
    return false;
  }

  // The split to go on with.
  std::size_t choose(std::size_t split) {
    const bool stays = split < copy_.splits.size() &&
                       copy_.splits[split].state == SplitState::ready && can_go(split);
    if (copy_.splits.size() == 1 && stays) return split;
    if (stays) {
      const std::uint32_t pc = copy_.splits[split].pc;
      if (program_.block_start[pc] == 0) return split;
      const std::size_t best = state_.settle(copy_, split);
      if (best < copy_.splits.size() && can_go(best)) return best;
    }
    const std::size_t best = state_.pick(copy_);
    if (best < copy_.splits.size() && can_go(best)) return best;
    for (std::size_t i = 0; i < copy_.splits.size(); ++i) {
      if (copy_.splits[i].state == SplitState::ready && can_go(i)) return i;
    }
    return copy_.splits.size();
  }

  bool can_go(std::size_t split) const { return (copy_.splits[split].mask & ~idle_) != 0; }

  // The next op of a split. False: what it does is not known.
  bool step(std::size_t split) {
    Split& s = copy_.splits[split];
    const std::uint32_t pc = s.pc;
    if (pc >= program_.ops.size()) return false;
    const Op& op = program_.ops[pc];
    std::uint32_t mask = s.mask;
    if (op.guard) {
      const std::uint32_t p = state_.predicate(copy_, op.guard);
      mask &= op.guard_negated ? ~p : p;
    }
    if (mask == 0) {
      ++s.pc;
      return true;
    }
    switch (op.kind) {
      case Kind::alu: {
        AluContext context;
        context.bank[0] = copy_.registers.get();
        context.bank[1] = state_.constants_.get();
        context.lanes = state_.lanes_;
        context.mask = mask;
        context.whole = mask == copy_.live;
        state_.expand(mask);
        op.run(context, op);
        break;
      }
      case Kind::branch:
        if (mask != s.mask) state_.detach(copy_, split, s.mask & ~mask, pc + 1);
        copy_.splits[split].pc = op.detail;
        return true;
      case Kind::special:
        special(op, mask);
        break;
      case Kind::exchange:
        if (mask != s.mask) state_.detach(copy_, split, s.mask & ~mask, pc + 1);
        state_.exchange(copy_, split, op);
        return true;
      case Kind::warp_sync:
        if (mask != s.mask) state_.detach(copy_, split, s.mask & ~mask, pc + 1);
        state_.warp_sync(copy_, split, op);
        return true;
      case Kind::memory:
        if (!access(op, pc, mask)) return false;
        break;
      case Kind::to_space:
        state_.to_space(copy_, op, mask);
        break;
      case Kind::fence:
      case Kind::sleep:
      case Kind::print:
      case Kind::nothing:
        break;
      default:
        return false;
    }
    ++copy_.splits[split].pc;
    return true;
  }

  void special(const Op& op, std::uint32_t mask) {
    const auto which = static_cast<Special>(op.immediate);
    clocks_ = clocks_ || shows_time(which);
    each_lane(mask, [&](std::uint32_t lane) {
      const std::uint64_t value = state_.special_value(copy_, which, lane, now_);
      if (op.detail == 8) {
        state_.longs(copy_, op.d)[lane] = value;
      } else {
        state_.words(copy_, op.d)[lane] =
            static_cast<std::uint32_t>(value & (op.detail == 2 ? 0xFFFFU : 0xFFFFFFFFU));
      }
    });
  }

  bool access(const Op& op, std::uint32_t pc, std::uint32_t mask) {
    const MemoryOp& memory = program_.accesses[op.detail];
    const Access& access = memory.access;
    const bool atomic = access.operation == Operation::atomic;
    if ((!atomic && access.operation != Operation::load) || access.whole ||
        (atomic && access.elements != 1)) {
      return false;
    }
    std::array<std::uint64_t, kLanes> address;
    state_.addresses(copy_, op.a, memory.offset, memory.wide_address, mask, address);
    const std::uint32_t width = size_of(access.type);
    bool known = true;
    each_lane(mask, [&](std::uint32_t lane) {
      for (std::uint32_t e = 0; e < access.elements && known; ++e) {
        auto value = returned(access, pc, lane, address[lane] + std::uint64_t{e} * width, width);
        known = value.has_value();
        const Slot slot = atomic ? op.d : program_.extra[op.extra + e];
        if (!known || !slot) continue;
        extend(*value, memory);
        std::memcpy(state_.place(copy_, slot) + std::size_t{lane} * memory.lane_bytes, &*value,
                    memory.lane_bytes);
      }
    });
    return known;
  }

  std::optional<std::uint64_t> returned(const Access& access, std::uint32_t pc, std::uint32_t lane,
                                        std::uint64_t address, std::uint32_t bytes) {
    Space space = access.space;
    if (space == Space::generic) {
      space = classify(address);
      address -= window_of(space);
    }
    if (space == Space::param) {
      const std::vector<std::uint8_t>& parameters = state_.config_.parameters;
      if (address > parameters.size() || parameters.size() - address < bytes) return {};
      std::uint64_t value = 0;
      std::memcpy(&value, parameters.data() + address, bytes);
      return value;
    }
    if (space == Space::shared) {
      Block& owner = state_.shared_owner(copy_, shared_offset(address), lane);
      const std::uint64_t offset = address & kOffsetMask;
      if (!state_.is_modelled(owner, offset, bytes)) return plain(owner, offset, bytes);
      address = shared_place(owner.index, offset);
    } else if (space != Space::global && space != Space::constant) {
      return {};
    }
    return seen_(pc, lane, space == Space::shared, address, bytes);
  }

  static std::optional<std::uint64_t> plain(Block& block, std::uint64_t offset,
                                            std::uint32_t bytes) {
    if (offset > block.shared.size() || block.shared.size() - offset < bytes) return {};
    std::uint64_t value = 0;
    std::memcpy(&value, block.shared.at(offset), bytes);
    return value;
  }

 public:
  static Values get(State& state, const Warp& warp, bool of_rounds = false) {
    Values out;
    state.each_attempt(warp, of_rounds,
                       [&](const std::byte* at, unsigned size, std::uint32_t mask) {
                         std::uint64_t value = 0;
                         std::memcpy(&value, at, size);
                         out.push_back(value & (size == 4 ? mask : ~std::uint64_t{0}));
                       });
    return out;
  }

  static void put(State& state, const Warp& warp, std::span<const std::uint64_t> values,
                  bool of_rounds = false) {
    std::size_t i = 0;
    state.each_attempt(warp, of_rounds, [&](std::byte* at, unsigned size, std::uint32_t mask) {
      std::uint64_t value = values[i++];
      if (mask != ~0U) {
        std::uint32_t word = 0;
        std::memcpy(&word, at, 4);
        value = (word & ~mask) | (value & mask);
      }
      std::memcpy(at, &value, size);
    });
  }

 private:
  State& state_;
  const Program& program_;
  const Warp& from_;
  std::uint32_t look_, cycles_;
  const Seen& seen_;
  std::uint32_t idle_;
  std::uint64_t state_at_look_;
  std::uint32_t lanes_ = 0;
  Warp copy_;
  Values got_;  // what only counts, where the iteration began
  std::uint64_t now_ = 0;
  bool clocks_ = false;
  bool traps_ = false;
};

bool Execution::State::WarpLookahead::counts_attempts() const {
  return state_.counts_in_cycle(warp_);
}

// Where a warp's parts stand.
std::uint64_t Execution::State::layout(const Warp& warp) const {
  std::uint64_t sum = 0;
  for (const Split& split : warp.splits) {
    std::uint64_t place = (std::uint64_t{split.pc} << 32 | split.mask) * 0xBF58476D1CE4E5B9ULL;
    sum += (place ^ place >> 31) * 0x94D049BB133111EBULL;
  }
  return sum;
}

std::vector<std::uint64_t> Execution::State::WarpLookahead::attempts() const {
  std::vector<std::uint64_t> out = Attempts::get(state_, warp_);
  out.push_back(state_.layout(warp_));
  return out;
}

void Execution::State::WarpLookahead::set_attempts(std::span<const std::uint64_t> values) {
  const Looks& looks = *state_.program_.looks;
  const bool steady =
      std::all_of(warp_.splits.begin(), warp_.splits.end(), [&](const Split& split) {
        return looks.cycles_of(split.pc) != looks.cycles_of(pc_) || looks.is_steady(split.pc);
      });
  if (steady && values.back() == state_.layout(warp_)) {
    Attempts::put(state_, warp_, values.first(values.size() - 1));
  }
}

std::vector<std::uint64_t> Execution::State::attempts(const Block& block) {
  std::vector<std::uint64_t> out;
  if (program_.rounds == nullptr) return out;
  const Looks& rounds = *program_.rounds;
  std::uint64_t where = 0;
  bool due = false;
  for (const Warp& warp : block.warps) {
    for (const Split& split : warp.splits) {
      if (!rounds.is_in_cycle(split.pc) || !rounds.is_steady(split.pc)) return {};
      for (const Looks::TimeOut& end : rounds.time_outs(split.pc)) {
        if (!end.traps) return {};
        due = true;
      }
    }
  }
  for (const Warp& warp : block.warps) {
    const std::vector<std::uint64_t> more = Attempts::get(*this, warp, true);
    out.insert(out.end(), more.begin(), more.end());
    where = where * 0x9FB21C651E98DF25ULL + layout(warp);
  }
  if (!due) return {};
  out.push_back(where);
  return out;
}

void Execution::State::set_attempts(const Block& block, std::span<const std::uint64_t> values) {
  std::uint64_t where = 0;
  for (const Warp& warp : block.warps) where = where * 0x9FB21C651E98DF25ULL + layout(warp);
  if (values.back() != where) return;
  for (const Warp& warp : block.warps) {
    const std::size_t count = Attempts::get(*this, warp, true).size();
    Attempts::put(*this, warp, values.first(count), true);
    values = values.subspan(count);
  }
}

Trial::End Execution::State::WarpLookahead::rounds_end(const Seen& seen, std::uint32_t idle,
                                                       std::uint64_t key) {
  if (state_.program_.looks->time_outs(pc_).empty()) return Trial::End::repeats;
  key ^= state_.state_of(warp_) * 0x9E3779B97F4A7C15ULL ^ pc_;
  if (const auto known = state_.ends_of_time_.find(key); known != state_.ends_of_time_.end()) {
    return known->second;
  }
  Attempts::Values values = Attempts::get(state_, warp_);
  std::uint64_t now = state_.clock_.now;
  const Trial::End end = Attempts(state_, warp_, pc_, seen, idle).find(values, now);
  state_.ends_of_time_.emplace(key, end);
  return end;
}

void Execution::State::WarpLookahead::give_up_rounds(const Seen& seen, std::uint32_t idle) {
  Attempts::Values values = Attempts::get(state_, warp_);
  std::uint64_t now = state_.clock_.now;
  Attempts(state_, warp_, pc_, seen, idle).find(values, now);
  Attempts::put(state_, warp_, values);
  state_.clock_.now = std::max(state_.clock_.now, now);
}

}  // namespace ringfence::ptx
