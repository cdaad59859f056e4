#include "emulator/ptx/exec/shared_races.hpp"

#include <algorithm>
#include <bit>

namespace ringfence::ptx {

SharedRaces::SharedRaces(std::uint64_t bytes, std::uint32_t warps, std::uint32_t block_warps,
                         std::uint32_t engines, SharedOrder* order)
    : warps_(warps),
      block_threads_(block_warps * 32),
      agents_(warps + engines),
      order_(order),
      words_((bytes + 3) / 4),
      readers_(1) {
  clocks_.assign(warps, WarpClock(agents_ + (engines != 0 ? warps : 0), 0));
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w][w] = 1;
}

// A vector's words, and a tile's, have one history, mostly; and what is ordered stays so.
bool SharedRaces::asks(std::uint32_t other, std::uint32_t time, const Actor& actor, bool by_async) {
  if (!actor.engine) {
    if (known_by_ == actor.now.thread && known_.thread == other && known_.time >= time) return true;
    if (!order_->ordered(other, time, actor.now.thread, actor.warp, by_async)) return false;
    known_by_ = actor.now.thread;
    known_.thread = other;
    known_.time = time;
    return true;
  }
  if (engine_ != actor.now.thread) {
    engine_ = actor.now.thread;
    for (std::vector<std::uint32_t>& known : engine_knows_) known.clear();
  }
  std::vector<std::uint32_t>& known = engine_knows_[by_async ? 1 : 0];
  if (known.size() <= other) known.resize(other + std::size_t{1});
  if (known[other] > time) return true;
  if (!order_->ordered(other, time, actor.now.thread, actor.warp, by_async)) return false;
  known[other] = time + 1;
  return true;
}

bool SharedRaces::ordered(const Stamp& before, const Actor& actor) {
  if (before.clock == 0 || before.thread == actor.now.thread) return true;
  const std::uint32_t other = before.thread / 32;
  if (order_ != nullptr) {
    const bool threads = !actor.engine && !is_engine(before);
    if (threads && actor.engines_only) return true;
    if (threads && before.time < actor.level &&
        before.thread / block_threads_ == actor.now.thread / block_threads_) {
      return true;
    }
    return asks(before.thread, before.time, actor, false);
  }
  const WarpClock& known = clocks_[actor.warp];
  if (other == actor.warp) {
    // The issuer's own accesses come before what it issues; a whole warp's before what it does
    // together.
    if (actor.engine && (actor.lane >= 32 || before.thread % 32 == actor.lane)) return true;
    return before.clock < known[other];
  }
  return before.clock <= known[other];
}

bool SharedRaces::known(const Reads& reads, const Actor& actor) {
  Stamp one = reads.first;
  for (std::uint32_t left = reads.lanes; left != 0; left &= left - 1) {
    one.thread = reads.first.thread / 32 * 32 + static_cast<std::uint32_t>(std::countr_zero(left));
    if (!ordered(one, actor)) return false;
  }
  return true;
}

bool SharedRaces::proxied(const Stamp& before, const Actor& actor) {
  const std::uint32_t other = before.thread / 32;
  if (before.clock == 0 || !actor.async || before.async || before.thread == actor.now.thread) {
    return true;
  }
  if (order_ != nullptr) return asks(before.thread, before.time, actor, true);
  if (other >= warps_) return true;
  return before.clock <= clocks_[actor.warp][agents_ + other];
}

std::optional<SharedRaces::Race> SharedRaces::visit(std::uint64_t offset, std::uint32_t bytes,
                                                    const Actor& actor, bool writes) {
  std::optional<Race> race;
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    Word& word = *words_.at(at / 4);
    if (at % 4 == 0 && end - at >= 4 && word.part == 0) {
      if (!check_byte(word.whole, at, actor, writes, race)) return race;
      at += 4;
      continue;
    }
    Split& bytes_of = word.part == 0 ? split_word(word) : parts_[word.part - 1];
    if (!check_byte(bytes_of[at % 4], at, actor, writes, race)) return race;
    ++at;
  }
  return race;
}

std::optional<SharedRaces::Race> SharedRaces::access(std::uint64_t offset, std::uint32_t bytes,
                                                     const SharedAccess& a) {
  if (a.strong) take(a.warp, strong_);
  const Stamp now{clocks_[a.warp][a.warp],
                  a.time,
                  a.op,
                  a.engine ? warps_ * 32 + a.thread : a.warp * 32 + a.lane,
                  a.strong,
                  a.async};
  const Actor actor{now, a.warp, a.lane, a.level, a.async, a.engine, a.engines_only};
  const std::optional<Race> race = visit(offset, bytes, actor, a.writes);
  if (a.strong && a.writes) give(a.warp, strong_);
  return race;
}

std::optional<SharedRaces::Race> SharedRaces::access_async(std::uint64_t offset,
                                                           std::uint32_t bytes, std::uint32_t warp,
                                                           std::uint32_t lane, AsyncMoment moment,
                                                           std::uint32_t op, bool writes,
                                                           bool proxy) {
  const Stamp now{moment.number, 0, op, (warps_ + moment.engine) * 32, false, proxy};
  return visit(offset, bytes, {now, warp, lane, 0, proxy, true, false}, writes);
}

SharedRaces::Split& SharedRaces::split_word(Word& word) {
  const Byte whole = word.whole;
  parts_.emplace_back();
  word.part = static_cast<std::uint32_t>(parts_.size());
  for (Byte& byte : parts_.back()) {
    byte = whole;
    byte.readers = 0;
    for (std::uint32_t r = whole.readers; r != 0; r = readers_[r].next) {
      add_reader(byte, readers_[r].reads);
    }
  }
  drop_readers(word.whole);
  return parts_.back();
}

std::vector<SharedRaces::Past> SharedRaces::history(std::uint64_t offset,
                                                    std::uint32_t bytes) const {
  std::vector<Past> out;
  const auto tell = [&](const Byte& byte, std::uint32_t at, std::uint32_t size) {
    const auto reads = [&](const Reads& r) {
      if (r.first.clock == 0) return;
      const bool engine = is_engine(r.first);
      for (std::uint32_t left = r.lanes; left != 0; left &= left - 1) {
        const std::uint32_t thread =
            r.first.thread / 32U * 32 + static_cast<std::uint32_t>(std::countr_zero(left));
        out.push_back({engine ? thread - warps_ * 32 : thread, r.first.time, r.first.op, at, size,
                       false, engine, r.first.async != 0});
      }
    };
    if (byte.write.clock != 0) {
      const bool engine = is_engine(byte.write);
      out.push_back({engine ? byte.write.thread - warps_ * 32 : byte.write.thread, byte.write.time,
                     byte.write.op, at, size, true, engine, byte.write.async != 0});
    }
    for (std::uint32_t r = byte.readers; r != 0; r = readers_[r].next) reads(readers_[r].reads);
    reads(byte.read);
  };
  for (std::uint32_t at = 0; at < bytes; at += 4) {
    const std::uint64_t i = (offset + at) / 4;
    if (!words_.used(i)) continue;
    const Word& word = words_[i];
    if (word.part == 0) {
      tell(word.whole, at, 4);
      continue;
    }
    for (std::uint32_t b = 0; b < 4; ++b) tell(parts_[word.part - 1][b], at + b, 1);
  }
  return out;
}

// Behind the others: the first that races is the one that is reported.
void SharedRaces::add_reader(Byte& byte, const Reads& reads) {
  std::uint32_t fresh = free_;
  if (fresh != 0) {
    free_ = readers_[fresh].next;
    readers_[fresh] = {reads, 0};
  } else {
    fresh = static_cast<std::uint32_t>(readers_.size());
    readers_.push_back({reads, 0});
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

// A thread's later read stands for its earlier ones.
void SharedRaces::forget_reader(Byte& byte, const Stamp& by) {
  for (std::uint32_t* link = &byte.readers; *link != 0;) {
    Reader& r = readers_[*link];
    if (r.reads.first.thread / 32 == by.thread / 32) r.reads.lanes &= ~(1U << by.thread % 32);
    if (r.reads.lanes != 0) {
      link = &r.next;
      continue;
    }
    const std::uint32_t gone = *link;
    *link = r.next;
    r.next = free_;
    free_ = gone;
  }
}

// False: there is a race, and the access is not recorded.
bool SharedRaces::check_byte(Byte& byte, std::uint64_t at, const Actor& actor, bool writes,
                             std::optional<Race>& race) {
  const Stamp& now = actor.now;
  const std::uint32_t lane = 1U << now.thread % 32;
  const auto warp = [](const Stamp& s) { return s.thread / 32; };
  // What a thread keeps for itself.
  if (byte.readers == 0 && byte.write.thread == now.thread && byte.write.clock != 0 &&
      (byte.read.first.clock == 0 ||
       (byte.read.lanes == lane && warp(byte.read.first) == warp(now)))) {
    if (writes) byte.write = now;
    byte.read = writes ? Reads{} : Reads{now, lane};
    return true;
  }
  const auto conflict = [&](const Stamp& before, bool wrote) {
    if (race || (now.strong && before.strong)) return;
    const bool base = ordered(before, actor);
    if (base && !wrote && !fence_reads_) {
      if (!read_unfenced_ && !proxied(before, actor)) read_unfenced_ = {before.op, now.op};
      return;
    }
    if (base && proxied(before, actor)) return;
    const bool async = is_engine(before);
    race = Race{async || actor.engine,
                async,
                async ? before.thread / 32U - warps_ : before.thread + 0U,
                wrote,
                base,
                static_cast<std::uint32_t>(at),
                before.op};
  };
  const auto conflicts = [&](const Reads& reads) {
    Stamp one = reads.first;
    for (std::uint32_t left = reads.lanes; left != 0; left &= left - 1) {
      one.thread = warp(reads.first) * 32 + static_cast<std::uint32_t>(std::countr_zero(left));
      conflict(one, false);
    }
  };
  conflict(byte.write, true);
  if (writes) {
    for (std::uint32_t r = byte.readers; r != 0; r = readers_[r].next) conflicts(readers_[r].reads);
    conflicts(byte.read);
    if (race) return false;
    drop_readers(byte);
    byte.write = now;
    byte.read = {};
    return true;
  }
  if (race) return false;
  Reads& last = byte.read;
  if (last.first.clock != 0 && warp(last.first) == warp(now)) {
    if (actor.engine && order_ == nullptr) {
      // Warps of a group are at different products; the latest is what a writer has to wait for.
      last.first.clock = std::max(last.first.clock, now.clock);
      return true;
    }
    if (last.first.time == now.time && last.first.clock == now.clock &&
        last.first.strong == now.strong && last.first.async == now.async) {
      last.lanes |= lane;
      if (byte.readers != 0) forget_reader(byte, now);
      return true;
    }
    last.lanes &= ~lane;
  }
  if (byte.readers != 0) forget_reader(byte, now);
  if (last.first.clock != 0 && last.lanes != 0 && !known(last, actor)) add_reader(byte, last);
  last = {now, lane};
  return true;
}

void SharedRaces::give(std::uint32_t warp, WarpClock& clock) {
  if (order_ != nullptr) return;
  const WarpClock& own = clocks_[warp];
  clock.resize(own.size(), 0);
  for (std::size_t i = 0; i < own.size(); ++i) clock[i] = std::max(clock[i], own[i]);
  ++clocks_[warp][warp];
}

void SharedRaces::take(std::uint32_t warp, const WarpClock& clock) {
  if (order_ != nullptr) return;
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
