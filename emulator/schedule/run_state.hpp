#pragma once
// All state of a program's runs that its rank processes share: machine, execution, strategy and
// history, in one memory resource. Both executors are thin around it.

#include <deque>
#include <memory_resource>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trail.hpp"
#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::schedule {

class RunState final : private machine::Listener {
 public:
  // Sets the program up in `memory`.
  RunState(Program& program, std::pmr::memory_resource* memory);
  ~RunState() override;
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  machine::Machine& machine() { return machine_; }
  Execution& execution() { return execution_; }

  // A fresh run: the machine as it was set up, the strategy made, the host agents there. The other
  // form takes a strategy that the caller keeps.
  void start(const RunSpec& spec);
  void start(const RunSpec& spec, Strategy& strategy);
  // Who is told of every event of the runs that keep no history; nullptr for nobody.
  void set_listener(machine::Listener* listener) { listener_ = listener; }
  // After the run, once no agent is in the middle of its body: end checks if it was complete and
  // clean, and what there is to tell.
  Outcome collect();

 private:
  void on_event(const machine::Event& event) override {
    history_.push_back(event);
    history_.back().access = nullptr;
  }
  void check_end();
  std::vector<StuckAgent> stuck() const;

  Program& program_;
  std::pmr::memory_resource* memory_;
  std::pmr::monotonic_buffer_resource given_;  // what the program took: it gives nothing back
  machine::Machine machine_;
  Execution execution_;
  machine::Trail trail_;
  std::pmr::deque<machine::Event> history_;
  machine::Listener* listener_ = nullptr;
  Strategy* own_strategy_ = nullptr;
  bool survive_ = false;
};

}  // namespace ringfence::schedule
