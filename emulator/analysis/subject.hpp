#pragma once
// What is analysed: a protocol in C++, the kernels of a case, somebody's own program. A subject
// makes programs, knows the sites and switches by which they synchronise, makes smaller subjects of
// itself, and writes itself down: `config` is what a trace records of it. Nobody who is handed a
// subject asks of which kind it is.
//
// A subject never changes; `with` and `smaller` make others.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/analysis/notes.hpp"
#include "emulator/cases/case_file.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/configuration.hpp"
#include "verify/compare.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::analysis {

// One change to how a program synchronises, up or down: a switch of a protocol, or a site of a
// kernel (emulator/cases/edits.hpp), as --set takes it.
struct Step {
  std::string key;
  std::string from;   // the value in force
  std::string to;     // empty: leave the switch out, which is the protocol to the letter
  std::string where;  // of a kernel's: the instruction, and its line of the CUDA source
  // Of a line of the source that several instructions of the PTX share (unrolled, inlined): the
  // keys of the others, which are changed alike.
  std::vector<std::string> also{};
};

// Switches and sites that are not as written, by key.
using Settings = std::map<std::string, std::string>;

struct ReplicaCheck {
  bool agree = true;
  std::string text;  // "equal bit for bit", or where two differ, or why they may
};

class Subject;
using SubjectPtr = std::shared_ptr<const Subject>;

class Subject {
 public:
  explicit Subject(trace::Configuration config) : config_(std::move(config)) {}
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const trace::Configuration& config() const { return config_; }
  // Compiled kernels, to which the policies about such apply.
  virtual bool kernels() const { return false; }
  // Its programs can run as rank processes: they keep nothing outside what the ranks share.
  virtual bool forks() const { return true; }
  // The file that its inputs are read from; empty: they are generated.
  virtual std::string input_file() const { return {}; }
  // Bytes that inputs and expected values of one of its programs take; 0: not known beforehand.
  virtual std::uint64_t payload_bytes() const { return 0; }
  // The boundary modes that it is meant for.
  virtual std::vector<machine::Boundary> claims() const = 0;
  // Throws std::invalid_argument where its settings are not to be had.
  virtual std::unique_ptr<schedule::Program> make_program() const = 0;

  // Every single step from its settings, grouped by key; the weakest first, or the least step up
  // first.
  virtual std::vector<Step> weaker() const { return {}; }
  virtual std::vector<Step> stronger() const { return {}; }
  // The FILE:LINE by which a site's settings begin; empty where it has none.
  virtual std::string site_key(const schedule::Program&, std::uint16_t) const { return {}; }
  // The memory.NAME by which a memory's settings begin; empty where it has none.
  virtual std::string memory_key(const schedule::Program&, machine::RegionId) const { return {}; }
  // With other settings. They are checked as its program is made.
  virtual SubjectPtr with(const Settings& set) const = 0;
  // With the settings and sizes that a trace of it has (recorded.is_of(config())).
  virtual SubjectPtr like(const trace::Configuration& recorded) const = 0;
  // With more [[ignore]] tables; null where findings cannot be passed over one by one.
  virtual SubjectPtr passing_over(const std::string& /*tables*/) const { return nullptr; }
  // To try next where less that fails alike is looked for, the greatest reductions first. Not all
  // need be legal: that is seen as their programs are made.
  virtual std::vector<SubjectPtr> smaller() const { return {}; }

  // Of a program that make_program made, whose executor lives: what a verdict leaves open, how sums
  // are formed that hardware forms in an order of its own (empty: none), and what the last run left
  // against what was due.
  virtual Notes notes(const schedule::Program&) const { return {}; }
  virtual std::string numerics(const schedule::Program&) const { return {}; }
  virtual std::vector<verify::Comparison> compare(const schedule::Program&) const { return {}; }
  virtual ReplicaCheck replicas(const schedule::Program&) const;
  // `out` and `residual_out` of the first call of the first group, as rank 0 has them, with the
  // metadata that `diff` reads. Of a case: every memory of every rank as the run left it,
  // "NAME.RANK".
  virtual verify::Safetensors tensors(const schedule::Program&) const { return {}; }

 private:
  const trace::Configuration config_;
};

// A subject that a trace records as a `Record`, one of those of trace::Configuration.
template <class Record>
class RecordedAs : public Subject {
 protected:
  explicit RecordedAs(Record record) : Subject(std::move(record)) {}
  const Record& record() const { return std::get<Record>(config().what()); }
};

// The subject of a configuration, which is checked: also that a case file is still the one of its
// digest, if it has one. Throws std::invalid_argument.
SubjectPtr make_subject(const trace::Configuration& config);
// That of a trace: its case is at its path, beside the trace, or another case file there that has
// the digest; `config` says then where it is. Throws std::invalid_argument.
SubjectPtr find_subject(trace::Configuration& config, const std::string& trace_path);

// The same of each kind.
SubjectPtr make_protocol_subject(const programs::Config& config);
SubjectPtr read_case_subject(const trace::CaseConfig& config);

// -- protocols ------------------------------------------------------------------------------------
// Configurations to try next, the greatest reductions first. Not all need be legal.
std::vector<programs::Config> smaller_configs(const programs::Config& config);

// -- cases ----------------------------------------------------------------------------------------
// What a trace records of a case that is run as its file says.
trace::CaseConfig config_of(const cases::CaseFile& file);
// Of a case that need not lie in a file; `config` is that with other settings.
SubjectPtr make_case_subject(cases::CaseFile file, trace::CaseConfig config);

// The text of a file of suppressions, which is checked. Throws std::invalid_argument.
std::string read_suppressions(const std::string& path);

// The modes that the case file `config.file` claims. Fills in `ranks`, `calls` (unless
// `calls_given`) and the digest. Throws std::invalid_argument.
std::vector<machine::Boundary> read_case(trace::CaseConfig& config, bool calls_given);

}  // namespace ringfence::analysis
