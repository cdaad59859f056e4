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

// The foresights of a search: each is handed out once. A read may be told anything at first: a run
// whose write turns out to write something else is repeated with that value, and only where the
// program then goes another way is the value searched with by itself.
class Foresights {
 public:
  struct Next {
    std::shared_ptr<const Foresight> foresight;
    std::uint32_t corrections = 0;
  };
  // What a read is told is what its write will write, and that does not depend on the read: it is
  // right after as many corrections as values depend on one another. More than this are given up.
  static constexpr std::uint32_t kCorrections = 32;

  // One more read, unless it was foreseen to return that write (with any value).
  void propose(const Next& from, const Foreseen& more);
  // The same reads and writes with these values.
  void propose_values(const Next& values);
  std::optional<Next> next();
  void clear() { *this = Foresights{}; }

 private:
  std::deque<Next> due_;
  std::set<Foresight> known_;   // handed out or due
  std::set<Foresight> writes_;  // the same with all values 0
};

// With these in place of what was foreseen for the same reads.
Foresight corrected(Foresight foresight, const std::vector<Foreseen>& by);

}  // namespace ringfence::check
