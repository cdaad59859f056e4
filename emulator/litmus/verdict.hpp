// The verdict of a test from its final states, and herd7's block that shows it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/condition.hpp"

namespace ringfence::litmus {

// How often the condition's formula held over all executions.
enum class Observation { Never, Sometimes, Always };

// Final states, with how many executions ended in each (at least 1).
using States = std::map<State, std::uint64_t>;

struct Verdict {
  // Executions that pass the filter and satisfy the formula (without its quantifier), or do not.
  std::uint64_t satisfying = 0;
  std::uint64_t others = 0;
  Observation observation = Observation::Never;
  // The condition with its quantifier holds. With no execution at all `exists` fails, the two
  // others hold of nothing and are not ok either: a test that never ended proves nothing. What
  // holds in the end does not hold where there is none: `forall` fails if an execution hangs.
  bool ok = false;
  // It stays so whatever other executions there are: a witness, or a counterexample, was seen.
  bool decided = false;
};

// states are over observed_variables(test); hangs: some execution never ends.
Verdict judge(const Test& test, const States& states, bool hangs = false);

// The block as herd7 prints it, without the time:
//     Test NAME Allowed|Forbidden|Required
//     States N
//     x=1; P1:r0=0;
//     Ok|No
//     Witnesses
//     Positive: n Negative: m          counts for the quantified condition, as herd7 does
//     Condition ~exists (…)
//     Observation NAME Never|Sometimes|Always n m
std::string herd_block(const Test& test, const States& states, bool hangs = false);

// "x=1; P1:r0=0;"
std::string state_text(const Test& test, const State& state);

// Never, Sometimes, Always.
std::string to_string(Observation observation);

}  // namespace ringfence::litmus
