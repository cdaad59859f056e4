#pragma once
// Runs the operator in virtual time.
//
// The agents are those of run and fuzz, on the same machine with all its checks: what has a race,
// a deadlock or wrong numbers has no time. What is aggregated, so that large sizes end soon:
//  - a row is one vector of eight elements in the run and stands for a row of `hidden`: its 1024
//    threads load and store as one, in flight together; the barriers have a thread for each peer;
//  - the product is one operation (of a launch, or of a tile for put);
//  - put: an operation of a tile is spread over all blocks of its rank.
// Ranks, rows, signals and, but for put, blocks are not aggregated.

#include <map>
#include <string>
#include <vector>

#include "emulator/machine/finding.hpp"
#include "emulator/programs/config.hpp"
#include "emulator/timing/clockwork.hpp"

namespace ringfence::timing {

const char* name(Transport transport);

struct Sizes {
  Transport transport = Transport::multimem;
  Kernel kernel;
  std::uint32_t ranks = 8;
  std::uint32_t gpus = 0;       // 0: as many as ranks; fewer: virtual ranks
  std::uint32_t tokens = 1024;  // padded to whole rows a rank and wave where the protocol needs it
  std::uint32_t hidden = 8192;
  std::uint32_t inner = 0;   // a rank's; 0: without the product
  std::uint32_t blocks = 8;  // a rank
  // Above 1: the product of one wave beside the communication of another. For put these are the
  // tiles of its own pipeline, in one launch.
  std::uint32_t waves = 1;
  std::map<std::string, std::string> set;  // the protocol's switches
};

struct Timing {
  std::uint32_t tokens = 0;   // as padded
  schedule::Account account;  // of the rank that ends last: its time, and where it went
  Clockwork::Busy busy;
  bool clean = false;
  bool interrupted = false;
  machine::FindingKind finding{};  // if not clean
  std::string message;
  std::uint64_t steps = 0;
  double microseconds() const { return static_cast<double>(account.at) / 1e6; }
};

// Throws std::invalid_argument: what, and what would be right.
void check(const Profile& profile, const Sizes& sizes);
// Checks first.
Timing simulate(const Profile& profile, const Sizes& sizes);
// The configuration that is run: rows of eight elements.
programs::Config run_config(const Sizes& sizes);

}  // namespace ringfence::timing
