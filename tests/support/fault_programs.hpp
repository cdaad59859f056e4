#pragma once
// Protocols with their broken twins for the tests of faults: each is right without one.

#include "tests/support/small_programs.hpp"

namespace ringfence::testing {

// Two ranks; each puts its value into the other's inbox and looks for the other's at most so often.
// Then it has no result, or goes on with what it has: silently wrong.
class GivesUp final : public SmallProgram {
 public:
  explicit GivesUp(bool goes_on) : SmallProgram(2), goes_on_(goes_on) {}
  void host(Agent& host, std::uint16_t rank) override {
    launch(host, rank, {[this, rank](Agent& a) {
             store32(a, slot(1 - rank, 0), value(rank), Order::release);
             std::uint64_t got = 0;
             for (int look = 0; look < kLooks && got == 0; ++look) {
               got = load32(a, slot(rank, 0), Order::acquire);
             }
             if (got == 0 && !goes_on_) return;
             if (got + value(rank) != value(0) + value(1)) {
               a.report(finding_of(machine::FindingKind::numeric_mismatch));
             }
           }});
  }

 private:
  static constexpr int kLooks = 16;
  static std::uint32_t value(std::uint16_t rank) { return 10u + rank; }
  bool goes_on_;
};

// Each rank writes its value everywhere and tells everybody; then sums up what arrived. It tells by
// adding 1 to a counter, which has to reach the number of ranks, or by setting a slot of its own.
class Arrivals final : public SmallProgram {
 public:
  Arrivals(std::uint16_t ranks, bool counted) : SmallProgram(ranks), counted_(counted) {}
  void host(Agent& host, std::uint16_t rank) override {
    launch(
        host, rank, {[this, rank](Agent& a) {
          for (std::uint16_t to = 0; to < ranks_; ++to) {
            store32(a, slot(to, 1 + rank), 1 + rank, Order::relaxed);
            if (counted_) {
              const std::uint32_t one = 1;
              a.reduce(slot(to, 0), {.order = Order::release}, std::as_bytes(std::span(&one, 1)),
                       add);
            } else {
              store32(a, slot(to, 20 + rank), 1, Order::release);
            }
          }
          if (counted_) {
            a.await(slot(rank, 0), {.order = Order::acquire}, {machine::Compare::ge, ranks_});
          }
          std::uint64_t sum = 0, due = 0;
          for (std::uint16_t from = 0; from < ranks_; ++from) {
            if (!counted_) {
              a.await(slot(rank, 20 + from), {.order = Order::acquire}, {machine::Compare::eq, 1});
            }
            sum += load32(a, slot(rank, 1 + from), Order::relaxed);
            due += 1 + from;
          }
          if (sum != due) a.report(finding_of(machine::FindingKind::numeric_mismatch));
        }});
  }

 private:
  bool counted_;
};

// One rank with a pad of one word, which has to be 0 at the end. It leaves it alone, or adds 1.
class UnusedPad final : public SmallProgram {
 public:
  explicit UnusedPad(bool writes) : SmallProgram(1), writes_(writes) {}
  void set_up(Machine& machine, std::pmr::memory_resource* memory) override {
    SmallProgram::set_up(machine, memory);
    pad_ = machine.add_region({.rank = 0, .kind = machine::RegionKind::signal, .bytes = 4});
  }
  void host(Agent& host, std::uint16_t rank) override {
    launch(host, rank, {[this](Agent& a) {
             if (writes_) a.rmw({pad_, 0}, {.order = Order::relaxed}, 1, add);
           }});
  }
  void after_run(Machine& machine) override {
    std::uint32_t now = 0;
    machine.peek({pad_, 0}, std::as_writable_bytes(std::span(&now, 1)));
    if (now != 0) machine.report(finding_of(machine::FindingKind::unrestored_signal));
  }

 private:
  bool writes_;
  machine::RegionId pad_ = 0;
};

}  // namespace ringfence::testing
