#pragma once
// All ranks in one process and one thread: for the speed of exploration, and wherever a program
// is to be run with a strategy of one's own.

#include <memory_resource>

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

  machine::Machine& machine() { return state_.machine(); }
  // For a strategy that ends runs itself, or stands behind the machine as an arbiter: set before
  // the run, taken back after it.
  Execution& execution() { return state_.execution(); }
  // Told of every event of runs without a history of their own; nullptr for none.
  void set_listener(machine::Listener* listener) { state_.set_listener(listener); }
  void set_arbiter(machine::Arbiter* arbiter) { state_.machine().set_arbiter(arbiter); }

 private:
  Outcome finish();

  RunState state_;
  Runtime runtime_;
};

}  // namespace ringfence::schedule
