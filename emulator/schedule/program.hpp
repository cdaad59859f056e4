#pragma once
// A protocol as something to run: it lays out memory, then gives each rank's host code.
//
// One object exists in each rank process (fork copies it), or one for all ranks inline. What it
// computes ahead (inputs, partial sums, expected results) it computes in its constructor or in
// `prepare`, before ranks exist. During a run it may only write its own rank's buffers.

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/agent.hpp"

namespace ringfence::schedule {

// What a finding needs to be told in the protocol's words.
struct SlotName {
  std::string text;    // "start pad, block 1, from rank 2"
  std::string writer;  // who should write the value a wait needs: "r2.b1"
};

class Program {
 public:
  virtual ~Program() = default;

  // Before after_run: whether a fault of the run killed a rank for good.
  void set_lost(std::vector<bool> lost) { lost_ = std::move(lost); }
  bool lost(std::uint32_t rank) const { return rank < lost_.size() && lost_[rank]; }
  bool any_lost() const {
    for (const bool l : lost_) {
      if (l) return true;
    }
    return false;
  }

  virtual std::uint16_t ranks() const = 0;
  // An upper bound of the shared bytes that regions and results take (without the model's state).
  virtual std::uint64_t shared_bytes() const = 0;

  // Before ranks exist: regions, and result buffers (from `shared`). Called once for each machine:
  // again only by an executor that lost a rank and starts afresh, or by another executor. What
  // `shared` gave goes with the executor; it need not, and after that must not, be given back.
  virtual void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) = 0;
  // Before each run: streams (Machine::reset dropped them). Ranks see what the first call left in
  // this object, not what later calls change: it has to do the same every time.
  virtual void before_run(machine::Machine& machine) = 0;
  // The host thread of `rank`; runs inside that rank's process. A rank that a fault restarted runs
  // it again, with agent.first_call() > 0 if it was in a later call than the first.
  virtual void host(Agent& agent, std::uint16_t rank) = 0;
  // After a run without findings, in the process that started it: end checks. Findings go to
  // Machine::report. Of ranks that are lost() nothing is checked, nor are slots if any is.
  virtual void after_run(machine::Machine& machine) = 0;

  // Whether its own filter passes over races, so that what they do is worth searching for.
  virtual bool passes_over_races() const { return false; }

  // For stories and reports.
  virtual std::string site_name(std::uint16_t site) const = 0;
  virtual std::string region_name(machine::RegionId region) const = 0;
  virtual SlotName slot_name(machine::Address at) const = 0;
  // What an agent waits for that stands at a barrier: what it is, and what it lacks (as `writer`).
  // Empty: the other threads of its block.
  virtual SlotName barrier_name(std::uint64_t label) const {
    static_cast<void>(label);
    return {};
  }
  // The kernel that an agent's launch runs, in the program's words. Empty: it has no name.
  virtual std::string launch_name(std::uint64_t label) const {
    static_cast<void>(label);
    return {};
  }
  // How the ranks' launches differ from that of an agent, if that may be why somebody is not there.
  virtual std::string launch_note(std::uint64_t label) const {
    static_cast<void>(label);
    return {};
  }
  // Who should write the value that a wait there needs, where that depends on the value.
  virtual std::string slot_writer(machine::Address at, const machine::Wanted&) const {
    return slot_name(at).writer;
  }
  // What the program's own checks add to the last run's finding (wrong numbers, slots not
  // restored), in one line; empty if nothing. It may stand in the memory of the executor that ran:
  // it must live.
  virtual std::string last_mismatch() const { return {}; }

 private:
  std::vector<bool> lost_;
};

}  // namespace ringfence::schedule
