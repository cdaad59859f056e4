#pragma once
// A litmus test as a program for the machine.
//
// A gpu is a rank, a cta a block, a location a region of rank 0 (where a location lies decides
// nothing: scopes are between threads). Every element of a vector, and every replica of a multimem
// access, is an access of its own. A loop that only polls (one load or compare-and-swap, and the
// branch back) is an await; other loops are followed `kMaxJumps` times and then given up.

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/verdict.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::litmus {

// The test uses what the machine does not model. what() names it, with its position.
class NotModelled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class LitmusProgram final : public schedule::Program {
 public:
  static constexpr int kMaxJumps = 3;

  // `test` has to outlive it. Throws NotModelled.
  explicit LitmusProgram(const Test& test);

  // The final states of the run that just ended: several where racing writes leave the last value
  // of a location open. Over observed_variables(test).
  std::vector<State> final_states(const machine::Machine& machine) const;
  // Whether the last run gave up a loop.
  bool bounded() const { return bounded_; }

  std::uint16_t ranks() const override { return ranks_; }
  std::uint64_t shared_bytes() const override;
  void set_up(machine::Machine& machine, std::pmr::memory_resource* shared) override;
  void before_run(machine::Machine& machine) override;
  void host(schedule::Agent& agent, std::uint16_t rank) override;
  void after_run(machine::Machine&) override {}
  std::string site_name(std::uint16_t site) const override;
  std::string region_name(machine::RegionId region) const override;
  schedule::SlotName slot_name(machine::Address at) const override;

 private:
  struct Place {
    machine::Address at;
    machine::Proxy proxy = machine::Proxy::generic;
    LocationId location = 0;  // whose type counts
  };
  // One thread over its launches.
  struct State_ {
    std::vector<std::int64_t> registers;
    std::size_t next = 0;
    int jumps = 0;
    bool given_up = false;
  };

  void run_launch(schedule::Agent& agent, std::size_t thread);
  std::size_t step(schedule::Agent& agent, std::size_t thread, std::size_t at);
  bool await(schedule::Agent& agent, std::size_t thread, std::size_t at, std::size_t& next);
  void execute(schedule::Agent& agent, std::size_t thread, const Load& load, std::uint16_t site);
  void execute(schedule::Agent& agent, std::size_t thread, const Store& store, std::uint16_t site);
  void execute(schedule::Agent& agent, std::size_t thread, const Atomic& atomic,
               std::uint16_t site);
  std::int64_t value(std::size_t thread, const Operand& operand) const;
  std::int64_t address_value(LocationId location) const;
  Place place(std::size_t thread, const Address& address, Proxy proxy) const;
  machine::Access access(const Place& place, Order order, Scope scope, Type type,
                         std::uint16_t site) const;
  Type type_at(const Place& place, Type wanted) const;
  schedule::BlockBarrier& barrier(std::size_t thread, const Barrier& barrier);

  const Test& test_;
  std::vector<Variable> observed_;
  std::uint16_t ranks_ = 1;
  std::vector<std::vector<std::size_t>> threads_of_;  // by rank
  std::vector<std::uint32_t> block_of_, index_of_;    // by thread
  std::vector<std::size_t> launches_of_;              // by rank
  std::vector<machine::RegionId> regions_;            // by location
  std::vector<machine::StreamId> streams_;
  std::vector<State_> states_;
  using BarrierKey = std::vector<std::int64_t>;
  std::map<BarrierKey, std::unique_ptr<schedule::BlockBarrier>> barriers_;
  bool bounded_ = false;
};

}  // namespace ringfence::litmus
