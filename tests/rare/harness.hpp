#pragma once
// The set of rare faults as programs to search: those of programs.hpp and the case files here.

#include <memory>
#include <string>
#include <vector>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/schedule/search.hpp"

namespace ringfence::testing {

struct RareFault {
  std::string name;     // "turns"; "turns.toml" of a case file
  std::string outcome;  // the wrong one
  std::uint16_t ranks;
};

// All, those of a case file last. Paths are of the tree's top folder.
std::vector<RareFault> rare_faults();
// `mended`: its twin without the fault.
std::unique_ptr<schedule::Program> make_rare(const RareFault& fault, bool mended = false);
// The search that is measured: in mode strict, from `seed`, inline.
schedule::SearchSpec rare_search(std::uint64_t seed, std::uint64_t schedules);

}  // namespace ringfence::testing
