#include "emulator/analysis/instance.hpp"

#include <chrono>

#include "emulator/ranks/executors.hpp"

namespace ringfence::analysis {

ExecutorOptions chosen(ExecutorOptions options, bool free_running) {
  if (options.executor == "auto") options.executor = free_running ? "processes" : "inline";
  return options;
}

schedule::Executor& Instance::start(const ExecutorOptions& options) {
  if (executor != nullptr) return *executor;
  if (options.executor == "inline") {
    executor = ranks::make_inline(*program);
  } else {
    ranks::ProcessOptions o;
    o.stall = std::chrono::milliseconds(static_cast<std::int64_t>(options.stall_seconds * 1000));
    executor = ranks::make_processes(*program, o);
  }
  return *executor;
}

Instance make_instance(const Subject& subject, const ExecutorOptions& options) {
  Instance i;
  i.program = subject.make_program();
  i.start(options);
  return i;
}

Instance make_inline_instance(const Subject& subject) {
  ExecutorOptions options;
  options.executor = "inline";
  return make_instance(subject, options);
}

}  // namespace ringfence::analysis
