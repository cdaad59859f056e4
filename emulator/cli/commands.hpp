#pragma once
// The subcommands. Each adds itself to the application; when it is the one given, its callback runs
// it and puts the exit status into `exit`.

#include "emulator/cli/errors.hpp"
#include "emulator/cli/options.hpp"

namespace ringfence::cli {

void add_run(CLI::App& app, Exit& exit);
void add_fuzz(CLI::App& app, Exit& exit);
void add_check(CLI::App& app, Exit& exit);
void add_relax(CLI::App& app, Exit& exit);
void add_litmus(CLI::App& app, Exit& exit);
void add_replay(CLI::App& app, Exit& exit);
void add_simulate(CLI::App& app, Exit& exit);
void add_merge(CLI::App& app, Exit& exit);
void add_diff(CLI::App& app, Exit& exit);
void add_switches(CLI::App& app, Exit& exit);
void add_ptx(CLI::App& app, Exit& exit);
void add_exec(CLI::App& app, Exit& exit);
void add_nvcc(CLI::App& app, Exit& exit);
void add_gpu(CLI::App& app, Exit& exit);
// After all others: it tells of them.
void add_help(CLI::App& app, Exit& exit);

}  // namespace ringfence::cli
