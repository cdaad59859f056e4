#pragma once
// The tensors that a run left, compared with the reference and written to files.

#include <string>
#include <vector>

#include "emulator/programs/config.hpp"
#include "verify/compare.hpp"

namespace ringfence::cli {

// For each call (and group): "partial", the product of all ranks against its own bound; "out",
// every rank's replica, and "residual_out", each rank's rows, against the reference that is fed
// with those partials. Only after a complete run.
std::vector<verify::Comparison> compare_results(const schedule::Program& program);

struct ReplicaCheck {
  bool agree = true;
  std::string text;  // "equal bit for bit", or where two differ, or why they may
};
// Whether all ranks have the same bits in `out`, where the protocol makes them so.
ReplicaCheck check_replicas(const schedule::Program& program);

// `out` and `residual_out` of the first call of the first group, as rank 0 has them, with the
// metadata that `diff` reads. Of a case: every memory of every rank as the run left it,
// "NAME.RANK".
void write_results(const std::string& path, const schedule::Program& program,
                   const programs::Config& config);

}  // namespace ringfence::cli
