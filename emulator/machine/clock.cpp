#include "emulator/machine/clock.hpp"

#include <algorithm>

namespace ringfence::machine {

namespace {

std::uint32_t base_of(const ClockRep& rep, std::uint32_t slot) {
  return slot < rep.base.size() ? rep.base[slot] : 0;
}

auto find(std::pmr::vector<Exception>& v, ThreadId thread) {
  return std::lower_bound(v.begin(), v.end(), thread,
                          [](const Exception& e, ThreadId t) { return e.thread < t; });
}

// Both are sorted by thread; of two of one thread the later stays.
void merge(std::pmr::vector<Exception>& into, const std::pmr::vector<Exception>& from) {
  thread_local std::vector<Exception> merged;
  merged.clear();
  auto a = into.begin();
  for (const Exception& e : from) {
    while (a != into.end() && a->thread < e.thread) merged.push_back(*a++);
    if (a != into.end() && a->thread == e.thread) {
      merged.push_back({e.thread, e.slot, std::max(a++->time, e.time)});
    } else {
      merged.push_back(e);
    }
  }
  merged.insert(merged.end(), a, into.end());
  into.assign(merged.begin(), merged.end());
}

void drop_covered(ClockRep& rep) {
  std::erase_if(rep.exceptions, [&](const Exception& e) { return e.time <= base_of(rep, e.slot); });
}

}  // namespace

bool Clock::covers_by_exception(const Epoch& e) const {
  auto it = find(rep_->exceptions, e.thread);
  return it != rep_->exceptions.end() && it->thread == e.thread && e.time < it->time;
}

bool Clock::covers(const Clock& o) const {
  if (o.rep_ == nullptr || o.rep_ == rep_) return true;
  if (rep_ == nullptr) return false;
  // A base can also be covered thread by thread; that is not worth finding here: the answer "no"
  // only costs a join that changes nothing.
  const auto& base = rep_->base;
  const auto& other = o.rep_->base;
  const std::size_t both = std::min(base.size(), other.size());
  std::uint32_t beyond = 0;  // without a branch, so that it is done several slots at a time
  for (std::size_t s = 0; s < both; ++s) beyond |= other[s] > base[s] ? 1 : 0;
  for (std::size_t s = both; s < other.size(); ++s) beyond |= other[s];
  if (beyond != 0) return false;
  for (const Exception& e : o.rep_->exceptions) {
    if (!covers(Epoch{e.thread, e.slot, e.time - 1})) return false;
  }
  return true;
}

void Clock::own() {
  if (rep_->refs == 1) return;
  ClockRep* fresh = rep_->pool->take();
  fresh->base.assign(rep_->base.begin(), rep_->base.end());
  fresh->exceptions.assign(rep_->exceptions.begin(), rep_->exceptions.end());
  --rep_->refs;
  rep_ = fresh;
}

void Clock::join(const Clock& o) {
  if (o.rep_ == nullptr || o.rep_ == rep_) return;
  if (rep_ == nullptr) {
    *this = o;
    return;
  }
  // What nobody shares is as well joined as compared.
  if (rep_->refs != 1) {
    if (covers(o)) return;
    own();
  }
  auto& base = rep_->base;
  const auto& other = o.rep_->base;
  if (base.size() < other.size()) base.resize(other.size(), 0);
  for (std::size_t s = 0; s < other.size(); ++s) base[s] = std::max(base[s], other[s]);
  if (!o.rep_->exceptions.empty()) merge(rep_->exceptions, o.rep_->exceptions);
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
  if (rep_->base.size() <= slot) rep_->base.resize(slot + 1, 0);
  rep_->base[slot] = time;
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
  for (std::size_t s = 0; s < rep_->base.size(); ++s) {
    rep_->base[s] = std::min(rep_->base[s], o.base(static_cast<std::uint32_t>(s)));
  }
  rep_->exceptions.clear();
}

ClockPool::~ClockPool() {
  while (made_ != nullptr) {
    ClockRep* next = made_->next_made;
    made_->~ClockRep();
    memory_->deallocate(made_, sizeof(ClockRep), alignof(ClockRep));
    made_ = next;
  }
}

void ClockPool::reset() {
  free_ = nullptr;
  for (ClockRep* rep = made_; rep != nullptr; rep = rep->next_made) {
    rep->next_free = free_;
    free_ = rep;
  }
  live_ = 0;
}

ClockRep* ClockPool::take() {
  ClockRep* rep = free_;
  if (rep != nullptr) {
    free_ = rep->next_free;
    rep->base.clear();
    rep->exceptions.clear();
  } else {
    rep = ::new (memory_->allocate(sizeof(ClockRep), alignof(ClockRep))) ClockRep(this, memory_);
    rep->next_made = made_;
    made_ = rep;
  }
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
