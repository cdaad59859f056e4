#pragma once
// One launch of a PTX kernel on one rank, under the memory model.
//
// A warp is one agent; each of its lanes is a thread of the machine of its own. A warp instruction
// hands its lanes' global accesses to the machine: vector elements as separate scalar operations,
// multimem as one operation a replica (design, section 2). Points, where other agents may step, lie
// before strong accesses and fences: before each lane's where few lanes act (flags, atomics), one
// for all where a whole warp moves data. There the strategy may also let one lane run ahead of the
// others.
//
// A loop that waits is no loop here (emulator/ptx/looks.hpp says what one is). Where one lane's
// look decides, the lane stays before it until the place can give another value. Where more is
// read, or other lanes have a say, the warp stops once a whole iteration has repeated, until one of
// the places that were read can give another value. A time-out that leads on is a choice.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/cases/signals.hpp"
#include "emulator/cases/space.hpp"
#include "emulator/cases/usage.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/reduction.hpp"
#include "emulator/schedule/agent.hpp"
#include "emulator/schedule/execution.hpp"

namespace ringfence::cases {

// A decoded kernel and how its instructions are numbered as sites.
struct Kernel {
  ptx::Program program;
  std::vector<std::uint16_t> site;  // by instruction; 0 where it is no access
};

// What a warp waits for that is no place of memory: an mbarrier's phase, a place for its block on
// the GPU, the end of the launch before.
struct PhaseWait {
  std::uint64_t label = 0;
  ptx::AwaitedPhase phase;
  bool used = false;
  enum class What : std::uint8_t { phase, room, launch } what = What::phase;
};

// What a verdict tells of kernels and does not change it for.
struct Remark {
  enum class Kind : std::uint8_t {
    none,
    two_barriers,       // threads met at a block's barrier from two instructions: sites a and b
    exited,             // ... from site a, while others of the block had exited, at site b
    fence_only,         // site a reads what the launch before wrote, without griddepcontrol.wait
    read_unfenced,      // site b writes through the async proxy what a read, with no proxy fence
                        // between
    exits_under_store,  // the thread that issued the bulk store of site a ends without waiting for
                        // it
    same_value,         // sites a and b store one value to a word of shared memory, unordered
    time_out            // a wait's time-out, at site a, can only trap and was not taken
  };
  Kind kind = Kind::none;
  std::uint16_t a = 0, b = 0;
  friend bool operator==(const Remark&, const Remark&) = default;
};

// What happened to a kernel that could not go on, for people; in memory that all ranks share.
struct FaultText {
  char text[600] = {};
  PhaseWait phases[64] = {};        // of the first so many warps of a rank that wait for one
  Remark remarks[32] = {};          // of all runs, the first so many that differ
  std::uint16_t waits_in_turn = 0;  // a launch, from 1, whose blocks are not all resident and wait
  std::uint16_t time_outs[8] = {};  // sites of those that lead on, were due and were not taken
  std::uint16_t spins[4] = {};      // sites of loops that the budget of instructions ended
  std::uint16_t no_room = 0;        // a launch, from 1, of which blocks wait for others to end

  // Puts a value in one of the lists, whose free entries are T{}; not if it is there, or all are
  // taken.
  template <class T, std::size_t N>
  static void keep(T (&list)[N], const T& value) {
    for (T& known : list) {
      if (known == value) return;
      if (known != T{}) continue;
      known = value;
      return;
    }
  }
};

// One launch of a stream whose launches may overlap, as the next one sees it (programmatic
// dependent launch). Of one rank; the rank's agents share it.
struct Succession {
  machine::StreamId stream = 0;  // its own
  bool triggered = false;        // every block has executed launch_dependents, or has ended
  bool ended = false;
  std::vector<schedule::Agent*> waiting;  // for either
  // Inside act(), by the agent that makes it true.
  void tell(schedule::Agent& by) {
    for (schedule::Agent* a : waiting) by.let_go(*a);
    waiting.clear();
  }
};

class KernelRun final : public ptx::GlobalMemory {
 public:
  static constexpr std::uint64_t kBarriers = 16;  // of a block, by number
  struct Settings {
    machine::RegionId first_region = 0;
    std::uint16_t barrier_site = 0;
    ptx::SumPolicy policy = ptx::SumPolicy::rank_order;
    std::uint64_t seed = 0;    // of seeded sums
    std::uint64_t budget = 0;  // warp instructions
    schedule::Role role = schedule::Role::thread;
    Signals* signals = nullptr;    // told of strong writes
    Usage* usage = nullptr;        // told of all accesses
    std::uint32_t run = 0;         // number of the run for it
    bool plain_multicast = false;  // stores to multicast addresses are no misuse
    bool fresh_lines = false;      // machine::FreshLines::on
    bool vector_atomic = false;    // machine::VectorAccess::atomic
    bool line_ordered = false;     // machine::LineAccess::ordered
    bool note_unfenced = false;    // machine::AsyncWar::note
    // Of each block's shared memory, one after the other; none: the kernel has none. Behind its
    // bytes lie the block's barriers, 16 bytes each, and which thread was the first to let the next
    // launch begin.
    std::optional<std::uint32_t> first_shared;
    std::uint64_t barriers_at = 0;
    // Of launches that may overlap: this one, and the one before where this does not wait for its
    // end to begin.
    Succession* self = nullptr;
    Succession* before = nullptr;
    std::function<void(const std::string&)> print;  // what the kernel prints; none: nobody sees it
    std::uint64_t mbarriers_at = 0;  // behind those, what mbarriers' steps leave: as the bytes lie
  };
  // All outlive the run; `clock` is the rank's. Throws ptx::Error where the configuration does not
  // fit the kernel.
  KernelRun(const Kernel& kernel, ptx::LaunchConfig config, const Space& space,
            const Settings& settings, FaultText& fault, ptx::VirtualClock& clock);

  // One agent for each warp.
  std::vector<schedule::Agent::ChildSpec> children();
  const ptx::ExecutionCounts& counts() const { return execution_.counts(); }

  void access(ptx::Request& request) override;
  void bulk(const ptx::BulkPart& part) override;
  std::uint32_t issue(const ptx::Agents& agents, std::uint32_t same) override;
  std::uint32_t engine_time(const ptx::Agents& agents, std::uint32_t engine) override;
  std::uint32_t end_part(const ptx::Agents& agents, std::uint32_t engine) override;
  void observe(const ptx::Agents& agents, std::uint32_t engine, std::uint32_t time) override;
  void complete(ptx::SyncToken token, const ptx::Agents& agents, std::uint32_t engine,
                std::uint32_t time, std::uint32_t block) override;
  std::pair<std::uint32_t, std::uint32_t> initialise(const ptx::Agents& agents) override;
  void fence(const ptx::Agents& agents, const ptx::Fence& fence,
             std::uint32_t instruction) override;
  void arrive(ptx::SyncToken token, const ptx::Agents& agents, bool stays,
              const ptx::SyncOrder& order) override;
  void depart(ptx::SyncToken token, const ptx::Agents& agents,
              const ptx::SyncOrder& order) override;
  void met(const ptx::Agents& last, std::uint32_t instruction, ptx::BlockState& state) override;
  bool bytes_have_come(const ptx::Agents& agents, std::uint32_t engine,
                       std::uint32_t time) override;
  void before_barrier(const ptx::Agents& agents) override;
  void barrier_step(const ptx::Agents& agents, const ptx::BarrierStep& step) override;
  Look look(const ptx::Agents& agents, const ptx::BarrierLook& look, bool waits, bool now) override;
  bool takes_time_outs(const ptx::Agents& agents) override {
    return takes_time_outs(warp_of(agents));
  }
  void released_by_exit(ptx::SyncToken token, const ptx::Agents& exited) override;
  void uneven_barrier(const ptx::Agents& agents, const ptx::UnevenBarrier& barrier) override;
  void read_unfenced(const ptx::Agents& agents, std::uint32_t read, std::uint32_t write) override {
    static_cast<void>(agents);
    note_unfenced(kernel_.site[read], kernel_.site[write]);
  }
  void exits_under_store(const ptx::Agents& agents, std::uint32_t store) override {
    static_cast<void>(agents);
    remark({Remark::Kind::exits_under_store, kernel_.site[store], 0});
  }
  void retire(ptx::SyncToken token) override;
  void exchanged(const ptx::Agents& agents) override {
    warp_of(agents).agent->exchanged(agents.mask);
  }
  bool dependencies_met(const ptx::Agents& agents) override;
  void before_trigger(const ptx::Agents& agents) override;
  void launch_dependents(const ptx::Agents& agents, std::span<const ptx::Agents> next, bool met,
                         std::uint32_t instruction) override;
  bool models_shared() const override { return settings_.first_shared.has_value(); }
  bool shares_all(const ptx::Agents& agents) override;
  ptx::SharedMoments moments(const ptx::Agents& agents) override;
  bool ordered(const ptx::Agents& agents, const ptx::SharedActor& now,
               const ptx::SharedActor& earlier, std::uint32_t time, bool by_async) override;
  bool knows_of(const ptx::Agents& now, std::uint32_t block) override;
  void share(const ptx::Agents& agents, std::uint64_t place, std::span<const std::byte> line,
             std::span<const ptx::SharedPast> past) override;

 private:
  // A read since the warp's last effect.
  struct Seen {
    std::uint32_t instruction = 0;
    std::uint32_t lane = 0;
    machine::Address at;
    machine::Access access;
    bool by_rmw = false;
    std::uint64_t value = 0;
    machine::Wanted wanted;     // another answer
    machine::Wanted needs;      // what people are told
    std::uint32_t earlier = 0;  // the lane's one before, from 1
  };
  // What a lane has read last by a strong load.
  struct Polled {
    machine::Address at;
    std::uint8_t element = 0;
    std::uint64_t value = 0;
  };
  // A weak load that a loop may make again.
  struct WeakRead {
    std::uint32_t lane = 0;
    std::uint32_t time = 0;  // of the lane's thread, then
    ptx::Still still;
  };
  // The warp stood at a look since its last effect.
  struct Visit {
    std::uint32_t instruction = 0;
    std::uint32_t lanes = 0;
    std::uint64_t state = 0;
    std::size_t from = 0;                 // what it has read since, in Warp::seen
    std::vector<std::uint64_t> attempts;  // where some are counted: Lookahead::attempts
  };
  // A block at a barrier at which all of its threads have met.
  struct Moment {
    std::uint32_t instruction = 0;
    ptx::BlockState::Digest digest;
    std::size_t from = 0;  // what it has read since, in Rounds::reads
  };
  struct RoundRead {
    std::uint32_t warp = 0;
    Seen seen;
  };
  struct RoundWait {
    std::uint32_t warp = 0;
    schedule::LaneWait wait;
  };
  // Of a block, since its last effect.
  struct Rounds {
    std::uint32_t met = 0;   // so often did its threads meet
    std::uint32_t next = 0;  // at that many they are looked at again
    std::uint64_t acts = 0;  // BlockState::acts when they met last
    bool recording = false;
    // What its rounds counted when it met first, by instruction, where that is not counted on.
    std::vector<std::pair<std::uint32_t, std::vector<std::uint64_t>>> attempts;
    std::vector<Moment> moments;
    std::vector<RoundRead> reads;
    bool asleep = false;
    std::vector<RoundWait> waits;  // what can wake it
  };
  // What ends a lane's wait where looks in vain are left out.
  class LookEnds;
  // Instructions in progress.
  class Load;
  class Atomic;
  struct Warp {
    schedule::Agent* agent = nullptr;
    std::uint32_t block = 0;
    std::uint32_t index = 0;
    std::uint32_t waiting = 0;   // lanes that wait for a place to change
    std::uint32_t missed = 0;    // of these: the last poll saw no change though it could have
    std::uint32_t armed = 0;     // lanes whose next read of a place in `waits` is to see a change
    std::uint32_t together = 0;  // lanes of `waiting` whose iteration repeats: `iteration` is read
    std::uint32_t released = 0;  // lanes that were, and have not looked again yet
    bool unchanged = false;      // none of those places has given another value since
    std::uint32_t may_give_up = 0;    // lanes of `waiting` that a time-out would let go on
    std::uint32_t gives_up = 0;       // lanes that it does
    std::uint32_t dependent = 0;      // lanes of `waiting` that wait for the launch before to end
    std::uint32_t behind = 0;         // lanes that have waited for it
    std::uint32_t behind_others = 0;  // lanes that let others go on (lets_others)
    std::uint32_t held = 0;           // lanes that do until one of those has (is_held)
    bool parked = false;              // waits for other warps of the block or cluster
    bool sleeping = false;            // its block does, and it has stopped
    std::uint32_t looking = 0;        // lanes of `waiting` that wait for an mbarrier's phase alone
    PhaseWait* told = nullptr;        // while some do
    bool accessed = false;
    // Moments of its threads, to be looked at again once it has synchronised.
    bool moved = true;
    std::array<std::uint32_t, ptx::kLanes> times{};
    std::vector<std::uint32_t> began;  // by lane, its moment at the start; in a cluster
    std::uint16_t last_site = 0;
    machine::Address fault_at{~0u, 0};  // of the last access
    bool refused = false;               // that one may not be made
    std::vector<Seen> seen;
    std::array<std::uint32_t, ptx::kLanes> seen_last{};  // by lane: its place there, from 1
    std::array<Polled, ptx::kLanes> polled{};            // by lane, for `polled_by`
    std::uint32_t polled_by = 0;                         // lanes without an effect since
    std::vector<WeakRead> weak_reads;                    // the last ones
    std::vector<Visit> visits;
    std::vector<schedule::LaneWait> iteration;
    std::vector<std::vector<schedule::LaneWait>> waits;      // by lane
    std::vector<std::shared_ptr<const LookEnds>> look_ends;  // by lane
  };
  struct Target {
    const Mapping* mapping = nullptr;
    std::uint64_t offset = 0;
  };
  struct Departure {
    ptx::SyncToken token;
    ptx::Agents agents;
    ptx::SyncOrder order;
  };
  struct Token {
    std::vector<machine::ThreadId> staying;            // that wait at the barrier
    std::optional<machine::Machine::Meeting> meeting;  // of those that went on
  };

  std::uint32_t number_of(machine::ThreadId engine);
  machine::ThreadId thread_of(const ptx::SharedActor& actor) const;
  // Where a bulk part in global memory lies.
  Target bulk_target(Warp& warp, const ptx::BulkPart& part, std::uint32_t lane);
  Warp& warp_of(const ptx::Agents& a) { return warps_[a.block * warps_a_block_ + a.warp]; }
  void run(Warp& warp);
  // Lets the machine know of barriers that completed, and wakes the warps that waited there.
  void settle(Warp& warp);
  void close(Warp& warp, const Token& token);
  void close_tokens(Warp& warp);
  void wait(Warp& warp);
  // Until there is a place for its block.
  void wait_for_room(Warp& warp);
  void ended(Warp& warp);
  void wait_for_launch(Warp& warp);
  static std::uint32_t all_lanes(const Warp& warp);
  void block_triggers(Warp& warp);
  machine::Address trigger_address(const ptx::Agents& agents) const {
    return barrier_address(agents, false, kBarriers);
  }
  void note_unwaited(Warp& warp, const ptx::Request& request, const Target* targets);
  void tell_wait(Warp& warp, const PhaseWait& wait);
  // Waits for other warps.
  void park(Warp& warp);
  // What an mbarrier's phase lacks that the warp waits for, as long as it does.
  void tell_phase(Warp& warp);
  // What those that wait for a phase lack now: before a warp that changed it stops.
  void tell_phases();
  void wake_others(Warp& warp);
  void report(Warp& warp, const ptx::KernelFault& fault);
  // `shared`: what it does to shared memory, where it is a copy.
  void describe(std::uint32_t instruction, bool shared, machine::AccessInfo& out) const;
  void remark(const Remark& remark) { FaultText::keep(fault_.remarks, remark); }
  // Of a wait at this look, its time-outs that are not taken. `together`: it is a whole
  // iteration's.
  void note_time_outs(const machine::Machine& machine, std::uint32_t look, bool together);
  void note_unfenced(std::uint16_t read, std::uint16_t write) {
    if (settings_.note_unfenced) remark({Remark::Kind::read_unfenced, read, write});
  }

  void locate(Warp& warp, const ptx::Request& request, Target* targets);
  [[noreturn]] static void refuse(Warp& warp, machine::Address at, ptx::FaultKind kind,
                                  const std::string& reason, std::uint32_t lane);
  // That the rank was given access to the memory.
  void check_reach(Warp& warp, const Mapping& mapping, machine::Address at, std::uint32_t lane) {
    if ((mapping.reach >> execution_.config().rank & 1) == 0) refuse_peer(warp, mapping, at, lane);
  }
  [[noreturn]] void refuse_peer(Warp& warp, const Mapping& mapping, machine::Address at,
                                std::uint32_t lane) const;
  // `operand`: which of the instruction's operands that are addresses it is.
  [[noreturn]] void refuse_outside(Warp& warp, std::uint64_t address, std::uint64_t bytes,
                                   std::uint32_t instruction, unsigned operand, std::uint32_t lane);
  std::string shared_advice(const ptx::SharedBytes& at) const;
  // Tells `usage` of the access of lanes, or of the bytes that a bulk copy moves.
  void note_use(const ptx::Request& request, const Target* targets,
                const machine::Access& how) const;
  void note_use(const Mapping& mapping, std::uint64_t offset, std::uint64_t bytes, bool writes,
                bool reads, bool data) const;
  machine::Address shared_address(std::uint64_t place) const {
    return {
        settings_.first_region + *settings_.first_shared + static_cast<std::uint32_t>(place >> 32),
        place & 0xFFFFFFFFU};
  }
  machine::Address place(const Target& target, std::size_t replica = 0) const {
    return {settings_.first_region + target.mapping->regions[replica], target.offset};
  }
  // What the strategy sees of an instruction that goes to `target` first.
  schedule::PendingAccess pending(const Target& target, const machine::Access& how,
                                  machine::AccessKind kind, const ptx::Request& request) const {
    return {place(target), request.access->bytes(), kind, how.site};
  }
  // Of all replicas; valid until the next call.
  std::span<const machine::Address> places(const Target& target) {
    places_.clear();
    for (std::size_t r = 0; r < target.mapping->regions.size(); ++r) {
      places_.push_back(place(target, r));
    }
    return places_;
  }
  // Where the steps of a barrier of the block, or of an mbarrier, are kept.
  machine::Address barrier_address(const ptx::Agents& agents, bool mbarrier,
                                   std::uint64_t place) const {
    machine::Address at = shared_address(
        mbarrier ? place : ptx::shared_place(agents.block, place * machine::kLineBytes));
    at.offset += mbarrier ? settings_.mbarriers_at : settings_.barriers_at;
    return at;
  }
  // -- kernel_polls.cpp
  // A look, at memory or at an mbarrier's phase, that a cycle without effects comes back to.
  struct InCycle {
    const ptx::Agents& agents;
    std::uint32_t instruction = 0;
    std::uint32_t standing = 0;
    ptx::Lookahead& lookahead;
    const Target* targets = nullptr;  // by lane; null: all lanes look at `at`
    machine::Address at;
    bool attempts = false;  // also what only counts attempts has to be as it was
  };
  static InCycle in_cycle(const ptx::Request& request, const Target* targets) {
    return {request.agents, request.instruction, request.standing, *request.lookahead, targets, {}};
  }
  // Whether the whole warp has come back to the look with nothing else to show; then its lanes
  // wait.
  bool goes_round(Warp& warp, const InCycle& look);
  // How a warp ends that has come back to the look with nothing else to show. False: it gives up,
  // and stands before its last attempt.
  bool repeats(Warp& warp, const InCycle& look, const Visit& before);
  using End = ptx::Trial::End;
  End end_of_rounds(Warp& warp, const InCycle& look, std::size_t from);
  void spare_attempts(Warp& warp, const InCycle& look, std::uint32_t lanes);
  std::optional<std::uint64_t> last_seen(const Warp& warp, std::uint32_t instruction,
                                         std::uint32_t lane, bool shared, std::uint64_t address,
                                         std::uint32_t bytes) const;
  // What the lanes of a request move as one by the policies for that.
  struct Groups {
    std::vector<machine::AsOne> all;
    std::array<std::int8_t, ptx::kLanes> of;  // by lane: its place in `all`, or -1
    bool lines = false;                       // some are of several lanes
    bool any = false;                         // else the two are not filled
    machine::AsOne* at(std::uint32_t lane) {
      return !any || of[lane] < 0 ? nullptr : &all[static_cast<std::size_t>(of[lane])];
    }
  };
  void find_groups(const ptx::Request& request, const Target* targets, const machine::Access& how,
                   Groups& groups) const;
  // Whether one lane's look, which saw `values`, only leads to another one like it; then the lane
  // waits before it. Where it gives up instead, its registers are moved to its last attempt.
  bool stays(machine::Machine& machine, Warp& warp, const ptx::Request& request, std::uint32_t lane,
             machine::Address at, const machine::Access& how, bool by_rmw,
             std::span<const std::uint64_t> values, const machine::Wanted& needs,
             std::span<const std::uint64_t> elements = {});
  // What a lane has read by a weak load is kept for its looks; and what is still to be had of that.
  void note_still(const machine::Machine& machine, Warp& warp, const ptx::Request& request,
                  std::uint32_t lane) const;
  static std::vector<ptx::Still> stills_of(const machine::Machine& machine, const Warp& warp,
                                           std::uint32_t lane);
  // Looks in vain are left out: one lane's look at one place. False: nothing to see yet.
  bool look_once(machine::Machine& machine, Warp& warp, ptx::Request& request, std::uint32_t lane,
                 machine::Address at, const machine::Access& how, std::uint64_t& value);
  // What people are told that a look needs which saw this.
  static machine::Wanted needs_of(const ptx::Request& request, std::uint32_t lane,
                                  std::uint64_t there, const machine::Wanted& otherwise);
  bool was_here(const Warp& warp, const InCycle& look) const;
  bool may_go_on(machine::Machine& machine, const Warp& warp, std::uint32_t lane) const;
  void remember(Warp& warp, Seen seen);
  void forget(Warp& warp, std::size_t from);
  void release_together(Warp& warp);
  // `in_block`: a store that leaves the block's shared memory as it was.
  void had_effect(Warp& warp, std::uint32_t lanes, bool in_block = false);
  std::vector<schedule::LaneWait>& waits_of(Warp& warp, std::uint32_t lane);
  void note_taken(machine::Machine& machine, const Warp& warp, std::uint32_t lane,
                  const Target& target, std::uint32_t bytes) const;

  // -- kernel_rounds.cpp
  static bool takes_time_outs(Warp& warp);
  static void begin_round(Rounds& r);
  void ends_round(std::uint32_t block);
  void name_time_out(const Rounds& r, std::uint32_t instruction);
  void spare_attempts(Rounds& r, std::uint32_t instruction, ptx::BlockState& state);
  void note_round(const Warp& warp, const Seen& seen);
  // Until something that the block's round read can return another value.
  void sleep(Warp& warp);

  // Whether the line, of 128 bytes, is read by the warp's block for the first time in this launch.
  bool is_fresh(const Warp& warp, const ptx::Request& request, const Target* targets);
  // Whether the lanes, all of them, access 16 bytes each side by side: the machine may then take
  // them together.
  bool side_by_side(const ptx::Request& request, const Target* targets) const;
  // What a lane's load returned: `of_warp`, also for the warp's own waits.
  void seen_of(Warp& warp, const ptx::Request& request, const Target* targets,
               const machine::Access& how, std::uint32_t lane, bool of_warp = false);
  void load(Warp& warp, ptx::Request& request, const Target* targets, const machine::Access& how);
  void load_lane(machine::Machine& machine, Warp& warp, ptx::Request& request, std::uint32_t lane,
                 const Target& target, const machine::Access& how, std::uint64_t& digest);
  // The read of one element, which sees a change where one is waited for. False: the poll missed
  // it.
  bool read_change(machine::Machine& machine, Warp& warp, std::uint32_t lane, machine::Address at,
                   const machine::Access& how, std::byte* out);
  const schedule::LaneWait* armed_wait(const Warp& warp, std::uint32_t lane, machine::Address at,
                                       bool by_rmw) const;
  void store(Warp& warp, ptx::Request& request, const Target* targets, const machine::Access& how);
  void exchange_whole(machine::Machine& machine, Warp& warp, ptx::Request& request,
                      std::uint32_t lane, machine::Address at, const machine::Access& how);
  void atomic(Warp& warp, ptx::Request& request, const Target* targets, const machine::Access& how);
  static void reduce_bytes(machine::Machine& machine, machine::ThreadId thread, machine::Address at,
                           machine::Access how, const ptx::BulkPart& part);
  void reduce(Warp& warp, ptx::Request& request, const Target* targets, const machine::Access& how);
  void load_reduce(Warp& warp, ptx::Request& request, const Target* targets,
                   const machine::Access& how);
  void gather(machine::Machine& machine, Warp& warp, const ptx::Request& request,
              const Target* targets, const machine::Access& how);
  void sum_gathered(const ptx::Request& request, std::size_t replicas, std::uint64_t seed);
  // A strong write that others may wait for.
  void signalled(Warp& warp, machine::Address at, std::uint32_t bytes, bool adds,
                 std::uint16_t site);
  // Which of the lanes act now: all of them, or one that runs ahead.
  std::uint32_t choose_lanes(Warp& warp, std::uint32_t lanes);
  bool lets_others(Warp& warp, const ptx::Request& request, const machine::Access& how);
  std::vector<std::uint32_t> fence_order(Warp& warp, std::uint32_t lanes, bool sc);
  bool is_held(Warp& warp, std::uint32_t lanes, const machine::Access& how);
  // `one(machine, lane)` for each of the lanes in a step of its own, with a point before all but
  // the first, whose point is made before lanes are chosen.
  template <class F>
  void in_turn(Warp& warp, const ptx::Request& request, const Target* targets,
               const machine::Access& how, machine::AccessKind kind, std::uint32_t lanes,
               const F& one);
  // `one(machine, lane)` for the lanes of a store or reduction: in one step, or those chosen in a
  // step each.
  template <class F>
  void write_lanes(Warp& warp, ptx::Request& request, const Target* targets,
                   const machine::Access& how, machine::AccessKind kind, bool together,
                   const F& one);

  const Kernel& kernel_;
  const Space& space_;
  Settings settings_;
  FaultText& fault_;
  std::uint32_t warps_a_block_ = 1;
  std::uint32_t threads_a_block_ = 1;
  std::vector<Warp> warps_;
  std::vector<Rounds> rounds_;         // by block
  std::vector<std::uint32_t> levels_;  // by block: see ptx::SharedMoments
  std::vector<std::uint32_t> live_;    // by block: warps that have not ended
  std::vector<Warp*> outside_;         // that wait for room
  // A block's first griddepcontrol.launch_dependents.
  struct Trigger {
    bool done = false;  // or all of its threads have ended
    bool fences = false, met = false;
    const Warp* by = nullptr;
  };
  std::vector<Trigger> triggered_;  // by block
  std::uint32_t untriggered_ = 0;   // blocks
  std::vector<Mapping> shared_;     // by block
  // By block, with fresh_lines: the lines that it has read in this launch, and what read them
  // first.
  struct FirstRead {
    std::uint32_t warp = 0, instruction = 0, lanes = 0;
  };
  std::vector<std::unordered_map<std::uint64_t, FirstRead>> lines_read_;
  std::unordered_map<ptx::SyncToken, Token> tokens_;
  std::vector<Departure> departures_;
  std::vector<ptx::SyncToken> retired_;
  std::vector<ptx::Agents> departing_;
  std::uint64_t events_ = 0;  // of the execution, when warps were last woken for them
  std::vector<machine::ThreadId> syncing_, arriving_;
  // Of asynchronous operations, by the executor's number, and back.
  std::vector<machine::ThreadId> engines_;
  std::unordered_map<machine::ThreadId, std::uint32_t> engine_number_;
  std::vector<machine::Address> places_;
  std::vector<ptx::SplitRef> others_;    // scratch of lets_others and is_held
  std::vector<std::uint32_t> parts_;     // of a question
  std::vector<std::byte> moved_;         // scratch of accesses side by side: [replica][lane][byte]
  std::vector<std::uint32_t> gathered_;  // scratch of load_reduce: [replica][element][lane]
  ptx::Execution execution_;
};

}  // namespace ringfence::cases
