#include "emulator/cli/exec.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_exec(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<ExecOptions>();
  CLI::App* sub = app.add_subcommand(
      "exec", "Runs a CUDA program of one process as it is, on emulated GPUs (docs/exec.md)");
  sub->footer(
      "ringfence exec --gpus 4 -- ./program ARGUMENTS; the program is compiled with ringfence "
      "nvcc. "
      "Exit status: the\nprogram's own, 1 where there was a finding, 2 bad usage or input, 3 where "
      "something was not there.");
  sub->add_option("command", o->command, "The program and its arguments, behind --")->required();
  sub->add_option("--gpus", o->gpus, "Devices that the program finds")
      ->check(CLI::Range(1U, 64U))
      ->capture_default_str();
  sub->add_option("--capture", o->capture,
                  "Folder for each stretch of launches as a case file with its PTX and memories: "
                  "001.toml, which fuzz, check and relax take");
  sub->add_option("--schedules", o->schedules,
                  "Schedules of each stretch that are tried besides the one that the program gets");
  sub->add_option("--seed", o->seed,
                  "0: each stretch takes the default schedule; else one that is drawn");
  sub->add_option("--boundary", o->boundary,
                  "What a kernel boundary does for other ranks: strict, stream or coherent")
      ->capture_default_str();
  sub->add_option("--policy", o->policy, "NAME=VALUE: as for fuzz --case; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--ignore", o->ignore, "Kind of finding to pass over; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--registers", o->registers,
                  "Registers of a thread, as ptxas -v says them: bounds the resident blocks");
  sub->callback([o, &exit] { exit = static_cast<Exit>(run(*o)); });
}

void add_nvcc(CLI::App& app, Exit& exit) {
  CLI::App* sub = app.add_subcommand(
      "nvcc", "nvcc with what exec needs: -cudart shared, PTX of compute_90a, -lineinfo");
  sub->footer("ringfence nvcc ARGUMENTS, all of them nvcc's; $NVCC names another compiler.");
  sub->allow_extras();
  sub->callback([&exit] { exit = nvcc({}); });
}

}  // namespace ringfence::cli
