#pragma once
// What was run, as a trace records it: a protocol, compiled kernels, or somebody's own program.
// Equal records make equal programs, payload included.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "emulator/programs/config.hpp"

namespace ringfence::trace {

// The kernels of a case file.
struct CaseConfig {
  std::string file;
  std::string digest;       // of the file and all that it names: 16 hex digits
  std::uint32_t ranks = 4;  // as the file says
  std::uint32_t calls = 1;
  std::uint64_t payload_seed = 1;
  std::string summation = "rank-order";    // a name of verify::Summation
  std::map<std::string, std::string> set;  // edits to the kernels
  std::string suppress;                    // [[ignore]] tables of another file, as TOML
};

// A program that only its maker can make.
struct OwnConfig {
  std::string name;
  std::uint32_t ranks = 1;
  std::map<std::string, std::string> set;
};

class Configuration {
 public:
  using What = std::variant<programs::Config, CaseConfig, OwnConfig>;

  Configuration() = default;
  Configuration(programs::Config protocol) : what_(std::move(protocol)) {}  // NOLINT
  Configuration(CaseConfig kernels) : what_(std::move(kernels)) {}          // NOLINT
  Configuration(OwnConfig own) : what_(std::move(own)) {}                   // NOLINT

  const What& what() const { return what_; }
  // Null where it is something else.
  const programs::Config* protocol() const { return std::get_if<programs::Config>(&what_); }
  const CaseConfig* kernels() const { return std::get_if<CaseConfig>(&what_); }
  const OwnConfig* own() const { return std::get_if<OwnConfig>(&what_); }

  // The protocol's name, "case", or "program".
  const std::string& name() const;
  std::uint32_t ranks() const;
  std::uint64_t payload_seed() const;
  const std::string& summation() const;
  const std::map<std::string, std::string>& set() const;

  // The same program but for its sizes, its settings and where its file lies.
  bool is_of(const Configuration& other) const;

 private:
  What what_;
};

// In a line: "tokenweave, 2 ranks x 1 block, 2 tokens, hidden 8, inner 8, bf16, 1 call,
// end.put=relaxed"
std::string case_text(const Configuration& config);

}  // namespace ringfence::trace
