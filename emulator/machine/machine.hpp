#pragma once
// The PTX memory model, operationally: messages, clocks and choices.
//
// Every access is executed at once, in the order in which the caller issues them; weakness comes
// from which message a read returns and where in coherence order a write lands. Both are asked of
// a Chooser whenever the model leaves more than one answer. What a thread may still read follows
// from three things only:
//   - base causality: the thread's `seen` clock (program order, release/acquire patterns,
//     bar.sync, launches, fence.sc),
//   - observation: who has read a message by a morally strong read,
//   - coherence: which messages precede which.
// Axioms by name (PTX ISA, "Memory Consistency Model", 8.10) and the function that applies each, of
// Machine or of the MachineState that it stands on:
//   Coherence            place           a write lands after the writes causality puts first
//   Fence-SC             fence           fence.sc joins every earlier morally strong one
//   Atomicity            rmw_may_take    nothing morally strong between a read and its write
//   No-Thin-Air          by construction a read returns a message that is already there, or what an
//                                        arbiter foresees, who has to see to it
//   SC-per-location      past            a thread's own accesses and observations count
//   Causality            past            never an overwritten message of causality's past
//   Single-copy atomicity: a scalar access is one cell or, where cells are smaller, a reported
//   race.
// Load buffering: a read returns a later write of the run only where an arbiter foresees it.
//
// Costs: an access that touches one message of a line takes about 30 ns, one of 32 lines that are
// accessed alike (block.cpp) about ten times as much. Memory since all threads last knew of a line,
// beside its bytes: about 250 bytes a 16-byte line, or, of 32 lines accessed alike, 700 bytes for
// each write of them and 50 for each read that stands.
// A machine is not synchronised: one process steps at a time.

#include <cstddef>
#include <cstdint>
#include <cstring>
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
#include "emulator/machine/scope.hpp"
#include "emulator/machine/state.hpp"

namespace ringfence::machine {

class Machine : private MachineState {
 public:
  // All state comes from `memory`, so a machine may live in memory that processes share.
  Machine(std::pmr::memory_resource* memory, const Policy& policy);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Policy& policy() const { return policy_; }
  void set_policy(const Policy& policy) {
    policy_ = policy;
    note_proxies();
  }
  void set_chooser(Chooser* chooser) { chooser_ = chooser; }
  void set_listener(Listener* listener) { listener_ = listener; }
  // For an exhaustive search; nullptr for none. The chooser has to answer what the arbiter wants.
  void set_arbiter(Arbiter* arbiter) { arbiter_ = arbiter; }
  // Where reads and writes leave their trail; nullptr for nowhere.
  void set_trail(Trail* trail) { trail_ = trail; }
  // Findings of this kind are passed over from now on; races are counted.
  void ignore(FindingKind kind) { ignored_ |= 1u << static_cast<int>(kind); }
  void ignore_none() { ignored_ = 0; }
  // Asked of findings of other kinds; nullptr for none. It outlives the runs.
  void set_filter(FindingFilter* filter) { filter_ = filter; }
  using MachineState::passes_over;

  // -- memory -----------------------------------------------------------------------------------
  RegionId add_region(const RegionSpec& spec);
  // Content before every launch; valid until the first access.
  void set_initial(Address to, std::span<const std::byte> bytes);
  const RegionSpec& region(RegionId id) const { return regions_[id]->spec; }
  std::size_t region_count() const { return regions_.size(); }
  // What a check after all launches reads: the newest messages.
  void peek(Address from, std::span<std::byte> out) const;
  struct Span {
    std::uint64_t offset = 0, bytes = 0;
  };
  // Where a sparse region may differ from its content before every launch, in order.
  std::vector<Span> touched(RegionId id) const;
  // Gives a region of shared memory its storage.
  void open_region(RegionId id);
  // A line of such a region comes under the model with these bytes. `history` are weak accesses
  // that causality orders where they conflict, the later ones behind the earlier: of each byte the
  // last write, and the reads since.
  void adopt(Address line, std::span<const std::byte> content, std::span<const Earlier> history);
  // Forgets all accesses, threads and findings; regions keep their initial content.
  void reset();

  // -- threads ----------------------------------------------------------------------------------
  // Launches of one stream are ordered, thread by thread of all of them.
  StreamId add_stream(std::uint16_t rank);
  void begin_launch(StreamId stream);
  // Thread `index` of block `block`: a fresh one of this launch. `label` names it in findings.
  ThreadId launch_thread(StreamId stream, std::uint32_t block, std::uint32_t index,
                         std::uint64_t label, std::uint16_t cluster = 0);
  void end_thread(ThreadId thread);
  void end_launch(StreamId stream);
  // Launches that overlap (programmatic dependent launch, PTX ISA 9.7.15.14), each on a stream of
  // its own. The next one on `later` may begin while that on `earlier` runs: it starts with what
  // that one started with, and with what release fences before its triggers cover (follow_start);
  // the rest it knows where a thread has waited for it to end (wait_for_launch).
  void follow_start(StreamId later, StreamId earlier);
  // griddepcontrol.launch_dependents, by threads of one block in one instruction; `next` are about
  // to execute it too. Whether release fences of the kernel's own, of threads that come first or
  // would, have a part in it.
  bool trigger(std::span<const ThreadId> threads, std::span<const ThreadId> next = {});
  // Whether fences of the kernel itself stand before its triggers.
  bool fenced_triggers(StreamId stream) const { return streams_[stream]->fenced; }
  // The launch on `earlier` has ended.
  void wait_for_launch(ThreadId thread, StreamId earlier);
  // Whether the bytes hold a write of the latest launch on that stream.
  bool written_by(Address at, StreamId stream);
  // No launch follows on this stream; it no longer holds back what can be forgotten.
  void close_stream(StreamId stream);
  // The thread's moment, for `knows` and Earlier.
  std::uint32_t time_of(ThreadId thread) const { return threads_[thread]->time; }
  // Whether what `other` did at `time` is in the causality past of what `thread` does now.
  bool knows(ThreadId thread, ThreadId other, std::uint32_t time) const {
    return in_past(*threads_[thread], thread, Epoch{other, threads_[other]->slot, time});
  }
  // An edge to each of `later`: all that `earlier` did so far happens before what they do from now
  // on.
  void order_after(std::span<const ThreadId> later, ThreadId earlier);
  // A launch on `later` waits for all launches so far on `earlier` (an event of the same process).
  void order_streams(StreamId later, StreamId earlier);

  using MachineState::Meeting;  // see open_meeting()

  // -- asynchronous operations (async.cpp) --------------------------------------------------------
  // What a copy engine does is in no thread's program order (PTX ISA 8.9.1.1): it comes after what
  // its issuers did until they issued it, and before what somebody does who has observed its end.
  // issue() gives a thread to make its accesses by, for one operation; what it reads, and then what
  // it writes, are parts of it, and advance() ends a part: that precedes the time returned.
  // `same`: of an operation of these issuers that this one is to be part of.
  ThreadId issue(std::span<const ThreadId> issuers, ThreadId same = kNoThread);
  std::uint32_t advance(ThreadId engine);
  // The threads have waited for the parts of the operation before that time.
  void observe(std::span<const ThreadId> threads, ThreadId engine, std::uint32_t time);
  // They are complete for whoever leaves the meeting as an acquire, of any scope, at `at`. The
  // issuers' own history does not come with them.
  void complete(Meeting meeting, ThreadId engine, std::uint32_t time, const Placement& at);
  // mbarrier.init as an operation that is part of the thread's program order as well, so that a
  // fence_inits() can publish it alone.
  using MachineState::Moment;
  Moment mbarrier_init(ThreadId thread);
  // Before the first access: some go through the async proxy. Without it fences of it do nothing.
  void use_async_proxy(bool on) { async_proxy_ = on; }
  // fence.proxy.async in these spaces: no step, and no event.
  void async_fence(ThreadId thread, bool global, bool shared);
  // `knows`, and a fence of the async proxy lies on the way.
  bool knows_by_async(ThreadId thread, ThreadId other, std::uint32_t time, bool shared) const {
    const View& view = threads_[thread]->view;
    return (shared ? view.async_shared : view.async_global)
        .covers(Epoch{other, threads_[other]->slot, time});
  }

  // -- accesses ---------------------------------------------------------------------------------
  // A step of a barrier (Access::of_barrier): of several at one place, coherence orders each behind
  // those before. Its message has `value`. Reads of barriers return the newest.
  void step_of_barrier(ThreadId thread, Address at, const Access& access, std::uint64_t value);
  // Of those that do it at one place, the first in the order of execution opens something for
  // others: an atomic that only the first one's compare lets write. For an arbiter alone.
  void come_first(ThreadId thread, Address at, const Access& access);
  // Spans may cross lines; offsets are multiples of the element size.
  void read(ThreadId thread, Address from, const Access& access, std::span<std::byte> out);
  void write(ThreadId thread, Address to, const Access& access, std::span<const std::byte> in);
  // One instruction of a warp: lane i of 32 reads or writes the 16 bytes at 16 * i behind each of
  // `places` (as many as a multicast address has replicas), as if by read() or write() lane after
  // lane. Done at once where the lanes know the same and the lines have the same history; false:
  // nothing was done, and the caller makes the accesses one by one. `out` has 512 bytes a place.
  bool read_together(std::span<const ThreadId> lanes, std::span<const Address> places,
                     const Access& access, std::span<std::byte> out);
  bool write_together(std::span<const ThreadId> lanes, std::span<const Address> places,
                      const Access& access, std::span<const std::byte> in);
  // Reduction without a result (red): it extends release sequences and never acquires (8.11.1).
  void reduce(ThreadId thread, Address to, const Access& access, std::span<const std::byte> operand,
              CombineFunction combine);
  // One element; returns the old value. A failed compare is a strong read and writes nothing.
  std::uint64_t rmw(ThreadId thread, Address at, const Access& access, std::uint64_t operand,
                    CombineFunction combine);
  std::uint64_t cas(ThreadId thread, Address at, const Access& access, std::uint64_t compare,
                    std::uint64_t value);

  // Awaits. A spin is not executed: `can_end` says whether a poll can succeed now, and the try_
  // forms execute the poll that ends it; nothing if the chooser lets the poll miss.
  bool can_end(ThreadId thread, Address at, const Access& access, const Wanted& wanted,
               bool by_rmw);
  std::optional<std::uint64_t> try_read_until(ThreadId thread, Address at, const Access& access,
                                              const Wanted& wanted);
  // Of a poll of several places that are read as one (Access::as_one): lets what follows see at
  // this one something that ends the wait, if there is any.
  void see_change(ThreadId thread, Address at, const Access& access, const Wanted& wanted);
  // CAS wanted -> value
  std::optional<std::uint64_t> try_cas_until(ThreadId thread, Address at, const Access& access,
                                             std::uint64_t compare, std::uint64_t value);
  // An atomic that is repeated until it returns what ends the wait; a compare-and-swap (`compare`)
  // that ends it by another value only reads.
  std::optional<std::uint64_t> try_rmw_until(ThreadId thread, Address at, const Access& access,
                                             const Wanted& wanted, const std::uint64_t* compare,
                                             std::uint64_t operand, CombineFunction combine);
  // Both in one, of the read or of CAS wanted -> value: nothing if the wait cannot end, or misses.
  std::optional<std::uint64_t> try_end(ThreadId thread, Address at, const Access& access,
                                       const Wanted& wanted, bool by_rmw, std::uint64_t value);
  // A poll of the caller's own read `value` here last: if it is still the newest, whoever
  // overwrites it next loses no signal.
  void took(Address at, std::uint8_t element, std::uint64_t value);
  // `who` is put on woken() whenever a message is added there, until unwatch.
  void watch(Address at, const Access& access, std::uint32_t who);
  void unwatch(Address at, const Access& access, std::uint32_t who);
  std::pmr::vector<std::uint32_t>& woken() { return woken_; }

  // -- ordering ---------------------------------------------------------------------------------
  using MachineState::Fence;
  void fence(ThreadId thread, Fence kind, Scope scope, std::uint16_t site = 0);
  // fence.proxy.KIND. It has no scope. alias: what is seen so far holds across virtual aliases as
  // well. The others: what the thread's block did through that proxy holds for other proxies, and
  // what they did for what the block does through that one later.
  using MachineState::ProxyFence;
  void proxy_fence(ThreadId thread, ProxyFence kind, std::uint16_t site = 0);
  void alias_fence(ThreadId thread, std::uint16_t site = 0) {
    proxy_fence(thread, ProxyFence::alias, site);
  }
  // fence.mbarrier_init.release.cluster: a fence.release of the thread's mbarrier_init() alone.
  void fence_inits(ThreadId thread);
  // Before the first access: some go through the constant, texture or surface proxy. Without it
  // their fences are not kept.
  void use_other_proxies(bool on) {
    other_proxies_ = on;
    note_proxies();
  }
  // bar.sync: every one of `arriving` happens before every one of `syncing`. If both are the same
  // and are all threads of their block that touch memory, say so: the block is then level again.
  // A thread of `arriving` that goes on before the others have come (bar.arrive) arrives by itself,
  // and hands what it is given to barrier(): only what it did until then counts.
  using Arrival = std::uint32_t;
  Arrival arrive(ThreadId thread);
  void barrier(std::span<const ThreadId> arriving, std::span<const ThreadId> syncing,
               bool whole_block, std::uint16_t site = 0, std::span<const Arrival> arrivals = {});
  // A meeting: a barrier that threads arrive at and leave one by one (bar.arrive, barrier.cluster,
  // a phase of an mbarrier). What a thread did until it arrived happens before what any thread does
  // after it left; what the arriving thread does later is not ordered by it. Ids are unique in a
  // run.
  //
  // An arrival is the strong write of a release pattern and a departure the strong read of an
  // acquire pattern (PTX ISA 8.8), each with its scope; a barrier without scopes takes sys. A
  // relaxed arrival hands on what the thread's release fences published; a relaxed departure
  // leaves what it met to a later acquire fence.
  Meeting open_meeting();
  void arrive(Meeting meeting, std::span<const ThreadId> threads, Order order = Order::release,
              Scope scope = Scope::sys);
  void depart(Meeting meeting, std::span<const ThreadId> threads, std::uint16_t site = 0,
              Order order = Order::acquire, Scope scope = Scope::sys);
  void close_meeting(Meeting meeting);

  // -- results ----------------------------------------------------------------------------------
  const std::pmr::vector<Finding>& findings() const { return findings_; }
  // Of reads through the generic proxy that a write through the async one is ordered after but for
  // a fence.proxy.async: the sites of both, each pair once, under AsyncWar::note.
  const std::pmr::vector<std::pair<std::uint16_t, std::uint16_t>>& unfenced_reads() const {
    return unfenced_reads_;
  }
  bool failed() const { return !findings_.empty(); }
  // Races that were passed over because findings of their kind are ignored.
  std::uint32_t ignored_races() const { return ignored_races_; }
  using MachineState::label_of;
  using MachineState::report;
  std::uint32_t steps() const { return step_; }
  StreamId stream_of(ThreadId thread) const { return threads_[thread]->stream; }
  std::size_t messages() const { return messages_.live(); }
  using MachineState::morally_strong;
  using MachineState::placement;
  using MachineState::threads_from;
  // The cell that holds the byte there; nullptr if the line was not accessed.
  const Cell* cell_at(Address at);
  // Calls f(value) for every message there that may be the final one: those that coherence puts
  // before no other. The order is partial, so racing writes may leave several.
  template <class F>
  void final_values(Address at, std::uint32_t bytes, F&& f) {
    const Cell* cell = cell_at(at);
    if (cell == nullptr || cell->size != bytes) {
      std::uint64_t value = 0;
      peek(at, {reinterpret_cast<std::byte*>(&value), bytes});
      return f(value);
    }
    MessageSet before = 0;
    for (const Message* m = cell->newest; m != nullptr; m = m->older) before |= m->before;
    for (const Message* m = cell->newest; m != nullptr; m = m->older) {
      if ((before & bit(*m)) != 0) continue;
      std::uint64_t value = 0;
      std::memcpy(&value, m->value.data(), bytes);
      f(value);
    }
  }

 private:
  using MachineState::observe;  // beside that of copies
};

}  // namespace ringfence::machine
