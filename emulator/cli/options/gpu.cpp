#include "emulator/cli/gpu.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>

#include "emulator/cli/commands.hpp"

namespace ringfence::cli {

void add_gpu(CLI::App& app, Exit& exit) {
  CLI::App* sub = app.add_subcommand(
      "gpu", "info, run, bench: the CUDA kernels, on several GPUs or on virtual ranks of one");
  sub->footer(
      "This ringfence was built without the CUDA part. Build with cmake --preset cuda (nvcc 12.4 "
      "or newer;\nbuilding needs no GPU), then see ringfence gpu --help. Exit status without it: "
      "77.");
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
