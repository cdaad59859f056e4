// gpu: the CUDA kernels. They are a part of the build only where nvcc was asked for (preset cuda);
// without it the subcommand is there and says so, with the status of a skipped test.
#include "emulator/cli/gpu.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "emulator/cli/commands.hpp"

#ifdef RINGFENCE_WITH_CUDA
#include "cuda/host/command.hpp"
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

void add_gpu(CLI::App& app, Exit& exit) {
  CLI::App* sub = app.add_subcommand(
      "gpu", "info, run, bench: the CUDA kernels, on several GPUs or on virtual ranks of one");
  sub->footer(
      "This ringfence was built without the CUDA part: build it with cmake --preset cuda (nvcc "
      "12.4 "
      "or newer;\nno GPU needed to build), and see its ringfence gpu --help. Exit status without "
      "it: 77.");
  // What follows is for the other parser: it is not this build's to judge.
  sub->allow_extras();
  sub->callback([&exit] {
    fmt::print(
        stderr,
        "ringfence: gpu: skipped: this build has no CUDA part; build with cmake --preset cuda "
        "(nvcc 12.4 or newer)\n");
    exit = Exit::skipped;
  });
}

}  // namespace ringfence::cli
