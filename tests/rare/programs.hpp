#pragma once
// Programs without races that have one wrong outcome among very many right ones: what a search is
// measured by. All accesses that ranks share are strong; what a rank saw it notes by weak writes of
// its own, and the end check looks at the notes.
//
// Each has a mended twin, in which a lock makes every rank's part one step for the others: the
// outcome needs their steps to alternate, so then it cannot come.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/small_programs.hpp"

namespace ringfence::testing {

// What the code of a rank uses. Places are words of rank 0; sites number the lines of a program.
class RareRank {
 public:
  RareRank(Agent& agent, const SmallProgram& program, std::uint16_t rank)
      : agent_(agent), program_(program), rank_(rank) {}

  std::uint32_t rank() const { return rank_; }
  std::uint32_t load(std::uint32_t place, std::uint16_t site) {
    std::uint32_t v = 0;
    agent_.read(word(place), access(site), std::as_writable_bytes(std::span(&v, 1)));
    return v;
  }
  void store(std::uint32_t place, std::uint32_t value, std::uint16_t site) {
    agent_.write(word(place), access(site), std::as_bytes(std::span(&value, 1)));
  }
  std::uint32_t add(std::uint32_t place, std::uint32_t value, std::uint16_t site) {
    return static_cast<std::uint32_t>(agent_.rmw(word(place), access(site), value, testing::add));
  }
  std::uint32_t swap(std::uint32_t place, std::uint32_t value, std::uint16_t site) {
    return static_cast<std::uint32_t>(agent_.rmw(word(place), access(site), value,
                                                 [](std::uint64_t, std::uint64_t v) { return v; }));
  }
  bool cas(std::uint32_t place, std::uint32_t from, std::uint32_t to, std::uint16_t site) {
    return agent_.cas(word(place), access(site), from, to) == from;
  }
  // Note number `i` of this rank.
  void note(std::uint32_t i, std::uint32_t value) {
    agent_.write(program_.slot(rank_, kNotes + i), {}, std::as_bytes(std::span(&value, 1)));
  }

  static constexpr std::uint32_t kNotes = 128, kLock = 120;

 private:
  Address word(std::uint32_t place) const { return program_.slot(0, place); }
  static Access access(std::uint16_t site) { return {.order = Order::relaxed, .site = site}; }

  Agent& agent_;
  const SmallProgram& program_;
  std::uint16_t rank_;
};

// The notes of all ranks, and the words at the end.
class RareEnd {
 public:
  RareEnd(const Machine& machine, const SmallProgram& program)
      : machine_(machine), program_(program) {}
  std::uint32_t note(std::uint16_t rank, std::uint32_t i) const {
    return peek(program_.slot(rank, RareRank::kNotes + i));
  }
  std::uint32_t word(std::uint32_t place) const { return peek(program_.slot(0, place)); }

 private:
  std::uint32_t peek(Address at) const {
    std::uint32_t v = 0;
    machine_.peek(at, std::as_writable_bytes(std::span(&v, 1)));
    return v;
  }
  const Machine& machine_;
  const SmallProgram& program_;
};

struct Rare {
  const char* name;
  const char* outcome;  // the wrong one
  std::uint16_t ranks;
  std::function<void(RareRank&)> part;
  std::function<bool(const RareEnd&)> wrong;
};

class RareProgram final : public SmallProgram {
 public:
  explicit RareProgram(const Rare& rare, bool mended = false)
      : SmallProgram(rare.ranks), rare_(rare), mended_(mended) {}
  void host(Agent& host, std::uint16_t rank) override {
    launch(host, rank, {[this, rank](Agent& a) {
             RareRank here(a, *this, rank);
             const Address lock = slot(0, RareRank::kLock);
             if (mended_) a.await_cas(lock, {.order = Order::acquire}, 0, 1);
             rare_.part(here);
             if (mended_) store32(a, lock, 0, Order::release);
           }});
  }
  void after_run(Machine& machine) override {
    if (rare_.wrong(RareEnd(machine, *this))) {
      machine.report(finding_of(machine::FindingKind::numeric_mismatch));
    }
  }

 private:
  const Rare& rare_;
  bool mended_;
};

const std::vector<Rare>& rare_programs();

}  // namespace ringfence::testing
