#include "emulator/ptx/exec/shared_races.hpp"

#include <algorithm>

namespace ringfence::ptx {

SharedRaces::SharedRaces(std::uint64_t bytes, std::uint32_t warps)
    : bytes_((bytes + 3) / 4 * 4),
      split_((bytes + 3) / 4, 0),
      clocks_(warps, WarpClock(warps, 0)),
      readers_(1) {
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w][w] = 1;
}

bool SharedRaces::ordered(const Stamp& before, std::uint32_t warp, std::uint32_t lane) const {
  if (before.clock == 0) return true;
  const std::uint32_t other = before.thread / 32;
  if (before.thread == warp * 32 + lane) return true;
  if (other == warp) return before.clock < clocks_[warp][warp];
  return before.clock <= clocks_[warp][other];
}

std::optional<SharedRaces::Race> SharedRaces::access(std::uint64_t offset, std::uint32_t bytes,
                                                     std::uint32_t warp, std::uint32_t lane,
                                                     SharedUse use) {
  const bool writes = use == SharedUse::write || use == SharedUse::strong_write;
  const bool strong = use == SharedUse::strong_read || use == SharedUse::strong_write;
  if (use == SharedUse::strong_read || use == SharedUse::strong_write) take(warp, strong_);
  const Stamp now{clocks_[warp][warp], static_cast<std::uint16_t>(warp * 32 + lane), strong};
  std::optional<Race> race;
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t word = at / 4;
    if (at % 4 == 0 && end - at >= 4 && split_[word] == 0) {
      check_byte(at, now, writes, race);
      at += 4;
      continue;
    }
    if (split_[word] == 0) split_word(word);
    check_byte(at, now, writes, race);
    ++at;
  }
  if (use == SharedUse::strong_write) give(warp, strong_);
  return race;
}

void SharedRaces::split_word(std::uint64_t word) {
  split_[word] = 1;
  const std::uint64_t first = 4 * word;
  for (std::uint64_t i = 1; i < 4; ++i) {
    Byte& byte = bytes_[first + i];
    byte = bytes_[first];
    byte.readers = 0;
    for (std::uint32_t r = bytes_[first].readers; r != 0; r = readers_[r].next) {
      add_reader(byte, readers_[r].stamp);
    }
  }
}

bool SharedRaces::read_before(const Byte& byte, const Stamp& by) const {
  for (std::uint32_t r = byte.readers; r != 0; r = readers_[r].next) {
    const Stamp& s = readers_[r].stamp;
    if (s.thread / 32 == by.thread / 32 && s.clock == by.clock) return true;
  }
  return false;
}

// Behind the others: the first that races is the one that is reported.
void SharedRaces::add_reader(Byte& byte, const Stamp& stamp) {
  std::uint32_t fresh = free_;
  if (fresh != 0) {
    free_ = readers_[fresh].next;
    readers_[fresh] = {stamp, 0};
  } else {
    fresh = static_cast<std::uint32_t>(readers_.size());
    readers_.push_back({stamp, 0});
  }
  std::uint32_t* link = &byte.readers;
  while (*link != 0) link = &readers_[*link].next;
  *link = fresh;
}

void SharedRaces::drop_readers(Byte& byte) {
  if (byte.readers == 0) return;
  std::uint32_t* link = &byte.readers;
  while (*link != 0) link = &readers_[*link].next;
  *link = free_;
  free_ = byte.readers;
  byte.readers = 0;
}

void SharedRaces::check_byte(std::uint64_t at, const Stamp& now, bool writes,
                             std::optional<Race>& race) {
  const std::uint32_t warp = now.thread / 32;
  const std::uint32_t lane = now.thread % 32;
  Byte& byte = bytes_[at];
  // What a thread keeps for itself.
  if (byte.readers == 0 && byte.write.thread == now.thread && byte.write.clock != 0 &&
      (byte.read.clock == 0 || byte.read.thread == now.thread)) {
    if (writes) byte.write = now;
    byte.read = writes ? Stamp{} : now;
    return;
  }
  const auto conflict = [&](const Stamp& before, bool wrote) {
    if (race || (now.strong && before.strong) || ordered(before, warp, lane)) return;
    race = Race{before.thread, wrote, static_cast<std::uint32_t>(at)};
  };
  conflict(byte.write, true);
  if (writes) {
    conflict(byte.read, false);
    for (std::uint32_t r = byte.readers; r != 0; r = readers_[r].next) {
      conflict(readers_[r].stamp, false);
    }
    drop_readers(byte);
    byte.write = now;
    byte.read = {};
    return;
  }
  if (byte.read.clock == 0 || ordered(byte.read, warp, lane)) {
    byte.read = now;
    return;
  }
  if (byte.read.thread / 32 == warp && byte.read.strong == now.strong) return;
  // A second, unordered reader: one of each warp is enough to find a race with a later write. The
  // byte keeps the latest, as the warp's other lanes come next.
  const Stamp before = byte.read;
  if (!read_before(byte, before)) add_reader(byte, before);
  byte.read = now;
}

void SharedRaces::give(std::uint32_t warp, WarpClock& clock) {
  clock.resize(clocks_.size(), 0);
  for (std::size_t w = 0; w < clocks_.size(); ++w) clock[w] = std::max(clock[w], clocks_[warp][w]);
  ++clocks_[warp][warp];
}

void SharedRaces::take(std::uint32_t warp, const WarpClock& clock) {
  for (std::size_t w = 0; w < clock.size(); ++w) {
    if (w != warp) clocks_[warp][w] = std::max(clocks_[warp][w], clock[w]);
  }
  // What the warp does from here on comes after what it did before, for all of its lanes.
  ++clocks_[warp][warp];
}

}  // namespace ringfence::ptx
