#pragma once
// Load buffering: which reads of a run return writes that are still to come, and their values.

#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "emulator/check/graph.hpp"

namespace ringfence::check {

// An access by the thread's label and how many accesses of that label came before it; unlike
// Name::nth this counts the accesses that the search does not explore.
struct Place {
  std::uint64_t label = 0;
  std::uint32_t nth = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// The read is to return `value`, which the write will turn out to have written.
struct Foreseen {
  Place read;
  CellKey cell;
  Place write;
  std::uint64_t value = 0;
  friend auto operator<=>(const Foreseen&, const Foreseen&) = default;
};

// Sorted, one for a read and cell.
using Foresight = std::vector<Foreseen>;

// Of an access that is about to be made.
const Foreseen* find(const Foresight& foresight, const Place& read, const CellKey& cell);

// What a run asks for: another run in which one more read is foreseen, or one that was returns
// another value.
struct Proposal {
  Foreseen what;
  // The write came after what the read's own atomic left, so its value is right by chance at most;
  // but told anything, the atomic leaves to others what it took here. Then they show the value.
  bool seed = false;
};

// The foresights of a search: each is handed out once. Seeds come last, and only where nothing
// else has been foreseen for that read and write.
class Foresights {
 public:
  struct Next {
    std::shared_ptr<const Foresight> foresight;
    std::uint32_t corrections = 0;
  };
  // A read is told what its write will write, and that does not depend on the read: a value is
  // right after as many corrections as values depend on one another. More than this are refused.
  static constexpr std::uint32_t kCorrections = 32;

  // `from`: of the run that asks. False: too many corrections.
  bool propose(const Foresight& from, std::uint32_t corrections, const Proposal& proposal);
  std::optional<Next> next();
  void clear() { *this = Foresights{}; }

 private:
  std::deque<Next> plain_;
  std::deque<std::pair<Next, Foresight>> seeds_;  // with what `known_` would have
  std::set<Foresight> known_;                     // handed out or due
  std::set<Foresight> some_value_;                // the same with one value taken out
};

}  // namespace ringfence::check
