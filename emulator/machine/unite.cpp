// Cells of a place that was accessed in smaller pieces, put together for an access that covers all
// of them.

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/machine/not_modelled.hpp"

namespace ringfence::machine {

namespace {

// One cell's messages, oldest first.
struct Piece {
  Cell* cell = nullptr;
  std::uint32_t shift = 0;  // of its first byte, from the place's
  std::vector<Message*> messages;
  std::size_t next = 0;
  MessageSet renamed(MessageSet set, const std::array<MessageSet, kMaxMessages>& names) const {
    MessageSet out = 0;
    for (const Message* m : messages) out |= (set & bit(*m)) != 0 ? names[m->id] : 0;
    return out;
  }
};

bool same_write(const Message& a, const Message& b) {
  if (a.initial || b.initial) return a.initial && b.initial;
  return a.step == b.step && a.at.thread == b.at.thread && a.at.time == b.at.time;
}

std::uint16_t bytes_of(const Piece& p) {
  return static_cast<std::uint16_t>(((1u << p.cell->size) - 1) << p.shift);
}

// Whether each piece that has the write has it next.
bool is_next(const std::vector<Piece>& pieces, const Message& m) {
  return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& p) {
    const auto at = std::find_if(p.messages.begin(), p.messages.end(),
                                 [&](const Message* x) { return same_write(*x, m); });
    return at == p.messages.end() || *at == p.messages[p.next];
  });
}

// The last writes of the pieces have no order: the one that stands for them must be the same in
// each run of a graph, whichever of them came first in the run.
const Message* last_of(const std::vector<Piece>& pieces) {
  const Message* last = nullptr;
  const auto name = [](const Message& m) {
    return std::make_tuple(!m.initial, m.at.thread, m.at.time);
  };
  for (const Piece& p : pieces) {
    const Message* const m = p.messages.back();
    const bool everywhere = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& q) {
      return same_write(*q.messages.back(), *m) ||
             std::none_of(q.messages.begin(), q.messages.end(),
                          [&](const Message* x) { return same_write(*x, *m); });
    });
    if (everywhere && (last == nullptr || name(*last) < name(*m))) last = m;
  }
  return last;
}

// The next of them in an order that agrees with each piece's. Null: there is none.
const Message* next_of(const std::vector<Piece>& pieces, const Message& last) {
  const Message* best = nullptr;
  for (const Piece& p : pieces) {
    if (p.next == p.messages.size() || !is_next(pieces, *p.messages[p.next])) continue;
    const Message* const m = p.messages[p.next];
    if (best == nullptr || same_write(*best, last) ||
        (!same_write(*m, last) && m->step < best->step)) {
      best = m;
    }
  }
  return best;
}

}  // namespace

// Accesses of different sizes are never morally strong (PTX ISA 8.7: complete overlap), so where
// nothing races the access has all earlier writes of the pieces in its past, and so has each later
// access of the whole place that conflicts with one of them. Which state of the place one of
// those may return is then the last alone. The earlier ones are kept, each with the bytes that it
// wrote, for the races that there are and for later accesses of a piece, which get its history
// back.
bool MachineState::unites(const Now& now, const Cell& cell) const {
  MessageSet earlier = 0;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) earlier |= bit(*m);
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    earlier &= ~bit(*m);
    if ((m->before & earlier) != earlier) return false;
    if (!m->initial && !in_past(now, m->at, m->order, m->scope, m->proxy)) return false;
  }
  return true;
}

Cell* MachineState::unite(const Now& now, Address at, std::uint32_t size) {
  Region& region = *regions_[at.region];
  Line* const line = region.lines[at.offset / kLineBytes];
  if (line == nullptr || line->parts == nullptr) return nullptr;
  const auto begin = static_cast<std::uint32_t>(at.offset % kLineBytes);
  std::vector<Piece> pieces;
  for (std::uint32_t o = begin; o < begin + size;) {
    Cell& cell = part_at(region, *line, o);
    if (cell.offset != o || o + cell.size > begin + size || !unites(now, cell)) return nullptr;
    Piece& p = pieces.emplace_back();
    p.cell = &cell;
    p.shift = o - begin;
    for (Message* m = cell.newest; m != nullptr; m = m->older) p.messages.push_back(m);
    std::reverse(p.messages.begin(), p.messages.end());
    o += cell.size;
  }
  const Message* const last = last_of(pieces);
  if (last == nullptr) return nullptr;

  Cell* const whole = size == kLineBytes ? &line->whole
                                         : new_cell(static_cast<std::uint8_t>(begin),
                                                    static_cast<std::uint8_t>(size));
  const auto undone = [&] {
    free_cell_content(*whole);
    if (whole != &line->whole) cells_.give(whole);
    return nullptr;
  };
  // By piece: what its messages are called now, and which of them the place's state has.
  std::vector<std::array<MessageSet, kMaxMessages>> names(pieces.size());
  std::vector<const Message*> state(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) state[i] = pieces[i].messages.front();
  std::vector<std::pair<Message*, const Message*>> made;
  for (;;) {
    const Message* const m = next_of(pieces, *last);
    if (m == nullptr) break;
    if (whole->count == kMaxMessages) return undone();
    Message* const c = copy_message(*m);
    c->id = whole->count;
    c->before = whole->ids;
    c->outlives = 0;
    c->wrote = 0;
    c->uninitialised = false;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      Piece& p = pieces[i];
      if (p.next < p.messages.size() && same_write(*p.messages[p.next], *m)) {
        const Message* const of_piece = p.messages[p.next++];
        names[i][of_piece->id] = bit(*c);
        c->wrote = static_cast<std::uint16_t>(c->wrote | bytes_of(p));
        c->outlives |= p.renamed(of_piece->outlives, names[i]);
        state[i] = of_piece;
        if (of_piece == m && m->source != nullptr) made.emplace_back(c, m->source);
      }
      std::memcpy(c->value.data() + p.shift, state[i]->value.data(), p.cell->size);
      c->uninitialised = c->uninitialised || state[i]->uninitialised;
    }
    insert_message(*whole, c, 0);
  }
  for (const Piece& p : pieces) {
    if (p.next != p.messages.size()) return undone();
  }
  for (const auto& [c, source] : made) {
    for (Message* x = whole->newest; x != nullptr; x = x->older) {
      if (same_write(*x, *source)) c->source = x;
    }
  }
  for (const Piece& p : pieces) take_readers(*whole, *p.cell, p.shift);
  for (const Piece& p : pieces) {
    line->parts->take(p.cell->offset);
    free_cell_content(*p.cell);
    cells_.give(p.cell);
  }
  if (whole != &line->whole) {
    line->parts->put(begin, whole);
  } else {
    parts_.give(line->parts);
    line->parts = nullptr;
  }
  return whole;
}

void MachineState::take_readers(Cell& whole, const Cell& piece, std::uint32_t shift) {
  for (const Reader* r = piece.readers; r != nullptr; r = r->next) {
    const auto mask = static_cast<std::uint16_t>(r->mask << shift);
    Reader* same = whole.readers;
    while (same != nullptr && (same->step != r->step || same->at.thread != r->at.thread)) {
      same = same->next;
    }
    if (same != nullptr) {
      same->mask = static_cast<std::uint16_t>(same->mask | mask);
      continue;
    }
    Reader* const c = readers_.take(*r);
    c->mask = mask;
    c->next = whole.readers;
    whole.readers = c;
  }
  for (const Watcher* w = piece.watchers; w != nullptr; w = w->next) {
    whole.watchers = watchers_.take(whole.watchers, w->who);
  }
}

void MachineState::unite_cut(const Now& now, std::uint64_t bytes) {
  const std::uint32_t size = now.access->element;
  for (std::uint64_t o = now.address.offset; o < now.address.offset + bytes; o += size) {
    const Line* const line = regions_[now.address.region]->lines[o / kLineBytes];
    if (line == nullptr || line->parts == nullptr) {
      o = (o / kLineBytes + 1) * kLineBytes - size;
      continue;
    }
    const Cell* const cell = line->parts->at(o % kLineBytes);
    if (cell != nullptr && cell->size < size) unite(now, {now.address.region, o}, size);
  }
}

Cell& MachineState::place_of_pieces(const Now& now, Cell& first, bool as_one) {
  const Access& access = *now.access;
  if (Cell* const whole = unite(now, now.address, access.element); whole != nullptr) return *whole;
  if (as_one && !access.of_barrier) refuse(now, first);
  return first;
}

void MachineState::tell_races_of_pieces(const Now& now) {
  for_cells(now.address.region, now.address.offset, now.access->element, now.access->element, false,
            [&](const Cell& part, std::uint64_t at, std::uint16_t mask) {
              Now of_part = now;
              of_part.address.offset += at;
              of_part.mask = mask;
              check_race(of_part, part, past(part, of_part).known);
              return true;
            });
}

// A race is why the pieces cannot be put together, and what there is to be told.
void MachineState::refuse(const Now& now, const Cell& cell) {
  const std::size_t before = findings_.size();
  tell_races_of_pieces(now);
  if (findings_.size() > before) return;
  throw NotModelled("an atomic of " + std::to_string(int{now.access->element}) +
                    " bytes, at byte " + std::to_string(now.address.offset) +
                    " of its memory, over accesses of " + std::to_string(int{cell.size}) +
                    " bytes that are not ordered before it is not modelled: use one size for that "
                    "place");
}

}  // namespace ringfence::machine
