#pragma once
// What ringfence says of a subject, as values; and how it says that something cannot be done.

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ringfence/tensor.hpp"

namespace ringfence {

// What the end of a kernel does for other GPUs (docs/modes.md).
enum class Boundary : std::uint8_t {
  strict,    // nothing: the letter of the PTX manual
  stream,    // a system fence at the start and at the end of every launch
  coherent,  // that, and strong system accesses go to one point of coherence, as GPUs' do
};
std::string_view name(Boundary mode);

enum class Verdict : std::uint8_t {
  pass,     // fuzz: no schedule that ran failed; check: no execution there is fails
  finding,  // some schedule fails
  unknown,  // a bound ended the search before it could say
};
std::string_view name(Verdict verdict);

// The one exception that this library throws of its own. what(): one line: what, where, and what
// would be right.
class Error : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    input,        // what was given cannot be used
    interrupted,  // Options::stop, before there was anything to tell
    resources,    // what was asked does not fit this machine, or its time
    internal,     // a fault of ringfence; please report it
  };
  Error(Kind kind, const std::string& line) : std::runtime_error(line), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

// A schedule that fails, made as small as time allowed.
struct Finding {
  std::string kind;  // "data-race", "deadlock", "numeric-mismatch", ... (docs/README.md)
  Boundary mode = Boundary::strict;
  std::string id;  // the same for the same run, wherever it is found: "data-race-0123456789abcdef"
  std::string message;  // one sentence
  std::string cause;    // why it came about, in a sentence; empty: not known
  std::string fix;      // what would mend it, likewise
  std::string story;    // a screen of text: who did what, what is missing, what would mend it
  // The run itself, as the file that `ringfence replay` and Subject::replay take.
  std::string trace;
  // The same as one word, which both take too; empty where it would be too long.
  std::string token;
  // Changes of which each was tried and makes the schedule, and others, pass: "end.put=release".
  std::vector<std::string> remedies;
  // It was run again, over rank processes where the subject can be, and was the same.
  bool confirmed = false;
  std::string unconfirmed;  // else why not
};

// What one boundary mode gave.
struct ModeResult {
  Boundary mode = Boundary::strict;
  bool claimed = false;  // the subject is meant for it
  bool judged = false;   // the result's verdict covers it
  Verdict verdict = Verdict::unknown;
  std::uint64_t executions = 0;  // schedules or executions that came to an end
  // check: the share of the search that was done, 0 to 1, an estimate before it is 1.
  double explored = 0;
  double seconds = 0;
  std::optional<Finding> finding;
  std::vector<Finding> more;  // with Options::findings: others, each met with those before ignored
};

struct Result {
  Verdict verdict = Verdict::unknown;  // of the judged modes: a finding before unknown before pass
  std::vector<ModeResult> modes;
  // What the verdict leaves open: values that nothing judges, bytes that nobody wrote, orders that
  // were not explored.
  std::vector<std::string> notes;
  // With Options::memories, of a run that came to its end: what it left, "NAME.RANK"; of a protocol
  // "out" and "residual_out".
  std::map<std::string, Tensor> memories;

  // The finding that the verdict is about; null without one.
  const Finding* finding() const;
};

// An order, scope, fence or barrier, and how weak it may be (Subject::relax).
struct RelaxedSite {
  std::string site;     // "end.put", or of a kernel "all_reduce.ptx:41/order"
  std::string where;    // of a kernel: the instruction, and its line of the CUDA source
  std::string present;  // as it is
  std::string alone;    // the weakest that passes, the others as they are
  std::string jointly;  // likewise, with the others weakened; empty: the time was over before
  std::string why;      // what the next weaker one gives
  bool proved = false;  // every answer is of an exhaustive search
};

struct RelaxResult {
  Boundary mode = Boundary::strict;
  // finding: it fails as it is, so there is nothing to relax; unknown: that was not decided, or the
  // time was over before all was tried.
  Verdict verdict = Verdict::unknown;
  std::vector<RelaxedSite> sites;
};

struct ReplayResult {
  bool reproduced = false;
  std::string divergence;  // else where this run is another one
  std::string kind;        // of the finding; empty: none
  std::string story;
  std::vector<std::string> remedies;  // as Finding has them
};

}  // namespace ringfence
