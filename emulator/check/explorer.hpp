#pragma once
// Exhaustive search: every execution graph of a program within bounds, one run each (walk.hpp).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/check/axioms.hpp"
#include "emulator/check/graph.hpp"
#include "emulator/check/record.hpp"
#include "emulator/check/resume.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::check {

// Load buffering (run.policy.load_buffering) is explored where `all` is set, in the modes strict
// and stream: in mode coherent order of execution is what the mode is about. A read returns a later
// write only if the program says that something does not depend on it (machine::Access::depends).
struct CheckSpec {
  // Policy, ignored findings, limit of points; its strategy is not used. Where races are ignored,
  // weak accesses are events too, and a read that races may return any of the racing writes.
  schedule::RunSpec run;
  // Take reductions for sets, and of writes that end a wait alike the first, where that is exact.
  bool sets = true;
  bool all = false;              // go on past findings and deadlocks, which are counted
  std::uint64_t executions = 0;  // at most so many, complete or not; 0: no limit
  double seconds = 0;            // at most; 0: no limit
  bool fingerprints = false;     // count how often a graph was reached twice (tests)
  // Whether the program makes the same accesses whatever it reads, so far as the run that just
  // ended shows (compare-and-swaps may fail): load buffering is then searched with less. None: it
  // may not.
  std::function<bool(const schedule::Program&)> straight;
  // Called with each program that ran, once the search is over.
  std::function<void(const schedule::Program&)> leaving;
  const Left* left = nullptr;  // go on with what an earlier search left
  // Which order the program's sums take where it lets the strategy choose one (modulo the number of
  // orders that it offers).
  std::uint32_t sum_order = 0;
};

enum class Verdict : std::uint8_t { pass, fail, unknown };

struct CheckResult {
  Verdict verdict = Verdict::unknown;
  std::uint64_t complete = 0;   // executions in which every thread came to its end
  std::uint64_t blocked = 0;    // maximal ones in which some waits for ever
  std::uint64_t bounded = 0;    // given up at the limit of points: not explored to their end
  std::uint64_t torn = 0;       // of these, those that tore what a policy takes for one (AsOne)
  std::uint64_t abandoned = 0;  // runs that turned out to be no execution
  std::uint64_t repeated = 0;   // complete graphs met again (only with fingerprints)
  std::uint64_t findings = 0;
  // With load buffering: of the complete and blocked ones, those that have no order of execution;
  // runs that the axioms rule out; and runs that they cannot judge (cells of overlapping sizes).
  std::uint64_t out_of_order = 0, ruled_out = 0, unjudged = 0;
  std::uint64_t events = 0;  // of the largest execution
  double seconds = 0;
  double explored = 0;        // estimate of the share of the search that is done, 0 to 1
  std::uint64_t waiting = 0;  // graphs that are found and not explored, while the search goes on
  bool interrupted = false;
  bool of_stream = false;           // mode coherent: it passes in mode stream, whose search this is
  std::uint32_t ordered_cells = 0;  // cells whose reductions turned out to be no set
  // Orders of the lanes of a warp that could be told apart and were not explored: where there are
  // some, no PASS.
  std::vector<LeftOut> left_out;
  std::uint32_t sum_orders = 1;  // the most orders that the program offered for a sum
  schedule::Outcome outcome;     // of the failing run, replayed; if verdict is fail
  Left left;                     // of the search, unless it failed
};

using Factory = std::function<std::unique_ptr<schedule::Program>()>;
// An execution that was explored, while its run is there.
struct Execution {
  const schedule::Program& program;
  machine::Machine& machine;
  const schedule::Outcome& outcome;
  const Record* record = nullptr;  // if no order of execution has it, these two
  const Judgement* judgement = nullptr;
  const std::vector<OpenEnd>* ends = nullptr;  // else

  // Whether it has races, where they are ignored.
  bool race() const;
  // The values, one or more, that a location may have in the end.
  std::vector<std::uint64_t> final_values(machine::Address at, std::uint32_t bytes) const;
};
// Called at the end of each complete run (blocked ones too if `all`), from one worker at a time.
using Visit = std::function<void(const Execution&)>;
// Called now and then, from one worker at a time.
using Progress = std::function<void(const CheckResult&)>;

// One thread for each of `jobs`, the caller's among them; each has a program of its own. Throws
// what the program throws (schedule::ProgramError). must_stop() (emulator/schedule/interrupt.hpp)
// ends it soon.
CheckResult check(const Factory& make, const CheckSpec& spec, unsigned jobs = 1,
                  const Visit& visit = {}, const Progress& progress = {});

// The same for each order of the sums: first `spec.sum_order`, and if the program offers others,
// the whole search again for every one of them (one order for all sums of an execution, as the
// order of one sum shows in no other). The bounds hold for all together. A search that was left
// goes on only where there is one order.
CheckResult check_sums(const Factory& make, const CheckSpec& spec, unsigned jobs = 1,
                       const Progress& progress = {});

// Whether a program that passes in mode stream passes in mode coherent as well, all else equal.
//
// Every run in mode coherent is one in mode stream with other choices. What kernel boundaries do is
// the same, and so are synchronisation and observed time. A strong access at sys scope reads what
// is newest: in no mode does coherence put anything behind that, so in mode stream it may be read
// too; an atomic may take it, as nothing lies between. It writes last: with nothing behind it a
// write may land in every mode, and there coherence puts before it what causality does and what it
// is morally strong with. The rest races with it, and ends a run in mode stream. A wait that sees
// what is newest for ever may do so in mode stream also where it could have seen something older.
// So step by step the run has the same messages, values and findings, but for races, of which mode
// coherent excuses some. Where those are passed over, mode coherent orders more than mode stream
// does, and may find what that does not. Policies that make several accesses one, or let weak reads
// see less, are left to the search.
bool stream_stands_for_coherent(const schedule::RunSpec& run, const schedule::Program& program);

// Of a program in mode coherent: its search in mode stream where that decides it, that is, where it
// passes there within `executions` of the spec and half the time, or `kMostByStream` executions.
constexpr std::uint64_t kMostByStream = 1000;
std::optional<CheckResult> check_by_stream(const Factory& make, const CheckSpec& spec,
                                           unsigned jobs = 1, const Progress& progress = {});

}  // namespace ringfence::check
