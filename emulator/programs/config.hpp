#pragma once
// What to run: a protocol and its sizes and switches. This is what a trace records of one, so equal
// configurations make equal programs, payload included.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/machine/policy.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::verify {
struct Problem;
}

namespace ringfence::programs {

struct Config {
  std::string protocol = "tokenweave";
  std::uint32_t ranks = 4;
  std::uint32_t tokens = 8;
  std::uint32_t hidden = 64;
  std::uint32_t inner = 64;
  std::uint32_t blocks = 8;
  std::uint32_t calls = 1;
  std::string dtype = "bf16";
  double eps = 1e-6;              // < 0: the file's, else 1e-6
  std::string input;              // a safetensors file; empty: generated
  std::string input_map;          // its names: "gamma=NAME,beta=NAME"; verify/inputs.hpp
  std::string payload = "exact";  // generated inputs: exact | integers | normal
  std::uint64_t payload_seed = 1;
  std::string summation = "rank-order";    // a name of verify::Summation
  std::map<std::string, std::string> set;  // --set KEY=VALUE
};

// A switch of a protocol: --set KEY=VALUE.
struct ProtocolSwitch {
  std::string key;
  std::string values;   // "relaxed, acquire, release or acq_rel"
  std::string without;  // the order or the scope that it has where it is not given, else empty
};

// A protocol that can be named, and the switches it takes.
struct Protocol {
  std::string name;
  std::string summary;
  std::vector<ProtocolSwitch> switches;
  std::vector<machine::Boundary> claims;  // the boundary modes it is meant for
};

const std::vector<Protocol>& protocols();

class OperatorProgram;

// A configuration whose texts were read, once, and found legal.
class Prepared {
 public:
  virtual ~Prepared() = default;
  // Throw std::invalid_argument for an input file that is not to be had.
  std::unique_ptr<schedule::Program> make_program() const;
  std::unique_ptr<OperatorProgram> make_operator() const;
  // Throws std::invalid_argument for sizes that are not to be had.
  virtual void check(const verify::Problem& problem) const = 0;

 protected:
  virtual std::unique_ptr<OperatorProgram> make() const = 0;
};

// Throws std::invalid_argument with one line (what, where, what would be right).
std::unique_ptr<const Prepared> prepare(const Config& config);
// The same where only the complaint counts, and for one program alone.
void validate(const Config& config);
std::unique_ptr<schedule::Program> make_program(const Config& config);

}  // namespace ringfence::programs
