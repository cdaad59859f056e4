#pragma once
// A run's events, asked about: what an agent did, what had been written to a place, what a read
// took.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "emulator/machine/event.hpp"
#include "emulator/machine/finding.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/graph.hpp"

namespace ringfence::trace {

inline bool is_write(const machine::Event& e) {
  return e.kind == machine::Event::Kind::write || e.kind == machine::Event::Kind::rmw;
}
inline bool is_read(const machine::Event& e) {
  return machine::is_access(e.kind) && e.kind != machine::Event::Kind::write;
}
inline bool covers(const machine::Event& e, std::uint32_t region, std::uint64_t offset) {
  return machine::is_access(e.kind) && e.address.region == region && e.address.offset <= offset &&
         offset < e.address.offset + std::max(1U, e.bytes);
}

// A block of threads in one launch: those that a block barrier joins.
struct Team {
  std::uint16_t rank, call, group;
  schedule::Role role;
  std::uint32_t block;
  friend auto operator<=>(const Team&, const Team&) = default;
};
Team team_of(std::uint64_t label);
inline std::uint16_t rank_of(std::uint64_t label) { return schedule::unpack(label).rank; }
// Where a launch stands in its rank's order, streams left out.
using LaunchNumber = std::tuple<int, int, int>;  // call, product or kernel or consumer, launch
LaunchNumber number_of(std::uint64_t label);

class History {
 public:
  History(std::span<const machine::Event> events, const machine::Policy& policy);

  std::span<const machine::Event> events() const { return events_; }
  const machine::Event& operator[](EventIndex i) const { return events_[i]; }
  // The event of an access; kNoEvent if there is none.
  EventIndex find(const machine::AccessInfo& a) const;
  // By event: whether it happens before `of` (the order of graph.hpp).
  std::vector<bool> before(EventIndex of) const;
  // The write that a read took; kNoEvent: what was there at the start.
  EventIndex source(EventIndex read) const { return graph_.source[read]; }
  // Writes of a place, ascending.
  std::vector<EventIndex> writes_of(std::uint32_t region, std::uint64_t offset) const;
  // Whether the same agent looks there again by the same line behind `i`: then that look was in
  // vain, or led on to another.
  bool looks_again(EventIndex i) const;

 private:
  std::span<const machine::Event> events_;
  Graph graph_;
  std::unordered_map<std::uint32_t, std::vector<EventIndex>> at_step_;
};

}  // namespace ringfence::trace
