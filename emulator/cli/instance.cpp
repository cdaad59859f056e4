#include "emulator/cli/instance.hpp"

#include <chrono>

#include "emulator/cli/case_program.hpp"
#include "emulator/ranks/executors.hpp"

namespace ringfence::cli {

Instance make_inline_instance(const programs::Config& config) {
  Instance i;
  i.program = build_program(config);
  i.executor = ranks::make_inline(*i.program);
  return i;
}

Instance make_instance(const programs::Config& config, const ExecutorOptions& options) {
  if (options.executor == "inline") return make_inline_instance(config);
  Instance i;
  i.program = build_program(config);
  ranks::ProcessOptions o;
  o.stall = std::chrono::milliseconds(static_cast<std::int64_t>(options.stall_seconds * 1000));
  i.executor = ranks::make_processes(*i.program, o);
  return i;
}

}  // namespace ringfence::cli
