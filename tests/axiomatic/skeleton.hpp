// The part of a candidate execution that does not depend on which write a read takes: the events
// of one path of every thread and the relations among them.
#pragma once

#include <utility>
#include <vector>

#include "tests/axiomatic/meetings.hpp"
#include "tests/axiomatic/program.hpp"
#include "tests/axiomatic/relation.hpp"
#include "tests/axiomatic/unfold.hpp"

namespace ringfence::axiomatic {

// Whether a scope of an operation at `from` includes the thread at `to`.
bool includes(const Place& from, Scope scope, const Place& to);

struct Skeleton {
  // Events are numbered: first the initial write of every location, then thread by thread in
  // program order. paths has one path a thread. Throws std::runtime_error past 64 events.
  Skeleton(const Program& program, const std::vector<const Path*>& paths);

  bool is(Set set, int event) const { return (set >> event & 1) != 0; }
  const Event& event(int e) const { return events[static_cast<std::size_t>(e)]; }
  int thread(int e) const { return threads[static_cast<std::size_t>(e)]; }
  int location_count() const { return static_cast<int>(program->locations.size()); }

  const Program* program;
  std::vector<const Path*> paths;
  // The first event of each thread.
  std::vector<int> first;

  int n = 0;
  // dependencies and rmw_write are in the numbers of this skeleton.
  std::vector<Event> events;
  // -1 for initial writes.
  std::vector<int> threads;
  // Of the read that belongs to an atomic's write, or -1.
  std::vector<int> rmw_read;

  Set initial = 0;
  Set reads = 0;
  Set writes = 0;
  Set barriers = 0;
  Set bridges = 0;  // proxy fences
  Set parts = 0;    // of asynchronous operations: in no thread's program order
  // For each location.
  std::vector<Set> writes_to;

  Relation po;
  // At one location, by one proxy and virtual address.
  Relation po_location;
  // From reads to what depends on them; an atomic's read to its write is in rmw only.
  Relation dependency;
  Relation rmw;
  // Asynchronous operations: from each part to the next, and to the wait for its group.
  Relation async;
  // From an Issue to its parts. What precedes the issue precedes them, but what their end orders
  // after them is not after it (PTX ISA 9.7.10.28.4.1).
  Relation issue;
  // Morally strong, symmetric, without the diagonal.
  Relation strong;
  // For a write: the first operations of the release patterns whose write it is. For a read: the
  // last operations of the acquire patterns whose read it is.
  std::vector<Set> release_starts;
  std::vector<Set> acquire_ends;

  // Pairs of morally strong fence.sc of different threads, the smaller event first.
  std::vector<std::pair<int, int>> sc_pairs;

  // The writes that a read may take. Leaves out only what the axioms exclude in every execution,
  // and values that the paths' guesses exclude.
  std::vector<Set> sources;

  // How the barriers can be met; none if some thread waits for ever however they are.
  std::vector<Meeting> meetings;
  bool meets_undefined = false;  // some order of arrivals is undefined (meetings.hpp)

 private:
  void add_events();
  void relate_in_program_order();
  void relate_asynchronous();
  void relate_morally_strong();
  void find_patterns();
  void find_sources();
  void drop_wrong_values();
};

}  // namespace ringfence::axiomatic
