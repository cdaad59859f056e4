#include "emulator/schedule/inline_executor.hpp"

namespace ringfence::schedule {
namespace {

RunSpec controlled(RunSpec spec) {
  if (spec.free_running) spec.strategy.kind = StrategySpec::Kind::first;
  spec.free_running = false;
  return spec;
}

}  // namespace

InlineExecutor::InlineExecutor(Program& program, std::pmr::memory_resource* memory)
    : state_(program, memory), runtime_(state_.execution(), program, 0, program.ranks()) {}

Outcome InlineExecutor::run(const RunSpec& spec) {
  if (spec.free_running) return run(controlled(spec));
  state_.start(spec);
  return finish();
}

Outcome InlineExecutor::run(const RunSpec& spec, Strategy& strategy) {
  state_.start(spec.free_running ? controlled(spec) : spec, strategy);
  return finish();
}

Outcome InlineExecutor::finish() {
  runtime_.begin_run(nullptr);
  runtime_.run_turn();
  if (state_.execution().end() != RunEnd::complete) runtime_.unwind();
  if (!runtime_.error().empty()) throw ProgramError(runtime_.error());
  return state_.collect();
}

}  // namespace ringfence::schedule
