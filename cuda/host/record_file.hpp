// `gpu run --record`: what one call took in and what each rank wrote, bit for bit, for comparison
// with the emulator's execution of the same kernel (traces/gpu, tests/cases/gpu_record_test.cpp).
//
// A safetensors file of 16-bit tensors: "residual" [T, H], "gamma" [H], "beta" [H] where there is
// one; "partial.R" [T, H] for each rank R. tokenweave, whose ranks agree: "out" and "residual_out"
// [T, H]. pypto, whose ranks each add in an order of their own: "out.R" and "residual_out.R".
// Its metadata say what ran: protocol, ranks, blocks, transport, dtype, eps, device, driver.
//
// The partials of pypto never lie in memory. They are found by a call a rank whose other ranks
// have x = 0 and whose residual is 0: then z, and with it residual_out, is that rank's partial
// (-0 comes back as +0, which adds alike to a tile that was cleared to +0).
#pragma once

#include <functional>

#include "cuda/host/run_options.hpp"
#include "cuda/host/session.hpp"
#include "cuda/host/verification.hpp"

namespace ringfence::cuda {

/// Performs a call with other inputs and returns what came back.
using Caller = std::function<CallResult(const verify::Inputs&)>;

/// Throws Error(invalid_argument) where a record is asked for that cannot be made: all ranks have
/// to be in this process, and the last call has to be a launch and no graph's replay.
void require_recordable(const RunOptions& options, const World& world);

/// Writes `options.record` from a call's inputs and result. Throws verify::InputError where the
/// file cannot be written.
void write_record(const RunOptions& options, const Session& session, const verify::Inputs& inputs,
                  int64_t tokens, const CallResult& result, const Caller& call);

}  // namespace ringfence::cuda
