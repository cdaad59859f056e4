#pragma once
// A litmus test as a program for the machine.
//
// A gpu is a rank, a cta a block, a location a region of rank 0 (where a location lies decides
// nothing: scopes are between threads). Every element of a vector, and every replica of a multimem
// access, is an access of its own.
//
// A loop of one strong load or compare-and-swap and a branch (polls.hpp) is an await. Elsewhere a
// thread that comes back to a label with nothing changed (the same values in all registers that
// matter, no value of memory changed) goes no further: without that turn the execution is one too,
// of the same outcome. If all that the turn read is still there in the end, or was read weakly,
// that is a wait that never ends; else nothing came of it. Any other loop is followed `bound` times
// back and then given up.
//
// Threads that meet others at one location alone are no part of the runs: one_place.hpp.
//
// The accesses of one instruction have no order among them. Where that can show (they release or
// acquire) the order of execution makes one, so such an instruction is to be run in either
// direction: once for each set of `reversed` ones.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/one_place.hpp"
#include "emulator/litmus/verdict.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::litmus {

// The test uses what the machine does not model. what() names it, with its position.
class NotModelled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A thread that does not come to its end, and the instruction that it does not get past.
struct Waiting {
  std::size_t thread = 0;
  std::size_t instruction = 0;
  auto operator<=>(const Waiting&) const = default;
};

class LitmusProgram final : public schedule::Program {
 public:
  static constexpr int kBound = 3;

  // Bit i of `reversed` reverses the i-th of the instructions that `unordered` counts. `test` has
  // to outlive it. Throws NotModelled. A run of it throws what becomes a schedule::ProgramError,
  // `LINE:COLUMN: message`, where a thread follows an address at which no location is.
  // `all_run`: threads that meet others at one location alone take part in the runs too (tests).
  explicit LitmusProgram(const Test& test, std::uint32_t reversed = 0, int bound = kBound,
                         bool all_run = false);
  // How many instructions make several accesses that release or acquire; at most kMaxUnordered are
  // told apart.
  static std::uint32_t unordered(const Test& test);
  static constexpr std::uint32_t kMaxUnordered = 6;

  // The values, one or more, that a location may have in the end.
  using FinalValues = std::function<std::vector<std::uint64_t>(machine::Address, std::uint32_t)>;
  // The final states of the run that just ended: several where racing writes leave the last value
  // of a location open. Over observed_variables(test).
  std::vector<State> final_states(const FinalValues& final_values) const;
  // The loops that the last run gave up.
  const std::vector<Waiting>& given_up() const { return given_up_; }
  bool bounded() const { return !given_up_.empty(); }
  // Of a run that ended in a deadlock: who waits for ever, and where. Nobody if there are loops
  // that were given up, or turns that need not be the last.
  std::vector<Waiting> hanging(const FinalValues& final_values) const;
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
  // What a read returned.
  struct Look {
    std::size_t instruction = 0;
    machine::Address at;
    std::uint32_t bytes = 0;
    std::uint64_t value = 0;
    bool strong = false;
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
    std::size_t launches = 0;  // that it has ended
    int jumps = 0;
    bool inside = false;    // an instruction
    bool spinning = false;  // it is a label, and the turn that led there again changed nothing
    // Of such turns: how often something was changed, what was read, and how both were, together
    // with the registers, when a label was met last.
    std::uint64_t changes = 0;
    std::vector<Look> looks;
    struct Visit {
      bool met = false;
      std::uint64_t changes = 0;
      std::size_t looks = 0;
      std::vector<std::int64_t> registers;
    };
    std::vector<Visit> visits;  // by instruction
    std::size_t turn = 0;       // of `looks`: where the turn begins
    // Its bulk groups: an engine, and the times at which its reads end, and all of it.
    struct Group {
      machine::ThreadId engine = machine::kNoThread;
      std::uint32_t read = 0, ended = 0;
    };
    std::vector<Group> groups;
    std::uint32_t cluster_phase = 0;  // that its last arrival at the cluster's barrier joined
  };

  // A barrier with phases: an mbarrier, or a cluster's. Its steps are at `at`
  // (machine/barrier_step.hpp).
  struct Phases {
    std::uint32_t count = 1, pending = 1, complete = 0;
    std::int64_t bytes = 0;  // that are expected and have not come
    bool awaited = true;     // a wait saw the phase before complete
    machine::Address at;
    // By phase; where one stands names it for the strategy.
    using Meetings = std::deque<std::optional<machine::Machine::Meeting>>;
    Meetings meetings = Meetings(1);
    // The copy whose bytes came last, in this phase; of the phase before; and who saw those.
    std::optional<std::pair<machine::ThreadId, std::uint32_t>> came, ended_by;
    std::uint64_t seen_by = 0;
  };

  const Thread& waits_at(LocationId mbarrier, const Thread& issuer) const;

  // What a location is besides: a memory, and the number of the address through which it is
  // reached.
  struct Name {
    LocationId memory = 0;
    int address = 0;
  };
  void name_locations();
  void find_places();
  const std::vector<std::vector<std::int64_t>>& ends_of(std::size_t place) const;
  std::vector<std::int64_t> initial_registers(std::size_t thread) const;
  void run_launch(schedule::Agent& agent, std::size_t thread);
  std::size_t step(schedule::Agent& agent, std::size_t thread, std::size_t at);
  void meet(schedule::Agent& agent, std::size_t thread, std::size_t at);
  void wait_for_ever(schedule::Agent& agent, std::size_t thread, std::size_t at);
  void look(std::size_t thread, const Place& place, Type type, Order order, std::uint64_t value);
  bool await(schedule::Agent& agent, std::size_t thread, std::size_t at, std::size_t& next);
  void execute(schedule::Agent& agent, std::size_t thread, const Load& load, std::uint16_t site,
               bool reversed);
  void execute(schedule::Agent& agent, std::size_t thread, const Store& store, std::uint16_t site,
               bool reversed);
  void execute(schedule::Agent& agent, std::size_t thread, const Atomic& atomic, std::uint16_t site,
               bool reversed);
  std::int64_t value(std::size_t thread, const Operand& operand) const;
  std::int64_t address_value(LocationId location) const;
  // Where an access of so many elements goes.
  Place place(std::size_t thread, const Address& address, Proxy proxy, Type type,
              std::size_t elements = 1) const;
  machine::Access access(const Place& place, Order order, Scope scope, Type type,
                         std::uint16_t site) const;
  std::uint64_t from(std::size_t thread, const Operand& operand) const;
  std::uint64_t from(std::size_t thread, const Address& address) const;
  std::uint64_t next_read(std::size_t thread);
  Type type_at(const Place& place, Type wanted) const;
  schedule::BlockBarrier& barrier(schedule::Agent& agent, std::size_t thread,
                                  const Barrier& barrier, std::uint16_t site);
  void exit(schedule::Agent& agent, std::size_t thread);

  // run_async.cpp
  void find_phases();
  void add_cluster_barriers(machine::Machine& machine);
  void begin_phases(machine::Machine& machine);
  Phases& cluster_of(std::size_t thread);
  [[noreturn]] void undefined(std::size_t thread, const std::string& what) const;
  void run_asynchronous(schedule::Agent& agent, std::size_t thread, const Instruction& i,
                        std::uint16_t site);
  void tell_step(schedule::Agent& agent, const Phases& p, std::uint32_t joined, bool arrives,
                 std::uint16_t site);
  static void complete_if_due(Phases& p);
  void arrive(schedule::Agent& agent, std::size_t thread, Phases& p, const Mbarrier& how,
              std::uint16_t site);
  void depart(schedule::Agent& agent, Phases& p, std::uint32_t phase, Order order, Scope scope,
              std::uint16_t site);
  bool sees_over(schedule::Agent& agent, std::size_t thread, Phases& p, int parity,
                 std::uint16_t site);
  void execute(schedule::Agent& agent, std::size_t thread, const Mbarrier& barrier,
               std::uint16_t site);
  void execute(schedule::Agent& agent, std::size_t thread, const ClusterBarrier& barrier,
               std::uint16_t site);
  void execute(schedule::Agent& agent, std::size_t thread, const Copy& copy, std::uint16_t site);
  std::int64_t generation_of(schedule::Agent& agent, std::size_t thread, std::int64_t instance,
                             std::int64_t id, std::uint32_t expected, std::uint16_t site);
  std::optional<std::int64_t> fixed(std::size_t thread, const Operand& operand) const;

  bool is_reduction(std::size_t thread, const Atomic& atomic) const;
  bool is_reversed(std::size_t thread, std::size_t at) const;

  const Test& test_;
  const std::uint32_t reversed_;
  const int bound_;
  std::vector<std::pair<std::size_t, std::size_t>> unordered_;  // thread and instruction
  std::vector<Variable> observed_;
  std::vector<Name> names_;  // by location
  std::map<LocationId, int> address_of_;
  bool other_proxies_ = false;
  std::uint16_t ranks_ = 1;
  std::vector<std::vector<std::size_t>> threads_of_;  // by rank
  std::vector<std::uint32_t> block_of_, index_of_;    // by thread
  std::vector<std::size_t> launches_of_;              // by rank
  std::vector<machine::RegionId> regions_;            // by location
  // Cells that count arrivals at barriers (generation_of), by block, id and instance.
  static constexpr std::uint64_t kBarriers = 16;
  machine::RegionId arrivals_ = 0;
  std::uint64_t blocks_ = 1;  // the most of a rank
  std::vector<machine::StreamId> streams_;
  std::vector<ThreadState> states_;
  // By thread: what every instruction may need (live_registers), and which registers are written.
  std::vector<std::vector<std::vector<bool>>> live_;
  std::vector<std::vector<bool>> written_;
  std::vector<std::vector<bool>> last_;  // by thread and instruction: is_last()
  bool asynchronous_ = false;            // is_asynchronous(test)
  std::map<LocationId, Phases> mbarriers_;
  std::map<std::pair<int, int>, Phases> clusters_;  // by gpu and cluster, or -1 - cta
  bool all_reach_all_ = true;  // every two strong accesses of one location are so morally
  // The threads that take no part in the runs, and how they may end: at first asked for.
  std::vector<OnePlace> places_;
  std::vector<bool> apart_;                         // by thread
  std::vector<std::vector<Variable>> observed_of_;  // by place
  mutable std::vector<std::optional<std::vector<std::vector<std::int64_t>>>> ends_;
  // A barrier of one launch; of a counted one `waited_for` is empty, as threads that have ended do
  // not make up for arrivals there.
  struct Meeting {
    std::unique_ptr<schedule::BlockBarrier> barrier;
    std::set<std::size_t> waited_for;
    bool used = false;  // in this run
  };
  using BarrierKey = std::vector<std::int64_t>;
  std::map<BarrierKey, Meeting> barriers_;
  std::vector<Waiting> given_up_;
  bool straight_ = true;
};

// check::CheckSpec::straight of such a program.
inline bool straight(const schedule::Program& program) {
  return dynamic_cast<const LitmusProgram&>(program).straight();
}

}  // namespace ringfence::litmus
