#pragma once
// All-reduce by pulling: a rank loads the peers' partials itself, between two barriers of the same
// block on all ranks. What is compared here is the barrier: each is a protocol, in a file of its
// own beside this one.
//
// one-shot: barrier(start); every rank sums all rows; block barrier; barrier(end), after which the
//   inputs may be written again.
// two-shot: barrier(start); a rank sums its own rows into `staging`; block barrier; barrier(mid);
//   every rank copies all rows out of the peers' staging. Nothing at the end: the inputs were read
//   before `mid`, and staging is written again behind the next call's start.
//
// The barriers count n = 0, 1, 2, ... over all calls; thread t serves peer t.

#include "emulator/programs/exchange.hpp"
#include "emulator/programs/protocol.hpp"

namespace ringfence::programs {

struct PullSwitches : Switches {
  struct Barrier {
    bool there = true;
    machine::Order put = machine::Order::release, wait = machine::Order::acquire;
  };
  Barrier start;
  Barrier second;             // behind the sums: `end` of a one-shot, `mid` of a two-shot
  bool block_barrier = true;  // before the second one
  machine::Order load = machine::Order::relaxed;  // of peers' data
  machine::Order st = machine::Order::relaxed;    // to staging

  void check(const Config&, const verify::Problem&) const {}

 protected:
  void list_one_shot(SwitchList& list) { list_pull(list, "end", false); }
  void list_two_shot(SwitchList& list) { list_pull(list, "mid", true); }

 private:
  void list_pull(SwitchList& list, const std::string& second_name, bool two_shot);
};

struct TwoShotSwitches : PullSwitches {
  TwoShotSwitches() { start.put = start.wait = machine::Order::relaxed; }
};

class Pull : public Exchange {
 public:
  std::string slot_writer(machine::Address at, const machine::Wanted& wanted) const override;

 protected:
  enum class Shots : std::uint8_t { one, two };
  // How a slot of the pad goes.
  enum class Slots : std::uint8_t {
    flags,     // waited for value by value: one that is overwritten before is a lost signal
    counters,  // the newest value stands for the earlier ones
  };
  // A thread at barrier n, and the accesses of it.
  struct Turn {
    Lane& lane;
    std::uint32_t n;
    bool start;
    machine::Access signal, poll;
  };

  // One slot a block, set and sender.
  struct Pad {
    Slots slots = Slots::flags;
    std::uint32_t sets = 1;
    bool one_sender = false;  // all ranks add to one slot
  };
  Pull(const Config& config, const PullSwitches& switches, Shots shots, Pad pad);

  void kernel(Lane& lane) final;
  std::string own_site_name(std::uint16_t site) const final;
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override;
  std::uint32_t slot_at_end(const RegionInfo& region, std::uint64_t offset) const final;

  virtual void barrier(Turn& turn) = 0;
  // What a slot holds after this many barriers.
  virtual std::uint32_t value_after(std::uint32_t barriers, std::uint32_t set) const = 0;
  // Before "flag of rank ..." in a slot's name: "", "even ", ...
  virtual const char* set_name(std::uint32_t /*set*/) const { return ""; }
  virtual const char* signal_instruction() const { return "store"; }

  machine::Address theirs(const Turn& t, std::uint32_t set) const {
    return at(pad_[t.lane.thread], slot(t.lane.block_index, set, t.lane.place.rank));
  }
  machine::Address ours(const Turn& t, std::uint32_t set) const {
    return at(pad_[t.lane.place.rank], slot(t.lane.block_index, set, t.lane.thread));
  }
  machine::Address counter_of(const Turn& t, std::uint32_t rank) const {
    return at(pad_[rank], slot(t.lane.block_index, 0, 0));
  }
  static void put(const Turn& t, machine::Address to, std::uint32_t value) {
    put(t, to, t.signal, value);
  }
  static void put(const Turn& t, machine::Address to, const machine::Access& access,
                  std::uint32_t value);
  // The relaxed store that clears a slot.
  static machine::Access clearing(const Turn& t);

 private:
  enum OwnSite : std::uint16_t {
    kStartPut = kFirstOwn,
    kStartWait,
    kStartClear,
    kStartSync,
    kEndSync,
    kEndPut,
    kEndWait,
    kEndClear,
    kGatherSync,
    kLoadInput,
    kStoreStaging,
    kLoadStaging,
  };
  bool two_shot() const { return shots_ == Shots::two; }
  std::uint64_t slot(std::uint32_t block, std::uint32_t set, std::uint32_t from) const;
  void turn(Lane& lane, bool start);

  const PullSwitches orders_;
  const Shots shots_;
  const Pad layout_;
  std::vector<std::uint32_t> staging_, pad_;  // regions, by rank
};

}  // namespace ringfence::programs
