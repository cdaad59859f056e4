// gpu: the CUDA kernels. They are a part of the build only where nvcc was asked for (preset cuda);
// without it the subcommand is there and says so, with the status of a skipped test.
#include "emulator/cli/gpu.hpp"

#include <vector>

#include "emulator/cli/errors.hpp"

#ifdef RINGFENCE_WITH_CUDA
#include "cuda/cli/command.hpp"
#endif

namespace ringfence::cli {

bool has_cuda() {
#ifdef RINGFENCE_WITH_CUDA
  return true;
#else
  return false;
#endif
}

int run_gpu([[maybe_unused]] int argc, [[maybe_unused]] char** argv) {
#ifdef RINGFENCE_WITH_CUDA
  std::vector<const char*> arguments(argv, argv + argc);
  arguments[0] = "ringfence gpu";
  return cuda::gpu_command(argc, arguments.data());
#else
  return static_cast<int>(Exit::skipped);
#endif
}

}  // namespace ringfence::cli
