#pragma once
// A run in the formats of other viewers. All take an outcome with its history.

#include <string>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

// Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open. A process is a
// rank, a thread one of its threads; launches are slices, steps slices inside them, one microsecond
// each; waits last from the thread's step before. Flow arrows lead from a write to the strong read
// of another thread that saw it. Counters, in a process of their own, sum up what each signal
// region holds. Where the program names no signals (a case), a place that one thread reads strongly
// as another one wrote it, strongly too, is one.
std::string chrome_trace(const Trace& trace, const schedule::Outcome& outcome,
                         const schedule::Program& program);

// One execution as a Graphviz graph: a cluster for each thread in program order; edges rf, co, fr,
// and sync (a release pattern taken in by an acquire). Strong accesses, fences, block barriers and
// the accesses of the finding; of a longer run, the last 300 of these.
std::string dot_graph(const Trace& trace, const schedule::Outcome& outcome,
                      const schedule::Program& program);

// A ShiViz log (bestchai.bitbucket.io/shiviz): a host is a thread, its vector clock is what happens
// before. The same events as dot_graph, the last 2000.
std::string shiviz_log(const Trace& trace, const schedule::Outcome& outcome,
                       const schedule::Program& program);
// The regular expression by which ShiViz reads it: its first line.
inline constexpr const char* kShivizPattern = R"((?<host>\S+) (?<clock>\{.*\})\n(?<event>.*))";

}  // namespace ringfence::trace
