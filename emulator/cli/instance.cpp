#include "emulator/cli/instance.hpp"

#include <chrono>

#include "emulator/cli/case_program.hpp"
#include "emulator/ranks/executors.hpp"

namespace ringfence::cli {

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

Instance make_instance(const programs::Config& config, const ExecutorOptions& options) {
  Instance i;
  i.program = build_program(config);
  i.start(options);
  return i;
}

Instance make_inline_instance(const programs::Config& config) {
  ExecutorOptions options;
  options.executor = "inline";
  return make_instance(config, options);
}

}  // namespace ringfence::cli
