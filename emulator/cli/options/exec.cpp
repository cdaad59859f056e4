#include "emulator/cli/exec.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_exec(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<ExecOptions>();
  CLI::App* sub = app.add_subcommand(
      "exec", "Runs an unmodified single-process CUDA program on emulated GPUs (docs/exec.md)");
  sub->footer(
      "ringfence exec --gpus 4 -- ./program ARGUMENTS; compile the program with ringfence nvcc. "
      "Exit status: the\nprogram's own, 1 if there was a finding, 2 bad usage or input, 3 if "
      "something that the program needs is not supported.");
  sub->add_option("command", o->command, "The program and its arguments, after --")->required();
  sub->add_option("--gpus", o->gpus, "Number of devices that the program sees")
      ->check(CLI::Range(1U, 64U))
      ->capture_default_str();
  sub->add_option("--capture", o->capture,
                  "Folder in which to save each stretch of launches as a case file with its PTX "
                  "and memories, 001.toml and so on, for fuzz, check and relax");
  sub->add_option("--schedules", o->schedules,
                  "Number of times to run the program again, each time with the next seed; stops "
                  "at the first run with a finding or an exit status other than 0");
  sub->add_option("--seed", o->seed,
                  "0: each stretch runs by the default schedule, all of it by the first query; "
                  "otherwise by a schedule drawn from this seed, and queries are answered by it");
  sub->add_option(
      "--explore", o->explore,
      "Number of schedules to try for each stretch besides the one whose results the program gets");
  sub->add_option("--boundary", o->boundary,
                  "What the end of a kernel orders for other devices (docs/modes.md): strict, "
                  "stream or coherent")
      ->capture_default_str();
  sub->add_option("--policy", o->policy, "NAME=VALUE, as for fuzz --case; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--ignore", o->ignore, "Kind of finding to ignore; may be repeated")
      ->allow_extra_args(false);
  sub->add_option(
      "--registers", o->registers,
      "Registers per thread, as ptxas -v reports them; they limit how many blocks are resident");
  sub->add_option(
      "--device-profile", o->device_profile,
      "TOML file that says what the devices are like: name, multiprocessors, memory_gib, "
      "l2_mib, attributes (docs/exec.md); a machine profile is one too");
  sub->add_option("--executor", o->executor,
                  "inline: all devices in one process; processes: a process for each device")
      ->check(CLI::IsMember({"inline", "processes"}))
      ->capture_default_str();
  sub->add_option(
         "--host-accesses", o->host_accesses,
         "on: accesses of the host to memory that kernels see are part of the model; off: its "
         "races with kernels are not found")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  sub->callback([o, &exit] { exit = static_cast<Exit>(run(*o)); });
}

void add_nvcc(CLI::App& app, Exit& exit) {
  CLI::App* sub = app.add_subcommand(
      "nvcc", "nvcc with what exec needs: -cudart shared, PTX of compute_90a, -lineinfo");
  sub->footer(
      "ringfence nvcc ARGUMENTS passes all arguments to nvcc; $NVCC names another compiler.");
  sub->allow_extras();
  sub->callback([&exit] { exit = nvcc({}); });
}

}  // namespace ringfence::cli
