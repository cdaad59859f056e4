#pragma once
// A litmus test as a program for the machine.
//
// A gpu is a rank, a cta a block, a location a region of rank 0 (where a location lies decides
// nothing: scopes are between threads). Every element of a vector, and every replica of a multimem
// access, is an access of its own. A loop that only polls (one load or compare-and-swap, and the
// branch back) is an await; other loops are followed `kMaxJumps` times and then given up.
//
// The accesses of one instruction have no order among them. Where that can show (they release or
// acquire) the order of execution makes one, so such an instruction is to be run in either
// direction: once for each set of `reversed` ones.

#include <cstdint>
#include <functional>
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

  // Bit i of `reversed` reverses the i-th of the instructions that `unordered` counts. `test` has
  // to outlive it. Throws NotModelled.
  explicit LitmusProgram(const Test& test, std::uint32_t reversed = 0);
  // How many instructions make several accesses that release or acquire; at most kMaxUnordered are
  // told apart.
  static std::uint32_t unordered(const Test& test);
  static constexpr std::uint32_t kMaxUnordered = 6;

  // The values, one or more, that a location may have in the end.
  using FinalValues = std::function<std::vector<std::uint64_t>(machine::Address, std::uint32_t)>;
  // The final states of the run that just ended: several where racing writes leave the last value
  // of a location open. Over observed_variables(test).
  std::vector<State> final_states(const FinalValues& final_values) const;
  // Whether the last run gave up a loop.
  bool bounded() const { return bounded_; }
  // Whether it made the accesses that every run makes: no branch depended on anything, but for
  // waits.
  bool straight() const { return straight_; }

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
  struct ThreadState {
    std::vector<std::int64_t> registers;
    // Syntactic dependencies, as machine::Access::depends counts reads: of each register's value,
    // and of what comes after the branches so far.
    std::vector<std::uint64_t> from;
    std::uint64_t control = 0;
    std::uint32_t reads = 0;
    std::size_t next = 0;
    int jumps = 0;
    bool given_up = false;
  };

  void run_launch(schedule::Agent& agent, std::size_t thread);
  std::size_t step(schedule::Agent& agent, std::size_t thread, std::size_t at);
  bool await(schedule::Agent& agent, std::size_t thread, std::size_t at, std::size_t& next);
  void execute(schedule::Agent& agent, std::size_t thread, const Load& load, std::uint16_t site,
               bool reversed);
  void execute(schedule::Agent& agent, std::size_t thread, const Store& store, std::uint16_t site,
               bool reversed);
  void execute(schedule::Agent& agent, std::size_t thread, const Atomic& atomic, std::uint16_t site,
               bool reversed);
  std::int64_t value(std::size_t thread, const Operand& operand) const;
  std::int64_t address_value(LocationId location) const;
  Place place(std::size_t thread, const Address& address, Proxy proxy) const;
  machine::Access access(const Place& place, Order order, Scope scope, Type type,
                         std::uint16_t site) const;
  std::uint64_t from(std::size_t thread, const Operand& operand) const;
  std::uint64_t from(std::size_t thread, const Address& address) const;
  std::uint64_t next_read(std::size_t thread);
  Type type_at(const Place& place, Type wanted) const;
  schedule::BlockBarrier& barrier(std::size_t thread, const Barrier& barrier);

  bool is_reversed(std::size_t thread, std::size_t at) const;

  const Test& test_;
  const std::uint32_t reversed_;
  std::vector<std::pair<std::size_t, std::size_t>> unordered_;  // thread and instruction
  std::vector<Variable> observed_;
  std::uint16_t ranks_ = 1;
  std::vector<std::vector<std::size_t>> threads_of_;  // by rank
  std::vector<std::uint32_t> block_of_, index_of_;    // by thread
  std::vector<std::size_t> launches_of_;              // by rank
  std::vector<machine::RegionId> regions_;            // by location
  std::vector<machine::StreamId> streams_;
  std::vector<ThreadState> states_;
  using BarrierKey = std::vector<std::int64_t>;
  std::map<BarrierKey, std::unique_ptr<schedule::BlockBarrier>> barriers_;
  bool bounded_ = false;
  bool straight_ = true;
};

// check::CheckSpec::straight of such a program.
inline bool straight(const schedule::Program& program) {
  return dynamic_cast<const LitmusProgram&>(program).straight();
}

}  // namespace ringfence::litmus
