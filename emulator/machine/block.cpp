// Blocks: 32 lines that are accessed alike are one history, and a warp's access is one step.
//
// Nothing here decides anything by itself. Each access is judged by the functions of causality.cpp,
// read.cpp, write.cpp and race.cpp for the first of its lines, after a proof that they would say
// the same of every line (`alike`): the threads' views are one, and every access in the history is
// by threads of which the views know all or none. Where that is not so, or where the answer is more
// than one message, a finding, or something that changes a thread's view, the block becomes lines
// and each line is judged alone. So results, findings, steps and choices are those of single lines.

#include <array>
#include <bit>
#include <cstring>

#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

namespace {

bool one(MessageSet set) { return set != 0 && (set & (set - 1)) == 0; }

constexpr auto kWholeLine = static_cast<std::uint16_t>((1u << kLineBytes) - 1);

}  // namespace

const std::byte* MachineState::values_of(const Region& region, const Block& block,
                                         const Message& m) const {
  return m.values != nullptr ? m.values : &region.bytes[std::size_t{block.index} * kBlockBytes];
}

// -- blocks and lines -----------------------------------------------------------------------------

// The block there, made of plain bytes if need be; null where lines have histories of their own.
Block* MachineState::block_at(Region& region, std::uint64_t offset) {
  const std::uint64_t index = offset / kBlockBytes;
  if (offset % kBlockBytes != 0 || index >= region.blocks.size()) return nullptr;
  Block*& block = region.blocks[index];
  if (block != nullptr) return block;
  const std::size_t first = index * kBlockLines;
  bool plain = true;
  for (std::size_t i = 0; i < kBlockLines; ++i) plain = plain && region.lines[first + i] == nullptr;
  if (!plain) return nullptr;
  bool unset = false;
  if (!region.ground_unset.empty()) {
    unset = region.ground_unset[first];
    for (std::size_t i = 1; i < kBlockLines; ++i) {
      if (region.ground_unset[first + i] != unset) return nullptr;
    }
  }
  block = blocks_.take();
  block->index = static_cast<std::uint32_t>(index);
  region.touched_blocks.push_back(block->index);
  Message* m = messages_.take();
  m->initial = true;
  m->uninitialised = unset;
  block->whole.newest = m;
  block->whole.count = 1;
  block->whole.ids = 1;
  return block;
}

// Each line carries on the block's history.
void MachineState::into_lines(Region& region, Block& block) {
  region.blocks[block.index] = nullptr;
  for (std::uint32_t i = 0; i < kBlockLines; ++i) {
    Line* line = lines_.take();
    line->index = block.index * kBlockLines + i;
    region.lines[line->index] = line;
    region.touched.push_back(line->index);
    Cell& cell = line->whole;
    cell.count = block.whole.count;
    cell.ids = block.whole.ids;
    std::array<Message*, kMaxMessages> by_id{};
    Message** tail = &cell.newest;
    for (const Message* m = block.whole.newest; m != nullptr; m = m->older) {
      Message* c = messages_.take();
      c->step = m->step + i * m->run.steps;
      c->site = m->site;
      c->order = m->order;
      c->scope = m->scope;
      c->proxy = m->proxy;
      c->element = m->element;
      c->id = m->id;
      c->initial = m->initial;
      c->uninitialised = m->uninitialised;
      c->rmw = m->rmw;
      c->source_strong = m->source_strong;
      c->of_set = m->of_set;
      c->consumed = m->consumed;
      c->before = m->before;
      c->outlives = m->outlives;
      c->observed = m->observed;
      std::memcpy(c->value.data(), values_of(region, block, *m) + std::size_t{i} * kLineBytes,
                  kLineBytes);
      if (!m->initial) {
        c->at = m->at;
        c->at.thread = thread_of(m->at.slot, m->run, i);
      }
      Entry** last = &c->entries;
      for (const Entry* e = m->entries; e != nullptr; e = e->next) {
        // The writer's own, its release and its fences, are each line's thread's. What a reduction
        // hands on is of the one thread that released it (rmw_alike).
        Entry* copy = entries_.take(nullptr, e->at, e->scope, e->view);
        if (e->at.thread == m->at.thread) copy->at.thread = c->at.thread;
        *last = copy;
        last = &copy->next;
      }
      by_id[c->id] = c;
      *tail = c;
      tail = &c->older;
    }
    for (const Message* m = block.whole.newest; m != nullptr; m = m->older) {
      if (m->source != nullptr) by_id[m->id]->source = by_id[m->source->id];
    }
    Reader** end = &cell.readers;
    for (const Reader* r = block.whole.readers; r != nullptr; r = r->next) {
      Reader* c = readers_.take(*r);
      c->next = nullptr;
      c->at.thread = thread_of(r->at.slot, r->run, i);
      c->step = r->step + i * r->run.steps;
      c->run = {};
      *end = c;
      end = &c->next;
    }
  }
  free_cell_content(block.whole);
  blocks_.give(&block);
}

// A block of one message that everybody knows of becomes plain bytes again.
bool MachineState::collapse(Region& region, Block& block, const Clock& all) {
  const Cell& c = block.whole;
  const Message& m = *c.newest;
  if (c.count != 1 || c.readers != nullptr || m.uninitialised) return false;
  if (!m.initial) {
    if (m.run.each ? m.at.time >= all.base(m.at.slot) : !all.covers(m.at)) return false;
    keep_initial(region, block.index * kBlockLines, kBlockLines);
    copy_block(&region.bytes[std::size_t{block.index} * kBlockBytes], m.values);
    if (!region.ground_unset.empty()) {
      for (std::uint32_t i = 0; i < kBlockLines; ++i) {
        region.ground_unset[std::size_t{block.index} * kBlockLines + i] = false;
      }
    }
  }
  region.blocks[block.index] = nullptr;
  free_cell_content(block.whole);
  blocks_.give(&block);
  return true;
}

// -- whether lines would fare alike ---------------------------------------------------------------

// Searches are told of every access, and most listeners; signals are watched one by one; aliases
// that need fences are looked up by thread.
bool MachineState::may_act_together(const Region& region, const Access& a) const {
  return (listener_ == nullptr || listener_->takes_blocks()) && arbiter_ == nullptr &&
         region.spec.kind == RegionKind::data && !region.spec.shared &&
         policy_.alias_data == AliasData::cohere && a.element <= kLineBytes;
}

// Whether the threads know the same, and, for what a strong write carries, have the same fences.
bool MachineState::level(std::span<const ThreadId> lanes, bool strong_write, Together& out) const {
  if (lanes.size() != kBlockLines) return false;
  const Thread& first = *threads_[lanes[0]];
  out.first = &first;
  out.slot = first.slot;
  out.run = {first.index, 0, true};
  for (std::uint32_t i = 1; i < kBlockLines; ++i) {
    const Thread& t = *threads_[lanes[i]];
    if (t.slot != first.slot || t.index != first.index + i || t.time != first.time ||
        !t.view.same_as(first.view)) {
      return false;
    }
    if (!strong_write) continue;
    if (t.fences_set != first.fences_set) return false;
    for (int d = 0; first.fences_set >> d != 0; ++d) {
      if ((first.fences_set >> d & 1) == 0) continue;
      const FenceView& a = first.fences[d];
      const FenceView& b = t.fences[d];
      if (a.at.time != b.at.time || !a.view.same_as(b.view)) return false;
    }
  }
  return true;
}

// Whether, line by line, the threads know of an earlier access or all do not, and are its threads
// or all are not. `by_name`: that they are matters even if they know of it.
bool MachineState::alike(const Together& who, const Epoch& at, const Run& run, bool by_name) const {
  const View& view = who.first->view;
  bool same_name = true;
  if (who.slot == at.slot) {
    const std::uint32_t mine = who.run.index;
    if (who.run.each == run.each) {
      // The same thread in all lines or, shifted, in none.
    } else {
      const std::uint32_t single = run.each ? mine : run.index;
      const std::uint32_t first = run.each ? run.index : mine;
      same_name = single < first || single >= first + kBlockLines;
    }
  }
  const bool seen = at.time < view.seen.base(at.slot);
  const bool observed = at.time < view.observed.base(at.slot);
  if (!same_name && (by_name || !seen || !observed)) return false;
  if ((seen && observed) || !run.each) return true;
  // Known of single threads, if at all.
  const bool first_seen = view.seen.covers(at);
  const bool first_observed = view.observed.covers(at);
  Epoch other = at;
  for (std::uint32_t i = 1; i < kBlockLines; ++i) {
    other.thread = thread_of(at.slot, run, i);
    if (view.seen.covers(other) != first_seen || view.observed.covers(other) != first_observed) {
      return false;
    }
  }
  return true;
}

bool MachineState::alike(const Together& who, const Cell& cell) const {
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (!m->initial && !alike(who, m->at, m->run, m->entries != nullptr)) return false;
  }
  for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
    // note_read asks whose a strong reader of a narrow scope is.
    if (!alike(who, r->at, r->run, is_strong(r->order) && r->scope != Scope::sys)) return false;
  }
  return true;
}

bool MachineState::bridged_alike(const Now& now, const Cell& cell) const {
  if (kind_of(now.access->proxy) != ProxyKind::async) return true;
  const Clock& known = async_part(now);
  const auto fine = [&](const Epoch& at, Proxy proxy) {
    return kind_of(proxy) == ProxyKind::async || at.time < known.base(at.slot);
  };
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (!m->initial && !fine(m->at, m->proxy)) return false;
  }
  for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
    // One that is only noted is: line by line, then.
    if (policy_.async_war != AsyncWar::off && !fine(r->at, r->proxy)) return false;
  }
  return true;
}

// Whether all lines would read the same message, without a finding and without an effect on the
// threads.
bool MachineState::read_alike(const Now& now, const Together& who, Block& block, Past& past,
                              Message*& from) const {
  const Cell& cell = block.whole;
  if (!alike(who, cell) || !bridged_alike(now, cell) || !nc_alike(now, cell)) {
    return false;
  }
  past = this->past(cell, now);
  const MessageSet may = readable(now, cell, past);
  if (!one(may) || race_with(now, cell, past.known)) return false;
  from = cell.newest;
  while ((may & bit(*from)) == 0) from = from->older;
  if (from->uninitialised || newer_than(now, cell, *from) != nullptr) return false;
  // What synchronises, or is observed, changes each reader's own view.
  return !is_strong(now.access->order) ||
         (now.access->order == Order::relaxed && (from->initial || !is_strong(from->order)));
}

// Likewise for a write; `before` is what coherence puts before it, all that is there or that it
// knows of.
bool MachineState::write_alike(const Now& now, const Together& who, Block& block,
                               MessageSet& before) const {
  const Cell& cell = block.whole;
  if (cell.count == kMaxMessages || !alike(who, cell) || !bridged_alike(now, cell) ||
      !nc_alike(now, cell)) {
    return false;
  }
  const Past p = past(cell, now);
  if (race_with(now, cell, p.known)) return false;
  before = p.required();
  if (goes_to_coherence_point(*now.access)) {
    before = cell.ids;
  } else if (is_strong(now.access->order) && before != cell.ids) {
    return false;  // it may land in several places
  }
  // A thread's own earlier releases here are handed on (publish): line by line.
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (m->initial || m->at.slot != who.slot) continue;
    for (const Entry* e = m->entries; e != nullptr; e = e->next) {
      if (e->at.time == released(*m).time) return false;
    }
  }
  return true;
}

// -- one access -----------------------------------------------------------------------------------

void MachineState::read_block(const Now& now, const Run& run, Region& region, Block& block,
                              const Past& past, Message& from, std::byte* out) {
  copy_block(out, values_of(region, block, from));
  if (listener_ != nullptr) {
    tell(Event::Kind::read, now, kBlockBytes, load(out, now.access->element), 0, &from,
         &from != block.whole.newest);
  }
  note_read(now, block.whole, from, past.known);
  if (is_strong(now.access->order)) trail_read(now, from);
  block.whole.readers->run = run;
}

void MachineState::write_block(const Now& now, const Run& run, Block& block, MessageSet before,
                               const std::byte* in) {
  Cell& cell = block.whole;
  Message& m = add_message(cell, now);
  m.before = before & cell.ids;
  m.run = run;
  m.values = block_values_.take()->bytes.data();
  copy_block(m.values, in);
  if (is_strong(now.access->order)) publish(now, cell, m, nullptr, false);
  insert_message(cell, &m, 0);
  if (is_strong(now.access->order)) trail_write(now, m);
  prune_readers(now, cell);
  if (listener_ != nullptr) {
    tell(Event::Kind::write, now, kBlockBytes, load(in, now.access->element), 0, nullptr, false);
  }
}

bool MachineState::read_whole_block(Now& now, std::uint64_t offset, std::byte* out) {
  Region& region = *regions_[now.address.region];
  Block* block = block_at(region, offset);
  if (block == nullptr) return false;
  now.address.offset = offset;
  now.mask = kWholeLine;
  const Together who{now.thread->slot, {now.thread->index, 0, false}, now.thread};
  Past past;
  Message* from = nullptr;
  if (!read_alike(now, who, *block, past, from)) return false;
  read_block(now, who.run, region, *block, past, *from, out);
  return true;
}

bool MachineState::write_whole_block(Now& now, std::uint64_t offset, const std::byte* in) {
  Region& region = *regions_[now.address.region];
  Block* block = block_at(region, offset);
  if (block == nullptr) return false;
  now.address.offset = offset;
  now.mask = kWholeLine;
  const Together who{now.thread->slot, {now.thread->index, 0, false}, now.thread};
  MessageSet before = 0;
  if (!write_alike(now, who, *block, before)) return false;
  write_block(now, who.run, *block, before, in);
  return true;
}

// -- a warp ---------------------------------------------------------------------------------------

namespace {

// Replicas of a multicast address, at most.
constexpr std::size_t kMostPlaces = 64;

}  // namespace

// The steps are those of lane after lane, and of a lane place after place.
bool Machine::read_together(std::span<const ThreadId> lanes, std::span<const Address> places,
                            const Access& access, std::span<std::byte> out) {
  Together who;
  if (places.size() > kMostPlaces || !level(lanes, false, who)) return false;
  struct Plan {
    Region* region;
    Block* block;
    Past past;
    Message* from;
  };
  std::array<Plan, kMostPlaces> plans;
  Now now = now_at(lanes[0], access, {}, 0, AccessKind::read, kWholeLine);
  for (std::size_t k = 0; k < places.size(); ++k) {
    Plan& plan = plans[k];
    plan.region = regions_[places[k].region];
    if (!may_act_together(*plan.region, access)) return false;
    plan.block = block_at(*plan.region, places[k].offset);
    if (plan.block == nullptr) return false;
    now.address = places[k];
    if (!read_alike(now, who, *plan.block, plan.past, plan.from)) return false;
  }
  who.run.steps = static_cast<std::uint16_t>(places.size());
  for (std::size_t k = 0; k < places.size(); ++k) {
    now.address = places[k];
    now.step = step_ + static_cast<std::uint32_t>(k) + 1;
    const Plan& plan = plans[k];
    read_block(now, who.run, *plan.region, *plan.block, plan.past, *plan.from,
               out.data() + k * kBlockBytes);
  }
  step_ += kBlockLines * static_cast<std::uint32_t>(places.size());
  return true;
}

bool Machine::write_together(std::span<const ThreadId> lanes, std::span<const Address> places,
                             const Access& access, std::span<const std::byte> in) {
  Together who;
  if (places.size() > kMostPlaces || !level(lanes, is_strong(access.order), who)) return false;
  struct Plan {
    Block* block;
    MessageSet before;
  };
  std::array<Plan, kMostPlaces> plans;
  Now now = now_at(lanes[0], access, {}, 0, AccessKind::write, kWholeLine);
  for (std::size_t k = 0; k < places.size(); ++k) {
    Plan& plan = plans[k];
    Region& region = *regions_[places[k].region];
    if (!may_act_together(region, access)) return false;
    plan.block = block_at(region, places[k].offset);
    if (plan.block == nullptr) return false;
    now.address = places[k];
    if (!write_alike(now, who, *plan.block, plan.before)) return false;
  }
  who.run.steps = static_cast<std::uint16_t>(places.size());
  for (std::size_t k = 0; k < places.size(); ++k) {
    now.address = places[k];
    now.step = step_ + static_cast<std::uint32_t>(k) + 1;
    write_block(now, who.run, *plans[k].block, plans[k].before, in.data());
    if (is_strong(access.order)) {
      for (ThreadId lane : lanes) ++threads_[lane]->time;
    }
  }
  step_ += kBlockLines * static_cast<std::uint32_t>(places.size());
  return true;
}

}  // namespace ringfence::machine
