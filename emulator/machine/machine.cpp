// The machine as a whole: regions, reset, findings, and what listeners are told.

#include "emulator/machine/machine.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/machine/create.hpp"
#include "emulator/machine/trail.hpp"

namespace ringfence::machine {

MachineState::MachineState(std::pmr::memory_resource* memory, const Policy& policy)
    : memory_(memory),
      policy_(policy),
      clocks_(memory),
      messages_(memory),
      entries_(memory),
      observers_(memory),
      readers_(memory),
      watchers_(memory),
      cells_(memory),
      parts_(memory),
      lines_(memory),
      blocks_(memory),
      block_values_(memory),
      regions_(memory),
      threads_(memory),
      slots_(memory),
      streams_(memory),
      fence_sc_(memory),
      bridges_(memory),
      arrived_(memory),
      meetings_(memory),
      free_meetings_(memory),
      findings_(memory),
      unfenced_reads_(memory),
      woken_(memory) {
  note_proxies();
}

Machine::Machine(std::pmr::memory_resource* memory, const Policy& policy)
    : MachineState(memory, policy) {}

Machine::~Machine() {
  reset();
  fence_sc_.clear();
  bridges_.clear();
  for (Region* r : regions_) destroy(memory_, r);
  for (MeetingState* m : meetings_) destroy(memory_, m);
  for (Thread* t : threads_) destroy(memory_, t);
  for (Slot* s : slots_) destroy(memory_, s);
  for (Stream* s : streams_) destroy(memory_, s);
}

RegionId Machine::add_region(const RegionSpec& spec) {
  auto* r = create<Region>(memory_, spec, memory_);
  regions_.push_back(r);
  const auto id = static_cast<RegionId>(regions_.size() - 1);
  if (!spec.shared) open_region(id);
  return id;
}

void Machine::open_region(RegionId id) {
  Region& r = *regions_[id];
  if (!r.lines.empty()) return;
  const std::uint64_t lines = (r.spec.bytes + kLineBytes - 1) / kLineBytes;
  const bool sparse = r.spec.sparse;
  r.lines.make(lines, sparse);
  if (r.spec.shared) return;  // what is there comes with adopt()
  r.bytes.make(lines * kLineBytes, sparse);
  r.blocks.make(r.spec.bytes / kBlockBytes, sparse);
  if (sparse) r.is_changed.make(lines, true);
  if (!r.spec.initialised) r.ground_unset.resize(lines, true);
}

void Machine::set_initial(Address to, std::span<const std::byte> bytes) {
  Region& r = *regions_[to.region];
  std::memcpy(&r.bytes[to.offset], bytes.data(), bytes.size());
  r.initial.clear();
  if (!r.spec.initialised && !bytes.empty()) {
    r.given.emplace_back(to.offset / kLineBytes,
                         (to.offset + bytes.size() + kLineBytes - 1) / kLineBytes);
    unset_ground(r);
  }
}

void MachineState::unset_ground(Region& r) {
  r.ground_unset.assign(r.lines.size(), true);
  for (const auto& [first, end] : r.given) {
    for (std::uint64_t i = first; i < end; ++i) r.ground_unset[i] = false;
  }
}

void Machine::peek(Address from, std::span<std::byte> out) const {
  const Region& r = *regions_[from.region];
  if (r.bytes.empty()) {
    std::fill(out.begin(), out.end(), std::byte{0});
  } else {
    std::memcpy(out.data(), &r.bytes[from.offset], out.size());
  }
  const std::uint64_t end = from.offset + out.size();
  const auto copy = [&](const Cell& c, std::uint32_t index) {
    const std::uint64_t first = std::uint64_t{index} * kLineBytes + c.offset;
    const std::uint64_t lo = std::max<std::uint64_t>(first, from.offset);
    const std::uint64_t hi = std::min<std::uint64_t>(first + c.size, end);
    if (lo < hi) {
      std::memcpy(&out[lo - from.offset], c.newest->value.data() + (lo - first), hi - lo);
    }
  };
  for (std::uint64_t i = from.offset / kLineBytes; i * kLineBytes < end; ++i) {
    const Line* line = r.lines[i];
    if (line == nullptr) {
      const std::uint64_t b = i / kBlockLines;
      if (b >= r.blocks.size() || r.blocks[b] == nullptr) continue;
      const Block& block = *r.blocks[b];
      Cell one;
      Message m;
      std::memcpy(m.value.data(),
                  values_of(r, block, *block.whole.newest) + i % kBlockLines * kLineBytes,
                  kLineBytes);
      one.newest = &m;
      copy(one, static_cast<std::uint32_t>(i));
      continue;
    }
    if (line->parts == nullptr) {
      copy(line->whole, line->index);
    } else {
      line->parts->for_each([&](const Cell& c) { copy(c, line->index); });
    }
  }
}

std::vector<Machine::Span> Machine::touched(RegionId id) const {
  const Region& r = *regions_[id];
  std::vector<Span> out;
  for (const std::uint32_t i : r.touched)
    out.push_back({std::uint64_t{i} * kLineBytes, kLineBytes});
  for (const std::uint32_t i : r.touched_blocks) {
    out.push_back({std::uint64_t{i} * kBlockBytes, kBlockBytes});
  }
  for (const Region::Changed& c : r.changed) {
    out.push_back({std::uint64_t{c.index} * kLineBytes, kLineBytes});
  }
  std::sort(out.begin(), out.end(),
            [](const Span& a, const Span& b) { return a.offset < b.offset; });
  return out;
}

const Cell* Machine::cell_at(Address at) {
  Region& region = *regions_[at.region];
  const std::uint64_t b = at.offset / kBlockBytes;
  if (b < region.blocks.size() && region.blocks[b] != nullptr)
    into_lines(region, *region.blocks[b]);
  if (region.lines.empty()) return nullptr;
  Line* line = region.lines[at.offset / kLineBytes];
  if (line == nullptr) return nullptr;
  if (line->parts == nullptr) return &line->whole;
  return &part_at(region, *line, at.offset % kLineBytes);
}

void Machine::reset() {
  torn_ = false;
  for (Region* r : regions_) {
    for (std::uint32_t index : r->touched) r->lines[index] = nullptr;
    r->touched.clear();
    for (std::uint32_t index : r->touched_blocks) r->blocks[index] = nullptr;
    r->touched_blocks.clear();
    r->cut = false;
    if (r->ground_changed) {
      for (const Region::Changed& c : r->changed) {
        std::memcpy(&r->bytes[std::size_t{c.index} * kLineBytes], c.bytes.data(), kLineBytes);
        r->is_changed[c.index] = 0;
      }
      r->changed.clear();
      if (!r->spec.sparse) std::memcpy(r->bytes.data(), r->initial.data(), r->bytes.size());
      if (!r->spec.initialised) unset_ground(*r);
      r->ground_changed = false;
    }
  }
  for (std::size_t i = 0; i < threads_used_; ++i) {
    Thread& t = *threads_[i];
    t.view.forget();
    for (int d = 0; t.fences_held >> d != 0; ++d) t.fences[d].view.forget();
    t.fences_set = t.fences_held = 0;
    for (Parked& p : t.parked) p.view.forget();
    t.parked.clear();
    t.labels.clear();
    t.engines.clear();
    t.inits.forget();
    t.live = false;
  }
  for (std::size_t i = 0; i < slots_used_; ++i) {
    slots_[i]->threads.clear();
    slots_[i]->ends.clear();
  }
  for (std::size_t i = 0; i < streams_used_; ++i) {
    Stream& s = *streams_[i];
    s.next.forget();
    s.ending.forget();
    s.ended.forget();
    s.started.forget();
    s.released.forget();
    s.triggers.clear();
    s.slots.clear();
  }
  threads_used_ = slots_used_ = streams_used_ = 0;
  for (FenceSc& f : fence_sc_) f.view.forget();
  fence_sc_.clear();
  for (Bridge& b : bridges_) b.seen.forget();
  bridges_.clear();
  for (Arrived& a : arrived_) a.view.forget();
  arrived_.clear();
  free_meetings_.clear();
  for (std::uint32_t i = 0; i < meetings_.size(); ++i) {
    for (MeetingPart& part : meetings_[i]->parts) part.view.forget();
    meetings_[i]->parts.clear();
    free_meetings_.push_back(i);
  }
  meeting_serial_ = 0;
  // All that is left refers to each other only.
  clocks_.reset();
  messages_.reset();
  entries_.reset();
  observers_.reset();
  readers_.reset();
  watchers_.reset();
  cells_.reset();
  parts_.reset();
  lines_.reset();
  blocks_.reset();
  block_values_.reset();
  findings_.clear();
  unfenced_reads_.clear();
  woken_.clear();
  step_ = ignored_races_ = 0;
  collect_at_ = kCollectAtLeast;
}

// -- results --------------------------------------------------------------------------------------

void MachineState::report(const Finding& finding, bool stops) {
  if (passes_over(finding)) return;
  if (torn_ && !stops) return;
  if (findings_.size() == kMaxFindings) return;
  findings_.push_back(finding);
  findings_.back().torn = torn_;
}

std::uint64_t MachineState::label_of(const Epoch& at) const {
  if (at.thread >= threads_used_) return 0;
  const auto& labels = threads_[at.thread]->labels;
  // In the order of their times, and mostly the last one is asked for.
  std::size_t i = labels.size();
  while (i > 1 && labels[i - 1].from_time > at.time) --i;
  return i == 0 ? 0 : labels[i - 1].label;
}

// The thread's name and moment, and the place: in one moment a thread writes a place once.
std::uint64_t MachineState::trail_name(const Now& now, const Epoch& at) const {
  const std::uint64_t place = std::uint64_t{now.address.region} << 40 ^ now.address.offset;
  return (label_of(at) ^ place * 0x9e3779b97f4a7c15u) + at.time * 0xd6e8feb86659fd93u;
}

std::uint64_t MachineState::trail_name(const Now& now, const Message& m) const {
  return m.initial ? 0 : trail_name(now, m.at);
}

void MachineState::leave_read(const Now& now, const Message& m) {
  Trail::Pair pair;
  pair.read_site = now.access->site;
  pair.read_rank = now.thread->place.rank;
  pair.write_site = m.initial ? Trail::kInitial : m.site;
  pair.write_rank = m.initial ? std::uint16_t{0} : placement(m.at.thread).rank;
  pair.own = !m.initial && m.at.thread == now.id;
  const Epoch here{now.id, now.thread->slot, now.thread->time};
  trail_->read(trail_name(now, here), trail_name(now, m), pair);
}

void MachineState::leave_write(const Now& now, const Message& m) {
  trail_->write(trail_name(now, m.at), m.older == nullptr ? 0 : trail_name(now, *m.older));
}

void MachineState::leave_fence_sc(const Epoch& at) {
  trail_->fence_sc(label_of(at) + at.time * 0xd6e8feb86659fd93u);
}

void MachineState::tell_edge(Event::Kind kind, ThreadId thread, ThreadId from) {
  const auto label = [&](ThreadId id) {
    return label_of(Epoch{id, threads_[id]->slot, threads_[id]->time});
  };
  Event e;
  e.kind = kind;
  e.thread = thread;
  e.label = label(thread);
  e.step = step_;
  if (from != kNoThread) e.from_label = label(from);
  if (kind != Event::Kind::dependency) e.value = std::uint64_t{threads_[thread]->stream} + 1;
  listener_->on_event(e);
}

void MachineState::tell(Event::Kind kind, const Now& now, std::uint32_t bytes, std::uint64_t value,
                        std::uint64_t old_value, const Message* from, bool stale, unsigned flags) {
  Event e;
  e.kind = kind;
  e.thread = now.id;
  e.label = label_of(Epoch{now.id, now.thread->slot, now.thread->time});
  e.step = now.step;
  e.site = now.access->site;
  e.order = now.access->order;
  e.scope = now.access->scope;
  e.proxy = now.access->proxy;
  e.address = now.address;
  e.bytes = bytes;
  e.value = value;
  e.old_value = old_value;
  e.stale = stale;
  e.reduction = (flags & kReduction) != 0;
  e.foreseen = (flags & kForeseen) != 0;
  e.access = now.access;
  if (from != nullptr && !from->initial) {
    e.from_step = from->step;
    e.from_label = label_of(from->at);
  }
  listener_->on_event(e);
}

}  // namespace ringfence::machine
