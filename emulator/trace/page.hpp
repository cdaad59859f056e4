#pragma once
// A run as one self-contained HTML page: lanes of ranks and blocks, steps along time, arrows from a
// write to the read that saw it. The page loads nothing; its parts are in emulator/trace/html.
//
// The data is in <script type="application/json" id="run"> as one object:
//   format      1
//   title, id (trace::finding_id), message, cause, fix, kind (null: no finding), mode, case,
//   policies, replay, remedy, made_by, story agents      [{"name", "rank", "block", "row" (thread
//   or operation), "call", "phase" (0 product,
//               1 protocol, 2 consumer), "launch" (of a case's file), "kernel" (its name in
//               kernels), "stream" (of the rank)}]
//   kernels     names of launches, the first one empty: it has none
//   kinds, orders, scopes   words for the codes of the columns below
//   sites       {"3": "file: what it does (order)"}
//   regions     [name]         slots  {"region:offset": name}, of the slots that occur
//   events      columns of equal length, in the order of the run: kind, agent, step, site, order,
//               scope, region, offset, bytes, value, old, source (index of the write that was read,
//               -1: none, -2: an initial value), flags (1: a newer message was there)
//   synchronises, depends   [from, to, from, to, ...]: edges of happens-before besides program
//               order, launches and block barriers
//   pair        [first, second]: the two accesses of the finding, -1 where there is none
//   matter      the steps that explain the finding
//   beside      null, or the nearest schedule that passes: {"steps" (of its run), "first" (the
//   event
//               at which the runs part, -1: none), "rows": [{"event", "step" (there, null: it has
//               no such step), "text" (what it does there), "differs": ["value", "writer", "order",
//               "missing"]}]}
//   stuck       [{"agent", "slot", "needs", "there", "writer", "which", "cycle", "event"}]
//   left_out    events that were left out at the beginning
//   notes       what the verdict leaves open, a line each, as the text output has it
// A value of 2^53 and more is a string of hexadecimal digits.

#include <string>
#include <vector>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

struct PageOptions {
  std::string replay;                // the command; empty: the run cannot be replayed
  std::string remedy{};              // what would make it pass: whole lines
  std::string story{};               // the one-screen answer, without colours
  std::vector<std::string> notes{};  // what the verdict leaves open, a line each
  // The nearest run that passes, with its history; null: none is known.
  const schedule::Outcome* passing = nullptr;
  std::size_t most_events = 500000;  // the last ones of a longer run
};

// `outcome` with its history.
std::string page_data(const Trace& trace, const schedule::Outcome& outcome,
                      const schedule::Program& program, const PageOptions& options);
std::string page(const Trace& trace, const schedule::Outcome& outcome,
                 const schedule::Program& program, const PageOptions& options);

}  // namespace ringfence::trace
