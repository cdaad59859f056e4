// Reductions of one thread over whole blocks (block.cpp): what rmw.cpp decides for the first line,
// after a proof that it would decide the same for every one.

#include <cstring>

#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

namespace {

template <class Element>
void combine_elements(const std::byte* old, const std::byte* operand, std::byte* out,
                      CombineFunction combine) {
  for (std::uint32_t o = 0; o < kBlockBytes; o += sizeof(Element)) {
    Element a, b;
    std::memcpy(&a, old + o, sizeof a);
    std::memcpy(&b, operand + o, sizeof b);
    const auto c = static_cast<Element>(combine(a, b));
    std::memcpy(out + o, &c, sizeof c);
  }
}

void combine_block(std::uint32_t element, const std::byte* old, const std::byte* operand,
                   std::byte* out, CombineFunction combine) {
  switch (element) {
    case 1:
      return combine_elements<std::uint8_t>(old, operand, out, combine);
    case 2:
      return combine_elements<std::uint16_t>(old, operand, out, combine);
    case 4:
      return combine_elements<std::uint32_t>(old, operand, out, combine);
    default:
      return combine_elements<std::uint64_t>(old, operand, out, combine);
  }
}

}  // namespace

// The message whose values all lines would take, if there is but one (axiom Atomicity) and the
// write has but one place in coherence order: `before` is what that puts before it.
Message* MachineState::rmw_alike(const Now& now, const Together& who, Block& block, Past& past,
                                 MessageSet& before) const {
  const Cell& cell = block.whole;
  if (!alike(who, cell) || !bridged_alike(now, cell) || !nc_alike(now, cell)) {
    return nullptr;
  }
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    // What the lanes of a warp released, or showed, is another thread's in each line.
    if (!m->initial && m->run.each) return nullptr;
  }
  past = this->past(cell, now);
  if (race_with(now, cell, past.known)) return nullptr;
  const bool pointed = goes_to_coherence_point(*now.access);
  MessageSet required = past.required();
  Message* source = cell.newest;
  if (!pointed) {
    source = nullptr;
    const MessageSet may = cell.ids & ~past.overwritten;
    for (Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((may & bit(*m)) == 0 || !rmw_may_take(now, cell, *m, required)) continue;
      if (source != nullptr) return nullptr;
      source = m;
    }
    if (source == nullptr) return nullptr;
  }
  // The oldest is forgotten to make room.
  if (cell.count == kMaxMessages && source->older == nullptr) return nullptr;
  if (morally_strong(now, *source)) required |= bit(*source) | source->before;
  before = pointed ? cell.ids : required;
  if (pointed || required == cell.ids) return source;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((required & bit(*m)) == 0 && m != source && morally_strong(now, *m)) return nullptr;
  }
  return source;
}

bool MachineState::reduce_whole_block(Now& now, std::uint64_t offset, const std::byte* operand,
                                      CombineFunction combine) {
  Region& region = *regions_[now.address.region];
  Block* const block = block_at(region, offset);
  if (block == nullptr) return false;
  now.address.offset = offset;
  now.mask = static_cast<std::uint16_t>((1u << kLineBytes) - 1);
  const Together who{now.thread->slot, {now.thread->index, 0, false}, now.thread};
  Past past;
  MessageSet before = 0;
  Message* const source = rmw_alike(now, who, *block, past, before);
  if (source == nullptr) return false;
  Cell& cell = block->whole;
  const bool strong_link = morally_strong(now, *source);
  std::byte* const values = block_values_.take()->bytes.data();
  combine_block(now.access->element, values_of(region, *block, *source), operand, values, combine);
  if (listener_ != nullptr) {
    tell(Event::Kind::rmw, now, kBlockBytes, load(values, now.access->element), 0, source,
         source != cell.newest, kReduction);
  }
  observe(now, *source);
  Message& m = add_message(cell, now);
  m.before = before & cell.ids;
  m.rmw = true;
  m.source = source;
  m.source_strong = strong_link;
  source->outlives |= past.known & ~bit(*source);
  m.values = values;
  m.run = who.run;
  publish(now, cell, m, source, strong_link);
  insert_message(cell, &m, 0);
  trail_read(now, *source);
  trail_write(now, m);
  source->consumed = true;
  prune_readers(now, cell);
  return true;
}

}  // namespace ringfence::machine
