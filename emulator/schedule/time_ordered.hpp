#pragma once
// The schedule of virtual time: every agent has a clock, and the one whose clock is earliest steps.
//
// The strategy keeps the clocks and applies what orders agents besides memory: a child starts when
// its parent stands, who waited at a block barrier goes on with the last to arrive, an operation of
// a task graph follows its predecessors, a parent its children. What an access costs is another's
// business (emulator/timing), which tells by `charge` and `reach`.
//
// Each agent also carries where its time went. Where it has to wait for another agent of its rank,
// it takes over that one's account: so an account always adds up to its clock, and the one that
// ends last is the critical path's.
//
// All choices but the schedule are their defaults: a run is deterministic.

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

using Time = std::int64_t;  // picoseconds

enum class Spent : std::uint8_t {
  product,  // the matrix product
  launch,   // of kernels, and what they do before their first signal
  barrier,  // signals, the waits that find theirs, fences
  waiting,  // for signals that have not come
  loads,
  reduce,  // sums over a block, block barriers
  stores,  // their issue, and at a release those still under way
};
inline constexpr std::size_t kSpent = 7;
const char* name(Spent spent);

struct Account {
  Time at = 0;
  std::array<Time, kSpent> spent{};
};

// Private memory: for the inline executor only.
class TimeOrderedStrategy : public Strategy {
 public:
  const Account& account(AgentId id) const { return accounts_[id]; }
  // The agent that is stepping; kNoAgent before the first.
  AgentId current() const { return current_; }
  void charge(AgentId id, Spent on, Time time) {
    accounts_[id].at += time;
    accounts_[id].spent[static_cast<std::size_t>(on)] += time;
  }
  // Nothing if its clock is past `at` already.
  void reach(AgentId id, Spent on, Time at) {
    if (at > accounts_[id].at) charge(id, on, at - accounts_[id].at);
  }
  // No agent that can step, now or later, has a clock before this.
  Time now() const { return now_; }

  void begin(std::uint32_t expected_points) override;
  void on_spawn(AgentId id, std::uint64_t label) override;
  void on_ready(AgentId id) override;
  void on_barrier(std::span<const AgentId> met, const void* barrier) override;
  void on_order(AgentId earlier, AgentId later) override;
  void on_end(AgentId id, AgentId parent) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) final;
  std::uint32_t choose(DecisionKind, std::uint64_t, std::uint32_t, std::uint32_t) final {
    return 0;
  }

 protected:
  // The agent has come to a point, to a barrier or to its end: what it did must be on its clock
  // when this returns.
  virtual void settle(AgentId) {}
  // What follows needs what the agent asked for: its clock is to be where all of that has come.
  virtual void complete(AgentId) {}
  // A new agent; its account is that of `parent`, kNoAgent for the hosts of the ranks.
  virtual void born(AgentId, AgentId /*parent*/, std::uint64_t /*label*/) {}
  // All of `met` stand at the clock of the last of them.
  virtual void met(std::span<const AgentId>) {}
  virtual void ordered(AgentId /*earlier*/, AgentId /*later*/) {}
  virtual void ended(AgentId, AgentId /*parent*/) {}
  void follow(AgentId later, AgentId earlier) {
    if (accounts_[later].at < accounts_[earlier].at) accounts_[later] = accounts_[earlier];
  }

 private:
  struct Entry {
    Time at;
    AgentId id;
    bool operator>(const Entry& o) const { return at != o.at ? at > o.at : id > o.id; }
  };
  void push(AgentId id);

  std::vector<Account> accounts_;
  std::vector<Time> queued_;  // by agent: the time of its entry that counts, -1 if none
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  AgentId current_ = kNoAgent;
  Time now_ = 0;
};

}  // namespace ringfence::schedule
