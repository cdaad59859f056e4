// What an exhaustive search is told and asked, and load buffering, which only it can foresee.

#include "emulator/machine/arbiter.hpp"

#include <array>
#include <utility>

#include "emulator/machine/bytes.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

bool MachineState::ask_foreseen(const Now& now, const Cell& cell, std::uint64_t& value) const {
  if (!arbiter_->foresees() || cell.size > 8) return false;
  const auto later = arbiter_->foreseen(label_of(Epoch{now.id, now.thread->slot, now.thread->time}),
                                        now.address, cell.size);
  value = later.value_or(0);
  return later.has_value();
}

void MachineState::read_foreseen(const Now& now, const Cell& cell, std::uint64_t value) {
  if (listener_ == nullptr) return;
  tell(now.kind == AccessKind::rmw ? Event::Kind::failed_cas : Event::Kind::read, now, cell.size,
       value, 0, nullptr, false, kForeseen);
}

// A read-modify-write of such a read: a plain write, as far as the run is concerned.
void MachineState::write_foreseen(Now& now, Cell& cell, std::uint64_t old, std::uint64_t value,
                                  bool result) {
  if (listener_ != nullptr) {
    tell(Event::Kind::rmw, now, cell.size, value, old, nullptr, false,
         result ? kForeseen : kForeseen | kReduction);
  }
  now.kind = AccessKind::write;
  std::array<std::byte, kLineBytes> next{};
  store(next.data(), value, cell.size);
  Listener* const listener = std::exchange(listener_, nullptr);
  write_cell(now, cell, next.data());
  listener_ = listener;
}

bool MachineState::ask(const Access& a) const { return arbiter_ != nullptr && arbiter_->counts(a); }

MessageSet MachineState::takes(const Now& now, const Cell& cell, const Past& past) const {
  MessageSet may = cell.ids & ~past.overwritten;
  if (now.kind != AccessKind::rmw) return may;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((may & bit(*m)) != 0 && !rmw_may_take(now, cell, *m, past.required())) may &= ~bit(*m);
  }
  return may;
}

void MachineState::tell_read(const Now& now, const Cell& cell, const Past& past,
                             std::span<Message* const> options, const Wanted* wanted,
                             const std::uint64_t* compare, std::uint64_t operand, bool result) {
  Arbiter::Question q{now.id, now.address, cell.size, now.kind, now.access, &cell, past.known};
  q.may = cell.ids & ~past.overwritten;
  q.takes = takes(now, cell, past);
  q.pointed = goes_to_coherence_point(*now.access);
  q.result = result;
  q.wanted = wanted;
  q.compare = compare;
  q.operand = operand;
  arbiter_->on_read(q, options);
}

void MachineState::tell_arbiter(const Now& now, const Cell& cell, const Message& m) {
  if (!ask(*now.access)) return arbiter_->on_uncounted(now.address, cell.size);
  Arbiter::Question q{now.id, now.address, cell.size, now.kind, now.access, &cell, 0};
  q.pointed = goes_to_coherence_point(*now.access);
  arbiter_->on_message(q, m);
}

void MachineState::tell_blocked(const Now& now, const Cell& cell, const Wanted& wanted,
                                bool by_rmw) {
  Now asking = now;
  asking.kind = by_rmw ? AccessKind::rmw : AccessKind::read;
  const Past before_it = past(cell, asking);
  Arbiter::Question q{now.id,     now.address, cell.size,      asking.kind,
                      now.access, &cell,       before_it.known};
  q.may = cell.ids & ~before_it.overwritten;
  q.takes = takes(asking, cell, before_it);
  q.pointed = goes_to_coherence_point(*now.access);
  q.wanted = &wanted;
  arbiter_->on_blocked(q);
}

}  // namespace ringfence::machine
