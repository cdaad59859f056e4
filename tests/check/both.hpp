#pragma once
// One litmus test through the search over the machine and through the axiomatic checker.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "emulator/check/explorer.hpp"
#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/litmus/verdict.hpp"
#include "emulator/machine/policy.hpp"

namespace ringfence::testing {

struct Searched {
  litmus::States states;         // with how many executions ended in each
  bool race = false;             // in a complete execution
  bool race_of_blocked = false;  // in one that waits for ever
  bool race_found = false;       // that ended a run (Races::end)
  bool bounded = false;
  std::set<std::vector<litmus::Waiting>> hangs;  // who waits for ever, and where
  check::CheckResult result;
};

// All executions, going on past races, or up to the first race. `all_run` as LitmusProgram takes
// it, `sets` as CheckSpec.
enum class Races { passed_over, end };
Searched search(const litmus::Test& test, const machine::Policy& policy, bool fingerprints = false,
                std::uint64_t executions = 0, bool all_run = false,
                Races races = Races::passed_over, bool sets = true);
// The same, with those instructions reversed (LitmusProgram) and no others.
Searched search_reversed(const litmus::Test& test, const machine::Policy& policy,
                         std::uint32_t reversed, bool sets);

// The manual's letter: nothing at kernel boundaries, fences between second names.
machine::Policy letter();

// What the two differ in, one line each; empty if they agree on the set of final states and on
// whether there is a race, and if a search that a race ends, for which weak accesses are no events,
// has the same states where there is none. Throws axiomatic::Unsupported. Without load buffering:
// of the executions that some order of execution has. `jumps`:
// axiomatic::Options::max_backward_jumps.
std::string difference(const litmus::Test& test,
                       machine::LoadBuffering buffering = machine::LoadBuffering::on,
                       machine::AliasData aliases = machine::AliasData::fence_required,
                       int jumps = 3);

// The same of waits: what the two differ in of final states and of which threads may wait for ever,
// without load buffering; where nothing races, executions that the search had twice. Of tests
// without barriers.
std::string difference_of_waits(const litmus::Test& test);

// What the search with the rules of waits (CheckSpec::sets) lacks in mode coherent of what it has
// without them, or the other way round. `spared`: whether the rules spare executions.
std::string difference_of_rules(const litmus::Test& test, bool& spared);

// Nothing orders what one multimem.red does at several replicas. What a search of one direction of
// each such instruction, which takes the replicas for counters and makes the parts in one order
// (counters.cpp), lacks of all directions without counters, or the other way round; the same of a
// search that orders the reductions of that one direction, unless it hands the others on. Nothing
// is compared of a test with fewer than 2 or more than 16 directions, nor where the first search
// says what it left out.
struct PartsCompared {
  bool left_out = false, compared = false, handed_on = false;
};
std::string difference_of_parts(const litmus::Test& test, PartsCompared& done);

}  // namespace ringfence::testing
