#pragma once
// Where every nondeterministic answer comes from.
//
// A strategy lives in memory that the rank processes share, and whichever process steps calls it;
// so it allocates only from the resource it was made with and holds no pointer to private memory.

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>

#include "emulator/machine/access.hpp"
#include "emulator/schedule/decision.hpp"
#include "emulator/schedule/faults.hpp"

namespace ringfence::schedule {

// Of at most so many lanes at one instruction each may be asked for its turn; with more an
// instruction moves data: one point for all of them.
inline constexpr int kMostSingleLanes = 8;

class Profile;  // profile.hpp

using AgentId = std::uint32_t;
inline constexpr AgentId kNoAgent = ~AgentId{0};

// What an agent stands before, for a strategy that steps by events.
enum class Pending : std::uint8_t {
  none,    // it goes on with something else than an access: it begins, left a barrier, …
  access,  // an access, or an await
  fence,
  fence_sc,
  // It has gone round a loop, or looked in vain: no event, and others should step first.
  yield,
};

// At which barrier of the program's own an agent is parked (Agent::park): one that its block has to
// come to, or its cluster, or nobody in particular.
enum class Parked : std::uint8_t { block, cluster, open };

// The access that an agent stands before, as far as it is known there: of a warp's instruction that
// of its first lane, of a multicast address the first replica's. No bytes: it is not known.
struct PendingAccess {
  machine::Address at;
  std::uint32_t bytes = 0;
  machine::AccessKind kind = machine::AccessKind::read;
  std::uint16_t site = 0;
};

// Whether the order of the two can matter: the same place, and one of them writes.
constexpr bool conflict(const PendingAccess& a, const PendingAccess& b) {
  return a.at.region == b.at.region && a.at.offset < b.at.offset + b.bytes &&
         b.at.offset < a.at.offset + a.bytes &&
         (a.kind != machine::AccessKind::read || b.kind != machine::AccessKind::read);
}

// The agents that can step, as the strategy sees them.
class ReadyView {
 public:
  virtual ~ReadyView() = default;
  virtual std::uint32_t count() const = 0;
  virtual AgentId at(std::uint32_t i) const = 0;  // any order, stable between changes
  virtual AgentId lowest() const = 0;             // the one made first
  virtual bool is_ready(AgentId id) const = 0;
  virtual std::uint64_t label(AgentId id) const = 0;
  virtual AgentId find(std::uint64_t label) const = 0;  // kNoAgent if there is none
  virtual Pending pending(AgentId id) const = 0;
  // Meaningful if that is Pending::access.
  virtual const PendingAccess& pending_access(AgentId id) const = 0;
};

// An agent that could have been the first to open something for others.
struct Late {
  machine::Address at;   // the place of what it opens
  bool itself = false;   // so had the first one been: another part of the same warp
  bool differs = false;  // then what was opened would be something else
  std::uint16_t site = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Before each run. `expected_points`: the length of the last run, 0 if unknown.
  virtual void begin(std::uint32_t expected_points) = 0;
  // An agent came into being (ids count up from 0), or became ready (again).
  virtual void on_spawn(AgentId, std::uint64_t /*label*/) {}
  virtual void on_ready(AgentId) {}
  // What orders agents besides memory: an agent arrived at a block barrier and goes on; all of
  // `met` left it together, and all that arrived since the last time; one left it by itself, and
  // others may; nobody will any more; `later` starts only once `earlier` ended; an agent ended, and
  // its parent waits for all its children.
  virtual void on_arrive(AgentId, const void* /*barrier*/) {}
  virtual void on_leave(AgentId, const void* /*barrier*/) {}
  // An agent is waited for there no more: that orders no memory, but who goes on from there does so
  // only behind it.
  virtual void on_gone(AgentId, const void* /*barrier*/) {}
  // Whether it explores which agent comes first to what opens something for others, at a place of
  // the machine's (Machine::come_first). An agent came to what an earlier one's arrival had opened.
  virtual bool orders_first(machine::Address) const { return false; }
  virtual void on_late(AgentId, const void* /*barrier*/, const Late&) {}
  // The same of some lanes of a warp, besides; and that they handed one another values. Told only
  // to a strategy that follows lanes.
  virtual bool follows_lanes() const { return false; }
  virtual void on_lanes_arrive(AgentId, std::span<const machine::ThreadId>,
                               const void* /*barrier*/) {}
  virtual void on_lanes_leave(AgentId, std::span<const machine::ThreadId>,
                              const void* /*barrier*/) {}
  virtual void on_exchange(AgentId, std::span<const machine::ThreadId>) {}
  // Which lanes go on by each answer to the question that comes next; whether only their fences of
  // one instruction do.
  virtual void on_parts(std::span<const std::uint32_t> /*lanes*/, bool /*fences*/) {}
  virtual void on_close(const void* /*barrier*/) {}
  virtual void on_barrier(std::span<const AgentId> /*met*/, const void* /*barrier*/) {}
  virtual void on_order(AgentId /*earlier*/, AgentId /*later*/) {}
  virtual void on_end(AgentId, AgentId /*parent*/) {}
  // The agent to step next; called at each point of a running agent (`current_ready`), and when it
  // blocked or ended. At least one agent is ready. Must return a ready one.
  virtual AgentId pick(const ReadyView& ready, AgentId current, bool current_ready,
                       std::uint64_t current_label, std::uint32_t point) = 0;
  // An answer below `options` (at least 2); 0 is the default. Asked at `point` of the agent; the
  // questions of one point come one after the other, no other agent's between them.
  virtual std::uint32_t choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                               std::uint32_t options) = 0;
  // A look of a loop that waits and that would only lead to another look: whether such are left out
  // of the run. A loop whose iteration spans several reads then makes it once; if it repeats, the
  // agent does not go on, and the run counts only if nothing newer comes for it to see.
  virtual bool drops_looks() const { return false; }
  // Asked when nobody can go on. No: the run is not one that the program has.
  virtual bool admits_deadlock() { return true; }
};

struct StrategySpec {
  enum class Kind : std::uint8_t { first, random, pct, replay, pos, surw, portfolio, mutant };
  // portfolio: one of the others that draw, drawn by the seed. mutant: a schedule that was kept,
  // changed somewhere.
  Kind kind = Kind::pct;
  std::uint64_t seed = 1;
  std::uint32_t depth = 3;  // pct: bugs of up to this depth
  double stale = 0.05;      // chance that a read with several answers takes an old one
  FaultSpec faults = {};    // of all that draw
};

std::string_view name(StrategySpec::Kind kind);
// The strategy of that name; throws std::invalid_argument.
StrategySpec::Kind parse_strategy(std::string_view name);

// What a portfolio takes for its seed; another strategy is itself.
StrategySpec drawn(const StrategySpec& spec);

// The default pick: the running agent while it can, then the ready one that was made first.
inline AgentId default_pick(const ReadyView& ready, AgentId current, bool current_ready) {
  return current_ready ? current : ready.lowest();
}

// Makes the strategy inside `memory`; `decisions` are replay's and mutant's, `profile` is pos's and
// surw's; both are copied as far as they are needed. Without a profile (nullptr) all accesses are
// events.
Strategy* make_strategy(const StrategySpec& spec, std::span<const Decision> decisions,
                        const Profile* profile, std::pmr::memory_resource* memory);
void destroy_strategy(Strategy* strategy, std::pmr::memory_resource* memory);

}  // namespace ringfence::schedule
