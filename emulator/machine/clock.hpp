#pragma once
// Sets of events closed under program order, as clocks.
//
// The model's "view" of a thread is the set of events that precede it in base causality. Program
// order is part of base causality, so the set holds a prefix of every thread and a clock names it
// exactly. A kernel has thousands of threads, but bar.sync and launch boundaries keep a block's
// threads level; so a clock has one entry a *slot* (a block position of a rank, reused by the
// launches of a stream) and a short list of threads that are known further than their block.

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace ringfence::machine {

using ThreadId = std::uint32_t;
inline constexpr ThreadId kNoThread = ~ThreadId{0};

// An event's name: the `time` of its thread when it ran. Several events may share a time: only a
// step that publishes (a release, a fence, a strong write) moves its thread's time on.
struct Epoch {
  ThreadId thread = kNoThread;
  std::uint32_t slot = 0;
  std::uint32_t time = 0;
};

// Thread `thread` of `slot` is known up to (not including) `time`.
struct Exception {
  ThreadId thread;
  std::uint32_t slot;
  std::uint32_t time;
};

class ClockPool;

// Times by slot; 0 beyond the end. The size is a multiple of kStep, so that loops over two of them
// go several slots at a time and have no remainder. Few slots need no memory beside the object.
class SlotTimes {
 public:
  static constexpr std::uint32_t kStep = 8;

  explicit SlotTimes(std::pmr::memory_resource* memory) : memory_(memory) {}
  SlotTimes(const SlotTimes&) = delete;
  SlotTimes& operator=(const SlotTimes&) = delete;
  ~SlotTimes() { give_back(); }

  std::uint32_t size() const { return size_; }
  std::uint32_t* data() { return data_; }
  const std::uint32_t* data() const { return data_; }
  std::uint32_t operator[](std::uint32_t slot) const { return slot < size_ ? data_[slot] : 0; }
  void clear() { size_ = 0; }
  // Room for `slots` of them at least.
  void grow(std::uint32_t slots) {
    const std::uint32_t size = (slots + kStep - 1) / kStep * kStep;
    if (size <= size_) return;
    if (size > room_) more_room(size);
    for (std::uint32_t s = size_; s < size; ++s) data_[s] = 0;
    size_ = size;
  }
  void set(std::uint32_t slot, std::uint32_t time) {
    grow(slot + 1);
    data_[slot] = time;
  }
  void assign(const SlotTimes& o) {
    if (o.size_ > room_) {
      size_ = 0;
      more_room(o.size_);
    }
    size_ = o.size_;
    for (std::uint32_t s = 0; s < size_; s += kStep) {
      for (std::uint32_t i = 0; i < kStep; ++i) data_[s + i] = o.data_[s + i];
    }
  }
  // Of two others, the later, slot by slot. It knows nothing yet.
  void assign_later(const SlotTimes& a, const SlotTimes& b) {
    const SlotTimes& longer = a.size_ < b.size_ ? b : a;
    const std::uint32_t both = a.size_ < b.size_ ? a.size_ : b.size_;
    if (longer.size_ > room_) more_room(longer.size_);
    size_ = longer.size_;
    for (std::uint32_t s = 0; s < both; s += kStep) {
      for (std::uint32_t i = 0; i < kStep; ++i) {
        data_[s + i] = a.data_[s + i] < b.data_[s + i] ? b.data_[s + i] : a.data_[s + i];
      }
    }
    for (std::uint32_t s = both; s < size_; s += kStep) {
      for (std::uint32_t i = 0; i < kStep; ++i) data_[s + i] = longer.data_[s + i];
    }
  }
  // The later of both, slot by slot.
  void join(const SlotTimes& o) {
    grow(o.size_);
    for (std::uint32_t s = 0; s < o.size_; s += kStep) {
      for (std::uint32_t i = 0; i < kStep; ++i) {
        data_[s + i] = data_[s + i] < o.data_[s + i] ? o.data_[s + i] : data_[s + i];
      }
    }
  }

 private:
  static constexpr std::uint32_t kOwn = 16;
  void more_room(std::uint32_t size);
  void give_back();

  std::pmr::memory_resource* memory_;
  std::uint32_t* data_ = own_;
  std::uint32_t size_ = 0;
  std::uint32_t room_ = kOwn;
  std::uint32_t own_[kOwn];
};

struct ClockRep {
  ClockRep(ClockPool* p, std::pmr::memory_resource* m) : pool(p), base(m), exceptions(m) {}
  ClockPool* pool;
  std::uint32_t refs = 0;
  SlotTimes base;                          // by slot: all its threads are known before this time
  std::pmr::vector<Exception> exceptions;  // sorted by thread, each beyond its slot's base
  ClockRep* next_free = nullptr;
  ClockRep* next_made = nullptr;
};

// A shared, copied-on-write clock. An empty one knows nothing and can only be assigned or joined
// with another.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock& o) : rep_(o.rep_) {
    if (rep_ != nullptr) ++rep_->refs;
  }
  Clock(Clock&& o) noexcept : rep_(o.rep_) { o.rep_ = nullptr; }
  Clock& operator=(const Clock& o) {
    if (o.rep_ == rep_) return *this;  // both empty, mostly: what few programs need
    if (o.rep_ != nullptr) ++o.rep_->refs;
    drop();
    rep_ = o.rep_;
    return *this;
  }
  Clock& operator=(Clock&& o) noexcept {
    if (this != &o) {
      drop();
      rep_ = o.rep_;
      o.rep_ = nullptr;
    }
    return *this;
  }
  ~Clock() { drop(); }

  bool empty() const { return rep_ == nullptr; }
  bool same_as(const Clock& o) const { return rep_ == o.rep_; }

  bool covers(const Epoch& e) const {
    if (rep_ == nullptr) return false;
    if (e.time < rep_->base[e.slot]) return true;
    return !rep_->exceptions.empty() && covers_by_exception(e);
  }
  // Whether every event of `o` is in this clock.
  bool covers(const Clock& o) const;

  // Adds every event of `o`.
  void join(const Clock& o) {
    if (o.rep_ != nullptr && o.rep_ != rep_) join_more(o);
  }
  // The same, by sharing what `o` refers to where that holds every event of this one.
  void join_shared(const Clock& o) {
    if (o.rep_ != nullptr && o.rep_ != rep_ && rep_ != nullptr && o.covers(*this)) {
      *this = o;
    } else {
      join(o);
    }
  }
  // Adds every event of `o` and all of `slot` before `time`, which it does not have yet.
  void join_beyond(const Clock& o, std::uint32_t slot, std::uint32_t time);
  // Adds all events of `thread` before `time`.
  void join_thread(ThreadId thread, std::uint32_t slot, std::uint32_t time);
  // Adds all events of all threads of `slot` before `time`.
  void join_slot(std::uint32_t slot, std::uint32_t time);
  // Keeps what both know (used for "known to everybody").
  void meet(const Clock& o);
  void clear() {
    drop();
    rep_ = nullptr;
  }
  // After a reset of the pool, which has taken the representation back.
  void forget() { rep_ = nullptr; }

  std::uint32_t base(std::uint32_t slot) const { return rep_ != nullptr ? rep_->base[slot] : 0; }

 private:
  friend class ClockPool;
  explicit Clock(ClockRep* rep) : rep_(rep) {}
  bool covers_by_exception(const Epoch& e) const;
  void join_more(const Clock& o);
  void drop();
  void own();  // makes the representation ours alone before a change

  ClockRep* rep_ = nullptr;
};

// Recycles representations. Not synchronised: whoever steps owns the machine.
class ClockPool {
 public:
  explicit ClockPool(std::pmr::memory_resource* memory) : memory_(memory) {}
  ClockPool(const ClockPool&) = delete;
  ClockPool& operator=(const ClockPool&) = delete;
  ~ClockPool();

  Clock make() { return Clock(take()); }
  std::size_t live() const { return live_; }
  // Takes all clocks back at once. Those that still refer to them are forgotten, not destroyed.
  void reset();

 private:
  friend class Clock;
  ClockRep* take();
  void give(ClockRep* rep);

  std::pmr::memory_resource* memory_;
  ClockRep* free_ = nullptr;
  ClockRep* first_ = nullptr;  // all that were made, in that order
  ClockRep* last_ = nullptr;
  ClockRep* fresh_ = nullptr;  // the first of them that was not taken since the reset
  std::size_t live_ = 0;
};

inline void Clock::drop() {
  if (rep_ != nullptr && --rep_->refs == 0) rep_->pool->give(rep_);
}

}  // namespace ringfence::machine
