// Cells: how lines are made, split, filled, and forgotten.

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

namespace {

template <class Node>
void push(Node*& head, Node* node) {
  node->next = head;
  head = node;
}

// Cells of `size` bytes for a whole line, each to be made when it is accessed.
void lay_out(Parts& parts, std::uint32_t size) {
  static_assert(kLineBytes == 16);
  parts.fresh_size = static_cast<std::uint8_t>(size);
  parts.fresh = size == 1 ? 0xffff : size == 2 ? 0x5555 : size == 4 ? 0x1111 : 0x0101;
}

}  // namespace

Cell* MachineState::new_cell(std::uint8_t offset, std::uint8_t size) {
  Cell* c = cells_.take();
  c->offset = offset;
  c->size = size;
  return c;
}

Line& MachineState::new_line(Region& region, std::uint32_t index, std::uint32_t size) {
  Line*& slot = region.lines[index];
  const std::uint32_t b = index / kBlockLines;
  if (b < region.blocks.size() && region.blocks[b] != nullptr) {
    into_lines(region, *region.blocks[b]);
    return *slot;
  }
  slot = lines_.take();
  slot->index = index;
  region.touched.push_back(index);
  if (size < kLineBytes) {
    region.cut = true;
    slot->parts = parts_.take();
    lay_out(*slot->parts, size);
    return *slot;
  }
  slot->whole.newest = ground_message(region, *slot, 0, kLineBytes);
  slot->whole.count = 1;
  slot->whole.ids = 1;
  return *slot;
}

void Machine::adopt(Address at, std::span<const std::byte> content,
                    std::span<const Earlier> history) {
  release_line(at);  // of a launch that was cut short
  Region& region = *regions_[at.region];
  const auto index = static_cast<std::uint32_t>(at.offset / kLineBytes);
  // Cells that each record covers or leaves alone.
  std::uint32_t size = kLineBytes;
  for (const Earlier& e : history) {
    while (e.offset % size != 0 || e.bytes % size != 0) size /= 2;
  }
  Line& line = new_line(region, index, size);
  for (std::uint32_t o = 0; o < kLineBytes; o += size) {
    Cell& cell = line.parts == nullptr ? line.whole : part_at(region, line, o);
    if (o < content.size()) {
      std::memcpy(cell.newest->value.data(), &content[o],
                  std::min<std::size_t>(size, content.size() - o));
    }
    for (const Earlier& e : history) {
      if (o < e.offset || o >= std::uint32_t{e.offset} + e.bytes) continue;
      const Epoch then{e.thread, threads_[e.thread]->slot, e.time};
      if (!e.write) {
        cell.readers = readers_.take(cell.readers, then, 0u, e.site, all_of(cell), Order::weak,
                                     Scope::sys, e.proxy, static_cast<std::uint8_t>(size));
        continue;
      }
      Message* const m = messages_.take(nullptr, then, 0u, e.site, Order::weak, Scope::sys, e.proxy,
                                        static_cast<std::uint8_t>(size),
                                        static_cast<std::uint8_t>(std::countr_one(cell.ids)));
      m->before = cell.ids;
      m->value = cell.newest->value;
      insert_message(cell, m, 0);
    }
  }
}

void MachineState::release_line(Address at) {
  Region& region = *regions_[at.region];
  const auto index = static_cast<std::uint32_t>(at.offset / kLineBytes);
  if (index / kBlockLines < region.blocks.size() && region.blocks[index / kBlockLines] != nullptr) {
    into_lines(region, *region.blocks[index / kBlockLines]);
  }
  Line*& line = region.lines[index];
  if (line == nullptr) return;
  if (line->parts != nullptr) {
    line->parts->for_each([&](Cell& c) {
      free_cell_content(c);
      cells_.give(&c);
    });
    parts_.give(line->parts);
  } else {
    free_cell_content(line->whole);
  }
  lines_.give(line);
  line = nullptr;
  std::erase(region.touched, index);
}

// The message that stands for the content before all messages.
Message* MachineState::ground_message(const Region& region, const Line& line, std::uint32_t offset,
                                      std::uint32_t size) {
  Message* m = messages_.take();
  m->initial = true;
  m->uninitialised = !region.ground_unset.empty() && region.ground_unset[line.index];
  if (!region.bytes.empty()) {
    std::memcpy(m->value.data(), &region.bytes[std::size_t{line.index} * kLineBytes + offset],
                size);
  }
  return m;
}

Cell& MachineState::find_part(const Region& region, Line& line, std::uint32_t byte) {
  Parts& parts = *line.parts;
  if (parts.fresh != 0) {
    const std::uint32_t first = byte & ~(parts.fresh_size - 1u);
    if ((parts.fresh >> first & 1) != 0) {
      parts.fresh = static_cast<std::uint16_t>(parts.fresh & ~(1u << first));
      Cell* cell = new_cell(static_cast<std::uint8_t>(first), parts.fresh_size);
      cell->newest = ground_message(region, line, first, parts.fresh_size);
      cell->count = 1;
      cell->ids = 1;
      parts.put(first, cell);
      return *cell;
    }
  }
  while (parts.at(byte) == nullptr) --byte;
  return *parts.at(byte);
}

Message* MachineState::copy_message(const Message& m) {
  Message* c = messages_.take();
  c->at = m.at;
  c->step = m.step;
  c->site = m.site;
  c->order = m.order;
  c->scope = m.scope;
  c->proxy = m.proxy;
  c->element = m.element;
  c->wrote = m.wrote;
  c->group = m.group;
  c->id = m.id;
  c->initial = m.initial;
  c->uninitialised = m.uninitialised;
  c->rmw = m.rmw;
  c->source_strong = m.source_strong;
  c->of_set = m.of_set;
  c->consumed = m.consumed;
  c->before = m.before;
  c->outlives = m.outlives;
  c->observed = m.observed;
  c->value = m.value;
  for (const Entry* e = m.entries; e != nullptr; e = e->next) {
    push(c->entries, entries_.take(nullptr, e->at, e->scope, e->view, e->proxy, e->fence));
  }
  for (const Observer* o = m.observers; o != nullptr; o = o->next) {
    push(c->observers, observers_.take(nullptr, o->at, o->order, o->scope, o->proxy));
  }
  return c;
}

void MachineState::free_message(Message* m) {
  while (m->entries != nullptr) {
    Entry* e = m->entries;
    m->entries = e->next;
    entries_.give(e);
  }
  while (m->observers != nullptr) {
    Observer* o = m->observers;
    m->observers = o->next;
    observers_.give(o);
  }
  if (m->values != nullptr) block_values_.give(reinterpret_cast<BlockValues*>(m->values));
  messages_.give(m);
}

void MachineState::free_cell_content(Cell& cell) {
  while (cell.newest != nullptr) {
    Message* m = cell.newest;
    cell.newest = m->older;
    free_message(m);
  }
  while (cell.readers != nullptr) {
    Reader* r = cell.readers;
    cell.readers = r->next;
    readers_.give(r);
  }
  while (cell.watchers != nullptr) {
    Watcher* w = cell.watchers;
    cell.watchers = w->next;
    watchers_.give(w);
  }
  cell.count = 0;
  cell.ids = 0;
}

// Cuts a cell into pieces of `size` bytes that each carry on its history.
void MachineState::split(Region& region, Line& line, Cell& cell, std::uint32_t size) {
  region.cut = true;
  if (line.parts == nullptr) line.parts = parts_.take();
  const std::uint32_t end = cell.offset + cell.size;
  // The usual case: the first access to a line of slots.
  const bool untouched = cell.count == 1 && cell.newest->initial && cell.newest->id == 0 &&
                         cell.readers == nullptr && cell.watchers == nullptr;
  if (untouched && &cell == &line.whole) {
    free_cell_content(cell);
    lay_out(*line.parts, size);
    return;
  }
  for (std::uint32_t o = cell.offset; o < end; o += size) {
    Cell* part = new_cell(static_cast<std::uint8_t>(o), static_cast<std::uint8_t>(size));
    const std::uint32_t shift = o - cell.offset;
    line.parts->put(o, part);
    if (untouched) {
      Message* m = messages_.take();
      m->initial = true;
      m->uninitialised = cell.newest->uninitialised;
      std::memcpy(m->value.data(), cell.newest->value.data() + shift, size);
      part->newest = m;
      part->count = 1;
      part->ids = 1;
      continue;
    }
    const auto bytes = static_cast<std::uint16_t>((1u << size) - 1);
    std::array<Message*, kMaxMessages> by_id{};
    Message** tail = &part->newest;
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      const auto wrote = static_cast<std::uint16_t>((m->wrote >> shift) & bytes);
      if (m->wrote != 0 && wrote == 0) continue;  // of the other pieces
      Message* c = copy_message(*m);
      std::memmove(c->value.data(), m->value.data() + shift, size);
      c->wrote = wrote == bytes ? std::uint16_t{0} : wrote;
      // What it did not write may be of other pieces.
      c->uninitialised = m->uninitialised && (m->initial || m->wrote == 0);
      by_id[c->id] = c;
      part->ids |= bit(*c);
      ++part->count;
      *tail = c;
      tail = &c->older;
    }
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if (by_id[m->id] == nullptr) continue;
      by_id[m->id]->before &= part->ids;
      by_id[m->id]->outlives &= part->ids;
      if (m->source != nullptr) by_id[m->id]->source = by_id[m->source->id];
    }
    for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
      const auto mask = static_cast<std::uint16_t>((r->mask >> shift) & bytes);
      if (mask == 0) continue;
      Reader* c = readers_.take(*r);
      c->mask = mask;
      push(part->readers, c);
    }
    for (const Watcher* w = cell.watchers; w != nullptr; w = w->next) {
      push(part->watchers, watchers_.take(nullptr, w->who));
    }
  }
  free_cell_content(cell);
  if (&cell != &line.whole) cells_.give(&cell);
}

Cell& MachineState::make_cell(Address at, std::uint32_t size) {
  Region& region = *regions_[at.region];
  if (size < kLineBytes) {
    // The usual case: the first access to a slot.
    Line& line = touch(region, static_cast<std::uint32_t>(at.offset / kLineBytes), size);
    if (line.parts != nullptr) {
      const std::uint32_t byte = at.offset % kLineBytes;
      Cell& cell = part_at(region, line, byte);
      if (cell.offset == byte && cell.size == size) return cell;
    }
  }
  Cell* found = nullptr;
  for_cells(at.region, at.offset, size, size, false, [&](Cell& c, std::uint64_t, std::uint16_t) {
    if (found == nullptr) found = &c;
    return true;
  });
  return *found;
}

void MachineState::insert_before(Cell& cell, Message* m, MessageSet after) {
  const MessageSet behind = bit(*m) | m->before;
  for (Message* x = cell.newest; x != nullptr; x = x->older) {
    if ((bit(*x) & after) != 0 || (x->before & after) != 0) x->before |= behind;
  }
  // A stable topological order, oldest first, with the new message as late as it may stand.
  std::array<Message*, kMaxMessages> todo{};
  std::size_t n = 0;
  for (Message* x = cell.newest; x != nullptr; x = x->older) todo[n++] = x;
  std::reverse(todo.begin(), todo.begin() + static_cast<std::ptrdiff_t>(n));
  todo[n++] = m;
  MessageSet placed = 0;
  Message* head = nullptr;
  for (std::size_t done = 0; done < n; ++done) {
    for (std::size_t i = 0; i < n; ++i) {
      Message* x = todo[i];
      if (x == nullptr || (x->before & ~placed & cell.ids) != 0) continue;
      placed |= bit(*x);
      x->older = head;
      head = x;
      todo[i] = nullptr;
      break;
    }
  }
  cell.newest = head;
}

namespace {

void forget(Cell& cell, const Message* gone) {
  for (Message* x = cell.newest; x != nullptr; x = x->older) {
    x->before &= ~bit(*gone);
    x->outlives &= ~bit(*gone);
    if (x->source == gone) x->source = nullptr;
  }
  cell.ids &= ~bit(*gone);
  --cell.count;
}

}  // namespace

// What an arbiter is not told of (weak writes, where a race ends the run) is ordered with all else
// by causality, and with what comes: of those that are not newest none can be returned any more.
// What everybody knows to be overwritten cannot either. Beyond that something is lost.
void MachineState::remove_oldest(Cell& cell) {
  if (arbiter_ != nullptr) {
    Message** weak = nullptr;
    for (Message** m = &cell.newest->older; *m != nullptr; m = &(*m)->older) {
      const Access access{.order = (*m)->order, .scope = (*m)->scope, .proxy = (*m)->proxy};
      if (!(*m)->initial && !arbiter_->counts(access)) weak = m;
    }
    if (weak != nullptr) {
      Message* const gone = *weak;
      *weak = gone->older;
      forget(cell, gone);
      return free_message(gone);
    }
    if (const auto all = known_to_all()) trim(cell, *all);
    if (cell.count < kMaxMessages) return;
  }
  Message** link = &cell.newest;
  while ((*link)->older != nullptr) link = &(*link)->older;
  Message* const gone = *link;
  if (arbiter_ != nullptr) arbiter_->on_forgotten(cell, *gone);
  *link = nullptr;
  forget(cell, gone);
  free_message(gone);
}

// Forgets what no thread can read any more: messages that coherence puts before one that
// everybody knows of, and readers that everybody is ordered after.
void MachineState::trim(Cell& cell, const Clock& all) {
  const auto knows = [&](const Epoch& at, const Run& run) {
    // What is known of single threads says nothing of the others that a run stands for.
    return run.each ? at.time < all.base(at.slot) : all.covers(at);
  };
  MessageSet gone = 0;
  for (Message* m = cell.newest; m != nullptr; m = m->older) {
    if (!m->initial && knows(m->at, m->run)) {
      while (m->observers != nullptr) {
        Observer* o = m->observers;
        m->observers = o->next;
        observers_.give(o);
      }
    }
    if (m->initial || knows(m->at, m->run)) gone |= m->before;
  }
  for (Message** link = &cell.newest; *link != nullptr;) {
    Message* m = *link;
    if ((gone & bit(*m)) == 0) {
      link = &m->older;
      continue;
    }
    *link = m->older;
    forget(cell, m);
    free_message(m);
  }
  for (Reader** link = &cell.readers; *link != nullptr;) {
    Reader* r = *link;
    if (!knows(r->at, r->run)) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    readers_.give(r);
  }
}

void MachineState::keep_initial(Region& region, std::uint32_t first, std::uint32_t count) {
  const bool before = region.ground_changed;
  region.ground_changed = true;
  if (!region.spec.sparse) {
    const std::byte* const bytes = region.bytes.data();
    if (!before) region.initial.assign(bytes, bytes + region.bytes.size());
    return;
  }
  for (std::uint32_t i = first; i < first + count; ++i) {
    if (region.is_changed[i] != 0) continue;
    region.is_changed[i] = 1;
    Region::Changed& c = region.changed.emplace_back();
    c.index = i;
    std::memcpy(c.bytes.data(), &region.bytes[std::size_t{i} * kLineBytes], kLineBytes);
  }
}

// A line of one message that everybody knows of becomes plain bytes again.
bool MachineState::collapse(Region& region, Line& line, const Clock& all) {
  if (region.spec.shared) return false;
  const auto settled = [&](const Cell& c) {
    return c.count == 1 && c.readers == nullptr && c.watchers == nullptr &&
           !c.newest->uninitialised && (c.newest->initial || all.covers(c.newest->at));
  };
  const auto store = [&](const Cell& c) {
    std::memcpy(&region.bytes[std::size_t{line.index} * kLineBytes + c.offset],
                c.newest->value.data(), c.size);
  };
  if (line.parts == nullptr) {
    if (!settled(line.whole)) return false;
    keep_initial(region, line.index, 1);
    store(line.whole);
    free_cell_content(line.whole);
  } else {
    bool all_settled = true;
    line.parts->for_each([&](const Cell& c) { all_settled = all_settled && settled(c); });
    if (!all_settled) return false;
    if (line.parts->fresh != 0 && !region.ground_unset.empty() && region.ground_unset[line.index]) {
      return false;
    }
    keep_initial(region, line.index, 1);
    line.parts->for_each([&](Cell& c) {
      store(c);
      free_cell_content(c);
      cells_.give(&c);
    });
    parts_.give(line.parts);
    line.parts = nullptr;
  }
  if (!region.ground_unset.empty()) region.ground_unset[line.index] = false;
  return true;
}

// What all threads that live have in their past, and all that are still to come. None: nobody is.
std::optional<Clock> MachineState::known_to_all() {
  Clock all;
  bool first = true;
  const Clock* last = nullptr;
  const auto meet = [&](const Clock& c) {
    if (last != nullptr && last->same_as(c)) return;
    last = &c;
    if (first) {
      all = clocks_.make();
      all.join(c);
      first = false;
    } else {
      all.meet(c);
    }
  };
  for (std::size_t i = 0; i < threads_used_; ++i) {
    if (threads_[i]->live) meet(threads_[i]->view.seen);
  }
  for (std::size_t i = 0; i < streams_used_; ++i) {
    const Stream& s = *streams_[i];
    // While threads of the stream live, its next launch knows at least what they know.
    if (!s.closed && s.live_threads == 0) meet(s.in_launch ? s.ending.seen : s.next.seen);
  }
  if (first) return std::nullopt;
  return all;
}

void MachineState::collect() {
  const std::optional<Clock> known = known_to_all();
  if (!known) return;
  const Clock& all = *known;
  for (Region* region : regions_) {
    std::erase_if(region->touched_blocks, [&](std::uint32_t index) {
      Block* const block = region->blocks[index];
      if (block == nullptr) return true;  // lines by now
      trim(block->whole, all);
      return collapse(*region, *block, all);
    });
    std::erase_if(region->touched, [&](std::uint32_t index) {
      Line*& line = region->lines[index];
      if (line->parts == nullptr) {
        trim(line->whole, all);
      } else {
        line->parts->for_each([&](Cell& c) { trim(c, all); });
      }
      if (!collapse(*region, *line, all)) return false;
      lines_.give(line);
      line = nullptr;
      return true;
    });
  }
}

}  // namespace ringfence::machine
