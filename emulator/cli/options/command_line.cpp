#include "emulator/cli/command_line.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "emulator/analysis/version.hpp"
#include "emulator/cli/commands.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/exec.hpp"
#include "emulator/cli/gpu.hpp"
#include "emulator/cli/log.hpp"
#include "emulator/cli/options/validators.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::cli {
namespace {

int status(Exit exit) { return static_cast<int>(exit); }

int complain(Exit exit, const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "ringfence: %s\n", line.c_str());
  return status(exit);
}

// One line, with where to look.
std::string usage_line(const CLI::App& app, const CLI::ParseError& error) {
  std::string line = error.what();
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.erase(line.find_last_not_of(" .") + 1);
  std::string command = "ringfence";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  return fmt::format("{}; see {} --help", line, command);
}

// CLI11 says only that some subcommand is missing.
void check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::string known;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == argv[1]) return;
    known += (known.empty() ? "" : ", ") + sub->get_name();
  }
  throw UsageError(fmt::format("unknown subcommand '{}': expected one of {}; see ringfence --help",
                               argv[1], known));
}

}  // namespace

int command_line(int argc, char** argv) {
  // Its parser and its signals are its own: a waiting kernel is ended by the default action.
  if (has_cuda() && argc > 1 && std::string_view(argv[1]) == "gpu") {
    return run_gpu(argc - 1, argv + 1);
  }
  // What follows is nvcc's to read.
  const bool for_nvcc = argc > 2 && std::string_view(argv[1]) == "nvcc";
  if (for_nvcc && std::string_view(argv[2]) != "--help" && std::string_view(argv[2]) != "-h") {
    try {
      return status(nvcc({argv + 2, argv + argc}));
    } catch (const UsageError& e) {
      return complain(Exit::bad_input, e.what());
    }
  }
  const schedule::LastWords last{status(Exit::interrupted), status(Exit::unknown)};
  const schedule::InterruptOnSignals signals(&last);
  // A limit of file sizes (ulimit -f) is an error of the write that meets it.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app(
      "Checks multi-GPU kernels without GPUs: runs them on emulated ranks under the PTX memory "
      "model, and searches their schedules for races, deadlocks, lost signals and wrong numbers.",
      "ringfence");
  Exit exit = Exit::clean;
  app.set_version_flag("--version", fmt::format("ringfence {}\n{}", version(), toolchain()));
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  try {
    add_run(app, exit);
    add_fuzz(app, exit);
    add_check(app, exit);
    add_replay(app, exit);
    add_litmus(app, exit);
    add_relax(app, exit);
    add_simulate(app, exit);
    add_diff(app, exit);
    add_merge(app, exit);
    add_switches(app, exit);
    add_ptx(app, exit);
    add_exec(app, exit);
    add_nvcc(app, exit);
    add_gpu(app, exit);
    add_help(app, exit);
    app.add_flag_callback(
        "-v,--verbose", [] { set_verbose(); }, "Log what is being done on standard error");
    app.add_flag_callback(
        "--progress-json", [] { set_json_progress(); },
        "Report progress on standard error as JSON Lines, ten times a second");
    for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      sub->fallthrough(sub->get_name() != "gpu");
      sub->parse_complete_callback([sub] { check_outputs_apart(*sub); });
    }
    check_subcommand(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return complain(Exit::bad_input, usage_line(app, e));
  } catch (...) {
    std::string line;
    const Exit what = describe(std::current_exception(), line);
    return complain(told() && what != Exit::interrupted ? Exit::finding : what, line);
  }
  // What was printed must have got out: a full disk is no clean run.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return complain(told() ? Exit::finding : Exit::bad_input,
                    fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return status(exit);
}

}  // namespace ringfence::cli
