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
    : program_(program), memory_(memory) {
  state();
}

RunState& InlineExecutor::state() {
  if (broken_) {
    runtime_.reset();
    state_.reset();
  }
  if (!state_) {
    state_.emplace(program_, memory_);
    runtime_.emplace(state_->execution(), program_, 0, program_.ranks());
  }
  broken_ = false;
  return *state_;
}

Outcome InlineExecutor::run(const RunSpec& spec) {
  if (spec.free_running) return run(controlled(spec));
  RunState& run = state();
  broken_ = true;  // until it has come to an end
  run.start(spec);
  return finish();
}

Outcome InlineExecutor::run(const RunSpec& spec, Strategy& strategy) {
  RunState& run = state();
  broken_ = true;
  run.start(spec.free_running ? controlled(spec) : spec, strategy);
  return finish();
}

Outcome InlineExecutor::finish() {
  runtime_->begin_run(nullptr);
  runtime_->run_turn();
  if (state_->execution().end() != RunEnd::complete) runtime_->unwind();
  broken_ = runtime_->thrown() == Thrown::out_of_memory;
  if (runtime_->thrown() != Thrown::nothing) rethrow(runtime_->thrown(), runtime_->error());
  broken_ = true;
  Outcome out = state_->collect();
  broken_ = false;
  return out;
}

}  // namespace ringfence::schedule
