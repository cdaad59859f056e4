#include "emulator/machine/clock.hpp"

#include <algorithm>

namespace ringfence::machine {

namespace {

auto find(std::pmr::vector<Exception>& v, ThreadId thread) {
  return std::lower_bound(v.begin(), v.end(), thread,
                          [](const Exception& e, ThreadId t) { return e.thread < t; });
}

void drop_covered(ClockRep& rep) {
  std::erase_if(rep.exceptions, [&](const Exception& e) { return e.time <= rep.base[e.slot]; });
}

// What the two say of single threads, where the base does not. Both are sorted by thread; of two of
// one thread the later stays.
void set_exceptions(ClockRep& rep, const std::pmr::vector<Exception>& one,
                    const std::pmr::vector<Exception>& other) {
  thread_local std::vector<Exception> merged;
  if (merged.size() < one.size() + other.size()) merged.resize(one.size() + other.size());
  Exception* out = merged.data();
  const auto put = [&](const Exception& e) {
    *out = e;
    out += e.time > rep.base[e.slot] ? 1 : 0;
  };
  const Exception* a = one.data();
  const Exception* b = other.data();
  const Exception* const end_a = a + one.size();
  const Exception* const end_b = b + other.size();
  while (a != end_a && b != end_b) {
    if (a->thread < b->thread) {
      put(*a++);
    } else if (b->thread < a->thread) {
      put(*b++);
    } else {
      put(a->time < b->time ? *b : *a);
      ++a, ++b;
    }
  }
  while (a != end_a) put(*a++);
  while (b != end_b) put(*b++);
  rep.exceptions.assign(merged.data(), out);
}

// Adds every event of `o` to what nobody shares.
void add(ClockRep& rep, const ClockRep& o) {
  rep.base.join(o.base);
  if (!o.exceptions.empty()) {
    set_exceptions(rep, rep.exceptions, o.exceptions);
  } else if (!rep.exceptions.empty()) {
    drop_covered(rep);
  }
}

}  // namespace

void SlotTimes::more_room(std::uint32_t size) {
  std::uint32_t room = room_;
  while (room < size) room *= 2;
  auto* more = static_cast<std::uint32_t*>(
      memory_->allocate(room * sizeof(std::uint32_t), alignof(std::uint32_t)));
  std::copy_n(data_, size_, more);
  give_back();
  data_ = more;
  room_ = room;
}

void SlotTimes::give_back() {
  if (data_ == own_) return;
  memory_->deallocate(data_, room_ * sizeof(std::uint32_t), alignof(std::uint32_t));
}

bool Clock::covers_by_exception(const Epoch& e) const {
  auto it = find(rep_->exceptions, e.thread);
  return it != rep_->exceptions.end() && it->thread == e.thread && e.time < it->time;
}

bool Clock::covers(const Clock& o) const {
  if (o.rep_ == nullptr || o.rep_ == rep_) return true;
  if (rep_ == nullptr) return false;
  // A base can also be covered thread by thread; that is not worth finding here: the answer "no"
  // only costs a join that changes nothing.
  const SlotTimes& base = rep_->base;
  const SlotTimes& other = o.rep_->base;
  const std::uint32_t both = std::min(base.size(), other.size());
  std::uint32_t beyond = 0;  // without a branch, so that it is done several slots at a time
  for (std::uint32_t s = 0; s < both; s += SlotTimes::kStep) {
    for (std::uint32_t i = 0; i < SlotTimes::kStep; ++i) {
      beyond |= other.data()[s + i] > base.data()[s + i] ? 1 : 0;
    }
  }
  for (std::uint32_t s = both; s < other.size(); ++s) beyond |= other.data()[s];
  if (beyond != 0) return false;
  auto mine = rep_->exceptions.begin();
  const auto end = rep_->exceptions.end();
  for (const Exception& e : o.rep_->exceptions) {
    if (e.time <= base[e.slot]) continue;
    while (mine != end && mine->thread < e.thread) ++mine;
    if (mine == end || mine->thread != e.thread || mine->time < e.time) return false;
  }
  return true;
}

void Clock::own() {
  if (rep_->refs == 1) return;
  ClockRep* fresh = rep_->pool->take();
  fresh->base.assign(rep_->base);
  if (!rep_->exceptions.empty()) {
    fresh->exceptions.assign(rep_->exceptions.begin(), rep_->exceptions.end());
  }
  --rep_->refs;
  rep_ = fresh;
}

void Clock::join_more(const Clock& o) {
  if (rep_ == nullptr) {
    *this = o;
    return;
  }
  // What nobody shares is as well joined as compared.
  if (rep_->refs == 1) return add(*rep_, *o.rep_);
  if (covers(o)) return;
  ClockRep* const fresh = rep_->pool->take();
  fresh->base.assign_later(rep_->base, o.rep_->base);
  if (!rep_->exceptions.empty() || !o.rep_->exceptions.empty()) {
    set_exceptions(*fresh, rep_->exceptions, o.rep_->exceptions);
  }
  --rep_->refs;
  rep_ = fresh;
}

void Clock::join_beyond(const Clock& o, std::uint32_t slot, std::uint32_t time) {
  if (o.rep_ == nullptr) {
    own();
  } else if (rep_->refs == 1) {
    add(*rep_, *o.rep_);
  } else {
    join_more(o);
    own();
  }
  if (rep_->base[slot] >= time) return;
  rep_->base.set(slot, time);
  if (!rep_->exceptions.empty()) drop_covered(*rep_);
}

void Clock::join_thread(ThreadId thread, std::uint32_t slot, std::uint32_t time) {
  if (time == 0 || covers(Epoch{thread, slot, time - 1})) return;
  own();
  auto it = find(rep_->exceptions, thread);
  if (it != rep_->exceptions.end() && it->thread == thread) {
    it->time = time;
  } else {
    rep_->exceptions.insert(it, Exception{thread, slot, time});
  }
}

void Clock::join_slot(std::uint32_t slot, std::uint32_t time) {
  if (base(slot) >= time) return;
  own();
  rep_->base.set(slot, time);
  if (!rep_->exceptions.empty()) drop_covered(*rep_);
}

void Clock::meet(const Clock& o) {
  if (o.rep_ == rep_) return;
  own();
  if (o.rep_ == nullptr) {
    rep_->base.clear();
    rep_->exceptions.clear();
    return;
  }
  // What a clock knows of single threads beyond the other's base is given up: the result is a
  // lower bound, which is what garbage collection needs.
  for (std::uint32_t s = 0; s < rep_->base.size(); ++s) {
    std::uint32_t& mine = rep_->base.data()[s];
    mine = std::min(mine, o.base(s));
  }
  rep_->exceptions.clear();
}

ClockPool::~ClockPool() {
  while (first_ != nullptr) {
    ClockRep* next = first_->next_made;
    first_->~ClockRep();
    memory_->deallocate(first_, sizeof(ClockRep), alignof(ClockRep));
    first_ = next;
  }
}

void ClockPool::reset() {
  free_ = nullptr;
  fresh_ = first_;
  live_ = 0;
}

ClockRep* ClockPool::take() {
  ClockRep* rep = free_;
  if (rep != nullptr) {
    free_ = rep->next_free;
  } else if (fresh_ != nullptr) {
    rep = fresh_;
    fresh_ = rep->next_made;
  } else {
    rep = ::new (memory_->allocate(sizeof(ClockRep), alignof(ClockRep))) ClockRep(this, memory_);
    (last_ == nullptr ? first_ : last_->next_made) = rep;
    last_ = rep;
  }
  rep->base.clear();
  rep->exceptions.clear();
  rep->refs = 1;
  ++live_;
  return rep;
}

void ClockPool::give(ClockRep* rep) {
  rep->next_free = free_;
  free_ = rep;
  --live_;
}

}  // namespace ringfence::machine
