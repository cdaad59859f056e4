#include "tests/rare/harness.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "emulator/cases/case_program.hpp"
#include "tests/rare/programs.hpp"

namespace ringfence::testing {
namespace {

struct CaseFault {
  const char* name;
  const char* outcome;
  std::uint16_t ranks;
};
constexpr CaseFault kCases[] = {
    {"turns", "2 ranks, 4 strict turns each on one word", 2},
    {"swap-cycle", "3 ranks, 3 strict turns each by exchange", 3},
    {"lost", "4 + 4 increments count 2", 2},
    {"windows", "three looks, each behind a given write of 16", 2},
    {"one-bit-flag", "a flag of one bit seen set while every other word is missed", 2},
    {"counter-wraps", "a record of two epochs under a counter that came round", 2},
    {"almost-gives-up", "a rank sees each of 3 words at the last of 3 looks", 2},
    {"cleared-late", "8 calls through a mailbox of two words, each taken just in time", 2},
    {"hand-on", "3 ranks hand a number on round the cycle twice", 3},
    {"meets-it-again", "a unit that moves on is met in all of 5 words", 2},
};
constexpr const char* kCaseSuffix = ".toml";

}  // namespace

std::vector<RareFault> rare_faults() {
  std::vector<RareFault> all;
  for (const Rare& r : rare_programs()) all.push_back({r.name, r.outcome, r.ranks});
  for (const CaseFault& c : kCases) {
    all.push_back({std::string(c.name) + kCaseSuffix, c.outcome, c.ranks});
  }
  return all;
}

std::unique_ptr<schedule::Program> make_rare(const RareFault& fault, bool mended) {
  if (fault.name.ends_with(kCaseSuffix)) {
    cases::CaseFile file = cases::read_case("tests/rare/" + fault.name);
    const std::uint32_t lock = mended;
    std::memcpy(file.launches.at(0).args.back().bytes.data(), &lock, sizeof lock);
    return std::make_unique<cases::CaseProgram>(std::move(file), cases::Settings{});
  }
  for (const Rare& r : rare_programs()) {
    if (fault.name == r.name) return std::make_unique<RareProgram>(r, mended);
  }
  throw std::invalid_argument("no rare fault has the name " + fault.name);
}

schedule::SearchSpec rare_search(std::uint64_t seed, std::uint64_t schedules) {
  schedule::SearchSpec spec;
  spec.run.policy.boundary = machine::Boundary::strict;
  spec.run.strategy.seed = seed;
  spec.run.point_limit = 1u << 14;
  spec.schedules = schedules;
  return spec;
}

}  // namespace ringfence::testing
