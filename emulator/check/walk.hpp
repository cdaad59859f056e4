#pragma once
// One run of a program along an execution graph and beyond it.
//
// The run first repeats the graph: agents step in an order that respects program order and
// reads-from, reads return what the graph says, writes land where it says. Then it goes on by one
// fixed rule (the agent of the lowest label steps; reads return, and writes become, the last in
// coherence order). For every event that it adds it writes down the graphs in which that event
// would have gone otherwise: a read of another write, another place in coherence order, and, for a
// write, each earlier read that could have returned it. The last of these is the backward revisit
// of TruSt (Kokologiannakis, Marmanis, Gladstein, Vafeiadis: "Truly Stateless, Optimal Dynamic
// Partial Order Reduction", POPL 2022): what was added after the read and the write does not need
// is dropped, and only if all of it had been added by the fixed rule; so every graph is reached
// once, and nothing has to be remembered of those that were seen.
//
// What is particular here:
//   - Awaits: a poll is added only when a write satisfies it, and reads one that does. That it sees
//     the newest write, which does not, for ever is a graph of its own (`stuck`), valid if that
//     write is still the newest at the end. What a poll that writes (a lock's compare-and-swap)
//     would have read, another one may take. Where that leaves it nothing to end on, it is stuck at
//     the newest write as well, but that is then what the fixed rule makes of it: a later write
//     revisits it as it would a read of the newest. So each execution has one way to it, in which
//     the poll ends on the last write that it can take or, if there is none, is stuck.
//   - Of several writes of one thread that end a wait alike, the first one stands for the others
//     (first_end.cpp).
//   - Loops that wait for more than one place: their reads are events; where an iteration would
//   only
//     be repeated, its agent stays there. Such a run counts, as a deadlock, if what it read is
//     newest at the end; otherwise others stand for it, in which it read what came.
//   - fence.sc is a write of one common cell: fence-sc order is its coherence order.
//   - The point of coherence (mode coherent): order of execution is coherence order there, so the
//     run is arranged to have it. Of writes that race there it is not explored (points.cpp).
//   - Sets: reductions of a cell whose other accesses all come before or after the whole of them,
//     or wait for their total, commute; their order is not explored. Where a run shows that a cell
//     is not like that, `Sets` turns the rule off for it and the search starts again.
//   - Counters: where waits end once enough of such reductions came, which of them came first is
//     explored, and not in which order (counters.cpp).
//   - Lanes: an agent is a warp, and steps as one thread; its lanes, threads of the model, act in
//     one order. Where a run shows that another order of a warp's lanes could be told apart, which
//     of them go first becomes an event of the graph (lanes.cpp), and the search starts again. So
//     does, in mode coherent, which accesses are put off until the others have gone on.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "emulator/check/foresight.hpp"
#include "emulator/check/graph.hpp"
#include "emulator/check/record.hpp"
#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/barrier_step.hpp"
#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::check {

// Numbers for labels, the same for all workers of a search.
class Agents {
 public:
  std::uint32_t index(std::uint64_t label);
  std::uint64_t label(std::uint32_t index) const;
  std::vector<std::uint64_t> labels() const;
  // The same for the lanes of an agent, which have numbers of their own.
  std::uint32_t lane(std::uint32_t agent, std::uint32_t lane);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::unordered_map<std::uint64_t, std::uint32_t> lane_;
  std::vector<std::uint64_t> labels_;
};

// The cells whose reductions have to be ordered, and the warps whose lanes have to be. A run reads
// and notes in a copy of its own: with what another run notes meanwhile its graph, which was made
// without that, would show things that no search has to know of.
class Sets {
 public:
  explicit Sets(bool on) : on_(on) {}
  bool is_set(const CellKey& cell) const;
  // Not a set, but what counters.cpp explores. No more, from turn_off() on.
  bool is_counter(const CellKey& cell) const;
  bool is_set_or_counter(const CellKey& cell) const;
  void count(const CellKey& cell);
  void turn_off(const CellKey& cell);
  void turn_all_off();
  // By the label of the warp's agent; false: it was so already.
  bool orders_lanes(std::uint64_t label) const;
  bool order_lanes(std::uint64_t label);
  // Besides, whether they may be anywhere behind one another, access by access.
  bool parts_lanes(std::uint64_t label) const;
  bool part_lanes(std::uint64_t label);
  // The same of the fences of one instruction alone.
  bool orders_fences(std::uint64_t label) const;
  bool order_fences(std::uint64_t label);
  // Whether launches that may begin early also begin late, each by itself (overlap.cpp).
  bool starts_late() const;
  void start_late();
  // What no run shows: see CheckResult.
  void leave_out(const LeftOut& order);
  std::vector<LeftOut> left_out() const;
  // Whether waits at this cell may take the first of several writes (first_end.cpp); no more.
  bool has_one_writer(const CellKey& cell) const;
  void note_writers(const CellKey& cell);
  // Whether somebody may come to this cell before a write that is in a wait's past (first_end.cpp).
  bool is_overtaken(const CellKey& cell) const;
  void note_overtaken(const CellKey& cell);
  // Whether somebody accesses this flag, behind a wait, so that it may race with its writes.
  bool is_raced(const CellKey& cell) const;
  void note_raced(const CellKey& cell);
  // Whether one thread alone waits at this counter; no more.
  bool has_one_waiter(const CellKey& cell) const;
  void note_waiters(const CellKey& cell);
  // Whether a reduction at this counter stands for one that it hands on (Walk::hands_on).
  bool is_handed_on(const CellKey& cell) const;
  void note_handed_on(const CellKey& cell);
  std::vector<CellKey> handed_on() const;
  // Whether a smaller sum there may be none of an order of execution, with another counter's sums.
  bool crosses_sums(const CellKey& cell) const;
  void cross_sums(const CellKey& cell);
  std::uint32_t ordered_cells() const;  // whose reductions are neither
  std::uint32_t generation() const;     // moves when something was turned off
  bool all_off() const;
  std::vector<CellKey> off() const;
  // Takes over what a run has noted that began with these, in a copy of its own; and what it has
  // left out.
  void adopt(const Sets& of_run);

 private:
  // Of the keys that stand for something else of a cell than that its reductions are ordered.
  bool has(const CellKey& key) const;
  void note(const CellKey& key);

  bool on_;
  std::uint32_t generation_ = 0;
  std::set<CellKey> ordered_;
  std::set<LeftOut> left_out_;
};

class LaneOrder;

class Walk final : public schedule::Strategy, public machine::Arbiter, public machine::Listener {
 public:
  // `weak_events`: weak accesses are events too, for searches that go on past races. Without it a
  // weak access has one answer only, or it races.
  // `sum_order`: the answer to every question of the program's own, modulo its options: the order
  // of a sum.
  // `open_ends`: who looks at an execution asks for all of ends(), so that exchanges of other
  // values are a set too.
  Walk(Agents& agents, Sets& sets, bool weak_events, std::uint32_t sum_order = 0,
       bool open_ends = false)
      : names_of_(agents),
        sets_(sets),
        weak_events_(weak_events),
        open_ends_(open_ends && weak_events),
        sum_order_(sum_order) {}

  // Before a run of `execution` with this strategy and arbiter.
  void start(Graph graph, schedule::Execution& execution);
  // The next runs are of the program in which these reads return what is foreseen, and fence.sc is
  // fence.acq_rel; `record` is told what happens. nullptr for neither.
  void set_foresight(const Foresight* foresight, Record* record) {
    foresight_ = foresight;
    record_ = record;
  }
  // After it: the graphs that follow from how it ended. Then all of them can be taken. `found`: a
  // finding ended it.
  void finish(bool found);
  // A graph that follows, and how many events the run had by then: those found at one point are the
  // other ways in which one event could have gone.
  struct Found {
    Graph graph;
    std::size_t behind = 0;
  };
  std::vector<Found>& found() { return found_; }
  Graph graph() const;
  // The graph is not consistent, or a stuck poll turned out to have an end: no execution.
  bool abandoned() const { return abandoned_; }
  bool unfair() const { return unfair_; }
  // Cells of which more than one write of a set may be the last.
  const std::vector<OpenEnd>& ends() const { return ends_; }
  // The run was that of the graph given, and nothing more.
  bool as_given() const { return !abandoned_ && remaining_ == 0 && lives_.size() == given_; }
  std::size_t events() const { return lives_.size(); }
  // The most orders that a sum of any run had; 1 if none was asked for.
  std::uint32_t sum_orders() const { return sum_orders_; }
  // For tests: the graph of the run, independent of the order in which it was built.
  std::uint64_t fingerprint() const;

  // Strategy
  void begin(std::uint32_t) override {}
  void on_spawn(schedule::AgentId id, std::uint64_t label) override;
  void on_arrive(schedule::AgentId id, const void* barrier) override;
  void on_leave(schedule::AgentId id, const void* barrier) override;
  void on_gone(schedule::AgentId id, const void* barrier) override {
    arrivals_[barrier].join(agents_[id].past);
  }
  bool orders_first(machine::Address at) const override;
  void on_late(schedule::AgentId id, const void* barrier, const schedule::Late& late) override;
  void on_close(const void* barrier) override {
    arrivals_.erase(barrier);
    lane_arrivals_.erase(barrier);
    fenced_arrivals_.erase(barrier);
  }
  void on_barrier(std::span<const schedule::AgentId> met, const void* barrier) override;
  void on_order(schedule::AgentId earlier, schedule::AgentId later) override;
  void on_end(schedule::AgentId id, schedule::AgentId parent) override;
  bool follows_lanes() const override { return true; }
  void on_lanes_arrive(schedule::AgentId id, std::span<const machine::ThreadId> lanes,
                       const void* barrier) override;
  void on_lanes_leave(schedule::AgentId id, std::span<const machine::ThreadId> lanes,
                      const void* barrier) override;
  void on_exchange(schedule::AgentId id, std::span<const machine::ThreadId> lanes) override;
  void on_parts(std::span<const std::uint32_t> lanes, bool fences) override {
    parts_.assign(lanes.begin(), lanes.end());
    fences_asked_ = fences;
  }
  schedule::AgentId pick(const schedule::ReadyView& ready, schedule::AgentId current,
                         bool current_ready, std::uint64_t label, std::uint32_t point) override;
  std::uint32_t choose(schedule::DecisionKind kind, std::uint64_t label, std::uint32_t point,
                       std::uint32_t options) override;
  bool drops_looks() const override { return true; }
  bool admits_deadlock() override;

  // Arbiter
  bool counts(const machine::Access& access) const override {
    return weak_events_ || machine::is_strong(access.order);
  }
  void on_uncounted(machine::Address at, std::uint8_t size) override;
  void on_read(const Question& q, std::span<machine::Message* const> options) override;
  void on_place(const Question& q, std::span<const machine::MessageSet> options) override;
  void on_message(const Question& q, const machine::Message& m) override;
  void on_fence_sc(machine::ThreadId who, machine::Scope scope, std::uint16_t site) override;
  void on_forgotten(const machine::Cell& cell, const machine::Message& m) override;
  bool as_set(machine::Address at) const override;
  void on_blocked(const Question& q) override;
  bool foresees() const override { return foresight_ != nullptr && !foresight_->empty(); }
  std::optional<std::uint64_t> foreseen(std::uint64_t label, machine::Address cell,
                                        std::uint8_t size) const override;
  bool orders_fence_sc() const override { return foresight_ == nullptr; }
  void on_block_barrier(std::span<const machine::ThreadId> arriving,
                        std::span<const machine::ThreadId> syncing) override;

  // Listener, of runs that are recorded
  void on_event(const machine::Event& e) override;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // The fences.sc that are before what a lane does next otherwise than by memory and their order:
  // by program order, barriers of a block or warp, and launches; besides, by whatever else it meets
  // others at.
  struct Fenced {
    Prefix synced;
    Prefix met;
    void join(const Fenced& o) {
      synced.join(o.synced);
      met.join(o.met);
    }
  };
  struct AgentState {
    schedule::AgentId id = schedule::kNoAgent;
    std::uint64_t label = 0;
    std::uint32_t index = 0;    // Name::agent
    std::uint32_t nth = 0;      // counted accesses so far
    std::uint32_t yielded = 0;  // when it went round a loop last
    bool stuck = false;         // one of its polls is: it steps last
    bool late = false;
    bool held = false;  // some of its lanes let others go on (steer)
    Prefix past;
    Prefix base;  // as a lane's past: what all its lanes have
    Fenced base_fenced;
  };
  // A thread of the machine, as it acts for itself: its events have names among those of lanes
  // (Live::lane), and its past holds such names.
  struct Lane {
    Prefix past;
    Fenced fenced;
    Prefix published;  // `fenced.synced` at its last fence.sc: what a relaxed write hands on
    std::uint32_t nth = 0;
    schedule::AgentId agent = schedule::kNoAgent;
    // Of the last instruction at several replicas: its first step of the machine and what came
    // before it, and the last part of it with that one's step.
    std::uint32_t instruction = 0, part = 0, part_step = 0;
    Prefix before{};
  };
  // An event with what the run showed of it.
  struct Live {
    Event event;
    bool executed = false;
    bool rmw = false;
    bool red = false;
    std::uint32_t at = 0;  // its place in the order of execution
    Prefix past;           // itself included
    // Waits that go on alike behind several writes (first_end.cpp). Their past, and that of a read
    // at the point of coherence, without what they read; of a counter's, the reductions that
    // causality puts before them.
    bool takes_first = false;
    Prefix ahead;
    std::vector<Name> known_reds;
    Prefix carried;  // a write: what a reader takes over; differs from `past` in a set
    Name lane = kUnknown;
    Prefix lane_carried;
    std::uint32_t instruction = 0;          // Lane::instruction, if it is of one
    std::vector<std::uint32_t> unknown;     // of a lane's fence.sc: see unknown_to()
    Fenced fenced;                          // behind such a fence: its lane's, when it was executed
    Prefix published;                       // the same
    machine::MessageSet known = 0;          // reads: what it could not fall behind
    std::uint32_t steps = 0;                // reads: the machine's step
    std::optional<machine::Wanted> wanted;  // awaits
    std::shared_ptr<const machine::Condition> condition;  // keeps that of `wanted`
    machine::ThreadId thread = machine::kNoThread;
    machine::Access access;
    std::uint64_t operand = 0;  // of a look at a barrier: what it saw there
    machine::Combine combine = machine::Combine::none;
  };
  struct HashOfCell {
    std::size_t operator()(const CellKey& c) const {
      std::uint64_t h = (c.offset << 8 | c.size) ^ std::uint64_t{c.region} << 44;
      h = (h ^ (h >> 31)) * 0x9E3779B97F4A7C15ULL;
      return h ^ (h >> 29);
    }
  };
  // Coherence in a cell before a write came: what the write was placed before may be ordered
  // through it. What of the graph came later than the write is where the graph puts it.
  struct Before {
    std::array<machine::MessageSet, machine::kMaxMessages> of{};  // by message id
    machine::MessageSet there = 0;
  };
  static machine::MessageSet before(const machine::Message& m, const Before* given) {
    return given != nullptr && (given->there & machine::bit(m)) != 0 ? given->of[m.id] : m.before;
  }
  // A write whose revisits are due: `own` are its events, where the run does not have them.
  struct Incoming {
    Name self;
    CellKey cell;
    Prefix past;
    Prefix lane_past;
    std::optional<std::uint64_t> value;
    bool red = false;
    std::size_t limit = 0;  // events with smaller stamps were there
    std::vector<Event> own;
    std::shared_ptr<const Before> before;
    std::uint16_t site = 0;
  };

  // Of a message among all of the run (writes_).
  static std::uint64_t key_of(const machine::Message& m, const CellKey& cell) {
    return std::uint64_t{m.step} << 32 | (cell.offset & 0xffffffff);
  }

  // walk.cpp
  AgentState& current() { return agents_[current_]; }
  void abandon();
  void leave_step();
  void follow(Graph graph) { found_.push_back({std::move(graph), lives_.size()}); }
  bool source_is_there(std::uint32_t event) const;
  bool is_of_current(machine::ThreadId thread) const;
  bool is_last(const Live& stuck) const;
  bool is_event(schedule::AgentId id) const;
  schedule::AgentId repeat(const schedule::ReadyView& ready);
  schedule::AgentId extend(const schedule::ReadyView& ready);
  bool yields(schedule::AgentId id) const;
  schedule::AgentId next_yielding(const schedule::ReadyView& ready);
  void relate();
  void relate_cell(std::span<const std::uint32_t> events);
  bool note_diverged(const schedule::ReadyView& ready);
  void note_unreached(const schedule::ReadyView& ready);
  bool waits(std::uint32_t event, std::uint32_t other) const;
  std::uint32_t find(const Name& self, std::uint32_t piece, bool write) const;
  std::uint32_t find_write(const Name& self, const CellKey& cell) const;
  // The events of a cell, by their stamps.
  const std::vector<std::uint32_t>& events_at(const CellKey& cell) const;
  // Of these, those with a smaller stamp.
  std::span<const std::uint32_t> events_before(const CellKey& cell, std::size_t stamp) const;
  // A fence.sc was made.
  bool has_fence() const;
  const Live* writer(const machine::Message& m, const CellKey& cell) const;
  Name name_of(const machine::Message& m) const;
  std::uint32_t add(Live live);
  void executed(std::uint32_t event);
  // What the run has just made: the event that the graph gave, or a new one (kNone). Its index.
  std::uint32_t keep(std::uint32_t given, Live live);

  // lanes.cpp
  Lane& lane(schedule::AgentId agent, machine::ThreadId thread);
  std::uint32_t lane_number(schedule::AgentId agent, machine::ThreadId thread);
  std::uint8_t thread_number(schedule::AgentId agent, machine::ThreadId thread) const;
  Name lane_step(machine::ThreadId thread);
  void name_lane(Event& event, machine::ThreadId thread, std::uint16_t site);
  void name_lane(Event& event, const Question& q);
  void name_lane(Event& event, const Lane& lane, std::uint16_t site);
  void name_lane_of_write(Event& event, const Question& q);
  Lane& lane_of(const Question& q);
  std::uint32_t part_number(machine::ThreadId thread, std::uint32_t part);
  Name lane_step(const Question& q);
  std::uint32_t instruction_of(const Question& q);
  bool by_other_replica(const Prefix& lane_past, const Live& event) const;
  void join_lanes(schedule::AgentId agent, const Prefix& past, const Fenced& fenced);
  Prefix lanes_past(schedule::AgentId agent) const;
  Fenced lanes_fenced(schedule::AgentId agent) const;
  bool left_out(std::uint32_t by, std::uint16_t site, const Prefix& past, const Prefix& lane_past,
                const Live& event, bool awaits = false);
  bool can_part(std::uint32_t agent, std::span<const Live* const> late) const;
  struct Turn {
    std::uint32_t event = 0;
    std::uint32_t turn = 0;
  };
  std::vector<Turn> turns(const LaneOrder& order) const;
  bool note_lane_order();
  std::uint32_t choose_lanes(std::uint32_t options);
  std::optional<std::uint8_t> due_lane(std::uint32_t ahead);
  std::uint32_t steer(std::uint32_t options);
  void note_held();
  std::uint32_t choose_option(std::uint32_t options);

  // answer.cpp
  const machine::Message* last(const std::vector<const machine::Message*>& among,
                               const Before* before = nullptr) const;
  std::uint32_t steps_before(const Question& q) const;
  void describe(const Question& q, Live& live) const;
  bool is_no_event(const machine::Message& m) const;
  bool goes_on_by_weak(const Question& q);
  bool overtaken_by_weak(const Question& q, const machine::Message& chosen);
  bool ends_by_weak(const Question& q, std::span<machine::Message* const> options);
  void sticks(const Question& q, std::uint32_t given);
  bool is_given(std::uint32_t event, const Question& q) const;
  bool is_new(const Name& self) const;
  void diverge(std::uint16_t site);
  void note_look_over(const Question& q);
  void note_write_under(const Question& q, const machine::Message& m);
  void offer_reads(const Question& q, const Event& event,
                   const std::vector<const machine::Message*>& candidates,
                   const machine::Message* chosen);
  bool is_overwritten(const Question& q, const machine::Message& m);
  bool lands_as_given(std::uint32_t event, const machine::Message& m,
                      const machine::Cell& cell) const;

  // blocked.cpp
  struct Sooner {
    Event event;             // the wait that reads what is newest
    std::vector<Name> from;  // what would have ended it
  };
  void ask_blocked();
  void note_sooner(const Question& q);
  void follow_sooner();

  // fences.cpp
  bool strong_fences(const Live& a, const Live& b) const;
  void offer_fences(const Live& fence);
  bool acts(machine::ThreadId thread) const;
  std::vector<std::uint32_t> unknown_to(machine::ThreadId who) const;
  bool is_behind(const Live& l, const Live& fence) const;
  std::vector<const Live*> carriers(const Live& earlier, const Live& later) const;
  bool is_told(const Live& earlier, const Live& later) const;
  void note_fence_order(const Live& earlier, const Live& later);
  void note_fences();

  // overlap.cpp
  void note_late_starts();
  bool can_start_late() const;

  // sizes.cpp
  void note_sizes();

  // settle.cpp
  void settle(const Question& q);
  void note_unsettled();

  // points.cpp
  bool is_coherent() const;
  bool may_come_either_way(const Live& a, const Live& b) const;
  bool comes_before(std::uint32_t event, std::uint32_t write) const;
  Prefix order_before(std::uint32_t event, const Incoming& w) const;
  void note_unordered();

  // first_end.cpp
  bool takes_first(const Question& q) const;
  void check_writers(const CellKey& key, const machine::Cell& cell);
  bool is_ahead_of(const Live& e, const Live& write) const;
  bool may_overtake(const Live& y, const Live& e) const;
  const Live* behind_first_end(const Live& wait) const;
  void note_overtaken();
  void note_raced();
  bool has_points_of(const Live& wait, const machine::Message& m) const;
  bool has_stand_in(const Live& wait, const machine::Cell& cell, const machine::Message& m) const;
  bool has_stand_in(const Live& wait, const Incoming& w) const;

  // counters.cpp
  using Reds = std::uint64_t;  // by their place in Counter::reds
  struct Counter {
    std::vector<const Live*> reds;      // writes, in the order of this run
    std::vector<std::uint64_t> values;  // behind none of them, one, two, ...
    std::vector<Reds> past;             // of each, those in its past
    Reds all() const { return first(reds.size()); }
    static Reds first(std::size_t n) { return n < 64 ? (Reds{1} << n) - 1 : ~Reds{0}; }
  };
  std::optional<Counter> counter_of(const CellKey& cell) const;
  bool is_wait_of(const CellKey& cell, const Live& l) const;
  bool may_count(const CellKey& cell) const;
  void note_known_reds(const Question& q, Live& wait) const;
  bool fits_counter(const Question& q, const Live& live);
  bool hands_on(const Question& q, const Live& red) const;
  bool shows_parts(const CellKey& cell, bool counts);
  bool note_crossed_sums();
  bool fits_waits(const CellKey& cell, const Counter& counter) const;
  Reds reds_of(const Counter& counter, std::span<const Name> names) const;
  std::vector<Name> names_of(const Counter& counter, Reds reds) const;
  Reds ahead_of(const Counter& counter, const Live& wait) const;
  bool has_fewer(const Counter& counter, const Live& wait, Reds sum) const;
  std::vector<Reds> sums(const Counter& counter, const Live& wait, Reds among, Reds needed,
                         const std::vector<Reds>& others, bool first) const;
  std::optional<Reds> usual_sum(const Counter& counter, const Live& wait, Reds among,
                                const std::vector<Reds>& others) const;
  template <class There>
  std::vector<Reds> other_sums(const Counter& counter, const Live& wait, There&& there) const;
  const machine::Message* sum_of(const Question& q, const Event& wait) const;
  const machine::Message* choose_sum(const Question& q, Live& live);
  void revisit_sums(const Incoming& w);
  bool is_usual_sum(std::uint32_t event, const Incoming& w) const;
  bool is_summed(std::uint32_t event) const;
  void check_blocked(const Question& q);
  void not_a_counter(const CellKey& cell);
  void relate_sum(std::uint32_t wait, std::span<const std::uint32_t> writes);

  // revisit.cpp
  void revisit_taken(const Question& q, const Event& read);
  void revisit_as_first(const Question& q, const Event& read, const machine::Message& m,
                        bool fresh);
  void revisit(const Incoming& w);
  bool maximal(std::uint32_t event, const Incoming& w) const;
  bool maximal_read(std::uint32_t event, const Incoming& w) const;
  bool maximal_write(std::uint32_t event, const Incoming& w) const;
  Graph restricted(std::uint32_t read, const Incoming& w, bool stuck) const;
  const machine::Cell* cell_of(const CellKey& key) const;
  const machine::Cell* history_of(const Live& event) const;
  void not_a_set(const CellKey& cell);
  void count_or_order(const CellKey& cell);
  bool ends_on_part(const Question& q) const;
  void find_ends();
  void find_end(const CellKey& cell, const std::vector<const Live*>& exchanges);
  void check_barrier_step(const Question& q, const Live& live);
  void check_look(const Question& q);
  bool was_awaited(const Question& q, std::uint32_t phases);
  bool is_expected_first(const Question& q, const machine::StepValue& step) const;
  void check_set_read(const Question& q, const Live& live, std::size_t candidates);

  Agents& names_of_;
  Sets& sets_;
  const bool weak_events_;
  const bool open_ends_;
  const std::uint32_t sum_order_;
  std::uint32_t sum_orders_ = 1;
  schedule::Execution* execution_ = nullptr;
  const Foresight* foresight_ = nullptr;
  Record* record_ = nullptr;
  std::vector<AgentState> agents_;                     // by AgentId
  std::vector<schedule::AgentId> id_of_;               // by Name::agent
  std::vector<Live> lives_;                            // by stamp
  std::vector<std::vector<std::uint32_t>> waits_for_;  // by stamp: of the given graph's events
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::unordered_map<CellKey, std::vector<std::uint32_t>, HashOfCell> by_cell_;
  std::vector<Name> step_names_;                             // by the machine's step
  std::unordered_map<std::uint64_t, std::uint32_t> writes_;  // by step and offset
  std::unordered_map<const void*, Prefix> arrivals_;         // by barrier
  std::unordered_map<const void*, Prefix> lane_arrivals_;
  std::unordered_map<const void*, Fenced> fenced_arrivals_;
  std::vector<Lane> lanes_;
  std::uint32_t others_ = 0;  // of these, of threads that are no lanes of a warp
  std::unordered_map<machine::ThreadId, std::uint32_t> lane_of_;
  std::unordered_map<std::uint64_t, std::uint32_t> part_of_;  // lanes, by lane and part
  std::set<machine::ThreadId> stuck_;
  std::vector<std::vector<std::uint32_t>> lanes_of_;  // by AgentId
  std::vector<Incoming> due_;
  std::vector<Found> found_;
  std::vector<OpenEnd> ends_;
  std::uint32_t generation_ = 0;           // of `sets_`, when the run began
  std::vector<CellKey> handed_on_;         // counters that were handed on by then
  std::size_t given_ = 0;                  // events of the graph given
  std::vector<std::uint32_t> given_last_;  // of each agent, the last of its events among these
  std::size_t remaining_ = 0;              // of these, not executed yet
  schedule::AgentId current_ = schedule::kNoAgent;
  std::uint32_t piece_ = 0;
  std::uint32_t prepared_ = 0;
  bool asked_ = false;                    // the machine told of the choice that comes next
  std::shared_ptr<const Before> before_;  // of the cell of the read-modify-write in progress
  schedule::AgentId asking_blocked_ = schedule::kNoAgent;
  std::vector<Sooner> sooner_;  // waits at the point of coherence, behind ask_blocked
  std::uint32_t yields_ = 0;    // so often did somebody
  bool abandoned_ = false;
  bool unfair_ = false;
  bool overlaps_ = false;             // a launch was asked whether it begins early
  std::uint32_t executions_ = 0;      // events so far
  std::vector<std::uint32_t> parts_;  // of the question that comes: the lanes of each answer
  bool fences_asked_ = false;         // it is about fences of one instruction
  bool fenced_ = false;               // a second lane of a warp has made a fence.sc
  bool in_vain_ = false;              // an iteration that repeats would see something new
  std::optional<LeftOut> by_weak_;    // a read goes on though a write came that is no event
};

bool commutes(machine::Combine combine);

// The value of a message's cell, as the machine compares it.
std::uint64_t value_of(const machine::Message& m, std::uint8_t size);

}  // namespace ringfence::check
