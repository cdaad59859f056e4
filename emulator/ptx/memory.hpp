#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "emulator/machine/vocabulary.hpp"
#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// The seam between the PTX executor and a model of global memory. The executor hands over one
/// warp instruction at a time; each lane is a thread of its own for the memory. It keeps no host
/// stack while an access waits: a request that is not completed is simply issued again later.

using machine::Combine;
using machine::Order;
using machine::Scope;
enum class Proxy : std::uint8_t { generic, async, alias, tensormap };

enum class Operation : std::uint8_t {
  load,                  ///< ld; also the read of a cp.async
  store,                 ///< st; also the write of a bulk copy
  atomic,                ///< atom: returns the old value
  reduce,                ///< red: returns nothing, never acquires
  multimem_load_reduce,  ///< one read a replica, combined by the policy
  multimem_store,
  multimem_reduce,
};

/// The part of an access that the instruction fixes. Vector elements are separate memory
/// operations of type `type`, consecutive in memory; a packed type is two 16-bit operations.
struct Access {
  Operation operation = Operation::load;
  Space space = Space::generic;  ///< as written; the memory only sees global addresses
  Type type = Type::b32;
  std::uint8_t elements = 1;  ///< .v2 .v4 .v8
  Order order = Order::weak;
  Scope scope = Scope::sys;
  Combine combine = Combine::none;
  bool whole = false;            ///< the elements are one operation: .b128
  Type accumulate = Type::none;  ///< .acc::f32 / .acc::f16
  bool non_coherent = false;     ///< ld.global.nc
  bool flush = false;            ///< atomics on f32 in global memory flush subnormals
  Proxy proxy = Proxy::generic;
  std::uint32_t bytes() const { return size_of(type) * elements; }
  bool operator==(const Access&) const = default;
};

/// Whether a thread that makes the load twice may be known to get the same (Still).
inline bool is_still(const Access& access) {
  return access.operation == Operation::load && access.order == Order::weak &&
         access.elements == 1 && !access.whole && !access.non_coherent && access.bytes() <= 8;
}

constexpr unsigned kLanes = 32;
constexpr unsigned kMostElements = 8;

/// Which threads act. Thread `warp * 32 + lane` of block `block` (x fastest) of launch `launch`.
struct Agents {
  std::uint32_t rank = 0;
  std::uint32_t launch = 0;  ///< chosen by whoever created the Execution
  std::uint32_t block = 0;
  std::uint32_t warp = 0;
  std::uint32_t mask = 0;
};

/// What a thread has read by a weak load, and what the same load would return again in a round of
/// its looks (rounds.cpp).
struct Still {
  std::uint64_t address = 0;
  std::uint8_t bytes = 0;
  std::uint64_t value = 0;
};

/// What one thread does behind a look (looks.hpp), by what the look returns. It is found on a copy
/// of the thread's registers, so it may be asked at any later time of the run.
class Trial {
 public:
  virtual ~Trial() = default;
  enum class End : std::uint8_t {
    moves_on,  ///< does something else, or other threads have a say in it
    repeats,   ///< looks again, for as long as it sees the same
    gives_up,  ///< the same until a time-out ends it
    traps,     ///< the same, but all that the time-out leads to is a trap or a failed assertion
  };
  /// `values`: by element, zero-extended.
  virtual End end(std::span<const std::uint64_t> values) const = 0;
  /// Whether the thread, with two values of a look of one element, comes to the same: to the same
  /// next op that is not its own alone, with the same in all registers that are read again, and
  /// from there to no further look of a loop that the look is part of.
  virtual bool alike(std::uint64_t a, std::uint64_t b) const = 0;
};

/// What the text compares with what a look returns, where that is one value: told to people alone.
struct LookTest {
  using Compare = machine::Compare;
  Compare compare = Compare::eq;
  std::uint64_t with = 0;
  unsigned bytes = 4;
  bool is_signed = false;
  bool holds(std::uint64_t value) const;
  /// The test that holds where this one does not.
  LookTest negated() const { return {machine::negated(compare), with, bytes, is_signed}; }
};

/// The executor's part of a look.
class Lookahead {
 public:
  virtual ~Lookahead() = default;
  virtual std::optional<LookTest> test(std::uint32_t lane) const {
    static_cast<void>(lane);
    return {};
  }
  virtual std::shared_ptr<const Trial> trial(std::uint32_t lane,
                                             std::vector<Still> stills) const = 0;
  /// Where the trial gives up: lets the thread and the clock be at the last attempt that sees this.
  virtual void give_up(std::uint32_t lane, std::span<const std::uint64_t> values,
                       std::vector<Still> stills) = 0;
  /// A hash of what the whole warp would do from here on, as far as its registers decide it: of
  /// what counts; with `attempts` also of what only counts attempts or shows the time.
  virtual std::uint64_t state(bool attempts = false) const = 0;

  // Where the whole warp has come back to the look with the same state(), nothing else having
  // happened.

  /// Whether attempts or clocks might end that.
  virtual bool counts_attempts() const { return false; }
  /// What only counts attempts or shows the time, in the whole warp; and that it is so again, where
  /// its parts stand as they did and that decides no more than when they give up.
  virtual std::vector<std::uint64_t> attempts() const { return {}; }
  virtual void set_attempts(std::span<const std::uint64_t> values) { static_cast<void>(values); }
  /// What a lane's load or atomic returned last, there and by that instruction.
  using Seen = std::function<std::optional<std::uint64_t>(
      std::uint32_t instruction, std::uint32_t lane, bool shared, std::uint64_t address,
      std::uint32_t bytes)>;
  /// How the warp ends whose every access returns what it did: moves_on, if that is not known.
  /// Lanes of `idle` stay where they are. `key` stands for what is returned.
  virtual Trial::End rounds_end(const Seen& seen, std::uint32_t idle, std::uint64_t key) {
    return static_cast<void>(seen), static_cast<void>(idle), static_cast<void>(key),
           Trial::End::moves_on;
  }
  /// Where that gives up: the same, and its attempts and the clock are moved to the last one.
  virtual void give_up_rounds(const Seen& seen, std::uint32_t idle) {
    return static_cast<void>(seen), static_cast<void>(idle);
  }
};

/// A block all of whose threads have met at a barrier, at a moment when none of them has gone on
/// (those that exited aside).
class BlockState {
 public:
  virtual ~BlockState() = default;
  /// Ops so far that may have had an effect beyond the block's registers, shared memory and
  /// barriers; accesses through GlobalMemory, of which it knows itself, are none here.
  virtual std::uint64_t acts() const = 0;
  /// Hashes of what decides what the block does next, but for what it reads: registers, places in
  /// the text, local memory, and shared memory that is not under the model. `rest`, where time-outs
  /// that can only trap are spared: without what only counts the rounds or shows the time, if that
  /// decides no more than when such a trap is due.
  struct Digest {
    std::uint64_t all = 0;
    std::optional<std::uint64_t> rest;
    bool times_out = false;  ///< one may be due
  };
  virtual Digest digest(bool spares) const = 0;
  /// What only counts the rounds or shows the time, where time-outs may be due that can only trap,
  /// and that decides no more; else nothing. And that it is so again, where all stands as it did.
  virtual std::vector<std::uint64_t> attempts() const = 0;
  virtual void set_attempts(std::span<const std::uint64_t> values) = 0;
};

struct Request {
  const Access* access = nullptr;
  Agents agents;  ///< agents.mask: lanes still to do
  std::array<std::uint64_t, kLanes> address;
  /// elements[e] + lane * lane_bytes holds element e of a lane: read for stores and reductions,
  /// written for loads (zero-extended to lane_bytes, 4 or 8). For atom and red, elements[0] is the
  /// operand, compare the expected value of cas, and results where the old values go (null for
  /// red). A result's register may be another element's operand.
  std::array<std::byte*, kMostElements> elements{};
  std::byte* compare = nullptr;
  std::byte* compare_high = nullptr;  ///< of the second half of a cas of 16 bytes
  std::array<std::byte*, kMostElements> results{};
  std::uint32_t lane_bytes = 4;
  std::uint32_t instruction = 0;   ///< index in Function::instructions
  Lookahead* lookahead = nullptr;  ///< of a look; null elsewhere
  bool peeled = false;             ///< the look stands before the loop that waits (looks.hpp)
  std::uint32_t standing = 0;  ///< of a look: lanes that stand at it, left out by its guard or not
  std::uint32_t line = 0;      ///< in the PTX text
  bool shared = false;         ///< the addresses are shared_place()s

  // Answers.
  std::uint32_t completed = 0;  ///< lanes that are done; a part splits the warp
  bool yield = false;           ///< done, but others should run before these lanes go on
};

/// Accesses of an asynchronous operation to bytes that lie side by side.
struct BulkPart {
  Agents agents;                          ///< the one thread that issued it, or a warp's first
  std::uint32_t engine = 0;               ///< GlobalMemory::issue()
  Operation operation = Operation::load;  ///< load, store or reduce
  bool async = true;                      ///< through the async proxy
  bool shared = false;                    ///< the address is a shared_place()
  std::uint64_t address = 0;
  std::span<std::byte> data;  ///< read into, or written
  Type type = Type::none;     ///< of reductions, with the next two
  Combine combine = Combine::none;
  Scope scope = Scope::sys;
  std::uint32_t instruction = 0;
  std::uint32_t line = 0;
};

/// A byte of a block's shared memory; blocks are counted through the grid.
constexpr std::uint64_t shared_place(std::uint32_t block, std::uint64_t offset) {
  return std::uint64_t{block} << 32 | offset;
}
/// Shared memory comes under the memory model by lines of so many bytes.
constexpr std::uint32_t kSharedLine = 16;

/// A weak access to shared memory before its line came under the model.
struct SharedPast {
  std::uint32_t block = 0;   ///< of the thread
  std::uint32_t thread = 0;  ///< in its block
  std::uint32_t time = 0;    ///< SharedMoments, then
  std::uint32_t instruction = 0;
  std::uint32_t byte = 0;  ///< of the line
  std::uint32_t bytes = 0;
  bool write = false;
  bool of_engine = false;  ///< `thread` is an engine
  bool async = false;      ///< through the async proxy
};

/// Who accesses shared memory, for ordered(): a thread of a block, or an engine.
struct SharedActor {
  bool engine = false;
  std::uint32_t block = 0;
  std::uint32_t thread = 0;  ///< in its block; or the engine
};

/// The moments of a warp's threads: what a thread does at one is told apart from what it does after
/// it has synchronised.
struct SharedMoments {
  const std::uint32_t* time = nullptr;  ///< by lane
  std::uint32_t level = 0;  ///< what threads of the block did before that is known to all of them
};

/// An arrival at a barrier, or what else changes an mbarrier.
struct BarrierStep {
  bool mbarrier = false;
  std::uint64_t place =
      0;  ///< shared_place() of an mbarrier; else the number of the block's barrier
  std::uint32_t joined = 0;     ///< the generation or phase that it is part of, from 1; 0: an init
  std::uint32_t completed = 0;  ///< generations or phases that are complete behind it
  bool arrives = false;         ///< an arrival at an mbarrier
  bool raises = false;          ///< makes a phase wait for more than its init says
};
/// A look at an mbarrier: whether the parity of the completed phases' number is odd, or, without
/// parity, whether more than `phase` are complete.
struct BarrierLook {
  std::uint64_t place = 0;
  bool parity = false;
  std::uint32_t phase = 0;
  std::uint32_t instruction = 0;
  /// Of a look that a cycle without effects comes back to, its state() alone; null: none does, or
  /// this look is to be made.
  Lookahead* lookahead = nullptr;
  bool attempts = false;       ///< attempts or clocks end that cycle in a way that is taken
  std::uint32_t standing = 0;  ///< lanes that stand at it, left out by its guard or not
};

/// A barrier of a whole block at which not all threads met by one instruction.
struct UnevenBarrier {
  std::uint32_t number = 0;
  std::uint32_t thread = 0;  ///< one that waited there, and by what
  std::uint32_t instruction = 0;
  std::uint32_t other = 0;  ///< another one, and what it came by; or what it exited by
  std::uint32_t other_instruction = 0;
  bool exited = false;
};

/// What a fence instruction says.
struct Fence {
  Order order = Order::acq_rel;
  Scope scope = Scope::sys;
  Proxy proxy = Proxy::generic;  ///< other than generic: fence.proxy.*
  bool inits_only = false;       ///< fence.mbarrier_init: of the thread's mbarrier.init alone
  bool global = true;            ///< fence.proxy.async: the spaces that it is for
  bool shared = true;
  bool one_way = false;  ///< fence.proxy.async: .acquire or .release of two fences of two threads
};

/// An instance of a barrier, unique in one Execution: bar.sync, bar.warp.sync, barrier.cluster and
/// mbarrier phases. What precedes an arrival happens before what follows a departure from it. Any
/// number of threads departs from one, at any time until retire().
using SyncToken = std::uint64_t;

/// The order of an arrival (release, relaxed) or departure (acquire, relaxed) and its scope; what
/// has no scope by the manual takes sys.
struct SyncOrder {
  Order order = Order::acq_rel;
  Scope scope = Scope::sys;
  bool open = false;  ///< no scope is written, and other blocks take part: a policy
  friend bool operator==(const SyncOrder&, const SyncOrder&) = default;
};

class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;

  /// Performs the access for some, all or none of the lanes in request.agents.mask and says so in
  /// request.completed. Throws Fault for an access that cannot be performed at all.
  virtual void access(Request& request) = 0;
  /// Done when it returns; as accesses of 16 bytes at most unless a memory knows better.
  virtual void bulk(const BulkPart& part);
  // Asynchronous operations are in no thread's program order: each is an engine's, which comes
  // after what the threads in agents.mask, who issue it together, did until then. A memory without
  // such orders has one engine. `same`: an engine whose operation of the same issuer this one is to
  // be part of.
  static constexpr std::uint32_t kNoEngine = ~std::uint32_t{0};
  virtual std::uint32_t issue(const Agents&, std::uint32_t same = kNoEngine) {
    return static_cast<void>(same), 0;
  }
  /// When the operation's next accesses are made.
  virtual std::uint32_t engine_time(const Agents&, std::uint32_t engine) {
    return static_cast<void>(engine), 0;
  }
  /// Ends a part of an operation, what it reads or what it writes: it is before the time returned.
  virtual std::uint32_t end_part(const Agents&, std::uint32_t engine) {
    return static_cast<void>(engine), 0;
  }
  /// The threads have waited for the parts before that time.
  virtual void observe(const Agents&, std::uint32_t engine, std::uint32_t time) {
    static_cast<void>(engine), static_cast<void>(time);
  }
  /// These parts are complete for who departs from the token, of an mbarrier of that block.
  virtual void complete(SyncToken, const Agents&, std::uint32_t engine, std::uint32_t time,
                        std::uint32_t block) {
    static_cast<void>(engine), static_cast<void>(time), static_cast<void>(block);
  }
  /// mbarrier.init by the one thread in the mask: the engine and time that stand for it.
  virtual std::pair<std::uint32_t, std::uint32_t> initialise(const Agents&) { return {}; }
  virtual void fence(const Agents& agents, const Fence& fence, std::uint32_t instruction) = 0;
  /// `stays`: the threads wait for the others. Those that go on arrive with what they did so far.
  virtual void arrive(SyncToken token, const Agents& agents, bool stays,
                      const SyncOrder& order = {}) = 0;
  virtual void depart(SyncToken token, const Agents& agents, const SyncOrder& order = {}) = 0;
  /// Threads that have exited and did not arrive there: the barrier that completes now did not wait
  /// for them. That orders no memory, but those that it lets go on do so only behind their exit.
  virtual void released_by_exit(SyncToken, const Agents& exited) { static_cast<void>(exited); }
  /// Before such a barrier completes. Throws Fault where that is one.
  virtual void uneven_barrier(const Agents&, const UnevenBarrier& barrier) {
    static_cast<void>(barrier);
  }
  /// A write through the async proxy to shared memory, ordered after a read through the generic one
  /// by everything but a fence.proxy.async: their instructions.
  virtual void read_unfenced(const Agents&, std::uint32_t read, std::uint32_t write) {
    static_cast<void>(read);
    static_cast<void>(write);
  }
  /// The thread has ended, and has not waited for the reads of a bulk store that it issued: the
  /// instruction.
  virtual void exits_under_store(const Agents&, std::uint32_t store) { static_cast<void>(store); }
  /// All threads of the block meet at the barrier of that instruction, which lets them go on; the
  /// caller came last. Throws Fault where they do nothing but come back there.
  virtual void met(const Agents& last, std::uint32_t instruction, BlockState& state) {
    static_cast<void>(last), static_cast<void>(instruction), static_cast<void>(state);
  }
  /// Nothing departs from the token any more.
  virtual void retire(SyncToken) {}
  /// These lanes of a warp have handed one another values (votes, shuffles), which orders no
  /// memory.
  virtual void exchanged(const Agents&) {}
  /// A look by the thread in agents.mask at an mbarrier's phase that took asynchronous bytes, the
  /// last of them `engine`'s, which were there before `time`; the thread has not seen it complete
  /// yet. False: they have not come, for this look.
  virtual bool bytes_have_come(const Agents& agents, std::uint32_t engine, std::uint32_t time) {
    static_cast<void>(agents), static_cast<void>(engine), static_cast<void>(time);
    return true;
  }
  // Barriers whose threads are not all of a fixed set: which arrivals form a generation is open.
  /// Others may act before what these threads do at such a barrier.
  virtual void before_barrier(const Agents&) {}
  /// They arrived, and what they did is one step of that barrier.
  virtual void barrier_step(const Agents&, const BarrierStep& step) { static_cast<void>(step); }
  /// Whether time-outs that only a trap or a failed assertion follows are taken.
  virtual bool takes_time_outs(const Agents&) { return false; }
  /// Threads look whether an mbarrier's phase is complete. `waits`: a look in vain would only be
  /// repeated, so none is made; these threads then come again, when the answer is `later`.
  /// `now`: what the executor knows, for a memory that orders no barriers.
  enum class Look : std::uint8_t { complete, incomplete, later };
  virtual Look look(const Agents&, const BarrierLook& look, bool waits, bool now) {
    static_cast<void>(look), static_cast<void>(waits);
    return now ? Look::complete : Look::incomplete;
  }

  // Shared memory. The executor keeps it as plain bytes as long as its accesses are weak and
  // ordered; a line that is accessed strongly, or by accesses that race, comes under the model by
  // share(), and requests with `shared` set are made there from then on.
  virtual bool models_shared() const { return false; }
  /// Whether every line is the model's from its first access.
  virtual bool shares_all(const Agents&) { return false; }
  virtual SharedMoments moments(const Agents&) { return {}; }
  /// Whether what `earlier` did at that time is in the causality past of what `now` does; with
  /// `by_async`, also for an access of the async proxy. The agents run at present.
  virtual bool ordered(const Agents&, const SharedActor& now, const SharedActor& earlier,
                       std::uint32_t time, bool by_async) {
    static_cast<void>(now), static_cast<void>(earlier), static_cast<void>(time);
    return static_cast<void>(by_async), true;
  }
  /// Whether anything that a thread of `block` did, its beginning at least, is in that past.
  virtual bool knows_of(const Agents& now, std::uint32_t block) {
    static_cast<void>(now), static_cast<void>(block);
    return true;
  }
  /// `past`: of each byte the last write and the reads since, in this order.
  virtual void share(const Agents&, std::uint64_t place, std::span<const std::byte> line,
                     std::span<const SharedPast> past) {
    static_cast<void>(place), static_cast<void>(line), static_cast<void>(past);
  }
  /// griddepcontrol.wait: true once the launches before this one are complete and visible.
  virtual bool dependencies_met(const Agents& agents) = 0;
  /// griddepcontrol.launch_dependents: before it, where another thread of the block may come first;
  /// and it. `next` are threads of the block that come to it too, with no other step before; `met`:
  /// since all threads of the block met at a barrier, the warp had no other step.
  virtual void before_trigger(const Agents&) {}
  virtual void launch_dependents(const Agents&, std::span<const Agents> next, bool met,
                                 std::uint32_t instruction) {
    static_cast<void>(next), static_cast<void>(met), static_cast<void>(instruction);
  }
};

}  // namespace ringfence::ptx
