// Read-modify-writes.

#include <array>
#include <cstring>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

namespace {

// A read-modify-write that only reads: the acquire part of its order.
Access reading(const Access& a) {
  Access as_read = a;
  if (a.order == Order::release) as_read.order = Order::relaxed;
  if (a.order == Order::acq_rel) as_read.order = Order::acquire;
  return as_read;
}

// The write of a read-modify-write follows what its read acquires: earlier readers of the cell are
// looked at once it has (finish_rmw), and kept from the check before.
class UntilAcquired {
 public:
  UntilAcquired(Cell& cell, Order order) : cell_(cell), readers_(cell.readers) {
    if (acquires(order)) cell.readers = nullptr;
  }
  void put_back() const { cell_.readers = readers_; }

 private:
  Cell& cell_;
  Reader* readers_;
};

}  // namespace

// Axiom Atomicity: nothing morally strong may lie between `m` and a read-modify-write that reads
// it: there is a place for the write with all that is morally strong and behind `m` behind it. So
// there is none where another one has taken `m` and coherence orders both behind it, nor where some
// of that must precede the write.
bool MachineState::rmw_may_take_of(const Now& now, const Cell& cell, const Message& m,
                                   MessageSet required) const {
  if (&m == cell.newest) return true;
  MessageSet after = 0;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if ((x->before & bit(m)) != 0 && morally_strong(now, *x)) after |= bit(*x);
  }
  if (after == 0) return true;
  if (morally_strong(now, m)) required |= bit(m) | m.before;
  Placements options;
  MessageSet strong = 0;
  return placements(now, cell, required, after, strong, options) > 0;
}

Message* MachineState::insert_rmw(const Now& now, Cell& cell, Message& source, const Past& past,
                                  const std::byte* value, bool* observed_it) {
  const bool strong_link = morally_strong(now, source);
  const bool pointed = goes_to_coherence_point(*now.access);
  // Coherence orders the write after what it read only if the two are morally strong.
  MessageSet required = past.required();
  if (strong_link) required |= bit(source) | source.before;
  // Whatever is morally strong and behind the source must come behind the write as well; of the
  // rest, what the source does not order may come on either side.
  MessageSet after = 0, free = 0;
  if (required != cell.ids && (!pointed || (arbiter_ != nullptr && ask(*now.access)))) {
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((required & bit(*m)) != 0 || m == &source || !morally_strong(now, *m)) continue;
      ((m->before & bit(source)) != 0 ? after : free) |= bit(*m);
    }
  }
  MessageSet before = pointed ? cell.ids : required;
  if (free != 0) before = place(now, cell, required, after, after);
  check_lost_signal(now, cell, &source);
  const bool set = arbiter_ != nullptr && arbiter_->as_set(now.address);
  const bool of_barrier = now.access->of_barrier;
  if (!set && !of_barrier) *observed_it = observe(now, source);
  Message& m = add_message(cell, now);
  if (pointed) after = 0;
  m.before = before & cell.ids & ~after;
  m.rmw = true;
  m.source = &source;
  m.source_strong = strong_link;
  m.of_set = set && !of_barrier;
  source.outlives |= past.known & ~bit(source);
  std::memcpy(m.value.data(), value, kLineBytes);
  if (!of_barrier) publish(now, cell, m, &source, strong_link);
  if (set && !source.initial && !of_barrier) {
    m.observed.join(source.observed);
    m.observed.join_thread(source.at.thread, source.at.slot,
                           source.at.time + (source.shared ? 0 : 1));
  }
  insert_message(cell, &m, after);
  tell_message(now, cell, m);
  if (!of_barrier) {
    trail_read(now, source);
    trail_write(now, m);
  }
  source.consumed = true;
  prune_readers(now, cell);
  wake(cell);
  return &m;
}

Message* MachineState::choose_rmw_source(const Now& now, Cell& cell, const Past& past,
                                         const std::uint64_t* compare, std::uint64_t operand,
                                         bool result) {
  const bool asked = arbiter_ != nullptr && ask(*now.access);
  const bool pointed = goes_to_coherence_point(*now.access);
  if (pointed && !asked) return cell.newest;
  const MessageSet required = past.required();
  const MessageSet may = cell.ids & ~past.overwritten;
  std::array<Message*, kMaxMessages> options{};
  std::uint32_t n = 0;
  for (Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((may & bit(*m)) == 0) continue;
    const bool writes = compare == nullptr || load(m->value.data(), cell.size) == *compare;
    if (!writes || rmw_may_take(now, cell, *m, required)) options[n++] = m;
  }
  if (asked) tell_read(now, cell, past, {options.data(), n}, nullptr, compare, operand, result);
  if (n == 0 || pointed) return cell.newest;
  return options[n > 1 ? chooser_->choose(Choice::read, now.id, n) : 0];
}

void Machine::reduce(ThreadId id, Address to, const Access& access,
                     std::span<const std::byte> operand, CombineFunction combine) {
  Now now = begin(id, to, access, AccessKind::rmw);
  if (!check_range(now, operand.size())) return;
  const auto part = [&](std::uint64_t begin, std::uint64_t bytes) {
    reduce_cells(now, {to.region, to.offset + begin}, operand.subspan(begin, bytes), combine);
  };
  if (operand.size() < kBlockBytes || !may_act_together(*regions_[to.region], access)) {
    part(0, operand.size());
  } else {
    by_blocks(to.offset, operand.size(), part, [&](std::uint64_t at) {
      return reduce_whole_block(now, to.offset + at, operand.data() + at, combine);
    });
  }
  finish_strong_write(now);
}

void MachineState::reduce_cells(Now& now, Address to, std::span<const std::byte> operand,
                                CombineFunction combine) {
  const Access& access = *now.access;
  now.address.offset = to.offset;
  unite_elements(now, operand.size());
  for_cells(to.region, to.offset, operand.size(), access.element, false,
            [&](Cell& cell, std::uint64_t at, std::uint16_t mask) {
              now.address.offset = to.offset + at;
              now.mask = mask;
              // Of four bytes: halves (f16x2) that are added one by one are not told from a sum.
              if (access.element == 8 && cell.size < 8 && now.address.offset % 8 == 0 &&
                  !access.of_barrier) {
                refuse(now, cell);  // once, by the first of its parts
              }
              if (ask_by_element(access, cell)) return false;
              if (std::uint64_t later = 0; foresees(now, cell, later)) {
                const std::uint64_t v = combine(later, load(operand.data() + at, access.element));
                write_foreseen(now, cell, later, v, false);
                now.kind = AccessKind::rmw;
                return true;
              }
              const Past before_it = past(cell, now);
              if (!access.of_barrier) check_race(now, cell, before_it.known);
              Message* source = choose_rmw_source(now, cell, before_it, nullptr,
                                                  load(operand.data() + at, access.element), false);
              std::array<std::byte, kLineBytes> next = source->value;
              const std::uint32_t step = std::min<std::uint32_t>(access.element, cell.size);
              for (std::uint32_t o = 0; o < cell.size; o += step) {
                const std::uint64_t v = combine(load(source->value.data() + o, step),
                                                load(operand.data() + at + o, step));
                store(next.data() + o, v, step);
              }
              if (listener_ != nullptr) {
                tell(Event::Kind::rmw, now, cell.size, load(next.data(), step),
                     load(source->value.data(), step), source, source != cell.newest, kReduction);
              }
              bool observed_it = false;  // but it acquires nothing
              insert_rmw(now, cell, *source, before_it, next.data(), &observed_it);
              return true;
            });
}

void Machine::step_of_barrier(ThreadId id, Address at, const Access& access, std::uint64_t value) {
  open_region(at.region);
  std::array<std::byte, kLineBytes> operand{};
  store(operand.data(), value, access.element);
  if (arbiter_ == nullptr) {
    // What is newest is all that anybody can ask for.
    const Now now = begin(id, at, access, AccessKind::rmw);
    Cell& cell = one_cell(at, access.element);
    while (cell.count > 1) remove_oldest(cell);
    Message& m = add_message(cell, now);
    m.before = cell.ids;
    m.rmw = true;
    m.value = operand;
    insert_message(cell, &m, 0);
    return wake(cell);
  }
  reduce(id, at, access, std::span(operand).first(access.element),
         [](std::uint64_t, std::uint64_t fresh) { return fresh; });
}

void Machine::come_first(ThreadId id, Address at, const Access& access) {
  if (arbiter_ == nullptr) return;
  open_region(at.region);
  cas(id, at, access, 0, 1);
}

std::uint64_t Machine::rmw(ThreadId id, Address at, const Access& access, std::uint64_t operand,
                           CombineFunction combine) {
  Now now = begin(id, at, access, AccessKind::rmw);
  if (!check_range(now, access.element)) return 0;
  Cell& cell = place_of(now, true);
  if (std::uint64_t later = 0; foresees(now, cell, later)) {
    write_foreseen(now, cell, later, combine(later, operand), true);
    finish_strong_write(now);
    return later;
  }
  const Past before_it = past(cell, now);
  const UntilAcquired readers(cell, access.order);
  check_race(now, cell, before_it.known);
  readers.put_back();
  Message* source = choose_rmw_source(now, cell, before_it, nullptr, operand, true);
  const std::uint64_t old = load(source->value.data(), cell.size);
  finish_rmw(now, cell, *source, before_it, combine(old, operand));
  return old;
}

std::uint64_t Machine::cas(ThreadId id, Address at, const Access& access, std::uint64_t compare,
                           std::uint64_t value) {
  Now now = begin(id, at, access, AccessKind::rmw);
  if (!check_range(now, access.element)) return 0;
  Cell& cell = place_of(now, true);
  if (std::uint64_t later = 0; foresees(now, cell, later)) {
    if (later == compare) {
      write_foreseen(now, cell, later, value, true);
      finish_strong_write(now);
    } else {
      const Access as_read = reading(access);
      now.access = &as_read;
      read_foreseen(now, cell, later);
    }
    return later;
  }
  const Past before_it = past(cell, now);
  Message* source = choose_rmw_source(now, cell, before_it, &compare, value, true);
  const std::uint64_t old = load(source->value.data(), cell.size);
  if (old == compare) {
    const UntilAcquired readers(cell, access.order);
    check_race(now, cell, before_it.known);
    readers.put_back();
    finish_rmw(now, cell, *source, before_it, value);
  } else {
    finish_failed_cas(now, cell, *source, before_it.known);
  }
  return old;
}

void MachineState::finish_rmw(Now& now, Cell& cell, Message& source, const Past& past,
                              std::uint64_t value) {
  std::array<std::byte, kLineBytes> next{};
  store(next.data(), value, cell.size);
  if (listener_ != nullptr) {
    tell(Event::Kind::rmw, now, cell.size, value, load(source.value.data(), cell.size), &source,
         &source != cell.newest);
  }
  bool observed_it = false;
  Message* m = insert_rmw(now, cell, source, past, next.data(), &observed_it);
  if (((past.known & bit(source)) == 0 || by_proxy()) && m->source_strong && !m->of_set) {
    // The read half observed its source.
    const Access& a = *now.access;
    source.observers = observers_.take(source.observers, m->at, a.order, a.scope, a.proxy);
  }
  if (!now.access->of_barrier) take_in(now, source, observed_it);
  // Axiom Causality: what the atomic acquires precedes it, and it is the first operation of its own
  // release pattern. (Of a set, what one acquires of another depends on their order.)
  const bool both = acquires(now.access->order) && releases(now.access->order);
  if (both && (arbiter_ == nullptr || !arbiter_->as_set(now.address))) {
    for (Entry* e = m->entries; e != nullptr; e = e->next) {
      if (!e->fence && e->at.thread == now.id && e->at.time == m->at.time)
        e->view = now.thread->view;
    }
  }
  if (cell.readers != nullptr && acquires(now.access->order)) check_race(now, cell, cell.ids);
  finish_strong_write(now);
}

// A failed compare is a strong read with the acquire part of its order, and writes nothing.
void MachineState::finish_failed_cas(Now& now, Cell& cell, Message& source, MessageSet known_set) {
  const Access as_read = reading(*now.access);
  now.access = &as_read;
  now.kind = AccessKind::read;
  now.mask = all_of(cell);
  check_race(now, cell, known_set);
  if (listener_ != nullptr) {
    tell(Event::Kind::failed_cas, now, cell.size, load(source.value.data(), cell.size), 0, &source,
         &source != cell.newest);
  }
  note_read(now, cell, source, known_set);
  if (now.access->of_barrier) return;
  trail_read(now, source);
  const bool observed_it = observe(now, source);
  take_in(now, source, observed_it);
}

void MachineState::end_by_rmw(Now& now, Cell& cell, Message& source, const Past& past,
                              std::uint64_t value) {
  now.step = ++step_;
  const UntilAcquired readers(cell, now.access->order);
  check_race(now, cell, past.known);
  readers.put_back();
  finish_rmw(now, cell, source, past, value);
}

}  // namespace ringfence::machine
