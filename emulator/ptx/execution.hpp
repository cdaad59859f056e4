#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/ptx/fault.hpp"
#include "emulator/ptx/memory.hpp"
#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// Nanoseconds that %globaltimer and %clock show. One for all launches of a run; it advances with
/// the work done, and jumps to the next sleeper's time when nothing else can run, so time-outs end.
struct VirtualClock {
  std::uint64_t now = 1;
  /// Nanoseconds a warp instruction. 0: sleepers move it, and who does nothing but look at it: from
  /// one look to the next by 1, 2, 4 ... ns if nothing but arithmetic lies between. So a delay ends
  /// soon, and for a loop that polls, clock or not, time stands still.
  std::uint64_t rate = 1;
};

/// Picks one of `count` (>= 1) possibilities. All freedom of scheduling inside a launch goes
/// through it.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual std::uint32_t choose(std::uint32_t count) = 0;
};
/// Always the first: ready warps queue, so everyone gets a turn.
class FairChooser final : public Chooser {
 public:
  std::uint32_t choose(std::uint32_t) override { return 0; }
};
class SeededChooser final : public Chooser {
 public:
  explicit SeededChooser(std::uint64_t seed) : state_(seed) {}
  std::uint32_t choose(std::uint32_t count) override;

 private:
  std::uint64_t state_;
};

/// Blocks of one launch.
inline constexpr std::uint32_t kMostBlocks = 1U << 24;

/// Of a GPU of which nothing else is said (H100 SXM, H200).
inline constexpr std::uint32_t kMultiprocessors = 132;

struct LaunchConfig {
  std::uint32_t rank = 0;
  std::uint32_t launch = 0;  ///< handed through in Agents::launch
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::array<std::uint32_t, 3> block = {1, 1, 1};
  std::array<std::uint32_t, 3> cluster = {0, 0, 0};  ///< zeros: what the kernel requires, else 1
  std::uint32_t dynamic_shared = 0;                  ///< bytes
  /// The parameter block, each parameter at Program::parameter_offset.
  std::vector<std::uint8_t> parameters;
  /// Address of this rank's copy of the module's globals (Program::global_bytes, see
  /// initial_globals); 0 where the module has none.
  std::uint64_t globals = 0;
  std::uint32_t multiprocessors = kMultiprocessors;  ///< %nsmid
  std::uint32_t resident_blocks = 0;                 ///< at most so many at a time; 0 = all
  bool asks_for_room = false;  ///< blocks come by Execution::admit, else in order of their index
  bool check_shared_races = true;
  /// A write through the async proxy races with an earlier read through the generic one that no
  /// fence.proxy.async separates from it; else GlobalMemory::read_unfenced is told.
  bool fence_reads = false;
  std::uint64_t instruction_budget = 0;  ///< warp instructions; 0 = none
};

/// Throws Error where the kernel cannot be launched so: grid, block, cluster and shared memory. The
/// parameters are looked at when it is launched.
void check_launch(const Program& program, const LaunchConfig& config);

/// Initial bytes of a rank's copy of the module's globals when it lies at `address`.
std::vector<std::uint8_t> initial_globals(const Program& program, std::uint64_t address);

/// A Fault with its place. what() is one line.
class KernelFault : public std::runtime_error {
 public:
  struct Place {
    std::uint32_t rank = 0;
    std::uint32_t block = 0;
    std::uint32_t thread = 0;  ///< within the block
    std::uint32_t instruction = 0;
    std::uint32_t line = 0;  ///< in the PTX text
    std::string file;        ///< the PTX file
    std::string statement;
    std::string source;  ///< "file.cu:12" or empty
  };
  KernelFault(FaultKind kind, const std::string& reason, Place place);
  FaultKind kind() const { return kind_; }
  const Place& place() const { return place_; }
  /// The earlier access, where the fault is about two.
  std::optional<OtherAccess> other;
  /// See Fault.
  std::optional<SharedBytes> shared;

 private:
  FaultKind kind_;
  Place place_;
};

/// One split of a warp: lanes with a common program counter.
struct SplitRef {
  std::uint32_t block = 0;  ///< linear index in the grid
  std::uint32_t warp = 0;
  std::uint32_t split = 0;  ///< valid until the warp runs
  std::uint32_t mask = 0;
  std::uint32_t instruction = 0;
};

/// How far run() goes at most.
struct Quantum {
  std::uint32_t memory_accesses = 0xFFFFFFFF;  ///< requests completed, fences included
  std::uint32_t back_edges = 256;              ///< branches backwards
};

enum class Stop : std::uint8_t {
  quantum,  ///< could go on at once
  yielded,  ///< the memory asked to let others run
  blocked,  ///< the memory completed nothing; the same request comes again
  waiting,  ///< at a barrier, an exchange, asleep
  exited,
};

/// What an mbarrier's phase lacks.
/// Who has to come to the barrier at which a warp waits: the threads of its block, or of its
/// cluster, or nobody in particular, where it counts.
enum class WaitsAt : std::uint8_t { block, cluster, counted };

struct AwaitedPhase {
  std::uint32_t place = 0;  ///< byte of the block's shared memory
  std::uint64_t phase = 0;
  std::uint32_t pending = 0;  ///< arrivals that lack, of `expected`
  std::uint32_t expected = 0;
  std::int64_t transactions = 0;  ///< bytes announced that did not come; below 0: the reverse
};

struct ExecutionCounts {
  std::uint64_t warp_instructions = 0;
  std::uint64_t thread_instructions = 0;
};

/// One launch of a kernel on one rank: a state machine that holds no host stack between calls.
class Execution {
 public:
  /// `program`, `memory` and `clock` outlive the execution. `print` gets what vprintf writes.
  /// Throws Error when the configuration does not fit the kernel.
  Execution(const Program& program, LaunchConfig config, GlobalMemory& memory, VirtualClock& clock,
            std::function<void(const std::string&)> print = {});
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  Execution(Execution&&) noexcept;

  bool finished() const;
  /// True when every live split waits for another one of this launch or sleeps: nothing runs until
  /// the clock moves.
  bool all_waiting() const;
  /// Earliest time at which a sleeper wakes, if there is one.
  std::optional<std::uint64_t> next_wake() const;

  /// Runs a ready split, chosen by `chooser` among the ready warps. Throws KernelFault. Call only
  /// while !finished() && !all_waiting().
  Stop step(Chooser& chooser, const Quantum& quantum = {});

  /// Splits that can run now, for a strategy that chooses itself; run() executes one of them.
  std::vector<SplitRef> ready() const;
  /// Those of one warp, the one that step() would take first.
  void ready(std::uint32_t block, std::uint32_t warp, std::vector<SplitRef>& out) const;
  /// Counts what lets a warp that waited for its warpgroup go on.
  std::uint64_t events() const;
  /// The mbarrier's phase that a warp waits for, as it is now.
  std::optional<AwaitedPhase> awaited_phase(std::uint32_t block, std::uint32_t warp) const;
  /// Of the barriers at which threads of the warp wait, the last in the order of WaitsAt.
  WaitsAt waits_at(std::uint32_t block, std::uint32_t warp) const;
  /// Where blocks ask for room: the block's cluster begins if there is some. False: not now.
  bool admit(std::uint32_t block);
  /// Whether all threads of the warp have exited. True as well for a block that has not started.
  bool exited(std::uint32_t block, std::uint32_t warp) const;
  /// Lets every sleeper of the warp wake: moves the clock. False if none sleeps.
  bool wake(std::uint32_t block, std::uint32_t warp);
  Stop run(const SplitRef& split, const Quantum& quantum = {});

  /// Throws the KernelFault that tells who waits where; for all_waiting() without a sleeper.
  [[noreturn]] void report_deadlock() const;

  const ExecutionCounts& counts() const;
  const LaunchConfig& config() const;

 private:
  class State;
  std::shared_ptr<State> state_;  ///< trials keep it as well
};

/// Runs launches together until all are finished: round robin, or in an order that `chooser` picks.
/// Throws KernelFault.
void run_to_end(std::vector<Execution>& launches, VirtualClock& clock, Chooser& chooser,
                const Quantum& quantum = {});

}  // namespace ringfence::ptx
