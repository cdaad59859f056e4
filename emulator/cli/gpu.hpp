#pragma once
// The subcommand `gpu`, which has a parser of its own in the CUDA part.

namespace ringfence::cli {

// Whether this build has the CUDA part.
bool has_cuda();

// Runs `ringfence gpu ...` where has_cuda(): argv[0] is "gpu". Returns the exit status.
int run_gpu(int argc, char** argv);

}  // namespace ringfence::cli
