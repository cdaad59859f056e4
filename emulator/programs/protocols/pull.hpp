#pragma once
// All-reduce by pulling: a rank loads the peers' partials itself, between two barriers of the same
// block on all ranks. What is compared here is the barrier.
//
// one-shot: barrier(start); every rank sums all rows; block barrier; barrier(end), after which the
//   inputs may be written again.
// two-shot: barrier(start); a rank sums its own rows into `staging`; block barrier; barrier(mid);
//   every rank copies all rows out of the peers' staging. Nothing at the end: the inputs were read
//   before `mid`, and staging is written again behind the next call's start.
//
// The barriers, with n = 0, 1, 2, ... counting them over all calls; thread t serves peer t:
//   epoch-inbox (one-shot)       an inbox of one slot a peer. put: store n + 1 into the peer's
//                                inbox; wait: own slot GE n + 1. Nothing is ever reset.
//   multimem-counter (one-shot)  thread 0: multimem.red.add 1 on all ranks' counter; wait until the
//                                own one is GE R * (n + 1).
//   mod3-flag (one-shot)         put: store (n + 1) mod 3; wait until the slot differs from the
//                                value of the barrier before, n mod 3: a peer that is one barrier
//                                ahead is taken for arrived.
//   counter-two-shot             put: store n + 1 into the slot of set n mod 2; wait: EQ n + 1. A
//                                peer one barrier ahead writes to the other set.
//   flag-two-shot                a flag for start and one for mid. Each barrier first clears the
//                                own flag of the other one, then puts 1 and waits for EQ 1.

#include "emulator/programs/exchange.hpp"

namespace ringfence::programs {

class Pull final : public Exchange {
 public:
  explicit Pull(const Config& config);
  // Whether that is a protocol of this class.
  static bool is_one(const std::string& protocol);

  std::string slot_writer(machine::Address at, const machine::Wanted& wanted) const override;

 protected:
  void kernel(Lane& lane) override;
  std::string own_site_name(std::uint16_t site) const override;
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override;
  std::uint32_t slot_at_end(const RegionInfo& region, std::uint64_t offset) const override;

 private:
  enum class Kind : std::uint8_t { epoch, counter, mod3, two_counters, two_flags };
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
  static Kind kind_of(const std::string& protocol);
  bool two_shot() const { return kind_ == Kind::two_counters || kind_ == Kind::two_flags; }
  std::uint32_t sets() const;  // of slots
  std::uint64_t slot(std::uint32_t block, std::uint32_t set, std::uint32_t from) const;
  void barrier(Lane& lane, bool start);
  void put(Lane& lane, machine::Address to, const machine::Access& access, std::uint32_t value);

  Kind kind_;
  std::vector<std::uint32_t> staging_, pad_;  // regions, by rank
};

}  // namespace ringfence::programs
