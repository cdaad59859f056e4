#pragma once
// What a machine holds, and what it does inside of an access: machine.hpp is what others see of it.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "emulator/machine/access.hpp"
#include "emulator/machine/chooser.hpp"
#include "emulator/machine/clock.hpp"
#include "emulator/machine/event.hpp"
#include "emulator/machine/finding.hpp"
#include "emulator/machine/location.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/machine/pool.hpp"
#include "emulator/machine/records.hpp"
#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

class Arbiter;  // arbiter.hpp
class Trail;    // trail.hpp

class MachineState : protected MachineRecords {
 protected:
  MachineState(std::pmr::memory_resource* memory, const Policy& policy);
  ~MachineState() = default;
  MachineState(const MachineState&) = delete;
  MachineState& operator=(const MachineState&) = delete;

  // For all that finds something.
  // `stops`: what reports it goes no further. A run that tore what a policy takes for one (torn_)
  // is no execution, so that only this is told of it (Finding::torn).
  void report(const Finding& finding, bool stops = false);
  std::uint64_t label_of(const Epoch& at) const;
  const Placement& placement(ThreadId thread) const { return threads_[thread]->place; }
  // How many threads of its block lie between the two; nullopt: it is of another one (that of an
  // asynchronous operation is of none), or comes before `first`.
  std::optional<std::uint32_t> threads_from(ThreadId first, ThreadId thread) const {
    const Thread &a = *threads_[first], &b = *threads_[thread];
    if (a.slot != b.slot || b.index < a.index) return std::nullopt;
    return b.index - a.index;
  }
  // Whether a finding is passed over: the one place that decides it.
  bool passes_over(const Finding& finding) const {
    return (ignored_ & 1u << static_cast<int>(finding.kind)) != 0 ||
           (filter_ != nullptr && filter_->passes_over(finding));
  }

  Now now_at(ThreadId id, const Access& access, Address at, std::uint32_t step, AccessKind kind,
             std::uint16_t mask = 0) const {
    const bool direct = !by_proxy() && kind_of(access.proxy) != ProxyKind::async;
    return Now{id, threads_[id], &access, at, step, kind, mask, direct};
  }

  // A cell's messages in the past of an access.
  struct Past {
    MessageSet known = 0;        // precede it in causality order
    MessageSet overwritten = 0;  // precede one of those in coherence order
    // What coherence puts before a write there.
    MessageSet required() const { return known | overwritten; }
  };

  // location.cpp: cells. A line or a cell comes into being with its first access.
  // The line; a new one has cells of `size` bytes.
  Line& touch(Region& region, std::uint32_t index, std::uint32_t size = kLineBytes) {
    Line* const line = region.lines[index];
    return line != nullptr ? *line : new_line(region, index, size);
  }
  Line& new_line(Region& region, std::uint32_t index, std::uint32_t size);
  Cell* new_cell(std::uint8_t offset, std::uint8_t size);
  Message* ground_message(const Region& region, const Line& line, std::uint32_t offset,
                          std::uint32_t size);
  // The cell of a split line that holds the byte there.
  Cell& part_at(const Region& region, Line& line, std::uint32_t byte) {
    Cell* const cell = line.parts->at(byte);
    return cell != nullptr ? *cell : find_part(region, line, byte);
  }
  Cell& find_part(const Region& region, Line& line, std::uint32_t byte);
  void split(Region& region, Line& line, Cell& cell, std::uint32_t size);
  template <class F>
  void for_cells(RegionId region, std::uint64_t offset, std::uint64_t bytes, std::uint32_t element,
                 bool may_share, F&& f);
  Message* copy_message(const Message& m);
  void free_message(Message* m);
  void free_cell_content(Cell& cell);
  void remove_oldest(Cell& cell);
  Message& add_message(Cell& cell, const Now& now) {
    if (cell.count == kMaxMessages) remove_oldest(cell);
    const Access& a = *now.access;
    Message* const m = messages_.take(
        nullptr, Epoch{now.id, now.thread->slot, now.thread->time}, now.step, a.site, a.order,
        a.scope, a.proxy, operation_bytes(a), static_cast<std::uint8_t>(std::countr_one(cell.ids)));
    m->shared = a.share != Share::whole;
    if (a.as_one != nullptr) {
      if (a.as_one->group == 0) a.as_one->group = now.step;
      m->group = a.as_one->group;
    }
    return *m;
  }
  // Puts `m` into the list so that the list still extends coherence: `after` are the messages that
  // coherence puts behind it.
  void insert_message(Cell& cell, Message* m, MessageSet after) {
    cell.ids |= bit(*m);
    ++cell.count;
    if (after != 0) return insert_before(cell, m, after);
    m->older = cell.newest;
    cell.newest = m;
  }
  void insert_before(Cell& cell, Message* m, MessageSet after);
  std::optional<Clock> known_to_all();
  void collect();
  bool collapse(Region& region, Line& line, const Clock& all);
  void trim(Cell& cell, const Clock& all);

  // block.cpp: lines that share a history
  // Threads that access a block together: 32 of one slot, a line each, or one.
  struct Together {
    std::uint32_t slot = 0;
    Run run;
    const Thread* first = nullptr;
  };
  bool may_act_together(const Region& region, const Access& a) const;
  bool level(std::span<const ThreadId> lanes, bool writes, Together& out) const;
  Block* block_at(Region& region, std::uint64_t offset);
  bool alike(const Together& who, const Cell& cell) const;
  bool alike(const Together& who, const Epoch& at, const Run& run, bool by_name) const;
  bool read_alike(const Now& now, const Together& who, Block& block, Past& past,
                  Message*& from) const;
  bool write_alike(const Now& now, const Together& who, Block& block, MessageSet& before) const;
  void read_block(const Now& now, const Run& run, Region& region, Block& block, const Past& past,
                  Message& from, std::byte* out);
  void write_block(const Now& now, const Run& run, Block& block, MessageSet before,
                   const std::byte* in);
  const std::byte* values_of(const Region& region, const Block& block, const Message& m) const;
  ThreadId thread_of(std::uint32_t slot, const Run& run, std::uint32_t line) const {
    return slots_[slot]->threads[run.each ? run.index + line : run.index];
  }
  void into_lines(Region& region, Block& block);
  bool collapse(Region& region, Block& block, const Clock& all);
  // The line of shared memory is no longer under the model.
  void release_line(Address line);
  // Before `count` lines from `first` on come to hold other plain bytes.
  void keep_initial(Region& region, std::uint32_t first, std::uint32_t count);
  static void unset_ground(Region& region);
  // The part of a span from `done` on that was accessed as one block; 0: none.
  bool read_whole_block(Now& now, std::uint64_t offset, std::byte* out);
  bool write_whole_block(Now& now, std::uint64_t offset, const std::byte* in);
  // block_rmw.cpp
  Message* rmw_alike(const Now& now, const Together& who, Block& block, Past& past,
                     MessageSet& before) const;
  bool reduce_whole_block(Now& now, std::uint64_t offset, const std::byte* operand,
                          CombineFunction combine);

  // causality.cpp, read.cpp, write.cpp, rmw.cpp, await.cpp, fence.cpp, arbiter.cpp
  bool in_past(const Thread& t, ThreadId id, const Epoch& at) const {
    return at.thread == id || t.view.seen.covers(at);
  }
  Past past(const Cell& cell, const Now& now) const;
  bool was_read(const Now& now, const Message& m) const;
  static MessageSet downward(const Cell& cell, MessageSet set);
  static bool outdates_a_read(const Cell& cell, MessageSet before, MessageSet after);
  bool goes_to_coherence_point(const Access& a) const;
  // Whether proxies and virtual addresses make a difference to order.
  bool by_proxy() const { return by_proxy_; }
  void note_proxies() {
    by_proxy_ = policy_.alias_data == AliasData::fence_required || other_proxies_;
  }
  bool same_address(Proxy a, Proxy b, bool strong_sys) const;
  bool same_proxy(Proxy a, Proxy b, bool strong_sys) const;
  bool bridged(const Now& now, const Epoch& at, Proxy from, bool by_alias) const;
  bool stands_for(const Now& now, const Reader& r) const;
  bool may_begin(const Entry& e, Proxy end, Scope end_scope) const;
  // Whether causality orders an earlier access before this one, also across virtual aliases.
  bool in_past(const Now& now, const Epoch& at, Order order, Scope scope, Proxy proxy) const {
    if (now.direct) return in_past(*now.thread, now.id, at);
    return in_past_by_proxy(now, at, order, scope, proxy);
  }
  const Clock& async_part(const Now& now) const {
    const View& view = now.thread->view;
    return regions_[now.address.region]->spec.shared ? view.async_shared : view.async_global;
  }
  // Of a read: whether a write of this access is ordered after it.
  bool read_in_past(const Now& now, const Reader& r) const {
    if (kind_of(now.access->proxy) == ProxyKind::async &&
        policy_.async_war != AsyncWar::fence_required) {
      return in_past(*now.thread, now.id, r.at);
    }
    return in_past(now, r.at, r.order, r.scope, r.proxy);
  }
  // Whether fences of the async proxy, where this access needs them, do not tell lines apart.
  bool bridged_alike(const Now& now, const Cell& cell) const;
  bool in_past_by_proxy(const Now& now, const Epoch& at, Order order, Scope scope,
                        Proxy proxy) const;
  // Whether two accesses of one cell are morally strong (PTX ISA 8.7).
  bool morally_strong(ThreadId a, const Access& x, ThreadId b, const Access& y) const;
  bool morally_strong(const Now& now, ThreadId other, Order order, Scope scope, Proxy proxy,
                      std::uint8_t element) const;
  bool morally_strong(const Now& now, const Message& m) const;
  bool morally_strong(const Now& now, const Reader& r) const;
  void publish(const Now& now, Cell& cell, Message& m, const Message* source, bool source_strong);
  bool observe(const Now& now, const Message& m) {
    const Access& a = *now.access;
    if (m.initial || !is_strong(a.order) || a.scope != Scope::sys) return false;
    if (!is_strong(m.order) || m.scope != Scope::sys) return false;
    const View& view = now.thread->view;
    if (m.at.thread == now.id || view.observed.covers(m.at)) return false;
    return observe_new(now, m);
  }
  bool observe_new(const Now& now, const Message& m);
  bool is_engine(ThreadId id) const { return slots_[threads_[id]->slot]->of_engine; }
  void take_in(const Now& now, const Message& m, bool observed_it) {
    if (!m.initial && is_strong(now.access->order) && morally_strong(now, m)) {
      acquire_from(now, m, observed_it);
    }
  }
  void acquire_from(const Now& now, const Message& m, bool observed_it);
  void end_patterns(const Now& now);
  // Before an access reads. Where another proxy could still lead it to what its own acquire pattern
  // rules out, it has to know first.
  void prepare(const Now& now) {
    if (by_proxy() && acquires(now.access->order) && !now.thread->parked.empty()) {
      end_patterns(now);
    }
  }
  void take_entry(Thread& t, const Epoch& at, const View& view);
  // Adds the thread's events up to `at` to a View or a Clock.
  template <class Known>
  void add_event(Known& known, const Epoch& at) {
    if (!alone(at)) return known.join_thread(at.thread, at.slot, at.time + 1);
    known.join_slot(at.slot, at.time + 1);
  }
  // Whether a clock may take the slot for the event's thread.
  bool alone(const Epoch& at) {
    Slot& slot = *slots_[at.slot];
    if (slot.threads.size() != 1) return false;
    slot.alone_until = std::max(slot.alone_until, at.time + 1);
    return true;
  }
  void bridge(Thread& t, ThreadId id, ProxyFence kind);
  void note_read(const Now& now, Cell& cell, Message& m, MessageSet known_set);
  using Placements = std::array<MessageSet, 64>;
  std::uint32_t placements(const Now& now, const Cell& cell, MessageSet required, MessageSet behind,
                           MessageSet& strong, Placements& options) const;
  MessageSet place(const Now& now, Cell& cell, MessageSet required, MessageSet behind,
                   MessageSet& after);
  // What an arbiter is told. `ask` is true where one is set that wants to know of this access.
  bool ask(const Access& a) const;
  bool ask_by_element(const Access& a, const Cell& cell) const {
    return arbiter_ != nullptr && cell.size > a.element && ask(a);
  }
  MessageSet takes(const Now& now, const Cell& cell, const Past& past) const;
  void tell_read(const Now& now, const Cell& cell, const Past& past,
                 std::span<Message* const> options, const Wanted* wanted,
                 const std::uint64_t* compare, std::uint64_t operand, bool result);
  void tell_options(const Now& now, const Cell& cell, const Past& past, MessageSet may);
  // What leaves a trail: strong reads and writes, but for the steps of barriers.
  void trail_read(const Now& now, const Message& m) {
    if (trail_ != nullptr) leave_read(now, m);
  }
  void trail_write(const Now& now, const Message& m) {
    if (trail_ != nullptr) leave_write(now, m);
  }
  void leave_read(const Now& now, const Message& m);
  void leave_write(const Now& now, const Message& m);
  void leave_fence_sc(const Epoch& at);
  std::uint64_t trail_name(const Now& now, const Epoch& at) const;
  std::uint64_t trail_name(const Now& now, const Message& m) const;
  void tell_message(const Now& now, const Cell& cell, const Message& m) {
    if (arbiter_ != nullptr) tell_arbiter(now, cell, m);
  }
  void tell_arbiter(const Now& now, const Cell& cell, const Message& m);
  // Not an optional: its parts, written one by one and read at once, cost each access a stall.
  bool foresees(const Now& now, const Cell& cell, std::uint64_t& value) const {
    return arbiter_ != nullptr && ask_foreseen(now, cell, value);
  }
  bool ask_foreseen(const Now& now, const Cell& cell, std::uint64_t& value) const;
  void read_foreseen(const Now& now, const Cell& cell, std::uint64_t value);
  void write_foreseen(Now& now, Cell& cell, std::uint64_t old, std::uint64_t value, bool result);
  void tell_blocked(const Now& now, const Cell& cell, const Wanted& wanted, bool by_rmw);
  void prune_readers(const Now& now, Cell& cell) {
    if (cell.readers != nullptr) drop_readers(now, cell);
  }
  void drop_readers(const Now& now, Cell& cell);
  MessageSet readable(const Now& now, const Cell& cell, const Past& past) const;
  MessageSet whole_groups(const Cell& cell, MessageSet may, const AsOne& with) const;
  void note_groups(const Cell& cell, const Message& m, AsOne& with) const;
  Message* choose_in_group(const Now& now, const Cell& cell, const Past& past, MessageSet may,
                           AsOne& with);
  void read_cell(const Now& now, Cell& cell, const Past& past, MessageSet may, std::byte* out);
  void write_cell(const Now& now, Cell& cell, const std::byte* in);
  Message* choose_rmw_source(const Now& now, Cell& cell, const Past& past,
                             const std::uint64_t* compare, std::uint64_t operand, bool result);
  Message* insert_rmw(const Now& now, Cell& cell, Message& source, const Past& past,
                      const std::byte* value, bool* observed_it);
  void reduce_cells(Now& now, Address to, std::span<const std::byte> operand,
                    CombineFunction combine);
  void finish_rmw(Now& now, Cell& cell, Message& source, const Past& past, std::uint64_t value);
  void finish_failed_cas(Now& now, Cell& cell, Message& source, MessageSet known_set);
  void finish_strong_write(const Now& now);
  std::uint32_t ending(const Now& now, const Cell& cell, const Past& past, const Wanted& wanted,
                       bool by_rmw, std::array<Message*, kMaxMessages>& out) const;
  Message* choose_ending(const Now& now, const Cell& cell, const Past& past, const Wanted& wanted,
                         bool by_rmw, const std::uint64_t* compare = nullptr,
                         std::uint64_t operand = 0);
  std::uint64_t end_by_read(Now& now, Cell& cell, Message& m, MessageSet known_set);
  void end_by_rmw(Now& now, Cell& cell, Message& source, const Past& past, std::uint64_t value);
  bool rmw_may_take(const Now& now, const Cell& cell, const Message& m, MessageSet required) const {
    return cell.count == 1 || rmw_may_take_of(now, cell, m, required);
  }
  bool rmw_may_take_of(const Now& now, const Cell& cell, const Message& m,
                       MessageSet required) const;
  void report_uninitialised(const Now& now);
  void check_stale(const Now& now, const Cell& cell, const Message& m);
  const Message* newer_than(const Now& now, const Cell& cell, const Message& m) const;
  void wake(const Cell& cell) {
    for (const Watcher* w = cell.watchers; w != nullptr; w = w->next) woken_.push_back(w->who);
  }
  // The cell of exactly these bytes if there is one, in a line that is split.
  Cell* exact_cell(Address at, std::uint32_t size) const {
    const Line* const line = regions_[at.region]->lines[at.offset / kLineBytes];
    if (line == nullptr || line->parts == nullptr) return nullptr;
    Cell* const cell = line->parts->at(at.offset % kLineBytes);
    return cell != nullptr && cell->size == size ? cell : nullptr;
  }
  Cell& one_cell(Address at, std::uint32_t size) {
    Cell* const cell = exact_cell(at, size);
    return cell != nullptr ? *cell : make_cell(at, size);
  }
  Cell& make_cell(Address at, std::uint32_t size);
  // unite.cpp: cells of a place that was accessed in smaller pieces
  bool unites(const Now& now, const Cell& cell) const;
  // Of a place in which there are only smaller cells. Null: something earlier is not ordered before
  // the access.
  Cell* unite(const Now& now, Address at, std::uint32_t size);
  void take_readers(Cell& whole, const Cell& piece, std::uint32_t shift);
  // Strong accesses of a place are single: one that was cut into smaller cells is put together.
  void unite_elements(const Now& now, std::uint64_t bytes) {
    if (regions_[now.address.region]->cut) unite_cut(now, bytes);
  }
  void unite_cut(const Now& now, std::uint64_t bytes);
  // The cell of an access of one element; where that is several still, the first. `as_one`: the
  // access is an atomic, which several cannot serve.
  Cell& place_of(const Now& now, bool as_one) {
    const std::uint32_t size = now.access->element;
    Cell& cell = one_cell(now.address, size);
    return cell.size >= size ? cell : place_of_pieces(now, cell, as_one);
  }
  Cell& place_of_pieces(const Now& now, Cell& first, bool as_one);
  // Tells the races of an access with what is in the pieces of its place.
  void tell_races_of_pieces(const Now& now);
  void tell_race_of_look(const Now& now, const Cell& cell, MessageSet known);
  void tell_races_of_looks(const Now& now, const Cell& cell, const Past& past,
                           const Wanted& wanted);
  // The same; throws NotModelled where there is none.
  void refuse(const Now& now, const Cell& cell);
  MeetingState& meeting_at(Meeting m) { return *meetings_[static_cast<std::uint32_t>(m)]; }
  MeetingPart& part_of(MeetingState& meeting, const Placement& place, Scope scope);
  void snapshot(Thread& t, ThreadId id, Scope scope);
  void acquire_parked(Thread& t, ThreadId id, Scope scope);
  // A span that leaves its region, or is not aligned to its elements, is a finding and not
  // executed.
  bool check_range(const Now& now, std::uint64_t bytes) {
    const std::uint64_t size = regions_[now.address.region]->spec.bytes;
    const bool inside = now.address.offset <= size && bytes <= size - now.address.offset;
    if (inside && (now.address.offset & (now.access->element - 1u)) == 0) return true;
    report_range(now, bytes, inside);
    return false;
  }
  void report_range(const Now& now, std::uint64_t bytes, bool inside);
  Now begin(ThreadId thread, Address at, const Access& access, AccessKind kind);
  void tell_edge(Event::Kind kind, ThreadId thread, ThreadId from = kNoThread);
  static constexpr unsigned kReduction = 1, kForeseen = 2;  // see Event
  void tell(Event::Kind kind, const Now& now, std::uint32_t bytes, std::uint64_t value,
            std::uint64_t old_value, const Message* from, bool stale, unsigned flags = 0);

  // race.cpp
  bool launch_over(const Now& now, const Epoch& at) const;
  bool there_before_launch(const Now& now, const Message& m) const;
  bool nc_alike(const Now& now, const Cell& cell) const;
  void check_coherent(const Now& now, const Cell& cell);
  void report_incoherent(const Now& now, const AccessInfo& other);
  struct RaceWith {
    const Message* message = nullptr;
    const Reader* reader = nullptr;
    explicit operator bool() const { return message != nullptr || reader != nullptr; }
  };
  RaceWith race_with(const Now& now, const Cell& cell, MessageSet known_set) const;
  // `in`: what a write writes, if it is known by now.
  void check_race(const Now& now, const Cell& cell, MessageSet known_set,
                  const std::byte* in = nullptr) {
    const bool unknown = (cell.ids & ~known_set) != 0;
    if (unknown || (now.kind != AccessKind::read && cell.readers != nullptr)) {
      look_for_race(now, cell, known_set, in);
    }
  }
  void look_for_race(const Now& now, const Cell& cell, MessageSet known_set, const std::byte* in);
  void note_unfenced(const Now& now, const Cell& cell);
  bool races(const Now& now, const Message& m, MessageSet known_set) const {
    return (known_set & bit(m)) == 0 && !morally_strong(now, m) &&
           (m.wrote == 0 || now.mask == 0 || (m.wrote & now.mask) != 0) &&
           !excused(now, m.at, m.order, m.scope);
  }
  bool races(const Now& now, const Reader& r) const {
    return !read_in_past(now, r) && !morally_strong(now, r) &&
           !excused(now, r.at, r.order, r.scope);
  }
  // False: it is passed over.
  bool report_race(const Now& now, const Epoch& at, AccessKind kind, Order order, Scope scope,
                   Proxy proxy, std::uint8_t element, std::uint16_t site, std::uint32_t step,
                   bool same_value = false);
  bool report_race(const Now& now, const Message& m, bool same_value = false);
  bool report_race(const Now& now, const Reader& r);
  bool excused(const Now& now, const Epoch& earlier, Order order, Scope scope) const;
  Missing missing_ingredient(const Now& now, const Epoch& earlier, Order order, Scope scope,
                             Proxy proxy, std::uint8_t element) const;
  void check_lost_signal(const Now& now, const Cell& cell, const Message* source) {
    if (regions_[now.address.region]->spec.kind == RegionKind::signal) {
      look_for_lost_signal(now, cell, source);
    }
  }
  void look_for_lost_signal(const Now& now, const Cell& cell, const Message* source);
  AccessInfo info(const Now& now) const;
  AccessInfo info(const Epoch& at, AccessKind kind, Order order, Scope scope, Proxy proxy,
                  std::uint16_t site, std::uint32_t step, const Now& where,
                  std::uint32_t bytes) const;

  std::pmr::memory_resource* memory_;
  Policy policy_;
  bool by_proxy_ = false;  // see note_proxies()
  Chooser* chooser_ = nullptr;
  Listener* listener_ = nullptr;
  bool torn_ = false;  // a read of this run saw a part of an AsOne group
  Arbiter* arbiter_ = nullptr;
  Trail* trail_ = nullptr;
  std::uint32_t ignored_ = 0;
  FindingFilter* filter_ = nullptr;
  std::uint32_t ignored_races_ = 0;
  ClockPool clocks_;
  Pool<Message> messages_;
  Pool<Entry> entries_;
  Pool<Observer> observers_;
  Pool<Reader> readers_;
  Pool<Watcher> watchers_;
  Pool<Cell> cells_;
  Pool<Parts> parts_;
  Pool<Line> lines_;
  Pool<Block> blocks_;
  Pool<BlockValues> block_values_;
  std::pmr::vector<Region*> regions_;
  std::pmr::vector<Thread*> threads_;
  std::pmr::vector<Slot*> slots_;
  std::pmr::vector<Stream*> streams_;
  std::pmr::vector<FenceSc> fence_sc_;
  std::pmr::vector<Bridge> bridges_;
  bool other_proxies_ = false;
  bool async_proxy_ = false;
  std::pmr::vector<Arrived> arrived_;  // by Arrival
  std::pmr::vector<MeetingState*> meetings_;
  std::pmr::vector<std::uint32_t> free_meetings_;
  std::uint32_t meeting_serial_ = 0;
  std::pmr::vector<Finding> findings_;
  std::pmr::vector<std::pair<std::uint16_t, std::uint16_t>> unfenced_reads_;
  std::pmr::vector<std::uint32_t> woken_;
  // The first of each are in use; the rest wait for the next run.
  std::size_t threads_used_ = 0, slots_used_ = 0, streams_used_ = 0;
  std::uint32_t step_ = 0;
  std::size_t collect_at_ = kCollectAtLeast;
};

}  // namespace ringfence::machine
