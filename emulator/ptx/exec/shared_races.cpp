#include "emulator/ptx/exec/shared_races.hpp"

#include <algorithm>
#include <new>

namespace ringfence::ptx {
namespace {

template <class T, class Free>
void zeroed(std::unique_ptr<T[], Free>& out, std::uint64_t count) {
  out.reset(static_cast<T*>(std::calloc(std::max<std::uint64_t>(count, 1), sizeof(T))));
  if (!out) throw std::bad_alloc();
}

}  // namespace

SharedRaces::SharedRaces(std::uint64_t bytes, std::uint32_t warps, std::uint32_t engines)
    : warps_(warps), agents_(warps + engines), readers_(1) {
  zeroed(bytes_, (bytes + 3) / 4 * 4);
  zeroed(split_, (bytes + 3) / 4);
  clocks_.assign(warps, WarpClock(agents_ + (engines != 0 ? warps : 0), 0));
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w][w] = 1;
}

bool SharedRaces::ordered(const Stamp& before, const Actor& actor) const {
  if (before.clock == 0 || before.thread == actor.now.thread) return true;
  const std::uint32_t other = before.thread / 32;
  const WarpClock& known = clocks_[actor.warp];
  if (other == actor.warp) {
    // The issuer's own accesses come before what it issues; a whole warp's before what it does
    // together.
    if (actor.async && (actor.lane >= 32 || before.thread % 32 == actor.lane)) return true;
    return before.clock < known[other];
  }
  return before.clock <= known[other];
}

bool SharedRaces::proxied(const Stamp& before, const Actor& actor) const {
  const std::uint32_t other = before.thread / 32;
  if (before.clock == 0 || !actor.async || other >= warps_) return true;
  return before.clock <= clocks_[actor.warp][agents_ + other];
}

std::optional<SharedRaces::Race> SharedRaces::visit(std::uint64_t offset, std::uint32_t bytes,
                                                    const Actor& actor, bool writes) {
  std::optional<Race> race;
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t word = at / 4;
    if (at % 4 == 0 && end - at >= 4 && split_[word] == 0) {
      check_byte(at, actor, writes, race);
      at += 4;
      continue;
    }
    if (split_[word] == 0) split_word(word);
    check_byte(at, actor, writes, race);
    ++at;
  }
  return race;
}

std::optional<SharedRaces::Race> SharedRaces::access(std::uint64_t offset, std::uint32_t bytes,
                                                     std::uint32_t warp, std::uint32_t lane,
                                                     SharedUse use) {
  const bool writes = use == SharedUse::write || use == SharedUse::strong_write;
  const bool strong = use == SharedUse::strong_read || use == SharedUse::strong_write;
  if (strong) take(warp, strong_);
  const Stamp now{clocks_[warp][warp], static_cast<std::uint16_t>(warp * 32 + lane), strong};
  const std::optional<Race> race = visit(offset, bytes, {now, warp, lane, false}, writes);
  if (use == SharedUse::strong_write) give(warp, strong_);
  return race;
}

std::optional<SharedRaces::Race> SharedRaces::access_async(std::uint64_t offset,
                                                           std::uint32_t bytes, std::uint32_t warp,
                                                           std::uint32_t lane, AsyncMoment moment,
                                                           bool writes, bool proxy) {
  const Stamp now{moment.number, static_cast<std::uint16_t>((warps_ + moment.engine) * 32), false};
  return visit(offset, bytes, {now, warp, lane, proxy}, writes);
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

void SharedRaces::check_byte(std::uint64_t at, const Actor& actor, bool writes,
                             std::optional<Race>& race) {
  Byte& byte = bytes_[at];
  const Stamp& now = actor.now;
  // What a thread keeps for itself.
  if (byte.readers == 0 && byte.write.thread == now.thread && byte.write.clock != 0 &&
      (byte.read.clock == 0 || byte.read.thread == now.thread)) {
    if (writes) byte.write = now;
    byte.read = writes ? Stamp{} : now;
    return;
  }
  const auto conflict = [&](const Stamp& before, bool wrote) {
    if (race || (now.strong && before.strong)) return;
    const bool base = ordered(before, actor);
    if (base && (!wrote || proxied(before, actor))) return;
    const bool async = before.thread / 32U >= warps_;
    race = Race{async, async ? before.thread / 32U - warps_ : before.thread, wrote, base,
                static_cast<std::uint32_t>(at)};
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
  if (byte.read.thread == now.thread && actor.async) {
    // Warps of a group are at different products; the latest is what a writer has to wait for.
    byte.read.clock = std::max(byte.read.clock, now.clock);
    return;
  }
  if (byte.read.clock == 0 || ordered(byte.read, actor)) {
    byte.read = now;
    return;
  }
  if (byte.read.thread / 32 == now.thread / 32 && byte.read.strong == now.strong) return;
  // A second, unordered reader: one of each warp is enough to find a race with a later write. The
  // byte keeps the latest, as the warp's other lanes come next.
  const Stamp before = byte.read;
  if (!read_before(byte, before)) add_reader(byte, before);
  byte.read = now;
}

void SharedRaces::give(std::uint32_t warp, WarpClock& clock) {
  const WarpClock& own = clocks_[warp];
  clock.resize(own.size(), 0);
  for (std::size_t i = 0; i < own.size(); ++i) clock[i] = std::max(clock[i], own[i]);
  ++clocks_[warp][warp];
}

void SharedRaces::take(std::uint32_t warp, const WarpClock& clock) {
  WarpClock& own = clocks_[warp];
  for (std::size_t i = 0; i < clock.size(); ++i) {
    if (i != warp) own[i] = std::max(own[i], clock[i]);
  }
  // What the warp does from here on comes after what it did before, for all of its lanes.
  ++own[warp];
}

void SharedRaces::fence_proxy(std::uint32_t warp) {
  WarpClock& own = clocks_[warp];
  if (own.size() == agents_) return;  // nothing is asynchronous here
  for (std::uint32_t w = 0; w < warps_; ++w) {
    own[agents_ + w] = std::max(own[agents_ + w], own[w]);
  }
  ++own[warp];
}

void SharedRaces::end_async(std::uint32_t warp, AsyncMoment moment, WarpClock& clock) {
  give(warp, clock);
  std::uint32_t& known = clock[warps_ + moment.engine];
  known = std::max(known, moment.number);
}

void SharedRaces::wait_async(std::uint32_t warp, AsyncMoment moment) {
  std::uint32_t& known = clocks_[warp][warps_ + moment.engine];
  known = std::max(known, moment.number);
  ++clocks_[warp][warp];
}

}  // namespace ringfence::ptx
