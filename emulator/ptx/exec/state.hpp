#pragma once

// The executor's state: what a launch is made of while it runs. Private to emulator/ptx/exec.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/exec/shared_races.hpp"
#include "emulator/ptx/exec/zeroed.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/looks.hpp"
#include "emulator/ptx/tensor_map.hpp"

namespace ringfence::ptx {

/// Windows of the generic address space. Shared addresses have 32 bits: 0 .. 2^24 is the block's
/// own memory, (r + 1) << 24 that of block r of its cluster.
constexpr std::uint64_t kSharedWindow = 0x7F0100000000ULL;
constexpr std::uint64_t kLocalWindow = 0x7F0200000000ULL;
constexpr std::uint64_t kParamWindow = 0x7F0300000000ULL;
constexpr std::uint64_t kWindowBytes = 0x100000000ULL;
constexpr std::uint32_t kSharedBits = 24;
/// Of such an address, the place in its block's shared memory.
constexpr std::uint64_t kOffsetMask = (1ULL << kSharedBits) - 1;
/// The shared address of an instruction's operand, which may be a generic one of the shared window.
inline std::uint32_t shared_offset(std::uint64_t address) {
  if (address - kSharedWindow < kWindowBytes) address -= kSharedWindow;
  return static_cast<std::uint32_t>(address);
}
/// Bytes that a bulk or asynchronous copy moves at once.
constexpr std::uint32_t kPiece = 16;
/// Nanoseconds that one look at a clock adds at most: differences of 32 bits do not overflow.
constexpr std::uint64_t kMostIdle = 1U << 20;

/// Of a generic address.
Space classify(std::uint64_t address);
std::uint64_t window_of(Space space);

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedFree>;
AlignedBytes aligned_bytes(std::size_t bytes);

enum class SplitState : std::uint8_t {
  ready,
  barrier,
  exchange,
  warp_sync,
  cluster,
  group,  ///< until its warpgroup has issued the products that it waits for
  asleep
};

struct Split {
  std::uint32_t mask = 0;
  std::uint32_t pc = 0;
  std::uint32_t turn = 0;  ///< how often it stepped back for others: lower runs first
  SplitState state = SplitState::ready;
  std::uint32_t wait = 0;   ///< barrier number, or member mask
  std::uint64_t wake = 0;   ///< asleep until
  std::uint64_t token = 0;  ///< barrier instance it waits for
};

/// A cp.async that is not complete yet.
struct PendingCopy {
  std::uint32_t op = 0;
  std::uint32_t lane = 0;
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint32_t bytes = 0;
  std::uint32_t source_bytes = 0;
  AsyncMoment moment;  ///< under a memory model: it is done
};

/// A bulk copy as one of its threads issues it; it is done at once.
struct BulkCopy {
  std::uint32_t lane = 0;
  std::uint32_t op = 0;
  std::uint32_t blocks = 0;  ///< multicast: the blocks' bits; 0: the destination's own block
  bool async = true;         ///< through the async proxy
  std::uint64_t barrier = 0;
  AsyncMoment moment;
};

/// Matrix products of a warp, each one's number where it is named: its warps count alike.
struct Products {
  std::uint32_t issued = 0;
  std::uint32_t ended = 0;            ///< known to have, by wgmma.wait_group
  std::uint32_t observed = 0;         ///< the memory model was told so of those up to this one
  bool fenced = false;                ///< there was a wgmma.fence
  std::deque<std::uint32_t> commits;  ///< the last one's number in each open group
  std::deque<std::pair<std::uint32_t, AsyncMoment>> moments;  ///< under a memory model, by number
  // By watched register: the last product that writes it, the last one that has it in A, whether it
  // was written since the last fence.
  std::vector<std::uint32_t> writer;
  std::vector<std::uint32_t> reader;
  std::vector<std::uint8_t> touched;
};

struct Block;

struct Warp {
  Block* block = nullptr;
  std::uint32_t index = 0;
  std::uint32_t live = 0;
  bool queued = false;
  bool tried = false;         ///< a copy on which is tried out what the warp will do (attempts.cpp)
  std::uint32_t rounds = 0;   ///< quanta in a row in which registers alone decided what it did
  std::uint64_t round = 0;    ///< digest of the registers at the end of the latest
  std::uint64_t effects = 0;  ///< ops so far that had one (Looks::has_effect)
  std::uint32_t exit_pc = 0;  ///< where lanes exited last
  /// Where it went on when all threads of the block had met, unless it did more than compute since.
  std::optional<std::uint32_t> met;
  std::uint64_t idle = 0;  ///< what its next look at the clock adds, if it does nothing else before
  AlignedBytes registers;
  std::vector<Split> splits;
  std::vector<std::uint32_t> peers;  ///< by block of the cluster: lanes that know that it has begun
  std::vector<std::uint32_t> cluster_phase;  ///< per lane: phases of barrier.cluster arrived at
  // Copy groups of each lane, oldest first; the last is the open one.
  std::vector<std::deque<std::vector<PendingCopy>>> async_groups;
  std::vector<std::deque<std::vector<AsyncMoment>>> bulk_groups;
  Products products;
};

struct Barrier {
  std::vector<std::uint32_t> arrived;  ///< per warp: lanes
  std::uint32_t count = 0;             ///< threads expected; 0 = all of the block
  bool active = false;
  bool reduces = false;    ///< the active generation's threads came by bar.red
  std::uint32_t ones = 0;  ///< bar.red: predicates that were true
  std::uint32_t lanes = 0;
  std::uint64_t generation = 0;  ///< so many are complete
  SyncToken token = 0;
  WarpClock clock;
};

/// An mbarrier object; it lives beside shared memory, keyed by its offset, because its 64 bits are
/// opaque to programs. The bits in memory hold the phase.
struct Mbarrier {
  std::uint32_t expected = 0;
  std::uint32_t pending = 0;
  std::int64_t transactions = 0;
  std::uint64_t phase = 0;
  SyncToken token = 0;
  SyncToken previous = 0;  ///< token of the phase before
  SyncToken before = 0;    ///< and of the one before that
  /// Under a memory model, whose bytes came last in this phase, and in the one before: the engine,
  /// and the time before which they were there.
  struct Bytes {
    std::uint32_t engine = 0;
    std::uint32_t time = 0;
  };
  std::optional<Bytes> bytes;
  std::optional<Bytes> ended_by;
  /// What a warp's looks have shown of that one.
  struct Looks {
    std::uint32_t seen = 0;  ///< lanes that saw it complete
    /// By instruction, what the warp stood there with (state_of) when its look did not last.
    std::map<std::uint32_t, std::uint64_t> missed;
    bool missed_in(std::uint32_t pc, std::uint64_t state) const {
      const auto at = missed.find(pc);
      return at != missed.end() && at->second == state;
    }
  };
  std::map<std::uint32_t, Looks> looks;
  bool remote = false;              ///< another block's threads arrive by .shared::cluster
  std::vector<std::uint32_t> came;  ///< what asynchronous operations completed in this phase
  bool awaited = true;              ///< a wait for the phase before was successful
  std::uint32_t init_block = 0;     ///< who initialised it: block of the grid ...
  std::uint32_t init_thread = 0;    ///< ... and thread
  WarpClock clock;
  WarpClock previous_clock;
  WarpClock before_clock;
};

struct Cluster {
  std::vector<Block*> blocks;
  std::uint64_t phase = 0;
  SyncToken token = 0;
  SyncToken previous = 0;
  WarpClock clock;
  WarpClock previous_clock;
  std::unique_ptr<SharedOrder> order;  ///< the memory model's, where it has shared memory
  std::unique_ptr<SharedRaces> races;  ///< of all its blocks' shared memory; null: not checked
  /// Of the engines (SharedRaces): first the warpgroups', then those that bulk copies take in turn.
  struct Engine {
    std::uint32_t number = 0;
    std::uint32_t line = 0;
  };
  std::vector<Engine> engines;
  std::uint32_t next_copy = 0;
};

/// What the warps of a warpgroup multiplied, by number: all must do the same.
struct Warpgroup {
  std::uint32_t first = 1;
  std::deque<std::uint64_t> signatures;
};

/// What a thread of another block of the cluster did to a block's shared memory, while nothing yet
/// puts it before the block's end.
struct Visit {
  std::uint32_t block = 0;  ///< of the thread, linear in the grid
  std::uint32_t thread = 0;
  std::uint32_t time = 0;   ///< SharedMoments, then
  std::uint32_t phase = 0;  ///< phases of barrier.cluster that the thread had arrived at
  std::uint32_t op = 0;
  std::uint64_t number = 0;  ///< visits count up
  std::uint64_t offset = 0;
  std::uint64_t mbarrier = 0;  ///< a signal of the mbarrier at `offset`: the phase (from 1)
  bool async = false;          ///< by an asynchronous operation: a thread has to see it come
};

struct Block {
  std::uint32_t index = 0;  ///< linear in the grid
  std::array<std::uint32_t, 3> at = {0, 0, 0};
  std::uint32_t cluster_rank = 0;
  Cluster* cluster = nullptr;
  std::uint32_t live_warps = 0;
  Zeroed<std::byte, 1024> shared;
  std::vector<std::uint8_t> modelled;  ///< by line: it is the memory model's; empty: none is
  std::vector<std::byte> local;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  std::map<std::uint32_t, Mbarrier> mbarriers;
  std::vector<Warpgroup> groups;
  SharedRaces* races = nullptr;           ///< the cluster's
  std::map<std::uint64_t, Visit> visits;  ///< by thread of the grid: its last one
  std::vector<Visit> signals;
  std::uint32_t last_thread = 0;  ///< whose exit ended it
  std::uint64_t acts = 0;         ///< BlockState::acts
  std::uint64_t clocks = 0;       ///< so often did its warps look at one
  std::uint64_t passed = 0;       ///< ops with an effect that no lane of a warp had to do
};

class Execution::State : public std::enable_shared_from_this<Execution::State> {
 public:
  State(const Program& program, LaunchConfig config, GlobalMemory& memory, VirtualClock& clock,
        std::function<void(const std::string&)> print);

  bool finished() const { return live_blocks_.empty() && begun_ == clusters_total_; }
  bool all_waiting() const { return queue_.empty() && !finished(); }
  std::optional<std::uint64_t> next_wake() const;
  void wake_sleepers();
  Stop step(Chooser& chooser, const Quantum& quantum);
  std::vector<SplitRef> ready() const;
  void ready(std::uint32_t block, std::uint32_t warp, std::vector<SplitRef>& out) const;
  WaitsAt waits_at(std::uint32_t block, std::uint32_t warp) const;
  bool admit(std::uint32_t block);
  bool exited(std::uint32_t block, std::uint32_t warp) const;
  bool wake(std::uint32_t block, std::uint32_t warp);
  Stop run(const SplitRef& ref, const Quantum& quantum);
  [[noreturn]] void report_deadlock() const;

  const LaunchConfig& config() const { return config_; }
  const ExecutionCounts& counts() const { return counts_; }
  std::uint64_t events() const { return events_; }
  std::optional<AwaitedPhase> awaited_phase(std::uint32_t block, std::uint32_t warp) const;

 private:
  // exec/launch.cpp
  void fill_constants();
  std::uint64_t variable_address(Operand::Owner owner, std::uint32_t index) const;
  std::uint64_t parameter_value(const Constant& constant) const;
  std::uint32_t special_constant(Special special) const;
  void admit_clusters();
  bool has_room() const;
  void begin_cluster(std::uint32_t index);
  void start_block(Cluster& cluster, std::uint32_t index, std::uint32_t rank);
  std::vector<std::uint32_t> cluster_blocks(std::uint32_t cluster) const;

  // exec/splits.cpp
  std::size_t pick(const Warp& warp) const;
  /// Merges ready splits that meet and returns the one to go on with.
  std::size_t settle(Warp& warp, std::size_t current);
  /// Moves `lanes` of a split to `pc` as a split of their own.
  void detach(Warp& warp, std::size_t split, std::uint32_t lanes, std::uint32_t pc);
  void branch_index(Warp& warp, std::size_t split, const Op& op, std::uint32_t mask);
  void exit_lanes(Warp& warp, std::size_t split, std::uint32_t mask);
  void tell_unread(Warp& warp, std::uint32_t mask);
  void finish_block(Block& block);

  // exec/run.cpp
  struct Turn;
  struct Outcome {
    std::uint32_t completed = 0;
    bool yield = false;
  };
  Stop run_warp(Warp& warp, std::size_t split, const Quantum& quantum);
  std::optional<Stop> run_registers(Turn& turn);
  std::optional<Stop> run_effect(Turn& turn);
  Outcome perform(Turn& turn, const Op& op);
  void meet(Turn& turn, const Op& op);
  std::optional<Stop> run_exit(Turn& turn, std::uint32_t mask);
  bool take(Turn& turn, std::size_t split);
  std::optional<Stop> take_next(Turn& turn);
  bool jumped_back(Turn& turn, std::uint32_t lanes, std::uint64_t done);
  void account(std::uint64_t done, std::uint64_t threads) {
    counts_.warp_instructions += done;
    counts_.thread_instructions += threads;
    clock_.now += done * clock_.rate;
  }
  void look_for_end(Warp& warp, std::uint32_t mask, std::uint32_t pc);
  void enqueue(Warp& warp);
  void expand(std::uint32_t mask);
  void compute(AluContext& context, const Warp& warp, const Op& op, std::uint32_t mask) {
    context.mask = mask;
    context.whole = mask == warp.live;
    if (!context.whole) expand(mask);
    op.run(context, op);
  }
  [[noreturn]] void trap(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask);
  void launch_trigger(Warp& warp, std::uint32_t mask, std::uint32_t pc);
  bool leads_to_trigger(std::uint32_t pc) const;
  std::vector<Agents> next_triggers(const Block& block) const;
  [[noreturn]] void raise(const Fault& fault, const Warp& warp, std::uint32_t pc) const;
  Agents agents(const Warp& warp, std::uint32_t mask) const;

  // exec/special.cpp
  void special(Warp& warp, const Op& op, std::uint32_t mask);
  std::uint64_t special_value(const Warp& warp, Special which, std::uint32_t lane,
                              std::uint64_t now) const;

  // exec/access.cpp
  /// `standing`: all lanes of the split; the guard of the instruction leaves `mask` of them.
  Outcome memory_op(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask,
                    std::uint32_t standing);
  void load_plain(Warp& warp, const MemoryOp& memory, Request& request, Space space,
                  std::uint32_t mask);
  void store_plain(Warp& warp, const MemoryOp& memory, Request& request, Space space,
                   std::uint32_t mask);
  void atomic_plain(Warp& warp, const MemoryOp& memory, Request& request, Space space,
                    std::uint32_t mask);
  void addresses(const Warp& warp, Slot base, std::int64_t offset, bool wide, std::uint32_t mask,
                 std::array<std::uint64_t, kLanes>& out) const;
  /// Where bytes of shared, local or parameter memory lie; faults when they are out of bounds or
  /// misaligned.
  std::byte* plain(Warp& warp, Space space, std::uint64_t address, std::uint32_t bytes,
                   std::uint32_t lane);
  std::byte* shared_bytes(Warp& warp, Block& owner, std::uint64_t address, std::uint32_t bytes,
                          std::uint32_t lane);
  Block& shared_owner(Warp& warp, std::uint64_t address, std::uint32_t lane);
  // exec/shared.cpp
  Outcome shared_op(Warp& warp, const MemoryOp& memory, Request& request, std::uint32_t mask);
  /// Takes note of a thread's access. True: the memory model has to make it.
  bool shares_all(const Warp& warp, std::uint32_t lane);
  void share_overlap(Warp& warp, const Request& request, std::uint32_t bytes, std::uint32_t mask);
  void share_lines(Warp& warp, Block& owner, std::uint64_t offset, std::uint32_t bytes);
  struct SharedLook {
    std::uint32_t op = 0;
    bool writes = false;
    bool strong = false;
    /// Of the warp's lanes, once one was asked for; a line that comes under the model ends them.
    std::optional<SharedMoments> moments;
  };
  std::uint32_t note_plain(Warp& warp, const Request& request, std::uint32_t bytes,
                           std::uint32_t mask, const SharedLook& look);
  bool shared_in_model(Warp& warp, Block& owner, std::uint64_t address, std::uint32_t bytes,
                       std::uint32_t lane, SharedLook& look);
  std::unique_ptr<SharedOrder> shared_order(const Cluster& cluster);
  bool is_modelled(const Block& block, std::uint64_t offset, std::uint32_t bytes) const;
  void share_line(Warp& warp, Block& block, std::uint64_t line);
  /// A weak access of 1, 2, 4 or 16 bytes by a lane's thread.
  void shared_piece(Warp& warp, std::uint64_t address, std::uint32_t bytes, std::uint32_t lane,
                    std::uint32_t op, std::byte* data, bool writes);
  void to_space(Warp& warp, const Op& op, std::uint32_t mask);
  void map_address(Warp& warp, const Op& op, std::uint32_t mask);
  std::uint8_t read_generic_byte(Warp& warp, std::uint64_t address, std::uint32_t lane);

  // exec/sync.cpp
  void find_open_barriers();
  /// All lanes that have a thread, live or not.
  std::uint32_t threads_of(const Warp& warp) const;
  /// A barrier at which lanes of the warp have arrived goes on behind the exits of others, too.
  void tell_exits(SyncToken token, const Warp& warp, std::uint32_t exited, std::uint32_t arrived);
  /// Of the warp's lanes, those that have arrived in the cluster barrier's phase.
  static std::uint32_t arrived_in(const Cluster& cluster, const Warp& warp);
  void barrier(Warp& warp, std::size_t split, const Op& op);
  /// True: it let all threads of the block go on, which all waited there.
  void join_ready(Warp& warp);
  bool try_complete(Block& block, std::uint32_t number);
  bool is_act(const Op& op, std::uint32_t pc) const;
  BlockState::Digest digest(const Block& block, bool spares);
  std::uint64_t digest_of(const Block& block, bool all);
  template <class F>
  void each_register_of(const Warp& warp, const Split& split,
                        std::span<const Looks::Register> registers, F take) const;
  const Looks::State& rounds_at(std::uint32_t op);
  void check_even(const Block& block, std::uint32_t number);
  void warp_sync(Warp& warp, std::size_t split, const Op& op);
  void try_warp_sync(Warp& warp, std::uint32_t members);
  void exchange(Warp& warp, std::size_t split, const Op& op);
  void perform_exchange(Warp& warp, const Op& op, std::uint32_t mask);
  /// ldmatrix, mma and wgmma are .sync: a lane waits until all of its warp are at the instruction.
  /// Whether the split is all of them; if not, it waits, or was merged: choose a split anew.
  bool gather(Warp& warp, std::size_t split);
  void cluster_arrive(Warp& warp, std::uint32_t mask, bool relaxed);
  void cluster_wait(Warp& warp, std::size_t split, std::uint32_t mask);
  void try_complete_cluster(Cluster& cluster);
  void lanes_gone(Warp& warp);
  std::uint32_t uniform(const Warp& warp, Slot slot, std::uint32_t mask, const char* what) const;

  // exec/async.cpp
  void copy_async(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask);
  void copy_commit(Warp& warp, const Op& op, std::uint32_t mask);
  Outcome copy_wait(Warp& warp, const Op& op, std::uint32_t mask);
  bool complete_copy(Warp& warp, const PendingCopy& copy);
  void copy_by_engine(Warp& warp, const PendingCopy& copy);

  // exec/lifetime.cpp
  /// Takes note of an access to shared memory by a lane's thread, where it is another block's.
  void visit(Warp& warp, Block& owner, std::uint64_t address, std::uint32_t lane, std::uint32_t pc);
  void visit(Warp& warp, Block& owner, std::uint32_t lane, Visit visit);
  /// The same of a signal to an mbarrier, which joins that phase (from 1).
  void visit_signal(Warp& warp, Block& owner, std::uint64_t address, std::uint32_t lane,
                    std::uint32_t pc, std::uint64_t phase, bool async);
  /// Threads left the cluster's barrier; saw a phase of an mbarrier complete; exit.
  void passed_cluster(Warp& warp, std::uint32_t mask);
  void passed_phase(Warp& warp, std::uint32_t offset, std::uint64_t phase, std::uint32_t mask);
  void check_visits(Warp& warp, std::uint32_t exiting);

  // exec/mbarrier.cpp
  /// `standing`: lanes that stand there, left out by its guard or not.
  Outcome mbarrier(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask,
                   std::uint32_t standing);
  void init_mbarrier(Warp& warp, const Op& op, std::uint32_t address, std::uint32_t lane,
                     std::uint32_t pc);
  void signal_mbarrier(Warp& warp, const Op& op, std::uint32_t address, std::uint32_t lane,
                       std::uint32_t pc);
  void arrive_at(Warp& warp, const Op& op, Mbarrier& barrier, std::uint32_t address,
                 std::uint32_t lane, std::uint32_t count);
  void arrive_behind_copies(Warp& warp, const Op& op, Mbarrier& barrier, std::uint32_t address,
                            std::uint32_t lane);
  void depart_from(Warp& warp, const MbarrierOp& form, const Mbarrier& barrier, SyncToken phase,
                   const WarpClock& clock, std::uint32_t mask);
  Outcome look_at_phase(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask,
                        std::uint32_t standing);
  Mbarrier& mbarrier_at(Warp& warp, std::uint64_t address, std::uint32_t lane);
  /// Faults where an operation has no form for another block's mbarrier.
  void check_form(Warp& warp, const MbarrierOp& form, std::uint64_t address, std::uint32_t lane);
  /// Completes the phase where nothing lacks.
  void mbarrier_check(Mbarrier& barrier);
  /// A use of an mbarrier has to be ordered after its init, and before its inval and the next init.
  void check_init(Warp& warp, std::uint64_t address, std::uint32_t lane, std::uint32_t pc,
                  bool writes, bool inits = false);
  void check_arrival(const Mbarrier& barrier, std::uint32_t count, std::uint32_t address,
                     std::uint32_t lane);
  void arrive_by_copies(Warp& warp, Mbarrier& barrier, std::uint32_t lane);
  /// Notes a change of an mbarrier by the instruction at hand, which joined that phase (from 1;
  /// 0: an init); tell_steps() hands them on.
  void changed(Warp& warp, std::uint64_t address, std::uint32_t lane, std::uint64_t joined,
               bool arrives = false, bool raises = false);
  void tell_steps(Warp& warp, std::uint32_t mask);
  void arrived(SyncToken token, std::uint32_t lane, const SyncOrder& order);
  std::uint32_t phase_named(const Warp& warp, const Op& op, std::uint32_t lane) const;

  // exec/phase_loops.cpp
  class Alone;
  /// Whether a look in vain, there, only leads to the same look.
  bool repeats_look(Warp& warp, std::uint32_t pc, std::uint32_t lane);
  bool find_repeat(Warp& warp, std::uint32_t pc, Alone& alone);
  static std::uint64_t lane_value(const std::byte* registers, Looks::Register r,
                                  std::uint32_t lane);
  static bool looks_at_phase(MbarrierOp::Form form) {
    return form == MbarrierOp::Form::test_wait || form == MbarrierOp::Form::try_wait;
  }
  /// Whether attempts or clocks end the loop around that look in a way that is taken.
  bool counts_attempts(const Warp& warp, std::uint32_t look) const;

  // exec/bulk.cpp
  void bulk_copies(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask);
  AsyncMoment next_engine(Warp& warp, const Op& op, std::uint32_t mask,
                          std::uint32_t same = GlobalMemory::kNoEngine);
  /// Ends what an operation reads, or writes (`all`).
  void end_part(Warp& warp, std::uint32_t lane, AsyncMoment& moment, bool all);
  // exec/remote.cpp
  void remote_writes(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask);
  void remote_reduce(Warp& warp, const Access& access, std::uint64_t address,
                     std::span<std::byte> operand, const BulkCopy& copy);
  void tensor_copy(Warp& warp, const Op& op, std::uint32_t pc, BulkCopy& copy);
  struct TensorBox;
  TensorBox tensor_box(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t lane);
  static void reduce_tensor(const CopyOp& form, const TensorMap& map, std::uint32_t lane,
                            BulkPart& box);
  /// Writes a piece of at most 16 bytes to shared memory of the blocks that the copy goes to, or
  /// reads one.
  void bulk_write(Warp& warp, const BulkCopy& copy, std::uint64_t address, const std::byte* from,
                  std::uint32_t bytes);
  void bulk_read(Warp& warp, const BulkCopy& copy, std::uint64_t address, std::byte* to,
                 std::uint32_t bytes);
  void bulk_end(Warp& warp, BulkCopy& copy, std::uint32_t bytes, bool signals);
  /// An asynchronous operation's bytes come to an mbarrier: of another proxy or none, it arrives.
  void complete_bytes(Warp& warp, std::uint64_t address, const BulkCopy& copy, std::uint32_t bytes);
  TensorMap tensor_map(Warp& warp, std::uint64_t address, std::uint32_t pc, std::uint32_t lane);

  // exec/products.cpp
  void group_multiply(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask);
  std::uint32_t issue_product(Warp& warp, std::uint64_t signature);
  void fragment(Warp& warp, const Op& op, const GroupProduct& form, float* out);
  void accumulate(Warp& warp, const Op& op, const GroupProduct& form, bool adds, const float* left,
                  const float* right);
  void free_group(Block& block, std::uint32_t group, std::uint32_t least);
  void group_fence(Warp& warp, std::uint32_t mask);
  void group_commit(Warp& warp, std::uint32_t mask);
  /// False: the warp waits until its warpgroup has issued what it waits for.
  bool group_wait(Warp& warp, std::size_t split, const Op& op, std::uint32_t mask);
  void watch(Warp& warp, std::uint32_t pc);
  void load_tile(Warp& warp, std::uint64_t descriptor, std::uint32_t first, std::uint32_t rows,
                 bool transposed, Type type, std::uint32_t pc, const AsyncMoment& moment,
                 float* out);

  /// The warp's number in its cluster, as SharedRaces counts.
  std::uint32_t in_cluster(const Warp& warp) const {
    return warp.block->cluster_rank * warps_ + warp.index;
  }
  std::uint32_t groups_a_block() const { return (warps_ + 3) / 4; }
  /// True: the access races, and the memory model has to make it.
  void tell_unfenced(Warp& warp, std::uint32_t lane);
  bool check_shared_async(Warp& warp, std::uint64_t address, std::uint32_t bytes,
                          std::uint32_t lane, std::uint32_t op, const AsyncMoment& moment,
                          bool writes, bool proxy = true);
  void bulk_in_model(Warp& warp, std::uint64_t address, std::span<std::byte> data,
                     std::uint32_t lane, std::uint32_t op, const AsyncMoment& moment, bool writes,
                     bool proxy);
  [[noreturn]] void raise_race(const Warp& warp, const SharedRaces::Race& race, std::uint32_t lane,
                               const std::string& what) const;
  std::uint64_t in_cluster_memory(const Warp& warp, std::uint64_t address) const {
    const std::uint64_t window = address >> kSharedBits;
    const std::uint64_t rank = window == 0 ? warp.block->cluster_rank : window - 1;
    return rank * shared_bytes_ + (address & kOffsetMask);
  }

  // exec/trial.cpp
  class LaneTrial;
  class WarpLookahead;
  const Looks::State& looks_at(std::uint32_t op);
  /// `attempts`: also of what only counts attempts or shows the time.
  std::uint64_t state_of(const Warp& warp, bool attempts = false);
  Split left_out_of(const Warp& warp, const Split& split) const;
  bool overwrites(const Op& op, Looks::Register r) const;
  bool reads_time_in_cycle();

  // exec/attempts.cpp
  class Attempts;
  template <class F>
  void each_attempt(const Warp& warp, bool of_rounds, F take);
  std::uint64_t layout(const Warp& warp) const;
  std::vector<std::uint64_t> attempts(const Block& block);
  void set_attempts(const Block& block, std::span<const std::uint64_t> values);
  bool counts_in_cycle(const Warp& warp);

  // exec/matrix.cpp
  void matrix_move(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask);
  void matrix_multiply(Warp& warp, const Op& op, std::uint32_t mask);

  // exec/print.cpp
  void print(Warp& warp, const Op& op, std::uint32_t mask);
  [[noreturn]] void assert_fail(Warp& warp, const Op& op, std::uint32_t mask);
  std::string read_text(Warp& warp, std::uint64_t address, std::uint32_t lane);

  // Registers.
  std::byte* place(const Warp& warp, Slot slot) const {
    std::byte* banks[2] = {warp.registers.get(), constants_.get()};
    return banks[slot.raw & 1] + (slot.raw >> 1);
  }
  std::uint32_t* words(const Warp& warp, Slot slot) const {
    return reinterpret_cast<std::uint32_t*>(place(warp, slot));
  }
  std::uint64_t* longs(const Warp& warp, Slot slot) const {
    return reinterpret_cast<std::uint64_t*>(place(warp, slot));
  }
  std::uint32_t predicate(const Warp& warp, Slot slot) const { return *words(warp, slot); }

  const Program& program_;
  LaunchConfig config_;
  GlobalMemory& memory_;
  VirtualClock& clock_;
  std::function<void(const std::string&)> print_;
  AlignedBytes constants_;
  std::uint32_t threads_ = 1;
  std::uint32_t warps_ = 1;
  std::uint64_t shared_bytes_ = 0;
  bool models_shared_ = false;
  std::uint8_t shares_all_ = 2;  // 2: not asked yet
  // Of the instruction at hand: changes of mbarriers; arrivals at phases, by token.
  std::vector<BarrierStep> steps_;
  struct Arrived {
    SyncToken token = 0;
    std::uint32_t lanes = 0;
    SyncOrder order;
  };
  struct Completed {
    SyncToken token = 0;
    std::uint32_t lane = 0;
    std::uint32_t engine = 0;
    std::uint32_t time = 0;
    std::uint32_t block = 0;
  };
  std::vector<Arrived> arrived_;
  std::vector<Completed> completed_;
  /// What repeats_look() found, and the registers of the lane that it depends on.
  struct LookRepeats {
    std::vector<std::pair<Looks::Register, std::uint64_t>> with;
    bool repeats = false;
  };
  std::unordered_map<std::uint32_t, std::vector<LookRepeats>> look_repeats_;  // by instruction
  std::uint32_t cluster_size_ = 1;
  std::uint32_t begun_ = 0;          // clusters
  std::vector<bool> cluster_begun_;  // where blocks ask for room
  std::uint32_t clusters_total_ = 1;
  std::map<std::uint32_t, std::unique_ptr<Block>> live_blocks_;
  std::map<std::uint32_t, std::unique_ptr<Cluster>> live_clusters_;
  std::deque<Warp*> queue_;
  SyncToken next_token_ = 1;
  ExecutionCounts counts_;
  alignas(64) std::uint32_t lanes_[kLanes] = {};
  std::uint32_t lanes_mask_ = 0;
  std::uint32_t open_barriers_ = 0;  ///< by number: see find_open_barriers()
  std::uint32_t sleepers_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t visits_ = 0;
  std::unordered_map<std::uint32_t, Looks::State> states_;      // by op, where a warp stood
  std::unordered_map<std::uint32_t, Looks::State> rounds_;      // the same in rounds of a block
  std::unordered_map<std::uint64_t, Trial::End> ends_of_time_;  // of looks that may time out
  std::unordered_map<std::uint64_t, bool> rounds_of_one_look_;
  std::optional<bool> reads_time_in_cycle_;
};

template <class F>
void Execution::State::each_register_of(const Warp& warp, const Split& split,
                                        std::span<const Looks::Register> registers, F take) const {
  for (const Looks::Register& r : registers) {
    const std::byte* const at = warp.registers.get() + r.offset;
    if (r.width == Looks::Register::Width::predicate) {
      std::uint32_t word = 0;
      std::memcpy(&word, at, 4);
      take(word & split.mask);
      continue;
    }
    const std::size_t size = r.width == Looks::Register::Width::wide ? 8 : 4;
    each_lane(split.mask, [&](std::uint32_t lane) {
      std::uint64_t value = 0;
      std::memcpy(&value, at + lane * size, size);
      take(value);
    });
  }
}

}  // namespace ringfence::ptx
