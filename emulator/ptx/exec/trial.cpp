// Trials of one iteration of a loop that waits, on a copy of a thread's registers.

#include "emulator/ptx/exec/trial.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// Ops from one look to the next; looks of one iteration.
constexpr unsigned kMostOps = 4096;
constexpr std::size_t kMostLooks = 16;

}  // namespace

bool shows_time(Special special) {
  switch (special) {
    case Special::clock:
    case Special::clock64:
    case Special::clock_hi:
    case Special::globaltimer:
    case Special::globaltimer_lo:
    case Special::globaltimer_hi:
      return true;
    default:
      return false;
  }
}

void extend(std::uint64_t& value, const MemoryOp& memory) {
  if (!memory.sign_extend) return;
  const unsigned shift = 64 - 8 * size_of(memory.access.type);
  value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
  if (memory.register_bytes < 8) value &= (1ULL << (8 * memory.register_bytes)) - 1;
}

Execution::State::LaneTrial::Frame& Execution::State::LaneTrial::frame() const {
  thread_local Frame frame;
  const std::uint32_t bytes = state_->program_.register_bytes;
  if (frame.bytes < bytes || !frame.warp.registers) {
    frame.warp.registers = aligned_bytes(bytes);
    frame.bytes = bytes;
  }
  frame.block.index = block_;
  frame.block.at = at_;
  frame.block.cluster_rank = cluster_rank_;
  frame.warp.block = &frame.block;
  frame.warp.index = warp_;
  frame.warp.live = 1U << lane_;
  for (std::uint32_t i = 0; i < kLanes; ++i) frame.lanes[i] = i == lane_ ? ~0U : 0U;
  return frame;
}

std::uint64_t Execution::State::LaneTrial::get(const Warp& warp, Looks::Register r) const {
  const std::byte* const at = warp.registers.get() + r.offset;
  std::uint64_t value = 0;
  switch (r.width) {
    case Looks::Register::Width::wide:
      std::memcpy(&value, at + std::size_t{lane_} * 8, 8);
      break;
    case Looks::Register::Width::word:
      std::memcpy(&value, at + std::size_t{lane_} * 4, 4);
      break;
    case Looks::Register::Width::predicate:
      std::memcpy(&value, at, 4);
      value = value >> lane_ & 1U;
      break;
  }
  return value;
}

void Execution::State::LaneTrial::put(Warp& warp, Looks::Register r, std::uint64_t value) const {
  std::byte* const at = warp.registers.get() + r.offset;
  switch (r.width) {
    case Looks::Register::Width::wide:
      std::memcpy(at + std::size_t{lane_} * 8, &value, 8);
      break;
    case Looks::Register::Width::word:
      std::memcpy(at + std::size_t{lane_} * 4, &value, 4);
      break;
    case Looks::Register::Width::predicate: {
      std::uint32_t word = 0;
      std::memcpy(&word, at, 4);
      word = (word & ~(1U << lane_)) | static_cast<std::uint32_t>(value & 1U) << lane_;
      std::memcpy(at, &word, 4);
      break;
    }
  }
}

Execution::State::LaneTrial::Values Execution::State::LaneTrial::get(
    const Warp& warp, const std::vector<Looks::Register>& list) const {
  Values out;
  out.reserve(list.size());
  for (const Looks::Register& r : list) out.push_back(get(warp, r));
  return out;
}

void Execution::State::LaneTrial::put(Warp& warp, const std::vector<Looks::Register>& list,
                                      const Values& values) const {
  for (std::size_t i = 0; i < list.size(); ++i) put(warp, list[i], values[i]);
}

Execution::State::LaneTrial::LaneTrial(std::shared_ptr<State> state, const Warp& warp,
                                       std::uint32_t pc, std::uint32_t lane,
                                       std::vector<Still> stills)
    : state_(std::move(state)),
      block_(warp.block->index),
      cluster_rank_(warp.block->cluster_rank),
      warp_(warp.index),
      lane_(lane),
      at_(warp.block->at),
      now_(state_->clock_.now),
      address_(address_at(warp, pc)),
      operands_(operands_at(warp, pc)),
      stills_(std::move(stills)),
      at_look_(stand_at(warp, pc)) {}

// The same trial from another look of its round.
Execution::State::LaneTrial::LaneTrial(const LaneTrial& other, Stand stand) : LaneTrial(other) {
  at_look_ = std::move(stand);
}

Execution::State::LaneTrial::Stand Execution::State::LaneTrial::stand_at(const Warp& warp,
                                                                         std::uint32_t pc) const {
  const Looks::State& there = state_->looks_at(pc);
  return {pc, get(warp, there.counts), get(warp, there.times), get(warp, there.stays)};
}

std::uint64_t Execution::State::LaneTrial::address_at(const Warp& warp, std::uint32_t pc) const {
  const Op& op = state_->program_.ops[pc];
  const MemoryOp& memory = state_->program_.accesses[op.detail];
  const auto delta = static_cast<std::uint64_t>(memory.offset);
  if (memory.wide_address) return state_->longs(warp, op.a)[lane_] + delta;
  return state_->words(warp, op.a)[lane_] + static_cast<std::uint32_t>(delta);
}

// Whether the access there is the look, made again.
bool Execution::State::LaneTrial::same_look(const Warp& warp, std::uint32_t pc) const {
  if (address_at(warp, pc) != address_) return false;
  if (pc == at_look_.pc) return true;
  const Program& program = state_->program_;
  if (!program.looks->is_look(pc)) return false;
  const Op& op = program.ops[pc];
  const Op& look = program.ops[at_look_.pc];
  return program.accesses[op.detail].access == program.accesses[look.detail].access &&
         operands_at(warp, pc) == operands_;
}

std::array<std::uint64_t, 2> Execution::State::LaneTrial::operands_at(const Warp& warp,
                                                                      std::uint32_t pc) const {
  const Op& op = state_->program_.ops[pc];
  const MemoryOp& memory = state_->program_.accesses[op.detail];
  std::array<std::uint64_t, 2> out = {};
  if (memory.access.operation != Operation::atomic) return out;
  const auto value = [&](Slot slot, std::uint64_t& to) {
    if (!slot) return;
    std::memcpy(&to, state_->place(warp, slot) + std::size_t{lane_} * memory.lane_bytes,
                std::min<std::size_t>(memory.lane_bytes, sizeof to));
  };
  value(state_->program_.extra[op.extra + op.extra_written], out[0]);
  value(op.c, out[1]);
  return out;
}

bool Execution::State::LaneTrial::load_parameter(Warp& warp, std::uint32_t pc) const {
  const MemoryOp& memory = state_->program_.accesses[state_->program_.ops[pc].detail];
  const Access& access = memory.access;
  const std::uint64_t at = address_at(warp, pc), size = state_->config_.parameters.size();
  if (access.operation != Operation::load || access.whole || at % access.bytes() != 0 ||
      at > size || size - at < access.bytes()) {
    return false;
  }
  std::uint64_t values[kMostElements] = {};
  const std::uint32_t width = size_of(access.type);
  for (std::uint32_t e = 0; e < access.elements; ++e) {
    std::memcpy(&values[e], state_->config_.parameters.data() + at + e * width, width);
  }
  answer(warp, pc, values);
  return true;
}

// What a weak load returns that the thread makes again (rounds.cpp).
const Still* Execution::State::LaneTrial::still_at(const Warp& warp, std::uint32_t pc) const {
  const Access& access = state_->program_.accesses[state_->program_.ops[pc].detail].access;
  const bool space = access.space == Space::global || access.space == Space::generic;
  if (stills_.empty() || !space || !is_still(access)) return nullptr;
  const std::uint64_t address = address_at(warp, pc);
  const auto at = std::find_if(stills_.begin(), stills_.end(), [&](const Still& s) {
    return s.address == address && s.bytes == access.bytes();
  });
  return at == stills_.end() ? nullptr : &*at;
}

void Execution::State::LaneTrial::answer(Warp& warp, std::uint32_t pc,
                                         std::span<const std::uint64_t> values) const {
  const Program& program = state_->program_;
  const Op& op = program.ops[pc];
  const MemoryOp& memory = program.accesses[op.detail];
  const auto give = [&](Slot slot, std::uint64_t value) {
    extend(value, memory);
    std::byte* const to = state_->place(warp, slot) + std::size_t{lane_} * memory.lane_bytes;
    std::memcpy(to, &value, memory.lane_bytes);
  };
  if (memory.access.operation == Operation::atomic) {
    if (op.d) give(op.d, values[0]);
    return;
  }
  for (std::uint32_t e = 0; e < memory.access.elements; ++e) {
    give(program.extra[op.extra + e], values[e]);
  }
}

// From a look, what it returned being known, to the next access or whatever else is no matter of
// this thread's registers alone. True: it is the same look.
bool Execution::State::LaneTrial::go_round(Frame& frame, std::uint32_t& pc,
                                           std::span<const std::uint64_t> values, std::uint64_t now,
                                           bool& clocks, Marks* marks, bool past_stills) const {
  const Program& program = state_->program_;
  Warp& warp = frame.warp;
  AluContext context;
  context.bank[0] = warp.registers.get();
  context.bank[1] = state_->constants_.get();
  context.lanes = frame.lanes;
  context.mask = 1U << lane_;
  context.whole = false;
  answer(warp, pc, values);
  if (marks != nullptr) marks->begin(program, pc);
  ++pc;
  for (unsigned i = 0; i < kMostOps && pc < program.ops.size(); ++i) {
    const Op& op = program.ops[pc];
    const bool runs =
        !op.guard || ((state_->predicate(warp, op.guard) >> lane_ & 1U) != 0) != op.guard_negated;
    if (marks != nullptr) follow(warp, pc, *marks);
    if (!runs) {
      ++pc;
      continue;
    }
    switch (op.kind) {
      case Kind::alu:
        op.run(context, op);
        break;
      case Kind::branch:
        pc = op.detail;
        continue;
      case Kind::special: {
        const auto which = static_cast<Special>(op.immediate);
        clocks = clocks || shows_time(which);
        const std::uint64_t value = state_->special_value(warp, which, lane_, now);
        if (op.detail == 8) {
          state_->longs(warp, op.d)[lane_] = value;
        } else {
          state_->words(warp, op.d)[lane_] =
              static_cast<std::uint32_t>(value & (op.detail == 2 ? 0xFFFFU : 0xFFFFFFFFU));
        }
        break;
      }
      case Kind::to_space:
        try {
          state_->to_space(warp, op, context.mask);
        } catch (const Fault&) {
          return false;
        }
        break;
      case Kind::fence:  // of a look that only leads to another one
      case Kind::sleep:
      case Kind::print:
      case Kind::nothing:
        break;
      case Kind::memory:
        if (program.accesses[op.detail].access.space == Space::param) {
          if (!load_parameter(warp, pc)) return false;
          break;
        }
        if (same_look(warp, pc)) return true;
        if (const Still* still = past_stills ? still_at(warp, pc) : nullptr; still != nullptr) {
          answer(warp, pc, std::span(&still->value, 1));
          break;
        }
        return false;
      default:
        return false;
    }
    ++pc;
  }
  return false;
}

// Until it stands at a look in a state that it was in there: then the frame is in that state.
std::optional<Execution::State::LaneTrial::Round> Execution::State::LaneTrial::round(
    Frame& frame, std::span<const std::uint64_t> values, bool& clocks) const {
  const Looks& looks = *state_->program_.looks;
  Round out;
  out.looks.push_back(at_look_);
  std::uint32_t pc = at_look_.pc;
  while (out.looks.size() < kMostLooks) {
    if (!go_round(frame, pc, values, now_, clocks)) return {};
    const Values counts = get(frame.warp, looks.of_look(pc).counts);
    const auto seen = std::find_if(out.looks.begin(), out.looks.end(), [&](const Stand& v) {
      return v.pc == pc && v.counts == counts;
    });
    if (seen == out.looks.end()) {
      out.looks.push_back(stand_at(frame.warp, pc));
      continue;
    }
    out.again = static_cast<std::size_t>(seen - out.looks.begin());
    if (out.looks.size() == 1) return out;
    const Stand there = stand_at(frame.warp, pc);
    const auto [known, fresh] = state_->rounds_of_one_look_.try_emplace(key_of(values), false);
    if (fresh) known->second = are_one(frame, out);
    // Where they are not, a thread that comes to one of them is asked about it there.
    if (!known->second) return {};
    load(frame, there);
    return out;
  }
  return {};
}

void Execution::State::LaneTrial::load(Frame& frame, const Stand& stand) const {
  const Looks::State& there = state_->looks_at(stand.pc);
  put(frame.warp, there.counts, stand.counts);
  put(frame.warp, there.stays, stand.stays);
  put(frame.warp, there.times, stand.times);
}

// The last attempt before a time-out: `times` and `now` are moved there.
Trial::End Execution::State::LaneTrial::last_attempt(std::span<const std::uint64_t> values,
                                                     Values& times, std::uint64_t& now) const {
  const Looks& looks = *state_->program_.looks;
  Frame& f = frame();
  bool clocks = false;
  const std::uint32_t look = at_look_.pc;
  Stand stand = at_look_;
  const auto leaves = [&](const Values& from, std::uint64_t at, Values* next) {
    stand.times = from;
    load(f, stand);
    std::uint32_t pc = look;
    clocks = false;
    for (std::size_t i = 0; i < kMostLooks; ++i) {
      if (!go_round(f, pc, values, at, clocks)) {
        const bool traps =
            pc < state_->program_.ops.size() && is_trap(state_->program_.ops[pc].kind);
        return std::optional((traps || looks.only_traps(pc)) && looks.waits(look) ? End::traps
                                                                                  : End::gives_up);
      }
      if (pc == look) break;
    }
    if (next != nullptr) *next = get(f.warp, looks.of_look(look).times);
    return std::optional<End>();
  };
  load(f, stand);
  const auto once = round(f, values, clocks);
  if (!once || once->again != 0) return End::moves_on;
  const Values after = get(f.warp, looks.of_look(look).times);
  if (after == times && !clocks) return End::repeats;
  const auto leaves_later = [&] {
    for (unsigned k = 4; k < 62; ++k) {
      const std::uint64_t later = now + (std::uint64_t{1} << k);
      if (const auto end = leaves(times, later, nullptr)) {
        now = later;
        return end;
      }
    }
    return std::optional<End>();
  };
  if (clocks) {
    if (const auto end = leaves_later()) return *end;
  }
  // A loop may look at the clock in one of many attempts, and the first of these looks starts it.
  unsigned looks_at_clock = 0;
  Values next;
  for (unsigned i = 0; i < kMostAttempts; ++i) {
    if (const auto end = leaves(times, now, &next)) return *end;
    if (clocks && looks_at_clock < kMostLooksAtClock) {
      ++looks_at_clock;
      if (const auto end = leaves_later()) return *end;
    }
    if (next == times) break;
    times = next;
  }
  return End::repeats;
}

std::uint64_t Execution::State::LaneTrial::key_of(std::span<const std::uint64_t> values) const {
  std::uint64_t key = 0x9E3779B97F4A7C15ULL ^ at_look_.pc;
  const auto mix = [&](std::uint64_t v) {
    key = (key ^ v) * 0x9FB21C651E98DF25ULL;
    key ^= key >> 29;
  };
  for (const std::uint64_t v : values) mix(v);
  for (const std::uint64_t v : at_look_.counts) mix(v);
  for (const std::uint64_t v : at_look_.stays) mix(v);
  for (const Still& s : stills_) {
    mix(s.address);
    mix(s.value);
  }
  return key;
}

Trial::End Execution::State::LaneTrial::end(std::span<const std::uint64_t> values) const {
  Frame& f = frame();
  load(f, at_look_);
  bool clocks = false;
  const auto once = round(f, values, clocks);
  if (!once) return End::moves_on;
  if (once->again != 0) {
    // A time-out is taken by a thread that stands in the loop.
    const End there = LaneTrial(*this, once->looks[once->again]).end(values);
    return there == End::gives_up ? End::moves_on : there;
  }
  const Looks& looks = *state_->program_.looks;
  if (!clocks && get(f.warp, looks.of_look(at_look_.pc).times) == at_look_.times) {
    return End::repeats;
  }
  // How it ends does not depend on how many attempts it has made; where, does.
  const std::uint64_t key = key_of(values);
  if (const auto known = state_->ends_of_time_.find(key); known != state_->ends_of_time_.end()) {
    return known->second;
  }
  Values times = at_look_.times;
  std::uint64_t now = now_;
  const End end = last_attempt(values, times, now);
  state_->ends_of_time_.emplace(key, end);
  return end;
}

void Execution::State::LaneTrial::give_up(Warp& warp, std::span<const std::uint64_t> values) const {
  Values times = at_look_.times;
  std::uint64_t now = now_;
  last_attempt(values, times, now);
  put(warp, state_->program_.looks->of_look(at_look_.pc).times, times);
  state_->clock_.now = std::max(state_->clock_.now, now);
}

std::shared_ptr<const Trial> Execution::State::WarpLookahead::trial(
    std::uint32_t lane, std::vector<Still> stills) const {
  return std::make_shared<LaneTrial>(state_.shared_from_this(), warp_, pc_, lane,
                                     std::move(stills));
}

std::optional<LookTest> Execution::State::WarpLookahead::test(std::uint32_t lane) const {
  const std::optional<Looks::Test>& text = state_.program_.looks->test(pc_);
  if (!text) return {};
  const Op& op = state_.program_.ops[text->op];
  const Slot with = text->swapped ? op.a : op.b;
  if (!with) return {};
  LookTest t;
  t.compare = text->compare;
  t.bytes = text->bytes;
  t.is_signed = text->is_signed;
  t.with = text->bytes == 8 ? state_.longs(warp_, with)[lane] : state_.words(warp_, with)[lane];
  if (text->bytes < 4) t.with &= (1ULL << (8 * text->bytes)) - 1;
  return t;
}

void Execution::State::WarpLookahead::give_up(std::uint32_t lane,
                                              std::span<const std::uint64_t> values,
                                              std::vector<Still> stills) {
  LaneTrial(state_.shared_from_this(), warp_, pc_, lane, std::move(stills)).give_up(warp_, values);
}

std::uint64_t Execution::State::WarpLookahead::state(bool attempts) const {
  return state_.state_of(warp_, attempts);
}

const Looks::State& Execution::State::looks_at(std::uint32_t op) {
  if (program_.looks->is_look(op)) return program_.looks->of_look(op);
  const auto known = states_.find(op);
  if (known != states_.end()) return known->second;
  return states_.emplace(op, program_.looks->state(program_, op)).first->second;
}

bool Execution::State::reads_time_in_cycle() {
  if (!reads_time_in_cycle_) {
    reads_time_in_cycle_ = false;
    for (std::uint32_t op = 0; op < program_.ops.size(); ++op) {
      const Op& o = program_.ops[op];
      if (o.kind == Kind::special && program_.looks->is_in_cycle(op) &&
          shows_time(static_cast<Special>(o.immediate))) {
        reads_time_in_cycle_ = true;
      }
    }
  }
  return *reads_time_in_cycle_;
}

// Of a split that stands before an access with a guard, the lanes that do not make it; of any other
// one all.
Split Execution::State::left_out_of(const Warp& warp, const Split& split) const {
  Split out = split;
  const Op& op = program_.ops[split.pc];
  if (op.kind != Kind::memory || !op.guard) return out;
  const std::uint32_t p = predicate(warp, op.guard);
  out.mask &= op.guard_negated ? p : ~p;
  return out;
}

// Whether an op gives the register a new value without a look at the old one.
bool Execution::State::overwrites(const Op& op, Looks::Register r) const {
  bool writes = false, reads = false;
  each_register(program_, op, [&](const Slot& slot, bool written) {
    if (slot.is_constant() || slot.offset() != r.offset) return;
    (written ? writes : reads) = true;
  });
  return writes && !reads;
}

std::uint64_t Execution::State::state_of(const Warp& warp, bool attempts) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
  const auto take = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0x9FB21C651E98DF25ULL;
    hash ^= hash >> 29;
  };
  take(warp.effects);
  // A clock is read anew in each iteration, so no register shows that it goes on.
  if (attempts && reads_time_in_cycle()) take(clock_.now);
  std::vector<const Split*> splits;
  for (const Split& split : warp.splits) splits.push_back(&split);
  std::sort(splits.begin(), splits.end(), [](const Split* a, const Split* b) {
    return first_lane(a->mask) < first_lane(b->mask);
  });
  for (const Split* split : splits) {
    take(std::uint64_t{split->mask} << 32 | split->pc);
    take(static_cast<std::uint64_t>(split->state) << 32 | split->wait);
    if (split->pc >= program_.ops.size()) continue;
    const Looks::State& there = looks_at(split->pc);
    // What the access there overwrites counts in the lanes that its guard leaves out.
    const Split left = left_out_of(warp, *split);
    for (const Looks::Register& r : there.counts) {
      const bool fresh = left.mask != split->mask && overwrites(program_.ops[split->pc], r);
      each_register_of(warp, fresh ? left : *split, std::span(&r, 1), take);
    }
    if (attempts) each_register_of(warp, *split, there.times, take);
  }
  return hash;
}

}  // namespace ringfence::ptx
