#pragma once
// All ranks in one process and one thread: for the speed of exploration, and wherever a program
// is to be run with a strategy of one's own.

#include <memory_resource>
#include <optional>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/schedule/run_state.hpp"
#include "emulator/schedule/runtime.hpp"

namespace ringfence::schedule {

class InlineExecutor final : public Executor {
 public:
  // The program is set up here and has to outlive the executor.
  explicit InlineExecutor(Program& program,
                          std::pmr::memory_resource* memory = std::pmr::new_delete_resource());

  Outcome run(const RunSpec& spec) override;
  // With `strategy` instead of the specified one.
  Outcome run(const RunSpec& spec, Strategy& strategy);

  // Those of the next run, until it throws.
  machine::Machine& machine() { return state().machine(); }
  // For a strategy that ends runs itself, or stands behind the machine as an arbiter: set before
  // the run, taken back after it.
  Execution& execution() { return state().execution(); }
  // Told of every event of runs without a history of their own; nullptr for none.
  void set_listener(machine::Listener* listener) { state().set_listener(listener); }
  void set_arbiter(machine::Arbiter* arbiter) { state().machine().set_arbiter(arbiter); }

 private:
  RunState& state();
  Outcome finish();

  Program& program_;
  std::pmr::memory_resource* memory_;
  std::optional<RunState> state_;
  std::optional<Runtime> runtime_;
  bool broken_ = false;  // memory ran out in the middle of a change: to be made anew
};

}  // namespace ringfence::schedule
