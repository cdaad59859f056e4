// Whether several looks of one wait are as good as one look.
//
// A thread that polls in a loop may come to its access at more than one place: before the loop
// (a compiler peels the first look of a loop that tests at its end; a program tries once before it
// waits), or several times in an iteration (a loop that was unrolled). With K0, K1 .. Kn as the
// looks that it comes to one after the other as long as they are in vain, all of them in vain at
// the values F, the search has the thread wait at K0 until a value ends it, and makes no event of
// a look in vain. That loses nothing if
//
//   (a) they are the same access: instruction, order, scope, address, operands;
//   (b) between them is no effect, and none of them has one where it is in vain;
//   (c) each of them is in vain at the same values;
//   (d) at each other value the thread goes on behind each of them to the same next op that is not
//       its own, with the same in all registers that are read again.
//
// For let an execution have looks in vain at K0 .. Ki-1, then one of Ki that returns a write w of
// another value. Without those looks (and the fences between them), with K0 reading w, it is an
// execution of the same program: by (c) and (d) the thread does the same from there on, and what
// is taken away is reads that nothing is computed from, with the order that they bring. Coherence,
// FenceSC, Atomicity, SC and Causality each ask that some relation has no cycle or that some edge
// is absent, and leaving out events and edges makes none; No Thin Air as well. So nothing that can
// be read gets lost. What the looks in vain acquired is no longer in the past of what follows,
// which can only show more: what a thread need not know it need not have synchronised with. (a) is
// what makes K0 acquire, or release by its write, as Ki would have. Had K0 a stronger order than
// Ki, what follows would know more than behind Ki, and a race or an old value would be lost.
//
// A weak load on the way from a look in vain to the next one is taken away with it, where races are
// findings and the thread has made the same load before K0 (r1), with nothing since by which others
// could know of it: no fence, no strong write, no barrier (its time in the machine is the same),
// and no store of its own.
// Let r2 be the one that is taken away, w a write of another thread to its place.
//
//   - r2 returns what r1 did, or the execution has a race that is found without r2: w comes between
//     the two only if it is not ordered before r1, and it is not ordered after r1 either, as that
//     takes a release of the thread behind r1, and r2 reads w.
//   - A race of w with r2 is one with r1, which is kept. If w preceded r1 in causality order, it
//     would r2. If it followed r1, that would be by a release of the thread behind K0's end, since
//     there is none between r1 and K0, and what is between K0 and its end is taken away: it is
//     behind r2 as well.
//
// So the round goes on by what r1 returned (Still). Behind a value that ends the wait a load may
// return what that value tells of, so there none is taken for known.
//
// (c) and (d) are about every value, of which a run shows a few. They are decided for all: what the
// look returned is followed through the registers. Where nothing depends on it but comparisons with
// values that do not, all values between two neighbours of those act alike, in signed and unsigned
// order, and one of each such range is tried. Where something else depends on it (a mask is tested,
// or a sum that is read again), the looks are taken for different ones.

#include <algorithm>

#include "emulator/ptx/exec/trial.hpp"
#include "emulator/ptx/register_sets.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::size_t kMostValues = 96;

bool has(const std::vector<std::uint32_t>& among, Slot slot) {
  return slot && !slot.is_constant() &&
         std::find(among.begin(), among.end(), slot.offset()) != among.end();
}

}  // namespace

// How a thread goes on behind a look.
struct Execution::State::LaneTrial::Course {
  bool in_vain = false;             // it comes to a look of the same wait
  Stand stand;                      // there, or before the op that is not its own alone
  std::vector<std::uint8_t> marks;  // by register of the stand: 1 a copy, 2 computed
  std::vector<std::uint64_t> tested;
  bool lost = false;

  bool has_marks() const {
    return std::any_of(marks.begin(), marks.end(), [](std::uint8_t m) { return m != 0; });
  }
  bool operator==(const Course& other) const {
    return in_vain == other.in_vain && stand.pc == other.stand.pc &&
           stand.counts == other.stand.counts && stand.times == other.stand.times &&
           stand.stays == other.stand.stays && marks == other.marks;
  }
};

void Execution::State::LaneTrial::Marks::begin(const Program& program, std::uint32_t look) {
  copies.clear();
  computed.clear();
  if (program.ops[look].kind != Kind::memory) return;
  each_register(program, program.ops[look], [&](const Slot& slot, bool written) {
    if (written) copies.push_back(slot.offset());
  });
}

// Before the op at pc runs, if its guard lets it.
void Execution::State::LaneTrial::follow(const Warp& warp, std::uint32_t pc, Marks& marks) const {
  const Program& program = state_->program_;
  const Op& op = program.ops[pc];
  bool copy = false, computed = false;
  each_register(program, op, [&](const Slot& slot, bool written) {
    if (written) return;
    copy = copy || has(marks.copies, slot);
    computed = computed || has(marks.computed, slot);
  });
  marks.lost = marks.lost || has(marks.computed, op.guard);
  const bool parameter =
      op.kind == Kind::memory &&
      (program.accesses[op.detail].access.space == Space::param || still_at(warp, pc) != nullptr);
  if (op.kind != Kind::alu && op.kind != Kind::special && op.kind != Kind::to_space && !parameter) {
    return;
  }
  // An op that its guard leaves out writes nothing, and does so at all values that act alike.
  if (op.guard && ((state_->predicate(warp, op.guard) >> lane_ & 1U) != 0) == op.guard_negated) {
    return;
  }
  std::vector<std::uint32_t>* to = copy || computed ? &marks.computed : nullptr;
  if (copy && !computed && op.kind == Kind::alu) {
    const bool left = has(marks.copies, op.a), right = has(marks.copies, op.b);
    const Instruction& text = program.function->instructions[pc];
    const Slot with = left ? op.b : op.a;
    if (left != right && with && Looks::compares(program, pc)) {
      const unsigned bytes = size_of(type_of(text.modifiers.back()).value_or(Type::b32));
      marks.tested.push_back(bytes == 8 ? state_->longs(warp, with)[lane_]
                                        : state_->words(warp, with)[lane_]);
      to = nullptr;
    } else if (left && !op.b && !op.c && text.opcode == "mov" && text.operands.size() == 2) {
      to = &marks.copies;
    }
  }
  each_register(program, op, [&](const Slot& slot, bool written) {
    if (!written) return;
    std::erase(marks.copies, slot.offset());
    std::erase(marks.computed, slot.offset());
    if (to != nullptr) to->push_back(slot.offset());
  });
}

Execution::State::LaneTrial::Course Execution::State::LaneTrial::course(Frame& frame,
                                                                        const Stand& from,
                                                                        std::uint64_t value) const {
  Marks marks;
  Course out;
  std::uint32_t pc = from.pc;
  for (const bool past_stills : {true, false}) {
    if (out.in_vain || (past_stills && stills_.empty())) continue;
    marks = {};
    load(frame, from);
    pc = from.pc;
    bool clocks = false;
    out.in_vain = go_round(frame, pc, std::span(&value, 1), now_, clocks, &marks, past_stills);
  }
  out.stand = stand_at(frame.warp, pc);
  out.tested = std::move(marks.tested);
  out.lost = marks.lost;
  const Looks::State& there = state_->looks_at(pc);
  for (const auto* list : {&there.counts, &there.times, &there.stays}) {
    for (const Looks::Register& r : *list) {
      const Slot slot = Slot::reg(r.offset);
      const bool computed = has(marks.computed, slot);
      out.lost = out.lost || computed;
      out.marks.push_back(computed ? 2 : has(marks.copies, slot) ? 1 : 0);
    }
  }
  return out;
}

// Not where the look may be made again with nothing done in between: whether such a turn would be
// repeated for ever is asked of the value that it read.
bool Execution::State::LaneTrial::alike(std::uint64_t a, std::uint64_t b) const {
  const Program& program = state_->program_;
  const MemoryOp& look = program.accesses[program.ops[at_look_.pc].detail];
  if (look.access.elements != 1 || look.access.whole || program.rounds != nullptr) return false;
  Frame& f = frame();
  const Course x = course(f, at_look_, a);
  if (x.in_vain || program.looks->is_in_cycle(x.stand.pc) || program.looks->is_look(x.stand.pc)) {
    return false;
  }
  const Course y = course(f, at_look_, b);
  return !y.in_vain && x == y;
}

bool Execution::State::LaneTrial::are_one(Frame& frame, const Round& round) const {
  const Program& program = state_->program_;
  const MemoryOp& look = program.accesses[program.ops[at_look_.pc].detail];
  if (look.access.elements != 1 || look.access.whole) return false;
  const unsigned bits = 8 * size_of(look.access.type);
  const std::uint64_t most = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  std::vector<std::uint64_t> values;
  const auto take = [&](std::uint64_t value) {
    for (const std::uint64_t v : {value - 1, value, value + 1}) {
      if (std::find(values.begin(), values.end(), v & most) == values.end()) {
        values.push_back(v & most);
      }
    }
  };
  take(0);
  take(std::uint64_t{1} << (bits - 1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values.size() > kMostValues) return false;
    std::optional<Course> first;
    for (std::size_t k = 0; k < round.looks.size(); ++k) {
      const Stand& next = round.looks[k + 1 < round.looks.size() ? k + 1 : round.again];
      Course c = course(frame, round.looks[k], values[i]);
      if (c.lost) return false;
      for (const std::uint64_t v : c.tested) take(v);
      if (c.in_vain && (c.has_marks() || c.stand.pc != next.pc || c.stand.counts != next.counts ||
                        c.stand.stays != next.stays)) {
        return false;
      }
      if (first && (first->in_vain != c.in_vain || (!c.in_vain && !(*first == c)))) return false;
      if (!first) first = std::move(c);
    }
  }
  return true;
}

}  // namespace ringfence::ptx
