// Writes: where they land, and what every access begins and ends with.

#include <algorithm>
#include <array>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

// Axiom Coherence: where a write of this access may land, with `required` before it and `behind`
// after it: the sets of messages behind it, the least first. `strong` are those that it is ordered
// with in any case, besides these.
std::uint32_t MachineState::placements(const Now& now, const Cell& cell, MessageSet required,
                                       MessageSet behind, MessageSet& strong,
                                       Placements& options) const {
  std::array<const Message*, kMaxMessages> optional{};
  std::size_t n = 0;
  strong = 0;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (((required | behind) & bit(*m)) == 0 && morally_strong(now, *m)) {
      optional[n++] = m;
      strong |= bit(*m);
    }
  }
  // Every subset of the optional ones may come after the write if it is closed upwards and does
  // not pull the write between a read-modify-write and what that read (axiom Atomicity).
  const auto allowed = [&](MessageSet set) {
    set |= behind;
    const MessageSet before = required | downward(cell, strong & ~set);
    if ((before & set) != 0 || outdates_a_read(cell, before, set)) return false;
    // With what coherence puts behind those, by way of this write.
    MessageSet behind_all = set;
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((m->before & set) != 0) behind_all |= bit(*m);
    }
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((behind_all & bit(*m)) == 0 || m->source == nullptr || (before & bit(*m->source)) == 0) {
        continue;
      }
      if ((set & bit(*m)) != 0) return false;
      const Access mine{
          .order = m->order, .scope = m->scope, .element = m->element, .proxy = m->proxy};
      for (const Message* y = cell.newest; y != nullptr; y = y->older) {
        if (y == m || y->initial || (behind_all & m->before & bit(*y)) == 0) continue;
        const Access its{
            .order = y->order, .scope = y->scope, .element = y->element, .proxy = y->proxy};
        if (morally_strong(m->at.thread, mine, y->at.thread, its)) return false;
      }
    }
    return true;
  };
  std::uint32_t count = 0;
  if (allowed(0)) options[count++] = behind;
  if (n <= kAllSubsets) {
    for (std::uint32_t pattern = 1; pattern < (1u << n) && count < options.size(); ++pattern) {
      MessageSet set = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if ((pattern >> i & 1) != 0) set |= bit(*optional[i]);
      }
      if (allowed(set)) options[count++] = set | behind;
    }
  } else {
    MessageSet set = 0;
    for (std::size_t i = 0; i < n && count < options.size(); ++i) {
      set |= bit(*optional[i]);
      if (allowed(set)) options[count++] = set | behind;
    }
  }
  return count;
}

// Which messages coherence puts before a write; those behind it are returned in `after`.
MessageSet MachineState::place(const Now& now, Cell& cell, MessageSet required, MessageSet behind,
                               MessageSet& after) {
  after = behind;
  const bool asked = arbiter_ != nullptr && ask(*now.access);
  const bool pointed = goes_to_coherence_point(*now.access);
  if (pointed && !asked) return cell.ids;
  if (!is_strong(now.access->order) || required == cell.ids) return required;
  Placements options;
  MessageSet strong = 0;
  const std::uint32_t count = placements(now, cell, required, behind, strong, options);
  if (strong == 0) return pointed ? cell.ids : required;
  if (asked) {
    Arbiter::Question q{now.id, now.address, cell.size, now.kind, now.access, &cell, required};
    q.pointed = pointed;
    arbiter_->on_place(q, {options.data(), count});
    if (pointed) return cell.ids;
  }
  if (count > 0) {
    after = options[count > 1 ? chooser_->choose(Choice::coherence, now.id, count) : 0];
  }
  return required | downward(cell, strong & ~after);
}

void MachineState::write_cell(const Now& now, Cell& cell, const std::byte* in) {
  const Past before_it = past(cell, now);
  check_race(now, cell, before_it.known, in);
  check_lost_signal(now, cell, nullptr);
  MessageSet after = 0;
  const MessageSet before = place(now, cell, before_it.required(), 0, after);
  Message& m = add_message(cell, now);
  m.before = before & cell.ids;
  copy_bytes(m.value.data(), in, cell.size);
  if (is_strong(now.access->order)) publish(now, cell, m, nullptr, false);
  insert_message(cell, &m, after);
  tell_message(now, cell, m);
  if (is_strong(now.access->order)) trail_write(now, m);
  prune_readers(now, cell);
  if (listener_ != nullptr) {
    tell(Event::Kind::write, now, cell.size,
         load(in, std::min<std::uint32_t>(now.access->element, cell.size)), 0, nullptr, after != 0);
  }
  wake(cell);
}

// After a weak write that is ordered after a read, a later write need only be ordered after that
// write. Not so after a strong one: whoever observes it comes after it, but not after the read.
void MachineState::drop_readers(const Now& now, Cell& cell) {
  if (is_strong(now.access->order)) return;
  for (Reader** link = &cell.readers; *link != nullptr;) {
    Reader* r = *link;
    if (stands_for(now, *r)) {
      *link = r->next;
      readers_.give(r);
    } else {
      link = &r->next;
    }
  }
}

MachineState::Now MachineState::begin(ThreadId id, Address at, const Access& access,
                                      AccessKind kind) {
  if (access.share == Share::first) ++threads_[id]->time;  // what came before is no part of it
  const Now now = now_at(id, access, at, ++step_, kind);
  if (kind != AccessKind::write) prepare(now);
  return now;
}

void MachineState::report_range(const Now& now, std::uint64_t bytes, bool inside) {
  Finding f;
  f.kind = inside ? FindingKind::misaligned : FindingKind::out_of_bounds;
  f.second = info(now);
  f.second.bytes = static_cast<std::uint32_t>(bytes);
  f.has_second = true;
  report(f);
}

// Own later accesses are not part of what a strong write publishes. (Those at several replicas have
// one time.)
void MachineState::finish_strong_write(const Now& now) {
  const Share share = now.access->share;
  if (share == Share::first || share == Share::inner) return;
  if (is_strong(now.access->order)) ++now.thread->time;
}

void Machine::write(ThreadId id, Address to, const Access& access, std::span<const std::byte> in) {
  Now now = begin(id, to, access, AccessKind::write);
  if (!check_range(now, in.size())) return;
  if (in.size() == access.element && access.element < kLineBytes) {
    Cell& cell = is_strong(access.order) ? place_of(now, false) : one_cell(to, access.element);
    // Where earlier accesses were narrower there are several cells; below all of them are written.
    if (cell.size == access.element) {
      now.mask = all_of(cell);
      write_cell(now, cell, in.data());
      return finish_strong_write(now);
    }
  }
  if (is_strong(access.order)) unite_elements(now, in.size());
  const auto part = [&](std::uint64_t begin, std::uint64_t bytes) {
    for_cells(to.region, to.offset + begin, bytes, access.element, false,
              [&](Cell& cell, std::uint64_t at, std::uint16_t mask) {
                now.address.offset = to.offset + begin + at;
                now.mask = mask;
                if (ask_by_element(access, cell)) return false;
                write_cell(now, cell, in.data() + begin + at);
                return true;
              });
  };
  if (in.size() < kBlockBytes || !may_act_together(*regions_[to.region], access)) {
    part(0, in.size());
  } else {
    by_blocks(to.offset, in.size(), part, [&](std::uint64_t at) {
      return write_whole_block(now, to.offset + at, in.data() + at);
    });
  }
  finish_strong_write(now);
}

}  // namespace ringfence::machine
