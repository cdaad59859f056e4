#pragma once
// The tensors that a run of the operator left, compared with the reference.

#include <vector>

#include "emulator/analysis/subject.hpp"
#include "emulator/programs/operator_program.hpp"

namespace ringfence::analysis {

// For each call (and group): "partial", the product of all ranks against its own bound; "out",
// every rank's replica, and "residual_out", each rank's rows, against the reference that is fed
// with those partials. Only after a complete run.
std::vector<verify::Comparison> compare_results(const programs::OperatorProgram& program);

// Whether all ranks have the same bits in `out`, where the protocol makes them so.
ReplicaCheck check_replicas(const programs::OperatorProgram& program);

verify::Safetensors result_tensors(const programs::OperatorProgram& program,
                                   const programs::Config& config);

}  // namespace ringfence::analysis
