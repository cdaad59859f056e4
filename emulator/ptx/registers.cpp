#include "emulator/ptx/registers.hpp"

#include <algorithm>
#include <limits>

#include "emulator/ptx/register_sets.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::uint32_t kUnseen = 0xFFFFFFFF;

// Where a register is live, as one stretch of half-steps: op i reads at 2i and writes at 2i + 1.
struct Interval {
  std::uint64_t from = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t to = 0;
  std::uint32_t reg = 0;
  void cover(std::uint64_t at) {
    from = std::min(from, at);
    to = std::max(to, at);
  }
};

class Allocation {
 public:
  Allocation(Program& program, const Flow& flow, const std::vector<Type>& types)
      : program_(program), flow_(flow), types_(types), dense_(types.size(), kUnseen) {
    for (Op& op : program_.ops) {
      each_register(program_, op, [&](Slot& slot, bool) {
        std::uint32_t& number = dense_[slot.offset()];
        if (number != kUnseen) return;
        number = static_cast<std::uint32_t>(used_.size());
        used_.push_back(slot.offset());
      });
    }
  }

  void run() {
    find_live();
    find_intervals();
    place();
    for (Op& op : program_.ops) {
      each_register(program_, op,
                    [&](Slot& slot, bool) { slot = Slot::reg(place_[dense_[slot.offset()]]); });
    }
  }

 private:
  void find_live() {
    const std::size_t count = flow_.blocks.size();
    live_in_.assign(count, Bits(used_.size()));
    live_out_.assign(count, Bits(used_.size()));
    bool changed = true;
    while (changed) {
      changed = false;
      for (auto it = flow_.order.rbegin(); it != flow_.order.rend(); ++it) {
        const Flow::Block& block = flow_.blocks[*it];
        for (const std::uint32_t next : block.successors) live_out_[*it].merge(live_in_[next]);
        Bits live = live_out_[*it];
        for (std::uint32_t op = block.last + 1; op-- > block.first;) step_back(op, live);
        changed |= live_in_[*it].merge(live);
      }
    }
  }

  void step_back(std::uint32_t index, Bits& live) {
    Op& op = program_.ops[index];
    // A guarded write leaves the old value in some threads: it ends no life.
    each_register(program_, op, [&](Slot& slot, bool written) {
      if (written && !op.guard) live.clear(dense_[slot.offset()]);
    });
    each_register(program_, op, [&](Slot& slot, bool written) {
      if (!written || op.guard) live.set(dense_[slot.offset()]);
    });
  }

  void find_intervals() {
    intervals_.resize(used_.size());
    for (std::uint32_t r = 0; r < used_.size(); ++r) intervals_[r].reg = r;
    for (std::uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      const Flow::Block& block = flow_.blocks[b];
      live_in_[b].each([&](std::size_t r) { intervals_[r].cover(2ULL * block.first); });
      live_out_[b].each([&](std::size_t r) { intervals_[r].cover(2ULL * block.last + 1); });
      for (std::uint32_t i = block.first; i <= block.last; ++i) {
        Op& op = program_.ops[i];
        // Arithmetic works lane by lane, so its result may take an operand's place; other ops may
        // read an operand after they wrote.
        const std::uint64_t read = 2ULL * i + (op.kind == Kind::alu ? 0 : 1);
        each_register(program_, op, [&](Slot& slot, bool written) {
          Interval& interval = intervals_[dense_[slot.offset()]];
          interval.cover(written ? 2ULL * i + 1 : read);
          if (written && op.guard) interval.cover(2ULL * i);
        });
      }
    }
  }

  void place() {
    place_.resize(used_.size());
    std::uint32_t offset = 0;
    offset = place_class(8, 256, offset);
    program_.first_word = offset;
    offset = place_class(4, 128, offset);
    program_.first_predicate = offset;
    offset = place_class(0, 4, offset);
    program_.end_predicate = offset;
    program_.register_bytes = (offset + 63) / 64 * 64;
  }

  static unsigned class_of(Type type) {
    if (type == Type::pred) return 0;
    return size_of(type) == 8 ? 8 : 4;
  }

  std::uint32_t place_class(unsigned which, std::uint32_t bytes, std::uint32_t offset) {
    std::vector<Interval> list;
    for (const Interval& interval : intervals_) {
      if (class_of(types_[used_[interval.reg]]) == which) list.push_back(interval);
    }
    std::sort(list.begin(), list.end(), [](const Interval& a, const Interval& b) {
      return a.from != b.from ? a.from < b.from : a.reg < b.reg;
    });
    // Places by the step at which they fall free; taking the one freed last keeps the file hot.
    std::vector<std::uint64_t> busy_until;
    for (const Interval& interval : list) {
      std::size_t best = busy_until.size();
      for (std::size_t p = 0; p < busy_until.size(); ++p) {
        if (busy_until[p] >= interval.from) continue;
        if (best == busy_until.size() || busy_until[p] > busy_until[best]) best = p;
      }
      if (best == busy_until.size()) busy_until.push_back(0);
      busy_until[best] = interval.to;
      place_[interval.reg] = offset + static_cast<std::uint32_t>(best) * bytes;
    }
    return offset + static_cast<std::uint32_t>(busy_until.size()) * bytes;
  }

  Program& program_;
  const Flow& flow_;
  const std::vector<Type>& types_;
  std::vector<std::uint32_t> dense_;  // register number -> index of those used
  std::vector<std::uint32_t> used_;
  std::vector<Bits> live_in_;
  std::vector<Bits> live_out_;
  std::vector<Interval> intervals_;
  std::vector<std::uint32_t> place_;
};

}  // namespace

void allocate_registers(Program& program, const Flow& flow, const std::vector<Type>& types) {
  Allocation(program, flow, types).run();
}

}  // namespace ringfence::ptx
