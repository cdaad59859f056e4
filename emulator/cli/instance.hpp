#pragma once
// A program and the executor that runs it.

#include <memory>

#include "emulator/cli/case_options.hpp"
#include "emulator/programs/config.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::cli {

struct Instance {
  std::unique_ptr<schedule::Program> program;  // outlives its executor
  std::unique_ptr<schedule::Executor> executor;

  // The executor; made anew if it was given up.
  schedule::Executor& start(const ExecutorOptions& options);
};

Instance make_instance(const programs::Config& config, const ExecutorOptions& options);
Instance make_inline_instance(const programs::Config& config);

}  // namespace ringfence::cli
