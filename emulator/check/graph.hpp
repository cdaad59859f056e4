#pragma once
// Execution graphs: what the search explores one by one.
//
// A graph is a list of events in the order in which the search added them (their stamps). It names
// for each read the write that it returns (reads-from), for each write what coherence puts behind
// it, and for each fence.sc the fences behind it in fence-sc order. Program order is in the names:
// event (agent, n) is the agent's n-th counted access. A graph says nothing of times: whatever
// order of execution respects program order and reads-from gives the same run, so one run stands
// for all of them.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "emulator/machine/access.hpp"

namespace ringfence::check {

// An access by name. `agent` counts the labels that the search has met (Agents).
struct Name {
  std::uint32_t agent = 0;
  std::uint32_t nth = 0;
  friend auto operator<=>(const Name&, const Name&) = default;
};
// The content before every launch; a write that is no event (weak, where races end a run): of those
// that an access may return there is one, the last that precedes it; the message that all
// reductions of a cell together leave (see Sets in walk.hpp).
inline constexpr Name kInitial{~std::uint32_t{0}, 0};
inline constexpr Name kUnknown{~std::uint32_t{0}, 1};
inline constexpr Name kTotal{~std::uint32_t{0}, 2};
// The reductions of a counter that `after` names (counters.cpp).
inline constexpr Name kSome{~std::uint32_t{0}, 4};
// A write that is still to come (foresight.hpp): the read returns it whatever else happens.
inline constexpr Name kLater{~std::uint32_t{0}, 3};

struct CellKey {
  machine::RegionId region = 0;
  std::uint64_t offset = 0;
  std::uint8_t size = 0;
  friend auto operator<=>(const CellKey&, const CellKey&) = default;
};
// fence.sc are events of one cell of their own: fence-sc order is its coherence order.
inline constexpr CellKey kFences{~machine::RegionId{0}, 0, 1};
// Which lanes of a warp go first, where that is explored (lanes.cpp), and whether a look misses
// what comes asynchronously: a read of such an option.
inline constexpr CellKey kLanes{~machine::RegionId{0}, 1, 1};
inline constexpr Name kFirstOption{~std::uint32_t{0}, 16};

// A set of events closed under program order and reads-from, as the count of accesses by agent.
// Copies share the counts until one of them is changed: most pasts are that of another event, too.
class Prefix {
 public:
  bool has(const Name& n) const {
    return counts_ != nullptr && n.agent < counts_->size() && n.nth < (*counts_)[n.agent];
  }
  bool has(const Prefix& o) const;
  void join(const Prefix& o);
  // Whether they are known to be equal.
  bool shares(const Prefix& o) const { return counts_ == o.counts_; }
  void add(const Name& n);

 private:
  using Counts = std::vector<std::uint32_t>;
  Counts& own();
  std::shared_ptr<Counts> counts_;
};

// One cell of an access. A read-modify-write is a read and a write of one name and piece.
struct Event {
  Name self;
  std::uint16_t piece = 0;  // which cell of the access
  bool write = false;       // else a read
  bool stuck = false;       // a poll that sees `from` for ever: its wait never ends
  bool late = false;        // stuck, though what is newest when it could look ends its wait
  bool open = false;        // a write whose place is still to be explored
  bool pointed = false;     // at the point of coherence: order of execution is coherence order
  machine::Scope scope = machine::Scope::sys;  // of a fence.sc
  CellKey cell;
  Name from;  // reads
  // Writes: of the events with smaller stamps, those behind this one. A stuck poll: the writes that
  // are executed before `from`, though nothing orders them (settle.cpp). A wait at a counter: the
  // reductions that come before it.
  std::vector<Name> after;
  // Which of its agent's threads it is of; kNoThread where that is not known.
  static constexpr std::uint8_t kNoThread = 0xFF;
  std::uint8_t thread = kNoThread;
  // Mode coherent: its name among those of its lane, and what had to come before it, itself
  // included, were lanes of a warp threads (lanes.cpp). Unknown where the search that goes on had
  // not come to it.
  Name lane = kUnknown;
  Prefix lane_past;
  std::uint16_t site = 0;  // the same
  bool waits = false;      // the same: it is a poll
};

using Graph = std::vector<Event>;

// The values that a cell may have at the end of a run whose last writes are a set (Sets).
struct OpenEnd {
  CellKey cell;
  std::vector<std::uint64_t> values;
};

// An order that was not explored, or what else executions have and no run does. Sites are the
// program's.
struct LeftOut {
  enum class What : std::uint8_t {
    // The warp with this label, or another lane of it, first at the site where both are one; else
    // of its lanes, one of which acted at `first` before another one did something that comes
    // before
    // `second`.
    lanes,
    // An execution was not reached: what it has waits for this warp, which stands at `first`, an
    // access that it does not have.
    unreached,
    // A look in vain of this warp, at `first`, which writes what it found, over the write at
    // `second`, which it races with.
    look,
    // A place has more writes than the machine keeps: at `first` it forgets one that somebody who
    // has not heard of the next ones could still return.
    forgotten,
    // An access of this warp, at `first`, whose place was accessed in other sizes since: what it
    // would have done later is not known.
    resized,
    // A write of this warp, at `first`, and the one at `second`, which race, in another order,
    // where
    // something at the point of coherence (mode coherent) or a poll that is stuck could tell.
    unordered,
    // What this warp does at `first` at one replica came before what it does at another one, and of
    // the latter somebody had heard who had not heard of the former.
    replicas
  };
  std::uint64_t label = 0;
  std::uint16_t first = 0;
  std::uint16_t second = 0;
  What what = What::lanes;
  friend auto operator<=>(const LeftOut&, const LeftOut&) = default;
  static constexpr std::string_view kWords[] = {"lanes",   "unreached", "look",    "forgotten",
                                                "resized", "unordered", "replicas"};
  std::string_view word() const { return kWords[static_cast<std::size_t>(what)]; }
};

// Whether coherence (or fence-sc order) puts the write `late` before `early`, which has a smaller
// stamp.
bool overtakes(const Event& late, const Event& early);

}  // namespace ringfence::check
