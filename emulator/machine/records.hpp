#pragma once
// What a machine keeps of regions, threads, launches, fences and meetings.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <utility>
#include <vector>

#include "emulator/machine/access.hpp"
#include "emulator/machine/clock.hpp"
#include "emulator/machine/lazy_array.hpp"
#include "emulator/machine/location.hpp"
#include "emulator/machine/scope.hpp"
#include "emulator/machine/view.hpp"

namespace ringfence::machine {

// The names that a machine's members know them by.
class MachineRecords {
 protected:
  // Kinds of fences, and names of moments and of meetings: see Machine.
  enum class Fence : std::uint8_t { acq_rel, sc, acquire, release };
  enum class ProxyFence : std::uint8_t { alias, constant, texture, surface };
  struct Moment {
    ThreadId thread = kNoThread;
    std::uint32_t time = 0;
  };
  using Meeting = std::uint64_t;

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
    bool cut = false;  // some line of it was, in this run
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
};

}  // namespace ringfence::machine
