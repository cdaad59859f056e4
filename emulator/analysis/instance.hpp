#pragma once
// A program and the executor that runs it.

#include <memory>
#include <string>

#include "emulator/analysis/subject.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::analysis {

// --stall and --executor
struct ExecutorOptions {
  std::string executor = "processes";  // or inline
  double stall_seconds = 10;
};

// "auto" is inline wherever the schedule is chosen, as the outcome is the same then and no turn is
// handed from process to process; processes where ranks run freely and really at once.
ExecutorOptions chosen(ExecutorOptions options, bool free_running);

struct Instance {
  std::unique_ptr<schedule::Program> program;  // outlives its executor
  std::unique_ptr<schedule::Executor> executor;

  // The executor; made anew if it was given up.
  schedule::Executor& start(const ExecutorOptions& options);
};

Instance make_instance(const Subject& subject, const ExecutorOptions& options);
Instance make_inline_instance(const Subject& subject);

}  // namespace ringfence::analysis
