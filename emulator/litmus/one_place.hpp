// Threads that meet others at one location alone: their part of a test, without the search.
//
// Where all accesses of a location are morally strong with one another, and the threads that make
// them make no others, the axioms leave these accesses an order, one behind the other: Coherence,
// SC per location and Atomicity are about this location, and Causality, Fence-SC and No Thin Air
// ask nothing that such an order lacks. What the others do does not depend on it: base causality
// leads from thread to thread at locations and barriers, and these threads have no other ones. So
// each of their ends goes with every execution of the rest. Orders are counted by what can be told
// apart (how far each thread is, the location's value, the registers that something needs): n
// atomics have n! orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

class OnePlace {
 public:
  // By thread: live_registers() of its code.
  using Live = std::vector<std::vector<std::vector<bool>>>;
  // Fewer accesses than this are left to the search.
  static constexpr std::size_t kFewest = 4;

  // Those of `test`. `memory_of`: by location, the memory that it names.
  static std::vector<OnePlace> find(const Test& test, const std::vector<LocationId>& memory_of);

  LocationId location() const { return location_; }
  const std::vector<std::size_t>& threads() const { return threads_; }

  // How a run begins: the location's value, and the registers of every thread of the test.
  struct Start {
    std::int64_t value = 0;
    std::vector<std::vector<std::int64_t>> registers;
  };
  // The values that these may have in the end, each once: registers of the threads, and the
  // location (thread -1). `live` knows that they are needed. Fewer where schedule::must_stop().
  std::vector<std::vector<std::int64_t>> ends(const Test& test, const Start& start,
                                              const Live& live,
                                              const std::vector<Variable>& observed) const;

 private:
  OnePlace(LocationId location, std::vector<std::size_t> threads)
      : location_(location), threads_(std::move(threads)) {}

  LocationId location_;
  std::vector<std::size_t> threads_;
};

}  // namespace ringfence::litmus
