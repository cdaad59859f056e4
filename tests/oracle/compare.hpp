// One kernel through check, through fuzz, and through the axioms: what must agree.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "emulator/machine/policy.hpp"
#include "tests/oracle/kernel.hpp"

namespace ringfence::oracle {

struct Limits {
  std::uint64_t schedules = 2000;  // of fuzz
  double seconds = 10;             // of a check
  machine::Boundary boundary = machine::Boundary::strict;
};

// What the reads returned, thread by thread, and the global locations in the end.
using Outcome = std::vector<std::uint64_t>;
using Outcomes = std::set<Outcome>;

enum class Verdict : std::uint8_t { pass, fail, unknown };

struct Judged {
  Verdict verdict = Verdict::unknown;  // of check, no finding passed over
  std::string finding;                 // its kind, where it fails
  // All executions were seen, past races and waits without an end if it fails. Not where it then
  // still fails: what is undefined leaves nothing to compare.
  bool whole = false;
  bool undefined = false;
  std::string left_out;  // what check names as not explored
  std::uint64_t executions = 0;
  Outcomes outcomes;  // of complete executions
  // What fuzz shows and check does not, one line each; empty: they agree.
  std::string difference;
};

// PASS of check although a schedule of fuzz fails; or an outcome of fuzz that is none of check's;
// or threads that are lanes of a warp have another verdict, or others outcomes, than in warps of
// their own. Where check fails, or `past_findings`, outcomes are compared past races and waits
// without an end.
Judged judge(const Kernel& kernel, const Limits& limits, bool past_findings = false);

std::string text(const Kernel& kernel, const Outcome& outcome);

}  // namespace ringfence::oracle
