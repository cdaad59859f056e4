#pragma once
// The outcomes of a litmus test under sequential consistency, by enumeration of the interleavings.
// In mode coherent strong accesses of scope sys go to the point of coherence, in order of
// execution: of a test that has no others, these are its outcomes, load buffering apart.

#include <set>
#include <string>
#include <vector>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/condition.hpp"

namespace ringfence::testing {

struct Interleaved {
  std::set<litmus::State> states;    // over observed_variables(test)
  std::set<std::vector<int>> hangs;  // the threads that never end
};

// Of loads, stores and atomics of one element of a location by name, fences, registers' arithmetic
// and branches. Throws std::invalid_argument where the test has anything else, or does not come to
// rest (threads that go round for ever and change something).
Interleaved interleaved(const litmus::Test& test);

// The same test with strong accesses of scope sys alone.
litmus::Test all_strong(litmus::Test test);

// What the search in mode coherent and the interleavings differ in, and executions that it had
// twice.
std::string difference_of_order(const litmus::Test& test);

}  // namespace ringfence::testing
