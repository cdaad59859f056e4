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
// Axioms by name (PTX ISA, "Memory Consistency Model", 8.10) and the function that applies each:
//   Coherence            Machine::place         a write lands after the writes causality puts first
//   Fence-SC             Machine::fence         fence.sc joins every earlier morally strong one
//   Atomicity            Machine::rmw_may_take  nothing morally strong between a read and its write
//   No-Thin-Air          by construction        a read returns a message that is already there, or
//                                               what an arbiter foresees, who has to see to it
//   SC-per-location      Machine::past          a thread's own accesses and observations count
//   Causality            Machine::past          never an overwritten message of causality's past
//   Single-copy atomicity: a scalar access is one cell or, where cells are smaller, a reported
//   race.
// Load buffering: a read returns a later write of the run only where an arbiter foresees it.
//
// Costs: an access that touches one message of a line takes about 30 ns, one of 32 lines that are
// accessed alike (block.cpp) about ten times as much. Memory since all threads last knew of a line,
// beside its bytes: about 250 bytes a 16-byte line, or, of 32 lines accessed alike, 700 bytes for
// each write of them and 50 for each read that stands.
// A machine is not synchronised: one process steps at a time.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/finding.hpp"
#include "emulator/machine/lazy_array.hpp"
#include "emulator/machine/location.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/machine/pool.hpp"
#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

class Arbiter;  // arbiter.hpp
class Trail;    // trail.hpp

using RegionId = std::uint32_t;
using StreamId = std::uint32_t;

struct Address {
  RegionId region = 0;
  std::uint64_t offset = 0;
};

struct AsOne;

// How an access is made. `element` is the size in bytes of one scalar operation: a vector access
// is a set of scalar ones (PTX ISA 8.2.4), and packed halves are 2-byte ones (8.2.5).
struct Access {
  Order order = Order::weak;
  Scope scope = Scope::sys;
  std::uint8_t element = 4;  // a power of two
  Proxy proxy = Proxy::generic;
  bool reaches_output = false;  // a stale value would reach a result: report it as a stale read
  std::uint16_t site = 0;       // the caller's number for the program line
  // Axiom No-Thin-Air: the thread's earlier reads that this access depends on. Bit n is its n-th
  // access that reads, from 0; bit 63 also stands for all later ones. A read depends on what its
  // address does, a write also on what its value and the branches before it do. Used where load
  // buffering is on; by default an access depends on every earlier read.
  std::uint64_t read_depends = ~std::uint64_t{0};
  std::uint64_t write_depends = ~std::uint64_t{0};
  // Of a reduction: how it combines. An exhaustive search takes reductions that agree for a set.
  Combine combine = Combine::none;
  // A step of a barrier, or a look at one: order of execution is its coherence order, and it races
  // with nothing, publishes nothing and takes nothing in. What the barrier orders, a Meeting does.
  bool of_barrier = false;
  // Bytes of one operation where a policy makes that more than an element; else 0.
  std::uint8_t operation = 0;
  // What it is part of; null: it stands by itself. Only for as long as the call takes.
  AsOne* as_one = nullptr;
  // A weak read that a policy lets see all that precedes it in observed time (FreshLines).
  bool fresh = false;
};

// What has to be equal for two accesses to overlap completely (PTX ISA 8.2.1).
constexpr std::uint8_t operation_bytes(const Access& a) {
  return a.operation != 0 ? a.operation : a.element;
}

enum class RegionKind : std::uint8_t {
  data,    // a replica of a symmetric tensor, or a tensor of one rank
  signal,  // a pad of slots: watched for lost signals
};

struct RegionSpec {
  std::uint16_t rank = 0;
  RegionKind kind = RegionKind::data;
  std::uint64_t bytes = 0;
  // Zero, or what set_initial gives; otherwise reading a line to which that gave nothing is a
  // finding.
  bool initialised = true;
  // Shared memory of a block: most of it is kept elsewhere as plain bytes. It has storage once
  // open_region() was called, and a line of it is used from adopt() on.
  bool shared = false;
  // What the region costs is what is touched of it, not its bytes: for large ones, as each line
  // that came to be plain bytes again is kept for the next run (lazy_array.hpp). Added before rank
  // processes are.
  bool sparse = false;
};

// An access that was made before its line came under the model (Machine::adopt).
struct Earlier {
  ThreadId thread = kNoThread;
  std::uint32_t time = 0;  // Machine::time_of the thread, then
  std::uint16_t site = 0;
  std::uint8_t offset = 0;  // in the line
  std::uint8_t bytes = 0;
  bool write = false;
  Proxy proxy = Proxy::generic;
};

// What a choice is about; for traces and for strategies that weigh them.
enum class Choice : std::uint8_t {
  read,       // which readable message, newest first
  coherence,  // where a write lands, last first
  miss,       // whether a poll whose newest message does not satisfy it sees an older one (1..)
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // An answer below `options` (at least 2). 0 is what sequential consistency would do.
  virtual std::uint32_t choose(Choice kind, ThreadId who, std::uint32_t options) = 0;
};

// A condition that no comparison says; it may be asked as long as somebody holds it.
class Condition : public std::enable_shared_from_this<Condition> {
 public:
  virtual ~Condition() = default;
  virtual bool holds(std::uint64_t value) const = 0;
  // Whether the atomic that waits writes where it finds this.
  virtual bool writes(std::uint64_t /*value*/) const { return true; }
};

// The condition that a wait needs; values are compared as unsigned.
struct Wanted {
  Compare compare = Compare::eq;
  std::uint64_t value = 0;
  std::uint64_t mask = ~std::uint64_t{0};  // of the bits that are compared
  // In place of the comparison, where all that ask are in the process that made it.
  const Condition* condition = nullptr;
  bool holds(std::uint64_t v) const {
    if (condition != nullptr) return condition->holds(v);
    v &= mask;
    switch (compare) {
      case Compare::eq:
        return v == value;
      case Compare::ne:
        return v != value;
      case Compare::lt:
        return v < value;
      case Compare::le:
        return v <= value;
      case Compare::gt:
        return v > value;
      case Compare::ge:
        return v >= value;
    }
    return false;
  }
};

// Accesses that a policy takes for one (VectorAccess, LineAccess). Writes have the number of their
// group, and reads see all of such a group or nothing.
struct AsOne {
  std::uint32_t group = 0;  // of writes: the first one's step; 0: it is still to come
  // Of reads: groups that what was read so far is part of or newer than, and others.
  std::vector<std::uint32_t> seen, unseen;
  // A read that a wait has led to sees something else at one place: where, and what.
  Address changed_at;
  std::optional<Wanted> changed;
};

// One step as a listener sees it. `from_step` is the step of the write that a read returned.
// launch, end_launch and dependency are no steps: they carry the step before them, no address, and
// the order weak. A dependency says that all that `from_label` did so far happens before what
// `label` does from now on (Machine::order_after).
struct Event {
  enum class Kind : std::uint8_t {
    read,
    write,
    rmw,
    failed_cas,
    fence,
    barrier,
    launch,
    end_launch,
    dependency
  };
  Kind kind = Kind::read;
  ThreadId thread = kNoThread;
  std::uint64_t label = 0;
  std::uint32_t step = 0;
  std::uint16_t site = 0;
  Order order = Order::weak;
  Scope scope = Scope::cta;
  Proxy proxy = Proxy::generic;
  Address address;
  std::uint32_t bytes = 0;
  std::uint64_t value = 0;      // the first element
  std::uint64_t old_value = 0;  // read-modify-writes
  std::uint32_t from_step = 0;
  std::uint64_t from_label = 0;
  bool stale = false;              // a newer message existed
  bool reduction = false;          // a read-modify-write without a result: it never acquires
  bool foreseen = false;           // the read returned a later write (Arbiter::foreseen)
  const Access* access = nullptr;  // of an access, while on_event runs
};

// Whether it is an access to memory.
constexpr bool is_access(Event::Kind kind) { return kind <= Event::Kind::failed_cas; }
// Whether it is a step at all.
constexpr bool is_step(Event::Kind kind) { return kind <= Event::Kind::barrier; }

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(const Event& event) = 0;
  // Whether one event may stand for the access of one thread to kBlockBytes at once: its value is
  // that of the first element. Else all are told line by line, and all accesses are made so.
  virtual bool takes_blocks() const { return false; }
};

// old value, operand -> new value, of one element
using CombineFunction = std::uint64_t (*)(std::uint64_t old, std::uint64_t operand);

class Machine {
 public:
  // All state comes from `memory`, so a machine may live in memory that processes share.
  Machine(std::pmr::memory_resource* memory, const Policy& policy);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Policy& policy() const { return policy_; }
  void set_policy(const Policy& policy) { policy_ = policy; }
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
  // Whether a finding is passed over: the one place that decides it.
  bool passes_over(const Finding& finding) const {
    return (ignored_ & 1u << static_cast<int>(finding.kind)) != 0 ||
           (filter_ != nullptr && filter_->passes_over(finding));
  }

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

  using Meeting = std::uint64_t;  // see open_meeting()

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
  struct Moment {
    ThreadId thread = kNoThread;
    std::uint32_t time = 0;
  };
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
  enum class Fence : std::uint8_t { acq_rel, sc, acquire, release };
  void fence(ThreadId thread, Fence kind, Scope scope, std::uint16_t site = 0);
  // fence.proxy.KIND. It has no scope. alias: what is seen so far holds across virtual aliases as
  // well. The others: what the thread's block did through that proxy holds for other proxies, and
  // what they did for what the block does through that one later.
  enum class ProxyFence : std::uint8_t { alias, constant, texture, surface };
  void proxy_fence(ThreadId thread, ProxyFence kind, std::uint16_t site = 0);
  void alias_fence(ThreadId thread, std::uint16_t site = 0) {
    proxy_fence(thread, ProxyFence::alias, site);
  }
  // fence.mbarrier_init.release.cluster: a fence.release of the thread's mbarrier_init() alone.
  void fence_inits(ThreadId thread);
  // Before the first access: some go through the constant, texture or surface proxy. Without it
  // their fences are not kept.
  void use_other_proxies(bool on) { other_proxies_ = on; }
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
  // `stops`: what reports it goes no further. A run that tore what a policy takes for one (torn_)
  // is no execution, so that only this is told of it (Finding::torn).
  void report(const Finding& finding, bool stops = false);
  std::uint64_t label_of(const Epoch& at) const;
  std::uint32_t steps() const { return step_; }
  StreamId stream_of(ThreadId thread) const { return threads_[thread]->stream; }
  std::size_t messages() const { return messages_.live(); }
  const Placement& placement(ThreadId thread) const { return threads_[thread]->place; }
  // Whether two accesses of one cell are morally strong (PTX ISA 8.7).
  bool morally_strong(ThreadId a, const Access& x, ThreadId b, const Access& y) const;
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
  struct Region {
    Region(const RegionSpec& s, std::pmr::memory_resource* m)
        : spec(s),
          bytes(m),
          initial(m),
          lines(m),
          touched(m),
          ground_unset(m),
          given(m),
          blocks(m),
          touched_blocks(m),
          changed(m),
          is_changed(m) {}
    RegionSpec spec;
    LazyArray<std::byte> bytes;           // content of lines without messages
    std::pmr::vector<std::byte> initial;  // content before every launch; of a sparse one: `changed`
    LazyArray<Line*> lines;
    std::pmr::vector<std::uint32_t> touched;
    std::pmr::vector<bool> ground_unset;  // by line, only if not initialised
    // Then: the lines [first, second) that have content at the start.
    std::pmr::vector<std::pair<std::uint64_t, std::uint64_t>> given;
    // Whole blocks of the region; where one is set, none of its lines is.
    LazyArray<Block*> blocks;
    std::pmr::vector<std::uint32_t> touched_blocks;
    bool ground_changed = false;
    // Of a sparse region: what lines held before every launch whose plain bytes are others now.
    struct Changed {
      std::uint32_t index = 0;
      std::array<std::byte, kLineBytes> bytes{};
    };
    std::pmr::vector<Changed> changed;
    LazyArray<std::uint8_t> is_changed;  // by line
  };
  // What the thread's last fence of a scope published, if no wider one came after it.
  struct FenceView {
    Epoch at;
    View view;
  };
  // An entry that a relaxed read met; an acquire fence, or an acquire read there, takes it in.
  struct Parked {
    Address where;
    Epoch at;
    Scope scope = Scope::cta;
    View view;
    Proxy proxy = Proxy::generic;  // of the entry
    bool fence = false;
    Proxy through = Proxy::generic;  // of the read that met it
    Entry as_entry() const { return {nullptr, at, scope, view, proxy, fence}; }
  };
  static constexpr std::size_t kLabels = 16;
  static constexpr int kInits = kScopes;
  static constexpr Scope scope_of_fence(int n) {
    return n == kInits ? Scope::cluster : static_cast<Scope>(n);
  }
  // Up to so many morally strong messages, a write may land behind any closed set of them.
  static constexpr std::size_t kAllSubsets = 6;
  static constexpr std::size_t kMaxFindings = 16;
  static constexpr std::size_t kCollectAtLeast = std::size_t{1} << 16;
  struct Label {
    std::uint32_t from_time;
    std::uint64_t label;
  };
  struct Thread {
    explicit Thread(std::pmr::memory_resource* m) : parked(m), labels(m), engines(m) {}
    Placement place;
    StreamId stream = 0;
    std::uint32_t slot = 0;
    std::uint32_t index = 0;  // in Slot::threads
    std::uint32_t time = 0;
    std::uint32_t began = 0;  // its time when it began
    bool live = false;
    View view;
    FenceView fences[kScopes + 1];  // by scope; at kInits of fence_inits()
    std::uint8_t fences_set = 0;    // bit s: the view of fences[s] counts
    std::uint8_t fences_held = 0;   // bit s: it was ever set in this run
    std::pmr::vector<Parked> parked;
    std::pmr::vector<Label> labels;
    // Threads that make the accesses of its asynchronous operations; one whose operation it knows
    // to have ended is taken again.
    std::pmr::vector<ThreadId> engines;
    // Its mbarrier_init(): what fence_inits() publishes.
    View inits;
    Moment last_init;
  };
  // The launches that ended on a slot: events before `time` precede boundary number `boundary`.
  struct SlotEnd {
    std::uint32_t time;
    std::uint32_t boundary;
  };
  struct Slot {
    explicit Slot(std::pmr::memory_resource* m) : threads(m), ends(m) {}
    StreamId stream = 0;
    std::uint32_t block = 0;
    bool of_engine = false;  // of asynchronous operations
    std::uint32_t max_time = 0;
    std::uint32_t start_time = 0;  // of its threads in the next launch
    // While it had a single thread, clocks took it for that one: it was known before this time.
    std::uint32_t alone_until = 0;
    std::pmr::vector<ThreadId> threads;
    std::pmr::vector<SlotEnd> ends;
  };
  struct Stream {
    explicit Stream(std::pmr::memory_resource* m) : triggers(m), slots(m) {}
    std::uint16_t rank = 0;
    ThreadId marker = kNoThread;  // the thread whose events are this stream's boundaries
    std::uint32_t marker_slot = 0;
    std::uint32_t boundaries = 0;
    bool closed = false;
    bool in_launch = false;
    std::uint32_t live_threads = 0;
    View next;                                 // what the next launch starts with
    View ending;                               // what the running launch adds to it
    View ended;                                // what the last thread's end added to that
    View started;                              // what the latest launch started with
    View released;                             // what fences before its triggers cover
    bool fenced = false;                       // ... other than those at threads' starts
    std::pmr::vector<std::uint32_t> triggers;  // slots of blocks that have triggered
    std::pmr::vector<std::uint32_t> slots;     // by block
  };
  struct FenceSc {
    Epoch at;
    Scope scope;
    View view;
  };
  // A proxy fence that was executed, with all that it comes after. A launch's boundary is one of
  // every kind, for every block.
  struct Bridge {
    Epoch at;
    ProxyFence kind = ProxyFence::alias;
    bool boundary = false;
    Placement place;
    Clock seen;
  };
  struct Arrived {
    Epoch at;
    View view;
    bool pending = false;
  };
  // What arrived at a meeting from one place with one scope.
  struct MeetingPart {
    Placement place;
    Scope scope = Scope::sys;
    Epoch at;  // of one arrival; `view` holds all of them
    View view;
  };
  struct MeetingState {
    explicit MeetingState(std::pmr::memory_resource* m) : parts(m) {}
    std::uint32_t serial = 0;
    std::pmr::vector<MeetingPart> parts;
  };
  // An access in progress.
  struct Now {
    ThreadId id;
    Thread* thread;
    const Access* access;
    Address address;  // of the cell at hand
    std::uint32_t step;
    AccessKind kind;
    std::uint16_t mask;  // bytes of the cell, for reads that cover part of it
    // Causality alone decides what is in its past, whatever proxies were used: asked once, as every
    // message of every cell asks.
    bool direct = false;
  };

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
  void split(Line& line, Cell& cell, std::uint32_t size);
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
  void collect();
  std::optional<Clock> known_to_all();
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
  static MessageSet downward(const Cell& cell, MessageSet set);
  static bool outdates_a_read(const Cell& cell, MessageSet before, MessageSet after);
  bool goes_to_coherence_point(const Access& a) const;
  // Whether proxies and virtual addresses make a difference to order.
  bool by_proxy() const {
    return policy_.alias_data == AliasData::fence_required || other_proxies_;
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
  std::optional<std::uint64_t> foreseen(const Now& now, const Cell& cell) const {
    return arbiter_ == nullptr ? std::nullopt : ask_foreseen(now, cell);
  }
  std::optional<std::uint64_t> ask_foreseen(const Now& now, const Cell& cell) const;
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
  MeetingState& meeting_at(Meeting m) { return *meetings_[static_cast<std::uint32_t>(m)]; }
  MeetingPart& part_of(MeetingState& meeting, const Placement& place, Scope scope);
  void snapshot(Thread& t, ThreadId id, Scope scope);
  void acquire_parked(Thread& t, ThreadId id, Scope scope);
  bool check_range(const Now& now, std::uint64_t bytes);
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
