#pragma once
// Two-phase put and notify: data is put into the peer's memory and a signal behind it, twice.
//
// Rank r owns rows as in tokenweave. In call c, for the same block on all ranks:
//   1. puts its partials of the rows of rank q into q's inbox; block barrier; notify: thread t
//      stores c + 1 into the peer's first slot; wait: own slots GE c + 1; block barrier
//   2. sums its own rows out of its inbox and puts them into every rank's `out`; block barrier;
//      second notify and wait, of the second slots
// The second notify also tells that the inbox was read, and the first one of the next call that
// the results were: so nothing else guards what is written again.

#include "emulator/programs/exchange.hpp"

namespace ringfence::programs {

class PutNotify final : public Exchange {
 public:
  explicit PutNotify(const Config& config);

 protected:
  void kernel(Lane& lane) override;
  std::string own_site_name(std::uint16_t site) const override;
  schedule::SlotName slot_of(const RegionInfo& region, std::uint64_t offset) const override;
  std::uint32_t slot_at_end(const RegionInfo&, std::uint64_t) const override {
    return payload().calls();
  }

 private:
  enum OwnSite : std::uint16_t {
    kLoadInput = kFirstOwn,
    kPutPartial,
    kPutSync,
    kNotify,
    kWait,
    kWaitSync,
    kLoadInbox,
    kPutResult,
    kResultSync,
    kSecondNotify,
    kSecondWait,
  };
  void notify(Lane& lane, bool second);

  std::uint64_t part_bytes_;                // of one sender's rows in an inbox
  std::vector<std::uint32_t> inbox_, pad_;  // regions, by rank
};

}  // namespace ringfence::programs
