#pragma once
// What is analysed, and the analyses. A subject is a value: a case (case.hpp), threads written in
// C++ (threads.hpp), a case file, or one of the protocols that ringfence has.
//
//   const ringfence::Result r = ringfence::Subject::case_file("all_reduce.toml").fuzz();
//   if (r.finding()) std::puts(r.finding()->story.c_str());
//
// Nothing here prints or exits. One analysis runs at a time in a process: a second one waits, and
// is an Error from within the first. While one runs, SIGALRM and ITIMER_REAL are its own. What
// fails is an Error (result.hpp); what a function of the caller's throws, `progress` excepted, is
// one too.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "ringfence/result.hpp"

namespace ringfence {

class Case;
class Threads;

enum class Executor : std::uint8_t {
  // Ranks in this process where that gives the same and is faster, which is wherever the schedule
  // is ringfence's: fuzz, check, relax, replay. Processes for `run`, whose ranks run freely.
  automatic,
  processes,   // each rank is a process of its own, as on a machine with GPUs
  in_process,  // all ranks in the calling thread
};

struct Progress {
  Boundary mode = Boundary::strict;
  std::uint64_t done = 0;  // schedules, executions, variants of relax
  std::uint64_t of = 0;    // 0: not known
  double seconds = 0;
};

// Of all analyses; each uses what concerns it. The defaults are those of the command line.
struct Options {
  std::uint64_t schedules{2000};  // fuzz: for each mode; 0: until `seconds` are over
  // check: at most for each mode; 0: all there are. relax: for each variant; 0: 20,000.
  std::uint64_t executions{0};
  // For all modes together; 0: no limit.
  double seconds{0};
  // Tried and judged; empty: those that the subject claims. run takes one: of kernels the first, of
  // others the strictest.
  std::vector<Boundary> modes{};
  std::string strategy{"portfolio"};  // fuzz: or pct, random, pos, surw (docs/search.md)
  std::uint32_t depth{3};             // of pct: ordered steps that a fault may need
  double stale{0.05};                 // how often a read with several answers takes an old one
  std::uint64_t seed{1};              // equal seeds search equal schedules
  unsigned jobs{1};                   // threads, each with ranks of its own
  std::string faults{};               // fuzz: that befall ranks (docs/faults.md)
  bool survive{false};                // fuzz: a hang after a kill or a restart is a finding, too
  std::map<std::string, std::string> policies{};  // "fresh-lines" to "on", ... (docs/cases.md)
  // Of a thread of a kernel, as ptxas -v says: they limit how many blocks are resident. 0: .maxnreg
  // of the kernel, else no limit.
  std::uint32_t registers{0};
  std::vector<std::string> ignore{};  // kinds of findings to pass over
  std::uint32_t findings{1};  // fuzz of kernels: behind a finding, go on to others, at most so many
  // check: arrivals at barriers in every order, also where nothing can tell the orders apart.
  bool arrival_orders{false};
  bool memories{false};  // run: Result::memories
  Executor executor{Executor::automatic};
  double stall_seconds{10};  // over processes: a rank that makes no step for so long is given up
  bool shrink{true};         // make findings small
  bool remedies{true};       // try what would make them pass
  double remedy_seconds{2};  // for all of a finding's
  // Called now and then, from one thread at a time. What it throws ends the analysis, which throws
  // it.
  std::function<void(const Progress&)> progress{};
  // Asked to stop, the analysis ends soon: with what it found, or Error::Kind::interrupted.
  std::stop_token stop{};
};

// One of the protocols in C++, and its sizes.
struct Protocol {
  std::string name{"tokenweave"};  // docs/barriers.md
  std::uint32_t ranks{4};
  std::uint32_t tokens{8};
  std::uint32_t hidden{64};
  std::uint32_t inner{64};
  std::uint32_t blocks{8};
  std::uint32_t calls{1};
  std::string dtype{"bf16"};
  std::map<std::string, std::string> switches{};  // "end.put" to "relaxed", ...
  std::string payload{"exact"};                   // generated inputs: or integers, normal
  std::uint64_t payload_seed{1};
  std::string summation{"rank-order"};  // where hardware adds in an order of its own
  double eps{-1};                       // < 0: the input file's, else 1e-6
  // A safetensors file, whose sizes and dtype count in place of those above; and its names,
  // "gamma=NAME,beta=NAME".
  std::string input{};
  std::string input_map{};
};

// What a case file leaves to whoever runs it.
struct CaseSettings {
  std::uint32_t calls{0};  // 0: as the file says
  std::uint64_t payload_seed{1};
  std::string summation{"rank-order"};
  std::string suppress{};  // [[ignore]] tables beside the file's own
};

namespace detail {
struct Held;  // what a subject holds, which no header shows
}

class Subject {
 public:
  // They throw Error for what cannot be run.
  Subject(const Case& of);     // NOLINT: a case is a subject
  Subject(const Threads& of);  // NOLINT: and so are threads
  static Subject case_file(const std::string& path, const CaseSettings& settings = {});
  static Subject protocol(const Protocol& of);
  explicit Subject(std::shared_ptr<const detail::Held> held) : held_(std::move(held)) {}

  // With these switches and no others: of a protocol, or of a kernel's instructions (sites()).
  Subject with(const std::map<std::string, std::string>& switches) const;
  // What relax would weaken.
  std::vector<std::string> sites() const;
  // What it is, in a line.
  std::string text() const;

  // Once, in one mode, ranks running freely, all results compared with what is expected.
  Result run(const Options& options = {}) const;
  // Many schedules under weak memory, in each mode until it finds something.
  Result fuzz(const Options& options = {}) const;
  // Every schedule and every read, within the bounds.
  Result check(const Options& options = {}) const;
  // What is needed of each order, scope, fence and barrier, in each mode.
  std::vector<RelaxResult> relax(const Options& options = {}) const;
  // A recorded run of this subject once more: Finding::trace or token, or the content of a trace
  // file.
  ReplayResult replay(const std::string& trace, const Options& options = {}) const;

 private:
  std::shared_ptr<const detail::Held> held_;
};

// A recorded run of what its file names: a case file, a protocol.
ReplayResult replay_file(const std::string& path, const Options& options = {});

std::string version();

}  // namespace ringfence
