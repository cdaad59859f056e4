#include "emulator/ptx/looks.hpp"

#include <algorithm>

#include "emulator/ptx/flow.hpp"

namespace ringfence::ptx {
namespace {

bool is_look_form(MbarrierOp::Form form) {
  return form == MbarrierOp::Form::test_wait || form == MbarrierOp::Form::try_wait;
}

// Whether others, or the thread itself by its own memory, can notice that it was executed. Of an
// atomic its operand and what it finds decide.
bool has_effect(const Program& program, const Op& op, bool local_is_read, bool of_rounds) {
  switch (op.kind) {
    case Kind::alu:
    case Kind::special:
    case Kind::branch:
    case Kind::branch_index:
    case Kind::fence:
    case Kind::exchange:
    case Kind::warp_sync:
    case Kind::active_mask:
    case Kind::print:
    case Kind::sleep:
    case Kind::to_space:
    case Kind::map_address:
    case Kind::nothing:
      return false;
    case Kind::mbarrier:
      return !is_look_form(program.mbarriers[op.detail].form);
    case Kind::barrier:
      return !of_rounds;
    case Kind::memory: {
      const Access& access = program.accesses[op.detail].access;
      if (of_rounds && access.space == Space::shared) return false;
      if (access.operation == Operation::load || access.operation == Operation::atomic)
        return false;
      return access.space != Space::local || local_is_read;
    }
    default:
      return true;
  }
}

// Whether a thread's registers alone, and what it was launched with, decide what an op does.
bool is_private(const Program& program, const Op& op) {
  switch (op.kind) {
    case Kind::alu:
    case Kind::special:
    case Kind::branch:
    case Kind::fence:
    case Kind::to_space:
    case Kind::print:
    case Kind::sleep:
    case Kind::nothing:
      return true;
    case Kind::memory:
      return program.accesses[op.detail].access.space == Space::param &&
             program.accesses[op.detail].access.operation == Operation::load;
    default:
      return false;
  }
}

// Strongly connected components of a graph by ops, without recursion; a component of one op counts
// if it leads to itself.
class Components {
 public:
  Components(std::size_t size, const std::vector<std::vector<std::uint32_t>>& next)
      : next_(next), index_(size), low_(size), on_stack_(size) {}

  template <class F>
  void each(F f) {
    for (std::uint32_t root = 0; root < index_.size(); ++root) {
      if (index_[root] == 0) visit(root, f);
    }
  }

 private:
  template <class F>
  void visit(std::uint32_t root, F& f) {
    std::vector<std::pair<std::uint32_t, std::size_t>> calls = {{root, 0}};
    open(root);
    while (!calls.empty()) {
      const std::uint32_t v = calls.back().first;
      if (calls.back().second < next_[v].size()) {
        const std::uint32_t w = next_[v][calls.back().second++];
        if (index_[w] == 0) {
          open(w);
          calls.emplace_back(w, 0);
        } else if (on_stack_[w] != 0) {
          low_[v] = std::min(low_[v], index_[w]);
        }
        continue;
      }
      calls.pop_back();
      if (!calls.empty()) {
        low_[calls.back().first] = std::min(low_[calls.back().first], low_[v]);
      }
      if (low_[v] != index_[v]) continue;
      std::vector<std::uint32_t> component;
      std::uint32_t w = 0;
      do {
        w = stack_.back();
        stack_.pop_back();
        on_stack_[w] = 0;
        component.push_back(w);
      } while (w != v);
      const bool cycle =
          component.size() > 1 || std::find(next_[v].begin(), next_[v].end(), v) != next_[v].end();
      if (cycle) f(component);
    }
  }

  void open(std::uint32_t v) {
    index_[v] = low_[v] = ++count_;
    stack_.push_back(v);
    on_stack_[v] = 1;
  }

  const std::vector<std::vector<std::uint32_t>>& next_;
  std::vector<std::uint32_t> index_, low_;
  std::vector<std::uint8_t> on_stack_;
  std::vector<std::uint32_t> stack_;
  std::uint32_t count_ = 0;
};

}  // namespace

std::size_t Looks::number(Slot slot) const {
  const std::uint32_t at = slot.offset();
  if (at < first_word_) return at / 256;
  if (at < first_predicate_) return words_from_ + (at - first_word_) / 128;
  return predicates_from_ + (at - first_predicate_) / 4;
}

Looks::Register Looks::place(std::size_t n) const {
  if (n < words_from_) {
    return {static_cast<std::uint32_t>(n * 256), Register::Width::wide};
  }
  if (n < predicates_from_) {
    return {static_cast<std::uint32_t>(first_word_ + (n - words_from_) * 128),
            Register::Width::word};
  }
  return {static_cast<std::uint32_t>(first_predicate_ + (n - predicates_from_) * 4),
          Register::Width::predicate};
}

Looks::Looks(const Program& program, bool of_rounds)
    : of_rounds_(of_rounds),
      first_word_(program.first_word),
      first_predicate_(program.first_predicate) {
  words_from_ = program.first_word / 256;
  predicates_from_ = words_from_ + (program.first_predicate - program.first_word) / 128;
  registers_ = predicates_from_ + (program.end_predicate - program.first_predicate) / 4;
  const std::size_t ops = program.ops.size();
  region_.assign(ops + 1, 0);
  look_.assign(ops + 1, 0);
  effect_.assign(ops + 1, 0);
  by_time_.assign(ops, 0);
  written_.assign(1, Bits(registers_));
  read_.assign(1, Bits(registers_));
  waits_.assign(1, 0);
  find_regions(program);
  loop_ = region_;
  time_outs_.resize(written_.size());
  steady_.assign(written_.size(), 1);
  if (written_.size() == 1) return;

  // What can reach the kernel's end.
  std::vector<std::vector<std::uint32_t>> before(ops + 1);
  std::vector<std::uint32_t> reached = {static_cast<std::uint32_t>(ops)};
  for (std::uint32_t op = 0; op < ops; ++op) {
    for (const std::uint32_t next : next_ops(program, op)) before[next].push_back(op);
    if (program.ops[op].kind == Kind::exit) reached.push_back(op);
  }
  ends_.assign(ops + 1, 0);
  while (!reached.empty()) {
    const std::uint32_t op = reached.back();
    reached.pop_back();
    if (ends_[op] != 0) continue;
    ends_[op] = 1;
    reached.insert(reached.end(), before[op].begin(), before[op].end());
  }

  find_time_outs(program);
  const Flow flow = analyse_flow(program);
  block_of_ = flow.block_of;
  for (const Flow::Block& block : flow.blocks) {
    last_of_.push_back(block.last);
    successors_.push_back(block.successors);
  }
  find_live(program, false, live_in_);
  find_live(program, true, counted_in_);
  find_steady(program);
  if (of_rounds_) return;
  for (std::uint32_t op = 0; op < ops; ++op) {
    if (region_[op] == 0 || program.ops[op].kind != Kind::memory) continue;
    const Access& access = program.accesses[program.ops[op].detail].access;
    if (access.operation != Operation::load && access.operation != Operation::atomic) continue;
    if (access.space == Space::local || access.space == Space::param ||
        access.space == Space::constant || access.non_coherent) {
      continue;
    }
    State there = state(program, op);
    if (access.operation == Operation::load && access.order == Order::weak) {
      bool moves_on = false;
      for (const Register& r : there.counts) {
        moves_on = moves_on || !read_[region_[op]].test(number(Slot::reg(r.offset)));
      }
      if (moves_on) continue;
    }
    states_.push_back(std::move(there));
    tests_.push_back(test_of(program, op));
    look_[op] = static_cast<std::uint32_t>(states_.size());
  }
  find_peeled(program);
}

// The loop of a look that is the same access as this one, where a way without more than a thread's
// own registers and weak loads leads there, past none or several peeled looks; 0: there is none.
std::uint32_t Looks::loop_behind(const Program& program, std::uint32_t from) const {
  constexpr std::size_t kMostOps = 1024;
  const Access& access = program.accesses[program.ops[from].detail].access;
  std::vector<std::uint32_t> seen = {from + 1};
  for (std::size_t i = 0; i < seen.size() && seen.size() < kMostOps; ++i) {
    const std::uint32_t at = seen[i];
    if (at >= program.ops.size()) continue;
    const Op& op = program.ops[at];
    if (look_[at] != 0 && program.accesses[op.detail].access == access) return loop_[at];
    const bool still = op.kind == Kind::memory && is_still(program.accesses[op.detail].access);
    if (!is_private(program, op) && !still) continue;
    for (const std::uint32_t next : next_ops(program, at)) {
      if (std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
    }
  }
  return 0;
}

void Looks::find_peeled(const Program& program) {
  if (states_.empty()) return;
  std::vector<std::uint32_t> left;
  for (std::uint32_t op = static_cast<std::uint32_t>(program.ops.size()); op-- > 0;) {
    if (region_[op] != 0 || program.ops[op].kind != Kind::memory) continue;
    const Access& access = program.accesses[program.ops[op].detail].access;
    const bool strong = access.operation == Operation::atomic ||
                        (access.operation == Operation::load && access.order != Order::weak);
    if (strong && access.space != Space::local && !access.non_coherent) left.push_back(op);
  }
  for (bool found = true; found;) {
    found = false;
    std::erase_if(left, [&](std::uint32_t op) {
      loop_[op] = loop_behind(program, op);
      if (loop_[op] == 0) return false;
      states_.push_back(state(program, op));
      tests_.push_back(test_of(program, op));
      look_[op] = static_cast<std::uint32_t>(states_.size());
      return found = true;
    });
  }
}

void Looks::find_regions(const Program& program) {
  const std::size_t count = program.ops.size();
  bool local_is_read = false, any_back = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Op& op = program.ops[i];
    any_back =
        any_back || (op.kind == Kind::branch && op.detail <= i) || op.kind == Kind::branch_index;
    if (op.kind != Kind::memory) continue;
    const Access& access = program.accesses[op.detail].access;
    local_is_read =
        local_is_read || (access.space == Space::local && access.operation != Operation::store);
  }
  if (!any_back) return;
  std::vector<std::vector<std::uint32_t>> next(count + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (ringfence::ptx::has_effect(program, program.ops[i], local_is_read, of_rounds_)) {
      effect_[i] = 1;
    } else {
      next[i] = next_ops(program, i);
    }
  }
  std::vector<std::vector<std::uint32_t>> regions;
  Components(count + 1, next).each([&](std::vector<std::uint32_t>& ops) {
    std::sort(ops.begin(), ops.end());
    regions.push_back(ops);
  });
  for (const std::vector<std::uint32_t>& ops : regions) {
    const auto region = static_cast<std::uint32_t>(written_.size());
    for (const std::uint32_t op : ops) region_[op] = region;
    written_.emplace_back(registers_);
    read_.emplace_back(registers_);
    waits_.push_back(0);
    find_classes(program, region, ops);
  }
}

// What the registers that a region writes depend on: only on how often it went round and on clocks,
// or on what it reads. And which of its branches no read decides.
void Looks::find_classes(const Program& program, std::uint32_t region,
                         const std::vector<std::uint32_t>& ops) {
  Bits& written = written_[region];
  const std::size_t n = ops.size();
  const auto index = [&](std::uint32_t op) {
    return static_cast<std::size_t>(std::lower_bound(ops.begin(), ops.end(), op) - ops.begin());
  };
  const auto inside = [&](std::uint32_t op) { return region_[op] == region; };
  for (const std::uint32_t op : ops) {
    each_register(program, program.ops[op], [&](const Slot& slot, bool writes) {
      if (writes) written.set(number(slot));
    });
  }
  // Which ops every way round passes, by removing each: for regions of a size that waits have.
  constexpr std::size_t kMostOps = 512;
  std::vector<std::uint8_t> always(n, 0);
  const auto cycles_without = [&](std::uint32_t without) {
    // Kahn's order: what is left over lies on cycles.
    std::vector<std::uint32_t> into(n, 0);
    for (const std::uint32_t op : ops) {
      if (op == without) continue;
      for (const std::uint32_t next : next_ops(program, op)) {
        if (inside(next) && next != without) ++into[index(next)];
      }
    }
    std::vector<std::uint32_t> free;
    std::size_t left = n - 1;
    for (const std::uint32_t op : ops) {
      if (op != without && into[index(op)] == 0) free.push_back(op);
    }
    while (!free.empty()) {
      const std::uint32_t op = free.back();
      free.pop_back();
      --left;
      for (const std::uint32_t next : next_ops(program, op)) {
        if (inside(next) && next != without && --into[index(next)] == 0) free.push_back(next);
      }
    }
    return left != 0;
  };
  // By op: registers that depend on what was read, before it.
  std::vector<Bits> data(n, Bits(registers_));
  bool chooses = false;
  const auto depends = [&](std::uint32_t op, const Bits& in) {
    bool any = false;
    each_register(program, program.ops[op], [&](const Slot& slot, bool writes) {
      any = any || (!writes && in.test(number(slot)));
    });
    return any;
  };
  const auto guard_depends = [&](std::uint32_t op) {
    const Op& o = program.ops[op];
    const Bits& in = data[index(op)];
    return (o.guard && !o.guard.is_constant() && in.test(number(o.guard))) ||
           (o.kind == Kind::branch_index && depends(op, in));
  };
  const auto settle = [&] {
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t op : ops) {
        const Op& o = program.ops[op];
        Bits out = data[index(op)];
        bool taken = false;
        switch (o.kind) {
          case Kind::memory:
          case Kind::exchange:
          case Kind::active_mask:
          case Kind::mbarrier:
          case Kind::barrier:
            taken = true;
            break;
          case Kind::special:
            break;
          default:
            taken = depends(op, out) || (chooses && always[index(op)] == 0);
            break;
        }
        each_register(program, o, [&](const Slot& slot, bool writes) {
          if (!writes) return;
          if (taken) {
            out.set(number(slot));
          } else if (!o.guard) {
            out.clear(number(slot));
          }
        });
        for (const std::uint32_t next : next_ops(program, op)) {
          if (inside(next)) changed = data[index(next)].merge(out) || changed;
        }
      }
    }
  };
  settle();
  for (const std::uint32_t op : ops) {
    const Op& o = program.ops[op];
    if ((o.kind != Kind::branch && o.kind != Kind::branch_index) || !guard_depends(op)) continue;
    std::size_t stays = 0;
    for (const std::uint32_t next : next_ops(program, op)) stays += inside(next) ? 1 : 0;
    chooses = chooses || stays > 1;
  }
  if (chooses) {
    for (std::size_t i = 0; i < n && n <= kMostOps; ++i) {
      always[i] = cycles_without(ops[i]) ? 0 : 1;
    }
    settle();
  }
  for (const Bits& in : data) read_[region].merge(in);
  for (const std::uint32_t op : ops) {
    const Op& o = program.ops[op];
    if (o.kind == Kind::branch && o.guard && !guard_depends(op)) {
      by_time_[op] = 1;
      continue;
    }
    for (const std::uint32_t next : next_ops(program, op)) {
      if (!inside(next)) waits_[region] = 1;
    }
  }
}

// A test of what an iteration does not change decides nothing in time.
void Looks::find_time_outs(const Program& program) {
  for (std::uint32_t op = 0; op < by_time_.size(); ++op) {
    const std::uint32_t region = region_[op];
    if (by_time_[op] == 0 || !written_[region].test(number(program.ops[op].guard))) continue;
    for (const std::uint32_t next : next_ops(program, op)) {
      if (region_[next] == region) continue;
      time_outs_[region].push_back({op, only_traps(next) && waits_[region] != 0});
    }
  }
}

// Where it goes on from an op without more than a pause.
std::vector<std::uint32_t> Looks::steps_from(const Program& program, std::uint32_t op) const {
  std::vector<std::uint32_t> out, todo = {op}, seen;
  while (!todo.empty()) {
    const std::uint32_t at = todo.back();
    todo.pop_back();
    if (std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
    seen.push_back(at);
    const bool pauses =
        at < program.ops.size() && !program.ops[at].guard &&
        (program.ops[at].kind == Kind::sleep || program.ops[at].kind == Kind::print ||
         program.ops[at].kind == Kind::nothing || program.ops[at].kind == Kind::branch);
    if (!pauses) {
      out.push_back(at);
      continue;
    }
    for (const std::uint32_t next : next_ops(program, at)) todo.push_back(next);
  }
  return out;
}

// A branch by attempts or a clock, both ways of which stay in the cycles, has to come to the same.
void Looks::find_steady(const Program& program) {
  for (std::uint32_t op = 0; op < by_time_.size(); ++op) {
    const std::uint32_t region = region_[op];
    if (by_time_[op] == 0 || !written_[region].test(number(program.ops[op].guard))) continue;
    std::vector<std::uint32_t> steps;
    std::size_t ways = 0;
    for (const std::uint32_t next : next_ops(program, op)) {
      if (region_[next] != region) continue;
      ++ways;
      for (const std::uint32_t step : steps_from(program, next)) steps.push_back(step);
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    if (ways > 1 && steps.size() != 1) steady_[region] = 0;
  }
}

bool Looks::decides_by_time(std::uint32_t op) const {
  return region_[op] == 0 || by_time_[op] != 0;
}

// Liveness; `counted`: only of what reaches more than a branch that no read decides, a pause or a
// print.
void Looks::step_back(const Program& program, std::uint32_t index, bool counted, Bits& live) const {
  const Op& op = program.ops[index];
  bool uses = true;
  if (counted) {
    switch (op.kind) {
      case Kind::alu:
      case Kind::alu_watched:
      case Kind::special:
      case Kind::to_space:
      case Kind::map_address:
        uses = false;
        each_register(program, op, [&](const Slot& slot, bool written) {
          uses = uses || (written && live.test(number(slot)));
        });
        break;
      case Kind::branch:
      case Kind::exit:
        uses = !decides_by_time(index);
        break;
      case Kind::sleep:
      case Kind::print:
      case Kind::nothing:
      case Kind::trap:
      case Kind::assert_fail:
        uses = false;
        break;
      default:
        break;
    }
  }
  if (!op.guard) {
    each_register(program, op, [&](const Slot& slot, bool written) {
      if (written) live.clear(number(slot));
    });
  }
  if (!uses) return;
  each_register(program, op, [&](const Slot& slot, bool written) {
    if (!written) live.set(number(slot));
  });
}

void Looks::find_live(const Program& program, bool counted, std::vector<Bits>& live_in) {
  const std::size_t blocks = last_of_.size();
  live_in.assign(blocks, Bits(registers_));
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = blocks; b-- > 0;) {
      Bits live(registers_);
      for (const std::uint32_t next : successors_[b]) live.merge(live_in[next]);
      const std::uint32_t first = b == 0 ? 0 : last_of_[b - 1] + 1;
      for (std::uint32_t op = last_of_[b] + 1; op-- > first;) step_back(program, op, counted, live);
      changed = live_in[b].merge(live) || changed;
    }
  }
}

Looks::State Looks::state(const Program& program, std::uint32_t at) const {
  State out;
  if (at >= program.ops.size() || block_of_.empty()) return out;
  const std::uint32_t block = block_of_[at];
  Bits live(registers_), counted(registers_);
  for (const std::uint32_t next : successors_[block]) {
    live.merge(live_in_[next]);
    counted.merge(counted_in_[next]);
  }
  for (std::uint32_t op = last_of_[block] + 1; op-- > at;) {
    step_back(program, op, false, live);
    step_back(program, op, true, counted);
  }
  const std::uint32_t region = region_[at];
  live.each([&](std::size_t r) {
    if (region == 0 || !written_[region].test(r)) {
      out.stays.push_back(place(r));
    } else if (!counted.test(r) && !read_[region].test(r)) {
      out.times.push_back(place(r));
    } else {
      out.counts.push_back(place(r));
    }
  });
  return out;
}

}  // namespace ringfence::ptx
